"""Bring the fit's kernels in, compiled now where they never were: `python -m engine.fit.warm`, once an installation.

Each is called on a handful of cells, through what calls it in a build, so that it is compiled for the same types.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from engine.fit.candidates import Candidates, Narrower, exact_bounds
from engine.fit.fine.lots import deal, shuffled, taken_of
from engine.fit.placement import deepest
from engine.fit.rake import rake
from engine.fit.whole.rounding import controlled_rounding
from engine.fit.whole.settling import settle
from engine.kernels import told
from engine.mechanism.warm import warm as warm_mechanism
from engine.progress import Progress, silent

_KEY = bytes(16)
_ROUNDING = "rounding"
_ONE, _NONE, _TWO = np.array([1]), np.array([0]), np.array([0, 1])
_CODES = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=np.int32)
_ROWS, _COLUMNS = np.ascontiguousarray(_CODES.T, dtype=np.int64)


def warm(report: Progress = silent) -> None:
    """Bring in the kernels of locked tables."""
    told(_lock, report)


def warm_wide(report: Progress = silent) -> None:
    """Bring in the kernels of wide tables."""
    told(_search, report)


def _lock() -> None:
    _round()
    _rest()


def _round() -> None:
    """Round two rows by two columns; this takes as long to compile as all the rest."""
    fibres, columns = exact_bounds(_ROWS, _TWO + 1), exact_bounds(_COLUMNS, _TWO + 1)
    controlled_rounding(np.ones(4), fibres, [columns], columns, _ROWS, _KEY)


def _rest() -> None:
    """Place, rake and settle them, and deal values."""
    top, node = np.zeros(4, dtype=np.int64), np.zeros((1, 2), dtype=np.int64)
    deepest(top, _NONE - 1, node, node, _TWO[[0, 1, 1]], _TWO, _CODES, _COLUMNS, _TWO)
    margins = [exact_bounds(_ROWS, _TWO + 1)]
    rake(np.ones(4), margins, variance=np.full(4, np.inf), max_cycles=1)
    wanted = Narrower(codes=_CODES[:2, 1:], n=np.array([5, 1]), measured=np.ones(2, dtype=bool))
    candidates = Candidates(codes=_CODES, at=(_COLUMNS, _ROWS), last=1)
    settle(_CODES[[0, 3]], np.array([3, 3]), candidates, (wanted, wanted), _KEY)
    seed, value = np.zeros(1, dtype=np.uint64), np.zeros(1, dtype=np.int32)
    shuffled(_NONE, _ONE, seed)
    taken_of(_ONE, _NONE, _ONE, _ONE, seed)
    run, group = (_NONE, _ONE, _NONE, _NONE), (seed, _ONE, _NONE, _NONE, _ONE)
    deal(run, group, _ONE, value, value.copy())


def _search() -> None:
    """Exchange levels of two columns between two rows."""
    from engine.fit.wide.board import Board, Target

    target = Target(axes=(0, 1), n=np.eye(2, dtype=np.int64))
    board = Board(np.array([[0, 1], [1, 0]]), (2, 2), [target], barred=0)
    block = np.array([True, False])
    board.gains(_NONE, 0)
    board.exchange(_TWO, 0)
    board.change_level(_NONE, 0, _ONE)
    board.exchange_gains(_NONE, _ONE, block)
    board.exchange_block(_NONE, _ONE, block)


if __name__ == "__main__":
    if _ROUNDING in sys.argv:
        _round()
    else:
        with subprocess.Popen([sys.executable, "-m", "engine.fit.warm", _ROUNDING]) as other:
            _rest()
            _search()
            warm_mechanism()
        sys.exit(other.returncode)
