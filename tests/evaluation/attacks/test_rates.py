"""Rates of attackers who rank people: by hand, against drawing again, and against the closed form of shifts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from engine.evaluation.attacks.rates import (
    area_under_curve,
    auc,
    caught,
    gaussian_auc,
    gaussian_caught,
)


def test_area_under_curve_by_hand():
    assert area_under_curve(np.array([1, 2, 3, 4]), np.array([False, False, True, True])) == 1.0
    assert area_under_curve(np.array([1, 1, 1]), np.array([False, True, True])) == 0.5
    assert area_under_curve(np.array([3, 1, 2]), np.array([True, False, True])) == 1.0
    assert area_under_curve(np.array([2, 3, 2]), np.array([True, False, False])) == 0.25


def test_auc_is_the_area():
    rng = np.random.default_rng(1)
    for _ in range(20):
        score, positive = rng.integers(0, 6, 40), rng.random(40) < 0.4
        found = auc(score[positive].astype(float), score[~positive].astype(float))
        assert found.value == pytest.approx(area_under_curve(score, positive))
        assert 0 <= found.low <= found.value <= found.high <= 1
        assert found.n == 40


@pytest.mark.slow
def test_the_interval_of_an_area_holds_it_as_often_as_it_says():
    """Shift 1, 60 and 80 people, 1,000 times: 950 expected, sd 7."""
    rng, truth = np.random.default_rng(2), norm.cdf(1 / np.sqrt(2))
    inside = [
        one.low <= truth <= one.high
        for one in (auc(rng.normal(1, 1, 60), rng.normal(0, 1, 80)) for _ in range(1000))
    ]
    assert 905 <= sum(inside) <= 985


def test_caught_by_hand():
    """Of 200 strangers 2 may be wrong: the bar is the third highest."""
    members, strangers = np.array([197.0, 197.5, 198.0, 300.0]), np.arange(200.0)
    of_members, of_strangers = caught(members, strangers)
    assert of_members.value == 0.75
    assert (of_strangers.value, of_strangers.n) == (0.01, 200)
    assert caught(members, np.arange(99.0)) is None
    assert caught(np.empty(0), strangers) is None


def test_closed_forms_are_those_of_a_shift():
    rng = np.random.default_rng(3)
    for mu in (0.0, 0.5, 2.0):
        members, strangers = rng.normal(mu, 1, 40_000), rng.normal(0, 1, 40_000)
        assert gaussian_auc(np.array([mu])) == pytest.approx(
            auc(members, strangers).value, abs=0.012
        )
        share = caught(members, strangers)[0].value
        assert gaussian_caught(np.array([mu])) == pytest.approx(share, abs=0.02)
    assert gaussian_auc(np.array([0.0, np.inf])) == 0.75
