from __future__ import annotations

import numpy as np
import pytest
from fixtures.fit import KEY, gaussian, integer_column, measured, text_column, top_for, tree_of
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.fit import Noise, fit_support
from engine.fit import tree as fits
from engine.fit.supports import share_out
from engine.ranges import code_bounds
from engine.schema import (
    KIND_NEGATIVE,
    KIND_NONNEGATIVE,
    KIND_NULL,
    KIND_OTHER,
    NULL_CODE,
    OTHER_CODE,
    is_leaf,
)

NONE = np.empty(0)
NONNEG, NEG, NULL, OTHER = KIND_NONNEGATIVE, KIND_NEGATIVE, KIND_NULL, KIND_OTHER
CODES = st.lists(
    st.one_of(st.integers(-40, 70), st.integers(0, 6), st.just(NULL_CODE)), min_size=3, max_size=120
)


def fit(tree, column=None, *, total=100, noisy_total=None, floor=3, limits=None, key=KEY):
    return fit_support(
        tree,
        column or integer_column(),
        noise=Noise(total if noisy_total is None else noisy_total, floor, 0),
        total=total,
        code_limits=limits,
        key=key,
    )


def listed(support) -> list[tuple[int, int, int, bool]]:
    columns = (support.kind, support.grid, support.n, support.measured)
    return list(zip(*(c.tolist() for c in columns), strict=True))


def rows_inside(support, kind, low, high) -> int:
    inside = (support.kind == kind) & (support.grid >= low) & (support.grid <= high)
    return int(support.n[inside].sum())


@given(CODES, st.integers(1, 6), st.integers(0, 10**6), st.integers(0, 500))
@settings(max_examples=30)
def test_whole_masses_add_up_at_every_node(codes, threshold, seed, total):
    tree = measured(("A",), codes, (top_for(codes),), threshold=threshold, noise=gaussian(seed))
    room = np.ones(tree.n_nodes + 1, dtype=bool)
    fitted = fits.fitted_tree(
        fits.tree_of(tree, Noise(len(codes), 3, 1)), float(total), room, 0.0, NONE, NONE
    )
    mass, left = share_out(tree, fitted.mass, fitted.remainder, total)
    assert mass[0] == total
    assert (mass >= 0).all()
    assert (left >= 0).all()
    children = np.bincount(tree.parent + 1, weights=mass[1:], minlength=len(mass))
    assert (children + left == mass).all()
    # Each level rounds its own parent: no node strays by more than a unit a level.
    depth = np.concatenate([[0], tree.depth.astype(np.int64) + 1])
    assert (np.abs(mass - fitted.mass) <= depth + 1e-9).all()


@given(CODES, st.integers(1, 6), st.integers(0, 10**6))
@settings(max_examples=30)
def test_every_range_holds_its_whole_mass_and_values_lie_where_they_may(codes, threshold, seed):
    top = top_for(codes)
    tree = measured(("A",), codes, (top,), threshold=threshold, noise=gaussian(seed))
    support = fit(tree, total=len(codes))
    assert support.n.sum() == (len(codes) if tree.n_nodes else 0)
    assert (support.n > 0).all()
    order = np.lexsort((support.grid, support.kind))
    assert (order == np.arange(len(support))).all()
    assert len(set(zip(support.kind.tolist(), support.grid.tolist(), strict=True))) == len(order)
    low, high = code_bounds(tree.kind[:, 0], tree.level[:, 0], tree.index[:, 0])
    leaf = is_leaf(tree)
    single = leaf & (tree.level[:, 0] == 0)
    released = {(int(k), int(c)) for k, c in zip(tree.kind[single, 0], low[single], strict=True)}
    for kind, code, _, is_measured in listed(support):
        assert is_measured == ((kind, code) in released)
        inside = (tree.kind[:, 0] == kind) & (low <= code) & (code <= high)
        assert inside.any()
        # Its deepest released range is a leaf, or lets it into its unreleased half only.
        deepest = np.flatnonzero(inside)[-1]
        below = np.flatnonzero(tree.parent == deepest)
        assert all(not (low[b] <= code <= high[b]) for b in below)
    for node in range(tree.n_nodes):
        held = rows_inside(support, tree.kind[node, 0], low[node], high[node])
        parts = np.flatnonzero(tree.parent == node)
        of_parts = sum(rows_inside(support, tree.kind[p, 0], low[p], high[p]) for p in parts)
        assert held >= of_parts


