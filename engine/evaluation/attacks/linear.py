"""Linear: one column of everybody at once, from all tables that show it, by who knows all other columns.

Once in the place of the column are secrets of the attack's own (even, drawn for it, with noise as the release states
it): what these are guessed right is what the tables tell, whatever the column. Once it is the column itself, in two
halves; non-members with the same other columns are the control, for what the population tells of anybody is no secret.
Invariant: of the column the attacker reads published counts only.
Sources: Dinur and Nissim 2003, doi:10.1145/773153.773173; Cohen and Nissim 2020, arXiv:1810.05692.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from engine.evaluation.attacks.assumptions import Assumptions
from engine.evaluation.attacks.sights import Attacked, Bools, Floats, Sight, secrets_of
from engine.evaluation.data.paired import Coded, Numbers, Paired
from engine.evaluation.data.sampling import positions, rows_of
from engine.evaluation.risk.people import excess
from engine.evaluation.risk.records import row_ids
from engine.evaluation.score import WHOLE, Risk, optional, wilson

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

NAME = "linear"
WORDS = (
    "The attacker knows all columns but one of everybody. Every released table that shows the column counts it among "
    "people who share what is known: together one sparse system of equations, solved for all people at once."
)
FEWEST_SHOWN = 10
"""People of a cell of whom both halves of a secret are likely shown."""
SUREST = 0.01
"""Share of claims, the surest, that is looked at apart."""
ROUNDS = 3
"""Times that secrets of its own are drawn."""
MOST_PEOPLE = 50_000
"""People of the data; more would not be whole cells."""
STEPS = 100
PRIOR_SD = 1.0
"""Of a secret that is -1 or 1."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _System:
    """Equations of one column, each divided by the sd of its noise."""

    matrix: csr_matrix  # shape (n_equations, n_people)
    non_members: (
        csr_matrix | None
    )  # shape (n_equations, n_non_members): In which of them non-members would be
    shown: Floats  # shape (n_equations,): Published count of one half less that of the other
    bit: Floats  # shape (n_people,): True half of each person, -1 or 1
    bit_of_non_members: Floats
    share: float  # Mean of the bit, as published


def linear(attacked: Attacked, assumptions: Assumptions, rng: np.random.Generator) -> Risk:
    """Solve for each column.

    Returns: `rate`: own secrets of the column that is told most.
    """
    paired = attacked.paired
    if len(paired.original.n) > MOST_PEOPLE:
        why = (
            f"the data have more than {MOST_PEOPLE:,} rows, and a part of them makes no whole cell"
        )
        return Risk(attack=NAME, words=WORDS, why_not={WHOLE: why})
    non_members = paired.control
    if non_members is not None and len(non_members.n) > assumptions.people:
        non_members = rows_of(non_members, positions(len(non_members.n), assumptions.people, rng))
    rows = []
    for secret in secrets_of(paired, assumptions.secrets):
        system = _system_of(attacked, secret, non_members)
        if system is not None:
            rows.append({"column": secret, **_attack(system, rng)})
    if not rows:
        why = (
            "no table of two and more columns shows a column of 2 to 100 values among enough people"
        )
        return Risk(attack=NAME, words=WORDS, why_not={WHOLE: why})
    table = pd.DataFrame(rows).sort_values("surest", ascending=False, kind="stable")
    worst = table.iloc[0]
    values = {
        "right": float(table["right"].max()),
        "surest": float(table["surest"].max()),
    }
    why_not = {}
    gains = table["gain"].dropna()
    if len(gains):
        values["gain"] = float(gains.max())
    else:
        why_not["gain"] = (
            "no control rows were given: nobody can say what the population tells of anybody"
        )
    n = ROUNDS * len(paired.original.n)
    return Risk(
        attack=NAME,
        words=WORDS,
        rate=wilson(float(worst["right"]) * n, n),
        values=values,
        breakdown=table,
        why_not=why_not,
        verdict=(
            f"Who knows all other columns of everybody gets an even secret in the place of {worst['column']} right for "
            f"{worst['right']:.0%} of all and for {worst['surest']:.0%} of the surest 1 %; a coin is right in 50%"
        ),
        rate_names=("secrets right", "by a coin", "of non-members"),
    )


