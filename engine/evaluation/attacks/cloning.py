"""Cloning: columns of the data that are copies of each other, each a fresh measurement of the same people.

The attacker knows everybody else, and all of a person but a secret, which is one of two values. In every released cell
that the person would stand in with either value the published count is held against the others' count. A copy of a
column shows the same people again under fresh noise: what is gained over one column alone is what the copies give away.
Source: Gadotti, Houssiau, Rocher, Livshits and de Montjoye, USENIX Security 2019, arXiv:1804.06752.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pandas as pd

from engine.evaluation.attacks.assumptions import Assumptions
from engine.evaluation.attacks.sights import (
    Attacked,
    Floats,
    Sight,
    cells,
    drawn,
    secrets_of,
    shares,
)
from engine.evaluation.data.paired import Coded, Numbers, Paired, n_codes
from engine.evaluation.risk.people import excess
from engine.evaluation.score import WHOLE, HitRate, Risk, wilson

NAME = "cloning"
WORDS = (
    "Some columns of the data are (nearly) copies of each other: one value of the one for one of the other. The "
    "attacker knows everybody else and tells which of two values a person has, once by the tables of one copy, once by "
    "those of all."
)
NEARLY = 0.95
"""Share of what guessing one column gets wrong that the other sets right, in both directions, for a copy."""
MOST_PEOPLE = 20_000
"""People by whom copies are found; a sample where there are more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Copies:
    """Columns that are nearly one to one."""

    columns: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Outcome:
    """Right answers about one secret: 1, or a half for a tie."""

    copies: Copies
    secret: str
    # alone, together: shape (n_people,): By the tables of one copy, and of all.
    alone: Floats
    together: Floats
    sights: tuple[int, int]  # Tables read by each


def cloning(attacked: Attacked, assumptions: Assumptions, rng: np.random.Generator) -> Risk:
    """Find columns that are copies, and what their copies give away.

    Returns: `rate`: right with the tables of all copies; `control`: with those of one column alone.
    """
    found = copies_of(attacked.paired, rng)
    if not found:
        why = "no two columns of the data are nearly one to one"
        return Risk(attack=NAME, words=WORDS, why_not={WHOLE: why})
    people = drawn(attacked.paired.original, assumptions.people, rng)
    outcomes = []
    for copies in found:
        for secret in secrets_of(attacked.paired, assumptions.secrets):
            if secret not in copies.columns:
                outcomes += _attacked(attacked, people, copies, secret, rng)
    if not outcomes:
        why = f"no table shows a copy with another column; copies: {_named(found)}"
        return Risk(attack=NAME, words=WORDS, why_not={WHOLE: why})
    return _risk(found, outcomes)


def copies_of(paired: Paired, rng: np.random.Generator) -> list[Copies]:
    """Return the columns of the data that are nearly one to one, those that go together in one."""
    people = drawn(paired.original, MOST_PEOPLE, rng)
    group = {c: c for c in paired.values}
    for one, other in combinations(paired.values, 2):
        if group[one] != group[other] and _is_copy(paired, people, one, other):
            old, new = group[other], group[one]
            group = {c: new if of == old else of for c, of in group.items()}
    sets = [tuple(c for c in group if group[c] == of) for of in dict.fromkeys(group.values())]
    return [Copies(columns=columns) for columns in sets if len(columns) > 1]


