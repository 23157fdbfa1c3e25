"""IPF of the full table: blocks, sums and products against plain numpy, fits against the textbook and closed forms."""

from __future__ import annotations

from itertools import combinations
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.fit_oracles import dense_raked

from engine.errors import SpecError
from engine.fit.joint import dense
from engine.fit.joint import dense as blocks
from engine.fit.joint.dense import (
    axes_together,
    blocks_of,
    farthest,
    fit_dense,
    multiply,
    rake_table,
    raking_order,
    summed,
)
from engine.fit.joint.target import FIRST, Target, run_cycles
from engine.levels import StructuralZero

SIZES = {"a": 3, "b": 2, "c": 5, "d": 4, "e": 7}


def table_of(rng, columns, *, sparse=0.0):
    shape = [SIZES[name] for name in columns]
    return rng.gamma(0.7, size=shape) * (rng.random(shape) >= sparse) * 100


def margin_of(table, columns, margin):
    """A table's sums over the columns that are not in the margin."""
    return Target(
        columns=margin,
        n=table.sum(axis=tuple(k for k, name in enumerate(columns) if name not in margin)),
    )


def textbook(start, columns, targets, cycles):
    kept = [(tuple(columns.index(name) for name in t.columns), t.n) for t in targets]
    return dense_raked(start, kept, cycles)


def some_margins(rng, columns):
    """A few margins of any width, each once."""
    every = [m for width in (1, 2, 3) for m in combinations(columns, width)]
    picked = rng.permutation(len(every))[: rng.integers(1, 9)]
    return [every[k] for k in picked]


@given(seed=st.integers(0, 10**6), shrink=st.sampled_from([2, 8]))
@settings(max_examples=60)
def test_every_cycle_is_the_textbooks(seed, shrink):
    rng = np.random.default_rng(seed)
    columns = tuple("abcde"[: rng.integers(2, 6)])
    targets = [
        margin_of(table_of(rng, columns), columns, m) for m in some_margins(rng, columns)
    ]  # of different tables: nothing agrees, so that the order of updates shows
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "SMALL", 0)
        patch.setattr(blocks, "SHRINK", shrink)
        block = blocks_of(columns, [t.columns for t in targets], SIZES)
    order = raking_order(block)
    assert sorted(order) == list(range(len(targets)))
    table = table_of(rng, columns, sparse=0.2)
    expected = textbook(table, columns, [targets[k] for k in order], 3)
    for _ in range(3):
        rake_table(table, block, [t.n for t in targets])
    assert np.abs(table - expected).max() <= 1e-8 * max(expected.max(), 1)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=40)
def test_fit_has_the_textbooks_limit(seed):
    rng = np.random.default_rng(seed)
    columns = tuple("abcd"[: rng.integers(2, 5)])
    truth = table_of(rng, columns)
    targets = [margin_of(truth, columns, m) for m in combinations(columns, 2)]
    got, report = fit_dense(targets, columns, SIZES, max_cycles=3000, tolerance=1e-13)
    expected = textbook(np.ones(truth.shape), columns, targets, report.cycles + 50)
    assert np.abs(got - expected).max() <= 1e-8 * truth.sum()
    assert report.error <= 1e-12
    assert report.how == "dense"


def test_independent_columns_take_one_cycle():
    a, b = np.array([8.0, 24.0, 32.0]), np.array([16.0, 48.0])
    got, report = fit_dense(
        [Target(columns=("a",), n=a), Target(columns=("b",), n=b)], ("a", "b"), SIZES
    )
    assert got.tolist() == (np.outer(a, b) / 64).tolist()
    assert (report.cycles, report.error, report.converged) == (2, 0.0, True)  # the second looks


def test_decomposable_model_is_its_closed_form():
    rng = np.random.default_rng(5)
    truth = table_of(rng, ("a", "b", "c"))
    ab, bc = (margin_of(truth, ("a", "b", "c"), m) for m in (("a", "b"), ("b", "c")))
    got, report = fit_dense([bc, ab], ("a", "b", "c"), SIZES, tolerance=1e-12)
    expected = ab.n[:, :, None] * bc.n[None] / ab.n.sum(axis=0)[None, :, None]
    assert np.abs(got - expected).max() <= 1e-10 * expected.max()
    assert report.cycles == 2


