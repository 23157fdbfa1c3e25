"""Attributes: a release of bare cells reveals its own people, an honest one hardly more than of others."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from attacks.trials import trial_of_rows
from fixtures.attacks import build, checked, held_of, rng
from fixtures.measure import EXACT

from engine.evaluation.attacks.inference import NON_MEMBERS, OTHERS, attribute
from engine.evaluation.attacks.protocol import Assumptions

WIDE = [("a", "b", "c", "s")]


@cache
def people(seed: int, n: int = 1500) -> dict[str, np.ndarray]:
    """Three known columns whose combinations have about one person each, and a secret that leans on one of them."""
    draw = np.random.default_rng(seed)
    known = {c: draw.integers(0, 12, n) for c in "abc"}
    return {**known, "s": np.where(draw.random(n) < 0.5, known["a"] % 4, draw.integers(0, 4, n))}


def attack(given, **more):
    more = {"people": 400, "secrets": ("s",)} | more
    return checked(attribute(given, Assumptions(**more), rng()))


def both(seed: int, with_non_members: bool):
    """The attack on bare cells and on an honest release of the same people."""
    members = people(2 * seed - 1)
    non_members = people(2 * seed) if with_non_members else None
    bare = held_of(members, trial_of_rows(members, WIDE, 1, draws=EXACT), non_members=non_members)
    return attack(bare), attack(build(members, WIDE, non_members=non_members))


@pytest.mark.slow
@pytest.mark.parametrize("with_non_members", [True, False])
def test_an_honest_release_tells_a_third_of_what_bare_cells_tell(with_non_members):
    """The gain of 400 targets has an sd of .035 and counts as 0 where chance explains it: six sets of people."""
    found = [both(seed, with_non_members) for seed in range(1, 7)]
    bare, honest = np.mean([[x.values["gain"] for x in pair] for pair in found], axis=0)
    assert bare >= 0.3
    assert honest <= bare / 3


def test_cells_shown_as_they_are_are_found_out():
    """The planted fault: nothing suppressed, no noise. Members are read off, non_members are not.

    What an honest release of one set of people tells is 0 or, in two of three sets, about .12:
    the test above looks at six.
    """
    found, _ = both(1, with_non_members=True)
    assert found.values["gain"] >= 0.15
    assert found.control.value < found.rate.value - 0.2
    assert found.control_note == NON_MEMBERS
    assert found.rate.value > found.baseline.value
    assert found.breakdown.loc[0, "column"] == "s"


def test_without_strangers_the_control_is_what_others_tell():
    found, _ = both(1, with_non_members=False)
    assert found.control_note == OTHERS
    assert found.values["gain"] >= 0.15
