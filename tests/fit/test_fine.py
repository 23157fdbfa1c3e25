"""Tables of two columns of many values: by hand, against brute force, and what must hold of every table."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from fixtures.fit import (
    KEY,
    Fits,
    as_counts,
    gaussian,
    margin,
    noisy,
    random_data,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.fit import Noise, fine, lock_table, sub_tables
from engine.fit.cells import Coarse
from engine.ranges import code_bounds
from engine.schema import KIND_NULL, NULL_CODE, is_leaf

NAMES = ("A", "B", "C", "D")


@pytest.fixture
def always_fine(monkeypatch):
    """Whatever the number of values."""
    monkeypatch.setattr(fine, "FINE", 0)


def job_of(fits: Fits, columns, key: bytes = KEY) -> dict:
    for name in columns:
        fits.table(name)
    return {
        "tree": fits.measurement(columns),
        "supports": tuple(fits.supports[c] for c in columns),
        "narrower": tuple(fits.table(*sub) for sub in sub_tables(columns)),
        "noise": Noise(fits.total, fits.floor, fits.layer_sd),
        "key": key,
    }


@pytest.mark.parametrize("seed", range(2))
def test_noise_off_and_nothing_suppressed_returns_the_data(seed, always_fine):
    fits = Fits(random_data(seed, 400))
    for columns in combinations(NAMES, 2):
        assert fits.counts(*columns) == fits.truth(*columns)
        assert fits.table(*columns).measured.all()


@pytest.mark.ci
@given(st.integers(0, 10**6), st.integers(5, 300), st.integers(2, 6))
@settings(max_examples=20)
def test_every_value_as_often_as_published(seed, n, threshold):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fine, "FINE", 0)
        fits = noisy(seed, n, threshold=threshold)
        for columns in combinations(NAMES, 2):
            table = fits.table(*columns)
            if any(not len(fits.supports[c]) for c in columns):
                assert table.n_rows == 0
                continue
            assert (table.n_rows, table.gap) == (n, 0)
            for j, name in enumerate(columns):
                assert margin(fits.counts(*columns), (j,)) == fits.counts(name)
            cells = [tuple(c) for c in table.codes.tolist()]
            assert cells == sorted(set(cells))
            assert (table.n > 0).all()
            assert table.codes.dtype == np.int32


def near_the_diagonal(n: int = 3000) -> Fits:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 500, n)
    y = np.abs(x + rng.integers(-60, 60, n))
    return Fits({"X": x, "Y": y}, threshold=5, noise=gaussian(4), floor=3, layer_sd=1)


@pytest.mark.ci
def test_rows_stay_where_the_boxes_say(always_fine):
    fits = near_the_diagonal()
    table = fits.table("X", "Y")
    assert (table.n_rows, table.gap) == (3000, 0)
    far = sum(n for (a, b), n in fits.counts("X", "Y").items() if abs(a - b) > 130)
    assert far < 0.01 * 3000


@pytest.mark.ci
def test_released_boxes_hold_about_what_was_measured(always_fine):
    """Their mean square error stays near that of the noise, for the noise of columns is shared out among them."""
    fits = near_the_diagonal()
    tree, have = fits.measurement(("X", "Y")), fits.counts("X", "Y")
    low, high = code_bounds(tree.kind, tree.level, tree.index)
    cells = np.array(list(have))
    n = np.array(list(have.values()))
    off = []
    for node in np.flatnonzero(is_leaf(tree)):
        inside = ((cells >= low[node]) & (cells <= high[node])).all(axis=1)
        off.append(int(n[inside].sum()) - int(tree.n[node]))
    assert len(off) > 100
    assert np.mean(np.square(off)) < 2 * 2 * 1.4**2


@pytest.mark.ci
def test_another_key_gives_another_table_and_the_same_key_the_same(always_fine):
    fits = near_the_diagonal()
    job = job_of(fits, ("X", "Y"))
    one, again = lock_table(**job), lock_table(**job)
    other = lock_table(**(job | {"key": KEY[::-1]}))
    assert one.codes.tobytes() == again.codes.tobytes()
    assert one.n.tobytes() == again.n.tobytes()
    assert one.codes.tobytes() != other.codes.tobytes()


# --- universes and coarser tables


def test_what_universes_rule_out_is_in_no_row(always_fine):
    """The second column is null exactly below 15; the border lies inside a range of ages."""
    rng = np.random.default_rng(3)
    age = rng.integers(0, 80, 900)
    job = np.where(age < 15, NULL_CODE, rng.integers(0, 200, 900))
    fits = Fits({"A": age, "J": job}, threshold=6, noise=gaussian(1), floor=3, layer_sd=1)
    given = job_of(fits, ("A", "J"))
    a, j = given["supports"]
    # Columns in line: as many nulls as rows below 15.
    young = a.grid < 15
    n = j.n.copy()
    n[1:] = np.diff(
        np.floor(np.cumsum(np.append(0, n[1:])) * (900 - a.n[young].sum()) / n[1:].sum())
    ).astype(int)
    n[0] = a.n[young].sum()
    n[-1] += 900 - n.sum()
    j = replace(j, n=n)
    narrower = (given["narrower"][0], replace(given["narrower"][1], n=n))
    marks = (
        {("j",): np.where(young, -1, 1).astype(np.int8)},
        {("j",): np.where(j.kind == KIND_NULL, -1, 1).astype(np.int8)},
    )
    free = lock_table(**(given | {"supports": (a, j), "narrower": narrower}))
    held = lock_table(**(given | {"supports": (a, j), "narrower": narrower, "marks": marks}))

    def wrong(table):
        return sum(n for (x, y), n in as_counts(table, [a, j]).items() if (x < 15) != (y is None))

    assert wrong(free) > 0
    assert wrong(held) == 0
    assert held.gap == 0


def test_sums_equal_the_coarser_table(always_fine):
    """Column F tells C; the table of (B, C) is published, so (B, F) summed over F's values is that table."""
    rng = np.random.default_rng(5)
    f, b = rng.integers(0, 60, 1500), rng.integers(0, 300, 1500)
    fits = Fits({"B": b, "F": f}, threshold=4, noise=gaussian(2), floor=3, layer_sd=1)
    given = job_of(fits, ("B", "F"))
    sb, sf = given["supports"]
    told = sf.grid * 7919 % 5
    rows_b = rng.permutation(np.repeat(np.arange(len(sb)), sb.n))
    rows_c = np.repeat(told, sf.n)
    for replaced in (1, 0):
        both = [rows_b, rows_c] if replaced else [rows_c, rows_b]
        codes, n = np.unique(np.column_stack(both), axis=0, return_counts=True)
        table = replace(fits.table("B"), codes=codes.astype(np.int32), n=n, measured=n > 2)
        coarse = Coarse(
            table=table, at=(0, 1) if replaced else (1, 0), replaced=replaced, implied=told
        )
        made = lock_table(**given, coarse=(coarse,))
        assert made.gap == 0
        assert (sums_in(coarse, made) == n).all()
        assert (sums_in(coarse, lock_table(**given)) != n).any()


def sums_in(coarse: Coarse, table) -> np.ndarray:
    at = coarse.positions(table.codes)
    return np.bincount(at[at >= 0], weights=table.n[at >= 0], minlength=len(coarse.table.n))
