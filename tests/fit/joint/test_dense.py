"""IPF of the full table: blocks, sums and products against plain numpy, fits against the textbook and closed forms."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.fit_oracles import dense_raked

from engine.errors import SpecError
from engine.fit.joint.ipf import fit_junction_tree, junction_tree
from engine.fit.joint.margins import FIRST, Target
from engine.levels import StructuralZero

SIZES = {"a": 3, "b": 2, "c": 5, "d": 4, "e": 7}


def fit_dense(targets, columns, sizes, **options):
    """The table of all columns: a tree of one clique."""
    tree = junction_tree([columns], sizes)
    tables, report = fit_junction_tree(targets, tree, sizes, **options)
    return tables[0], report


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


@given(seed=st.integers(0, 10**6))
@settings(max_examples=12)
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


def test_decomposable_model_is_its_closed_form():
    rng = np.random.default_rng(5)
    truth = table_of(rng, ("a", "b", "c"))
    ab, bc = (margin_of(truth, ("a", "b", "c"), m) for m in (("a", "b"), ("b", "c")))
    got, report = fit_dense([bc, ab], ("a", "b", "c"), SIZES, tolerance=1e-12)
    expected = ab.n[:, :, None] * bc.n[None] / ab.n.sum(axis=0)[None, :, None]
    assert np.abs(got - expected).max() <= 1e-10 * expected.max()
    assert report.cycles == 2


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
