"""Which column sets are counted from the rows, and which are summed from the cells of a wider one.

Takes the column sets wanted and how many codes each column can have; gives, for each set, the one whose cells it is
summed from. Counting costs a look at all rows, summing a look at the cells: the same numbers, as sums of whole
numbers do not depend on their order. Wider sets nobody asked for are counted where they replace several looks.
The data cube's lattice of views (Harinarayan, Rajaraman, Ullman 1996, doi:10.1145/233269.233333), chosen greedily.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from engine.schema import ColumnSet, column_set

FEWER = 8
"""Cells are summed where there are at least so many times as many rows."""
UNASKED_FEWER, UNASKED_CELLS = 64, 1 << 20
"""The same of sets nobody asked for; and their most cells. To count a million cells costs about twice what 80,000 cost;
rows that memory does not hold cost as much again to be read, for each look."""
_NEAR = 32
"""Of the sets begun, so many last ones are looked at when a set is to be joined to one."""


def summed_from(
    column_sets: Sequence[ColumnSet], sizes: Mapping[str, int], n_rows: int
) -> list[ColumnSet]:
    """For each column set the one to sum it from: itself where the rows are to be counted for it alone."""
    chosen: dict[ColumnSet, ColumnSet] = {}
    asked = sorted(set(column_sets), key=lambda s: (-len(s), -_cells(s, sizes), s))
    wide: list[frozenset[str]] = []  # asked for, and worth summing from
    joined: list[frozenset[str]] = []  # what sets are joined to
    members: dict[frozenset[str], list[ColumnSet]] = {}
    for columns in asked:
        own, cells = frozenset(columns), _cells(columns, sizes)
        over = [base for base in (*wide, *joined) if own <= base]
        if over:
            base = min(over, key=lambda b: (_cells(b, sizes), sorted(b)))
        elif cells <= min(n_rows // UNASKED_FEWER, UNASKED_CELLS):
            base = _joined(own, joined, members, sizes, n_rows)
        else:
            base = own
            if cells <= n_rows // FEWER:
                wide.append(own)
        members.setdefault(base, []).append(columns)
    for base, of_base in members.items():
        chosen |= dict.fromkeys(of_base, column_set(sorted(base)))
    return [chosen[columns] for columns in column_sets]


def looks_at_rows(
    column_sets: Sequence[ColumnSet], sizes: Mapping[str, int], n_rows: int
) -> list[bool]:
    """Whether the rows are looked at when a column set has its turn: it is the first that is summed from its base.

    Parameters as of `summed_from`.
    """
    seen, looks = set[ColumnSet](), []
    for base in summed_from(column_sets, sizes, n_rows):
        looks.append(base not in seen)
        seen.add(base)
    return looks


def _joined(
    own: frozenset[str],
    joined: list[frozenset[str]],
    members: dict[frozenset[str], list[ColumnSet]],
    sizes: Mapping[str, int],
    n_rows: int,
) -> frozenset[str]:
    """Join a set to the one begun that grows least by it, or begin one."""
    most = min(n_rows // UNASKED_FEWER, UNASKED_CELLS)
    near = [base for base in joined[-_NEAR:] if _cells(base | own, sizes) <= most]
    if not near:
        joined.append(own)
        return own
    base = min(near, key=lambda b: (_cells(b | own, sizes), sorted(b)))
    wider = base | own
    joined[joined.index(base)] = wider
    members.setdefault(wider, []).extend(members.pop(base))
    return wider


def _cells(columns: frozenset[str] | ColumnSet, sizes: Mapping[str, int]) -> float:
    """Most distinct combinations of the columns."""
    return math.prod((sizes.get(name, math.inf) for name in columns), start=1.0)
