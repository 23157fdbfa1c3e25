"""Reconstruction: the secrets of all members of a small group, from all tables that split it.

Takes targets; solves the linear system that the tables make, by least squares and by a linear program, and holds the
answers against the truth. Invariant: of the group's secrets the attacker reads published counts only.
Sources: Dinur and Nissim 2003, doi:10.1145/773153.773173; Kasiviswanathan, Rudelson and Smith 2013, arXiv:1210.2381;
Cohen and Nissim 2020, arXiv:1810.05692.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from engine.evaluation.attacks.assumptions import Assumptions
from engine.evaluation.attacks.sights import Attacked, Bools, Floats
from engine.evaluation.attacks.systems import (
    LEAST_CHANCE,
    System,
    Target,
    least_squares,
    linear_program,
    prior_of,
    system_of,
)
from engine.evaluation.attacks.targets import chosen_targets, declared_targets, name_of
from engine.evaluation.risk.people import excess
from engine.evaluation.risk.several import chances
from engine.evaluation.score import WHOLE, HitRate, Risk, wilson

NAME = "reconstruction"
WORDS = (
    "The attacker knows who is in a small group and everything of them but one column. Each released table that splits "
    "the group counts that column among people who share what is known: together a system of equations, solved for "
    "each member."
)
SUREST = 0.05
"""Share of claims, the surest, that is looked at apart."""
MOST_UNKNOWN = 1_500
"""Unknowns of a linear program; larger ones are left out."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Solved:
    """One target, attacked."""

    target: Target
    # shape (n_people,): "squares" and, where it was run, "program"; "guess": everybody has the group's
    # commonest value; "model": from tables that do not split the group.
    right: dict[str, Bools]
    surety: Floats  # shape (n_people,): How far the likeliest value is ahead, of least squares
    figures: int  # Released counts that split the group

    @property
    def control(self) -> str:
        """Which of the attackers without the group's own tables is right more often."""
        return max(("guess", "model"), key=lambda name: float(self.right[name].mean()))


def reconstruction(attacked: Attacked, assumptions: Assumptions, rng: np.random.Generator) -> Risk:
    """Reconstruct secrets of the groups that the release says most about, and of those declared.

    Returns: `rate`: least squares; `baseline`: the group's commonest value as published; `control`: the
    better of that and a model from the tables that do not split the group, group by group.
    """
    del rng
    declared = declared_targets(attacked, assumptions)
    targets = list(dict.fromkeys([*declared, *chosen_targets(attacked, assumptions)]))
    solved = [one for target in targets if (one := solve(attacked, target)) is not None]
    if not solved:
        why = (
            f"no bucket of one or two columns holds {assumptions.smallest} to {assumptions.largest:,} rows and "
            "is split by a column that an attacker could want"
        )
        return Risk(attack=NAME, words=WORDS, why_not={WHOLE: why})
    return _risk(attacked, solved)


def solve(attacked: Attacked, target: Target) -> Solved | None:
    """Attack one target; None where no table splits it."""
    system = system_of(attacked, target)
    if system is None:
        return None
    guessed = np.full(len(system.truth), int(system.share.argmax()))
    believed = believed_of(attacked, target, system)
    prior = prior_of(system, believed)
    estimate = least_squares(system, prior)
    claims = {
        "squares": estimate.argmax(axis=1),
        "guess": guessed,
        "model": guessed if believed is None else believed.argmax(axis=1),
    }
    if estimate.size <= MOST_UNKNOWN and (found := linear_program(system)) is not None:
        claims["program"] = found.argmax(axis=1)
    ordered = np.sort(estimate, axis=1)
    return Solved(
        target=target,
        right={name: claim == system.truth for name, claim in claims.items()},
        surety=ordered[:, -1] - ordered[:, -2],
        figures=int(system.released.sum()),
    )


