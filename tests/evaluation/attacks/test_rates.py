"""Rates of attackers who rank people: by hand, against drawing again, and against the closed form of shifts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from engine.evaluation.attacks.protocol import (
    auc,
    caught,
    gaussian_auc,
    gaussian_caught,
)


def test_auc_by_hand_and_as_scikit_learn_has_it():
    assert auc(np.array([3.0, 4.0]), np.array([1.0, 2.0])).value == 1.0
    assert auc(np.array([1.0, 1.0]), np.array([1.0])).value == 0.5
    assert auc(np.array([2.0]), np.array([3.0, 2.0])).value == 0.25
    roc_auc_score = pytest.importorskip("sklearn.metrics").roc_auc_score
    rng = np.random.default_rng(1)
    for _ in range(20):
        score, positive = rng.integers(0, 6, 40), rng.random(40) < 0.4
        found = auc(score[positive].astype(float), score[~positive].astype(float))
        assert found.value == pytest.approx(roc_auc_score(positive, score))
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
    """Of 200 non_members 2 may be wrong: the bar is the third highest."""
    members, non_members = np.array([197.0, 197.5, 198.0, 300.0]), np.arange(200.0)
    of_members, of_non_members = caught(members, non_members)
    assert of_members.value == 0.75
    assert (of_non_members.value, of_non_members.n) == (0.01, 200)
    assert caught(members, np.arange(99.0)) is None
    assert caught(np.empty(0), non_members) is None


def test_closed_forms_are_those_of_a_shift():
    rng = np.random.default_rng(3)
    for mu in (0.0, 0.5, 2.0):
        members, non_members = rng.normal(mu, 1, 40_000), rng.normal(0, 1, 40_000)
        assert gaussian_auc(np.array([mu])) == pytest.approx(
            auc(members, non_members).value, abs=0.012
        )
        share = caught(members, non_members)[0].value
        assert gaussian_caught(np.array([mu])) == pytest.approx(share, abs=0.02)
    assert gaussian_auc(np.array([0.0, np.inf])) == 0.75
