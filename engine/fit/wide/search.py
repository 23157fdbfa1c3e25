"""Rows exchange values until their tables come near to the targets; no column's counts ever change.

A board of rows and a keyed shuffle in; the board's rows are changed in place. Two kinds of moves. In a matched exchange
half of a batch of rows offers a column's levels to the other half: what every exchange between them would gain is read
off two short lists of prices, and the best ones are made that share no row. In a block exchange rows that agree in a
column of the tree exchange all that hangs below it, such as everything that is blank for children. Whole numbers
decide.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.fit.compiled.loops import EXCHANGES, compiled
from engine.fit.wide.board import Board
from engine.fit.wide.shuffles import Shuffles
from engine.fit.wide.start import Edge
from engine.schema import BoolArray, Int64Array

MOST_AT_ONCE, FEWEST_AT_ONCE = 512, 16
"""Rows of a batch."""
SHARE_AT_ONCE = 50
"""One row in so many is in a batch: exchanges of a batch do not see each other, more would overshoot."""
BLOCK_PAIRS = 2048
"""Most pairs of rows that try a block exchange at once."""
MATCHES = 6
"""Turns in which those whose choice was taken choose again."""
_NEVER = 1 << 60


def matched_sweep(board: Board, shuffles: Shuffles, among: Int64Array | None = None) -> int:
    """Let every row take part in one batch, with every column; return the number of exchanges."""
    n_rows = board.rows.shape[1] if among is None else len(among)
    if n_rows < 2:
        return 0
    columns = [j for j, size in enumerate(board.sizes) if size > 1 and board.has_tables(j)]
    order = shuffles.order(n_rows)
    order = order if among is None else among[order]
    batches = np.array_split(order, max(n_rows // batch_size(n_rows), 1))
    turns = shuffles.orders(len(batches), len(columns))
    made = 0
    for batch, turn in zip(batches, turns, strict=True):
        for j in turn:
            made += matched_exchange(board, batch, columns[j])
    return made


def matched_exchange(
    board: Board, batch: Int64Array, column: int, low: int = 0, high: int | None = None
) -> int:
    """Exchange levels of a column between the halves of a batch where that lowers the error; return how often."""
    high = board.sizes[column] if high is None else high
    half = len(batch) // 2
    if not half:
        return 0
    kernels = compiled(EXCHANGES)
    if kernels is not None:
        found = kernels.exchange(batch, column, low, high, MATCHES, *board.arrays(column))
        return int(found)
    gains = board.gains(batch, column, low, high)
    level = board.rows[column, batch] - low
    # An exchange gains what both rows gain alone; of rows alike otherwise this thinks too little, never too much.
    together = gains[:half][:, level[half:]]
    together += gains[half:][:, level[:half]].T
    together[level[:half, np.newaxis] == level[half:]] = _NEVER
    one, other = matched(together)
    if len(one):
        board.exchange_level(batch[one], batch[half + other], column)
    return len(one)


def matched(gains: Int64Array) -> tuple[Int64Array, Int64Array]:
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


def block_sweep(board: Board, blocks: Sequence[tuple[BoolArray, int]], shuffles: Shuffles) -> int:
    """Let pairs of rows exchange blocks of columns where that lowers the error; return the number of exchanges.

    blocks: As `blocks_of` gives them: columns, and the one in which partners agree.
    """
    made = 0
    for block, agree in blocks:
        order = shuffles.grouped(board.rows[agree])
        one, other = order[0 : len(order) - 1 : 2], order[1::2]
        mixed = shuffles.order(len(one))
        for part in np.array_split(mixed, -(-len(mixed) // BLOCK_PAIRS) or 1):
            gains = board.exchange_gains(one[part], other[part], block)
            chosen = part[gains < 0]
            if len(chosen):
                board.exchange_block(one[chosen], other[chosen], block)
                made += len(chosen)
    return made


def blocks_of(edges: Sequence[Edge]) -> list[tuple[BoolArray, int]]:
    """Blocks of columns that move together: all that hangs below an edge of the tree, with the edge's upper end."""
    out = []
    for child, parent in edges:
        if parent < 0:
            continue
        block = np.zeros(len(edges), dtype=bool)
        block[child] = True
        for lower, upper in edges:  # parents come first
            if upper >= 0 and block[upper]:
                block[lower] = True
        if block.sum() > 1:
            out.append((block, parent))
    return out


def batch_size(n_rows: int) -> int:
    """Rows of a batch."""
    return int(np.clip(n_rows // SHARE_AT_ONCE, FEWEST_AT_ONCE, MOST_AT_ONCE))