def believed_of(attacked: Attacked, target: Target, system: System) -> Floats | None:
    """Return what a model gives each member that reads only tables which do not split the group.

    Returns: None: no other table tells the secret.
    """
    paired = attacked.paired
    wanted = {*target.columns, target.secret}
    others = {c: t for c, t in paired.tables.items() if not wanted <= set(c)}
    known = [c for c in paired.values if c != target.secret]
    found = chances(replace(paired, tables=others), system.members, target.secret, known)
    if found is None:
        return None
    out = np.zeros((len(system.truth), len(system.share)))
    at = np.minimum(np.searchsorted(system.values, found.values), len(system.values) - 1)
    at = np.where(system.values[at] == found.values, at, len(system.values))
    for value, place in enumerate(at.tolist()):  # a value of the secret each, not a row
        out[:, place] += found.worth[:, value]
    mixed = out + LEAST_CHANCE * system.share
    return np.asarray(mixed / mixed.sum(axis=1, keepdims=True), np.float64)


def _risk(attacked: Attacked, solved: Sequence[Solved]) -> Risk:
    """Put all targets together."""
    squares = np.concatenate([one.right["squares"] for one in solved])
    surety = np.concatenate([one.surety for one in solved])
    surest = np.argsort(-surety, kind="stable")[: max(round(SUREST * len(surety)), 1)]
    control = np.concatenate([one.right[one.control] for one in solved])
    rates = {
        "squares": _rate(squares),
        "guess": _rate(np.concatenate([one.right["guess"] for one in solved])),
        "control": _rate(control),
        "surest": _rate(squares[surest]),
        "surest_control": _rate(control[surest]),
    }
    values = {
        "right": rates["squares"].value,
        "gain": excess(rates["squares"], rates["control"]),
        "surest": rates["surest"].value,
        "surest_gain": rates["surest"].value - rates["surest_control"].value,
        "groups": float(len(solved)),
    }
    programs = [one for one in solved if "program" in one.right]
    why_not = {}
    if programs:
        values["program"] = float(np.concatenate([p.right["program"] for p in programs]).mean())
    else:
        why_not["program"] = f"every group has more than {MOST_UNKNOWN:,} unknowns"
    table = pd.DataFrame([_row(attacked, one) for one in solved])
    values["worst"] = float(table["gain"].max())
    return Risk(
        attack=NAME,
        words=WORDS,
        rate=rates["squares"],
        baseline=rates["guess"],
        control=rates["control"],
        values=values,
        breakdown=table.sort_values("gain", ascending=False, kind="stable"),
        why_not=why_not,
        control_note=(
            "control: the better, group by group, of the group's commonest value and a model from the tables that do "
            "not split the group"
        ),
        notes=(
            f"{len(solved)} pairs of a group and a secret, {len(squares):,} secrets: those with most released counts a "
            "person, a few of each secret and set of columns, beside those declared",
            "the interval takes members of a group as independent, which they are not",
        ),
        verdict=_verdict(rates, len(solved)),
        rate_names=(
            "secrets right",
            "by the group's commonest value",
            "without tables that split the group",
        ),
    )


def _rate(right: Bools) -> HitRate:
    """A share of right claims."""
    rate = wilson(float(right.sum()), len(right))
    return HitRate(value=0.0, low=0.0, high=1.0, n=0) if rate is None else rate


def _row(attacked: Attacked, one: Solved) -> dict[str, object]:
    """Figures of one target."""
    shares = {name: float(right.mean()) for name, right in one.right.items()}
    return {
        "group": name_of(attacked.paired, one.target),
        "secret": one.target.secret,
        "people": len(one.surety),
        "counts_a_person": one.figures / len(one.surety),
        "right": shares["squares"],
        "program": shares.get("program", float("nan")),
        "guess": shares["guess"],
        "model": shares["model"],
        "gain": excess(_rate(one.right["squares"]), _rate(one.right[one.control])),
    }


def _verdict(rates: dict[str, HitRate], n: int) -> str:
    """What it comes to, in words."""
    squares, control = rates["squares"], rates["control"]
    groups = "a small group" if n == 1 else f"{n} small groups"
    told = (
        f"Who knows everything but one column of {groups} gets {squares.value:.0%} of that column right "
        f"({squares.low:.0%} to {squares.high:.0%}); without the tables that split the group it is {control.value:.0%}"
    )
    surest = rates["surest"]
    return f"{told}. Of the surest {SUREST:.0%} of claims {surest.value:.0%} are right."
