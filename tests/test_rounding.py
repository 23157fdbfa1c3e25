from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from fit_fixture import KEY
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.candidates import Margin, Narrower, join_candidates
from engine.ipf import rake
from engine.locking import margin_gap
from engine.rounding import controlled_rounding, place_leftovers


def narrower_of(table: np.ndarray) -> list[Narrower]:
    """Whole-number margins of a dense table; entry j without axis j."""
    out = []
    for j in range(table.ndim):
        sums = table.sum(axis=j)
        letters = np.argwhere(sums > 0).astype(np.int32)
        out.append(Narrower(letters=letters, n=sums[tuple(letters.T)].astype(np.int64)))
    return out


def rounded(x, margins, key=KEY):
    n = controlled_rounding(x, margins, key)
    assert n.dtype == np.int64
    assert (n >= 0).all()
    return n


def gaps(n, margins) -> list[int]:
    return [
        int(np.abs(np.bincount(m.of, weights=n, minlength=len(m.n)) - m.n).max(initial=0))
        for m in margins
    ]


@given(
    st.integers(1, 9),
    st.integers(1, 6),
    st.integers(0, 10**6),
    st.integers(1, 40),
    st.floats(0, 0.9),
)
@settings(max_examples=150, deadline=None)
def test_two_columns_are_exact(rows, columns, seed, size, zeros):
    rng = np.random.default_rng(seed)
    table = rng.integers(0, size, (rows, columns)) * (rng.random((rows, columns)) >= zeros)
    without = narrower_of(table)
    found = join_candidates(without, table.shape)
    raked = rake(rng.random(len(found.letters)) + 0.01, found.margins)
    n = rounded(raked.x, found.margins)
    assert gaps(n, found.margins) == [0, 0]


@given(st.integers(0, 10**6), st.integers(1, 12), st.floats(0, 0.8), st.sampled_from([3, 4]))
@settings(max_examples=120, deadline=None, derandomize=True)
def test_wider_tables_keep_fibres_and_come_near_elsewhere(seed, size, zeros, k):
    rng = np.random.default_rng(seed)
    shape = (5, 4, 6, 3)[:k]
    table = rng.integers(0, size + 1, shape) * (rng.random(shape) >= zeros)
    found = join_candidates(narrower_of(table), shape)
    raked = rake(rng.random(len(found.letters)) + 0.5, found.margins, max_cycles=60)
    n = rounded(raked.x, found.margins)
    first, *others = gaps(n, found.margins)
    assert first == 0
    assert max(others, default=0) <= 2  # 3 in 1 of 6,000 tables


def test_gap_of_three_columns_is_mostly_one_at_most():
    largest = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        table = rng.integers(0, 9, (5, 4, 6))
        found = join_candidates(narrower_of(table), table.shape)
        raked = rake(rng.random(len(found.letters)) + 0.5, found.margins, max_cycles=60)
        largest.append(max(gaps(rounded(raked.x, found.margins), found.margins)))
    assert np.mean(np.array(largest) <= 1) >= 0.9


@given(st.integers(0, 10**6))
@settings(deadline=None)
def test_whole_numbers_that_fit_are_left_alone(seed):
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 4, (4, 3, 5))
    found = join_candidates(narrower_of(table), table.shape)
    x = table[tuple(found.letters.T)].astype(float)
    assert (rounded(x, found.margins) == x).all()


def test_every_cell_is_within_one_of_its_fitted_value_before_moves():
    x = np.array([0.25, 0.25, 0.25, 0.25, 1.5, 2.5])
    only = Margin(of=np.array([0, 0, 0, 0, 1, 1]), n=np.array([1, 4]))
    n = rounded(x, [only])
    assert (np.abs(n - x) < 1).all()
    assert np.bincount(only.of, weights=n).tolist() == [1, 4]


def test_the_key_decides_ties_and_nothing_else_does():
    x = np.full(40, 0.25)
    margin = Margin(of=np.repeat(np.arange(10), 4), n=np.ones(10, dtype=np.int64))
    one = rounded(x, [margin])
    assert (one == rounded(x, [margin])).all()
    assert (one != rounded(x, [margin], KEY[::-1])).any()
    # Rounded fairly: over many keys each cell gets its share.
    mean = np.mean([rounded(x, [margin], i.to_bytes(16, "little")) for i in range(400)], axis=0)
    assert np.abs(mean - 0.25).max() < 5 * (0.25 * 0.75 / 400) ** 0.5


def test_running_sums_keep_every_run_of_neighbours_within_one():
    rng = np.random.default_rng(5)
    x = rng.random(200)
    x *= 100 / x.sum()
    n = rounded(x, [Margin(of=np.zeros(200, dtype=np.int64), n=np.array([100]))])
    assert np.abs(np.cumsum(n) - np.cumsum(x)).max() <= 1 + 1e-4


def test_nothing_to_round():
    empty = Margin(of=np.zeros(0, dtype=np.int64), n=np.zeros(0, dtype=np.int64))
    assert rounded(np.zeros(0), [empty, empty]).tolist() == []


