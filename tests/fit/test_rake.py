from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.fit_oracles import dense_raked

from engine.fit.cells import Margins
from engine.fit.rake import rake

SHAPE = (3, 5, 2, 4)


def margin_of(table: np.ndarray, kept: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The sums of a dense table over all other axes: the part of each cell in C order, and the sums."""
    shape = [table.shape[a] for a in kept]
    places = np.indices(table.shape)[list(kept)].reshape(len(kept), -1)
    of = np.ravel_multi_index(tuple(places), shape)
    return of, np.bincount(of, weights=table.ravel(), minlength=int(np.prod(shape)))


def raked(start, parts, *, noise=0.0, released=None, **how):
    """Cells raked to (part of each cell, sums), the cycles and the error."""
    x = np.array(start, dtype=np.float64)
    sums = np.concatenate([n for _, n in parts]).astype(np.int64)
    base = np.cumsum([0, *(len(n) for _, n in parts)])
    margins = Margins(np.stack([of for of, _ in parts]), base, sums, sums)
    released = np.zeros(len(x), dtype=bool) if released is None else released
    return x, *rake(x, margins, released, noise, **how)


@pytest.mark.parametrize(
    ("axes", "margins"),
    [
        (2, [(0,), (1,)]),
        (3, [(0, 1), (0, 2), (1, 2)]),
        (4, [(0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)]),
        (3, [(2,), (0, 1)]),
    ],
)
@pytest.mark.parametrize("sd2", [np.inf, 4.0])
@given(seed=st.integers(0, 10**6), zeros=st.floats(0, 0.4))
@settings(max_examples=10)
def test_equals_dense_ipf(axes, margins, sd2, seed, zeros):
    """Of filled cells textbook IPF, but for what a step leaves at least; of measured ones shared out by variance."""
    rng = np.random.default_rng(seed)
    shape = SHAPE[:axes]
    target = rng.integers(0, 30, shape).astype(float)
    start = 9 * rng.random(shape) * (rng.random(shape) >= zeros) + 0.0
    released = rng.random(shape) < 0.5
    variance = np.where(released, sd2, np.inf)
    expected = dense_raked(
        start,
        [(kept, margin_of(target, kept)[1].reshape([shape[a] for a in kept])) for kept in margins],
        7,
        variance,
        0.25,
    )
    listed = [margin_of(target, kept) for kept in margins]
    got, cycles, _ = raked(
        start.ravel(),
        listed,
        noise=sd2,
        released=released.ravel(),
        max_cycles=7,
        tolerance=-1.0,
    )
    assert cycles == 7
    assert np.abs(got - expected.ravel()).max() <= 1e-8


def test_keeps_the_odds_ratio_of_its_start():
    start = np.array([6.0, 1.0, 2.0, 3.0])
    wanted = np.array([[20.0, 30.0], [40.0, 10.0]])
    parts = [margin_of(wanted, (0,)), margin_of(wanted, (1,))]
    got, _, error = raked(start, parts, tolerance=1e-12, max_cycles=200)
    assert error <= 1e-12
    assert got[0] * got[3] / (got[1] * got[2]) == pytest.approx(9.0)


def test_inconsistent_margins_stop_and_say_so():
    rows = np.array([0, 0, 1, 1]), np.array([10, 10])
    columns = np.array([0, 1, 0, 1]), np.array([30, 10])
    got, cycles, error = raked(np.ones(4), [rows, columns], max_cycles=9)
    assert cycles == 9
    assert error == pytest.approx(1.0)  # rows of 20 for 10
    assert np.bincount(columns[0], weights=got).tolist() == [30, 10]


def test_fibre_of_zeros_stays_zero_and_is_reported():
    margin = np.array([0, 0, 1]), np.array([3, 7])
    got, _, error = raked([0.0, 0.0, 2.0], [margin], max_cycles=2)
    assert got.tolist() == [0, 0, 7]
    assert error == 0.3  # 3 of its 10 rows