def test_noise_off_and_nothing_suppressed_returns_the_column():
    codes = np.array([NULL_CODE] * 4 + [-9] * 2 + [-1] + [0] * 5 + [3, 3, 12])
    tree = measured(("A",), codes, (top_for(codes),))
    support = fit(tree, total=15, floor=1)
    assert listed(support) == [
        (NULL, 0, 4, True),
        (NEG, -9, 2, True),
        (NEG, -1, 1, True),
        (NONNEG, 0, 5, True),
        (NONNEG, 3, 2, True),
        (NONNEG, 12, 1, True),
    ]


def test_unreleased_half_is_drawn_apart_from_its_released_sibling():
    # 8..15 holds 60, of it 12..15 released with 20: the other 40 lie in 8..11.
    tree = tree_of([(0, NONNEG, 3, 1, -1, 60), (1, NONNEG, 2, 3, 0, 20)])
    support = fit(tree, total=60, noisy_total=60)
    assert rows_inside(support, NONNEG, 8, 11) == 40
    assert rows_inside(support, NONNEG, 12, 15) == 20
    assert not support.measured.any()
    lower = tree_of([(0, NONNEG, 3, 1, -1, 60), (1, NONNEG, 2, 2, 0, 20)])
    assert rows_inside(fit(lower, total=60), NONNEG, 12, 15) == 40


def test_two_released_halves_leave_no_room_whatever_the_noise_says():
    tree = tree_of([(0, NONNEG, 2, 0, -1, 90), (1, NONNEG, 1, 0, 0, 20), (1, NONNEG, 1, 1, 0, 40)])
    support = fit(tree, total=90)
    assert rows_inside(support, NONNEG, 0, 1) == 30
    assert rows_inside(support, NONNEG, 2, 3) == 60


def test_negative_ranges_are_mirrored():
    # Index 1 of level 2 holds the magnitudes 4..7, the codes -8..-5.
    support = fit(tree_of([(0, NEG, 2, 1, -1, 500)]), total=500)
    assert set(support.grid.tolist()) == {-8, -7, -6, -5}
    assert support.n.sum() == 500
    # Of -8..-1 the released half -4..-1 (index 0): the others are drawn in -8..-5.
    tree = tree_of([(0, NEG, 3, 0, -1, 60), (1, NEG, 2, 0, 0, 20)])
    assert rows_inside(fit(tree, total=60), NEG, -8, -5) == 40


def test_declared_limits_bound_the_draws():
    tree = tree_of([(0, NONNEG, 4, 0, -1, 300), (0, NEG, 4, 0, -1, 300)])
    support = fit(tree, total=600, noisy_total=600, limits=(-3, 5))
    assert set(support.grid.tolist()) == {-3, -2, -1, 0, 1, 2, 3, 4, 5}
    assert rows_inside(support, NEG, -3, -1) == 300


def test_limits_spare_null_and_other():
    tree = tree_of([(0, NULL, 0, 0, -1, 10), (0, OTHER, 0, 0, -1, 10), (0, NONNEG, 1, 1, -1, 20)])
    column = text_column(placeholder="(other)")
    support = fit(tree, column, total=40, limits=(2, 2))
    assert listed(support) == [
        (NULL, 0, 10, True),
        (NONNEG, 2, 20, False),
        (OTHER, 0, 10, True),
    ]


def test_whole_sign_ranges():
    tree = tree_of([(0, NONNEG, 63, 0, -1, 50), (0, NEG, 63, 0, -1, 50)])
    support = fit(tree, total=100)
    assert support.n.sum() == 100
    assert (support.grid[support.kind == NONNEG] >= 0).all()
    assert (support.grid[support.kind == NEG] < 0).all()
    assert len(support) == 100  # no two of 50 draws from 2**63 meet
    assert support.grid.max() > 2**60
    assert support.grid.min() < -(2**60)
    halved = tree_of([(0, NONNEG, 63, 0, -1, 50), (1, NONNEG, 62, 0, 0, 30)])
    assert rows_inside(fit(halved, total=50), NONNEG, 2**62, 2**63 - 1) == 20


def test_same_key_same_draws_other_key_other_draws():
    tree = tree_of([(0, NONNEG, 20, 1, -1, 60)])
    one, again = fit(tree), fit(tree)
    other = fit(tree, key=KEY[::-1])
    assert (one.grid == again.grid).all()
    assert len(set(one.grid.tolist()) & set(other.grid.tolist())) <= 1


