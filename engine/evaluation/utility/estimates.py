"""What an analyst concludes: estimates and their intervals from synthetic tables, against those from the original.

Takes comparisons (one for each of m synthetic sets of the same original) and estimates of a study; gives a `Score`.
Definitions: combining rules of Reiter, "Inference for partially synthetic, public use microdata sets", Survey
Methodology 29 (2003), 181-188, and for samples of synthetic populations of Raghunathan, Reiter and Rubin, "Multiple
imputation for statistical disclosure limitation", Journal of Official Statistics 19 (2003), 1-16. Overlap of intervals:
Drechsler and Reiter 2009 (1) and Snoke et al. 2018 (2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field

from engine.evaluation.data.paired import Coded, Paired, covering
from engine.evaluation.data.words import matching
from engine.evaluation.score import Score, Section, not_computed, optional

Floats = NDArray[np.float64]
NAME = "estimates"
Rule = Literal["partial", "full"]
"""How sets are combined: of people with synthetic values, or each a sample of a synthetic population of its own."""
_LEVEL = 0.975
_NORMAL = 1.959963984540054
_DAY = 86_400_000_000
"""Microseconds."""
_ROUNDING = 1e-12
_BREAKDOWN = [
    *("name", "kind", "original", "se_original", "low_original", "high_original"),
    *("synthetic", "se_synthetic", "df", "low_synthetic", "high_synthetic"),
    *("overlap", "overlap_signed", "difference", "covers"),
]


class Estimate(Section):
    """A parameter that an analyst estimates, over the rows that have one of the listed values in `where`."""

    name: str
    # "mean" of `column`; "share" of rows with `value` in it; "slope" of `column` on `on` by least squares.
    kind: Literal["mean", "share", "slope"]
    column: str
    value: float | str | None = None
    on: str | None = None
    where: dict[str, list[float | str]] = Field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Combined:
    """What m synthetic sets say together."""

    q: float  # Mean of the estimates
    between: float  # Variance of the estimates, b_m; 0 where there is one
    within: float  # Mean of their variances, v_bar
    # Partial: T_p = b_m / m + v_bar. Full: T_f = (1 + 1 / m) b_m - v_bar; v_bar where that is not above 0,
    # which is Reiter's adjustment ("Satisfying disclosure restrictions with synthetic data sets", Journal
    # of Official Statistics 18 (2002), 531-544) for sets of the data's size.
    variance: float
    # Partial: (m - 1) (1 + v_bar / (b_m / m))^2. Full: (m - 1) (1 - v_bar / ((1 + 1 / m) b_m))^2. Infinite,
    # so the normal distribution, where m = 1, b_m = 0, or T_f was adjusted.
    df: float
    # low, high: 95 % interval.
    low: float
    high: float

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval."""
        return self.low, self.high


class _NotEstimable(Exception):
    """Why an estimate cannot be had; never leaves this module."""


def estimates(paired: Paired, section: Sequence[Estimate]) -> Score:
    """Compare declared estimates from one synthetic set with those from the original; see `combined_estimates`."""
    return combined_estimates([paired], section)


def combined_estimates(
    comparisons: Sequence[Paired], section: Sequence[Estimate], *, rule: Rule = "partial"
) -> Score:
    """Compare declared estimates from m synthetic sets with those from the original.

    comparisons: One for each synthetic set, all of one original; each estimate is read from the smallest
        table that has its columns.

    Returns: `mean_overlap` (definition 1), `lowest_overlap` (definition 2), `median_difference`,
    `share_covering`, `n`, `missing`; broken down by estimate.

    The rules for partially synthetic data hold as well for complete synthesis without a new sample (Raab, Nowok and
    Dibben 2017, doi:10.29012/jpc.v7i3.407). Estimates that cannot be had are counted in `missing`, with the reason.
    """
    if not comparisons or not section:
        return not_computed(NAME, "there is no synthetic table" if section else "none is declared")
    rows, notes = [], []
    for estimate in section:
        try:
            rows.append(_row(comparisons, estimate, rule))
        except _NotEstimable as reason:
            notes.append(f"{estimate.name}: {reason}")
    if not rows:
        return not_computed(NAME, "none could be had: " + "; ".join(notes))
    whole = pd.DataFrame(rows, columns=_BREAKDOWN)
    values = {
        "mean_overlap": float(whole["overlap"].mean()),
        "lowest_overlap": float(whole["overlap_signed"].min()),
        "median_difference": float(whole["difference"].median()),
        "share_covering": float(whole["covers"].mean()),
        "n": float(len(whole)),
        "missing": float(len(notes)),
    }
    return Score(measure=NAME, values=values, breakdown=whole, notes=tuple(notes))


def combine(q: Sequence[float], v: Sequence[float], *, rule: Rule = "partial") -> Combined:
    """Combine the estimates of m synthetic sets.

    rule: As in `combined_estimates`; one set is combined as "partial" in any case.
    """
    m, mean, within = len(q), float(np.mean(q)), float(np.mean(v))
    between = float(np.var(q, ddof=1)) if m > 1 else 0.0
    variance = between / m + within
    df, quantile = float("inf"), _NORMAL
    if rule == "full" and between > 0:
        variance = (1 + 1 / m) * between - within
        if variance > 0:
            df = (m - 1) * (1 - within / ((1 + 1 / m) * between)) ** 2
            quantile = _t_quantile(df)
        else:
            variance = within
    elif between > 0:
        df = (m - 1) * (1 + within / (between / m)) ** 2
        quantile = _t_quantile(df)
    half = quantile * variance**0.5
    return Combined(
        q=mean,
        between=between,
        within=within,
        variance=variance,
        df=df,
        low=mean - half,
        high=mean + half,
    )


