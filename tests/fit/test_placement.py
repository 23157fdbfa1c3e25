from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from fixtures.compiled import unload
from fixtures.fit import Fits, integer_column, measured, noisy, top_for
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import cell_keys
from engine.fit import load_compiled
from engine.fit import placement as placement
from engine.fit.placement import UNRELEASED_CAP, most_unreleased, place_candidates
from engine.ranges import code_bounds, split_codes
from engine.schema import (
    KIND_NEGATIVE,
    KIND_NULL,
    KIND_OTHER,
    NULL_CODE,
    OTHER_CODE,
    Support,
)

# Places.


def support_of(codes) -> Support:
    """Codes of any codes, in the order of an support."""
    kind, _ = split_codes(np.array(codes, dtype=np.int64))
    code = np.where((kind == KIND_NULL) | (kind == KIND_OTHER), 0, codes)
    order = np.lexsort((code, kind))
    return Support(
        column=integer_column(),
        kind=kind[order],
        grid=code[order].astype(np.int64),
        n=np.ones(len(codes), dtype=np.int64),
        measured=np.ones(len(codes), dtype=bool),
    )


def slow_places(tree, supports, codes) -> tuple[list[int], list[bool]]:
    """The last node, so the deepest, whose range holds each combination in every column; all nodes tried."""
    low, high = code_bounds(tree.kind, tree.level, tree.index)
    node, released = [], []
    for code in codes.tolist():
        kind = [a.kind[i] for a, i in zip(supports, code, strict=True)]
        code = [a.grid[i] for a, i in zip(supports, code, strict=True)]
        holds = (tree.kind == kind).all(axis=1) & ((low <= code) & (code <= high)).all(axis=1)
        deepest = int(np.flatnonzero(holds)[-1]) + 1 if holds.any() else 0
        node.append(deepest)
        released.append(bool(deepest) and bool((tree.level[deepest - 1] == 0).all()))
    return node, released


def mixed(tree):
    """The nodes of every depth in another order: nothing is said of it but that parents come first."""
    rng = np.random.default_rng(tree.n_nodes)
    order = np.lexsort((rng.random(tree.n_nodes), tree.depth))
    place = np.argsort(order)
    parent = np.where(tree.parent < 0, -1, place[tree.parent])[order]
    rows = {name: getattr(tree, name)[order] for name in ("depth", "kind", "level", "index", "n")}
    return replace(tree, parent=parent, **rows)


def check(tree, supports):
    codes = np.indices([len(a) for a in supports]).reshape(len(supports), -1).T.astype(np.int32)
    codes = codes[np.random.default_rng(1).permutation(len(codes))]
    found = place_candidates(tree, supports, codes)
    node, released = slow_places(tree, supports, codes)
    assert found.node.tolist() == node
    assert found.released.tolist() == released
    return found


VALUES = (
    st.sampled_from([NULL_CODE, OTHER_CODE, -1, 0, 1]),
    st.integers(-20, 20),
    st.one_of(st.integers(-3, 1), st.just(NULL_CODE)),
    st.integers(0, 40),
)
"""Columns of different kinds and tops."""
LIMITS = [(1 << 21, 1 << 62), (0, 1 << 62), (1 << 21, 4), (0, 4)]
"""Of tables by direct position and of keys: as they are, and so low that both are searched."""


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_compiled_places_equal_brute_force(k, ready, monkeypatch):
    assert load_compiled()
    try:
        test_places_equal_brute_force(k, *LIMITS[0], monkeypatch)
        test_places_by_hand()
        test_nothing_released_holds_nothing()
        test_null_and_values_in_one_column_do_not_meet()
        test_largest_codes()
    finally:
        unload()


@pytest.mark.parametrize(("dense_limit", "key_limit"), LIMITS)
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_places_equal_brute_force(k, dense_limit, key_limit, monkeypatch):
    """Codes that occur and codes that do not; negative ranges, null, other; columns with different tops."""
    monkeypatch.setattr(placement, "DENSE_LIMIT", dense_limit)
    monkeypatch.setattr(cell_keys, "KEY_LIMIT", key_limit)
    depths = set()

    @given(st.data(), st.integers(1, 4))
    @settings(max_examples=25)
    def run(data, threshold):
        chosen = data.draw(st.permutations(range(4)))[:k]
        few = data.draw(st.lists(st.tuples(*[VALUES[i] for i in chosen]), min_size=1, max_size=8))
        again = data.draw(st.lists(st.sampled_from(few), max_size=20))
        rows = np.array(few + again, dtype=np.int64)
        extra = np.array([-40, -7, -1, 0, 2, 33, NULL_CODE, OTHER_CODE])[: 8 if k < 4 else 3]
        supports = tuple(support_of(np.union1d(rows[:, j][:5], extra)) for j in range(k))
        tops = tuple(max(top_for(rows[:, j]) - data.draw(st.integers(0, 1)), 0) for j in range(k))
        tree = measured(tuple("ABCD"[:k]), rows, tops, threshold=threshold)
        if data.draw(st.booleans()):
            tree = mixed(tree)
        found = check(tree, supports)
        depths.update(tree.depth[found.node[found.node > 0] - 1].tolist())

    run()
    assert len(depths) >= 3  # deep trees were tried too


