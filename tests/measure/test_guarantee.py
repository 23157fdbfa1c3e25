from __future__ import annotations

import math

import numpy as np
import pytest
from fixtures.falsify import (
    judged,
    reachable_by_integers,
)

from engine.measure.dp.noise import noised


def test_a_sampler_with_gaps_is_caught():
    """Noise of even numbers only: of the neighbour's outputs nothing is reachable."""
    drawn = 2 * noised(np.zeros(20_000, dtype=np.int64), "laplace", 3.0)
    counts = 7 + drawn[:5000]
    assert reachable_by_integers(counts, 7, drawn[5000:]).mean() > 0.99
    assert reachable_by_integers(counts, 8, drawn[5000:]).mean() < 0.1


def responses(rng: np.random.Generator, truth: int, n: int, keep: float) -> np.ndarray:
    """Randomised response among 3 labels 0, 10, 20: the truth with probability `keep`."""
    lie = (truth + rng.integers(1, 3, n)) % 3
    return 10 * np.where(rng.random(n) < keep, truth, lie)


def test_verdict_on_randomised_response():
    # P(truth) = 0.6, each other 0.2: epsilon is ln 3; at epsilon e the least delta is 0.6 - exp(e) 0.2.
    rng = np.random.default_rng(11)
    first, second = responses(rng, 0, 40_000, 0.6), responses(rng, 2, 40_000, 0.6)
    assert not judged(first, second, epsilon=math.log(3)).is_refuted
    verdict = judged(first, second, epsilon=math.log(2), alpha=1e-6)
    assert verdict.is_refuted
    assert 0.12 < verdict.bound < 0.2
    high, low = sorted((verdict.share_first, verdict.share_second), reverse=True)
    assert (high, low) == pytest.approx((0.6, 0.2), abs=0.03)
    assert not judged(first, second, epsilon=math.log(2), delta=0.2).is_refuted
    assert judged(second, first, epsilon=math.log(2)).bound == pytest.approx(
        verdict.bound, abs=0.02
    )


def test_each_direction_is_looked_at():
    """An output that only one neighbour gives, now and then: seen whichever comes first."""
    rng = np.random.default_rng(2)
    usual, odd = np.zeros(4000, dtype=np.int64), (rng.random(4000) < 0.05).astype(np.int64)
    for first, second in ((usual, odd), (odd, usual)):
        verdict = judged(first, second, epsilon=1.0)
        assert verdict.is_refuted
        assert (verdict.share_first > verdict.share_second) == (first is odd)


def test_true_claims_are_refuted_no_oftener_than_alpha():
    rng = np.random.default_rng(4)
    n_refuted = sum(
        judged(
            rng.integers(0, 9, (60, 3)), rng.integers(0, 9, (60, 3)), epsilon=0.0, alpha=0.1
        ).is_refuted
        for _ in range(150)
    )
    assert n_refuted <= 26  # 15 expected at most; three standard errors