def _is_copy(paired: Paired, people: Coded, one: str, other: str) -> bool:
    """Whether each of two columns tells the other of nearly anybody whose value somebody shares.

    A value that one person has tells all of that person: two columns of such values need not be copies.
    """
    size = n_codes(paired, other)
    joint = people.codes[one].astype(np.int64) * size + people.codes[other]
    pairs, n = np.unique(joint, return_counts=True)
    for key, told in ((pairs // size, pairs % size), (pairs % size, pairs // size)):
        is_shared = np.bincount(key, n)[key] > 1
        of_key, held = key[is_shared], n[is_shared]
        most = np.zeros(int(of_key.max(initial=-1)) + 1)
        np.maximum.at(most, of_key, held)
        commonest = float(np.bincount(told[is_shared], held).max(initial=0))
        wrong = held.sum() - commonest
        if wrong == 0 or most.sum() - commonest < NEARLY * wrong:
            return False
    return True


def _attacked(
    attacked: Attacked, people: Coded, copies: Copies, secret: str, rng: np.random.Generator
) -> list[Outcome]:
    """Attack one secret by one copy's tables, and by all; nothing where only one column has tables with it."""
    sights = [
        sight
        for sight in attacked.sights
        if secret in sight.columns and set(copies.columns) & set(sight.columns)
    ]
    by_copy = {c: [sight for sight in sights if c in sight.columns] for c in copies.columns}
    first = max(by_copy, key=lambda c: (len(by_copy[c]), c))
    if not by_copy[first]:
        return []
    share = shares(attacked.paired, attacked.sights)[secret]
    other = _other_values(people.codes[secret].astype(np.int64), share, rng)
    sums = {way: np.zeros(len(people.n)) for way in ("alone", "together")}
    for sight in sights:
        told = _log_ratio(attacked.paired, sight, people, secret, other)
        sums["together"] += told
        if first in sight.columns:
            sums["alone"] += told
    right = {way: (np.sign(told) + 1) / 2 for way, told in sums.items()}
    counts = (len(by_copy[first]), len(sights))
    return [Outcome(copies=copies, secret=secret, sights=counts, **right)]


def _other_values(codes: Numbers, share: Floats, rng: np.random.Generator) -> Numbers:
    """For each person a value that is not theirs, drawn by the published shares."""
    chances = np.broadcast_to(np.log(share), (len(codes), len(share))) + rng.gumbel(
        size=(len(codes), len(share))
    )
    chances[np.arange(len(codes)), codes] = -np.inf
    return np.asarray(chances.argmax(axis=1), np.int64)


def _log_ratio(paired: Paired, sight: Sight, people: Coded, secret: str, other: Numbers) -> Floats:
    """Log-likelihood of the true value over the other, by one sight."""
    codes = {**people.codes, secret: other.astype(np.int32)}
    found = cells(paired, sight, people, replace(people, codes=codes))
    told = np.zeros(len(people.n))
    for at, sign in ((found.of[0], 1), (found.of[1], -1)):
        without = found.truth[at] - (sign > 0)
        shift = (found.shown[at] - without - 0.5) / found.variance[at]
        told += sign * np.where(found.is_released[at], shift, 0.0)
    return told


def _risk(found: Sequence[Copies], outcomes: Sequence[Outcome]) -> Risk:
    """Put all secrets together."""
    together, alone = (
        _rate(np.concatenate([getattr(one, way) for one in outcomes]))
        for way in ("together", "alone")
    )
    rows = [
        {
            "copies": " = ".join(one.copies.columns),
            "secret": one.secret,
            "tables_alone": one.sights[0],
            "tables": one.sights[1],
            "right_alone": float(one.alone.mean()),
            "right": float(one.together.mean()),
            "gain": excess(_rate(one.together), _rate(one.alone)),
        }
        for one in outcomes
    ]
    table = pd.DataFrame(rows).sort_values("gain", ascending=False, kind="stable")
    return Risk(
        attack=NAME,
        words=WORDS,
        rate=together,
        control=alone,
        values={
            "right": together.value,
            "gain": excess(together, alone),
            "worst": float(table["gain"].max()),
            "copies": float(sum(len(one.columns) for one in found)),
        },
        breakdown=table,
        control_note="control: the same attack by the tables of one of the columns alone; a coin is right in 50 %",
        notes=(
            f"copies: {_named(found)}; {len(outcomes[0].alone):,} people, {len(outcomes)} secrets",
        ),
        verdict=(
            f"{_named(found)}: nearly the same columns. Who knows everybody else tells two values of a person's other "
            f"column apart in {together.value:.0%} of cases by the tables of all copies, {alone.value:.0%} by one's."
        ),
        rate_names=("right by all copies", "by a coin", "by one column alone"),
    )


def _rate(right: Floats) -> HitRate:
    """A share of right answers."""
    rate = wilson(float(right.sum()), len(right))
    return HitRate(value=0.0, low=0.0, high=1.0, n=0) if rate is None else rate


def _named(found: Sequence[Copies]) -> str:
    """Copies in words."""
    return "; ".join(" = ".join(one.columns) for one in found)
