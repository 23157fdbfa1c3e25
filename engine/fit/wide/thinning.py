"""Many rows: searched as fewer, each of which stands for several, then laid out in full.

One-column counts and a step in, thinner counts out; thin rows in, all rows out. Every column's counts are those of the
supports again: where copies of thin rows show a level too often, some of them take a level that is missing, those whose
other values it goes with best.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.fit.wide.board import Board
from engine.fit.wide.kernels import MATCHES
from engine.fit.wide.search import MOST_AT_ONCE, matched_sweep
from engine.fit.wide.shuffles import Shuffles
from engine.schema import Int64Array

MOST_ROWS = 100_000
"""So many rows are searched one by one; of more, each stands for several."""
POLISHED = 200_000
"""Most rows that are searched again at a time once all of them are there."""
POLISHES = 2
_NEVER = 1 << 60


def step_of(n_rows: int) -> int:
    """How many rows one thin row stands for."""
    return max(-(-n_rows // MOST_ROWS), 1)


def thinned(single: Int64Array, step: int) -> Int64Array:
    """Counts of a column in thin rows: by largest remainders, so that their sum is that of every other column."""
    n_rows = int(single.sum())
    wanted = -(-n_rows // step)
    whole, rest = np.divmod(single * wanted, max(n_rows, 1))
    out: Int64Array = whole.astype(np.int64)
    out[np.argsort(-rest, kind="stable")[: wanted - int(out.sum())]] += 1
    return out


def laid_out(thin: Int64Array, step: int, n_rows: int, shuffles: Shuffles) -> Int64Array:
    """Every thin row so often as it stands for, less what is too many."""
    n_thin = thin.shape[1]
    times = np.full(n_thin, step)
    times[shuffles.order(n_thin)[: n_thin * step - n_rows]] -= 1
    return np.repeat(thin, times, axis=1)


def settled(board: Board, singles: Sequence[Int64Array], shuffles: Shuffles) -> Int64Array:
    """Give every column its counts; return the rows that were changed."""
    changed = [np.empty(0, np.int64)]
    for column, single in enumerate(singles):
        level = board.rows[column]
        over = np.bincount(level, minlength=len(single)) - single
        order = shuffles.grouped(level)
        sorted_levels = level[order]
        nth = np.arange(len(level)) - np.searchsorted(sorted_levels, sorted_levels)
        leaving = order[nth < np.maximum(over, 0)[sorted_levels]]
        missing = np.repeat(np.arange(len(single)), np.maximum(-over, 0))
        leaving = leaving[shuffles.order(len(leaving))]
        missing = missing[shuffles.order(len(missing))]
        for begin in range(0, len(leaving), MOST_AT_ONCE):
            some = slice(begin, begin + MOST_AT_ONCE)
            _take(board, column, leaving[some], missing[some])
        changed.append(leaving)
    return np.unique(np.concatenate(changed))


def polish(board: Board, changed: Int64Array, shuffles: Shuffles) -> None:
    """Let rows that were changed, and others up to `POLISHED` of them, exchange values."""
    for _ in range(POLISHES):
        others = shuffles.order(board.rows.shape[1])[: max(POLISHED - len(changed), 0)]
        matched_sweep(board, shuffles, np.union1d(changed, others))


def _take(board: Board, column: int, at: Int64Array, levels: Int64Array) -> None:
    """Let rows take levels of a column, each the one that goes best with it, as far as it is free."""
    gains = np.zeros((len(at), len(levels)), dtype=np.int64)
    if board.has_tables(column):
        gains = board.gains(at, column)[:, levels]
    gains -= gains.max() + 1  # every level is to be taken
    one, other = _matched(gains)
    left = np.setdiff1d(np.arange(len(at)), one)
    free = np.setdiff1d(np.arange(len(levels)), other)
    out = np.empty(len(at), dtype=np.int64)
    out[one], out[left] = levels[other], levels[free]
    board.change_level(at, column, out)


def _matched(gains: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Pair rows with columns of a matrix where its entry is below 0, the lowest first, none twice."""
    free = np.arange(len(gains))
    ones, others = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for _ in range(MATCHES):
        if not len(free) or not gains.shape[1]:
            break
        choice = gains[free].argmin(axis=1)
        value = gains[free, choice]
        wants = value < 0
        free, choice, value = free[wants], choice[wants], value[wants]
        order = np.argsort(value, kind="stable")
        free, choice = free[order], choice[order]
        taken, first = np.unique(choice, return_index=True)
        ones.append(free[first])
        others.append(taken)
        gains[:, taken] = _NEVER
        free = np.delete(free, first)
    return np.concatenate(ones), np.concatenate(others)
