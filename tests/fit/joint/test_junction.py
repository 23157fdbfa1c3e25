"""Junction trees: their shape, their fit against the full table and the textbook, and the rows drawn from them."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.fit_oracles import dense_raked

from engine.errors import InternalError, SpecError
from engine.fit.joint.ipf import fit_junction_tree, junction_tree, sample_tree, sampled
from engine.fit.joint.margins import FIRST, Target
from engine.levels import StructuralZero

SIZES = {"a": 3, "b": 2, "c": 5, "d": 4, "e": 2, "f": 3}
COLUMNS = tuple(SIZES)
SHAPE = tuple(SIZES.values())


def margin_of(table, margin):
    gone = tuple(k for k, name in enumerate(COLUMNS) if name not in margin)
    return Target(columns=margin, n=table.sum(axis=gone))


def joint_of(tables, tree):
    """The whole table that a tree stands for."""
    out = np.ones(SHAPE)
    total = tables[0].sum()
    for place, clique in enumerate(tree.cliques):
        shape = [SIZES[name] if name in clique else 1 for name in COLUMNS]
        out = out * tables[place].reshape(shape)
        if place:
            given = tree.separators[place]
            gone = tuple(k for k, name in enumerate(clique) if name not in given)
            sums = tables[place].sum(axis=gone)
            shape = [SIZES[name] if name in given else 1 for name in COLUMNS]
            out = out * np.divide(1, sums, out=np.zeros_like(sums), where=sums > 0).reshape(shape)
    for name in COLUMNS:
        if not any(name in clique for clique in tree.cliques):
            out = out / SIZES[name]
    return out, total


def check_tree(tree, sets):
    """Every set lies in a clique; no clique in another; what two cliques share lies on all of the way between."""
    for columns in sets:
        assert any(set(columns) <= set(clique) for clique in tree.cliques)
    for one, other in combinations(tree.cliques, 2):
        assert not set(one) <= set(other)
        assert not set(other) <= set(one)
    assert tree.parent[0] == -1
    for place in range(1, len(tree.cliques)):
        parent = tree.parent[place]
        assert 0 <= parent < place
        shared = set(tree.cliques[place]) & set(tree.cliques[parent])
        assert set(tree.separators[place]) == shared
        before = {name for clique in tree.cliques[:place] for name in clique}
        assert set(tree.cliques[place]) & before == shared  # the running intersection property


MODELS = [
    [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "f")],
    [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d"), ("d", "e"), ("f",)],
    [("a", "b", "c"), ("c", "d"), ("b", "d"), ("e", "f")],
    [("a",), ("b",), ("c", "e"), ("a", "e"), ("d", "f"), ("a", "c")],
    list(combinations("abcdef", 2)),
]


@pytest.mark.parametrize("model", MODELS)
@given(seed=st.integers(0, 10**6), with_zeros=st.booleans())
@settings(max_examples=8)
def test_fit_equals_the_full_table(model, seed, with_zeros):
    rng = np.random.default_rng(seed)
    zeros = []
    truth = rng.gamma(0.8, size=SHAPE) * 10
    if with_zeros:
        cells = rng.random((3, 5)) < 0.3
        cells[0] = cells[:, 0] = False
        zeros = [StructuralZero(columns=("a", "c"), cells=cells, why="planted")]
        truth *= ~cells[:, None, :, None, None, None]
    targets = [margin_of(truth, m) for m in model]
    tree = junction_tree([p.columns for p in (*targets, *zeros)], SIZES)
    check_tree(tree, model)
    tables, report = fit_junction_tree(
        targets, tree, SIZES, zeros=zeros, max_cycles=5000, tolerance=1e-13
    )
    whole = junction_tree([COLUMNS], SIZES)
    (dense,), one = fit_junction_tree(
        targets, whole, SIZES, zeros=zeros, max_cycles=5000, tolerance=1e-13
    )
    got, total = joint_of(tables, tree)
    assert (report.how, one.how) == ("junction tree" if len(tree.cliques) > 1 else "dense", "dense")
    assert report.error <= 1e-11
    assert total == pytest.approx(truth.sum())
    assert np.abs(got - dense).max() <= 1e-8 * truth.sum()


def test_a_chain_converges_at_once_however_long():
    rng = np.random.default_rng(3)
    names = [f"c{k:02d}" for k in range(40)]
    sizes = {name: 2 + k % 3 for k, name in enumerate(names)}
    targets, left = [], rng.dirichlet(np.ones(sizes[names[0]])) * 1000
    for one, other in pairwise(names):
        n = left[:, None] * rng.dirichlet(np.ones(sizes[other]), size=sizes[one])
        targets.append(Target(columns=(one, other), n=n))
        left = n.sum(axis=0)
    tree = junction_tree([t.columns for t in targets], sizes)
    tables, report = fit_junction_tree(targets, tree, sizes, tolerance=1e-10)
    assert report.converged
    assert report.cycles <= 3
    rows = sample_tree(tables, tree, tuple(names), 1000, "rounded", rng)
    for target in targets:
        n = np.zeros(target.n.shape)
        np.add.at(n, tuple(rows[:, names.index(name)] for name in target.columns), 1)
        assert np.abs(n - target.n).max() < 3 + 0.2 * np.sqrt(1000)


def test_contradictions_are_reported():
    rng = np.random.default_rng(6)
    targets = []
    for margin in MODELS[1]:
        n = margin_of(rng.gamma(0.8, size=SHAPE), margin).n
        targets.append(Target(columns=margin, n=n * 500 / n.sum()))
    tree = junction_tree(MODELS[1], SIZES)
    tables, report = fit_junction_tree(targets, tree, SIZES, max_cycles=2000)
    assert not report.converged
    assert report.error > 0.01
    assert report.cycles < 200
    assert all(table.sum() == pytest.approx(500) for table in tables)


def test_zeros_that_leave_nothing_between_them_are_refused():
    only_0 = np.array([False, True])
    zeros = [
        StructuralZero(columns=("b",), cells=only_0, why=""),
        StructuralZero(columns=("b", "e"), cells=np.array([[1, 1], [0, 0]]) > 0, why=""),
    ]
    targets = [
        Target(columns=("b", "e"), n=np.ones((2, 2))),
        Target(columns=("a", "b"), n=np.ones((3, 2))),
    ]
    tree = junction_tree([("b", "e"), ("a", "b")], SIZES)
    with pytest.raises(SpecError, match="no possible combination"):
        fit_junction_tree(targets, tree, SIZES, zeros=zeros)


def fitted(model, seed=1, total=1.0):
    truth = np.random.default_rng(seed).gamma(0.8, size=SHAPE)
    targets = [margin_of(truth * total / truth.sum(), m) for m in model]
    tree = junction_tree(model, SIZES)
    tables, _ = fit_junction_tree(targets, tree, SIZES, max_cycles=3000, tolerance=1e-10)
    return tables, tree


@pytest.mark.parametrize("model", MODELS[:3])
@pytest.mark.parametrize("method", ["rounded", "multinomial"])
def test_rows_have_the_fitted_distribution(model, method):
    tables, tree = fitted(model)
    expected, _ = joint_of(tables, tree)
    rows = sample_tree(tables, tree, COLUMNS, 200_000, method, np.random.default_rng(2))
    assert rows.dtype == np.int32
    counts = np.bincount(np.ravel_multi_index(tuple(rows.T), SHAPE), minlength=expected.size)
    expected = expected.ravel() * 200_000
    chi2 = ((counts - expected)[expected > 5] ** 2 / expected[expected > 5]).sum()
    cells = (expected > 5).sum()
    assert chi2 < cells + 6 * np.sqrt(2 * cells)


DENSE_SIZES = {"a": 3, "b": 2, "c": 5, "d": 4, "e": 7}


def fit_dense(targets, columns, sizes, **options):
    """The table of all columns: a tree of one clique."""
    tree = junction_tree([columns], sizes)
    tables, report = fit_junction_tree(targets, tree, sizes, **options)
    return tables[0], report


def table_of(rng, columns, *, sparse=0.0):
    shape = [DENSE_SIZES[name] for name in columns]
    return rng.gamma(0.7, size=shape) * (rng.random(shape) >= sparse) * 100


def sums_over(table, columns, margin):
    """A table's sums over the columns that are not in the margin."""
    return Target(
        columns=margin,
        n=table.sum(axis=tuple(k for k, name in enumerate(columns) if name not in margin)),
    )