def test_bucket_of_unreleased_values_is_folded_without_a_placeholder():
    nodes = [
        (0, NONNEG, 1, 0, -1, 30),
        (0, OTHER, 0, 0, -1, 10),
        (1, NONNEG, 0, 0, 0, 20),
        (1, NONNEG, 0, 1, 0, 10),
        (1, OTHER, 0, 0, 1, 10),
    ]
    tree = tree_of(nodes, values=("Bath", "Ely"))
    folded = fit(tree, text_column(), total=60, limits=(0, 1))
    assert listed(folded) == [(NONNEG, 0, 40, True), (NONNEG, 1, 20, True)]
    assert folded.values == {0: "Bath", 1: "Ely"}
    with_placeholder = fit(tree, text_column(placeholder="(other)"), total=60, limits=(0, 1))
    assert listed(with_placeholder) == [
        (NONNEG, 0, 30, True),
        (NONNEG, 1, 15, True),
        (OTHER, 0, 15, True),
    ]


def test_ranked_column_draws_ranks_of_released_values_only():
    codes = [0] * 8 + [5] * 9 + [OTHER_CODE] * 6 + [NULL_CODE] * 7 + [6, 6]
    tree = measured(("A",), codes, (3,), threshold=3, values=tuple("abcdefg"))
    support = fit(tree, text_column(placeholder="?"), total=32, limits=(0, 6))
    ranks = support.grid[support.kind == NONNEG]
    assert ((ranks >= 0) & (ranks <= 6)).all()
    assert support.n[support.kind == OTHER].tolist() == [6]
    assert support.n[support.kind == NULL].tolist() == [7]
    assert rows_inside(support, NONNEG, 6, 6) == 2  # the only rank that 6..7 allows


def test_nothing_released_gives_an_empty_support():
    empty = fit(tree_of([]), total=20)
    assert len(empty) == 0
    assert empty.grid.dtype == np.int64
    only_other = tree_of([(0, OTHER, 0, 0, -1, 20)], values=())
    assert len(fit(only_other, text_column(), total=20, limits=(0, -1))) == 0


def test_a_leaf_outside_the_limits_keeps_its_own_range():
    # Codes 8..15 pass together only; the column is said to end at 5: the released range wins.
    tree = measured(("A",), np.arange(8, 16), (3,), threshold=8)
    support = fit_support(
        tree,
        integer_column("A"),
        noise=Noise(8, 3, 0),
        total=8,
        code_limits=(0, 5),
        key=b"k" * 16,
    )
    assert support.n.sum() == 8
    assert ((support.grid >= 8) & (support.grid <= 15)).all()


@pytest.mark.slow
def test_large_values_among_many_rare_ones_keep_their_counts():
    # 40 round values of 150 rows each, and 2,500 rare ones that deep ranges hold: what the ranges' noise adds to the
    # round ones must stay near their own noise of sd 1.41 (scaling in proportion made it 3.5, with a bias of 0.7).
    rng = np.random.default_rng(1)
    popular = np.arange(1, 41) * 5_000
    rows = np.concatenate([np.repeat(popular, 150), rng.integers(0, 220_000, 2_500)])
    truth = {int(v): int((rows == v).sum()) for v in popular}
    errors = []
    for seed in range(8):
        support = fit_support(
            measured(("A",), rows, (18,), threshold=5, noise=gaussian(seed)),
            integer_column("A"),
            noise=Noise(len(rows), 3, 1),
            total=len(rows),
            code_limits=None,
            key=KEY,
        )
        found = dict(zip(support.grid.tolist(), support.n.tolist(), strict=True))
        errors += [found.get(value, 0) - n for value, n in truth.items()]
    assert abs(np.mean(errors)) < 0.5
    assert np.sqrt(np.mean(np.square(errors))) < 2.0


@pytest.mark.parametrize("step", [1, 10, 250])
@pytest.mark.parametrize(
    ("kind", "level", "index"),
    [(NEG, 5, 1), (NONNEG, 6, 0), (NONNEG, 7, 1), (NONNEG, 10, 1), (NONNEG, 3, 31), (NONNEG, 8, 2)],
)
def test_rows_inside_a_range_are_multiples_of_the_step(kind, level, index, step):
    """Of a released range without a multiple all values are possible."""
    low = -(index + 1) << level if kind == NEG else index << level
    support = fit(tree_of([(0, kind, level, index, -1, 400)]), integer_column(step=step), total=400)
    inside = range(low, low + (1 << level))
    allowed = [code for code in inside if code % step == 0] or inside
    assert support.n.sum() == 400
    assert set(support.grid.tolist()) <= set(allowed)
    assert len(allowed) > 60 or set(support.grid.tolist()) == set(allowed)
