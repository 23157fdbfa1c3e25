"""Unique records that a release repeats: replicated uniques of keys, and whole records that are in both.

Takes a `Paired` and what attackers know; gives a `Risk`. Definitions: replicated uniques as in synthpop 1.9
(Raab, Nowok, Dibben, arXiv:2406.16826: UiO, UiS, UiOiS, repU); unique exact matches as in NIST's SDNIST.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from engine.evaluation.data.paired import Coded, Paired, covering
from engine.evaluation.risk.attacker import Attacker
from engine.evaluation.risk.matching import (
    KeySet,
    groups,
    key_sets,
    shown_of,
    totals,
    unseen,
    usable,
)
from engine.evaluation.risk.people import against, alike, excess, widest
from engine.evaluation.score import WHOLE, HitRate, Risk, wilson

NAME = "uniques"
WORDS = (
    "The attacker knows the quasi-identifiers of a person who is the only one with them, and finds a released record "
    "that is the only one with them, too. He concludes that the person is in the data and that this record is theirs. "
    "The rate is the share of all people for whom both are so."
)
_OF_KEYS = ("replicated", "replicated_of_synthetic", "in_original", "found_uniques")
_EXCESS = "excess_over_control"
_OF_RECORDS = ("exact_matches", "exact_match", "exact_replicated")


@dataclass(frozen=True, kw_only=True, slots=True)
class _UniqueCounts:
    """Uniques of one set of columns, as counts."""

    # n_original, n_synthetic: Rows.
    n_original: int
    n_synthetic: int
    # unique_original, unique_synthetic: Records that are unique in their table.
    unique_original: int
    unique_synthetic: int
    replicated: int  # Unique in both
    in_original: int  # Unique in the synthetic table and present in the original
    in_synthetic: int  # Unique in the original and present in the synthetic table


def uniques(paired: Paired, attacker: Attacker, rng: np.random.Generator) -> Risk:
    """Count unique records that the release repeats, on the known columns and on all columns of the widest table.

    Returns: Broken down by set of columns. Where no table has all quasi-identifiers, the figures are those of
    the worst table among those with most of them, and the notes say so.
    """
    table = widest(paired)
    if table is None or not table.total or not paired.original.total:
        why = "the original, or every table, has no rows"
        return Risk(attack=NAME, words=WORDS, why_not={WHOLE: why})
    rows, notes, worst = _of_keys(paired, attacker)
    values, why_not = _key_figures(worst)
    counts = _counted(paired, table, table.columns)
    is_whole = len(table.columns) == len(paired.values)
    rows.append(("whole records" if is_whole else "widest table", table.columns, table, counts))
    values, why_not, notes = _with_records(paired, table, counts, values, why_not, notes)
    rate = None if worst is None else wilson(worst[1].replicated, worst[1].n_original)
    control, more, about_control = None, math.nan, ["no table shows any of the quasi-identifiers"]
    if worst is not None:
        control, more, about_control = _control(paired, worst[0], rng)
    if math.isnan(more):
        why_not = {**why_not, _EXCESS: about_control[0]}
    else:
        values = {**values, _EXCESS: more}
    return Risk(
        attack=NAME,
        words=WORDS,
        rate=rate,
        control=control,
        values=values,
        breakdown=_breakdown(rows),
        why_not=why_not,
        notes=(*notes, *about_control[1:]),
        control_note="" if worst is None else about_control[0],
    )


_Row = tuple[str, KeySet, Coded, _UniqueCounts]


def _of_keys(
    paired: Paired, attacker: Attacker
) -> tuple[list[_Row], list[str], tuple[KeySet, _UniqueCounts] | None]:
    """Uniques of every set of known columns; the worst of the quasi-identifiers' own sets."""
    rows: list[_Row] = []
    notes: list[str] = []
    worst: tuple[KeySet, _UniqueCounts] | None = None
    for i, keys in enumerate(key_sets(attacker)):
        shown = shown_of(paired, keys)
        sets = usable(paired, shown)
        notes += unseen(keys, shown) if i == 0 else []
        if i and (sets != [keys]):
            notes.append(f"no table has {', '.join(keys)} together: not looked at")
            continue
        if i == 0 and sets and sets != [shown]:
            n = len(sets[0])
            notes.append(
                f"no table has all {len(shown)} quasi-identifiers: attacked through those with {n}, the worst counts"
            )
        for chosen in sets:
            table = covering(paired, chosen)
            if table is None or not table.total:
                continue
            counts = _counted(paired, table, chosen)
            rows.append(("quasi-identifiers" if i == 0 else "further keys", chosen, table, counts))
            if i == 0 and (worst is None or counts.replicated > worst[1].replicated):
                worst = chosen, counts
    return rows, notes, worst


