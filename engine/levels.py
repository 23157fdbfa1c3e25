"""The nouns of dp mode that both sides of the wall share: public levels, noisy margins, structural zeros.

A level is one value of a column's public domain, or one of the groups that `breaks` cut it into, or null. Margins are
dense arrays over levels, one axis a column in the order of the sorted column set. All nouns are frozen; arrays inside
are never written to after construction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.schema import BoolArray, Column, ColumnSet, Int64Array


@dataclass(frozen=True, kw_only=True, slots=True)
class Levels:
    """The public levels of one column. Null, where the column may be null, is level 0; the others ascend.

    Attributes
    ----------
    low, high : ndarray of int64, shape (n_levels,)
        Codes of each level, both ends included; for ranked columns ranks in the domain. 0, 0 for null.
    has_null : bool
        Level 0 is null.
    values : tuple or None
        Ranked columns: the public domain in the order of its ranks.
    """

    column: Column
    low: Int64Array
    high: Int64Array
    has_null: bool
    values: tuple[object, ...] | None = None

    def __len__(self) -> int:
        return len(self.low)


@dataclass(frozen=True, kw_only=True, slots=True)
class Margin:
    """What crosses the wall in dp mode for one margin: a noisy count for every combination of levels.

    Attributes
    ----------
    columns : ColumnSet
        Columns of the strata among them; empty for the total, whose `n` has shape ().
    n : ndarray of int64
        One axis a column; may be negative.
    variance : float
        Of the noise of each count; 0: the count is exact.
    branching : int
        0: measured once, flat. Else a one-way margin measured as a tree: every node holds so many nodes of the depth
        below, or as many leaves as are left; level i stands under node i // branching**k, k depths up.
    tree : tuple of ndarray of int64
        Noisy counts of the tree's inner depths, the coarsest first; without the root (the total) and the leaves (`n`).
    """

    columns: ColumnSet
    n: Int64Array
    variance: float
    branching: int = 0
    tree: tuple[Int64Array, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class StructuralZero:
    """Combinations of levels that a rule of the spec declares impossible.

    Attributes
    ----------
    cells : ndarray of bool
        One axis a column: True where nobody can be.
    why : str
        The rule, for cards.
    """

    columns: ColumnSet
    cells: BoolArray
    why: str


def sizes_of(levels: dict[str, Levels], columns: ColumnSet) -> tuple[int, ...]:
    """Number of levels of each column."""
    return tuple(len(levels[name]) for name in columns)


def n_cells(sizes: tuple[int, ...]) -> int:
    """Number of combinations: an exact Python integer, however large."""
    return int(np.prod([int(s) for s in sizes], dtype=object)) if sizes else 1


def tree_sizes(n_leaves: int, branching: int) -> tuple[int, ...]:
    """Number of nodes at each inner depth of a tree over so many leaves, the coarsest first; see `Margin.tree`."""
    sizes = []
    nodes = -(-n_leaves // branching)
    while nodes > 1:
        sizes.append(nodes)
        nodes = -(-nodes // branching)
    return tuple(reversed(sizes))