def textbook(start, columns, targets, cycles):
    kept = [(tuple(columns.index(name) for name in t.columns), t.n) for t in targets]
    return dense_raked(start, kept, cycles)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=12)
def test_fit_has_the_textbooks_limit(seed):
    rng = np.random.default_rng(seed)
    columns = tuple("abcd"[: rng.integers(2, 5)])
    truth = table_of(rng, columns)
    targets = [sums_over(truth, columns, m) for m in combinations(columns, 2)]
    got, report = fit_dense(targets, columns, DENSE_SIZES, max_cycles=3000, tolerance=1e-13)
    expected = textbook(np.ones(truth.shape), columns, targets, report.cycles + 50)
    assert np.abs(got - expected).max() <= 1e-8 * truth.sum()
    assert report.error <= 1e-12
    assert report.how == "dense"


def test_decomposable_model_is_its_closed_form():
    rng = np.random.default_rng(5)
    truth = table_of(rng, ("a", "b", "c"))
    ab, bc = (sums_over(truth, ("a", "b", "c"), m) for m in (("a", "b"), ("b", "c")))
    got, report = fit_dense([bc, ab], ("a", "b", "c"), DENSE_SIZES, tolerance=1e-12)
    expected = ab.n[:, :, None] * bc.n[None] / ab.n.sum(axis=0)[None, :, None]
    assert np.abs(got - expected).max() <= 1e-10 * expected.max()
    assert report.cycles == 2