def test_column_without_target_is_even_and_axes_are_as_asked():
    n = np.arange(1.0, 21.0).reshape(5, 4)
    got, _ = fit_dense([Target(columns=("c", "d"), n=n)], ("b", "c", "d", "e"), SIZES)
    assert got.shape == (2, 5, 4, 7)
    assert np.allclose(got, n[None, :, :, None] / 14, rtol=1e-12)


def test_zeros_sit_in_the_seed_and_the_margins_are_still_met():
    rng = np.random.default_rng(2)
    columns = ("a", "b", "c", "d")
    cells = rng.random((3, 2, 4)) < 0.4
    zero = StructuralZero(columns=("a", "b", "d"), cells=cells, why="planted")
    truth = table_of(rng, columns) * ~cells[:, :, None, :]
    targets = [margin_of(truth, columns, m) for m in combinations(columns, 2)]
    got, report = fit_dense(targets, columns, SIZES, zeros=[zero], max_cycles=5000, tolerance=1e-12)
    assert got[np.broadcast_to(cells[:, :, None, :], got.shape)].max() == 0
    assert report.converged
    start = np.ones(truth.shape) * ~cells[:, :, None, :]
    assert np.abs(got - textbook(start, columns, targets, 3000)).max() <= 1e-8 * truth.sum()


def test_zeros_of_a_column_without_target():
    zero = StructuralZero(columns=("a", "b"), cells=np.array([[0, 1], [0, 0], [1, 1]]) > 0, why="")
    target = Target(columns=("a",), n=np.array([6.0, 4.0, 0.0]))
    got, report = fit_dense([target], ("a", "b"), SIZES, zeros=[zero])
    assert got.tolist() == [[6.0, 0.0], [2.0, 2.0], [0.0, 0.0]]
    assert report.converged


def test_zeros_that_leave_nothing_are_refused():
    zero = StructuralZero(columns=("b",), cells=np.ones(2, dtype=bool), why="")
    with pytest.raises(SpecError, match="no possible combination"):
        fit_dense([Target(columns=("b",), n=np.ones(2))], ("b",), SIZES, zeros=[zero])


def test_target_that_cannot_be_met_is_reported():
    zero = StructuralZero(columns=("a", "b"), cells=np.array([[0, 0], [0, 0], [1, 1]]) > 0, why="")
    targets = [
        Target(columns=("a",), n=np.array([50.0, 30.0, 20.0])),
        Target(columns=("b",), n=np.array([40.0, 60.0])),
    ]
    got, report = fit_dense(targets, ("a", "b"), SIZES, zeros=[zero])
    assert not report.converged
    assert report.cycles <= FIRST + 1
    assert got.sum() == pytest.approx(100)
    # 80 rows are spread over 100: 20 too few in one place, 20 too many in the others.
    assert report.error == pytest.approx(0.4)


def test_nothing_can_be_met_at_all():
    zero = StructuralZero(columns=("b",), cells=np.array([True, False]), why="")
    target = Target(columns=("b",), n=np.array([9.0, 0.0]))
    got, report = fit_dense([target], ("b",), SIZES, zeros=[zero])
    assert not report.converged
    assert got.tolist() == [0.0, 9.0]  # the total stays; where it should be it cannot


def test_margins_that_contradict_each_other_end_early_and_unconverged():
    rng = np.random.default_rng(3)
    columns = ("a", "c", "d")
    targets = []
    for pair in combinations(columns, 2):
        n = margin_of(table_of(rng, columns), columns, pair).n
        targets.append(Target(columns=pair, n=n * 1000 / n.sum()))
    _, report = fit_dense(targets, columns, SIZES, max_cycles=5000)
    assert not report.converged
    assert report.error > 0.01
    assert report.cycles < 200


def test_slow_but_sure_is_not_given_up():
    # Margins of a table whose empty cells the model can only approach: the error falls like one over the cycles.
    truth = np.full((2, 2, 2), 10.0)
    truth[0, 0, 0] = truth[1, 1, 1] = 0.0
    columns = ("x", "y", "z")
    targets = [margin_of(truth, columns, m) for m in combinations(columns, 2)]
    sizes = dict.fromkeys(columns, 2)
    _, report = fit_dense(targets, columns, sizes, max_cycles=1000, tolerance=1e-3)
    assert report.converged
    assert report.cycles > 100


def test_no_rows_no_cells_one_cell():
    got, report = fit_dense([Target(columns=("a",), n=np.zeros(3))], ("a", "b"), SIZES)
    assert (got.tolist(), report.error, report.converged) == ([[0.0, 0.0]] * 3, 0.0, True)
    got, report = fit_dense([Target(columns=("x",), n=np.array([4.0]))], ("x",), {"x": 1})
    assert (got.tolist(), report.converged) == ([4.0], True)


