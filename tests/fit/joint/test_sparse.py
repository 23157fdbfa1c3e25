"""IPF of weights on support rows: against the full table, and what happens where rows are missing."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.fit_oracles import dense_raked

from engine.fit.joint import dense as blocks
from engine.fit.joint import support_rows as sparse
from engine.fit.joint.dense import blocks_of, fit_dense, raking_order
from engine.fit.joint.support_rows import fit_rows
from engine.fit.joint.target import Target

SIZES = {"a": 3, "b": 2, "c": 5, "d": 4}
COLUMNS = tuple(SIZES)
SHAPE = tuple(SIZES.values())


def margin_of(table, margin):
    kept = tuple(k for k, name in enumerate(COLUMNS) if name not in margin)
    return Target(columns=margin, n=table.sum(axis=kept))


def every_row():
    return np.indices(SHAPE).reshape(len(SHAPE), -1).T.astype(np.int32)


def table_of(rows, weights):
    table = np.zeros(SHAPE)
    np.add.at(table, tuple(rows.T), weights)
    return table


@given(seed=st.integers(0, 10**6), rows_a_cell=st.sampled_from([0.1, 2, 8, 1000]))
@settings(max_examples=40)
def test_every_cycle_is_the_textbooks_on_a_table_with_other_cells_empty(seed, rows_a_cell):
    rng = np.random.default_rng(seed)
    rows = every_row()[rng.random(120) < 0.6]
    rows = rng.permutation(np.concatenate([rows, rows[:7]]))  # some stand twice
    start = rng.random(len(rows))
    truth = table_of(rows, rng.gamma(0.7, size=len(rows)) * 50)
    margins = [*combinations(COLUMNS, 2), ("b",), ("a", "b", "d")]
    targets = [margin_of(truth, m) for m in margins]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse, "ROWS_A_CELL", rows_a_cell)
        patch.setattr(blocks, "SMALL", 4)
        got, report = fit_rows(targets, rows, COLUMNS, SIZES, start, max_cycles=9, tolerance=0)
        limit = max(int(len(rows) // rows_a_cell), 1)
        order = raking_order(blocks_of(COLUMNS, margins, SIZES, limit))
    assert sorted(order) == list(range(len(margins)))
    kept = [(tuple(COLUMNS.index(name) for name in margins[k]), targets[k].n) for k in order]
    expected = dense_raked(table_of(rows, start), kept, 9)
    expected *= truth.sum() / expected.sum()
    assert report.cycles == 9
    assert np.abs(table_of(rows, got) - expected).max() <= 1e-8 * truth.sum()
    worst = max(np.abs(margin_of(expected, t.columns).n - t.n).sum() for t in targets)
    assert report.error == pytest.approx(worst / truth.sum())
    # Rows of one cell keep the ratio that they started with.
    cell = np.ravel_multi_index(tuple(rows.T), SHAPE)
    for twice in np.flatnonzero(np.bincount(cell, minlength=120) == 2):
        one, other = np.flatnonzero(cell == twice)
        assert got[one] * start[other] == pytest.approx(got[other] * start[one], abs=1e-9)


def test_all_cells_with_even_weights_equal_the_dense_fit():
    rng = np.random.default_rng(4)
    truth = rng.gamma(1.0, size=SHAPE)
    targets = [margin_of(truth, m) for m in combinations(COLUMNS, 2)]
    dense, _ = fit_dense(targets, COLUMNS, SIZES, max_cycles=2000, tolerance=1e-13)
    got, report = fit_rows(
        targets, every_row(), COLUMNS, SIZES, np.ones(120), max_cycles=2000, tolerance=1e-13
    )
    assert report.how == "support rows"
    assert report.converged
    assert np.abs(got - dense.ravel()).max() <= 1e-8 * truth.sum()


def test_a_target_of_all_columns():
    truth = np.arange(1.0, 121.0).reshape(SHAPE)
    target = Target(columns=COLUMNS, n=truth)
    got, report = fit_rows([target], every_row(), COLUMNS, SIZES, np.ones(120))
    assert got.tolist() == truth.ravel().tolist()
    assert (report.cycles, report.error) == (2, 0.0)


def test_levels_without_rows_are_part_of_the_error():
    rows = np.array([[0, 0], [1, 1]])  # nobody has level 2 of a
    targets = [Target(columns=("a",), n=np.array([5.0, 3.0, 2.0]))]
    got, report = fit_rows(targets, rows, ("a", "b"), SIZES, np.ones(2))
    assert got.tolist() == [6.25, 3.75]  # the total stays
    assert report.error == pytest.approx(0.4)
    assert not report.converged
    assert report.cycles < 20


def test_nothing_can_be_met():
    rows = np.array([[2, 0], [2, 1]])
    targets = [Target(columns=("a",), n=np.array([5.0, 3.0, 0.0]))]
    got, report = fit_rows(targets, rows, ("a", "b"), SIZES, np.array([1.0, 3.0]))
    assert got.tolist() == [2.0, 6.0]
    assert not report.converged


def test_no_rows_to_give_out_and_a_zero_start():
    rows = np.array([[0, 0], [0, 1], [1, 1]])
    none = [Target(columns=("a",), n=np.zeros(3))]
    got, report = fit_rows(none, rows, ("a", "b"), SIZES, np.ones(3))
    assert (got.tolist(), report.converged) == ([0.0, 0.0, 0.0], True)
    some = [Target(columns=("a",), n=np.array([4.0, 6.0, 0.0]))]
    got, report = fit_rows(some, rows, ("a", "b"), SIZES, np.array([1.0, 0.0, 1.0]))
    assert (got.tolist(), report.converged) == ([4.0, 0.0, 6.0], True)


def test_start_is_not_written_to():
    start = np.ones(120)
    fit_rows([margin_of(np.ones(SHAPE), ("a",))], every_row(), COLUMNS, SIZES, start)
    assert start.tolist() == [1.0] * 120
