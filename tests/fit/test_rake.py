from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.fit_oracles import dense_raked

from engine.fit.candidates import MarginBounds, exact_bounds
from engine.fit.rake import PATIENCE, rake

SHAPE = (3, 5, 2, 4)


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
@given(seed=st.integers(0, 10**6), zeros=st.floats(0, 0.4))
@settings(max_examples=25)
def test_equals_dense_textbook_ipf(axes, margins, seed, zeros):
    rng = np.random.default_rng(seed)
    shape = SHAPE[:axes]
    target = rng.integers(0, 30, shape).astype(float)
    start = rng.random(shape) * (rng.random(shape) >= zeros) + 0.0
    expected = dense_raked(
        start,
        [(kept, margin_of(target, kept).low.reshape([shape[a] for a in kept])) for kept in margins],
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
        exact_bounds(np.array([0, 0, 1, 1]), np.array([10, 10])),
        exact_bounds(np.array([0, 1, 0, 1]), np.array([30, 10])),
    )
    got = rake(np.ones(4), [rows, columns], max_cycles=9)
    assert got.cycles == 9
    assert got.error == pytest.approx(1.0)  # rows of 20 for 10
    assert np.bincount(columns.of, weights=got.x).tolist() == [30, 10]


def test_margin_without_cells_is_an_error_that_stays():
    margin = exact_bounds(np.array([0, 0]), np.array([4, 6]))
    got = rake(np.ones(2), [margin], max_cycles=5)
    assert (got.cycles, got.error) == (5, 0.6)  # 6 of its 10 rows
    assert got.x.tolist() == [2, 2]


def test_zero_stays_zero():
    x = np.array([0.0, 1.0, 1.0, 1.0])
    wanted = np.array([[0.0, 5.0], [4.0, 3.0]])
    got = rake(x, [margin_of(wanted, (0,)), margin_of(wanted, (1,))], max_cycles=50)
    assert got.x[0] == 0.0
    assert got.x == pytest.approx([0, 5, 4, 3], rel=0.02)


def test_fibre_of_zeros_stays_zero_and_is_reported():
    margin = exact_bounds(np.array([0, 0, 1]), np.array([3, 7]))
    got = rake(np.array([0.0, 0.0, 2.0]), [margin], max_cycles=2)
    assert got.x.tolist() == [0, 0, 7]
    assert got.error == 0.3  # 3 of its 10 rows


def test_target_of_zero_empties_its_cells():
    margin = exact_bounds(np.array([0, 0, 1]), np.array([0, 7]))
    assert rake(np.ones(3), [margin]).x.tolist() == [0, 0, 7]


