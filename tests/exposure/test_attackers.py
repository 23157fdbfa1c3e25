"""Membership: closed forms against the attack itself, on the engine's own noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from attacks.predicted import membership

from engine.exposure import auc_of, caught


def test_curves_of_two_normals():
    assert auc_of(0) == 0.5
    assert caught(0) == pytest.approx(0.01)
    assert auc_of(math.sqrt(2)) == pytest.approx(0.8413, abs=1e-4)
    assert caught(2.3263479) == pytest.approx(0.5, abs=1e-6)


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
