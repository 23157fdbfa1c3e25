"""Rows that controlled rounding could not place, so that no table loses them.

Whole-number tables can rule each other out: a cell of one margin whose every completion another margin holds at 0.
What rounding has too much of a letter is taken out again, and all rows that are missing get the letters that are short
of rows, where possible such that no narrower table rules the pair out. Afterwards the table has every letter of every
column exactly as often as the one-way tables say.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.borders import Marks, possible
from engine.candidates import Letters, Narrower, lexicographic, position_in, sums_in
from engine.schema import Int64Array

PAIRINGS = 1 << 20
"""Most combinations of missing rows and short letters that are weighed; above it they are put together in order."""


def without_surplus(
    letters: Letters, n: Int64Array, column: int, one_way: Int64Array
) -> Int64Array:
    """Take rows out where one column has more of a letter than published, from its smallest cells first.

    Parameters
    ----------
    letters : ndarray of int32, shape (n_cells, n_columns)
    n : ndarray of int64, shape (n_cells,)
    column : int
    one_way : ndarray of int64, shape (n_letters,)
        Published counts of that column.

    Returns
    -------
    ndarray of int64, shape (n_cells,)
    """
    have = np.bincount(letters[:, column], weights=n, minlength=len(one_way)).astype(np.int64)
    surplus = np.maximum(have - one_way, 0)
    if not surplus.any():
        return n
    order = np.lexsort((n, letters[:, column]))
    letter, rows = letters[order, column], n[order]
    before = np.cumsum(rows) - rows
    before -= before[np.searchsorted(letter, letter)]
    out = n.copy()
    out[order] -= np.clip(surplus[letter] - before, 0, rows)
    return out


def place_leftovers(
    letters: Letters,
    n: Int64Array,
    without: Sequence[Narrower],
    last: int,
    one_way: Int64Array,
    marks: tuple[Marks, ...] = (),
) -> tuple[Letters, Int64Array]:
    """Give rows that are missing in the table without column `last` the letters of it that are short of rows.

    Parameters
    ----------
    letters : ndarray of int32, shape (n_cells, n_columns)
    n : ndarray of int64, shape (n_cells,)
    without : sequence of Narrower
        Entry j is the published table without column j.
    last : int
    one_way : ndarray of int64, shape (n_letters,)
        Published counts of column `last`; none may be exceeded.
    marks : tuple of dict
        Tables of two columns: of each column's letters in the declared universes.

    Returns
    -------
    letters, n : as given, with rows added, in lexicographic order
    """
    fibres = without[last]
    short = np.maximum(fibres.n - sums_in(fibres, np.delete(letters, last, axis=1), n)[0], 0)
    rows = np.repeat(fibres.letters, short, axis=0)
    have = np.bincount(letters[:, last], weights=n, minlength=len(one_way)).astype(np.int64)
    lacking = np.maximum(one_way - have, 0)
    if len(rows):
        letter = _paired(rows, lacking, without, last, marks)
        fresh = np.insert(rows[: len(letter)], last, letter, axis=1).astype(np.int32)
        letters = np.concatenate([letters, fresh])
        n = np.concatenate([n, np.ones(len(fresh), dtype=np.int64)])
    order = lexicographic(letters)
    letters, n = letters[order], n[order]
    first = np.flatnonzero(np.append(True, (letters[1:] != letters[:-1]).any(axis=1))[: len(n)])
    placed = np.add.reduceat(n, first) if len(first) else n
    return letters[first[placed > 0]], placed[placed > 0]


def _paired(
    rows: Letters,
    lacking: Int64Array,
    without: Sequence[Narrower],
    last: int,
    marks: tuple[Marks, ...],
) -> Int64Array:
    """A letter for each row, none more often than it is lacking; first those that most narrower tables allow."""
    wanted = np.flatnonzero(lacking)
    left = lacking[wanted].copy()
    count = min(len(rows), int(left.sum()))
    if len(rows) * len(wanted) > PAIRINGS:
        return np.repeat(wanted, left)[:count]
    allowed = _allowed(rows, wanted, without, last, marks)
    letter = np.full(count, -1, dtype=np.int64)
    open_rows = np.arange(count)
    while len(open_rows):  # each turn fills at least one letter, or all rows that are open
        free = np.flatnonzero(left)
        best = free[np.argmax(allowed[open_rows][:, free], axis=1)]
        order = np.argsort(best, kind="stable")
        chosen = best[order]
        taken = np.arange(len(chosen)) - np.searchsorted(chosen, chosen) < left[chosen]
        placed = order[taken]
        letter[open_rows[placed]] = wanted[best[placed]]
        left -= np.bincount(best[placed], minlength=len(left))
        open_rows = np.delete(open_rows, placed)
    return letter


def _allowed(
    rows: Letters,
    wanted: Int64Array,
    without: Sequence[Narrower],
    last: int,
    marks: tuple[Marks, ...],
) -> Int64Array:
    """How many narrower tables (of two columns: universes) allow each row and letter, shape (n_rows, n_wanted)."""
    row, letter = (axis.ravel() for axis in np.indices((len(rows), len(wanted))))
    whole = np.insert(rows[row], last, wanted[letter], axis=1)
    count = possible(whole, marks).astype(np.int64)
    for j, table in enumerate(without):
        if j != last and whole.shape[1] > 2:  # a single letter always stands in its table
            cells = np.delete(whole, j, axis=1)
            both = np.concatenate([table.letters, cells]).max(axis=0, initial=0)
            count += position_in(table, cells, tuple(int(size) + 1 for size in both)) >= 0
    return count.reshape(len(rows), len(wanted))
