from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fixtures.fit import gaussian, measured, tree_of
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.fit_oracles import fitted_tree, projected

from engine.fit.tree import fit_tree, positive_with_sum
from engine.schema import KIND_NONNEGATIVE, KIND_NULL


def fit(tree, noisy_total, total, has_room, *, layer_sd=0):
    return fit_tree(
        tree,
        noisy_total=noisy_total,
        total=total,
        has_room=np.array(has_room),
        floor=3,
        layer_sd=layer_sd,
    )


INTEGERS = st.lists(st.integers(-1000, 1000), min_size=1, max_size=40)


@given(INTEGERS, st.integers(-5, 2000))
def test_projection_meets_the_kkt_conditions(x, total):
    x = np.array(x, dtype=np.float64)
    y = positive_with_sum(x, float(total))
    assert (y >= 0).all()
    if total <= 0:
        assert (y == 0).all()
        return
    assert y.sum() == pytest.approx(total, rel=1e-12)
    # One multiplier t: y = x - t where y > 0, and x - t <= 0 elsewhere.
    t = (x - y)[y > 0]
    assert np.ptp(t) <= 1e-9 * max(1.0, np.abs(x).max())
    assert (x[y == 0] <= t.max() + 1e-9).all()


@given(INTEGERS, st.integers(-5, 2000))
def test_projection_equals_bisection(x, total):
    y = positive_with_sum(np.array(x, dtype=float), float(total))
    assert y == pytest.approx(projected(x, total), abs=1e-8)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([5.0], [5.0]),
        ([3.0, 1.0, 0.0], [3.0, 1.0, 0.0]),  # already there
        ([4.0, -2.0], [2.0, 0.0]),
        ([4.0, 4.0, -2.0], [3.0, 3.0, 0.0]),
        ([-3.0, 1.0], [0.0, 0.0]),  # negative sum
        ([-1.0, 1.0], [0.0, 0.0]),
        ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0]),
    ],
)
def test_projection_by_hand(x, y):
    assert positive_with_sum(np.array(x), sum(x)).tolist() == y


def test_projection_leaves_its_input_alone_and_follows_a_permutation():
    x = np.array([4.0, -2.0, 9.0, 1.0, -5.0])
    before = x.copy()
    y = positive_with_sum(x, 7.0)
    assert (x == before).all()
    turn = np.array([3, 0, 4, 1, 2])
    assert (positive_with_sum(x[turn], 7.0) == y[turn]).all()


def test_tree_by_hand():
    # Root 100 noisy, 110 fitted; one node of 90 with children of 50 and 20; the root has no room.
    tree = tree_of(
        [
            (0, KIND_NONNEGATIVE, 1, 0, -1, 90),
            (1, KIND_NONNEGATIVE, 0, 0, 0, 50),
            (1, KIND_NONNEGATIVE, 0, 1, 0, 20),
        ]
    )
    room = np.array([False, True, False, False])
    fitted = fit(tree, 100, 110.0, room)
    assert fitted.mass == pytest.approx([110, 110, 110 * 50 / 90, 110 * 20 / 90])
    assert fitted.remainder == pytest.approx([0, 110 * 20 / 90, 0, 0])


def test_leaf_with_room_keeps_everything_and_leaf_without_room_has_no_remainder():
    tree = tree_of([(0, KIND_NULL, 0, 0, -1, 30), (0, KIND_NONNEGATIVE, 3, 0, -1, 70)])
    fitted = fit(tree, 100, 50.0, [False, False, True])
    assert fitted.mass.tolist() == [50, 15, 35]
    assert fitted.remainder.tolist() == [0, 0, 35]


def test_counts_below_the_floor_are_raised_to_it_but_not_as_parents():
    tree = tree_of(
        [
            (0, KIND_NONNEGATIVE, 1, 0, -1, -4),
            (1, KIND_NONNEGATIVE, 0, 0, 0, 1),
            (0, KIND_NULL, 0, 0, -1, 7),
        ]
    )
    fitted = fit(tree, 10, 10.0, [True, True, False, False])
    # 3 and 7 of 10: nothing left at the root; the node's own -4 - 3 is no remainder.
    assert fitted.mass == pytest.approx([10, 3, 3, 7])
    assert fitted.remainder.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("total", [0.0, 12.0])
def test_empty_tree(total):
    fitted = fit(tree_of([]), 12, total, [True])
    assert fitted.mass.tolist() == [total]
    assert fitted.remainder.tolist() == [total]
    without_room = fit(tree_of([]), 12, total, [False])
    assert without_room.remainder.tolist() == [0]


