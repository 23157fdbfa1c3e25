"""Apparent matches: what the one record with somebody's quasi-identifiers tells about them, against a baseline.

Takes a `Paired` and what attackers know; gives a `Risk`. The attack is NIST SDNIST's "apparent match distribution";
precision improvement and coverage are P. Francis, arXiv:2403.08463, section 4.1, as is the reading for many tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

import numpy as np
import pandas as pd

from engine.errors import StoreError
from engine.evaluation.data.paired import Coded, Numbers, Paired, covering, n_codes
from engine.evaluation.risk.attacker import Attacker
from engine.evaluation.risk.baseline import model_baselines
from engine.evaluation.risk.matching import (
    KeySet,
    groups,
    shown_of,
    targets_of,
    totals,
    unseen,
    usable,
)
from engine.evaluation.risk.people import alike, excess
from engine.evaluation.risk.precision import FEWEST, improvement
from engine.evaluation.score import WHOLE, HitRate, Risk, wilson
from engine.schema import ColumnSet

WORDS = (
    "The attacker knows the quasi-identifiers of a person who is the only one with them, finds a released record that "
    "is the only one with them, too, and takes its other values for the person's. The rate is the share of values that "
    "are right; the baseline, that of a model that never saw the person."
)
POOLED = "tables pooled"
"""Named in the place of a table where none has all quasi-identifiers with a target."""
_IMPROVEMENTS = ("median_pi", "largest_pi", "mean_pi")


def apparent_match(
    paired: Paired,
    attacker: Attacker,
    rng: np.random.Generator,
    baselines: Mapping[str, float] | None = None,
) -> Risk:
    """Infer every target column from the unique match on the quasi-identifiers, and hold it against a baseline.

    baselines: Column -> share that a model gets right about people outside the data; those that are missing
        are computed by `engine.evaluation.risk.baseline.model_baselines`.

    Returns: Broken down by target. A target is attacked through the smallest table that has it and all
    quasi-identifiers; where there is none, through all tables with most of them, and the value that most of a
    person's matches have is claimed. A blank that equals a blank is right, as published.
    """
    known = shown_of(paired, attacker.quasi_identifiers)
    targets = targets_of(paired, attacker, known)
    notes = unseen(attacker.quasi_identifiers, known)
    by_target = attacked(paired, known, targets)
    if (why := _why_not(paired, known, targets, by_target)) is not None:
        return Risk(attack="apparent_match", words=WORDS, why_not={WHOLE: why}, notes=tuple(notes))
    if left_out := [t for t in targets if t not in set(by_target["target"])]:
        notes.append(f"no table has the quasi-identifiers with {', '.join(left_out)}: not attacked")
    if pooled := [
        t for t, at in zip(by_target["target"], by_target["table"], strict=True) if POOLED in at
    ]:
        notes.append(
            f"no table has all {len(known)} quasi-identifiers with {len(pooled)} of the targets: attacked through all "
            "tables with most of them, pooled"
        )
    base, why_none, more = _baselines(paired, attacker, rng, by_target, baselines)
    by_target["baseline"] = [base.get(t, float("nan")) for t in by_target["target"]]
    gains = map(improvement, by_target["precision"], by_target["baseline"])
    by_target["precision improvement"] = pd.Series(gains, dtype="float64", index=by_target.index)
    values, why_not, about = _figures(by_target, why_none)
    control, largest, who = _control(paired, known, by_target, rng)
    if largest is None:
        why_not["largest_gain"] = who
    else:
        values["largest_gain"] = largest
    return Risk(
        attack="apparent_match",
        words=WORDS,
        rate=_pooled(by_target),
        baseline=_guessing(by_target),
        control=control,
        values=values,
        breakdown=by_target,
        why_not=why_not,
        notes=(
            *notes,
            *more,
            *about,
            "the intervals take values of several columns of a person as independent, which they are not",
        ),
        control_note=who,
    )


def attacked(paired: Paired, known: KeySet, targets: KeySet) -> pd.DataFrame:
    """Attack every target that a table has beside all known columns.

    Returns: One row a target: `target`, `table`, `matches`, `right`, `precision` (NaN without a match),
    `coverage`.
    """
    through: dict[ColumnSet, list[str]] = {}
    for name in targets if known else ():
        table = covering(paired, (*known, name))
        if table is not None and table.total:
            through.setdefault(table.columns, []).append(name)
    rows = []
    people = paired.original
    for columns, names in through.items():
        table = paired.tables[columns]
        mine, theirs = unique_pairs(paired, table, known)
        for name in names:
            right = int((people.codes[name][mine] == table.codes[name][theirs]).sum())
            share = right / len(mine) if len(mine) else float("nan")
            rows.append((name, ", ".join(columns), len(mine), right, share))
    covered = {name for names in through.values() for name in names}
    for name in targets if known else ():
        if name not in covered and (claims := _pooled_claims(paired, known, name)) is not None:
            at, value, n_tables = claims
            right = int((people.codes[name][at] == value).sum())
            share = right / len(at) if len(at) else float("nan")
            rows.append((name, f"{n_tables} {POOLED}", len(at), right, share))
    by_target = pd.DataFrame(rows, columns=["target", "table", "matches", "right", "precision"])
    by_target["coverage"] = by_target["matches"] / max(people.total, 1)
    return by_target


def _pooled_claims(
    paired: Paired, known: KeySet, target: str
) -> tuple[Numbers, Numbers, int] | None:
    """Who is claimed to have which value, by the unique matches in all tables with most of the known columns.

    Returns: Positions of people, the value that most of a person's matches have, and how many tables were
    read; None: no table has rows, a known column and the target.
    """
    sets = [(keys, covering(paired, (*keys, target))) for keys in usable(paired, known, target)]
    read = [(keys, table) for keys, table in sets if keys and table is not None and table.total]
    if not read:
        return None
    claims = [
        (mine, table.codes[target][theirs].astype(np.int64))
        for keys, table in read
        for mine, theirs in [unique_pairs(paired, table, keys)]
    ]
    person, value = (np.concatenate([claim[i] for claim in claims]) for i in (0, 1))
    width = n_codes(paired, target)
    pairs, n = np.unique(person * width + value, return_counts=True)
    order = np.lexsort((-n, pairs // width))
    at, first = np.unique(pairs[order] // width, return_index=True)
    return at, pairs[order][first] % width, len(read)


def unique_pairs(paired: Paired, table: Coded, known: KeySet) -> tuple[Numbers, Numbers]:
    """Return the positions of the records of original and table that are unique on known columns and agree on them."""
    people = paired.original
    group = groups(paired, people, table, known)
    once = (totals(group.left, people.n, group.size) == 1) & (
        totals(group.right, table.n, group.size) == 1
    )
    mine = np.flatnonzero(once[group.left] & (people.n == 1))
    theirs = np.flatnonzero(once[group.right] & (table.n == 1))
    place = np.empty(group.size, np.int64)
    place[group.right[theirs]] = theirs
    return mine, place[group.left[mine]]


def _why_not(paired: Paired, known: KeySet, targets: KeySet, by_target: pd.DataFrame) -> str | None:
    """Why nothing could be attacked."""
    if not known:
        return "no table shows any of the quasi-identifiers"
    if not targets:
        return "every released column is a quasi-identifier: nothing is left to infer"
    if not paired.original.total:
        return "the original has no rows"
    if by_target.empty:
        listed = ", ".join(known)
        return (
            f"no table with rows has {listed} together with a further column: nothing to match on"
        )
    return None


def _baselines(
    paired: Paired,
    attacker: Attacker,
    rng: np.random.Generator,
    by_target: pd.DataFrame,
    given: Mapping[str, float] | None,
) -> tuple[dict[str, float], str, list[str]]:
    """Baseline of every target that has matches; why some have none; notes."""
    wanted = by_target["target"][by_target["matches"] > 0].tolist()
    base = {t: float(b) for t, b in (given or {}).items() if t in wanted and 0 <= b <= 1}
    missing = tuple(t for t in wanted if t not in base)
    if not missing:
        return base, "", []
    try:
        modelled = model_baselines(paired, attacker.model_copy(update={"targets": missing}), rng)
    except StoreError as error:
        return base, str(error), []
    base |= {t: r.value for t, r in modelled.items()}
    note = f"baselines of {len(modelled)} targets: a model trained on at most {attacker.model_rows} rows"
    return base, "the original has too few rows for a baseline", [note] if modelled else []


def _figures(
    by_target: pd.DataFrame, why_none: str
) -> tuple[dict[str, float], dict[str, str], list[str]]:
    """Figures over all targets, why some are missing, and notes."""
    values = {
        "matches": float(by_target["matches"].median()),
        "coverage": float(by_target["coverage"].median()),
    }
    shown = by_target[by_target["matches"] > 0]
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


def _pooled(by_target: pd.DataFrame) -> HitRate | None:
    """Share of all inferred values that are right."""
    return wilson(int(by_target["right"].sum()), int(by_target["matches"].sum()))


def _guessing(by_target: pd.DataFrame) -> HitRate | None:
    """Share of right values that the baseline would get in as many attempts."""
    based = by_target[by_target["baseline"].notna() & (by_target["matches"] > 0)]
    return wilson(float((based["baseline"] * based["matches"]).sum()), int(based["matches"].sum()))


def _control(
    paired: Paired, known: KeySet, by_target: pd.DataFrame, rng: np.random.Generator
) -> tuple[HitRate | None, float | None, str]:
    """The same attack on strangers, the largest gain above it, and who they are, or why there is none."""
    both = alike(paired, rng)
    if shown_of(both.strangers, known) != known:
        return None, None, "no control: the control rows lack some of the quasi-identifiers"
    mine, others = (
        attacked(side, known, shown_of(side, by_target["target"])).set_index("target")
        for side in (both.members, both.strangers)
    )
    rate = _pooled(others)
    note = f"control: {both.who}" if rate else f"no match among {both.who}: no control"
    every = by_target.set_index("target")
    gains = [_gain(target, every, mine, others) for target in every.index]
    known_gains = [gain for gain in gains if gain is not None]
    if known_gains:
        return rate, max(known_gains), note
    if not by_target["matches"].sum():
        return rate, None, "no match: nothing inferred"
    return rate, None, f"nothing to hold it against, or nothing to gain; {note}"


def _gain(
    target: str, every: pd.DataFrame, mine: pd.DataFrame, others: pd.DataFrame
) -> float | None:
    """Gain above strangers, or, where these are few, of all people above the baseline; 0 if chance explains it."""
    own, baseline = (_rate_of(side, target) for side in (mine, others))
    if own is None or baseline is None or baseline.n < FEWEST:
        own, known = _rate_of(every, target), float(every["baseline"][target])
        baseline = None if np.isnan(known) else HitRate(value=known, low=0.0, high=known, n=0)
    if own is None or baseline is None or baseline.value >= 1:
        return None
    return excess(own, baseline) / (1 - baseline.value)


def _rate_of(by_target: pd.DataFrame, target: str) -> HitRate | None:
    """Share of one target's values that are right; None where there is no match."""
    if target not in by_target.index:
        return None
    return wilson(int(by_target["right"][target]), int(by_target["matches"][target]))
