from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import InternalError
from engine.measure.dp.accounting import Cost, composed, rho_of
from engine.measure.dp.conversion import delta_of, epsilon_of_rho
from engine.measure.dp.noise import epsilon_by_moments


def true_delta(epsilon: float, counts: list[tuple[float, int]]) -> float:
    """Delta of integer Gaussian noise on a few counts, each with its scale and shift, by adding up all outcomes."""
    loss, probability = np.zeros(1), np.ones(1)
    for scale, shift in counts:
        x = np.arange(-math.ceil(9 * scale), math.ceil(9 * scale) + 1)
        p = np.exp(-((x / scale) ** 2) / 2)
        of_one = shift * (shift - 2 * x) / (2 * scale**2)
        loss = np.add.outer(loss, of_one).ravel()
        probability = np.multiply.outer(probability, p / p.sum()).ravel()
    return float((probability * -np.expm1(np.minimum(epsilon - loss, 0))).sum())


def gaussian_delta(epsilon: float, scale: float) -> float:
    """Delta of continuous Gaussian noise on one count (Balle and Wang 2018, theorem 8)."""

    def below(x: float) -> float:
        return math.erfc(-x / math.sqrt(2)) / 2

    one = 1 / scale
    return below(one / 2 - epsilon / one) - math.exp(epsilon) * below(-one / 2 - epsilon / one)


def test_the_scale_for_epsilon_1_is_that_of_the_analytic_gaussian_mechanism():
    # 4.2248 at delta 1e-6, as Balle and Wang's own program gives it; 4.531 in zCDP.
    assert gaussian_delta(1.0, 4.2248) == pytest.approx(1e-6, rel=1e-3)
    scale = 1 / math.sqrt(2 * rho_of(1.0, 1e-6))
    assert 4.2248 < scale < 4.2248 * 1.008
    narrow = 1 / math.sqrt(2 * rho_of(0.1, 1e-6))
    assert gaussian_delta(0.1, narrow / 1.001) > 1e-6 > gaussian_delta(0.1, narrow)


@settings(max_examples=60, deadline=None)
@given(
    counts=st.lists(
        st.tuples(st.floats(0.7, 6), st.sampled_from([-2, -1, 0, 1, 3])), min_size=1, max_size=3
    ),
    epsilon=st.floats(0.01, 6),
)
def test_delta_is_never_below_the_true_one(counts, epsilon):
    rho = sum(shift**2 / (2 * scale**2) for scale, shift in counts)
    if rho > 0:
        assert delta_of(epsilon, rho) >= true_delta(epsilon, counts) * (1 - 1e-9) - 1e-15


@pytest.mark.parametrize(("epsilon", "scale"), [(0.1, 40.0), (0.5, 9.0), (1.0, 4.3)])
def test_delta_is_near_the_true_one(epsilon, scale):
    assert true_delta(epsilon, [(scale, 1)]) > 0.7 * delta_of(epsilon, 1 / (2 * scale**2))


@given(
    rho=st.floats(1e-9, 20), more=st.floats(1.001, 3), delta=st.sampled_from([1e-12, 1e-6, 1e-3])
)
@settings(max_examples=40, deadline=None)
def test_epsilon_grows_with_rho_falls_with_delta_and_is_never_above_that_of_moments(
    rho, more, delta
):
    found = epsilon_of_rho(rho, delta)
    assert found <= epsilon_by_moments(rho, delta)
    assert found <= epsilon_of_rho(rho * more, delta)
    assert found >= epsilon_of_rho(rho, 2 * delta)


def test_the_order_of_builds_does_not_matter():
    builds = [Cost(epsilon=1, delta=1e-6, rho=r) for r in (0.01, 0.0303, 0.2)] + [Cost(epsilon=0.3)]
    assert len({composed(order, 1e-6) for order in permutations(builds)}) == 1


def test_ends():
    assert epsilon_of_rho(0.0, 1e-6) == 0.0
    assert epsilon_of_rho(0.5, 0.0) == math.inf
    assert epsilon_of_rho(math.inf, 0.5) == math.inf
    assert epsilon_of_rho(9.0, 1e-6) == epsilon_by_moments(9.0, 1e-6)  # next to no noise
    for rho, delta in ((-1.0, 0.1), (math.nan, 0.1), (1.0, 1.0), (1.0, -0.1), (1.0, math.nan)):
        with pytest.raises(InternalError, match="rho"):
            epsilon_of_rho(rho, delta)


def test_builds_of_older_ledgers_spend_no_more_than_they_stated():
    """They hold the rho that OpenDP's conversion gave for epsilon 1 at delta 1e-6."""
    older = Cost(epsilon=1.0, delta=1e-6, rho=0.02435)
    assert epsilon_by_moments(older.rho, 1e-6) == pytest.approx(1, rel=1e-3)
    assert composed([older], 1e-6) == pytest.approx(0.935, rel=5e-3)