@given(
    st.lists(st.tuples(st.integers(-9, 30), st.integers(-3, 5)), min_size=1, max_size=60),
    st.integers(0, 10**6),
    st.integers(1, 4),
    st.integers(0, 2),
    st.data(),
)
@settings(max_examples=60)
def test_tree_equals_the_dictionary_oracle(rows, seed, threshold, layer_sd, data):
    tree = measured(("A", "B"), rows, (5, 3), threshold=threshold, noise=gaussian(seed))
    room = [data.draw(st.booleans()) for _ in range(tree.n_nodes + 1)]
    fitted = fit(tree, len(rows) + 1, 71.5, room, layer_sd=layer_sd)
    mass, left = fitted_tree(tree, len(rows) + 1, 71.5, room, 3, layer_sd)
    assert fitted.mass == pytest.approx([mass[i - 1] for i in range(tree.n_nodes + 1)], abs=1e-8)
    assert fitted.remainder == pytest.approx(
        [left[i - 1] for i in range(tree.n_nodes + 1)], abs=1e-8
    )
    # Children and remainder are the whole of every node that has children.
    inside = np.bincount(tree.parent + 1, weights=fitted.mass[1:], minlength=len(fitted.mass))
    parents = np.bincount(tree.parent + 1, minlength=len(fitted.mass)) > 0
    assert (inside + fitted.remainder)[parents] == pytest.approx(fitted.mass[parents])
    assert (fitted.remainder >= 0).all()
    assert (fitted.mass > 0).all()


def test_noise_off_and_nothing_suppressed_gives_the_counts_back():
    rows = [(v % 4, v % 3) for v in range(60)]
    tree = measured(("A", "B"), rows, (3, 2))
    fitted = fit(tree, 60, 60.0, np.ones(tree.n_nodes + 1, dtype=bool))
    assert (fitted.mass[1:] == tree.n).all()
    held = np.zeros(tree.n_nodes, dtype=bool)
    held[tree.parent[tree.parent >= 0]] = True
    assert (fitted.remainder[1:][held] == 0).all()


def test_remainders_are_shrunk_for_their_noise():
    # 100 less 30 and 45: 25 beyond, with noise of variance (1 + 2) * 2 * 4**2 = 96: 25 - 96 / 25 is sure.
    tree = tree_of([(0, KIND_NULL, 0, 0, -1, 30), (0, KIND_NONNEGATIVE, 0, 0, -1, 45)])
    scaled = replace(tree, scale=np.array([4]))
    fitted = fit(scaled, 100, 100.0, [True, False, False], layer_sd=1)
    # 3.84 are missing then; weights 30, 32 (the noise variance of one node) and 21.16 share them.
    rate = 3.84 / (30 + 32 + 21.16)
    assert fitted.mass[1:] == pytest.approx([30 * (1 + rate), 45 + 32 * rate])
    assert fitted.remainder[0] == pytest.approx(21.16 * (1 + rate))
    barely = fit(scaled, 84, 84.0, [True, False, False], layer_sd=1)  # 9 < 96 / 9
    assert barely.remainder.tolist() == [0, 0, 0]
    assert barely.mass == pytest.approx([84, 30 * (1 + 9 / 62), 45 + 32 * 9 / 62])


def test_a_large_child_does_not_take_over_the_noise_of_a_small_one():
    # 1,020 in the parent, 1,000 and 12 measured: 8 are missing, and both counts are equally sure.
    tree = tree_of([(0, KIND_NULL, 0, 0, -1, 1000), (0, KIND_NONNEGATIVE, 0, 0, -1, 12)])
    fitted = fit(tree, 1020, 1020.0, [False, False, False], layer_sd=1)
    assert fitted.mass == pytest.approx([1020, 1004, 16])
    # A child loses no more than three quarters, however far off it is.
    fitted = fit(tree, 900, 900.0, [False, False, False], layer_sd=1)
    assert fitted.mass == pytest.approx([900, 944 * 900 / 947, 3 * 900 / 947])


def test_sum_below_the_resolution_of_the_entries():
    # 1e9 - 1e-9 is 1e9 in float64: no entry lies strictly above the shift.
    assert positive_with_sum(np.array([1e9, -3.0]), 1e-9).tolist() == [0.0, 0.0]


def test_the_stated_error_is_the_error():
    # A root of 8 children of which two have two each; noise drawn many times, everything refitted.
    rng = np.random.default_rng(5)
    nodes = [(0, KIND_NONNEGATIVE, 2, i, -1, 400) for i in range(5)]
    nodes += [(1, KIND_NONNEGATIVE, 1, i, i // 2, 200) for i in range(4)]
    tree = replace(tree_of(nodes), scale=np.array([2, 1]))
    sd = np.array([2.0] * 5 + [1.0] * 4) * 2**0.5
    errors = []
    for _ in range(4_000):
        noisy = replace(tree, n=tree.n + np.rint(rng.normal(0, sd)).astype(np.int64))
        total = 2000 + 5 * rng.normal()
        fitted = fit_tree(
            noisy,
            noisy_total=round(total),
            total=total,
            has_room=np.zeros(10, dtype=bool),
            floor=3,
            layer_sd=1,
            total_sd=5.0,
        )
        errors.append(fitted.mass[1:] - tree.n)
    assert np.std(errors, axis=0) == pytest.approx(np.sqrt(fitted.variance[1:]), rel=0.06)
    assert np.abs(np.mean(errors, axis=0)).max() < 0.15
