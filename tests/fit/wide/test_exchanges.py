"""Exchanges compiled are those of numpy, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from fixtures.compiled import both, unload
from fixtures.wide import BARRED, locked, people, problem
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.fit.compiled import loops
from engine.fit.wide import fit_wide
from engine.fit.wide.board import Board
from engine.fit.wide.search import matched_exchange

KEY = b"0123456789abcdef"


pytestmark = pytest.mark.usefixtures("ready")


def after_exchanges(seed: int, n_rows: int, column: int, low: int, step: int) -> list[object]:
    """Numbers of exchanges of some batches, the rows then, and every price."""
    rows, sizes, targets = problem(seed, n_rows)
    board = Board(rows, sizes, targets, barred=BARRED, step=step)
    inside = np.flatnonzero(rows[column] >= low)
    batches = np.array_split(np.random.default_rng(seed).permutation(inside), 2)
    made = [matched_exchange(board, batch, column, low) for batch in (*batches, *batches)]
    gains = [board.gains(np.arange(n_rows), j, 0, size) for j, size in enumerate(sizes)]
    return [made, rows.tolist(), *(one.tolist() for one in gains)]


@given(
    st.integers(0, 10_000),
    st.integers(1, 150),
    st.integers(0, 3),
    st.integers(0, 1),
    st.integers(1, 3),
)
@settings(max_examples=60, deadline=None)
def test_matched_exchanges(seed, n_rows, column, low, step):
    plain, compiled = both(lambda: after_exchanges(seed, n_rows, column, low, step))
    assert plain == compiled


def test_exchanges_are_made():
    """Else the test above would compare nothing with nothing."""
    assert sum(after_exchanges(1, 150, 3, 0, 1)[0]) > 20


def test_of_equals_the_first_is_taken():
    """Rows in many equal pairs, so that nearly all prices are equal."""

    def made():
        rows = np.repeat(np.array([[0, 0, 1, 1], [0, 1, 0, 1]]), [7, 9, 8, 6], axis=1)
        _, _, targets = problem(3)
        board = Board(rows, [2, 3], [t for t in targets if t.axes == (0, 1)], barred=BARRED)
        return matched_exchange(board, np.arange(30)[::-1].copy(), 1), rows.tolist()

    plain, compiled = both(made)
    assert plain == compiled
    assert plain[0] > 0


@given(st.integers(0, 10_000), st.integers(0, 15), st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_block_exchanges(seed, blocked, step):
    block = np.array([bool(blocked >> j & 1) for j in range(4)])

    def gains():
        rows, sizes, targets = problem(seed, 41)
        board = Board(rows, sizes, targets, barred=BARRED, step=step)
        return board.exchange_gains(np.arange(0, 40, 2), np.arange(1, 41, 2), block).tolist()

    plain, compiled = both(gains)
    assert plain == compiled


@pytest.mark.parametrize("target", [None, "age"])
def test_whole_fits(target):
    rows = people(700)
    supports, tables = locked(rows, [("age", "region", "wealth"), ("major", "region", "spouse")])

    def fitted():
        fit = fit_wide(tuple(sorted(rows)), supports, tables, key=KEY, target=target)
        return fit.codes.tobytes(), fit.n.tobytes(), fit.off, fit.impossible

    plain, compiled = both(fitted)
    assert plain == compiled


def test_both_loops_are_called(monkeypatch):
    """Else the fits above would compare numpy with itself."""
    assert loops.load_compiled()
    called = set()
    for name in ("exchange", "exchange_gains"):
        real = getattr(loops.compiled(loops.EXCHANGES), name)

        def told(*values, real=real, name=name):
            called.add(name)
            return real(*values)

        monkeypatch.setattr(loops.compiled(loops.EXCHANGES), name, told)
    rows = people(300)
    try:
        fit_wide(tuple(sorted(rows)), *locked(rows), key=KEY)
    finally:
        unload()
    assert called == {"exchange", "exchange_gains"}
