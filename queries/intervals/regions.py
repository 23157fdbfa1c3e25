"""Which released values and synthetic rows a question is about: groups of some columns, within limits.

Takes a `TableBuckets`, the columns to group by and the limits; gives the number of every row's group, and the groups.
Invariant: groups are numbered in the order of the released values, the last column fastest.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.errors import QueryRefused
from engine.schema import BoolArray, Int64Array
from queries.intervals.buckets import ReleasedValues, TableBuckets
from queries.sql import near_names

MOST_GROUPS = 200_000
"""Most groups of one tabulation."""
Reach = tuple[tuple[bool, bool], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Region:
    """Groups of a table's rows."""

    by: tuple[int, ...]  # Places of the grouping columns among the table's
    allowed: tuple[BoolArray, ...]  # Per column of the table, which codes are within the limits
    choices: tuple[Int64Array, ...]  # Per grouping column, its allowed codes
    # Per column of the table, whether what lies beyond its first, and its last, released value is within
    # the limits.
    reach: Reach
    group: Int64Array  # shape (n_rows,): Group of each row; -1 where it is outside
    n_groups: int
    # Groups are made of something else than released values; `by` and `allowed` say nothing.
    is_free: bool = False

    def places(self) -> Int64Array:
        """The codes of each group, shape (n_groups, n_by)."""
        if not self.by:
            return np.zeros((self.n_groups, 0), dtype=np.int64)
        grid = np.meshgrid(*self.choices, indexing="ij")
        return np.column_stack([axis.ravel() for axis in grid]).astype(np.int64)

    def keys(self, table: TableBuckets) -> tuple[tuple[Any, ...], ...]:
        """The released values of each group."""
        values = [
            [table.released[j].values[i] for i in places]
            for j, places in zip(self.by, self.places().T.tolist(), strict=True)
        ]
        return tuple(zip(*values, strict=True)) if values else ((),)

    def is_whole(self, j: int) -> bool:
        """Whether column j is neither grouped by nor limited."""
        return j not in self.by and bool(self.allowed[j].all())


def region_of(
    table: TableBuckets,
    columns: Sequence[str],
    where: Mapping[str, Any],
    far: Mapping[tuple[int, bool], Any] | None = None,
) -> Region:
    """Find the groups.

    where: Limits by column of the table: values, or both ends of an interval (None: open).
    far: From where on a limit counts as open, by column and whether it is an upper one.
    """
    allowed = tuple(
        within(column, where[column.name])
        if column.name in where
        else np.ones(len(column.values), dtype=bool)
        for column in table.released
    )
    by = tuple(table.columns.index(name) for name in columns)
    n_groups = math.prod(int(allowed[j].sum()) for j in by)
    if n_groups > MOST_GROUPS:
        raise QueryRefused(
            f"{' x '.join(columns)} makes {n_groups:,} groups, and a tabulation has at most {MOST_GROUPS:,}: "
            "limit a column to fewer values"
        )
    reach = tuple(
        _reach(where.get(name, (None, None)), *((far or {}).get((j, up)) for up in (False, True)))
        for j, name in enumerate(table.columns)
    )
    return region_within(table, by, allowed, reach)


def _reach(limit: Any, lowest: Any, highest: Any) -> tuple[bool, bool]:
    """Whether a limit leaves each end open."""
    if not isinstance(limit, tuple):
        return False, False
    low, high = limit
    return (
        low is None or (lowest is not None and low <= lowest),
        high is None or (highest is not None and high >= highest),
    )


def region_within(
    table: TableBuckets, by: tuple[int, ...], allowed: tuple[BoolArray, ...], reach: Reach
) -> Region:
    """Number the groups and place the rows in them; parameters as in `Region`, of columns in `by` no reach matters."""
    choices = tuple(np.flatnonzero(allowed[j]) for j in by)
    inside = np.ones(len(table.rows), dtype=bool)
    for j, mask in enumerate(allowed):
        inside &= mask[table.rows[:, j]]
    group = np.zeros(len(table.rows), dtype=np.int64)
    for j, choice in zip(by, choices, strict=True):
        number = np.zeros(len(allowed[j]), dtype=np.int64)
        number[choice] = np.arange(len(choice))
        group = group * max(len(choice), 1) + number[table.rows[:, j]]
    return Region(
        by=by,
        allowed=allowed,
        choices=choices,
        reach=tuple((False, False) if j in by else both for j, both in enumerate(reach)),
        group=np.where(inside, group, -1),
        n_groups=math.prod(len(choice) for choice in choices),
    )


def is_single(region: Region) -> bool:
    """Whether every group is one combination of released values."""
    if region.is_free:
        return False
    return all(j in region.by or mask.sum() == 1 for j, mask in enumerate(region.allowed))


def within(column: ReleasedValues, limit: Any) -> BoolArray:
    """Which codes of a column are within a limit: a list of values, or a tuple of both ends of an interval."""
    if isinstance(limit, str | bytes) or not hasattr(limit, "__iter__"):
        raise QueryRefused(
            f"limit of {column.name}: {limit!r} is one value; give a list of values, or (low, high)"
        )
    if not isinstance(limit, tuple):
        return _listed(column, list(limit))
    if len(limit) != 2:
        raise QueryRefused(
            f"limit of {column.name}: an interval is (low, high), not {len(limit)} values; "
            "a list names single values"
        )
    low, high = limit
    try:
        if low is not None and high is not None and low > high:
            raise QueryRefused(
                f"limit of {column.name}: {low!r} is above {high!r}; give (low, high)"
            )
        return column.within(low, high)
    except TypeError:
        raise QueryRefused(
            f"limit of {column.name}: {low!r} to {high!r} cannot be compared with its values "
            f"({column.sql_type})"
        ) from None


def _listed(column: ReleasedValues, values: list[Any]) -> BoolArray:
    """Which codes are in a list; what is no released value is refused, as it is a mistake or nobody."""
    place = {value: i for i, value in enumerate(column.values)}
    mask = np.zeros(len(column.values), dtype=bool)
    for value in values:
        at = place.get(value) if isinstance(value, Hashable) else None
        if at is None:
            near = ", ".join(near_names(str(value), [str(v) for v in column.values]))
            raise QueryRefused(
                f"limit of {column.name}: {value!r} is not among its released values ({column.sql_type}); "
                f"near: {near or 'none'}"
            )
        mask[at] = True
    return mask
