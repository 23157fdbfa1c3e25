"""Trees over the values of one column, against least squares spelled out, and what they are for: wide ranges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.fit.joint.margins import leaves, nonnegative_leaves
from engine.levels import Margin, tree_sizes


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


def total_of(n: int, variance: float = 3.0) -> Margin:
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
    total = total_of(int(rng.integers(0, 500)), float(rng.uniform(0.1, 9))) if with_total else None
    found, variance = leaves(margin, total)
    expected, stated = least_squares(margin, total)
    assert found == pytest.approx(expected, abs=1e-7)
    assert variance == pytest.approx(stated, rel=1e-9)


@pytest.mark.parametrize("branching", [0, 2, 3])
def test_exact_counts_stay_as_they_are(branching):
    counts = [5, 0, 9, 2, 7, 1, 1]
    margin = tree_of(counts, branching, variance=0.0)
    for total in (None, total_of(25, 0.0)):
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
