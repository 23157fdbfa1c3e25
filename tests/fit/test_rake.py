from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.fit_oracles import dense_raked

from engine.fit.candidates import MarginBounds, exact_bounds
from engine.fit.rake import rake

SHAPE = (3, 5, 2, 4)
FILLED = np.full(9, np.inf)


def margin_of(table: np.ndarray, kept: tuple[int, ...]) -> MarginBounds:
    """The sums of a dense table over all other axes, as a margin of its cells in C order."""
    shape = [table.shape[a] for a in kept]
    places = np.indices(table.shape)[list(kept)].reshape(len(kept), -1)
    of = np.ravel_multi_index(tuple(places), shape)
    n = np.bincount(of, weights=table.ravel(), minlength=int(np.prod(shape)))
    return exact_bounds(of, n)


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
    variance = np.where(rng.random(shape) < 0.5, sd2, np.inf)
    expected = dense_raked(
        start,
        [(kept, margin_of(target, kept).low.reshape([shape[a] for a in kept])) for kept in margins],
        7,
        variance,
        0.25,
    )
    listed = [margin_of(target, kept) for kept in margins]
    got = rake(start.ravel(), listed, variance=variance.ravel(), max_cycles=7, tolerance=-1.0)
    assert got.cycles == 7
    assert np.abs(got.x - expected.ravel()).max() <= 1e-8


def test_keeps_the_odds_ratio_of_its_start():
    start = np.array([6.0, 1.0, 2.0, 3.0])
    wanted = np.array([[20.0, 30.0], [40.0, 10.0]])
    got = rake(
        start,
        [margin_of(wanted, (0,)), margin_of(wanted, (1,))],
        variance=FILLED[:4],
        tolerance=1e-12,
        max_cycles=200,
    )
    assert got.error <= 1e-12
    assert got.x[0] * got.x[3] / (got.x[1] * got.x[2]) == pytest.approx(9.0)


def test_inconsistent_margins_stop_and_say_so():
    rows, columns = (
        exact_bounds(np.array([0, 0, 1, 1]), np.array([10, 10])),
        exact_bounds(np.array([0, 1, 0, 1]), np.array([30, 10])),
    )
    got = rake(np.ones(4), [rows, columns], variance=FILLED[:4], max_cycles=9)
    assert got.cycles == 9
    assert got.error == pytest.approx(1.0)  # rows of 20 for 10
    assert np.bincount(columns.of, weights=got.x).tolist() == [30, 10]


def test_fibre_of_zeros_stays_zero_and_is_reported():
    margin = exact_bounds(np.array([0, 0, 1]), np.array([3, 7]))
    got = rake(np.array([0.0, 0.0, 2.0]), [margin], variance=FILLED[:3], max_cycles=2)
    assert got.x.tolist() == [0, 0, 7]
    assert got.error == 0.3  # 3 of its 10 rows
