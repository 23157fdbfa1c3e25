"""Targets from noisy margins and trees over values: against least squares by brute force, by hand, properties."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.fit.joint.margins import (
    assembled,
    clipped,
    leaves,
    mean_components,
    nonnegative_leaves,
    on_simplex,
    reconcile,
    thresholded,
)
from engine.levels import Margin, StructuralZero, tree_sizes

SIZES = {"A": 2, "B": 3, "C": 4, "D": 5}


def shape_of(columns):
    return tuple(SIZES[c] for c in columns)


def total_of(n, variance=0.0):
    return Margin(columns=(), n=np.array(n, dtype=np.int64), variance=variance)


def margins_of(joint, sets, rng=None, sd=0.0):
    names = tuple(SIZES)[: joint.ndim]
    out = []
    for columns in sets:
        others = tuple(i for i, name in enumerate(names) if name not in columns)
        n = joint.sum(axis=others)
        if rng is not None:
            n = n + np.rint(rng.normal(0, sd, n.shape)).astype(np.int64)
        out.append(Margin(columns=columns, n=n, variance=sd * sd))
    return out


def random_joint(rng, n_columns=3, mean=20):
    return rng.poisson(mean, shape_of(tuple(SIZES)[:n_columns])).astype(np.int64)


def test_means_are_the_least_squares_solution():
    """Oracle: the joint table that fits all noisy margins best, each weighted by its variance."""
    rng = np.random.default_rng(2)
    joint = random_joint(rng)
    sets, variances = [("A", "B"), ("A", "C"), ("B", "C"), ("B",)], [4.0, 1.0, 9.0, 0.25]
    rows, answers = [], []
    noisy = []
    names = ("A", "B", "C")
    cells = np.arange(joint.size).reshape(joint.shape)
    for columns, variance in zip(sets, variances, strict=True):
        others = tuple(i for i, name in enumerate(names) if name not in columns)
        n = joint.sum(axis=others) + rng.normal(0, variance**0.5, shape_of(columns))
        noisy.append((columns, n, variance))
        moved = np.moveaxis(cells, others, tuple(range(-len(others), 0)) if others else ())
        for place, members in enumerate(moved.reshape(n.size, -1)):
            row = np.zeros(joint.size)
            row[members] = variance**-0.5
            rows.append(row)
            answers.append(n.ravel()[place] * variance**-0.5)
    best = np.linalg.lstsq(np.array(rows), np.array(answers), rcond=None)[0].reshape(joint.shape)
    means, _ = mean_components(noisy)
    for columns, _, _ in noisy:
        others = tuple(i for i, name in enumerate(names) if name not in columns)
        found = assembled(means, shape_of(columns), columns)
        assert np.allclose(found, best.sum(axis=others), atol=1e-8)


@settings(max_examples=25)
@given(
    st.lists(st.floats(-100, 100), min_size=1, max_size=12),
    st.floats(0.5, 300),
    st.randoms(use_true_random=False),
)
def test_simplex_is_the_nearest_point(values, rows, random):
    n = np.array(values)
    possible = np.array([random.random() < 0.8 for _ in values])
    if not possible.any():
        possible[0] = True
    found = on_simplex(n, possible, rows)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(rows)
    assert not found[~possible].any()
    # Optimality: the gradient is one constant on the positive cells and not smaller on the others.
    lift = (found - n)[possible]
    positive = found[possible] > 0
    assert np.ptp(lift[positive]) < 1e-6 * max(1, np.abs(n).max())
    if (~positive).any():
        assert lift[~positive].min() >= lift[positive].max() - 1e-6 * max(1, np.abs(n).max())


def test_paper_by_hand():
    assert np.allclose(clipped(np.array([3.0, -2.0, 1.0]), 8.0), [6, 0, 2], atol=1e-5)


def test_synthpop_threshold_by_hand():
    # Falling: 6, 5, 1, -2; running sums of sizes 6, 11, 12, 14: from the crossing of 10 on, nothing is left.
    assert thresholded(np.array([1.0, 6.0, -2.0, 5.0]), 10.0).tolist() == [0, 6, 0, 0]
    assert thresholded(np.array([1.0, 6.0, -2.0, 5.0]), 15.0).tolist() == [1, 6, 2, 5]


@pytest.mark.parametrize("post", ["wls", "paper", "synthpop"])
def test_targets_are_counts_of_one_total(post):
    rng = np.random.default_rng(5)
    joint = random_joint(rng, 4, mean=2)
    sets = list(combinations("ABCD", 2))
    found = reconcile(
        margins_of(joint, sets, rng, sd=15), total_of(joint.sum() + 3, 4.0), post=post, prior=0.5
    )
    assert [t.columns for t in found] == sets
    for target in found:
        assert target.n.shape == shape_of(target.columns)
        assert target.n.min() >= 0
        assert target.n.sum() == pytest.approx(found[0].n.sum())
    if post != "wls":
        assert found[0].n.sum() == pytest.approx(joint.sum() + 3)


def test_exact_margins_stay_as_they_are():
    joint = random_joint(np.random.default_rng(6))
    margins = margins_of(joint, [("A", "B"), ("A", "C"), ("B", "C")])
    for margin, target in zip(
        margins, reconcile(margins, total_of(joint.sum()), post="wls"), strict=True
    ):
        assert np.allclose(target.n, margin.n)


def test_one_exact_margin_decides_what_it_says():
    rng = np.random.default_rng(7)
    joint = random_joint(rng, mean=60)
    exact = margins_of(joint, [("B",)])
    noisy = margins_of(joint, [("A", "B"), ("B", "C")], rng, sd=5)
    found = reconcile([*exact, *noisy], total_of(joint.sum()), post="wls")
    assert np.allclose(found[0].n, exact[0].n, atol=0.05)
    assert np.allclose(found[1].n.sum(axis=0), exact[0].n, atol=0.05)


def test_least_squares_beats_each_margin_on_its_own():
    rng = np.random.default_rng(8)
    ours = theirs = 0.0
    for _ in range(20):
        joint = random_joint(rng, 4, mean=1)
        sets = list(combinations("ABCD", 2))
        noisy = margins_of(joint, sets, rng, sd=8)
        truth = {m.columns: m.n for m in margins_of(joint, sets)}
        for post in ("wls", "paper"):
            targets = reconcile(noisy, total_of(joint.sum()), post=post)
            error = sum(float(((t.n - truth[t.columns]) ** 2).sum()) for t in targets)
            ours, theirs = (ours + error, theirs) if post == "wls" else (ours, theirs + error)
    assert ours < 0.6 * theirs


@pytest.mark.parametrize("post", ["wls", "paper", "synthpop"])
def test_impossible_cells_hold_nobody(post):
    rng = np.random.default_rng(10)
    joint = random_joint(rng)
    cells = np.zeros((2, 3), dtype=bool)
    cells[1, 2] = True
    zero = StructuralZero(columns=("A", "B"), cells=cells, why="by rule")
    joint[1, 2] = 0
    noisy = margins_of(joint, [("A", "B"), ("A", "C"), ("B", "C")], rng, sd=4)
    found = reconcile(noisy, total_of(joint.sum()), post=post, prior=2.0, zeros=[zero])
    assert found[0].n[1, 2] == 0
    assert (found[0].n > 0).sum() > 1
    assert found[0].n.sum() == pytest.approx(joint.sum())


def test_a_tree_on_its_own_keeps_its_wide_ranges():
    leaves = np.array([4, 6, 0, 0, 30, 10, 0, 0])
    margin = Margin(
        columns=("A",),
        n=leaves,
        variance=1.0,
        branching=2,
        tree=(np.array([10, 40]), np.array([10, 0, 40, 0])),
    )
    (target,) = reconcile([margin], total_of(50), post="wls")
    assert np.allclose(target.n, leaves)


def tree_of(counts, branching: int, *, variance: float = 2.0, noise=None) -> Margin:
    """A margin measured as a tree; `noise(size)` is added at every depth."""
    counts = np.asarray(counts, dtype=np.int64)
    n_leaves = len(counts)
    sizes = tree_sizes(n_leaves, branching) if branching else ()
    depths, below = [], counts
    for size in reversed(sizes):
        starts = np.arange(size) * branching
        below = np.add.reduceat(below, starts)
        depths.append(below)
    draw = noise or (lambda size: np.zeros(size, dtype=np.int64))
    return Margin(
        columns=("A",),
        n=counts + draw(n_leaves),
        variance=variance,
        branching=branching,
        tree=tuple(depth + draw(len(depth)) for depth in reversed(depths)),
    )


def tree_total(n: int, variance: float = 3.0) -> Margin:
    return Margin(columns=(), n=np.array(n, dtype=np.int64), variance=variance)


def least_squares(margin: Margin, total: Margin | None) -> tuple[np.ndarray, float]:
    """The oracle: one equation a count, weighted; and the mean of the diagonal of the covariance."""
    n_leaves = len(margin.n)
    rows, right, weights = [], [], []
    for depth, counts in enumerate((*margin.tree, margin.n)):
        size = margin.branching ** (len(margin.tree) - depth) if margin.tree else 1
        for i, count in enumerate(counts):
            under = (np.arange(n_leaves) // size == i).astype(float)
            rows.append(under)
            right.append(count)
            weights.append(margin.variance**-0.5)
    if total is not None:
        rows.append(np.ones(n_leaves))
        right.append(float(total.n))
        weights.append(total.variance**-0.5)
    a = np.array(rows) * np.array(weights)[:, None]
    found = np.linalg.lstsq(a, np.array(right) * np.array(weights), rcond=None)[0]
    return found, float(np.diag(np.linalg.inv(a.T @ a)).mean())


@settings(max_examples=20)
@given(
    n_leaves=st.integers(1, 40),
    branching=st.sampled_from([0, 2, 3, 5, 16]),
    with_total=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_leaves_are_the_least_squares_estimate(n_leaves, branching, with_total, seed):
    rng = np.random.default_rng(seed)
    margin = tree_of(
        rng.integers(0, 30, n_leaves),
        branching,
        variance=float(rng.uniform(0.5, 9)),
        noise=lambda size: rng.integers(-9, 10, size),
    )
    total = (
        tree_total(int(rng.integers(0, 500)), float(rng.uniform(0.1, 9))) if with_total else None
    )
    found, variance = leaves(margin, total)
    expected, stated = least_squares(margin, total)
    assert found == pytest.approx(expected, abs=1e-7)
    assert variance == pytest.approx(stated, rel=1e-9)


@pytest.mark.parametrize("branching", [0, 2, 3])
def test_exact_counts_stay_as_they_are(branching):
    counts = [5, 0, 9, 2, 7, 1, 1]
    margin = tree_of(counts, branching, variance=0.0)
    for total in (None, tree_total(25, 0.0)):
        found, variance = leaves(margin, total)
        assert found == pytest.approx(counts)
        assert variance == 0
    assert nonnegative_leaves(margin, 25.0) == pytest.approx(counts)


@settings(max_examples=20)
@given(
    n_leaves=st.integers(1, 60),
    branching=st.sampled_from([0, 2, 3, 16]),
    mass=st.floats(0, 1e6),
    seed=st.integers(0, 2**32 - 1),
)
def test_nonnegative_leaves_add_up(n_leaves, branching, mass, seed):
    rng = np.random.default_rng(seed)
    margin = tree_of(
        rng.integers(0, 4, n_leaves), branching, noise=lambda size: rng.integers(-20, 21, size)
    )
    found = nonnegative_leaves(margin, mass)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(mass, rel=1e-9, abs=1e-9)


def test_errors_of_wide_ranges_do_not_grow():
    """4,096 values at one budget: the tree's two inner depths and its leaves have a third of the flat one's each."""
    truth = np.random.default_rng(1).integers(150, 350, 4096)
    sd, widths = 10.0, (60, 400, 2000)
    rng = np.random.default_rng(2)

    def noise_of(scale):
        return lambda size: np.rint(rng.laplace(0, scale / 2**0.5, size)).astype(np.int64)

    errors = {(name, width): [] for name in ("flat", "tree") for width in widths}
    for _ in range(120):
        flat = Margin(columns=("A",), n=truth + noise_of(sd)(4096), variance=sd**2)
        tree = tree_of(truth, 16, variance=(3 * sd) ** 2, noise=noise_of(3 * sd))
        for name, margin in (("flat", flat), ("tree", tree)):
            off = nonnegative_leaves(margin, float(truth.sum())) - truth
            for width in widths:
                start = int(rng.integers(0, 4096 - width))
                errors[name, width].append(off[start : start + width].sum())
    rms = {key: float(np.sqrt(np.mean(np.square(found)))) for key, found in errors.items()}
    assert (
        rms["flat", 2000] > 3 * rms["flat", 60]
    )  # the square root of 2000 * (1 - 2000 / 4096) / 60 is 4.1
    assert rms["tree", 2000] < 1.2 * rms["tree", 400] < 2 * rms["tree", 60]
    assert rms["tree", 2000] < 0.5 * rms["flat", 2000]