def test_places_by_hand():
    # 6 rows of -3 and 5 of null released; 4..7 as a range with 3; -4 is alone.
    rows = np.repeat([-3, NULL_CODE, 4, 5, 6, -4, OTHER_CODE], [6, 5, 1, 1, 1, 1, 4])
    tree = measured(("A",), rows, (3,), threshold=3)
    codes = support_of([NULL_CODE, OTHER_CODE, -9, -4, -3, -1, 0, 4, 5, 7, 8])
    found = place_candidates(tree, (codes,), np.arange(11, dtype=np.int32)[:, None])
    low, high = code_bounds(tree.kind, tree.level, tree.index)
    boxes = [None if not n else (int(low[n - 1, 0]), int(high[n - 1, 0])) for n in found.node]
    # Null; -9 outside the top of -8..-1; -4 in -4..-3, -3 itself, -1 in -4..-1; 0 in 0..7 and so on; 8 outside; other.
    assert boxes == [
        (0, 0),
        None,
        (-4, -3),
        (-3, -3),
        (-4, -1),
        (0, 7),
        (4, 7),
        (4, 7),
        (4, 7),
        None,
        (0, 0),
    ]
    assert found.released.tolist() == [True] + [False] * 2 + [True] + [False] * 6 + [True]


def test_nothing_released_holds_nothing():
    tree = measured(("A", "B"), np.array([[1, 2], [3, 4]]), (2, 3), threshold=5)
    codes = (support_of([1, 3]), support_of([NULL_CODE, 2, 4]))
    assert tree.n_nodes == 0
    assert check(tree, codes).node.tolist() == [0] * 6
    none = place_candidates(tree, codes, np.zeros((0, 2), dtype=np.int32))
    assert none.node.tolist() == none.released.tolist() == []


def test_null_and_values_in_one_column_do_not_meet():
    """A node of nulls in one column is halved in the other only."""
    rows = np.array([[NULL_CODE, 6]] * 5 + [[0, 6]] * 5 + [[NULL_CODE, -7]] * 5)
    tree = measured(("A", "B"), rows, (0, 3), threshold=3)
    codes = (support_of([NULL_CODE, 0]), support_of([-7, -6, 6, 7]))
    found = check(tree, codes)
    assert found.released.sum() == 3


def test_largest_codes():
    """Tops of 63 levels, down to single values."""
    rows = np.array([2**63 - 1] * 4 + [-(2**63) + 2] * 4 + [0] * 4)
    tree = measured(("A",), rows, (63,), threshold=2)
    found = check(tree, (support_of([-(2**63) + 2, -(2**63) + 3, -1, 0, 1, 2**63 - 2, 2**63 - 1]),))
    assert found.released.tolist().count(True) == 3


# What can hide in a bucket.


def test_most_unreleased_by_hand():
    # A: 0..1 released as a whole and 0 in it; B: null and 0..1, each released, the latter's values not.
    rows = np.array([[0, NULL_CODE]] * 6 + [[0, 0]] * 2 + [[0, 1]] * 2 + [[1, 1]])
    tree = measured(("A", "B"), rows, (1, 1), threshold=3)
    # Top nodes: (0..1, null) with one child of two released; (0..1, 0..1), where none of four is.
    assert tree.depth.tolist() == [0, 0, 1]
    most = most_unreleased(tree)
    assert most.tolist() == [0, UNRELEASED_CAP, 4 * UNRELEASED_CAP, UNRELEASED_CAP]


def slow_most(tree) -> list[float]:
    """Children that could be and are not, counted one by one."""
    labels = [
        {
            (int(k), int(i))
            for k, i in zip(
                tree.kind[tree.depth == 0, j], tree.index[tree.depth == 0, j], strict=True
            )
        }
        for j in range(len(tree.columns))
    ]
    out = []
    for node in range(-1, tree.n_nodes):
        parts = (
            labels if node < 0 else [range(2) if level else range(1) for level in tree.level[node]]
        )
        possible = len(list(product(*parts)))
        own = int((tree.parent == node).sum())
        depth = 0 if node < 0 else min(int(tree.depth[node]) + 1, len(tree.scale) - 1)
        out.append(UNRELEASED_CAP * (possible - own) * int(tree.scale[depth]))
    return out


@given(
    st.lists(
        st.tuples(st.integers(-3, 3), st.sampled_from([NULL_CODE, 0, 5])), min_size=1, max_size=25
    ),
    st.integers(1, 4),
    st.sampled_from([1, 2, 8]),
)
def test_most_unreleased_equals_the_slow_way(rows, threshold, scale):
    rows = np.array(rows)
    tops = tuple(top_for(rows[:, j]) for j in range(2))
    tree = measured(("A", "B"), rows, tops, threshold=threshold, scale=scale)
    assert most_unreleased(tree).tolist() == slow_most(tree)


# Groups.


@given(st.integers(0, 10**6), st.integers(5, 150))
@settings(max_examples=25)
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
