from __future__ import annotations

import numpy as np
import pytest
from fit_fixture import gaussian, measured, tree_of
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.fit_oracles import fitted_tree, projected

from engine.schema import KIND_NONNEGATIVE, KIND_NULL
from engine.tree import fit_tree, positive_with_sum

INTEGERS = st.lists(st.integers(-1000, 1000), min_size=1, max_size=40)


@given(INTEGERS)
def test_projection_meets_the_kkt_conditions(x):
    x = np.array(x, dtype=np.float64)
    y = positive_with_sum(x)
    assert (y >= 0).all()
    if x.sum() <= 0:
        assert (y == 0).all()
        return
    assert y.sum() == pytest.approx(x.sum(), rel=1e-12)
    # One multiplier t: y = x - t where y > 0, and x - t <= 0 elsewhere.
    t = (x - y)[y > 0]
    assert np.ptp(t) <= 1e-9 * max(1.0, np.abs(x).max())
    assert (x[y == 0] <= t.max() + 1e-9).all()


@given(INTEGERS)
def test_projection_equals_bisection(x):
    assert positive_with_sum(np.array(x, dtype=float)) == pytest.approx(projected(x), abs=1e-8)


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
    assert positive_with_sum(np.array(x)).tolist() == y


def test_projection_leaves_its_input_alone_and_follows_a_permutation():
    x = np.array([4.0, -2.0, 9.0, 1.0, -5.0])
    before = x.copy()
    y = positive_with_sum(x)
    assert (x == before).all()
    turn = np.array([3, 0, 4, 1, 2])
    assert (positive_with_sum(x[turn]) == y[turn]).all()


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
    fit = fit_tree(tree, 100, 110.0, room, 3)
    assert fit.mass == pytest.approx([110, 110, 110 * 50 / 90, 110 * 20 / 90])
    assert fit.remainder == pytest.approx([0, 110 * 20 / 90, 0, 0])


def test_leaf_with_room_keeps_everything_and_leaf_without_room_has_no_remainder():
    tree = tree_of([(0, KIND_NULL, 0, 0, -1, 30), (0, KIND_NONNEGATIVE, 3, 0, -1, 70)])
    fit = fit_tree(tree, 100, 50.0, np.array([False, False, True]), 3)
    assert fit.mass.tolist() == [50, 15, 35]
    assert fit.remainder.tolist() == [0, 0, 35]


def test_counts_below_the_floor_are_raised_to_it_but_not_as_parents():
    tree = tree_of(
        [
            (0, KIND_NONNEGATIVE, 1, 0, -1, -4),
            (1, KIND_NONNEGATIVE, 0, 0, 0, 1),
            (0, KIND_NULL, 0, 0, -1, 7),
        ]
    )
    fit = fit_tree(tree, 10, 10.0, np.array([True, True, False, False]), 3)
    # 3 and 7 of 10: nothing left at the root; the node's own -4 - 3 is no remainder.
    assert fit.mass == pytest.approx([10, 3, 3, 7])
    assert fit.remainder.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("total", [0.0, 12.0])
def test_empty_tree(total):
    fit = fit_tree(tree_of([]), 12, total, np.array([True]), 3)
    assert fit.mass.tolist() == [total]
    assert fit.remainder.tolist() == [total]
    without_room = fit_tree(tree_of([]), 12, total, np.array([False]), 3)
    assert without_room.remainder.tolist() == [0]


@given(
    st.lists(st.tuples(st.integers(-9, 30), st.integers(-3, 5)), min_size=1, max_size=60),
    st.integers(0, 10**6),
    st.integers(1, 4),
    st.data(),
)
@settings(max_examples=60)
def test_tree_equals_the_dictionary_oracle(rows, seed, threshold, data):
    tree = measured(("A", "B"), rows, (5, 3), threshold=threshold, noise=gaussian(seed))
    room = [data.draw(st.booleans()) for _ in range(tree.n_nodes + 1)]
    fit = fit_tree(tree, len(rows) + 1, 71.5, np.array(room), 3)
    mass, left = fitted_tree(tree, len(rows) + 1, 71.5, room, 3)
    assert fit.mass == pytest.approx([mass[i - 1] for i in range(tree.n_nodes + 1)], abs=1e-8)
    assert fit.remainder == pytest.approx([left[i - 1] for i in range(tree.n_nodes + 1)], abs=1e-8)
    # Children and remainder are the whole of every node that has children.
    inside = np.bincount(tree.parent + 1, weights=fit.mass[1:], minlength=len(fit.mass))
    parents = np.bincount(tree.parent + 1, minlength=len(fit.mass)) > 0
    assert (inside + fit.remainder)[parents] == pytest.approx(fit.mass[parents])
    assert (fit.remainder >= 0).all()
    assert (fit.mass > 0).all()


def test_noise_off_and_nothing_suppressed_gives_the_counts_back():
    rows = [(v % 7, v % 3) for v in range(60)]
    tree = measured(("A", "B"), rows, (3, 2))
    fit = fit_tree(tree, 60, 60.0, np.ones(tree.n_nodes + 1, dtype=bool), 1)
    assert (fit.mass[1:] == tree.n).all()
    held = np.zeros(tree.n_nodes, dtype=bool)
    held[tree.parent[tree.parent >= 0]] = True
    assert (fit.remainder[1:][held] == 0).all()
