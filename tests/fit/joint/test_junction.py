"""Junction trees: their shape, their fit against the full table, and the rows drawn from them."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import SpecError
from engine.fit.joint.ipf import fit_junction_tree, junction_tree, sample_tree
from engine.fit.joint.margins import Target
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
