"""Expected counts to whole ones: sums, floors and ceilings, no bias, runs of neighbours, zeros."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import InternalError
from engine.fit.joint.ipf import sampled


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@settings(max_examples=50)
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
