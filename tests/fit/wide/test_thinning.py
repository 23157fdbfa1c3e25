"""Many rows searched as fewer: thinner counts, all rows again, and every column's counts kept."""

from __future__ import annotations

import numpy as np
import pytest
from fixtures.fit import KEY
from fixtures.wide import locked, people
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.fit.wide import fit_wide, placing, thinning
from engine.fit.wide.board import Board, Target, counted
from engine.fit.wide.shuffles import Shuffles
from engine.fit.wide.start import tree_rows
from engine.fit.wide.thinning import MOST_ROWS, laid_out, settled, step_of, thinned


def test_few_rows_are_searched_one_by_one():
    assert [step_of(n) for n in (0, 1, MOST_ROWS, MOST_ROWS + 1, 10 * MOST_ROWS)] == [
        1,
        1,
        1,
        2,
        10,
    ]


@given(st.lists(st.integers(0, 50), min_size=1, max_size=9), st.integers(1, 7))
def test_thin_counts_are_near_and_add_up(single, step):
    of = np.array(single)
    thin = thinned(of, step)
    assert thin.sum() == -(-of.sum() // step)
    assert (thin >= 0).all()
    assert np.abs(thin - of * thin.sum() / max(of.sum(), 1)).max() < 1


def test_thin_rows_are_laid_out():
    thin = np.array([[0, 1, 2, 3], [4, 5, 6, 7]])
    rows = laid_out(thin, 3, 10, Shuffles(KEY))
    assert rows.shape == (2, 10)
    assert sorted(np.bincount(rows[0])) == [2, 2, 3, 3]
    assert (rows[1] == rows[0] + 4).all()


@given(st.integers(0, 10_000), st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_columns_get_their_counts_and_prices_stay_true(seed, step):
    rng = np.random.default_rng(seed)
    sizes, n_rows = [2, 3, 4], 40
    rows = np.stack([rng.integers(0, size, n_rows) for size in sizes])
    wanted = [
        np.bincount(rng.integers(0, size, n_rows), minlength=size).astype(np.int64)
        for size in sizes
    ]
    targets = [Target(axes=(0, 2), n=rng.integers(0, 9, (2, 4)), is_strict=True)]
    board = Board(rows, sizes, targets, barred=9, step=step)
    before = rows.copy()
    changed = settled(board, wanted, Shuffles(KEY))
    for own, single in zip(board.rows, wanted, strict=True):
        assert np.bincount(own, minlength=len(single)).tolist() == single.tolist()
    touched = np.flatnonzero((board.rows != before).any(axis=0))
    assert set(touched) <= set(changed)
    again = Board(board.rows.copy(), sizes, targets, barred=9, step=step)
    at = np.arange(7)
    assert (board.gains(at, 2, 0, 4) == again.gains(at, 2, 0, 4)).all()


@given(st.integers(0, 10_000), st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_a_row_that_counts_several_times_is_priced_as_such(seed, step):
    """What it adds is that of so many equal rows at once, each its share of it."""
    rng = np.random.default_rng(seed)
    rows = np.stack([rng.integers(0, 3, 9), rng.integers(0, 4, 9)])
    target = Target(axes=(0, 1), n=rng.integers(0, 8, (3, 4)))

    def error(of: np.ndarray) -> int:
        return int((target.weight * (step * counted(of, target) - target.n) ** 2).sum())

    gains = Board(rows.copy(), [3, 4], [target], barred=0, step=step).gains(np.arange(9), 1, 0, 4)
    for row in range(9):
        for level in range(4):
            other = rows.copy()
            other[1, row] = level
            if level == rows[1, row]:
                continue
            assert step * gains[row, level] == error(other) - error(rows)


def test_the_tree_is_dealt_out_in_thin_rows():
    table = np.array([[30, 0, 10], [0, 50, 20]])
    singles = [thinned(table.sum(axis=axis), 10) for axis in (1, 0)]
    rows = tree_rows([(0, -1), (1, 0)], singles, {(0, 1): table}, Shuffles(KEY), step=10)
    assert counted(rows, Target(axes=(0, 1), n=table)).tolist() == [[3, 0, 1], [0, 5, 2]]


@pytest.fixture
def few(monkeypatch):
    """A fit that takes 700 rows for many."""
    monkeypatch.setattr(thinning, "MOST_ROWS", 700)
    monkeypatch.setattr(thinning, "POLISHED", 1_000)
    monkeypatch.setattr(placing, "MOST_ROWS", 700)


def test_a_fit_of_many_rows_keeps_columns_blanks_and_what_is_told(few):
    rows = people(3_000)
    supports, tables = locked(rows, [("age", "region", "wealth")])
    fit = fit_wide(tuple(sorted(rows)), supports, tables, key=KEY)
    each = np.repeat(np.arange(len(fit.n)), fit.n)
    mine = {name: fit.codes[each, j] for j, name in enumerate(fit.columns)}
    for name, codes in mine.items():
        assert np.bincount(codes).tolist() == supports[name].n.tolist(), name
    assert ((mine["job"] == 0) == (mine["age"] < 2)).all()
    assert fit.impossible == 0
    assert fit.step == 5
    assert fit.off[2] < 0.02
    assert fit.off[3] < 0.02
    again = fit_wide(tuple(sorted(rows)), supports, tables[::-1], key=KEY)
    assert (again.codes == fit.codes).all()
    assert (again.n == fit.n).all()
