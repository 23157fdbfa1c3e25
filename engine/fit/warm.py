"""Bring the fit's kernels in, compiled now where they never were: `python -m engine.fit.warm`, once an installation.

Each is called on a handful of cells, through what calls it in a build, so that it is compiled for the same types.
"""

from __future__ import annotations

import numpy as np

from engine.fit.candidates import Candidates, Narrower, exact_bounds
from engine.fit.fine.lots import deal, shuffled, taken_of
from engine.fit.placement import deepest
from engine.fit.rake import rake
from engine.fit.whole.rounding import controlled_rounding
from engine.fit.whole.settling import settle
from engine.kernels import told
from engine.progress import Progress, silent

_KEY = bytes(16)


def warm(report: Progress = silent) -> None:
    """Bring in the kernels of locked tables."""
    told(_lock, report)


def warm_wide(report: Progress = silent) -> None:
    """Bring in the kernels of wide tables."""
    told(_search, report)


def _lock() -> None:
    """Place, rake, round and settle two rows by two columns, and deal values."""
    one, two = np.array([1]), np.array([0, 1])
    codes = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=np.int32)
    rows, columns = np.ascontiguousarray(codes.T, dtype=np.int64)
    margins = [exact_bounds(rows, 2 * one[[0, 0]]), exact_bounds(columns, two + 1)]
    none = np.zeros((1, 2), dtype=np.int64)
    deepest(
        np.zeros(4, dtype=np.int64), one - 2, none, none, two[[0, 1, 1]], two, codes, columns, two
    )
    raked = rake(np.ones(4), margins, variance=np.full(4, np.inf), max_cycles=1)
    controlled_rounding(raked.x, margins[0], margins[1:], margins[1], rows, _KEY)
    wanted = Narrower(codes=codes[:2, 1:], n=np.array([5, 1]), measured=np.ones(2, dtype=bool))
    candidates = Candidates(codes=codes, at=(columns, rows), last=1)
    settle(codes[[0, 3]], np.array([3, 3]), candidates, (wanted, wanted), _KEY)
    seed = np.zeros(1, dtype=np.uint64)
    shuffled(one - 1, one, seed)
    taken_of(one, one - 1, one, one, seed)
    value = np.zeros(1, dtype=np.int32)
    none = one - 1
    deal((none, one, none, none), (seed, one, none, none, one), one, value, value.copy())


def _search() -> None:
    """Exchange levels of two columns between two rows."""
    from engine.fit.wide.board import Board, Target

    target = Target(axes=(0, 1), n=np.eye(2, dtype=np.int64))
    board = Board(np.array([[0, 1], [1, 0]]), (2, 2), [target], barred=0)
    one, other = np.array([0]), np.array([1])
    block = np.array([True, False])
    board.gains(one, 0)
    board.exchange(np.array([0, 1]), 0)
    board.change_level(one, 0, one)
    board.exchange_gains(one, other, block)
    board.exchange_block(one, other, block)


if __name__ == "__main__":
    warm()
    warm_wide()
