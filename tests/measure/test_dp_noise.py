from __future__ import annotations

import math

import numpy as np
import pytest
from fixtures.falsify import reachable_by_integers, sampler_p_value

from engine.errors import DataError
from engine.measure.dp import noise as dp_noise
from engine.measure.dp.noise import (
    LARGEST_COUNT,
    epsilon_by_moments,
    guarantee_of,
    noised,
    variance_of,
)

NOISES = ("laplace", "gaussian")


def test_noise_goes_to_its_own_cell_whatever_the_chunk(monkeypatch):
    monkeypatch.setattr(dp_noise, "CHUNK", 7)
    counts = (np.arange(30, dtype=np.int64) * 1000).reshape(5, 6).T  # not contiguous
    out = noised(counts, "laplace", 1.0)
    assert (np.abs(out - counts) < 200).all()
    assert (out != counts).any()


@pytest.mark.parametrize("noise", NOISES)
def test_no_draw_is_ever_repeated(noise):
    counts = np.zeros(200, dtype=np.int64)
    assert (noised(counts, noise, 10.0) != noised(counts, noise, 10.0)).any()


def test_noise_of_one_count_says_nothing_of_its_neighbour():
    drawn = noised(np.zeros((4000, 2), dtype=np.int64), "laplace", 5.0)
    assert abs(np.corrcoef(drawn.T)[0, 1]) < 0.08  # five standard errors


@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_counts_are_noised_and_larger_ones_refused(sign):
    largest = np.array([0, sign * LARGEST_COUNT], dtype=np.int64)
    assert abs(int(noised(largest, "laplace", 1.0)[1]) - sign * LARGEST_COUNT) < 100
    for noise, scale in (("laplace", 1.0), (None, 0.0)):
        with pytest.raises(DataError, match="more rows than") as told:
            noised(largest + sign, noise, scale)
        assert str(LARGEST_COUNT + 1) not in str(told.value)
    with pytest.raises(DataError):
        noised(np.array([-(2**63)]), "laplace", 1.0)


@pytest.mark.parametrize("scale", [0.1, 1.0, 7.3, 1000.0])
@pytest.mark.parametrize("rows", [1, 2, 5])
def test_opendp_grants_what_the_formula_says_and_never_less(scale, rows):
    for noise, formula in (("laplace", rows / scale), ("gaussian", rows**2 / (2 * scale**2))):
        granted = guarantee_of(noise, scale, rows)
        assert granted == pytest.approx(formula, rel=1e-14)
        assert granted >= formula * (1 - 1e-15)


def smallest_epsilon(rho: float, delta: float) -> float:
    """Canonne, Kamath and Steinke 2020, corollary 13, on a fine grid of orders: an upper bound, near the least."""
    order = 1 + np.logspace(-4, 7, 200_001)
    epsilon = order * rho + np.log1p(-1 / order) - np.log(delta * order) / (order - 1)
    return max(0.0, float(epsilon.min()))


@pytest.mark.parametrize("rho", [1e-6, 0.003, 0.5, 20.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.01])
def test_conversion_is_the_published_one(rho, delta):
    found = epsilon_by_moments(rho, delta)
    assert found == pytest.approx(smallest_epsilon(rho, delta), rel=1e-4, abs=1e-9)
    assert found <= rho + 2 * math.sqrt(rho * math.log(1 / delta))  # Bun and Steinke 2016


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("scale", [0.05, 0.1, 0.5, 1.0, 9.99, 10.0, 30.0])
def test_variance_is_that_of_the_whole_number_distribution(noise, scale):
    k = np.arange(-3000, 3001)
    p = np.exp(-np.abs(k) / scale) if noise == "laplace" else np.exp(-((k / scale) ** 2) / 2)
    assert variance_of(noise, scale) == pytest.approx(float((p * k**2).sum() / p.sum()), rel=1e-9)


def draws(noise: str, scale: float, n: int) -> np.ndarray:
    return noised(np.zeros(n, dtype=np.int64), noise, scale)


@pytest.mark.ci
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("scale", [0.1, 10.0])
def test_noise_has_its_distribution(noise, scale):
    assert sampler_p_value(draws(noise, scale, 20_000), noise, scale) > 1e-6


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("scale", "off"), [(1.0, 0.7), (10.0, 1.3)])
def test_a_wrong_scale_is_seen(noise, scale, off):
    assert sampler_p_value(draws(noise, scale * off, 10_000), noise, scale) < 1e-9


def test_a_few_far_draws_are_seen_where_all_others_are_right():
    drawn = draws("laplace", 0.1, 20_000)
    drawn[:6] = 900
    assert sampler_p_value(drawn, "laplace", 0.1) < 1e-6
    constant = np.zeros(20_000, dtype=np.int64)
    assert sampler_p_value(constant, "gaussian", 0.1) > 0.5
    constant[0] = 1
    assert sampler_p_value(constant, "gaussian", 0.1) < 1e-9


@pytest.mark.ci
@pytest.mark.parametrize("noise", NOISES)
def test_every_output_can_come_from_the_neighbours(noise):
    count = 412
    outputs = noised(np.full(3_000, count, dtype=np.int64), noise, 3.0)
    drawn = draws(noise, 3.0, 30_000)
    for neighbour in (count - 1, count + 1):
        assert reachable_by_integers(outputs, neighbour, drawn).all()
