"""An attacker who asks: one released table after the other, each time the one that would tell most of a small group.

The attacker knows the group and who is in it. Before each question the variance that is left in the members' secrets
is known from the questions alone (not from the answers), so the next table is the one that lowers it most: greedy
design of experiments by A-optimality (Kalman update of a Gaussian model of the secrets).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from engine.evaluation.attacks.assumptions import Assumptions
from engine.evaluation.attacks.sights import Attacked, Bools, Floats
from engine.evaluation.attacks.systems import System, Target, least_squares, prior_of, system_of
from engine.evaluation.attacks.targets import chosen_targets, declared_targets, name_of
from engine.evaluation.risk.people import excess
from engine.evaluation.score import WHOLE, HitRate, Risk, wilson

NAME = "adaptive"
WORDS = (
    "The attacker knows who is in a small group and everything of them but one column, and asks for one table after "
    "the other: each time the one that splits the group so that most is learnt."
)
MOST_GROUPS = 6
MOST_ASKED = 20
"""Tables that are asked for one by one; then come all the others at once."""
LARGEST = 1_200
"""Members of a group; larger ones are left out."""
STEPS = (1, 2, 3, 5, 10, 20)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Asked:
    """What was learnt of one group."""

    target: Target
    right: dict[int, Bools]  # shape (n_people,): By the number of tables asked for; 0: by none
    random: dict[int, Bools]  # The same of tables asked for in an order drawn


def adaptive(attacked: Attacked, assumptions: Assumptions, rng: np.random.Generator) -> Risk:
    """Ask for the tables that split groups, one after the other.

    rng: Draws the order of the attacker who does not choose.

    Returns: `rate`: with all tables; `control`: without any that splits the group further; broken down by the
    number of tables, as a curve.
    """
    declared = declared_targets(attacked, assumptions)
    targets = list(dict.fromkeys([*declared, *chosen_targets(attacked, assumptions)]))
    asked: list[Asked] = []
    for target in targets:
        if len(asked) < MOST_GROUPS and (one := ask(attacked, target, rng)) is not None:
            asked.append(one)
    if not asked:
        why = f"no group of at most {LARGEST:,} people is split by two tables"
        return Risk(attack=NAME, words=WORDS, why_not={WHOLE: why})
    return _risk(attacked, asked)


def ask(attacked: Attacked, target: Target, rng: np.random.Generator) -> Asked | None:
    """Ask about one group; None where it is too large, or fewer than two tables split it."""
    system = system_of(attacked, target)
    if system is None or len(system.truth) > LARGEST:
        return None
    splitting = np.unique(system.sight[_splits(system)])
    if len(splitting) < 2:
        return None
    greedy = order_of(system, splitting.tolist())
    drawn = rng.permutation(splitting).tolist()
    known = sorted({*[s for s in STEPS if s < len(splitting)], len(splitting)})
    guessed = np.full(len(system.truth), int(system.share.argmax())) == system.truth
    return Asked(
        target=target,
        right={0: guessed, **{n: _right(system, greedy[:n]) for n in known}},
        random={0: guessed, **{n: _right(system, drawn[:n]) for n in known}},
    )


def order_of(system: System, sights: Sequence[int]) -> list[int]:
    """Return sights in the order in which an attacker asks for them: each lowers the variance left the most."""
    noise = system.variance.mean(axis=1)
    left = np.diag(np.full(len(system.truth), _variance_of(system)))
    open_sights = list(sights)
    order: list[int] = []
    while open_sights and len(order) < MOST_ASKED:
        updates = [_update(system, noise, left, sight) for sight in open_sights]
        falls = [float((told * gained).sum()) for told, gained in updates]
        best = int(np.argmax(falls))
        told, gained = updates[best]
        left = left - told.T @ gained
        order.append(open_sights.pop(best))
    return [*order, *open_sights]


def _variance_of(system: System) -> float:
    """Variance of a member's secret beforehand."""
    return max(float((system.share * (1 - system.share)).mean()), 1e-3)


def _update(system: System, noise: Floats, left: Floats, sight: int) -> tuple[Floats, Floats]:
    """What a sight says of everybody, and its weight: their product is what it takes off the covariance."""
    rows = np.flatnonzero(system.sight == sight)
    told = np.asarray(system.matrix[rows] @ left, np.float64)
    inner = np.asarray(system.matrix[rows] @ told.T, np.float64) + np.diag(noise[rows])
    return told, np.asarray(np.linalg.solve(inner, told), np.float64)


def _splits(system: System) -> Bools:
    """Equations of sights that split the group: they count some of it only."""
    counted = np.asarray(system.matrix.sum(axis=1)).reshape(-1)
    return np.asarray(counted < len(system.truth), np.bool_)


def _right(system: System, sights: Sequence[int]) -> Bools:
    """Which secrets are right by some sights, and those that do not split the group."""
    wanted = np.ones(int(system.sight.max()) + 1, np.bool_)
    wanted[np.unique(system.sight[_splits(system)])] = False
    wanted[list(sights)] = True
    part = system.of_sights(wanted)
    return np.asarray(least_squares(part, prior_of(part)).argmax(axis=1) == system.truth, np.bool_)


def _risk(attacked: Attacked, asked: Sequence[Asked]) -> Risk:
    """Put all groups together."""
    steps = sorted({n for one in asked for n in one.right})
    curve = pd.DataFrame([_step(asked, n) for n in steps])
    last, none = (
        _rate(np.concatenate([one.right[at(one.right)] for one in asked])) for at in (max, min)
    )
    values = {
        "right": last.value,
        "gain": excess(last, none),
        "few": _at(asked, 5, "right"),
        "random": _at(asked, 5, "random"),
        "groups": float(len(asked)),
    }
    groups = "; ".join(
        f"{name_of(attacked.paired, one.target)} ({one.target.secret})" for one in asked
    )
    return Risk(
        attack=NAME,
        words=WORDS,
        rate=last,
        control=none,
        values=values,
        breakdown=curve,
        control_note="control: the group's commonest value, from the table that does not split it",
        notes=(
            f"groups: {groups}",
            f"a group that fewer tables split counts with all of them; after {MOST_ASKED} tables come all others",
        ),
        verdict=(
            f"Who asks for tables about a small group, the most telling first, gets {values['few']:.0%} of a secret "
            f"column right with 5 tables and {last.value:.0%} with all ({none.value:.0%} by the commonest value)."
        ),
        rate_names=("right with all tables", "by guessing", "by the commonest value"),
    )


def _step(asked: Sequence[Asked], n: int) -> dict[str, float]:
    """One point of the curve: groups that fewer tables split stay where they ended."""
    rate = _rate(np.concatenate([_until(one.right, n) for one in asked]))
    return {
        "tables": n,
        "right": rate.value,
        "low": rate.low,
        "high": rate.high,
        "random": float(np.concatenate([_until(one.random, n) for one in asked]).mean()),
        "people": rate.n,
    }


def _at(asked: Sequence[Asked], n: int, side: str) -> float:
    """Share of right secrets with so many tables."""
    return float(np.concatenate([_until(getattr(one, side), n) for one in asked]).mean())


def _until(right: dict[int, Bools], n: int) -> Bools:
    """What was right with at most so many tables."""
    return right[max(k for k in right if k <= n)]


def _rate(right: Bools) -> HitRate:
    """A share of right secrets."""
    rate = wilson(float(right.sum()), len(right))
    return HitRate(value=0.0, low=0.0, high=1.0, n=0) if rate is None else rate
