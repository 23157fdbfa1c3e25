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
            made += board.exchange(batch, columns[j])
    return made


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
