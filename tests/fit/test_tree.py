from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fixtures.fit import gaussian, measured, tree_of
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.fit_oracles import fitted_tree

from engine.fit import tree as fits
from engine.schema import KIND_NONNEGATIVE, KIND_NULL


def fit(tree, noisy_total, total, has_room, *, layer_sd=0, variance=0.0):
    nodes, none = fits.tree_of(tree, fits.Noise(noisy_total, 3, layer_sd)), np.empty(0)
    return fits.fitted_tree(nodes, total, np.array(has_room), variance, none, none)


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


def test_counts_below_the_floor_are_raised_to_it_but_not_as_parents():
    tree = tree_of(
        [
            (0, KIND_NONNEGATIVE, 1, 0, -1, -4),
            (0, KIND_NULL, 0, 0, -1, 7),
            (1, KIND_NONNEGATIVE, 0, 0, 0, 1),
        ]
    )
    fitted = fit(tree, 10, 10.0, [True, True, False, False])
    # 3 and 7 of 10: nothing left at the root; the node's own -4 - 3 is no remainder.
    assert fitted.mass == pytest.approx([10, 3, 7, 3])
    assert fitted.remainder.tolist() == [0, 0, 0, 0]


@given(
    st.lists(st.tuples(st.integers(-9, 30), st.integers(-3, 5)), min_size=1, max_size=60),
    st.integers(0, 10**6),
    st.integers(1, 4),
    st.integers(0, 2),
    st.data(),
)
@settings(max_examples=25)
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


def test_the_stated_error_is_the_error():
    # A root of 8 children of which two have two each; noise drawn many times, everything refitted.
    rng = np.random.default_rng(5)
    nodes = [(0, KIND_NONNEGATIVE, 2, i, -1, 400) for i in range(5)]
    nodes += [(1, KIND_NONNEGATIVE, 1, i, i // 2, 200) for i in range(4)]
    tree = replace(tree_of(nodes), scale=np.array([2, 1]))
    sd = np.array([2.0] * 5 + [1.0] * 4) * 2**0.5
    errors = []
    for _ in range(1_500):
        noisy = replace(tree, n=tree.n + np.rint(rng.normal(0, sd)).astype(np.int64))
        total = 2000 + 5 * rng.normal()
        room = np.zeros(10, dtype=bool)
        fitted = fit(noisy, round(total), total, room, layer_sd=1, variance=25.0)
        errors.append(fitted.mass[1:] - tree.n)
    assert np.std(errors, axis=0) == pytest.approx(np.sqrt(fitted.variance[1:]), rel=0.09)
    assert np.abs(np.mean(errors, axis=0)).max() < 0.25