def test_nothing_to_rake():
    empty = exact_bounds(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    got = rake(np.zeros(0), [empty, empty])
    assert (len(got.x), got.cycles, got.error) == (0, 1, 0.0)
    without = rake(np.array([3.0]), [])
    assert without.x.tolist() == [3.0]


def test_input_is_left_alone():
    x = np.ones(4)
    rake(x, [exact_bounds(np.array([0, 0, 1, 1]), np.array([6, 8]))])
    assert x.tolist() == [1, 1, 1, 1]


def test_with_every_cell_filled_sharing_by_variance_is_plain_raking():
    x = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    rows = exact_bounds(np.array([0, 0, 0, 1, 1, 1]), np.array([9, 12]))
    columns = exact_bounds(np.array([0, 1, 2, 0, 1, 2]), np.array([5, 7, 9]))
    margins = (rows, columns)
    plain = rake(x, margins, tolerance=1e-9, max_cycles=200)
    shared = rake(x, margins, variance=np.full(6, np.inf), tolerance=1e-9, max_cycles=200)
    np.testing.assert_allclose(shared.x, plain.x, rtol=1e-8)


def test_a_measured_cell_gives_way_by_its_noise_only():
    # One row of a measured cell of 100 (noise variance 2) and filled cells of 4 and 2; the margin is 3 short.
    x = np.array([100.0, 4.0, 2.0])
    margin = exact_bounds(np.zeros(3, dtype=np.int64), np.array([109]))
    raked = rake(x, (margin,), variance=np.array([2.0, np.inf, np.inf]))
    # Weights 2, 4 and 2: the three missing rows go 3/4, 3/2 and 3/4.
    np.testing.assert_allclose(raked.x, [100.75, 5.5, 2.75])


@given(st.integers(0, 10_000))
def test_sharing_by_variance_meets_feasible_margins_and_never_goes_negative(seed):
    rng = np.random.default_rng(seed)
    truth = rng.integers(1, 40, size=(4, 7))
    noisy = np.maximum(truth + rng.normal(0, 1.4, truth.shape), 0.5).ravel()
    rows = exact_bounds(np.repeat(np.arange(4), 7), truth.sum(axis=1))
    columns = exact_bounds(np.tile(np.arange(7), 4), truth.sum(axis=0))
    variance = np.where(rng.random(28) < 0.6, 2.0, np.inf)
    raked = rake(noisy, (rows, columns), variance=variance, tolerance=1e-6, max_cycles=2_000)
    assert (raked.x >= 0).all()
    assert raked.error <= 1e-6


# Bounds.


def between(of: np.ndarray, low, high) -> MarginBounds:
    return MarginBounds(
        of=of, low=np.array(low, dtype=np.int64), high=np.array(high, dtype=np.int64)
    )


def slowly_raked(x: list[float], margins: list[MarginBounds], cycles: int) -> list[float]:
    """Bring every sum that is out of its bounds to the nearer bound, one after the other."""
    for _ in range(cycles):
        for margin in margins:
            have = [0.0] * len(margin.low)
            for part, value in zip(margin.of.tolist(), x, strict=True):
                have[part] += value
            for part, (sums, low, high) in enumerate(
                zip(have, margin.low, margin.high, strict=True)
            ):
                if sums > 0 and not low <= sums <= high:
                    factor = (low if sums < low else high) / sums
                    x = [v * factor if p == part else v for v, p in zip(x, margin.of, strict=True)]
    return x


def worst_of(x: np.ndarray, margins: list[MarginBounds]) -> float:
    """Largest distance of a sum from its bounds, as a share of the bound."""
    worst = 0.0
    for m in margins:
        have = np.bincount(m.of, weights=x, minlength=len(m.low))
        target = np.clip(have, m.low, m.high)
        worst = max(worst, float((np.abs(have - target) / np.maximum(target, 1)).max(initial=0)))
    return worst


def test_a_sum_within_its_bounds_is_left_alone_and_others_go_to_the_nearer_one():
    x = np.array([1.0, 2.0, 3.0, 4.0, 0.5, 0.25])
    margin = between(np.array([0, 0, 1, 1, 2, 2]), [2, 9, 0], [5, 11, 0])
    got = rake(x, [margin], max_cycles=1)
    assert got.x[:2].tolist() == [1, 2]  # 3 lies in 2..5
    assert got.x[2:4] == pytest.approx([3 * 9 / 7, 4 * 9 / 7])
    assert got.x[4:].tolist() == [0, 0]
    assert got.error == pytest.approx((2 + 0.75) / (3 + 9))
    low = rake(np.array([8.0, 8.0]), [between(np.array([0, 0]), [2], [5])])
    assert low.x.tolist() == [2.5, 2.5]


def test_all_sums_within_bounds_change_nothing():
    x = np.arange(1.0, 7.0)
    margins = [
        between(np.array([0, 0, 0, 1, 1, 1]), [0, 15], [6, 99]),
        between(np.array([0, 1, 2, 0, 1, 2]), [4, 7, 9], [6, 8, 9]),
    ]
    got = rake(x, margins, variance=np.array([2.0, np.inf] * 3))
    assert (got.x == x).all()
    assert (got.cycles, got.error) == (1, 0.0)


@given(st.integers(0, 10**6), st.integers(1, 6))
@settings(max_examples=40)
def test_bounds_equal_the_slow_way(seed, cycles):
    rng = np.random.default_rng(seed)
    x = rng.random(24) * 9
    shape, listed = (2, 3, 4), []
    for kept in ((0, 1), (0, 2), (1, 2)):
        n = margin_of(rng.integers(0, 9, shape), kept).low.astype(np.int64)
        listed.append(
            between(
                margin_of(np.ones(shape), kept).of, np.maximum(n - 1, 0), n + rng.integers(0, 3)
            )
        )
    got = rake(x, listed, max_cycles=cycles, tolerance=-1.0)
    assert got.x == pytest.approx(slowly_raked(x.tolist(), listed, got.cycles), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("is_measured", [False, True])
@given(seed=st.integers(0, 10**6), slack=st.integers(0, 2))
@settings(max_examples=40)
def test_feasible_bounds_are_met_within_the_tolerance(is_measured, seed, slack):
    rng = np.random.default_rng(seed)
    truth = rng.integers(1, 20, (4, 3, 5))
    x = np.maximum(truth + rng.normal(0, 1.4, truth.shape), 0.5).ravel()
    margins = []
    for kept in ((0, 1), (0, 2), (1, 2)):
        exact = margin_of(truth.astype(float), kept)
        n = exact.low.astype(np.int64)
        margins.append(between(exact.of, np.maximum(n - slack, 0), n + slack))
    variance = np.where(rng.random(len(x)) < 0.5, 2.0, np.inf) if is_measured else None
    got = rake(x, margins, variance=variance, max_cycles=200)
    assert got.error <= 0.01
    assert (
        worst_of(got.x, margins) <= 0.02
    )  # in its last cycle each was; the later ones move it a little
    assert worst_of(got.x, margins[-1:]) <= 0.01
    assert (got.x >= 0).all()


@pytest.mark.parametrize("variance", [None, np.full(4, np.inf)])
def test_contradictory_bounds_stop_by_patience_and_say_so(variance):
    """Rows of 10 to 12 each, columns of 18 to 40 each: what the sums are out of bounds never halves."""
    rows = between(np.array([0, 0, 1, 1]), [10, 10], [12, 12])
    columns = between(np.array([0, 1, 0, 1]), [18, 18], [40, 40])
    got = rake(np.ones(4), [rows, columns], variance=variance, max_cycles=10_000)
    assert got.cycles == 2 * PATIENCE  # at the first mark there was nothing to compare with
    assert np.bincount(columns.of, weights=got.x) == pytest.approx([18, 18])  # the last is met
    assert got.error == pytest.approx((36 - 24) / 24)
    other = rake(np.ones(4), [columns, rows], variance=variance, max_cycles=10_000)
    assert np.bincount(rows.of, weights=other.x) == pytest.approx([12, 12])
    assert other.error == pytest.approx((36 - 24) / 24)  # of the columns still


@pytest.mark.parametrize(("diagonal", "ends"), [(9, "met"), (400, "by patience")])
def test_raking_goes_on_as_long_as_the_error_halves(diagonal, ends):
    """A 2 x 2 table of high odds gets nearer by little in each cycle."""
    start = np.array([diagonal, 1.0, 1.0, diagonal])
    wanted = start.reshape(2, 2) * [[3.0], [1.0]] * [1.0, 2.0]
    margins = [margin_of(wanted, (0,)), margin_of(wanted, (1,))]
    got = rake(start, margins, max_cycles=10_000, tolerance=1e-6)
    if ends == "met":
        assert got.cycles > 2 * PATIENCE
        assert worst_of(got.x, margins) <= 1e-6
    else:
        assert got.cycles == 2 * PATIENCE
        assert got.error > 1e-3


def test_one_bad_count_does_not_hide_that_the_rest_still_gets_nearer():
    """Patience looks at all that is out of bounds together, not at the one sum that can never be met."""
    hopeless = exact_bounds(
        np.array([0, 0, 0, 0]), np.array([20, 1])
    )  # its second part has no cell
    rows = exact_bounds(np.array([0, 0, 1, 1]), np.array([14, 6]))
    got = rake(np.array([5.0, 0.01, 0.01, 5.0]), [rows, hopeless], max_cycles=500)
    assert got.cycles <= 2 * PATIENCE
    assert np.bincount(rows.of, weights=got.x) == pytest.approx([14, 6])
    assert got.error == pytest.approx(1 / 21)
