"""Load the fit's kernels, and compile those that never were: `python -m engine.fit.warm`, once an installation.

Each is called on a handful of cells, through what calls it in a build, so that it is compiled for the same types.
"""

from __future__ import annotations

import subprocess
import sys
from itertools import combinations

import numpy as np

from engine.fit.cells import LockedTo, positions_in
from engine.fit.fine import fine_pair
from engine.fit.locking import lock_table, one_way_table, sub_tables
from engine.fit.tree import Noise
from engine.fit.whole import settle
from engine.kernels import report_compiling
from engine.mechanism.warm import warm as warm_mechanism
from engine.progress import Progress, silent
from engine.schema import (
    KIND_NONNEGATIVE,
    Column,
    ColumnSet,
    Measurement,
    Sums,
    Support,
    SyntheticTable,
)

_KEY = bytes(16)
_NOISE = Noise(total=16, floor=3, layer_sd=1)
_ALONE = "tables"
_NONE, _ONE, _TWO = np.array([0]), np.array([1]), np.array([0, 1])


def warm(report: Progress = silent) -> None:
    """Load the kernels of locked tables."""
    report_compiling(_lock, report)


def warm_wide(report: Progress = silent) -> None:
    """Load the kernels of wide tables."""
    report_compiling(_search, report)


def _lock() -> None:
    _tables()
    _rest()


def _tables() -> None:
    """Fit tables of two columns of two values, and one of three; this takes as long to compile as all the rest."""
    counts = {"A": [9, 7], "B": [8, 8], "C": [5, 11]}
    supports = {name: _support(name, n) for name, n in counts.items()}
    tables: dict[ColumnSet, SyntheticTable] = {
        (name,): one_way_table(supports[name], _tree((name,)), 1) for name in counts
    }
    for columns in (*combinations(counts, 2), tuple(counts)):
        tables[columns] = lock_table(
            _tree(columns),
            tuple(supports[name] for name in columns),
            tuple(tables[sub] for sub in sub_tables(columns)),
            noise=_NOISE,
            key=_KEY,
        )


def _rest() -> None:
    """What tables seldom take: settle, find cells, fit a fine pair."""
    codes, n = (
        np.array([[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0]], np.int32),
        np.array([6, 3, 2, 5]),
    )
    positions_in(codes, codes)
    tables = LockedTo(np.array([8, 8, 12, 4, *n]), np.ones(8, dtype=bool), np.array([0, 2, 4, 8]))
    settle(codes, n, np.array([codes[:, 1], codes[:, 0], np.arange(4)], np.int64), tables, _KEY)
    supports = _support("A", [12, 4]), _support("B", [8, 8])
    fine_pair(_tree(("A", "B")), supports, noise=_NOISE, key=_KEY)


def _support(name: str, n: list[int]) -> Support:
    return Support(
        column=Column(name=name, kind="integer", value_type="integer"),
        kind=np.full(2, KIND_NONNEGATIVE, dtype=np.uint8),
        grid=np.arange(2),
        n=np.array(n),
        measured=np.ones(2, dtype=bool),
    )


def _tree(columns: ColumnSet) -> Measurement:
    """All rows, and half of them with the value 0 in each column."""
    shape = (2, len(columns))
    return Measurement(
        columns=columns,
        depth=np.arange(2, dtype=np.uint8),
        kind=np.full(shape, KIND_NONNEGATIVE, dtype=np.uint8),
        level=np.repeat(np.array([[1], [0]], dtype=np.uint8), shape[1], axis=1),
        index=np.zeros(shape, dtype=np.int64),
        parent=np.array([-1, 0]),
        n=np.array([16, 8]),
        scale=np.ones(2, dtype=np.int64),
        sums=(Sums(column=columns[0], node=_ONE, low=_NONE, high=_ONE, n=_ONE, scale=_ONE),),
    )


def _search() -> None:
    """Exchange levels of two columns between two rows."""
    from engine.fit.wide.exchange import Board, target_of

    target = target_of((0, 1), np.eye(2, dtype=np.int64))
    board = Board(np.array([[0, 1], [1, 0]]), (2, 2), [target], barred=0)
    block = np.array([True, False])
    board.exchange(_TWO, 0)
    board.change_level(_NONE, 0, _ONE)
    board.exchange_gains(_NONE, _ONE, block)
    board.exchange_block(_NONE, _ONE, block)


if __name__ == "__main__":
    if _ALONE in sys.argv:
        _tables()
    else:
        with subprocess.Popen([sys.executable, "-m", "engine.fit.warm", _ALONE]) as other:
            _rest()
            _search()
            warm_mechanism()
        sys.exit(other.returncode)