def test_zeros_sit_in_the_seed_and_the_margins_are_still_met():
    rng = np.random.default_rng(2)
    columns = ("a", "b", "c", "d")
    cells = rng.random((3, 2, 4)) < 0.4
    zero = StructuralZero(columns=("a", "b", "d"), cells=cells, why="planted")
    truth = table_of(rng, columns) * ~cells[:, :, None, :]
    targets = [sums_over(truth, columns, m) for m in combinations(columns, 2)]
    got, report = fit_dense(
        targets, columns, DENSE_SIZES, zeros=[zero], max_cycles=5000, tolerance=1e-12
    )
    assert got[np.broadcast_to(cells[:, :, None, :], got.shape)].max() == 0
    assert report.converged
    start = np.ones(truth.shape) * ~cells[:, :, None, :]
    assert np.abs(got - textbook(start, columns, targets, 3000)).max() <= 1e-8 * truth.sum()


def test_zeros_that_leave_nothing_are_refused():
    zero = StructuralZero(columns=("b",), cells=np.ones(2, dtype=bool), why="")
    with pytest.raises(SpecError, match="no possible combination"):
        fit_dense([Target(columns=("b",), n=np.ones(2))], ("b",), DENSE_SIZES, zeros=[zero])


def test_target_that_cannot_be_met_is_reported():
    zero = StructuralZero(columns=("a", "b"), cells=np.array([[0, 0], [0, 0], [1, 1]]) > 0, why="")
    targets = [
        Target(columns=("a",), n=np.array([50.0, 30.0, 20.0])),
        Target(columns=("b",), n=np.array([40.0, 60.0])),
    ]
    got, report = fit_dense(targets, ("a", "b"), DENSE_SIZES, zeros=[zero])
    assert not report.converged
    assert report.cycles <= FIRST + 1
    assert got.sum() == pytest.approx(100)
    # 80 rows are spread over 100: 20 too few in one place, 20 too many in the others.
    assert report.error == pytest.approx(0.4)


def test_margins_that_contradict_each_other_end_early_and_unconverged():
    rng = np.random.default_rng(3)
    columns = ("a", "c", "d")
    targets = []
    for pair in combinations(columns, 2):
        n = sums_over(table_of(rng, columns), columns, pair).n
        targets.append(Target(columns=pair, n=n * 1000 / n.sum()))
    _, report = fit_dense(targets, columns, DENSE_SIZES, max_cycles=5000)
    assert not report.converged
    assert report.error > 0.01
    assert report.cycles < 200


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@settings(max_examples=50)
@given(
    expected=st.lists(st.floats(0, 1e6) | st.just(0.0), min_size=1, max_size=40),
    n=st.integers(0, 10_000),
    seed=st.integers(0, 2**32 - 1),
)
def test_rounded_counts_are_the_expectations_rounded_up_or_down(expected, n, seed):
    array = np.array(expected)
    if array.sum() <= 0:
        return
    scaled = array / array.sum() * n
    counts = sampled(array, n, "rounded", rng(seed))
    assert counts.sum() == n
    assert (counts >= np.floor(scaled - 1e-6)).all()
    assert (counts <= np.ceil(scaled + 1e-6)).all()
    assert (counts[array == 0] == 0).all()


@pytest.mark.parametrize("method", ["rounded", "multinomial"])
def test_shape_is_kept_and_counts_add_up(method):
    expected = rng(1).random((3, 4, 2, 5)).astype(np.float32)
    counts = sampled(expected, 77, method, rng(2))
    assert counts.shape == (3, 4, 2, 5)
    assert counts.dtype == np.int64
    assert counts.sum() == 77


def test_whole_expectations_come_out_as_they_are():
    expected = np.array([[3.0, 0.0, 2.0], [1.0, 4.0, 0.0]])
    for seed in range(50):
        assert np.array_equal(sampled(expected, 10, "rounded", rng(seed)), expected)


def test_sums_of_neighbours_are_within_one():
    expected = rng(3).random((30, 7)) * 0.2
    expected *= 40 / expected.sum()
    for seed in range(20):
        counts = sampled(expected, 40, "rounded", rng(seed))
        assert (np.abs(counts.sum(axis=1) - expected.sum(axis=1)) < 1 + 1e-6).all()
        assert (np.abs(np.cumsum(counts) - np.cumsum(expected)) < 1 + 1e-6).all()


@pytest.mark.parametrize("method", ["rounded", "multinomial"])
def test_counts_have_no_bias(method):
    expected = np.array([0.1, 2.5, 0.0, 0.9, 1.25, 0.25])
    draws = np.array([sampled(expected, 5, method, rng(seed)) for seed in range(4000)])
    sd = np.sqrt(expected / len(draws)) + 1e-12
    assert (np.abs(draws.mean(axis=0) - expected) <= 4.5 * sd).all()


@pytest.mark.parametrize(
    ("expected", "n"),
    [
        ([1.0, -0.1], 3),
        ([1.0, np.nan], 3),
        ([1.0, np.inf], 3),
        ([1.0], -1),
        ([0.0, 0.0], 2),
        ([], 2),
    ],
)
@pytest.mark.parametrize("method", ["rounded", "multinomial"])
def test_what_is_no_expectation_is_refused(expected, n, method):
    with pytest.raises(InternalError):
        sampled(np.array(expected), n, method, rng())