def overlaps(first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    """Return how much two intervals overlap, by both definitions: 1 if they are the same.

    Returns: overlap: Mean of the shares of both that are common; 0 where they are disjoint (Drechsler and
    Reiter 2009, section 4); overlap_signed: The same with the gap as a negative length where they are
    disjoint (Snoke et al. 2018, section 4).
    """
    common = min(first[1], second[1]) - max(first[0], second[0])
    signed = (common / (first[1] - first[0]) + common / (second[1] - second[0])) / 2
    return max(signed, 0.0), signed


def _t_quantile(df: float) -> float:
    stdtrit = optional("scipy.special", "estimates").stdtrit
    # Beyond that many degrees it is the normal quantile, and the series is not made for more.
    return float(stdtrit(df, _LEVEL)) if df < 1e9 else _NORMAL


_LARGEST = 1e100
"""Values beyond are infinite when squared and summed."""


def _row(comparisons: Sequence[Paired], estimate: Estimate, rule: Rule) -> tuple[object, ...]:
    """One row of the breakdown."""
    _check(comparisons, estimate)
    q, v = _estimate(comparisons[0], comparisons[0].original, estimate)
    estimates = [_synthetic(paired, estimate) for paired in comparisons]
    truth = combine([q], [v])
    shown = combine([f[0] for f in estimates], [f[1] for f in estimates], rule=rule)
    if min(c.variance for c in (truth, shown)) <= (_ROUNDING * q) ** 2:
        raise _NotEstimable("it does not vary, so that it has no interval")
    overlap, signed = overlaps(truth.interval, shown.interval)
    error = truth.variance**0.5
    return (
        *(estimate.name, estimate.kind, q, error, *truth.interval),
        *(shown.q, shown.variance**0.5, shown.df, *shown.interval),
        *(overlap, signed, abs(shown.q - q) / error, shown.low <= q <= shown.high),
    )


def _check(comparisons: Sequence[Paired], estimate: Estimate) -> None:
    """Refuse what is declared wrong, or is of texts."""
    if estimate.kind == "slope" and estimate.on is None:
        raise _NotEstimable("a slope needs `on`")
    if estimate.kind == "share" and estimate.value is None:
        raise _NotEstimable("a share needs `value`")
    numbers = [] if estimate.kind == "share" else [c for c in (estimate.column, estimate.on) if c]
    for paired in comparisons:
        for column in numbers:
            if column in paired.values and paired.values[column].dtype == object:
                raise _NotEstimable(f"{column} is no number")


def _synthetic(paired: Paired, estimate: Estimate) -> tuple[float, float]:
    """Estimate and variance from the smallest table that has the columns."""
    table = covering(
        paired, {estimate.column, *([estimate.on] if estimate.on else []), *estimate.where}
    )
    if table is None:
        raise _NotEstimable("no table has its columns")
    return _estimate(paired, table, estimate)


def _estimate(paired: Paired, table: Coded, estimate: Estimate) -> tuple[float, float]:
    """Estimate and variance from one table."""
    if absent := sorted(
        {estimate.column, *([estimate.on] if estimate.on else []), *estimate.where}
        - set(table.columns)
    ):
        raise _NotEstimable(f"no table has {', '.join(absent)}")
    chosen = np.ones(len(table.n), np.bool_)
    for name, allowed in estimate.where.items():
        chosen &= matching(paired.values[name], allowed)[table.codes[name]]
    if estimate.kind == "share" and estimate.value is not None:
        is_value = matching(paired.values[estimate.column], [estimate.value])
        y = is_value[table.codes[estimate.column]].astype(np.float64)
        return _mean(y[chosen], table.n[chosen].astype(np.float64))
    y = _numbers(paired, table, estimate.column)
    chosen &= ~np.isnan(y)
    if estimate.on is None or estimate.kind == "mean":
        return _mean(y[chosen], table.n[chosen].astype(np.float64))
    x = _numbers(paired, table, estimate.on)
    chosen &= ~np.isnan(x)
    return _slope(x[chosen], y[chosen], table.n[chosen].astype(np.float64))


def _numbers(paired: Paired, table: Coded, name: str) -> Floats:
    """Values of a column, times in days since 1970; a blank is NaN."""
    values = paired.values[name]
    if values.dtype.kind == "M":
        values = values.astype("datetime64[us]").astype(np.int64) / _DAY
    numbers = np.append(values.astype(np.float64), np.nan)[table.codes[name]]
    if np.nanmax(np.abs(numbers), initial=0.0) > _LARGEST:
        raise _NotEstimable(f"a value of {name} is too large to be squared")
    return numbers


def _mean(y: Floats, n: Floats) -> tuple[float, float]:
    """Mean and its variance, s^2 / n."""
    total = float(n.sum())
    if total < 2:
        raise _NotEstimable("fewer than 2 records on one side")
    mean = float(n @ y) / total if y.min() < y.max() else float(y[0])
    return mean, float(n @ (y - mean) ** 2) / (total - 1) / total


def _slope(x: Floats, y: Floats, n: Floats) -> tuple[float, float]:
    """Slope by least squares and its classical variance."""
    total = float(n.sum())
    if total < 3:
        raise _NotEstimable("fewer than 3 records on one side")
    if x.min() == x.max():
        raise _NotEstimable("it is a slope on a column that is constant on one side")
    x, y = x - n @ x / total, y - n @ y / total
    spread = float(n @ x**2)
    slope = float(n @ (x * y)) / spread
    return slope, float(n @ (y - slope * x) ** 2) / (total - 2) / spread
