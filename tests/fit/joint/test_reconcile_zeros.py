"""Targets where cells are impossible, and of margins too wide to be taken apart."""

from __future__ import annotations

import numpy as np
import pytest

from engine.fit.joint.reconcile import on_simplex, reconcile
from engine.levels import Margin, StructuralZero


def total_of(n):
    return Margin(columns=(), n=np.array(n, dtype=np.int64), variance=0.0)


def test_where_synthpop_drops_all_only_the_possible_get_rows():
    """The largest count has more rows than there are: nothing is kept, and what is possible is all alike."""
    margin = Margin(columns=("C",), n=np.array([90, 40, 30, 20]), variance=2.0)
    zero = StructuralZero(columns=("C",), cells=np.array([1, 0, 0, 1], dtype=bool), why="planted")
    (target,) = reconcile([margin], total_of(30), post="synthpop", zeros=[zero])
    assert target.n.tolist() == [0, 15, 15, 0]
    # Counts of the impossible do not use up the rows.
    (target,) = reconcile([margin], total_of(75), post="synthpop", zeros=[zero])
    assert target.n.tolist() == pytest.approx([0, 75 * 40 / 70, 75 * 30 / 70, 0])


def test_noise_that_impossible_cells_do_not_have_shrinks_nothing():
    """Nine in ten cells impossible: shrunk as if they were noisy too, the rest would lose much that is true."""
    rng = np.random.default_rng(15)
    cells = np.ones((30, 30), dtype=bool)
    cells[np.arange(30), rng.permuted(np.tile(np.arange(30), (3, 1)), axis=1)] = False
    zero = StructuralZero(columns=("A", "B"), cells=cells, why="planted")
    truth = np.where(cells, 0, rng.poisson(rng.gamma(0.7, 60, cells.shape)))
    ruled, plain = [], []
    for _ in range(20):
        n = truth + np.rint(rng.laplace(0, 20, cells.shape)).astype(np.int64)
        margin = Margin(columns=("A", "B"), n=n, variance=800.0)
        (target,) = reconcile([margin], total_of(truth.sum()), post="wls", zeros=[zero])
        ruled.append(((target.n - truth) ** 2).sum())
        plain.append(((on_simplex(n.astype(float), ~cells, truth.sum()) - truth) ** 2).sum())
    assert np.mean(ruled) <= np.mean(plain)


def test_a_very_wide_margin_is_brought_to_counts_by_itself():
    """A margin of 16 columns has 65,536 components: it is not taken apart; narrower ones still are."""
    rng = np.random.default_rng(16)
    columns = tuple(f"B{i:02d}" for i in range(16))
    joint = rng.poisson(2, (2,) * 16)
    wide = Margin(columns=columns, n=joint + rng.integers(-3, 4, joint.shape), variance=4.0)
    first = joint.sum(axis=tuple(range(2, 16)))
    pair = Margin(columns=columns[:2], n=first, variance=0.0)
    targets = reconcile([wide, pair], total_of(joint.sum()), post="wls")
    assert np.allclose(targets[1].n, first, rtol=1e-3)
    assert targets[0].n.min() >= 0
    assert targets[0].n.sum() == pytest.approx(joint.sum())
    assert np.abs(targets[0].n - joint).sum() < np.abs(wide.n - joint).sum()
