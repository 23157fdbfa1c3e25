"""Membership: by hand without noise, near the closed form with it, and a release of half the noise is found out."""

from __future__ import annotations

import numpy as np
import pytest
from attacks.trials import trial_of_rows
from fixtures.attacks import HalvedNoise, build, checked, held_of, rng
from fixtures.measure import EXACT

from engine.evaluation.attacks.protocol import Assumptions
from engine.evaluation.attacks.strong import membership
from engine.mechanism import StickyDraws

TABLES = [("a",), ("b",), ("c",), ("a", "b"), ("a", "c"), ("b", "c")]


def people(n: int, seed: int) -> dict[str, np.ndarray]:
    """Independent columns of 12 values; pairs have about 14 people in 2,000."""
    draw = np.random.default_rng(seed)
    return {c: draw.integers(0, 12, n) for c in "abc"}


def attack(given, **more):
    return checked(membership(given, Assumptions(**more), rng()))


def test_without_noise_who_knows_everybody_else_is_always_right():
    members, non_members = people(2000, 1), people(2000, 2)
    given = held_of(
        members, trial_of_rows(members, TABLES, 1, draws=EXACT), non_members=non_members
    )
    found = attack(given)
    assert found.values["auc"] == found.values["caught"] == 1.0
    assert found.control.value == 0.0


def test_the_figures_are_those_of_the_closed_form():
    """Six released cells with noise of sd 1.41: about mu 1.73, so AUC .89. Locked margins say a little less."""
    members, non_members = people(2000, 1), people(2000, 2)
    found = attack(build(members, TABLES, non_members=non_members))
    assert found.values["predicted_auc"] == pytest.approx(0.89, abs=0.01)
    assert found.values["auc"] == pytest.approx(found.values["predicted_auc"], abs=0.04)
    assert found.values["caught"] == pytest.approx(found.values["predicted_caught"], abs=0.1)
    assert found.control.value <= 0.01
    assert found.rate.value == found.values["caught"]
    low, high = found.breakdown.loc[0, ["low", "high"]]
    assert low < found.values["auc"] < high
    assert "ranks a person of the data above a non-member" in found.verdict


@pytest.mark.parametrize("number", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3))])
def test_halved_noise_is_found_out(number):
    """The planted fault: cards state the noise as ever, the counts have half of it."""
    members, non_members = people(2000, 10 + number), people(2000, 20 + number)
    honest, halved = (
        attack(build(members, TABLES, number, kind=kind, non_members=non_members)).values
        for kind in (StickyDraws, HalvedNoise)
    )
    assert honest["auc"] <= 0.93
    assert halved["auc"] >= honest["auc"] + 0.05
    assert halved["caught"] >= honest["caught"] + 0.25


def test_a_release_of_other_people_tells_who_knows_the_population_nothing():
    first, second, third = (people(2000, seed) for seed in (1, 2, 3))
    released = trial_of_rows(first, TABLES, 1)
    found = attack(held_of(second, released, non_members=third))
    assert found.values["auc_population"] == pytest.approx(0.5, abs=0.05)
    assert attack(held_of(first, released, non_members=third)).values["auc_population"] > 0.6


def test_without_strangers_only_the_closed_form_is_given():
    members = people(500, 1)
    found = attack(build(members, TABLES))
    assert set(found.values) == {"predicted_auc", "predicted_caught", "cells"}
    assert found.rate is found.control is None
    assert "no control" in found.control_note
    assert "can be expected" in found.verdict
