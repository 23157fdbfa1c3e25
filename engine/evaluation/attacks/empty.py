"""Empty or small: can an attacker tell which unreleased cells hold somebody?

A cell that was not released is published as filled without looking, from what stands around it. The attacker takes a
higher filled count for "somebody is there". The control expects people by the one-way counts alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from engine.evaluation.attacks.assumptions import Assumptions
from engine.evaluation.attacks.rates import auc
from engine.evaluation.attacks.sights import Attacked, Sight, cells, shares
from engine.evaluation.data.paired import Coded, Numbers, Paired, key_of, n_codes
from engine.evaluation.score import HitRate, Risk

NAME = "empty"
WORDS = (
    "The attacker looks at combinations that were not released, and takes those that are filled with most rows for "
    "those where somebody is."
)
MOST_CELLS = 20_000
"""Combinations of a table that are looked at; a sample where there are more."""
FEWEST = 10
"""Empty cells, and small ones, that a table must have."""
SMALLEST_SHOWN = 3
"""People in a group that may be shown."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Told:
    """How well empty is told from small in one table."""

    sight: Sight
    # filled, expected: Area under the curve by what the table shows, and by one-way counts alone.
    filled: HitRate
    expected: HitRate
    n_small: int  # Unreleased cells that hold somebody


def empty(attacked: Attacked, assumptions: Assumptions, rng: np.random.Generator) -> Risk:
    """Tell empty unreleased cells from small ones, table by table."""
    del assumptions
    small, n_shown = _smallest_shown(attacked)
    shown_why = "no release says that it suppresses small groups"
    told = [
        one
        for sight in attacked.sights
        if len(sight.columns) > 1 and (one := _told(attacked, sight, rng)) is not None
    ]
    values = {"shown_small": float(small)} if n_shown else {}
    why_not = {} if n_shown else {"shown_small": shown_why}
    if not told:
        why = "no table says which of its cells were released, or has both empty and small cells that were not"
        lacking = dict.fromkeys(("auc", "auc_one_way", "gain", "tables"), why)
        return Risk(attack=NAME, words=WORDS, values=values, why_not={**lacking, **why_not})
    filled, expected = _mean(told, "filled"), _mean(told, "expected")
    gain = filled.value - expected.value
    values |= {
        "auc": filled.value,
        "auc_one_way": expected.value,
        "gain": 0.0 if 0 < gain and filled.low <= expected.high else gain,
        "tables": float(len(told)),
    }
    return Risk(
        attack=NAME,
        words=WORDS,
        rate=filled,
        control=expected,
        values=values,
        breakdown=_breakdown(told),
        why_not=why_not,
        control_note="control: the same cells ranked by the one-way counts alone",
        notes=(
            f"{len(told)} tables; of one with more than {MOST_CELLS:,} combinations a sample drawn by the seed, beside "
            "all that hold somebody",
            f"{n_shown:,} released cells were looked at for groups of fewer than {SMALLEST_SHOWN}",
        ),
        verdict=_verdict(filled, expected, small if n_shown else None),
        rate_names=("small above empty, by the table", "by a coin", "by one-way counts alone"),
    )


def _verdict(filled: HitRate, expected: HitRate, small: int | None) -> str:
    """What it comes to, in words."""
    told = (
        f"Of an empty and a small cell that were not released the table shows more in the small one in "
        f"{filled.value:.0%} of cases (a coin: 50%; one-way counts alone: {expected.value:.0%})."
    )
    if small is None:
        return told
    if not small:
        return f"{told} No group of fewer than {SMALLEST_SHOWN} is shown."
    return f"{told} {small:,} released cells hold fewer than {SMALLEST_SHOWN}: the release breaks its own rule."


def _smallest_shown(attacked: Attacked) -> tuple[int, int]:
    """How many released cells hold fewer than may be shown, and how many were looked at."""
    small = looked_at = 0
    for sight in attacked.sights:
        table = sight.table
        if sight.is_suppressed and table.measured is not None:
            # Nobody in the data has the placeholder: its cells hold those whose own value is not shown.
            is_other = np.zeros(len(table.n), np.bool_)
            for name, other in sight.others.items():
                is_other |= table.codes[name] == other
            found = cells(attacked.paired, sight, table)
            shown = np.unique(found.of[0][table.measured & ~is_other])
            small += int((found.truth[shown] < SMALLEST_SHOWN).sum())
            looked_at += len(shown)
    return small, looked_at


