"""The types of mode dp on both sides of the process boundary: public levels, noisy margins, structural zeros.

A level is one value of a column's public domain, one of the groups that `breaks` make of it, or null. Margins are dense
arrays over levels, with one axis per column in the order of the sorted column set. All types are frozen; their arrays
are never written to after construction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.errors import InternalError
from engine.schema import NULL_CODE, BoolArray, Column, ColumnSet, Int64Array

Measured = tuple[ColumnSet, str]
"""Columns whose combinations have figures, and the column that they are sums of; "" are counts."""
HALF = 512
"""Half the widest level of a column, in the unit of sums."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Levels:
    """The public levels of one column. Null, if the column may be null, is level 0; the others ascend."""

    column: Column
    # low, high: shape (n_levels,): Codes of each level, both ends included; for ranked columns ranks in the
    # domain. 0, 0 for null.
    low: Int64Array
    high: Int64Array
    has_null: bool  # Level 0 is null
    # Ranked columns: the public domain in the order of its ranks.
    values: tuple[object, ...] | None = None

    def __len__(self) -> int:
        return len(self.low)


@dataclass(frozen=True, kw_only=True, slots=True)
class Margin:
    """One margin as it crosses the process boundary in mode dp: a noisy count for every combination of levels."""

    # Including the columns of the strata; empty for the total, whose `n` has shape ().
    columns: ColumnSet
    n: Int64Array  # One axis per column; may be negative
    variance: float  # Of the noise of each count; 0: the count is exact
    # 0: measured flat. Otherwise a one-way margin measured as a tree: every node has this many children, or as
    # many as are left; level i is below node i // branching**k, k depths up.
    branching: int = 0
    # Noisy counts of the tree's inner depths, coarsest first; without the root (the total) and the leaves (`n`).
    tree: tuple[Int64Array, ...] = ()
    # Not counts, but sums of where rows stand inside their levels of this column: see `positions`.
    sum_of: str = ""

    @property
    def measured(self) -> Measured:
        """What identifies it among all margins."""
        return self.columns, self.sum_of


@dataclass(frozen=True, kw_only=True, slots=True)
class StructuralZero:
    """Combinations of levels that a rule of the spec declares impossible."""

    columns: ColumnSet
    cells: BoolArray  # One axis per column; True: impossible
    why: str  # The rule, for cards


def sizes_of(levels: dict[str, Levels], columns: ColumnSet) -> tuple[int, ...]:
    """Number of levels of each column."""
    return tuple(len(levels[name]) for name in columns)


def n_cells(sizes: tuple[int, ...]) -> int:
    """Number of combinations: an exact Python integer, however large."""
    return int(np.prod([int(s) for s in sizes], dtype=object)) if sizes else 1


def tree_sizes(n_leaves: int, branching: int) -> tuple[int, ...]:
    """Number of nodes at each inner depth of a tree over this many leaves, coarsest first; see `Margin.tree`."""
    sizes = []
    nodes = -(-n_leaves // branching)
    while nodes > 1:
        sizes.append(nodes)
        nodes = -(-nodes // branching)
    return tuple(reversed(sizes))


def inner_depths(n: Int64Array, branching: int, axis: int) -> tuple[Int64Array, ...]:
    """Counts of a tree's inner depths, the coarsest first, without the root and the leaves."""
    n_depths = len(tree_sizes(n.shape[axis], branching))
    return tuple(
        np.add.reduceat(n, np.arange(0, n.shape[axis], branching**up), axis=axis)
        for up in range(n_depths, 0, -1)
    )


def widest(levels: Levels) -> int:
    """Distance of the ends of the widest level, in codes; 0 where each is one value."""
    return int((levels.high - levels.low).max(initial=0))


def positions(codes: Int64Array, levels: Levels) -> Int64Array:
    """How far values stand above the middle of their level, from -HALF to HALF: half the widest level is HALF.

    So no row adds more than HALF to a sum of them, which says with the counts of levels what the values add up to.
    Null counts 0.
    """
    level, wide = level_of(codes, levels), widest(levels)
    low, high = levels.low[level], levels.high[level]
    within = np.where(codes == NULL_CODE, 0, 2.0 * (codes - low) - (high - low))
    return np.rint(HALF * within / max(wide, 1)).astype(np.int64)


def level_of(codes: Int64Array, levels: Levels) -> Int64Array:
    """The level that each code lies in."""
    first = int(levels.has_null)
    low, high = levels.low[first:], levels.high[first:]
    at = np.searchsorted(low, codes, side="right") - 1
    is_null = codes == NULL_CODE
    lies = (at >= 0) & (codes <= high[at]) if len(low) else np.zeros(len(codes), dtype=bool)
    if not (np.where(is_null, levels.has_null, lies)).all():
        raise InternalError(f"column {levels.column.name!r}: a row lies in none of its levels")
    return np.where(is_null, 0, at + first)
