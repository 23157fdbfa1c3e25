"""Inference and rates: precision, its improvement and areas by hand, several tables against Bayes, closed forms."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from fixtures.risk import against, rng
from fixtures.utility import checked
from scipy.stats import norm

from engine.evaluation.attacks.inference import chances, guess, inference
from engine.evaluation.attacks.protocol import (
    Attacker,
    Claims,
    anonymity_loss,
    at_share,
    auc,
    best,
    caught,
    coefficient,
    gaussian_auc,
    gaussian_caught,
    improvement,
)

pytest.importorskip("sklearn.ensemble")


# Precision.


def claims(confidence, right, n_people=None) -> Claims:
    return Claims(
        confidence=np.array(confidence, float),
        right=np.array(right, float),
        n_people=len(right) if n_people is None else n_people,
    )


SIX = claims([0.9, 0.2, 0.9, 0.5, 0.7, 0.1], [1, 0, 0, 1, 1, 0], n_people=8)


@pytest.mark.parametrize(
    ("share", "value", "n"),
    [(1, 3 / 6, 6), (0.5, 3 / 4, 4), (3 / 8, 2 / 3, 3), (2 / 8, 1 / 2, 2), (1 / 8, 1 / 2, 1)],
)
def test_precision_of_the_surest(share, value, n):
    """Equal confidences are cut through in proportion: one of the first two is right half the time."""
    rate = at_share(SIX, share)
    assert rate.value == pytest.approx(value)
    assert rate.n == n
    assert rate.low <= rate.value <= rate.high


def test_the_best_threshold_does_not_trust_luck():
    sure = claims([3.0] * 40 + [2.0] * 40 + [1.0] * 40, [1] * 38 + [0] * 2 + [1] * 20 + [0] * 60)
    rate, share = best(sure)
    assert (rate.n, rate.value, share) == (40, 38 / 40, 40 / 120)
    lucky = claims([9.0, *range(5, 0, -1)] * 5, [1, 0, 0, 0, 0, 0] * 5)
    assert best(lucky)[0].n > 5
    assert best(claims([], [], n_people=3)) is None
    assert at_share(claims([], [], n_people=3), 1.0) is None


def test_improvement_and_coefficient():
    assert improvement(0.75, 0.5) == 0.5
    assert improvement(0.2, 0.6) == pytest.approx(-1)
    assert math.isnan(improvement(1.0, 1.0))
    assert coefficient(0.8, 1.0) == 0.8
    assert coefficient(0.8, 0.01) == pytest.approx(0.8 * (1 - 0.125))
    assert coefficient(0.8, 1e-4) == 1e-4
    assert coefficient(0.8, 1e-5) == 1e-5


def test_anonymity_loss():
    half = claims(np.zeros(200), [1, 0] * 100)
    three = claims(np.zeros(200), [1, 1, 1, 0] * 50)
    every = claims(np.zeros(200), [1] * 200)
    assert anonymity_loss(three, half) == (pytest.approx(0.5), True)
    assert anonymity_loss(half, half) == (0, False)
    assert math.isnan(anonymity_loss(half, every)[0])
    assert math.isnan(anonymity_loss(claims([], [], n_people=4), half)[0])
    # One tenth known for sure: worth more than the whole at half.
    sure = claims([1.0] * 20 + [0.0] * 180, [1] * 20 + [1, 0] * 90)
    wanted = (coefficient(1, 0.1) - 0.5) / 0.5
    assert anonymity_loss(sure, half)[0] == pytest.approx(wanted)


# Several tables.


def chain(n: int, seed: int) -> pd.DataFrame:
    """s depends on a, b and c, which are independent given s and a."""
    source = np.random.default_rng(seed)
    a = source.integers(0, 3, n)
    s = (a + (source.random(n) < 0.5)) % 4
    b = np.where(source.random(n) < 0.7, s, source.integers(0, 4, n))
    c = np.where(source.random(n) < 0.6, (s + a) % 4, source.integers(0, 4, n))
    return pd.DataFrame({"a": a, "b": b, "c": c, "s": s, "x": source.integers(0, 5, n)})


@pytest.mark.ci
def test_several_tables_are_put_together_as_bayes_would():
    """Tables (a, b, s) and (a, c, s) share a: p(s | a, b, c) ~ p(s | a, b) p(s | a, c) / p(s | a)."""
    frame, people = chain(20_000, 1), chain(25, 2)
    aligned = against(people, frame[["a", "b", "s"]], frame[["a", "c", "s"]]).aligned
    found = guess(aligned, aligned.original, "s", ["a", "b", "c"])
    assert set(found.read) == {("a", "b"), ("a", "c")}
    for i, person in people.iterrows():
        odds = np.empty(4)
        for s in range(4):
            hits = frame["s"] == s
            given_a, given_b, given_c = (
                hits[(frame[list(by)] == person[list(by)]).all(axis=1)].mean()
                for by in (["a"], ["a", "b"], ["a", "c"])
            )
            odds[s] = given_b * given_c / given_a if given_a else 0
        assert found.confidence[i] == pytest.approx(odds.max() / odds.sum(), abs=0.01)
        assert odds[found.code[i]] == pytest.approx(odds.max(), rel=0.05)


# The attack.


def crowd(n: int, seed: int) -> pd.DataFrame:
    """Three known columns, one that they tell something of, one that they tell nothing of."""
    source = np.random.default_rng(seed)
    frame = pd.DataFrame({c: source.integers(0, 10, n) for c in "abc"})
    frame["s"] = (frame["a"] + source.integers(0, 6, n)) % 10
    frame["t"] = source.choice(["p", "q", "r"], n)
    return frame


KNOWN = ("a", "b", "c")
TOLD = Attacker(quasi_identifiers=KNOWN)


def test_several_tables_published_as_they_are_lose():
    original = crowd(2_000, 1)
    sets = [["a", "b", "s"], ["b", "c", "s"], ["a", "c", "s"]]
    others = crowd(2_000, 2)
    lost, safe = (
        checked(inference(against(original, *(rows[c] for c in sets)), TOLD, rng()))
        for rows in (original, others)
    )
    assert lost.breakdown["way"].tolist() != ["one table"]
    assert lost.values["pi_largest"] > 0.15
    assert lost.values["pi_largest"] > safe.values["pi_largest"] + 0.15


def test_a_table_that_shows_nobody_of_a_kind_takes_nothing_back():
    """Column a tells s, c and b a little more; nobody is (1, 9) in a and b: what a and c say stands as it is."""
    draw = rng()
    a = np.repeat([0.0, 1.0], 2000)
    s = np.where(draw.random(4000) < 0.9, a, 1 - a)
    b, c = (np.where(draw.random(4000) < lean, s, 1 - s) for lean in (0.6, 0.7))
    rows = pd.DataFrame({"a": a, "b": b, "c": c, "s": s})
    person = pd.DataFrame({"a": [1.0], "b": [9.0], "c": [0.0], "s": [1.0]})
    aligned = against(person, rows[["a", "c", "s"]], rows[["a", "b", "s"]]).aligned
    found = chances(aligned, aligned.original, "s", ["a", "b", "c"])
    assert found.read == (("a", "c"), ("a", "b"))
    alone = chances(
        against(person, rows[["a", "c", "s"]]).aligned, aligned.original, "s", ["a", "c"]
    )
    assert found.worth[0] == pytest.approx(alone.worth[0])
    assert found.worth[0, 1] > 0.7


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
