"""Targets from noisy margins: against least squares by brute force, by hand, and what must always hold."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import InternalError
from engine.fit.joint.reconcile import clipped, on_simplex, reconcile, thresholded, with_prior
from engine.fit.joint.shrinkage import assembled, components, mean_components, of_low_rank, shrunk
from engine.levels import Margin, StructuralZero

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


def test_components_and_back():
    rng = np.random.default_rng(1)
    for width in range(4):
        columns = tuple("ABCD")[:width]
        n = rng.normal(size=shape_of(columns))
        parts = components(n, columns)
        assert set(parts) == {s for w in range(width + 1) for s in combinations(columns, w)}
        for held, part in parts.items():
            assert part.shape == tuple(s - 1 for s in shape_of(held))
            # Orthonormal coordinates: squares as large as those of what varies with just these columns.
            others = tuple(i for i, name in enumerate(columns) if name not in held)
            varies = n.sum(axis=others)
            for axis in range(varies.ndim):
                varies = varies - varies.mean(axis=axis, keepdims=True)
            assert (part**2).sum() == pytest.approx((varies**2).sum())
        assert np.allclose(assembled(parts, shape_of(columns), columns), n)


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


def test_variances_of_components():
    """Monte Carlo: the noise of a component along one of its dimensions has the variance that is stated."""
    rng = np.random.default_rng(3)
    draws = {(): [], ("A",): [], ("A", "B"): []}
    for _ in range(4000):
        pairs = [
            (("A", "B"), rng.normal(0, 3, (2, 3)), 9.0),
            (("A", "C"), rng.normal(0, 1, (2, 4)), 1.0),
        ]
        means, variances = mean_components(pairs)
        for held in draws:
            draws[held].append((means[held] ** 2).mean())
    for held, squares in draws.items():
        assert np.mean(squares) == pytest.approx(variances[held], rel=0.08)


def test_shrinking_kills_noise_and_keeps_signal():
    rng = np.random.default_rng(4)
    noise = {("C", "D"): rng.normal(0, 1, (4, 5))}
    kept = shrunk(noise, {("C", "D"): 1.0})[("C", "D")]
    assert np.abs(kept).sum() < 0.75 * np.abs(noise[("C", "D")]).sum()
    signal = {("C", "D"): 1e4 * rng.normal(0, 1, (4, 5))}
    assert np.allclose(shrunk(signal, {("C", "D"): 1.0})[("C", "D")], signal[("C", "D")], rtol=1e-6)
    assert shrunk({(): np.array(5.0)}, {(): 100.0})[()] == 5.0  # the total is never shrunk


@settings(max_examples=60)
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


def test_simplex_of_nothing():
    n = np.array([3.0, -1.0])
    assert not on_simplex(n, np.array([True, True]), 0.0).any()
    assert not on_simplex(n, np.array([False, False]), 5.0).any()


def test_paper_by_hand():
    assert np.allclose(clipped(np.array([3.0, -2.0, 1.0]), 8.0), [6, 0, 2], atol=1e-5)


def test_synthpop_threshold_by_hand():
    # Falling: 6, 5, 1, -2; running sums of sizes 6, 11, 12, 14: from the crossing of 10 on, nothing is left.
    assert thresholded(np.array([1.0, 6.0, -2.0, 5.0]), 10.0).tolist() == [0, 6, 0, 0]
    assert thresholded(np.array([1.0, 6.0, -2.0, 5.0]), 15.0).tolist() == [1, 6, 2, 5]


def test_prior_goes_to_possible_cells():
    possible = np.array([True, False, True])
    assert with_prior(np.zeros(3), possible, 4.0).tolist() == [2, 0, 2]


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


def test_consistent_where_nothing_is_clipped():
    rng = np.random.default_rng(9)
    joint = random_joint(rng, mean=500)
    noisy = margins_of(joint, [("A", "B"), ("A", "C"), ("B", "C")], rng, sd=6)
    ab, ac, bc = (t.n for t in reconcile(noisy, total_of(joint.sum() + 9, 36.0), post="wls"))
    assert np.allclose(ab.sum(axis=1), ac.sum(axis=1), atol=1e-9)
    assert np.allclose(ab.sum(axis=0), bc.sum(axis=1), atol=1e-9)
    assert np.allclose(ac.sum(axis=0), bc.sum(axis=0), atol=1e-9)


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


@pytest.mark.parametrize("post", ["wls", "paper", "synthpop"])
def test_a_total_below_nothing_is_nobody(post):
    margin = Margin(columns=("A",), n=np.array([-5, -7]), variance=8.0)
    (target,) = reconcile([margin], total_of(-3, 2.0), post=post)
    assert target.n.tolist() == [0, 0]


def test_a_noisy_total_joins_the_mean():
    margin = Margin(
        columns=("A",), n=np.array([60, 40]), variance=50.0
    )  # sums to 100, variance 100
    (target,) = reconcile([margin], total_of(120, 25.0), post="wls")
    assert target.n.sum() == pytest.approx((100 / 100 + 120 / 25) / (1 / 100 + 1 / 25))


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


def test_no_margin_is_a_mistake():
    with pytest.raises(InternalError, match="at least one margin"):
        reconcile([], total_of(5), post="wls")


def test_few_strong_directions_come_out_of_noise():
    """A planted rank of one: less error than shrinking as a whole, and about as much as is expected."""
    rng = np.random.default_rng(11)
    ours, whole, expected = [], [], []
    row = rng.normal(size=(11, 1))
    column = rng.normal(size=(1, 19))
    truth = row @ column * 3
    for _ in range(60):
        noisy = truth + rng.normal(0, 2.0, truth.shape)
        signal = max(float((noisy**2).sum()) - 11 * 19 * 4.0, 0.0)
        found, error = of_low_rank(noisy, 4.0, signal)
        ours.append(((found - truth) ** 2).sum())
        expected.append(error)
        share = max(0.0, 1 - (11 * 19 - 2) * 4.0 / float((noisy**2).sum()))
        whole.append(((noisy * share - truth) ** 2).sum())
    assert np.mean(ours) < 0.6 * np.mean(whole)
    assert np.mean(expected) == pytest.approx(np.mean(ours), rel=0.35)


def test_nothing_comes_out_of_noise_alone():
    rng = np.random.default_rng(12)
    left = [
        float((of_low_rank(rng.normal(0, 1.0, (8, 29)), 1.0, 0.0)[0] ** 2).sum()) for _ in range(40)
    ]
    assert np.mean(left) < 0.05 * 8 * 29
    small = np.array([[1.0, -1.0]])
    assert of_low_rank(small, 1.0, 3.0)[1] == np.inf


def test_wide_ranges_of_a_tree_stay_right_beside_another_margin():
    """Ages as a tree and, with less of the budget for each cell, age by sex: the tree tells a range of many ages."""
    rng = np.random.default_rng(13)
    truth = rng.poisson(np.linspace(40, 0.2, 256))
    sizes = [1, 4, 16, 64]
    flat, tree = [], []
    for _ in range(40):
        counts = [truth.reshape(n, -1).sum(axis=1) for n in sizes[1:]]
        noisy = [
            np.rint(c + rng.laplace(0, 80, c.shape)).astype(np.int64) for c in (*counts, truth)
        ]
        two = np.stack([truth // 2, truth - truth // 2], axis=1)
        pair = Margin(
            columns=("age", "sex"),
            n=np.rint(two + rng.laplace(0, 80, two.shape)).astype(np.int64),
            variance=12800.0,
        )
        ages = Margin(
            columns=("age",), n=noisy[-1], variance=12800.0, branching=4, tree=tuple(noisy[:-1])
        )
        alone = Margin(columns=("age",), n=noisy[-1], variance=12800.0)
        total = total_of(truth.sum() + int(rng.laplace(0, 80)), 12800.0)
        for kept, margin in ((tree, ages), (flat, alone)):
            targets = {t.columns: t.n for t in reconcile([margin, pair], total, post="wls")}
            kept.append(targets[("age",)][30:171].sum() - truth[30:171].sum())
            if margin is ages:
                assert np.allclose(targets[("age", "sex")].sum(axis=1), targets[("age",)])
    assert np.sqrt(np.mean(np.square(tree))) < 0.6 * np.sqrt(np.mean(np.square(flat)))
    assert abs(np.mean(tree)) < 3 * np.std(tree) / np.sqrt(len(tree)) + 60


def test_synthpop_leaves_exact_counts_alone():
    joint = random_joint(np.random.default_rng(14))
    margins = margins_of(joint, [("A", "B"), ("B", "C")])
    for margin, target in zip(
        margins, reconcile(margins, total_of(joint.sum()), post="synthpop"), strict=True
    ):
        assert np.allclose(target.n, margin.n)
