from __future__ import annotations

import numpy as np
import pytest
from fixtures.fit import KEY, distances
from hypothesis import given
from hypothesis import strategies as st
from oracles.fit_oracles import halved

from engine.cell_keys import MOST_PLACES, has_runs, shorter
from engine.fit.candidates import Narrower, exact_bounds
from engine.fit.locking import find_candidates
from engine.fit.whole import rounding, start
from engine.fit.whole.rounding import controlled_rounding
from engine.fit.whole.start import in_halves


def table(seed: int, n_fibres: int, n_codes: int, zeros: float = 0.0):
    """Fitted rows of a full table, each fibre's a whole number: x, fibre, code, target."""
    rng = np.random.default_rng(seed)
    x = rng.random((n_fibres, n_codes)) * (rng.random((n_fibres, n_codes)) >= zeros)
    target = rng.integers(0, 9, n_fibres)
    target[x.sum(axis=1) == 0] = 0
    x *= (target / np.maximum(x.sum(axis=1), 1e-9))[:, None]
    fibre, code = np.indices(x.shape).reshape(2, -1)
    return x.ravel(), fibre, code, target


SHAPES = (st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 9))


@given(*SHAPES, st.floats(0, 0.9))
def test_as_the_slow_way(seed, n_fibres, n_codes, zeros):
    x, fibre, code, target = table(seed, n_fibres, n_codes, zeros)
    kept = np.random.default_rng(seed).permutation(len(x))  # cells in any order
    found = in_halves(x[kept], fibre[kept], code[kept], target, KEY)
    assert found.tolist() == halved(x, target, n_codes, KEY)[kept].tolist()


@given(*SHAPES, st.floats(0, 0.9))
def test_fibres_have_their_rows_and_empty_cells_none(seed, n_fibres, n_codes, zeros):
    x, fibre, code, target = table(seed, n_fibres, n_codes, zeros)
    n = in_halves(x, fibre, code, target, KEY)
    assert (n >= 0).all()
    assert np.bincount(fibre, weights=n).tolist() == target.tolist()
    assert not n[x == 0].any()


def off_of_runs(n, x, n_codes):
    """How far every run of fibres from the first one is off, by code."""
    return np.abs(np.cumsum((n - x).reshape(-1, n_codes), axis=0))


@pytest.mark.parametrize("seed", range(5))
def test_every_run_of_either_of_two_codes_is_within_one(seed):
    x, fibre, code, target = table(seed, 300, 2)
    n = in_halves(x, fibre, code, target, bytes([seed] * 16))
    assert off_of_runs(n, x, 2).max() < 1 + 1e-3


def test_halves_of_the_codes_are_within_one_along_all_fibres():
    x, fibre, code, target = table(7, 200, 8)
    n = in_halves(x, fibre, code, target, KEY)
    low = code < 4
    assert off_of_runs(n * low, x * low, 8).sum(axis=1).max() > 1
    one = (n - x).reshape(-1, 8)[:, :4].sum(axis=1)
    assert np.abs(np.cumsum(one)).max() < 1 + 1e-3


@pytest.mark.parametrize(("n_codes", "most"), [(2, 0.2), (3, 0.26), (16, 0.44)])
def test_runs_are_off_alike_however_long_they_are(n_codes, most):
    """Two codes by 1/6; each further split adds a little. Cells by themselves would be off by a hundred times that."""
    short, long, cells = [], [], []
    for seed in range(40):
        x, fibre, code, target = table(seed, 400, n_codes)
        n = in_halves(x, fibre, code, target, bytes([seed] * 16))
        off = off_of_runs(n, x, n_codes) ** 2
        short.append(off[20:60].mean())
        long.append(off[320:360].mean())
        part = x - np.floor(x)
        cells.append(340 * np.mean(part * (1 - part)))
    assert 0.75 * most < np.mean(short) < most
    assert 0.75 * most < np.mean(long) < most
    assert np.mean(cells) > 100 * most


def test_rounded_fairly():
    """Over many keys each cell gets its share."""
    x, fibre, code, target = table(3, 6, 5)
    keys = [i.to_bytes(16, "little") for i in range(2000)]
    mean = np.mean([in_halves(x, fibre, code, target, key) for key in keys], axis=0)
    assert np.abs(mean - x).max() < 5 * 0.5 / 2000**0.5


