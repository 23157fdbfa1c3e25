"""Expected counts to whole ones: sums, floors and ceilings, no bias, runs of neighbours, zeros."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from engine.errors import InternalError
from engine.fit.joint.sampling import sampled


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@settings(max_examples=150)
@given(
    expected=st.lists(st.floats(0, 1e6) | st.just(0.0), min_size=1, max_size=40),
    n=st.integers(0, 10_000),
    seed=st.integers(0, 2**32 - 1),
)
def test_rounded_counts_are_the_expectations_rounded_up_or_down(expected, n, seed):
    array = np.array(expected)
    if array.sum() <= 0:
        return
    scaled = array / array.sum() * n
    counts = sampled(array, n, "rounded", rng(seed))
    assert counts.sum() == n
    assert (counts >= np.floor(scaled - 1e-6)).all()
    assert (counts <= np.ceil(scaled + 1e-6)).all()
    assert (counts[array == 0] == 0).all()


@pytest.mark.parametrize("method", ["rounded", "multinomial"])
def test_shape_is_kept_and_counts_add_up(method):
    expected = rng(1).random((3, 4, 2, 5)).astype(np.float32)
    counts = sampled(expected, 77, method, rng(2))
    assert counts.shape == (3, 4, 2, 5)
    assert counts.dtype == np.int64
    assert counts.sum() == 77


def test_whole_expectations_come_out_as_they_are():
    expected = np.array([[3.0, 0.0, 2.0], [1.0, 4.0, 0.0]])
    for seed in range(50):
        assert np.array_equal(sampled(expected, 10, "rounded", rng(seed)), expected)


def test_sums_of_neighbours_are_within_one():
    expected = rng(3).random((30, 7)) * 0.2
    expected *= 40 / expected.sum()
    for seed in range(20):
        counts = sampled(expected, 40, "rounded", rng(seed))
        assert (np.abs(counts.sum(axis=1) - expected.sum(axis=1)) < 1 + 1e-6).all()
        assert (np.abs(np.cumsum(counts) - np.cumsum(expected)) < 1 + 1e-6).all()


@pytest.mark.parametrize("method", ["rounded", "multinomial"])
def test_counts_have_no_bias(method):
    expected = np.array([0.1, 2.5, 0.0, 0.9, 1.25, 0.25])
    draws = np.array([sampled(expected, 5, method, rng(seed)) for seed in range(4000)])
    sd = np.sqrt(expected / len(draws)) + 1e-12
    assert (np.abs(draws.mean(axis=0) - expected) <= 4.5 * sd).all()


def test_multinomial_counts_vary_as_they_should_and_rounded_ones_less():
    expected = np.full(10, 5.0)
    spread = {
        method: np.var([sampled(expected * 1.01, 50, method, rng(s))[3] for s in range(1500)])
        for method in ("multinomial", "rounded")
    }
    assert stats.chi2(1499).cdf(spread["multinomial"] / 4.5 * 1499) == pytest.approx(
        0.5, abs=0.4999
    )
    assert spread["rounded"] < 0.3


def test_two_way_margins_of_rounded_counts_are_nearer():
    """What the module promises of its order of cells, on a table with more cells than rows."""
    shape, n = (6, 5, 7, 4), 600
    expected = rng(5).gamma(0.5, size=shape)
    expected *= n / expected.sum()

    def distance(method):
        found = 0.0
        for seed in range(5):
            counts = sampled(expected, n, method, rng(seed))
            for axes in ((0, 1), (0, 2), (1, 3), (2, 3)):
                target = expected.sum(axis=axes)
                found += float(((counts.sum(axis=axes) - target) ** 2 / target).mean())
        return found

    assert distance("rounded") < 0.4 * distance("multinomial")


def test_named_shapes():
    assert sampled(np.zeros((0, 3)), 0, "rounded", rng()).shape == (0, 3)
    assert sampled(np.zeros(4), 0, "multinomial", rng()).tolist() == [0] * 4
    assert sampled(np.array([0.3]), 9, "rounded", rng()).tolist() == [9]
    assert sampled(np.array(2.0), 9, "rounded", rng()).shape == ()
    huge = sampled(np.array([1e18, 1e18, 0.0]), 2 * 10**9 + 1, "rounded", rng())
    assert huge.sum() == 2 * 10**9 + 1
    assert huge[2] == 0
    beyond = sampled(np.array([1.0, 3.0, 7.1, 0.0]), 2**53 + 3, "rounded", rng())
    assert beyond.sum() == 2**53 + 3
    assert beyond[3] == 0


def test_a_million_cells_take_no_time_and_keep_their_zeros():
    expected = rng(6).random(1_000_000).astype(np.float32)
    expected[::3] = 0
    for method in ("rounded", "multinomial"):
        counts = sampled(expected, 100_000, method, rng(7))
        assert counts.sum() == 100_000
        assert not counts[::3].any()


@pytest.mark.parametrize(
    ("expected", "n"),
    [
        ([1.0, -0.1], 3),
        ([1.0, np.nan], 3),
        ([1.0, np.inf], 3),
        ([1.0], -1),
        ([0.0, 0.0], 2),
        ([], 2),
    ],
)
@pytest.mark.parametrize("method", ["rounded", "multinomial"])
def test_what_is_no_expectation_is_refused(expected, n, method):
    with pytest.raises(InternalError):
        sampled(np.array(expected), n, method, rng())
