"""Membership: is somebody in the data at all?

Two attackers score people by the released cells that they would stand in. One knows everybody else: in each cell the
published count is held against the count without the person and with them. The other knows the population only: it is
held against what the one-way tables predict. Both add up log-likelihood ratios over all tables.

Sources: Homer et al. 2008, doi:10.1371/journal.pgen.1000167; Pyrgelis, Troncoso and De Cristofaro 2018,
arXiv:1708.06145; closed form: Dong, Roth and Su 2022, doi:10.1111/rssb.12454.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from engine.evaluation.attacks.assumptions import Assumptions
from engine.evaluation.attacks.rates import auc, caught, gaussian_auc, gaussian_caught
from engine.evaluation.attacks.sights import (
    Attacked,
    Bools,
    Floats,
    Sight,
    cells,
    drawn,
    shares,
    unusual,
)
from engine.evaluation.data.paired import Coded, Paired
from engine.evaluation.score import WHOLE, HitRate, Risk

NAME = "membership"
WORDS = (
    "The attacker asks whether somebody is in the data at all, and adds up what every released count that the person "
    "would stand in says: once knowing everybody else in the data, once knowing the population only."
)
NO_STRANGERS = (
    "no control: give people of the same population whom the release is not made from (--control); the closed form of "
    "the attacker who knows everybody else needs none"
)
UNUSUAL = 0.1
"""Share of people who count as unusual."""
SPREAD = 1.0
"""Share of a predicted count that the one-way tables' prediction is taken to be off by."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Scores:
    """What attackers make of some people."""

    # knows_others, knows_population: shape (n_people,): Sums of log-likelihood ratios.
    knows_others: Floats
    knows_population: Floats
    # shape (n_people,): Shift of the whole of the released counts by the person, in standard deviations.
    mu: Floats
    cells: Floats  # shape (n_people,): Released cells that hold the person
    is_unusual: Bools  # shape (n_people,)


def membership(attacked: Attacked, assumptions: Assumptions, rng: np.random.Generator) -> Risk:
    """Tell people of the data from strangers.

    Returns: `rate`: people of the data caught at one false alarm in 100 by who knows everybody else;
    `control`: the strangers caught. Without strangers only the closed form.
    """
    paired = attacked.paired
    members = drawn(paired.original, assumptions.people, rng)
    strangers = None if paired.control is None else drawn(paired.control, assumptions.people, rng)
    sights = [
        sight
        for sight in attacked.sights
        if sight.table.total and (strangers is None or set(sight.columns) <= set(strangers.codes))
    ]
    if not sights or not len(members.n):
        return Risk(attack=NAME, words=WORDS, why_not={WHOLE: "no table with rows, or no people"})
    of_members = _scored(paired, sights, members, is_member=True)
    of_strangers = None
    if strangers is not None and len(strangers.n):
        of_strangers = _scored(paired, sights, strangers, is_member=False)
    return _risk(of_members, of_strangers, len(sights))


def _scored(paired: Paired, sights: list[Sight], people: Coded, *, is_member: bool) -> Scores:
    """Add up what all sights say of some people."""
    n = len(people.n)
    others, population, information, held = (np.zeros(n) for _ in range(4))
    share = shares(paired, sights)
    total = max(float(np.median([sight.table.total for sight in sights])), 1.0)
    for sight in sights:
        found = cells(paired, sight, people)
        at = found.of[0]
        weight = found.is_released[at] / found.variance[at]
        without = found.truth[at] - is_member
        others += weight * (found.shown[at] - without - 0.5)
        information += weight
        held += found.is_released[at]
        if len(sight.columns) > 1:
            expected = total * np.prod([share[c][people.codes[c]] for c in sight.columns], axis=0)
            noise = expected + found.variance[at] + np.square(SPREAD * expected)
            population += (found.shown[at] - expected) / noise
    return Scores(
        knows_others=others,
        knows_population=population,
        mu=np.sqrt(information),
        cells=held,
        is_unusual=unusual(people, share, UNUSUAL),
    )


