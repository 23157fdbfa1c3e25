"""Parts of the wide fit: shuffles, the start, groups, repair."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from fixtures.fit import KEY, integer_column
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.fit.wide.board import Board, Target
from engine.fit.wide.levels import groups_of, packed
from engine.fit.wide.repair import STRICT, impossible_columns, repair
from engine.fit.wide.search import batch_size, blocks_of
from engine.fit.wide.shuffles import Shuffles
from engine.fit.wide.start import information_of, logarithm, mutual_information, tree_rows
from engine.schema import Support

near_to = partial(pytest.approx, abs=1e-12)


def test_shuffles_are_orders_and_never_the_same():
    shuffles = Shuffles(KEY)
    first, second = shuffles.order(50), shuffles.order(50)
    assert sorted(first) == sorted(second) == list(range(50))
    assert (first != second).any()
    assert (Shuffles(KEY).order(50) == first).all()
    assert (Shuffles(b"fedcba9876543210").order(50) != first).any()
    assert Shuffles(KEY).orders(3, 5).shape == (3, 5)


def test_grouped_places_lie_by_group():
    of = np.array([2, 0, 2, 1, 0, 2])
    order = Shuffles(KEY).grouped(of)
    assert of[order].tolist() == [0, 0, 1, 2, 2, 2]
    assert sorted(order) == list(range(6))


@given(st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=30))
def test_logarithms(xs):
    own = logarithm(np.array(xs))
    assert np.allclose(own, [math.log(x) for x in xs], rtol=1e-11, atol=1e-11)


def test_mutual_information_by_hand():
    assert mutual_information(np.array([[5, 0], [0, 5]])) == near_to(math.log(2))
    assert mutual_information(np.array([[4, 8], [2, 4]])) == near_to(0.0)
    assert mutual_information(np.zeros((2, 3), np.int64)) == 0.0
    n = np.array([[3, 1, 0], [2, 2, 4]])
    by_hand = sum(
        x / 12 * math.log(x * 12 / (n[i].sum() * n[:, j].sum()))
        for (i, j), x in np.ndenumerate(n)
        if x
    )
    assert mutual_information(n) == near_to(by_hand)


def test_a_column_is_nearest_to_itself():
    information = information_of({(0, 2): np.array([[5, 0], [0, 5]])}, 3)
    assert [np.argsort(-row, kind="stable")[0] for row in information] == [0, 1, 2]
    assert (information == information.T).all()


def test_the_tree_is_met_exactly():
    table = np.array([[3, 0, 1], [0, 5, 2]])
    singles = [table.sum(axis=1), table.sum(axis=0)]
    for edges in ([(0, -1), (1, 0)], [(1, -1), (0, 1)]):
        rows = tree_rows(edges, singles, {(0, 1): table}, Shuffles(KEY))
        counts = np.zeros_like(table)
        np.add.at(counts, tuple(rows), 1)
        assert (counts == table).all()


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_a_table_of_other_sums_is_met_as_near_as_columns_allow(seed):
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 5, (3, 4))
    singles = [np.bincount(rng.integers(0, size, 30), minlength=size) for size in (3, 4)]
    rows = tree_rows([(0, -1), (1, 0)], singles, {(0, 1): table}, Shuffles(KEY))
    for codes, single in zip(rows, singles, strict=True):
        assert (np.bincount(codes, minlength=len(single)) == single).all()


def test_blocks_are_what_hangs_below():
    blocks = blocks_of([(2, -1), (0, 2), (1, 0), (3, 0)])
    assert [(np.flatnonzero(block).tolist(), parent) for block, parent in blocks] == [
        ([0, 1, 3], 2)
    ]


def test_neighbours_are_packed_until_there_are_enough():
    n = np.array([1, 9, 2, 2, 2, 8, 1, 1])
    kind = np.array([0, 1, 1, 1, 1, 1, 1, 2])
    assert packed(n, kind, 5).tolist() == [0, 1, 2, 2, 2, 3, 4, 5]


def test_few_values_are_no_groups():
    n = np.arange(1, 8)
    support = Support(
        column=integer_column(), kind=np.full(7, 2, np.uint8), grid=n, n=n, measured=n > 0
    )
    assert groups_of(support, 7, 2).tolist() == list(range(7))
    assert groups_of(support, 6, 2).tolist() == [0, 0, 0, 0, 0, 1, 1]  # 1 to 5 are 15 of 28


def test_a_planted_impossible_pair_is_repaired():
    """One row of blanks and one without have exchanged a value: the only partners for each other."""
    rows = np.repeat(np.array([[0, 0, 0], [1, 1, 1]]), 60, axis=0).T.copy()
    rows[2] = np.arange(120) % 2
    targets = [Target(axes=(0, 1), n=np.array([[60, 0], [0, 60]]), is_strict=True)]
    rows[1, 3], rows[1, 70] = 1, 0
    assert np.flatnonzero(impossible_columns(rows, targets).any(axis=0)).tolist() == [3, 70]
    board = Board(rows, [2, 2, 2], targets, barred=STRICT)
    near = [np.array([0, 1, 2]), np.array([1, 0, 2]), np.array([2, 0, 1])]
    assert repair(board, targets, near, Shuffles(KEY)) == 0
    assert (board.rows[0] == board.rows[1]).all()
    assert board.rows.sum(axis=1).tolist() == [60, 60, 60]


def test_what_cannot_be_repaired_is_counted():
    targets = [Target(axes=(0, 1), n=np.array([[9, 9], [9, 0]]), is_strict=True)]
    rows = np.ones((2, 18), np.int64)
    board = Board(rows, [2, 2], targets, barred=STRICT)
    assert repair(board, targets, [np.array([0, 1]), np.array([1, 0])], Shuffles(KEY)) == 18


def test_batches_are_small_where_rows_are_few():
    assert [batch_size(n) for n in (0, 100, 5000, 10**6)] == [16, 16, 100, 512]