def test_float32_meets_the_tolerance_and_the_total(monkeypatch):
    rng = np.random.default_rng(8)
    columns = tuple(SIZES)
    truth = table_of(rng, columns) * 1000
    targets = [margin_of(truth, columns, m) for m in combinations(columns, 2)]
    exact, _ = fit_dense(targets, columns, SIZES, tolerance=1e-5)
    monkeypatch.setattr(dense, "LARGE", 1)
    got, report = fit_dense(targets, columns, SIZES, tolerance=1e-5)
    assert report.converged
    assert got.dtype == np.float64
    assert (got != exact).any()  # it was not float64 all the way
    assert np.abs(got - exact).sum() <= 1e-4 * exact.sum()
    assert got.sum() == pytest.approx(targets[0].n.sum(), rel=1e-13)


def test_what_float32_cannot_reach_is_finished_in_float64(monkeypatch):
    rng = np.random.default_rng(9)
    columns = ("a", "c", "e")
    truth = table_of(rng, columns)
    targets = [margin_of(truth, columns, m) for m in combinations(columns, 2)]
    monkeypatch.setattr(dense, "LARGE", 1)
    monkeypatch.setattr(dense, "SAFE_IN_FLOAT32", 0.0)
    _, report = fit_dense(targets, columns, SIZES, max_cycles=2000, tolerance=1e-11)
    assert report.converged


def test_tiny_sums_do_not_overflow_float32():
    table = np.array([[1e-44, 0.0], [1.0, 1.0]], dtype=np.float32)
    target = np.array([1e6, 1.0])
    rake_table(table, blocks_of(("x", "y"), [("x",)], {"x": 2, "y": 2}), [target])
    assert np.isfinite(table).all()


@given(seed=st.integers(0, 10**6), axes=st.integers(1, 6))
@settings(max_examples=80)
def test_sums_and_products_are_numpys(seed, axes):
    rng = np.random.default_rng(seed)
    shape = tuple(rng.permutation([1, 2, 3, 4, 5, 40])[:axes])
    kept = tuple(bool(k) for k in rng.random(axes) < 0.5)
    dropped = tuple(k for k in range(axes) if not kept[k])
    for kind, near in ((np.float64, 1e-12), (np.float32, 1e-5)):
        table = rng.random(shape).astype(kind)
        got = summed(table, kept)
        assert got.dtype == np.float64
        assert np.allclose(got, table.sum(axis=dropped, dtype=np.float64), rtol=near)
        factor = rng.random(got.shape)
        expected = table * np.expand_dims(factor, dropped)
        multiply(table, factor, kept)
        assert table.dtype == kind
        assert np.allclose(table, expected, rtol=near)


def test_blocks_pack_all_pairs_into_few_small_tables():
    sizes = {name: k + 3 for k, name in enumerate("hgfedcba")}
    columns = tuple(sorted(sizes))
    pairs = list(combinations(columns, 2))
    block = blocks_of(columns, pairs, sizes)
    assert sorted(raking_order(block)) == list(range(28))
    assert len(block.parts) <= 6
    for part in block.parts:
        cells = prod(sizes[name] for name in part.columns)
        assert 8 * cells <= prod(sizes.values())
        assert all(set(pairs[k]) <= set(part.columns) for k in raking_order(part))
    assert sorted(axes_together(block, sizes)) == list(columns)


def test_error_of_a_table_is_that_of_its_worst_margin():
    table = np.ones((3, 2))
    block = blocks_of(("a", "b"), [("a",), ("a", "b"), ("b",)], SIZES)
    wanted = [np.full(3, 2.0), table, np.array([1.0, 5.0])]
    assert farthest(table, block, wanted) == 4.0
    assert table.tolist() == np.ones((3, 2)).tolist()


@pytest.mark.parametrize(
    ("errors", "cycles"),
    [
        ([0.5, 0.2, 0.05], 3),  # within the tolerance
        ([0.9] * 60, FIRST),  # stands still
        ([0.995**k for k in range(60)], 60),  # falls by more than a hundredth in five
        ([1.0] * 5 + [0.9**k for k in range(55)], 28),
    ],
)
def test_cycles_end(errors, cycles):
    told = iter(errors)
    assert run_cycles(
        lambda: next(told), max_cycles=60, tolerance=0.1 if cycles != 60 else 0.0
    ) == (cycles, cycles != 60)