def _attack(system: _System, rng: np.random.Generator) -> dict[str, float]:
    """Both attacks on one column."""
    n_people = system.matrix.shape[1]
    own: list[Bools] = []
    surest: list[Bools] = []
    for _ in range(ROUNDS):
        secret = rng.choice([-1.0, 1.0], n_people)
        noise = rng.normal(size=system.matrix.shape[0])
        guess = _solved(system.matrix, system.matrix @ secret + noise)
        hit = np.sign(guess) == secret
        own.append(hit)
        surest.append(
            hit[np.argsort(-np.abs(guess), kind="stable")[: max(int(SUREST * n_people), 30)]]
        )
    mean = system.share
    off = system.shown - mean * np.asarray(system.matrix.sum(axis=1)).ravel()
    guess = _solved(system.matrix, off)
    real = np.sign(mean + guess) == system.bit
    out = {
        "right": float(np.concatenate(own).mean()),
        "surest": float(np.concatenate(surest).mean()),
        "real": float(real.mean()),
        "strangers": float("nan"),
        "gain": float("nan"),
    }
    if system.non_members is not None:
        # What the equations say of a stranger in the same cells: the weights are those of the solution.
        weights = (off - system.matrix @ guess) / PRIOR_SD**2
        other = np.sign(mean + system.non_members.T @ weights) == system.bit_of_non_members
        out["strangers"] = float(other.mean())
        rates = [wilson(float(hit.sum()), len(hit)) for hit in (real, other)]
        if rates[0] is not None and rates[1] is not None:
            out["gain"] = excess(rates[0], rates[1])
    return out


def _solved(matrix: csr_matrix, shown: Floats) -> Floats:
    """Least squares, regularised by the variance of a secret."""
    solve = optional("scipy.sparse.linalg", "attacks").lsqr
    return np.asarray(solve(matrix, shown, damp=1 / PRIOR_SD, iter_lim=STEPS)[0], np.float64)


def _system_of(attacked: Attacked, secret: str, non_members: Coded | None) -> _System | None:
    """Write down what all tables say of a column; None: none does among enough people."""
    paired, people = attacked.paired, attacked.paired.original
    sights = [s for s in attacked.sights if secret in s.columns]
    if not sights:
        return None
    narrowest = min(sights, key=lambda sight: len(sight.columns)).table
    half = _halves(paired, narrowest, secret)
    parts = [
        _equations(paired, s, secret, half, people, non_members)
        for s in sights
        if len(s.columns) > 1
    ]
    parts = [part for part in parts if part[0].shape[0]]
    if not parts:
        return None
    sparse = optional("scipy.sparse", "attacks")
    n = narrowest.n.astype(np.float64)
    return _System(
        matrix=sparse.vstack([part[0] for part in parts]).tocsr(),
        non_members=None
        if non_members is None
        else sparse.vstack([part[1] for part in parts]).tocsr(),
        shown=np.concatenate([part[2] for part in parts]),
        bit=half[people.codes[secret]],
        bit_of_non_members=np.empty(0) if non_members is None else half[non_members.codes[secret]],
        share=float((half[narrowest.codes[secret]] * n).sum() / max(n.sum(), 1.0)),
    )


def _halves(paired: Paired, narrowest: Coded, secret: str) -> Floats:
    """Which half each value of a column is of, -1 or 1, so that both have about as many people, as published."""
    n = np.bincount(
        narrowest.codes[secret],
        narrowest.n.astype(np.float64),
        minlength=len(paired.values[secret]) + 1,
    )
    half, balance = np.ones(len(n)), 0.0
    for value in np.argsort(-n, kind="stable").tolist():
        half[value] = -1.0 if balance > 0 else 1.0
        balance += half[value] * n[value]
    return half


def _equations(
    paired: Paired,
    sight: Sight,
    secret: str,
    half: Floats,
    people: Coded,
    non_members: Coded | None,
) -> tuple[csr_matrix, csr_matrix, Floats]:
    """What one table says: who is counted, which non-members would be, and the difference of the halves."""
    table, rest = sight.table, [c for c in sight.columns if c != secret]
    given = [table, people, *([] if non_members is None else [non_members])]
    ids = row_ids(paired, given, rest)
    size = 1 + max(int(one.max(initial=0)) for one in ids)
    n = table.n.astype(np.float64)
    counts = np.bincount(ids[0], half[table.codes[secret]] * n, minlength=size)
    variance = np.bincount(ids[0], sight.variance(n), minlength=size)
    # Both halves are shown, among enough people.
    sides = [
        np.bincount(ids[0], half[table.codes[secret]] == side, minlength=size) > 0
        for side in (-1, 1)
    ]
    kept = np.flatnonzero(
        sides[0] & sides[1] & (np.bincount(ids[1], minlength=size) >= FEWEST_SHOWN)
    )
    scale = 1 / np.sqrt(variance[kept])
    return (
        _counted(ids[1], kept, scale, size),
        _counted(ids[2] if non_members is not None else ids[1][:0], kept, scale, size),
        counts[kept] * scale,
    )


def _counted(cell: Numbers, kept: Numbers, scale: Floats, size: int) -> csr_matrix:
    """Who is in which of the kept cells."""
    place = np.full(size, -1)
    place[kept] = np.arange(len(kept))
    of = place[cell]
    held = np.flatnonzero(of >= 0)
    matrix: csr_matrix = optional("scipy.sparse", "attacks").csr_matrix(
        (scale[of[held]], (of[held], held)), shape=(len(kept), len(cell))
    )
    return matrix
