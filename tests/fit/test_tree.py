from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fixtures.fit import Fits, gaussian, measured, noisy, tree_of
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.fit_oracles import fitted_tree

from engine.fit import tree as fits
from engine.ranges import code_bounds
from engine.schema import (
    KIND_NEGATIVE,
    KIND_NONNEGATIVE,
    KIND_NULL,
    NULL_CODE,
)


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


@given(st.integers(0, 10**6), st.integers(5, 150))
@settings(max_examples=10)
def test_cell_groups_add_up_and_hold_their_cells(seed, n):
    fits = noisy(seed, n)
    for columns in (("B",), ("A", "D"), ("A", "B", "D")):
        table = fits.table(*columns)
        tree = fits.measurement(columns)
        groups = table.groups
        assert groups.n.sum() == table.n_rows
        assert groups.n[groups.measured].sum() == table.n[table.measured].sum()
        assert (groups.n > 0).all()
        single = (groups.low == groups.high).all(axis=1)
        assert single[groups.measured].all()
        assert groups.noise_sd == pytest.approx(np.full(len(groups.n), 2**0.5))
        released = {
            tuple(map(tuple, np.column_stack([k, c]).tolist()))
            for k, c in zip(
                tree.kind, code_bounds(tree.kind, tree.level, tree.index)[0], strict=True
            )
        }
        assert (groups.measured == (groups.depth == len(tree.scale) - 1)).all()
        assert groups.scale == tuple(tree.scale)
        at_top = tree.level[tree.depth == 0].max(axis=0, initial=0)
        assert groups.tops == tuple(at_top)
        boxes = {
            (d, *box)
            for d, *box in zip(
                tree.depth.tolist(),
                *(
                    map(tuple, ends.tolist())
                    for ends in code_bounds(tree.kind, tree.level, tree.index)
                ),
                strict=True,
            )
        }
        for g in np.flatnonzero(groups.depth >= 0):
            assert (groups.depth[g], tuple(groups.low[g]), tuple(groups.high[g])) in boxes
        for g in np.flatnonzero(groups.measured):
            assert (
                tuple(zip(groups.kind[g].tolist(), groups.low[g].tolist(), strict=True)) in released
            )


def test_cell_groups_by_hand():
    # 0 and 1 pass with 6 rows, 6..7 as a range with 3; of 4..7 that leaves 2 rows, in 4..5.
    fits = Fits({"A": np.repeat([0, 1, 4, 6, 7], [6, 6, 2, 1, 2])}, threshold=3, floor=3)
    groups = fits.table("A").groups
    assert groups.n.tolist() == [2, 3, 6, 6]
    assert groups.measured.tolist() == [False, False, True, True]
    assert groups.low[:, 0].tolist() == [4, 6, 0, 1]
    assert groups.high[:, 0].tolist() == [7, 7, 0, 1]
    assert groups.noise_sd.tolist() == [0, 0, 0, 0]


def test_rows_outside_every_released_bucket_have_a_group_of_their_own():
    # Each value passes in A and in B, the pair of nulls does not, and no top bucket holds it.
    a = np.array([0] * 12 + [NULL_CODE] * 6)
    b = np.array([0] * 8 + [NULL_CODE] * 4 + [0] * 4 + [NULL_CODE] * 2)
    fits = Fits({"A": a, "B": b}, threshold=3)
    groups = fits.table("A", "B").groups
    outside = (groups.low > groups.high).all(axis=1)
    assert groups.n[outside].tolist() == [2]
    assert (groups.kind[outside] == KIND_NEGATIVE).all()
    assert fits.counts("A", "B") == fits.truth("A", "B")