def _told(attacked: Attacked, sight: Sight, rng: np.random.Generator) -> Told | None:
    """Tell empty from small in one table; None where it does not say what was released, or lacks either."""
    if sight.table.measured is None:
        return None
    paired = attacked.paired
    places = _combinations(attacked, sight, rng)
    found = cells(paired, sight, places)
    at = np.unique(found.of[0], return_index=True)[1]
    open_ = at[~found.is_released[found.of[0][at]]]
    cell = found.of[0][open_]
    is_small = found.truth[cell] > 0
    if min(is_small.sum(), (~is_small).sum()) < FEWEST:
        return None
    share = shares(paired, attacked.sights)
    expected = np.sum([np.log(share[c][places.codes[c][open_]]) for c in sight.columns], axis=0)
    rates = [auc(score[is_small], score[~is_small]) for score in (found.shown[cell], expected)]
    if rates[0] is None or rates[1] is None:
        return None
    return Told(sight=sight, filled=rates[0], expected=rates[1], n_small=int(is_small.sum()))


def _combinations(attacked: Attacked, sight: Sight, rng: np.random.Generator) -> Coded:
    """Combinations of released values of a table's columns: all of them, or a sample with all that hold somebody."""
    paired = attacked.paired
    values = [_released_values(attacked, sight, c) for c in sight.columns]
    size = math.prod(map(len, values))
    if size <= MOST_CELLS:
        places = np.indices([len(v) for v in values]).reshape(len(values), -1)
    else:
        places = np.stack([rng.integers(0, len(v), MOST_CELLS) for v in values])
    codes = [v[place] for v, place in zip(values, places, strict=True)]
    inside = np.all(
        [np.isin(paired.original.codes[c], v) for c, v in zip(sight.columns, values, strict=True)],
        axis=0,
    )
    first = np.unique(_key(paired, sight, inside), return_index=True)[1]
    people = np.flatnonzero(inside)[first]
    both = {
        c: np.concatenate([code, paired.original.codes[c][people]]).astype(np.int32)
        for c, code in zip(sight.columns, codes, strict=True)
    }
    n = np.ones(len(both[sight.columns[0]]), np.int64)
    return Coded(columns=sight.columns, codes=both, n=n)


def _key(paired: Paired, sight: Sight, inside: np.ndarray) -> Numbers:
    """Combination of each person of some."""
    codes = {c: paired.original.codes[c][inside] for c in sight.columns}
    people = replace(paired.original, codes=codes, n=paired.original.n[inside])
    return key_of(paired, people, sight.columns)


def _released_values(attacked: Attacked, sight: Sight, name: str) -> Numbers:
    """Values of a column that its own table shows as released; without one, all that the table shows."""
    own = next((one for one in attacked.sights if one.columns == (name,)), sight)
    codes, measured = own.table.codes[name], own.table.measured
    shown = codes if measured is None or own is sight else codes[measured]
    return np.unique(shown[shown < n_codes(attacked.paired, name)]).astype(np.int64)


def _mean(told: Sequence[Told], side: str) -> HitRate:
    """Mean area over tables, by their small cells, with its interval."""
    weight = np.array([one.n_small for one in told], np.float64)
    weight /= weight.sum()
    areas: list[HitRate] = [getattr(one, side) for one in told]
    value = float(weight @ [a.value for a in areas])
    half = [float(np.sqrt(np.square(weight) @ np.square(width))) for width in
            ([a.value - a.low for a in areas], [a.high - a.value for a in areas])]  # fmt: skip
    n = sum(a.n for a in areas)
    return HitRate(value=value, low=max(value - half[0], 0), high=min(value + half[1], 1), n=n)


def _breakdown(told: Sequence[Told]) -> pd.DataFrame:
    """Areas by table, the worst first."""
    rows = [
        (", ".join(one.sight.columns), one.n_small, one.filled.n - one.n_small, one.filled.value, one.expected.value)
        for one in told
    ]  # fmt: skip
    names = ["table", "small_cells", "empty_cells", "auc", "auc_one_way"]
    return pd.DataFrame(rows, columns=names).sort_values("auc", ascending=False, kind="stable")
