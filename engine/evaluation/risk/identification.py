"""Identification by matching: who agrees with a person on what is known, and is it the person's own record?

Takes a `Paired`, what an attacker knows, and a generator; gives a `Risk`. Measures of Reiter and Mitra, "Estimating
risks of identification disclosure in partially synthetic data", Journal of Privacy and Confidentiality 1, 2009
(doi:10.29012/jpc.v1i1.567).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.evaluation.data.paired import Coded, Paired
from engine.evaluation.risk.attacker import Attacker
from engine.evaluation.risk.people import NO_STRANGER, against, alike, excess
from engine.evaluation.risk.records import holding, lacking, row_ids
from engine.evaluation.score import WHOLE, HitRate, Risk, wilson

_NAME = "identification"
_WORDS = (
    "The attacker knows a person's quasi-identifiers and looks for the synthetic records that agree in all of them. "
    "One who finds a single record takes it for the person's own."
)
_OWN = (
    "own record: row i of the synthetic table, which was made from row i of the original",
    "own record: a synthetic record that equals the person's in all columns of the table, as no row was made from a "
    "known person",
)
_EXCESS = "excess_over_control"
_STEPS = (0, 1, 2, 5, 10)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Matches:
    """For each person: synthetic records that agree (c), whether the own is among them (T), chance by a blind draw."""

    c: NDArray[np.float64]
    own: NDArray[np.bool_]
    blind: float

    @property
    def true_unique(self) -> float:
        """People whose only match is their own record."""
        return float(np.count_nonzero(self.own & (self.c == 1)))


def identification(paired: Paired, attacker: Attacker, rng: np.random.Generator) -> Risk:
    """How often a person's own record is found by agreement on the quasi-identifiers.

    With c records that agree and T = 1 if the own is among them: expected match risk, the sum of T / c; true match
    rate, the share of people with c T = 1; false match rate, the share of those with c = 1 whose match is not theirs.

    attacker: `quasi_identifiers`; `aligned`: row i of the synthetic table was made from row i of the
        original.

    Returns: `rate` is the true match rate; broken down by the number of records that agree.
    """
    table = holding(paired, attacker.quasi_identifiers)
    if table is None or not len(paired.original.n) or table.total == 0:
        return Risk(attack=_NAME, words=_WORDS, why_not={WHOLE: _why(paired, table)})
    aligned = is_aligned(paired, attacker)
    matches = _matches(paired, table, attacker, aligned=aligned)
    values = _values(matches)
    rate, blind = (
        wilson(hits, len(matches.c))
        for hits in (matches.true_unique, matches.blind * len(matches.c))
    )
    if aligned:
        control, more, note = None, _excess_over_blind(rate, blind), NO_STRANGER
    else:
        control, more, note = _control(paired, table, attacker, rng)
    why_not = {}
    if more is None:
        why_not[_EXCESS] = note
    else:
        values[_EXCESS] = more
    if "false_match_rate" not in values:
        why_not["false_match_rate"] = "nobody is matched by a single record"
    known = ", ".join(c for c in table.columns if c in attacker.quasi_identifiers)
    return Risk(
        attack=_NAME,
        words=_WORDS,
        rate=rate,
        baseline=blind,
        control=control,
        values=values,
        breakdown=_by_number(matches),
        why_not=why_not,
        notes=(
            f"table: {', '.join(table.columns)}; known: {known}",
            _OWN[0] if aligned else _OWN[1],
            "baseline: any record of the table",
            *_not_aligned(attacker, aligned=aligned),
        ),
        control_note=note,
    )


def _control(
    paired: Paired, table: Coded, attacker: Attacker, rng: np.random.Generator
) -> tuple[HitRate | None, float | None, str]:
    """The same attack on strangers, the excess above it, and who they are, or why there are none."""
    both = alike(paired, rng)
    rates = []
    for side in (both.members, both.strangers):
        same = side.tables[table.columns]
        if reason := lacking(side.original, same):
            return None, None, reason
        matches = _matches(side, same, attacker, aligned=False)
        rates.append(wilson(matches.true_unique, len(matches.c)))
    mine, control = rates
    if mine is None or control is None:
        return None, None, "there are too few rows for a control"
    note = f"control: {both.who}; {against(mine, control)}"
    return control, excess(mine, control), note


def _excess_over_blind(rate: HitRate | None, blind: HitRate | None) -> float | None:
    """Excess above a blind draw, where strangers cannot be had."""
    return None if rate is None or blind is None else excess(rate, blind)


def is_aligned(paired: Paired, attacker: Attacker) -> bool:
    """Return whether row i of the synthetic table was made from row i of the original: declared, and possible."""
    tables = list(paired.tables.values())
    return (
        attacker.aligned
        and len(tables) == 1
        and len(tables[0].n) == len(paired.original.n)
        and bool((tables[0].n == 1).all())
    )


def _not_aligned(attacker: Attacker, *, aligned: bool) -> tuple[str, ...]:
    """The note where rows were declared to correspond, and cannot."""
    if not attacker.aligned or aligned:
        return ()
    return (
        "rows were said to correspond, but there is not one table with a row for each of the original",
    )


def _why(paired: Paired, table: Coded | None) -> str:
    """Why nothing was computed."""
    if not len(paired.original.n):
        return "the original has no rows"
    if table is None:
        return "no table has a quasi-identifier and another column"
    return "the synthetic table has no rows"


def _matches(paired: Paired, table: Coded, attacker: Attacker, *, aligned: bool) -> _Matches:
    """Hold each person against the synthetic records."""
    people = paired.original
    known = [c for c in table.columns if c in attacker.quasi_identifiers]
    person, row = row_ids(paired, [people, table], known)
    size = int(max(person.max(), row.max(initial=0))) + 1
    number = table.n.astype(np.float64)
    c = np.asarray(np.bincount(row, number, minlength=size)[person], np.float64)
    if aligned:
        return _Matches(c=c, own=person == row, blind=1 / len(person))
    person, row = row_ids(paired, [people, table], table.columns)
    size = int(max(person.max(), row.max(initial=0))) + 1
    equal = np.bincount(row, number, minlength=size)[person]
    return _Matches(c=c, own=equal > 0, blind=float(equal.mean()) / table.total)


def _values(matches: _Matches) -> dict[str, float]:
    """Figures of the attack."""
    n, unique = len(matches.c), float(np.count_nonzero(matches.c == 1))
    expected = float((matches.own / np.maximum(matches.c, 1)).sum())
    values = {
        "expected_match_risk": expected,
        "expected_match_share": expected / n,
        "true_match_rate": matches.true_unique / n,
        "uniquely_matched": unique / n,
        "matched": float(np.count_nonzero(matches.c)) / n,
    }
    if unique:
        values["false_match_rate"] = 1 - matches.true_unique / unique
    return values


def _by_number(matches: _Matches) -> pd.DataFrame:
    """People by the number of records that agree with them."""
    group = np.searchsorted(_STEPS, matches.c, side="left")
    n = len(_STEPS) + 1
    names = ["0", "1", "2", "3 to 5", "6 to 10", "more than 10"]
    return pd.DataFrame(
        {
            "records": names,
            "people": np.bincount(group, minlength=n),
            "own_among_them": np.bincount(group, matches.own, minlength=n).astype(np.int64),
            "expected": np.bincount(group, matches.own / np.maximum(matches.c, 1), minlength=n),
        }
    )
