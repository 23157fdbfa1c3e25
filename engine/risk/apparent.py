"""Apparent matches: what the one record with somebody's quasi-identifiers tells about them, against a baseline.

Takes a `Comparison` and what attackers know; gives a `Risk`. The attack is NIST SDNIST's "apparent match distribution";
precision improvement and coverage are P. Francis, arXiv:2403.08463, section 4.1, as is the reading for many tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

import numpy as np
import pandas as pd

from engine.errors import StoreError
from engine.risk.baseline import model_baselines
from engine.risk.matching import KeySet, groups, shown_of, targets_of, totals, unseen
from engine.risk.people import alike, excess
from engine.risk.precision import FEWEST
from engine.schema import ColumnSet
from engine.score import WHOLE, Rate, Risk, wilson
from engine.study_risks import Risks
from engine.utility.comparison import Coded, Comparison, Numbers, covering

WORDS = (
    "The attacker knows the quasi-identifiers of a person who is the only one with them, finds a released record that "
    "is the only one with them, too, and takes its other values for the person's. The rate is the share of values that "
    "are right; the baseline, that of a model that never saw the person."
)
_IMPROVEMENTS = ("median_pi", "largest_pi", "mean_pi")


def apparent_match(
    comparison: Comparison,
    told: Risks,
    rng: np.random.Generator,
    baselines: Mapping[str, float] | None = None,
) -> Risk:
    """Infer every target column from the unique match on the quasi-identifiers, and hold it against a baseline.

    Parameters
    ----------
    comparison : Comparison
    told : Risks
    rng : numpy Generator
        Splits the original for control and baselines.
    baselines : dict of str to float, optional
        Column -> share that a model gets right about people outside the data; those that are missing are computed by
        `engine.risk.baseline.model_baselines`.

    Returns
    -------
    Risk
        Broken down by target. A target is attacked through the smallest table that has it and all
        quasi-identifiers. A blank that equals a blank is right, as published.
    """
    known = shown_of(comparison, told.quasi_identifiers)
    targets = targets_of(comparison, told, known)
    notes = unseen(told.quasi_identifiers, known)
    found = attacked(comparison, known, targets)
    if (why := _why_not(comparison, known, targets, found)) is not None:
        return Risk(attack="apparent_match", words=WORDS, why_not={WHOLE: why}, notes=tuple(notes))
    if left_out := [t for t in targets if t not in set(found["target"])]:
        notes.append(f"no table has the quasi-identifiers with {', '.join(left_out)}: not attacked")
    base, why_none, said = _baselines(comparison, told, rng, found, baselines)
    found["baseline"] = [base.get(t, float("nan")) for t in found["target"]]
    found["precision improvement"] = [
        improvement(p, b) for p, b in zip(found["precision"], found["baseline"], strict=True)
    ]
    values, why_not, about = _figures(found, why_none)
    control, largest, who = _control(comparison, known, found, rng)
    if largest is None:
        why_not["largest_gain"] = who
    else:
        values["largest_gain"] = largest
    return Risk(
        attack="apparent_match",
        words=WORDS,
        rate=_pooled(found),
        baseline=_guessing(found),
        control=control,
        values=values,
        breakdown=found,
        why_not=why_not,
        notes=(
            *notes,
            *said,
            *about,
            "the intervals take values of several columns of a person as independent, which they are not",
            who,
        ),
    )


def improvement(precision: float, baseline: float) -> float:
    """Precision improvement (P - B) / (1 - B): 0 where the release adds nothing, 1 where it adds all there is to add.

    NaN where everybody knows anyway (B = 1), or nothing was attempted.
    """
    if not baseline < 1:
        return float("nan")
    return (precision - baseline) / (1 - baseline)


def attacked(comparison: Comparison, known: KeySet, targets: KeySet) -> pd.DataFrame:
    """Attack every target that a table has beside all known columns.

    Parameters
    ----------
    comparison : Comparison
    known, targets : tuple of str

    Returns
    -------
    DataFrame
        One row a target: `target`, `table`, `matches`, `right`, `precision` (NaN without a match), `coverage`.
    """
    through: dict[ColumnSet, list[str]] = {}
    for name in targets if known else ():
        table = covering(comparison, (*known, name))
        if table is not None and table.total:
            through.setdefault(table.columns, []).append(name)
    rows = []
    people = comparison.original
    for columns, names in through.items():
        table = comparison.tables[columns]
        mine, theirs = unique_pairs(comparison, table, known)
        for name in names:
            right = int((people.codes[name][mine] == table.codes[name][theirs]).sum())
            share = right / len(mine) if len(mine) else float("nan")
            rows.append((name, ", ".join(columns), len(mine), right, share))
    found = pd.DataFrame(rows, columns=["target", "table", "matches", "right", "precision"])
    found["coverage"] = found["matches"] / max(people.total, 1)
    return found


def unique_pairs(comparison: Comparison, table: Coded, known: KeySet) -> tuple[Numbers, Numbers]:
    """Return the positions of the records of original and table that are unique on known columns and agree on them."""
    people = comparison.original
    group = groups(comparison, people, table, known)
    once = (totals(group.left, people.n, group.size) == 1) & (
        totals(group.right, table.n, group.size) == 1
    )
    mine = np.flatnonzero(once[group.left] & (people.n == 1))
    theirs = np.flatnonzero(once[group.right] & (table.n == 1))
    place = np.empty(group.size, np.int64)
    place[group.right[theirs]] = theirs
    return mine, place[group.left[mine]]


def _why_not(
    comparison: Comparison, known: KeySet, targets: KeySet, found: pd.DataFrame
) -> str | None:
    """Why nothing could be attacked."""
    if not known:
        return "no table shows any of the quasi-identifiers"
    if not targets:
        return "every released column is a quasi-identifier: nothing is left to infer"
    if not comparison.original.total:
        return "the original has no rows"
    if found.empty:
        listed = ", ".join(known)
        return (
            f"no table with rows has {listed} together with a further column: nothing to match on"
        )
    return None


def _baselines(
    comparison: Comparison,
    told: Risks,
    rng: np.random.Generator,
    found: pd.DataFrame,
    given: Mapping[str, float] | None,
) -> tuple[dict[str, float], str, list[str]]:
    """Baseline of every target that has matches; why some have none; notes."""
    wanted = found["target"][found["matches"] > 0].tolist()
    base = {t: float(b) for t, b in (given or {}).items() if t in wanted and 0 <= b <= 1}
    missing = tuple(t for t in wanted if t not in base)
    if not missing:
        return base, "", []
    try:
        modelled = model_baselines(comparison, told.model_copy(update={"targets": missing}), rng)
    except StoreError as error:
        return base, str(error), []
    base |= {t: r.value for t, r in modelled.items()}
    said = (
        f"baselines of {len(modelled)} targets: a model trained on at most {told.model_rows} rows"
    )
    return base, "the original has too few rows for a baseline", [said] if modelled else []


def _figures(
    found: pd.DataFrame, why_none: str
) -> tuple[dict[str, float], dict[str, str], list[str]]:
    """Figures over all targets, why some are missing, and notes."""
    values = {
        "matches": float(found["matches"].median()),
        "coverage": float(found["coverage"].median()),
    }
    shown = found[found["matches"] > 0]
    if shown.empty:
        why = (
            "no record is unique on the quasi-identifiers on both sides: no match, nothing inferred"
        )
        return values, dict.fromkeys(("precision_median", *_IMPROVEMENTS), why), []
    values["precision_median"] = float(shown["precision"].median())
    notes = []
    if known := shown["target"][shown["baseline"] == 1].tolist():
        notes.append(
            f"left out of median and largest, 0 in the mean: {', '.join(known)}: baseline 1"
        )
    if lost := shown["target"][shown["baseline"].isna()].tolist():
        notes.append(f"no baseline for {', '.join(lost)}")
    gained = shown["precision improvement"].dropna()
    if gained.empty:
        why = why_none if lost else "everybody knows every target from the quasi-identifiers alone"
        return values, dict.fromkeys(_IMPROVEMENTS, why), notes
    values["median_pi"] = float(gained.median())
    values["largest_pi"] = float(gained.max())
    values["mean_pi"] = fmean([*gained.tolist(), *[0.0] * len(known)])
    return values, {}, notes


def _pooled(found: pd.DataFrame) -> Rate | None:
    """Share of all inferred values that are right."""
    return wilson(int(found["right"].sum()), int(found["matches"].sum()))


def _guessing(found: pd.DataFrame) -> Rate | None:
    """Share of right values that the baseline would get in as many attempts."""
    based = found[found["baseline"].notna() & (found["matches"] > 0)]
    return wilson(float((based["baseline"] * based["matches"]).sum()), int(based["matches"].sum()))


def _control(
    comparison: Comparison, known: KeySet, found: pd.DataFrame, rng: np.random.Generator
) -> tuple[Rate | None, float | None, str]:
    """The same attack on strangers, the largest gain above it, and who they are, or why there is none."""
    both = alike(comparison, rng)
    if shown_of(both.strangers, known) != known:
        return None, None, "no control: the control rows lack some of the quasi-identifiers"
    mine, others = (
        attacked(side, known, shown_of(side, found["target"])).set_index("target")
        for side in (both.members, both.strangers)
    )
    rate = _pooled(others)
    said = f"control: {both.who}" if rate else f"no match among {both.who}: no control"
    every = found.set_index("target")
    gains = [_gain(target, every, mine, others) for target in every.index]
    told = [gain for gain in gains if gain is not None]
    if told:
        return rate, max(told), said
    if not found["matches"].sum():
        return rate, None, "no match: nothing inferred"
    return rate, None, f"nothing to hold it against, or nothing to gain; {said}"


def _gain(
    target: str, every: pd.DataFrame, mine: pd.DataFrame, others: pd.DataFrame
) -> float | None:
    """Gain above strangers, or, where these are few, of all people above the baseline; 0 if chance explains it."""
    own, held = (_rate_of(side, target) for side in (mine, others))
    if own is None or held is None or held.n < FEWEST:
        own, known = _rate_of(every, target), float(every["baseline"][target])
        held = None if np.isnan(known) else Rate(value=known, low=0.0, high=known, n=0)
    if own is None or held is None or held.value >= 1:
        return None
    return excess(own, held) / (1 - held.value)


def _rate_of(found: pd.DataFrame, target: str) -> Rate | None:
    """Share of one target's values that are right; None where there is no match."""
    if target not in found.index:
        return None
    return wilson(int(found["right"][target]), int(found["matches"][target]))
