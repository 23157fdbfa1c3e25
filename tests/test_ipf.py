from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.fit_oracles import dense_raked

from engine.candidates import Margin
from engine.ipf import rake

SHAPE = (3, 5, 2, 4)


def margin_of(table: np.ndarray, kept: tuple[int, ...]) -> Margin:
    """The sums of a dense table over all other axes, as a margin of its cells in C order."""
    shape = [table.shape[a] for a in kept]
    places = np.indices(table.shape)[list(kept)].reshape(len(kept), -1)
    of = np.ravel_multi_index(tuple(places), shape)
    n = np.bincount(of, weights=table.ravel(), minlength=int(np.prod(shape)))
    return Margin(of=of, n=n)


@pytest.mark.parametrize(
    ("axes", "margins"),
    [
        (2, [(0,), (1,)]),
        (3, [(0, 1), (0, 2), (1, 2)]),
        (4, [(0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)]),
        (3, [(2,), (0, 1)]),
    ],
)
@given(seed=st.integers(0, 10**6), zeros=st.floats(0, 0.4))
@settings(max_examples=25, deadline=None)
def test_equals_dense_textbook_ipf(axes, margins, seed, zeros):
    rng = np.random.default_rng(seed)
    shape = SHAPE[:axes]
    target = rng.integers(0, 30, shape).astype(float)
    start = rng.random(shape) * (rng.random(shape) >= zeros) + 0.0
    expected = dense_raked(
        start,
        [(kept, margin_of(target, kept).n.reshape([shape[a] for a in kept])) for kept in margins],
        7,
    )
    listed = [margin_of(target, kept) for kept in margins]
    got = rake(start.ravel(), listed, max_cycles=7, tolerance=-1.0)
    assert got.cycles == 7
    assert np.abs(got.x - expected.ravel()).max() <= 1e-8


def test_independence_is_exact_after_one_cycle():
    a, b = np.array([8.0, 24.0, 32.0]), np.array([16.0, 16.0, 16.0, 16.0])
    table = np.outer(a, b) / 64
    got = rake(np.ones(12), [margin_of(table, (0,)), margin_of(table, (1,))])
    assert got.x.reshape(3, 4).tolist() == table.tolist()
    assert got.error == 0.0
    assert got.cycles == 2


def test_start_that_meets_the_margins_is_left_alone():
    x = np.arange(1.0, 13.0)
    got = rake(x, [margin_of(x.reshape(3, 4), (0,)), margin_of(x.reshape(3, 4), (1,))])
    assert (got.x == x).all()
    assert (got.cycles, got.error) == (1, 0.0)


def test_keeps_the_odds_ratio_of_its_start():
    start = np.array([6.0, 1.0, 2.0, 3.0])
    wanted = np.array([[20.0, 30.0], [40.0, 10.0]])
    got = rake(
        start, [margin_of(wanted, (0,)), margin_of(wanted, (1,))], tolerance=1e-12, max_cycles=200
    )
    assert got.error <= 1e-12
    assert got.x[0] * got.x[3] / (got.x[1] * got.x[2]) == pytest.approx(9.0)


def test_inconsistent_margins_stop_and_say_so():
    rows, columns = (
        Margin(of=np.array([0, 0, 1, 1]), n=np.array([10, 10])),
        Margin(of=np.array([0, 1, 0, 1]), n=np.array([30, 10])),
    )
    got = rake(np.ones(4), [rows, columns], max_cycles=9)
    assert got.cycles == 9
    assert got.error == pytest.approx(1.0)  # rows of 20 for 10
    assert np.bincount(columns.of, weights=got.x).tolist() == [30, 10]


def test_margin_without_cells_is_an_error_that_stays():
    margin = Margin(of=np.array([0, 0]), n=np.array([4, 6]))
    got = rake(np.ones(2), [margin], max_cycles=5)
    assert (got.cycles, got.error) == (5, 1.0)
    assert got.x.tolist() == [2, 2]


def test_zero_stays_zero():
    x = np.array([0.0, 1.0, 1.0, 1.0])
    wanted = np.array([[0.0, 5.0], [4.0, 3.0]])
    got = rake(x, [margin_of(wanted, (0,)), margin_of(wanted, (1,))], max_cycles=50)
    assert got.x[0] == 0.0
    assert got.x == pytest.approx([0, 5, 4, 3], rel=0.02)


def test_fibre_of_zeros_stays_zero_and_is_reported():
    margin = Margin(of=np.array([0, 0, 1]), n=np.array([3, 7]))
    got = rake(np.array([0.0, 0.0, 2.0]), [margin], max_cycles=2)
    assert got.x.tolist() == [0, 0, 7]
    assert got.error == 1.0


def test_target_of_zero_empties_its_cells():
    margin = Margin(of=np.array([0, 0, 1]), n=np.array([0, 7]))
    assert rake(np.ones(3), [margin]).x.tolist() == [0, 0, 7]


def test_nothing_to_rake():
    empty = Margin(of=np.zeros(0, dtype=np.int64), n=np.zeros(0, dtype=np.int64))
    got = rake(np.zeros(0), [empty, empty])
    assert (len(got.x), got.cycles, got.error) == (0, 1, 0.0)
    without = rake(np.array([3.0]), [])
    assert without.x.tolist() == [3.0]


def test_input_is_left_alone():
    x = np.ones(4)
    rake(x, [Margin(of=np.array([0, 0, 1, 1]), n=np.array([6, 8]))])
    assert x.tolist() == [1, 1, 1, 1]


def test_with_every_cell_filled_sharing_by_variance_is_plain_raking():
    x = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    rows = Margin(of=np.array([0, 0, 0, 1, 1, 1]), n=np.array([9, 12]))
    columns = Margin(of=np.array([0, 1, 2, 0, 1, 2]), n=np.array([5, 7, 9]))
    margins = (rows, columns)
    plain = rake(x, margins, tolerance=1e-9, max_cycles=200)
    shared = rake(x, margins, variance=np.full(6, np.inf), tolerance=1e-9, max_cycles=200)
    np.testing.assert_allclose(shared.x, plain.x, rtol=1e-8)


def test_a_measured_cell_gives_way_by_its_noise_only():
    # One row of a measured cell of 100 (noise variance 2) and filled cells of 4 and 2; the margin is 3 short.
    x = np.array([100.0, 4.0, 2.0])
    margin = Margin(of=np.zeros(3, dtype=np.int64), n=np.array([109]))
    raked = rake(x, (margin,), variance=np.array([2.0, np.inf, np.inf]))
    # Weights 2, 4 and 2: the three missing rows go 3/4, 3/2 and 3/4.
    np.testing.assert_allclose(raked.x, [100.75, 5.5, 2.75])


@given(st.integers(0, 10_000))
def test_sharing_by_variance_meets_feasible_margins_and_never_goes_negative(seed):
    rng = np.random.default_rng(seed)
    truth = rng.integers(1, 40, size=(4, 7))
    noisy = np.maximum(truth + rng.normal(0, 1.4, truth.shape), 0.5).ravel()
    rows = Margin(of=np.repeat(np.arange(4), 7), n=truth.sum(axis=1))
    columns = Margin(of=np.tile(np.arange(7), 4), n=truth.sum(axis=0))
    variance = np.where(rng.random(28) < 0.6, 2.0, np.inf)
    raked = rake(noisy, (rows, columns), variance=variance, tolerance=1e-6, max_cycles=2_000)
    assert (raked.x >= 0).all()
    assert raked.error <= 1e-6