def _risk(members: Scores, strangers: Scores | None, n_sights: int) -> Risk:
    """Put the figures together."""
    values = {
        "predicted_auc": gaussian_auc(members.mu),
        "predicted_caught": gaussian_caught(members.mu),
        "cells": float(members.cells.mean()),
    }
    note = (
        f"{len(members.mu):,} people of the data"
        + (f" and {len(strangers.mu):,} strangers" if strangers is not None else "")
        + f", {n_sights:,} tables; drawn by the seed",
        "the closed form takes the noise of all cells as independent, and leaves out what suppressed cells and ranges "
        "say",
    )
    if strangers is None:
        lacking = dict.fromkeys(_NEED_STRANGERS, NO_STRANGERS)
        return Risk(
            attack=NAME,
            words=WORDS,
            values=values,
            why_not=lacking,
            control_note=NO_STRANGERS,
            notes=note,
            verdict=_verdict(None, values),
        )
    sides = (members, strangers)
    ranked = {
        "auc": auc(*(s.knows_others for s in sides)),
        "auc_unusual": auc(*(s.knows_others[s.is_unusual] for s in sides)),
        "auc_population": auc(*(s.knows_population for s in sides)),
        "auc_population_unusual": auc(*(s.knows_population[s.is_unusual] for s in sides)),
    }
    values |= {name: rate.value for name, rate in ranked.items() if rate is not None}
    both = caught(members.knows_others, strangers.knows_others)
    by_population = caught(members.knows_population, strangers.knows_population)
    few = "there are fewer than 100 strangers" if both is None else ""
    if both is not None and by_population is not None:
        values |= {"caught": both[0].value, "caught_population": by_population[0].value}
    return Risk(
        attack=NAME,
        words=WORDS,
        rate=None if both is None else both[0],
        control=None if both is None else both[1],
        values=values,
        breakdown=_breakdown(ranked),
        why_not=dict.fromkeys(("caught", "caught_population"), few) if few else {},
        control_note="control: the control rows that were given; 1 in 100 of them at most is taken for one of the data",
        notes=note,
        verdict=_verdict(ranked["auc"], values),
        rate_names=("people of the data caught", "by guessing", "strangers taken for them"),
    )


_NEED_STRANGERS = (
    *("auc", "auc_unusual", "auc_population", "auc_population_unusual"),
    *("caught", "caught_population"),
)
_ATTACKERS = {
    "auc": "knows everybody else",
    "auc_unusual": f"knows everybody else; the {UNUSUAL:.0%} most unusual people",
    "auc_population": "knows the population",
    "auc_population_unusual": f"knows the population; the {UNUSUAL:.0%} most unusual people",
}


def _breakdown(ranked: dict[str, HitRate | None]) -> pd.DataFrame:
    """Areas with their intervals."""
    rows = [
        (_ATTACKERS[name], rate.value, rate.low, rate.high, rate.n)
        for name, rate in ranked.items()
        if rate is not None
    ]
    return pd.DataFrame(rows, columns=["attacker", "auc", "low", "high", "people"])


def _verdict(measured: HitRate | None, values: dict[str, float]) -> str:
    """What it comes to, in words."""
    if measured is None:
        return (
            "Who knows everybody else in the data can be expected to tell whether a person is in it in "
            f"{values['predicted_auc']:.1%} of comparisons with a stranger (a coin: 50%), and to catch "
            f"{values['predicted_caught']:.1%} of people at one false alarm in 100."
        )
    told = (
        f"Who knows everybody else in the data ranks a person of the data above a stranger in {measured.value:.1%} of "
        f"comparisons ({measured.low:.1%} to {measured.high:.1%}; a coin: 50%)"
    )
    if "caught" in values:
        told += f", and catches {values['caught']:.1%} of people at one false alarm in 100"
    return (
        f"{told}. Who knows only the population: {values['auc_population']:.1%}, "
        f"about unusual people {values['auc_population_unusual']:.1%}."
    )