def test_whole_numbers_are_left_alone():
    n = np.random.default_rng(1).integers(0, 5, (7, 6))
    fibre, code = np.indices(n.shape).reshape(2, -1)
    found = in_halves(n.ravel().astype(float), fibre, code, n.sum(axis=1), KEY)
    assert found.tolist() == n.ravel().tolist()


def test_a_fibre_that_raking_emptied_gets_its_rows_in_cells_of_its_own():
    """Codes 0 and 5 of 8: no other place has a cell."""
    x = np.array([0.0, 0.0, 1.0, 1.0])
    fibre, code = np.array([0, 0, 1, 1]), np.array([0, 5, 0, 5])
    n = in_halves(x, fibre, code, np.array([7, 2]), KEY)
    assert sorted(n[:2].tolist()) == [3, 4]
    assert n[2:].sum() == 2


def test_one_code_needs_no_split():
    assert in_halves(
        np.array([2.0, 3.0]), np.arange(2), np.zeros(2, dtype=np.int64), np.array([2, 3]), KEY
    ).tolist() == [2, 3]


def test_places_are_counted_with_codes_filled_up_to_a_power_of_two():
    assert has_runs(10, 1, 10)
    assert has_runs(10, 8, 20)  # 80 places
    assert not has_runs(10, 8, 19)
    assert has_runs(10, 9, 40) is (160 <= MOST_PLACES * 40)
    assert not has_runs(10, 9, 39)


@pytest.mark.parametrize(("sizes", "last"), [((3, 5), 0), ((5, 3), 1), ((4, 4), 1)])
def test_fibres_of_two_columns_run_along_the_shorter_one(sizes, last):
    one, other = (
        Narrower(
            codes=np.arange(n, dtype=np.int32)[:, None],
            n=np.ones(n, dtype=np.int64),
            measured=np.arange(n) < n - 2 * (n == min(sizes)),  # more is measured without the other
        )
        for n in sizes
    )
    assert shorter(sizes) == last
    assert find_candidates(tuple(map(range, sizes)), (other, one)).last == last


def test_many_rows_in_few_cells_take_no_more_than_these():
    x = np.array([0.3, 0.7, 0.6, 0.4]) * 1e12
    fibre, code = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    n = in_halves(x, fibre, code, np.array([10**12, 10**12]), KEY)
    assert np.abs(n - x).max() < 1e7  # in fixed point
    assert np.bincount(fibre, weights=n).tolist() == [1e12, 1e12]


def test_tilts_end_where_a_half_would_have_less_than_nothing():
    """Of a fibre without loose rows but some thousandths, next to others that are off by whole ones."""
    x = np.array([[0.5, 0.5, 2.0, 0.0], [0.001, 2.0, 0.0, 0.999], [3.0, 0.0, 0.002, 1.998]] * 9)
    target = np.array([3, 3, 5] * 9)
    fibre, code = np.indices(x.shape).reshape(2, -1)
    for i in range(60):
        n = in_halves(x.ravel(), fibre, code, target, bytes([i] * 16))
        assert (n >= 0).all()
        assert n.tolist() == halved(x.ravel(), target, 4, bytes([i] * 16)).tolist()


def test_next_to_no_room_is_no_room():
    """Fitted rows as small as raking leaves them: nothing overflows."""
    x = np.array([0.36788073891151674, 0, 1e-310, 0.9364420618420031, 1e-310, 0.24, 0.74, 1e-310])
    fibre, code = np.repeat([0, 1], 4), np.tile(np.arange(4), 2)
    n = in_halves(x, fibre, code, np.array([3, 3]), b"k" * 16)
    assert np.bincount(fibre, weights=n).tolist() == [3, 3]


def test_tables_of_few_cells_are_rounded_fibre_by_fibre(monkeypatch):
    """And so are those of more than two columns."""
    called = []
    monkeypatch.setattr(
        rounding, "in_halves", lambda *given: called.append(1) or start.in_halves(*given)
    )
    for n_fibres, is_pair, times in ((9, True, 0), (2, True, 1), (2, False, 1)):
        fibre = np.repeat(np.arange(n_fibres), 2)
        code = (fibre + np.tile([0, 1], n_fibres)) % n_fibres
        x = np.full(2 * n_fibres, 0.5)
        fibres, one_way = (
            exact_bounds(of, np.ones(n_fibres, dtype=np.int64)) for of in (fibre, code)
        )
        n = controlled_rounding(x, fibres, (), one_way, np.zeros_like(fibre), KEY, is_pair=is_pair)
        assert distances(n, [fibres]) == [0]
        assert len(called) == times
