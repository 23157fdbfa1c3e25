"""Records of several tables under common numbers, and the table that suits an attacker best.

Takes a `Paired` and tables of codes; gives one number a row for equal combinations of values, however many columns
there are. Invariant: rows of any of the tables have the same number if and only if they are equal in all columns.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from engine.evaluation.data.paired import Coded, Numbers, Paired, n_codes

_LARGEST = 1 << 62
_DENSE = 16
"""Numbers of at most so many times as many rows are counted in an array of all that could be; others are sorted."""


def row_ids(paired: Paired, tables: Sequence[Coded], columns: Collection[str]) -> list[Numbers]:
    """Number the rows of several tables by their combination of values.

    Returns: For each table one number a row, from 0 without gaps over all tables together.
    """
    ends = np.cumsum([len(table.n) for table in tables])
    ids, size = np.zeros(int(ends[-1]), np.int64), 1
    for name in columns:
        n = n_codes(paired, name)
        if size > _LARGEST // n:
            ids, size = _numbered(ids, size)
        code = np.concatenate([table.codes[name] for table in tables])
        ids, size = ids * n + code, size * n
    return np.split(_numbered(ids, size)[0], ends[:-1])


def holding(paired: Paired, known: Collection[str]) -> Coded | None:
    """Return the table with most of the known columns, then most columns, among those that have another column too.

    Returns: None: no table has a known column and one that is not.
    """
    wanted = set(known)
    fitting = [
        table
        for table in paired.tables.values()
        if wanted & set(table.columns) and set(table.columns) - wanted
    ]
    return max(
        fitting,
        key=lambda t: (len(wanted & set(t.columns)), len(t.columns), len(t.n)),
        default=None,
    )


def lacking(people: Coded, table: Coded) -> str:
    """Say why strangers cannot be attacked by a table: no rows, or columns that they lack; empty: they can."""
    if not len(people.n) or table.total == 0:
        return "there are too few rows for a control"
    missing = [c for c in table.columns if c not in people.codes]
    return f"the control rows lack {', '.join(missing)}" if missing else ""


def _numbered(ids: Numbers, size: int) -> tuple[Numbers, int]:
    """Numbers from 0 without gaps in the place of others below a size, in their order, and how many there are."""
    if size <= _DENSE * len(ids):
        is_there = np.zeros(size, np.bool_)
        is_there[ids] = True
        place = np.cumsum(is_there) - 1
        return place[ids], max(int(place[-1]) + 1, 1)
    distinct, inverse = np.unique(ids, return_inverse=True)
    return inverse.astype(np.int64).reshape(-1), max(len(distinct), 1)
