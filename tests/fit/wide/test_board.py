"""Prices of exchanges against counting everything again."""

from __future__ import annotations

import numpy as np
import pytest
from fixtures.wide import BARRED, problem
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.fit.wide.board import IMPOSSIBLE, Board, Target, counted
from engine.fit.wide.search import matched


def error(rows: np.ndarray, targets, barred: int = BARRED) -> int:
    """The error by its definition."""
    total = 0
    for target in targets:
        cells = np.zeros(target.n.shape, np.int64)
        np.add.at(cells, tuple(rows[axis] for axis in target.axes), 1)
        total += int((target.weight * (cells - target.n) ** 2).sum())
        if target.is_strict:
            total += barred * int((target.barred * cells).sum())
    return total


def exchanged(rows, one, other, block):
    out = rows.copy()
    out[np.ix_(block, [one, other])] = rows[np.ix_(block, [other, one])]
    return out


@given(st.integers(0, 10_000), st.integers(1, 14))
@settings(max_examples=60, deadline=None)
def test_a_block_exchange_gains_what_counting_again_says(seed, blocked):
    rows, sizes, targets = problem(seed)
    block = np.array([bool(blocked >> j & 1) for j in range(4)])
    board = Board(rows.copy(), sizes, targets, barred=BARRED)
    one, other = np.arange(0, 20, 2), np.arange(1, 20, 2)
    gains = board.exchange_gains(one, other, block)
    before = error(rows, targets)
    for a, b, gain in zip(one, other, gains, strict=True):
        assert gain == error(exchanged(rows, a, b, block), targets) - before


@given(st.integers(0, 10_000), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_a_level_gains_what_counting_again_says(seed, column):
    rows, sizes, targets = problem(seed)
    board = Board(rows.copy(), sizes, targets, barred=BARRED)
    at = np.array([4, 0, 17])
    gains = board.gains(at, column, 0, sizes[column])
    assert gains.shape == (3, sizes[column])
    for row, own in zip(at, gains, strict=True):
        for level, gain in enumerate(own):
            changed = rows.copy()
            changed[column, row] = level
            if level != rows[column, row]:
                assert gain == error(changed, targets) - error(rows, targets)


def test_some_levels_are_some_of_all():
    rows, sizes, targets = problem(3)
    board = Board(rows, sizes, targets, barred=BARRED)
    at = np.flatnonzero((rows[3] >= 1) & (rows[3] < 4))
    assert (board.gains(at, 3, 1, 4) == board.gains(at, 3, 0, 5)[:, 1:4]).all()


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_prices_follow_exchanges(seed):
    rows, sizes, targets = problem(seed)
    board = Board(rows, sizes, targets, barred=BARRED)
    board.exchange_level(np.array([0, 5, 7]), np.array([1, 2, 20]), 2)
    board.exchange_block(np.array([3, 1]), np.array([0, 9]), np.array([True, False, True, False]))
    fresh = Board(board.rows.copy(), sizes, targets, barred=BARRED)
    everyone = np.arange(rows.shape[1])
    for column, size in enumerate(sizes):
        assert (
            board.gains(everyone, column, 0, size) == fresh.gains(everyone, column, 0, size)
        ).all()


def test_only_movable_columns_need_copies():
    rows, sizes, targets = problem(1)
    some = Board(rows.copy(), sizes, targets, barred=0, movable=[3])
    whole = Board(rows.copy(), sizes, targets, barred=0)
    for board in (some, whole):
        board.exchange_level(np.array([0, 5]), np.array([1, 2]), 3)
    everyone = np.arange(rows.shape[1])
    assert (some.gains(everyone, 3, 0, 5) == whole.gains(everyone, 3, 0, 5)).all()


def test_weights_fall_with_the_count():
    weight = Target(axes=(0, 1), n=np.array([[0, 14, 9998]])).weight
    assert weight.tolist() == [[38968, 8192, 66]]


def test_what_was_to_be_expected_and_is_not_there_is_barred_most():
    n = np.array([[0, 40, 2], [60, 0, 0]])
    # Rows of 42 and 60, columns of 60, 40, 2, in all 102: 24.7, 23.5 and 1.2 were to be expected.
    against = Target(axes=(0, 1), n=n).barred
    assert against.tolist() == [[24 * IMPOSSIBLE, 0, 0], [0, 23 * IMPOSSIBLE, against[1, 2]]]
    assert 1 < against[1, 2] < IMPOSSIBLE  # rare, but the columns have much to do with each other
    many = Target(axes=(0, 1), n=np.array([[0, 8000], [8000, 0]])).barred
    assert many.tolist() == [[64 * IMPOSSIBLE, 0], [0, 64 * IMPOSSIBLE]]
    chance = np.array([[0, 2, 99], [1, 197, 9801]])
    assert Target(axes=(0, 1), n=chance).barred.tolist() == [[1, 0, 0], [0, 0, 0]]


def test_counted_is_a_table_of_the_rows():
    target = Target(axes=(0, 2), n=np.zeros((2, 3), np.int64))
    rows = np.array([[0, 1, 1], [9, 9, 9], [2, 0, 0]])
    assert counted(rows, target).tolist() == [[0, 0, 1], [2, 0, 0]]


@given(st.integers(0, 10_000), st.integers(0, 7), st.integers(0, 5))
@settings(max_examples=80, deadline=None)
def test_matched_pairs_share_no_row_and_gain(seed, n, m):
    gains = np.random.default_rng(seed).integers(-9, 5, (n, m))
    one, other = matched(gains.copy())
    assert len(set(one.tolist())) == len(one) == len(other) == len(set(other.tolist()))
    assert (gains[one, other] < 0).all()
    if (gains < 0).any():
        assert gains.min() in gains[one, other]


def test_who_was_not_chosen_chooses_again():
    one, other = matched(np.array([[-5, -4, 0], [-6, -3, 1], [2, 2, 2]]))
    assert sorted(zip(one.tolist(), other.tolist(), strict=True)) == [(0, 1), (1, 0)]


@pytest.mark.parametrize("block", [[True] * 4, [False] * 4])
def test_all_or_nothing_exchanged_changes_nothing(block):
    rows, sizes, targets = problem(5)
    board = Board(rows.copy(), sizes, targets, barred=BARRED)
    gains = board.exchange_gains(np.array([0, 1]), np.array([2, 3]), np.array(block))
    assert gains.tolist() == [0, 0]
