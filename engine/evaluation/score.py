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
    """Return a module of a package that not everybody installs.

    Raises
    ------
    StoreError
        It is not installed.
    """
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
    """What a figure says; all of them are in `engine.evaluation.figures`.

    Attributes
    ----------
    name : str
        `measure.value` or `attack.value`.
    title : str
        A few words, for tables.
    words : str
        One sentence for a reader who does not know the measure.
    better : str
        "lower", "higher", or "neither": it is context, not a score.
    low, high : float
        Bounds of what it can be.
    perfect : float or None
        What a copy of the original scores (utility), or a release that tells nothing (risk).
    columns : str
        How many columns it looks at together: "1", "2", "3", "all", or "" where that says nothing.
    digits : int
        Digits after the point that are shown.
    good, poor : float or None
        At `good` or better the verdict is good, beyond `poor` it is poor; None: only stated.
    source : str
        Who says so: paper and section, for the definition and for the thresholds.
    is_headline : bool
        It is in the summary.
    """

    name: str
    title: str
    words: str
    better: Literal["lower", "higher", "neither"]
    low: float = 0.0
    high: float = math.inf
    perfect: float | None = None
    columns: str = ""
    digits: int = 3
    good: float | None = None
    poor: float | None = None
    source: str = ""
    is_headline: bool = False


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Score:
    """Result of a measure.

    Attributes
    ----------
    values : dict of str to float
        Figures by name; their direction, bounds and words are in `engine.evaluation.figures`.
    breakdown : DataFrame
        What they are made of.
    more : dict of str to DataFrame
        Further tables, for pictures.
    why_not : dict of str to str
        Figure -> why it was not computed; `WHOLE`: none of them was.
    notes : tuple of str
        What a reader must know: rows left out, columns that are constant, samples taken.
    over : int
        How many columns of one table its figures over "all" columns read; 0: it has none such. Those of subjects that
        differ in it say little about each other.
    """

    measure: str
    values: Mapping[str, float]
    breakdown: pd.DataFrame = field(default_factory=_empty)
    more: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    why_not: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    over: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class HitRate:
    """A share of attempts with its 95 % interval (Wilson 1927, doi:10.1080/01621459.1927.10502953).

    Attributes
    ----------
    n : int
        Attempts.
    """

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Risk:
    """What an attack achieved.

    Attributes
    ----------
    words : str
        What the attacker holds, wants and does.
    rate : HitRate or None
        How often it is right about people of the data.
    baseline : HitRate or None
        How often one is right who guesses without the release.
    control : HitRate or None
        How often the same attack is right about people whom the release is not made from.
    values : dict of str to float
        All figures by name.
    control_note : str
        Who the people of the control are, or why there is none.
    verdict : str
        What it comes to, in a sentence; empty: the figures speak for themselves.
    rate_names : tuple of str
        What rate, baseline and control are called.
    """

    attack: str
    words: str
    rate: HitRate | None = None
    baseline: HitRate | None = None
    control: HitRate | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    breakdown: pd.DataFrame = field(default_factory=_empty)
    why_not: Mapping[str, str] = field(default_factory=dict)
    control_note: str = ""
    notes: tuple[str, ...] = ()
    verdict: str = ""
    rate_names: tuple[str, str, str] = RATE_NAMES


def not_computed(measure: str, why: str) -> Score:
    """Return a score that says why there is none."""
    return Score(measure=measure, values={}, why_not={WHOLE: why})


def wilson(hits: float, n: int, *, z: float = 1.959963984540054) -> HitRate | None:
    """Share of attempts that hit, with its Wilson score interval; None where there was no attempt.

    Parameters
    ----------
    hits : float
        0 to `n`; may be a sum of probabilities.
    z : float
        Quantile of the normal distribution; by default for 95 %.
    """
    if n <= 0:
        return None
    share = hits / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low, high = max(middle - half, 0.0), min(middle + half, 1.0)
    return HitRate(
        value=share, low=min(low, share), high=max(high, share), n=n
    )  # rounding of 0 and 1
