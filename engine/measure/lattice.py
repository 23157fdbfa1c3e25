"""Which column sets are counted from the rows, and which are rolled up from the cells of a wider one.

Takes the column sets wanted and how many codes each column can have; gives, for each set, the one whose cells it is
rolled up from. Counting costs a scan of the rows, a roll-up a scan of the cells: the same numbers, as sums of whole
numbers do not depend on their order. Further, wider sets are counted where they replace several scans.
The data cube's lattice of views (Harinarayan, Rajaraman, Ullman 1996, doi:10.1145/233269.233333), chosen greedily.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from engine.schema import ColumnSet, column_set

FEWER = 8
"""Cells are rolled up where there are at least so many times as many rows."""
EXTRA_FEWER, EXTRA_CELLS = 64, 1 << 20
"""The same of further sets; and their most cells. To count a million cells costs about twice what 80,000 cost; rows
that memory does not hold cost as much again to be read, for each scan."""
_NEAR = 32
"""A set is joined to one of so many sets that were begun last."""


def rollup_bases(
    column_sets: Sequence[ColumnSet], sizes: Mapping[str, int], n_rows: int
) -> list[ColumnSet]:
    """For each column set the one to roll it up from: itself where the rows are to be counted for it alone."""
    chosen: dict[ColumnSet, ColumnSet] = {}
    widest_first = sorted(set(column_sets), key=lambda s: (-len(s), -_cells(s, sizes), s))
    wide: list[frozenset[str]] = []  # wanted, and worth rolling up from
    joined: list[frozenset[str]] = []  # what sets are joined to
    members: dict[frozenset[str], list[ColumnSet]] = {}
    for columns in widest_first:
        own, cells = frozenset(columns), _cells(columns, sizes)
        over = [base for base in (*wide, *joined) if own <= base]
        if over:
            base = min(over, key=lambda b: (_cells(b, sizes), sorted(b)))
        elif cells <= min(n_rows // EXTRA_FEWER, EXTRA_CELLS):
            base = _joined(own, joined, members, sizes, n_rows)
        else:
            base = own
            if cells <= n_rows // FEWER:
                wide.append(own)
        members.setdefault(base, []).append(columns)
    for base, of_base in members.items():
        chosen |= dict.fromkeys(of_base, column_set(sorted(base)))
    return [chosen[columns] for columns in column_sets]


def _joined(
    own: frozenset[str],
    joined: list[frozenset[str]],
    members: dict[frozenset[str], list[ColumnSet]],
    sizes: Mapping[str, int],
    n_rows: int,
) -> frozenset[str]:
    """Join a set to the one begun that grows least by it, or begin one."""
    most = min(n_rows // EXTRA_FEWER, EXTRA_CELLS)
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
