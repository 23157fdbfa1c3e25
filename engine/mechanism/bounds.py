"""How many rows of one entity count: the declared bounds, from which the noise of every bucket follows.

Takes what the spec declares; gives the bound of every depth of a column set. Invariant: public facts alone decide it
(declarations, the levels of ranges), so that nobody in the data, however heavy, moves a published noise scale.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from engine.ranges import levels_at
from engine.schema import Column, ColumnSet


@dataclass(frozen=True, kw_only=True, slots=True)
class RowBounds:
    """The most rows that one entity contributes to a bucket."""

    most: int | None  # To any bucket; a power of two. None: not declared, each entity has one row.
    # To a single value of a column, for the columns that declare it; powers of two.
    of_values: Mapping[str, int]

    def at(self, columns: ColumnSet, tops: tuple[int, ...]) -> tuple[int, ...]:
        """The bound of every depth of a column set, largest first.

        A range of 2**level values holds at most 2**level times the rows that one of them may. A null and the
        placeholder are single values at every depth; the bound of the depth holds for them too.
        """
        most = 1 if self.most is None else self.most
        if not self.of_values.keys() & {*columns}:
            return (most,) * (max(tops, default=0) + 1)
        out = []
        for depth in range(max(tops, default=0) + 1):
            levels = zip(columns, levels_at(tops, depth), strict=True)
            within = (
                self.of_values[name] << level for name, level in levels if name in self.of_values
            )
            out.append(min([most, *within]))
        return tuple(out)


def row_bounds(most: int | None, columns: Iterable[Column]) -> RowBounds:
    """The bounds that a spec declares."""
    declared = {c.name: c.max_rows for c in columns if c.max_rows is not None}
    return RowBounds(most=most, of_values=declared)
