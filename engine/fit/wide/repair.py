"""Rows with an impossible pair of values find partners for an exchange that leaves fewer such pairs.

Sweeps leave few of these rows: a batch may not hold the partner that a row needs. Here each of them looks at many
partners, for its columns alone and for the blocks of the tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from engine.fit.wide.board import IMPOSSIBLE, Board, Target
from engine.fit.wide.shuffles import Shuffles
from engine.schema import BoolArray, Int64Array

ROUNDS, PARTNERS = 8, 4096
"""Most rounds, and partners that a row looks at for each block in a round."""
PATIENCE = 3
"""Rounds without an exchange after which a row is left as it is."""
MOST = 2000
"""Most rows that are repaired in a round."""
NEAR, SUBSETS = 10, 4
"""Columns that may move together with those of an impossible pair, and sets of them that are tried in a round."""
LAST_PARTNERS, LAST_NEAR, LAST_SUBSETS = 1 << 16, 16, 12
"""The same for the few rows that are left then."""
STRICT = 1 << 36
"""Price of a barred pair: above all that tables can make up for."""
WANTED = 5
"""What is so much against is repaired, too, as far as can be."""


def impossible_columns(
    rows: Int64Array, targets: Sequence[Target], least: int = IMPOSSIBLE
) -> BoolArray:
    """Where a column of a row is in a pair that at least so much is against; shape (n_columns, n_rows)."""
    wrong = np.zeros(rows.shape, dtype=bool)
    for target in targets:
        if target.is_strict:
            is_none = target.barred[tuple(rows[axis] for axis in target.axes)] >= least
            for axis in target.axes:
                wrong[axis] |= is_none
    return wrong


def repair(
    board: Board, targets: Sequence[Target], near: Sequence[Int64Array], shuffles: Shuffles
) -> int:
    """Exchange values of rows with impossible pairs; return how many such rows are left.

    near: For each column all columns, by how much they have to do with it: itself first.
    """
    _rounds(board, targets, near, shuffles, _Reach(WANTED, PARTNERS, NEAR, SUBSETS))
    _rounds(
        board, targets, near, shuffles, _Reach(IMPOSSIBLE, LAST_PARTNERS, LAST_NEAR, LAST_SUBSETS)
    )
    return int(impossible_columns(board.rows, targets).any(axis=0).sum())


class _Reach(NamedTuple):
    """What is repaired, and how far a row looks for it: as the constants above."""

    least: int
    partners: int
    near: int
    subsets: int


def _rounds(
    board: Board,
    targets: Sequence[Target],
    near: Sequence[Int64Array],
    shuffles: Shuffles,
    reach: _Reach,
) -> None:
    """Go through the rows with impossible pairs until none finds an exchange, or often enough."""
    idle = np.zeros(board.rows.shape[1], dtype=np.int64)
    for _ in range(ROUNDS):
        wrong = impossible_columns(board.rows, targets, reach.least)
        bad = np.flatnonzero(wrong.any(axis=0) & (idle < PATIENCE))[:MOST]
        if not len(bad):
            break
        for row in bad.tolist():
            made = _repair_row(board, row, np.flatnonzero(wrong[:, row]), near, shuffles, reach)
            idle[row] += not made


def _repair_row(
    board: Board,
    row: int,
    wrong: Int64Array,
    near: Sequence[Int64Array],
    shuffles: Shuffles,
    reach: _Reach,
) -> bool:
    """Make the exchange of a row that lowers the price most; whether any does."""
    partners = shuffles.order(board.rows.shape[1])[: reach.partners]
    partners = partners[partners != row]
    best, found = 0, None
    for block in _blocks(len(board.rows), wrong, near, shuffles, reach) if len(partners) else ():
        gains = board.exchange_gains(np.full_like(partners, row), partners, block)
        at = int(gains.argmin())
        if gains[at] < best:
            best, found = int(gains[at]), (partners[at : at + 1], block)
    if found is None:
        return False
    board.exchange_block(np.array([row]), *found)
    return True


def _blocks(
    n_columns: int,
    wrong: Int64Array,
    near: Sequence[Int64Array],
    shuffles: Shuffles,
    reach: _Reach,
) -> list[BoolArray]:
    """Each column of an impossible pair alone, and some sets of columns near them that part the pair."""
    blocks = []
    for number, column in enumerate(wrong):
        block = np.arange(n_columns) == column
        blocks.append(block)
        for _ in range(reach.subsets if number < 3 else 0):
            more = near[column][1 : reach.near]
            order = shuffles.order(len(more))
            larger = block.copy()
            larger[more[order[: 1 + order[-1] % max(len(more) // 2, 1)]]] = True
            if not larger[wrong].all():
                blocks.append(larger)
    return blocks