def _counted(paired: Paired, table: Coded, columns: KeySet) -> _UniqueCounts:
    """Count the uniques of some columns of one table."""
    group = groups(paired, paired.original, table, columns)
    original = totals(group.left, paired.original.n, group.size)
    synthetic = totals(group.right, table.n, group.size)
    once_original, once_synthetic = original == 1, synthetic == 1
    return _UniqueCounts(
        n_original=paired.original.total,
        n_synthetic=table.total,
        unique_original=int(once_original.sum()),
        unique_synthetic=int(once_synthetic.sum()),
        replicated=int((once_original & once_synthetic).sum()),
        in_original=int((once_synthetic & (original > 0)).sum()),
        in_synthetic=int((once_original & (synthetic > 0)).sum()),
    )


def _key_figures(
    worst: tuple[KeySet, _UniqueCounts] | None,
) -> tuple[dict[str, float], dict[str, str]]:
    """Figures of the quasi-identifiers, or why there are none."""
    if worst is None:
        why = "no table shows any of the quasi-identifiers, or those that do are empty"
        return {}, dict.fromkeys((*_OF_KEYS, "unique_original", "unique_synthetic"), why)
    counts = worst[1]
    return {
        "replicated": 100 * counts.replicated / counts.n_original,
        "replicated_of_synthetic": 100 * counts.replicated / counts.n_synthetic,
        "in_original": 100 * counts.in_original / counts.n_synthetic,
        "found_uniques": 100 * counts.in_synthetic / counts.n_original,
        "unique_original": 100 * counts.unique_original / counts.n_original,
        "unique_synthetic": 100 * counts.unique_synthetic / counts.n_synthetic,
    }, {}


def _with_records(
    paired: Paired,
    table: Coded,
    counts: _UniqueCounts,
    values: dict[str, float],
    why_not: dict[str, str],
    notes: list[str],
) -> tuple[dict[str, float], dict[str, str], list[str]]:
    """Add the figures of whole records, where a table has all released columns."""
    n, every = len(table.columns), len(paired.values)
    if n < every:
        why = f"no table has all {every} released columns (the widest has {n}): whole records are nowhere"
        return values, {**why_not, **dict.fromkeys(_OF_RECORDS, why)}, notes
    exact = {
        "exact_matches": float(counts.in_synthetic),
        "exact_match": 100 * counts.in_synthetic / counts.n_original,
        "exact_replicated": 100 * counts.replicated / counts.n_original,
    }
    return {**values, **exact}, why_not, [*notes, f"whole records: the {n} columns that both have"]


def _control(
    paired: Paired, keys: KeySet, rng: np.random.Generator
) -> tuple[HitRate | None, float, list[str]]:
    """The same of people whom the tables are not made from, the excess above it in points, and notes."""
    both = alike(paired, rng)
    rates = []
    for side in (both.members, both.strangers):
        table = covering(side, keys)
        if table is None or not side.original.total or shown_of(side, keys) != keys:
            why = "no control: the control rows lack some of the columns, or are none"
            return None, math.nan, [why]
        counts = _counted(side, table, keys)
        rates.append(wilson(counts.replicated, counts.n_original))
    mine, control = rates
    if mine is None or control is None:
        return None, math.nan, ["no control: there are too few rows"]
    return control, 100 * excess(mine, control), [f"control: {both.who}", against(mine, control)]


def _breakdown(rows: list[_Row]) -> pd.DataFrame:
    """One row a set of columns."""
    listed: list[dict[str, Any]] = []
    for what, columns, table, counts in rows:
        listed.append(
            {
                "what": what,
                "columns": ", ".join(columns),
                "table": ", ".join(table.columns),
                "unique in original": counts.unique_original,
                "unique in synthetic": counts.unique_synthetic,
                "unique in both": counts.replicated,
                "unique in synthetic, in original": counts.in_original,
                "unique in original, in synthetic": counts.in_synthetic,
                "replicated % of original": 100 * counts.replicated / counts.n_original,
                "replicated % of synthetic": 100 * counts.replicated / max(counts.n_synthetic, 1),
            }
        )
    return pd.DataFrame(listed)
