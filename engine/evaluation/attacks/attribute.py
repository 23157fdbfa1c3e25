"""Attributes: a column of a person, from all tables together, by who knows the others.

Once the attacker knows all other columns, once 3 to 7 of them. Tables are pooled by `engine.evaluation.risk.several`.
What the same attack gets about strangers it learns from the population (Francis and Wagner, arXiv:2403.06595); only
what goes beyond is told of a person.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from engine.evaluation.attacks.assumptions import Assumptions
from engine.evaluation.attacks.sights import Attacked, Bools, drawn, secrets_of, shares, unusual
from engine.evaluation.data.paired import Coded, Paired
from engine.evaluation.data.sampling import positions, published_as_is, rows_of
from engine.evaluation.risk.people import excess
from engine.evaluation.risk.several import guess
from engine.evaluation.score import WHOLE, HitRate, Risk, wilson

NAME = "attribute"
WORDS = (
    "The attacker knows a person's other columns, all of them or a few, and wants one more: every table that holds it "
    "is read, and what they say is put together."
)
UNUSUAL = 0.05
"""Share of people who count as unusual."""
FEWEST_KNOWN, MOST_KNOWN = 3, 7
_HELD_OUT = 0.3
_FEWEST_PEOPLE = 20
STRANGERS = "control: the control rows that were given, which the release is not made from"
OTHERS = (
    "control: the same attack with exact tables of all other people of the data, as no control rows were given; it "
    "says what others tell of a person"
)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Sides:
    """Whom an attack is about, and what it reads for its control."""

    members: Coded  # People of the data
    controls: Coded  # Strangers; without any, the members again
    # What the control's attacker reads: the release, or exact tables of everybody else.
    tables: Paired
    is_unusual: tuple[Bools, Bools]  # Of members and controls
    note: str  # Who they are


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Outcome:
    """Right guesses of one column about members and controls."""

    secret: str
    # whole, few: Knowing all other columns, and some.
    whole: tuple[Bools, Bools]
    few: tuple[Bools, Bools]
    commonest: float  # Share of members who have the column's commonest value, as published


def attribute(attacked: Attacked, assumptions: Assumptions, rng: np.random.Generator) -> Risk:
    """Guess columns of people, and of strangers."""
    paired = attacked.paired
    n_people = min(assumptions.people, int(_HELD_OUT * len(paired.original.n)))
    if n_people < _FEWEST_PEOPLE:
        return Risk(attack=NAME, words=WORDS, why_not={WHOLE: "there are too few people to attack"})
    sides = _sides(attacked, n_people, rng)
    outcomes = []
    for secret in secrets_of(paired, assumptions.secrets):
        if (one := _attacked(paired, sides, secret, rng)) is not None:
            outcomes.append(one)
    if not outcomes:
        why = "no table with rows holds a column of 2 to 100 values and another one"
        return Risk(attack=NAME, words=WORDS, why_not={WHOLE: why})
    return _risk(outcomes, sides)


def _sides(attacked: Attacked, n_people: int, rng: np.random.Generator) -> Sides:
    """Draw the people to attack."""
    paired = attacked.paired
    n_rows = len(paired.original.n)
    taken = positions(n_rows, n_people, rng)
    members = rows_of(paired.original, taken)
    controls, tables, note = members, paired, STRANGERS
    if paired.control is not None and len(paired.control.n):
        controls = drawn(paired.control, n_people, rng)
    else:
        others = rows_of(paired.original, np.setdiff1d(np.arange(n_rows), taken))
        tables = replace(paired, tables=published_as_is(paired, others))
        note = OTHERS
    share = shares(paired, attacked.sights)
    rare = unusual(members, share, UNUSUAL), unusual(controls, share, UNUSUAL)
    return Sides(members=members, controls=controls, tables=tables, is_unusual=rare, note=note)


def _attacked(
    paired: Paired, sides: Sides, secret: str, rng: np.random.Generator
) -> Outcome | None:
    """Attack one column."""
    if secret not in sides.controls.codes:
        return None
    known = [c for c in paired.values if c != secret and c in sides.controls.codes]
    n_few = min(int(rng.integers(FEWEST_KNOWN, MOST_KNOWN + 1)), len(known))
    few = [known[i] for i in np.sort(rng.choice(len(known), n_few, replace=False))]
    whole = _right(paired, sides, secret, known)
    some = _right(paired, sides, secret, few)
    if whole is None:
        return None
    table = min((t for c, t in paired.tables.items() if secret in c), key=lambda t: len(t.columns))
    commonest = int(np.bincount(table.codes[secret], table.n).argmax())
    return Outcome(
        secret=secret,
        whole=whole,
        few=whole if some is None else some,
        commonest=float((sides.members.codes[secret] == commonest).mean()),
    )


def _right(
    paired: Paired, sides: Sides, secret: str, known: Sequence[str]
) -> tuple[Bools, Bools] | None:
    """Which guesses are right about members, and about controls; None where no table tells the column."""
    found = []
    for people, tables in ((sides.members, paired), (sides.controls, sides.tables)):
        one = guess(tables, people, secret, known)
        if one is None:
            return None
        found.append(np.asarray(one.code == people.codes[secret], np.bool_))
    return found[0], found[1]


def _risk(outcomes: Sequence[Outcome], sides: Sides) -> Risk:
    """Put all columns together."""
    whole = _pooled([one.whole for one in outcomes])
    few = _pooled([one.few for one in outcomes])
    rare = _pooled([_of(one.whole, sides.is_unusual) for one in outcomes])
    table = pd.DataFrame([_row(one, sides) for one in outcomes])
    values = {
        "right": whole[0].value,
        "gain": excess(*whole),
        "worst": float(table["gain"].max()),
        "gain_few": excess(*few),
        "gain_unusual": excess(*rare),
        "worst_unusual": float(table["gain_unusual"].max()),
        "targets": float(len(outcomes)),
    }
    n_people = len(sides.members.n)
    guessed = wilson(sum(one.commonest for one in outcomes) * n_people, len(outcomes) * n_people)
    return Risk(
        attack=NAME,
        words=WORDS,
        rate=whole[0],
        baseline=guessed,
        control=whole[1],
        values=values,
        breakdown=table.sort_values("gain", ascending=False, kind="stable"),
        control_note=sides.note,
        notes=(
            f"{n_people:,} people of the data and {len(sides.controls.n):,} of the control, {len(outcomes)} columns, "
            f"all others known, or {FEWEST_KNOWN} to {MOST_KNOWN} drawn by the seed; unusual: the {UNUSUAL:.0%} whose "
            "values are the rarest",
            "the interval takes guesses about several columns of a person as independent, which they are not",
        ),
        verdict=_verdict(whole, few, table),
        rate_names=("guesses right about people of the data", "by the commonest value", "control"),
    )


def _row(one: Outcome, sides: Sides) -> dict[str, object]:
    """Figures of one column."""
    whole, few = _rates(one.whole), _rates(one.few)
    rare = _rates(_of(one.whole, sides.is_unusual))
    return {
        "column": one.secret,
        "right": whole[0].value,
        "control": whole[1].value,
        "gain": excess(*whole),
        "commonest": one.commonest,
        "right_few": few[0].value,
        "control_few": few[1].value,
        "right_unusual": rare[0].value,
        "control_unusual": rare[1].value,
        "gain_unusual": excess(*rare),
    }


def _of(right: tuple[Bools, Bools], chosen: tuple[Bools, Bools]) -> tuple[Bools, Bools]:
    """Guesses about some of the people."""
    return right[0][chosen[0]], right[1][chosen[1]]


def _rates(right: tuple[Bools, Bools]) -> tuple[HitRate, HitRate]:
    """Shares of right guesses."""
    both = [wilson(float(side.sum()), len(side)) for side in right]
    none = HitRate(value=0.0, low=0.0, high=1.0, n=0)
    return both[0] or none, both[1] or none


def _pooled(several: Sequence[tuple[Bools, Bools]]) -> tuple[HitRate, HitRate]:
    """Shares of right guesses about all columns."""
    return _rates(
        (np.concatenate([one[0] for one in several]), np.concatenate([one[1] for one in several]))
    )


def _verdict(
    whole: tuple[HitRate, HitRate], few: tuple[HitRate, HitRate], table: pd.DataFrame
) -> str:
    """What it comes to, in words."""
    worst = table.sort_values("gain", ascending=False, kind="stable").iloc[0]
    return (
        f"Who knows all other columns of a person guesses {whole[0].value:.0%} of the columns right, and "
        f"{whole[1].value:.0%} of the control's; most goes beyond it for {worst['column']} ({worst['right']:.0%} and "
        f"{worst['control']:.0%}). Knowing {FEWEST_KNOWN} to {MOST_KNOWN} columns: {few[0].value:.0%} and "
        f"{few[1].value:.0%}."
    )