def test_moves_mend_the_second_margin():
    # Two fibres of 2 + 2; columns want 3 and 1.
    x = np.array([1.5, 0.5, 1.5, 0.5])
    margins = [
        Margin(of=np.array([0, 0, 1, 1]), n=np.array([2, 2])),
        Margin(of=np.array([0, 1, 0, 1]), n=np.array([3, 1])),
    ]
    for i in range(20):
        n = rounded(x, margins, i.to_bytes(16, "big"))
        assert gaps(n, margins) == [0, 0]


def cells(*rows):
    return np.array(rows, dtype=np.int32)


def test_leftover_rows_are_placed_where_the_second_margin_lacks_them():
    # A=0 with B=0 has 2 rows; no cell could hold them, and A=0 with C=1 is short of 2.
    without = [
        Narrower(letters=cells((1, 0)), n=np.array([3])),
        Narrower(letters=cells((0, 0), (0, 1)), n=np.array([3, 2])),
        Narrower(letters=cells((0, 0), (0, 1)), n=np.array([2, 3])),
    ]
    letters, n = place_leftovers(cells((0, 1, 0)), np.array([3]), without)
    assert letters.tolist() == [[0, 0, 1], [0, 1, 0]]
    assert n.tolist() == [2, 3]
    assert [margin_gap(letters, n, without[j], j) for j in (2, 1)] == [0, 0]
    assert letters.dtype == np.int32


def test_without_leftovers_nothing_changes():
    table = np.array([[[1, 0], [2, 3]], [[0, 4], [0, 0]]])
    letters = np.argwhere(table > 0).astype(np.int32)
    n = table[tuple(letters.T)]
    got = place_leftovers(letters, n, narrower_of(table))
    assert (got[0] == letters).all()
    assert (got[1] == n).all()
    flat = table.sum(axis=2)
    pairs, rows = np.argwhere(flat > 0).astype(np.int32), flat[flat > 0]
    got = place_leftovers(pairs, rows, narrower_of(flat))
    assert (got[0] == pairs).all()
    assert (got[1] == rows).all()


def test_leftovers_of_two_columns_make_both_margins_exact():
    # Letter 1 of the second column has 2 rows too many, letter 0 lacks 3; letter 1 of the first lacks 1.
    without = [
        Narrower(letters=cells((0,), (1,)), n=np.array([5, 4])),
        Narrower(letters=cells((0,), (1,)), n=np.array([6, 3])),
    ]
    letters, n = place_leftovers(cells((0, 0), (0, 1), (1, 1)), np.array([2, 4, 2]), without)
    assert n.sum() == 9
    assert (n > 0).all()
    assert [margin_gap(letters, n, without[j], j) for j in (1, 0)] == [0, 0]


@given(st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_two_columns_of_any_start_are_made_exact(seed):
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 6, (4, 6))
    without = narrower_of(table)
    fibres = table[rng.permutation(4)] if rng.random() < 0.3 else table
    moved = rng.permuted(fibres, axis=1)  # the first margin holds, or lacks; the second does not
    moved = np.minimum(moved, table.sum(axis=1, keepdims=True) // 3)
    letters = np.argwhere(moved > 0).astype(np.int32)
    placed, n = place_leftovers(letters, moved[moved > 0], without)
    if (moved.sum(axis=1) <= table.sum(axis=1)).all():
        assert n.sum() == table.sum()
        assert [margin_gap(placed, n, without[j], j) for j in (1, 0)] == [0, 0]


@given(st.integers(0, 10**6), st.integers(1, 5), st.sampled_from([3, 4]))
@settings(max_examples=100, deadline=None)
def test_leftovers_bring_the_total_back(seed, taken, k):
    # Margins of one table; some of its fibres are taken away, as if no candidate had held them.
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 4, (3, 4, 5, 2)[:k])
    letters = np.argwhere(table > 0).astype(np.int32)
    n = table[tuple(letters.T)]
    if not len(n):
        return
    fibre = np.unique(letters[:, :-1], axis=0, return_inverse=True)[1].ravel()
    gone = np.isin(fibre, rng.choice(fibre, taken))
    without = narrower_of(table)
    placed, rows = place_leftovers(letters[~gone], n[~gone], without)
    assert rows.sum() == table.sum()
    assert margin_gap(placed, rows, without[k - 1], k - 1) == 0
    assert margin_gap(placed, rows, without[k - 2], k - 2) == 0
    listed = [tuple(c) for c in placed.tolist()]
    assert listed == sorted(set(listed))


def test_three_margins_that_leave_two_solutions():
    x = np.array([0.5] * 8)
    letters = np.indices((2, 2, 2)).reshape(3, -1)
    margins = [
        Margin(of=letters[a] * 2 + letters[b], n=np.ones(4, dtype=np.int64))
        for a, b in combinations(range(3), 2)
    ]
    for i in range(30):
        n = rounded(x, margins, i.to_bytes(16, "big"))
        assert max(gaps(n, margins)) <= 1


@pytest.mark.parametrize("width", [1, 3])
def test_fibre_that_raking_emptied_is_left_over(width):
    x = np.concatenate([np.zeros(width), [2.0, 1.0]])
    margin = Margin(of=np.array([0] * width + [1, 1]), n=np.array([4, 3]))
    assert rounded(x, [margin]).tolist() == [0] * width + [2, 1]
