"""What attackers get: closed forms against the attacks themselves, on the engine's own noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from attacks.predicted import group_of, membership, solved, worst_of
from attacks.trials import trial_of_rows
from fixtures.measure import Noiseless

from engine.exposure import (
    auc_of,
    caught,
    guessed_right,
)


def test_nothing_told_is_chance_and_more_told_is_never_less():
    none = np.zeros(1)
    assert guessed_right(100, none, np.ones(1), 1) == 0.5
    assert guessed_right(0, np.ones(1), np.ones(1), 1) == 0.5
    more = [guessed_right(100, np.full(k, 7.0), np.full(k, 8.0), 1) for k in range(1, 30)]
    assert more == sorted(more)
    assert 0.5 < more[0] < 0.7 < 0.95 < more[-1] < 1
    assert guessed_right(100, np.full(9, 7.0), np.full(9, 8.0), 2) < more[8]


def test_one_figure_about_one_cell_by_hand():
    """One sum over n bits with the variance of one layer: the error solves 1/v = 1 + s / (4 + s v) / n, s = n."""
    n = 20.0
    v = 1.0
    for _ in range(1000):
        v = 1 / (1 + 1 / (4 + n * v))
    right = 0.5 * (1 + math.erf(math.sqrt((1 - v) / v) / math.sqrt(2)))
    assert guessed_right(n, np.ones(1), np.ones(1), 1) == pytest.approx(right, abs=1e-9)


def test_curves_of_two_normals():
    assert auc_of(0) == 0.5
    assert caught(0) == pytest.approx(0.01)
    assert auc_of(math.sqrt(2)) == pytest.approx(0.8413, abs=1e-4)
    assert caught(2.3263479) == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize(
    ("people", "tables", "seeds"),
    [
        (1_000, 12, 2),
        *(
            pytest.param(*case, 16, marks=pytest.mark.slow)
            for case in ((150, 3), (150, 20), (50, 5))
        ),
    ],
)
def test_reconstruction_gets_as_far_as_predicted(people, tables, seeds):
    found, predicted = [], []
    for seed in range(seeds):  # the mean's own error is .01 for groups of 1,000, .02 for 16 of 50
        codes = group_of(people, tables, seed)
        trial = trial_of_rows(codes, [("bit", c, "flag") for c in codes if c[0] == "c"], 1 + seed)
        found.append(solved(trial, codes, people))
        predicted.append(worst_of(trial, ("flag",), "bit").guessed(1))
    assert np.mean(found) == pytest.approx(np.mean(predicted), abs=0.05)


def test_without_noise_it_gets_further_than_predicted():
    """The comparison can fail: an engine that draws no noise at all tells more than the closed form says."""
    codes = group_of(150, 20, 0)
    tables = [("bit", c, "flag") for c in codes if c[0] == "c"]
    trial = trial_of_rows(codes, tables, 1, draws=Noiseless(5))
    assert (
        solved(trial, codes, 150, ridge=1e-6) > worst_of(trial, ("flag",), "bit").guessed(1) + 0.05
    )


@pytest.mark.ci
@pytest.mark.parametrize(
    "shape",
    [
        (5, 4, 3),
        *(pytest.param(s, marks=pytest.mark.slow) for s in ((5, 4, 2), (6, 6, 2), (4, 8, 2))),
    ],
)
def test_membership_is_as_predicted(shape):
    found, predicted = zip(*[membership(*shape, seed) for seed in range(16)], strict=True)
    assert np.mean(found) == pytest.approx(np.mean(predicted), abs=0.02)
