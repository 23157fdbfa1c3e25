"""Rounding repair: rows that controlled rounding could not place, so that no table loses them.

Whole-number tables can rule each other out: a cell of one margin whose every completion another margin holds at 0.
What rounding has too much of a code is taken out again, and all rows that are missing get the codes that are short
of rows, where possible such that no narrower table rules the pair out. Afterwards the table has every code of every
column exactly as often as the one-way tables say.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.fit.borders import Marks, possible
from engine.fit.candidates import Codes, Narrower, lexicographic, position_in, sums_in
from engine.schema import Int64Array

PAIRINGS = 1 << 20
"""Most combinations of missing rows and short codes that are weighed; above it they are put together in order."""


def remove_surplus(codes: Codes, n: Int64Array, column: int, one_way: Int64Array) -> Int64Array:
    """Take rows out where one column has more of a code than published, from its smallest cells first."""
    have = np.bincount(codes[:, column], weights=n, minlength=len(one_way)).astype(np.int64)
    surplus = np.maximum(have - one_way, 0)
    if not surplus.any():
        return n
    order = np.lexsort((n, codes[:, column]))
    code, rows = codes[order, column], n[order]
    before = np.cumsum(rows) - rows
    before -= before[np.searchsorted(code, code)]
    out = n.copy()
    out[order] -= np.clip(surplus[code] - before, 0, rows)
    return out


def place_missing_rows(
    codes: Codes,
    n: Int64Array,
    without: Sequence[Narrower],
    last: int,
    one_way: Int64Array,
    marks: tuple[Marks, ...] = (),
) -> tuple[Codes, Int64Array]:
    """Give rows that are missing in the table without column `last` the codes of it that are short of rows.

    without: Entry j is the published table without column j.
    one_way: Published counts of column `last`; none may be exceeded.
    marks: Tables of two columns: of each column's codes in the declared universes.
    """
    fibres = without[last]
    short = np.maximum(fibres.n - sums_in(fibres, np.delete(codes, last, axis=1), n)[0], 0)
    rows = np.repeat(fibres.codes, short, axis=0)
    have = np.bincount(codes[:, last], weights=n, minlength=len(one_way)).astype(np.int64)
    lacking = np.maximum(one_way - have, 0)
    if len(rows):
        code = _paired(rows, lacking, without, last, marks)
        fresh = np.insert(rows[: len(code)], last, code, axis=1).astype(np.int32)
        codes = np.concatenate([codes, fresh])
        n = np.concatenate([n, np.ones(len(fresh), dtype=np.int64)])
    order = lexicographic(codes)
    codes, n = codes[order], n[order]
    first = np.flatnonzero(np.append(True, (codes[1:] != codes[:-1]).any(axis=1))[: len(n)])
    placed = np.add.reduceat(n, first) if len(first) else n
    return codes[first[placed > 0]], placed[placed > 0]


def _paired(
    rows: Codes,
    lacking: Int64Array,
    without: Sequence[Narrower],
    last: int,
    marks: tuple[Marks, ...],
) -> Int64Array:
    """A code for each row, none more often than it is lacking; first those that most narrower tables allow."""
    wanted = np.flatnonzero(lacking)
    left = lacking[wanted].copy()
    count = min(len(rows), int(left.sum()))
    if len(rows) * len(wanted) > PAIRINGS:
        return np.repeat(wanted, left)[:count]
    allowed = _allowed(rows, wanted, without, last, marks)
    code = np.full(count, -1, dtype=np.int64)
    open_rows = np.arange(count)
    while len(open_rows):  # each turn fills at least one code, or all rows that are open
        free = np.flatnonzero(left)
        best = free[np.argmax(allowed[open_rows][:, free], axis=1)]
        order = np.argsort(best, kind="stable")
        chosen = best[order]
        taken = np.arange(len(chosen)) - np.searchsorted(chosen, chosen) < left[chosen]
        placed = order[taken]
        code[open_rows[placed]] = wanted[best[placed]]
        left -= np.bincount(best[placed], minlength=len(left))
        open_rows = np.delete(open_rows, placed)
    return code


def _allowed(
    rows: Codes,
    wanted: Int64Array,
    without: Sequence[Narrower],
    last: int,
    marks: tuple[Marks, ...],
) -> Int64Array:
    """How many narrower tables (of two columns: universes) allow each row and code, shape (n_rows, n_wanted)."""
    row, code = (axis.ravel() for axis in np.indices((len(rows), len(wanted))))
    whole = np.insert(rows[row], last, wanted[code], axis=1)
    count = possible(whole, marks).astype(np.int64)
    for j, table in enumerate(without):
        if j != last and whole.shape[1] > 2:  # a single code always stands in its table
            cells = np.delete(whole, j, axis=1)
            both = np.concatenate([table.codes, cells]).max(axis=0, initial=0)
            count += position_in(table, cells, tuple(int(size) + 1 for size in both)) >= 0
    return count.reshape(len(rows), len(wanted))
