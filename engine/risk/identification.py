"""Identification by matching: who agrees with a person on what is known, and is it the person's own record?

Takes a `Comparison`, what an attacker knows, and a generator; gives a `Risk`. Measures of Reiter and Mitra, "Estimating
risks of identification disclosure in partially synthetic data", Journal of Privacy and Confidentiality 1, 2009
(doi:10.29012/jpc.v1i1.567).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.risk.people import NO_STRANGER, against, alike, excess
from engine.risk.records import holding, lacking, row_ids
from engine.score import WHOLE, Rate, Risk, wilson
from engine.study_risks import Risks
from engine.utility.comparison import Coded, Comparison

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


def identification(comparison: Comparison, told: Risks, rng: np.random.Generator) -> Risk:
    """How often a person's own record is found by agreement on the quasi-identifiers.

    With c records that agree and T = 1 if the own is among them: expected match risk, the sum of T / c; true match
    rate, the share of people with c T = 1; false match rate, the share of those with c = 1 whose match is not theirs.

    Parameters
    ----------
    comparison : Comparison
    told : Risks
        `quasi_identifiers`; `aligned`: row i of the synthetic table was made from row i of the original.
    rng : numpy Generator
        Splits the original for the control, where no control rows were given.

    Returns
    -------
    Risk
        `rate` is the true match rate; broken down by the number of records that agree.
    """
    table = holding(comparison, told.quasi_identifiers)
    if table is None or not len(comparison.original.n) or table.total == 0:
        return Risk(attack=_NAME, words=_WORDS, why_not={WHOLE: _why(comparison, table)})
    aligned = is_aligned(comparison, told)
    found = _matches(comparison, table, told, aligned=aligned)
    values = _values(found)
    rate, blind = (
        wilson(hits, len(found.c)) for hits in (found.true_unique, found.blind * len(found.c))
    )
    if aligned:
        control, more, said = None, _excess_over_blind(rate, blind), NO_STRANGER
    else:
        control, more, said = _control(comparison, table, told, rng)
    why_not = {}
    if more is None:
        why_not[_EXCESS] = said
    else:
        values[_EXCESS] = more
    if "false_match_rate" not in values:
        why_not["false_match_rate"] = "nobody is matched by a single record"
    known = ", ".join(c for c in table.columns if c in told.quasi_identifiers)
    return Risk(
        attack=_NAME,
        words=_WORDS,
        rate=rate,
        baseline=blind,
        control=control,
        values=values,
        breakdown=_by_number(found),
        why_not=why_not,
        notes=(
            f"table: {', '.join(table.columns)}; known: {known}",
            _OWN[0] if aligned else _OWN[1],
            "baseline: any record of the table",
            *(() if more is None else (said,)),
            *_not_aligned(told, aligned=aligned),
        ),
    )


def _control(
    comparison: Comparison, table: Coded, told: Risks, rng: np.random.Generator
) -> tuple[Rate | None, float | None, str]:
    """The same attack on strangers, the excess above it, and who they are, or why there are none."""
    both = alike(comparison, rng)
    rates = []
    for side in (both.members, both.strangers):
        same = side.tables[table.columns]
        if reason := lacking(side.original, same):
            return None, None, reason
        found = _matches(side, same, told, aligned=False)
        rates.append(wilson(found.true_unique, len(found.c)))
    mine, control = rates
    if mine is None or control is None:
        return None, None, "there are too few rows for a control"
    said = f"control: {both.who}; {against(mine, control)}"
    return control, excess(mine, control), said


def _excess_over_blind(rate: Rate | None, blind: Rate | None) -> float | None:
    """Excess above a blind draw, where strangers cannot be had."""
    return None if rate is None or blind is None else excess(rate, blind)


def is_aligned(comparison: Comparison, told: Risks) -> bool:
    """Return whether row i of the synthetic table was made from row i of the original: said so, and possible."""
    tables = list(comparison.tables.values())
    return (
        told.aligned
        and len(tables) == 1
        and len(tables[0].n) == len(comparison.original.n)
        and bool((tables[0].n == 1).all())
    )


def _not_aligned(told: Risks, *, aligned: bool) -> tuple[str, ...]:
    """What to say where rows were said to correspond, and cannot."""
    if not told.aligned or aligned:
        return ()
    return (
        "rows were said to correspond, but there is not one table with a row for each of the original",
    )


def _why(comparison: Comparison, table: Coded | None) -> str:
    """Why nothing was computed."""
    if not len(comparison.original.n):
        return "the original has no rows"
    if table is None:
        return "no table has a quasi-identifier and another column"
    return "the synthetic table has no rows"


def _matches(comparison: Comparison, table: Coded, told: Risks, *, aligned: bool) -> _Matches:
    """Hold each person against the synthetic records."""
    people = comparison.original
    known = [c for c in table.columns if c in told.quasi_identifiers]
    person, row = row_ids(comparison, [people, table], known)
    size = int(max(person.max(), row.max(initial=0))) + 1
    number = table.n.astype(np.float64)
    c = np.asarray(np.bincount(row, number, minlength=size)[person], np.float64)
    if aligned:
        return _Matches(c=c, own=person == row, blind=1 / len(person))
    person, row = row_ids(comparison, [people, table], table.columns)
    size = int(max(person.max(), row.max(initial=0))) + 1
    equal = np.bincount(row, number, minlength=size)[person]
    return _Matches(c=c, own=equal > 0, blind=float(equal.mean()) / table.total)


def _values(found: _Matches) -> dict[str, float]:
    """Figures of the attack."""
    n, unique = len(found.c), float(np.count_nonzero(found.c == 1))
    expected = float((found.own / np.maximum(found.c, 1)).sum())
    values = {
        "expected_match_risk": expected,
        "expected_match_share": expected / n,
        "true_match_rate": found.true_unique / n,
        "uniquely_matched": unique / n,
        "matched": float(np.count_nonzero(found.c)) / n,
    }
    if unique:
        values["false_match_rate"] = 1 - found.true_unique / unique
    return values


def _by_number(found: _Matches) -> pd.DataFrame:
    """People by the number of records that agree with them."""
    group = np.searchsorted(_STEPS, found.c, side="left")
    n = len(_STEPS) + 1
    names = ["0", "1", "2", "3 to 5", "6 to 10", "more than 10"]
    return pd.DataFrame(
        {
            "records": names,
            "people": np.bincount(group, minlength=n),
            "own_among_them": np.bincount(group, found.own, minlength=n).astype(np.int64),
            "expected": np.bincount(group, found.own / np.maximum(found.c, 1), minlength=n),
        }
    )
