"""What evaluations find: scores of utility measures, and risks, each an attack with its baseline and control.

Nouns only. Invariant: a figure that could not be computed is absent from `values` or NaN there, and `why_not` says why;
never a silent zero. Both kinds are CONFIDENTIAL: breakdowns hold counts of the original.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

import pandas as pd
from pydantic import BaseModel, ConfigDict

from engine.errors import StoreError

WHOLE = ""
"""Key in `why_not` for a measure as a whole."""
RATE_NAMES = ("right about people of the data", "right by guessing", "right about strangers")
"""What rate, baseline and control of an attack are called, unless it says otherwise."""


def _empty() -> pd.DataFrame:
    return pd.DataFrame()


def optional(module: str, what: str) -> Any:
    """Return a module of a package that not everybody installs."""
    try:
        return import_module(module)
    except ImportError:
        package = {"sklearn": "scikit-learn"}.get(*[module.partition(".")[0]] * 2)
    raise StoreError(f"{what} need {package}: pip install 'tablepack[evaluate]'")


class Section(BaseModel):
    """A part of a study; frozen, and an unknown key is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """What a figure says; all of them are in `engine.evaluation.figures`."""

    name: str  # `measure.value` or `attack.value`
    title: str  # A few words, for tables
    words: str  # One sentence for a reader who does not know the measure
    # "lower", "higher", or "neither": it is context, not a score.
    better: Literal["lower", "higher", "neither"]
    # low, high: Bounds of what it can be.
    low: float = 0.0
    high: float = math.inf
    # What a copy of the original scores (utility), or a release that tells nothing (risk).
    perfect: float | None = None
    # How many columns it looks at together: "1", "2", "3", "all", or "" where that says nothing.
    columns: str = ""
    digits: int = 3  # Digits after the point that are shown
    # good, poor: At `good` or better the verdict is good, beyond `poor` it is poor; None: only stated.
    good: float | None = None
    poor: float | None = None
    source: str = ""  # Who says so: paper and section, for the definition and for the thresholds
    is_headline: bool = False  # It is in the summary


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Score:
    """Result of a measure."""

    measure: str
    # Figures by name; their direction, bounds and words are in `engine.evaluation.figures`.
    values: Mapping[str, float]
    breakdown: pd.DataFrame = field(default_factory=_empty)  # What they are made of
    more: Mapping[str, pd.DataFrame] = field(default_factory=dict)  # Further tables, for pictures
    # Figure -> why it was not computed; `WHOLE`: none of them was.
    why_not: Mapping[str, str] = field(default_factory=dict)
    # What a reader must know: rows left out, columns that are constant, samples taken.
    notes: tuple[str, ...] = ()
    # How many columns of one table its figures over "all" columns read; 0: it has none such. Those of
    # subjects that differ in it say little about each other.
    over: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class HitRate:
    """A share of attempts with its 95 % interval (Wilson 1927, doi:10.1080/01621459.1927.10502953)."""

    value: float
    low: float
    high: float
    n: int  # Attempts


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Risk:
    """What an attack achieved."""

    attack: str
    words: str  # What the attacker holds, wants and does
    rate: HitRate | None = None  # How often it is right about people of the data
    baseline: HitRate | None = None  # How often one is right who guesses without the release
    # How often the same attack is right about people whom the release is not made from.
    control: HitRate | None = None
    values: Mapping[str, float] = field(default_factory=dict)  # All figures by name
    breakdown: pd.DataFrame = field(default_factory=_empty)
    why_not: Mapping[str, str] = field(default_factory=dict)
    control_note: str = ""  # Who the people of the control are, or why there is none
    notes: tuple[str, ...] = ()
    verdict: str = ""  # What it comes to, in a sentence; empty: the figures speak for themselves
    rate_names: tuple[str, str, str] = RATE_NAMES  # What rate, baseline and control are called


def not_computed(measure: str, why: str) -> Score:
    """Return a score that says why there is none."""
    return Score(measure=measure, values={}, why_not={WHOLE: why})


def wilson(hits: float, n: int, *, z: float = 1.959963984540054) -> HitRate | None:
    """Share of attempts that hit, with its Wilson score interval; None where there was no attempt."""
    if n <= 0:
        return None
    share = hits / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low, high = max(middle - half, 0.0), min(middle + half, 1.0)
    return HitRate(
        value=share, low=min(low, share), high=max(high, share), n=n
    )  # rounding of 0 and 1
