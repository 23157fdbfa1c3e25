"""What an analyst would compute: regression slopes by group, principal components, declared estimates with intervals.

Definitions: P. Francis, arXiv:2403.08463, sections 4.5 and 4.7, and SDNIST. Combining rules of Reiter, Survey
Methodology 29 (2003), 181-188, and, for samples of synthetic populations, of Raghunathan, Reiter and Rubin, Journal of
Official Statistics 19 (2003), 1-16. Overlap of intervals: Drechsler and Reiter 2009 (1) and Snoke et al. 2018 (2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field

from engine.evaluation.data.aligned import (
    Aligned,
    Coded,
    Flags,
    Floats,
    Numbers,
    as_numbers,
    chosen_rows,
    compared,
    covering,
    listed,
    matching,
    nothing_to_compare,
    totals,
)
from engine.evaluation.findings import Finding, Section, not_computed, optional
from engine.evaluation.measures.counts import apart

Rule = Literal["partial", "full"]
"""How sets are combined: of people with synthetic values, or each a sample of a synthetic population of its own."""
_DIGITS, _FURTHEST = 9, 1e12
_LEVEL, _NORMAL, _ROUNDING = 0.975, 1.959963984540054, 1e-12
_LARGEST = 1e100
"""Values beyond are infinite when squared and summed."""


class RegressionGroup(Section):
    """Rows of one regression: those with one of the listed values in every column of `where`."""

    name: str
    where: dict[str, list[float | str]] = Field(default_factory=dict)


class Regression(Section):
    """Slopes of `y` on `x` by least squares, one for each group, rounded to `digits`."""

    x: str
    y: str
    digits: int = 2
    groups: tuple[RegressionGroup, ...]


class Components(Section):
    """Principal components of the widest table, compared by the Kolmogorov-Smirnov distance."""

    n: int = Field(default=5, ge=1)  # Number of components
    leave_out: tuple[str, ...] = ()
    binned: tuple[str, ...] = ()  # Columns that are binned first
    # Number that stands for a blank of a column; elsewhere `blank`.
    blanks: dict[str, float] = Field(default_factory=dict)
    blank: float = -1


class Estimate(Section):
    """A parameter that an analyst estimates, over the rows that have one of the listed values in `where`."""

    name: str
    # "mean" of `column`; "share" of rows with `value` in it; "slope" of `column` on `on` by least squares.
    kind: Literal["mean", "share", "slope"]
    column: str
    value: float | str | None = None
    on: str | None = None
    where: dict[str, list[float | str]] = Field(default_factory=dict)


# Regression by group


def regression(aligned: Aligned, options: Regression) -> Finding:
    """Differences of the slopes of one column on another, in several groups of rows.

    Rows where one of the two is blank do not count. Texts count by their place in the column's order. A group without
    a line on either side is named, never counted as equal.
    """
    wanted = (options.x, options.y, *(c for g in options.groups for c in g.where))
    needed = list(dict.fromkeys(wanted))
    table = compared(aligned, needed)
    if isinstance(table, str):
        return not_computed("regression", table)
    rows = []
    for group in options.groups:
        truth, shown = (_line(aligned, t, options, group) for t in (aligned.original, table))
        slopes = round(truth[0], options.digits), round(shown[0], options.digits)
        row = (group.name, *slopes, abs(slopes[1] - slopes[0]))
        rows.append((*row, truth[1], shown[1], truth[2], shown[2]))
    names = ["group", "original", "synthetic", "error", "original_intercept", "synthetic_intercept"]
    whole = pd.DataFrame(rows, columns=[*names, "original_rows", "synthetic_rows"])
    error = whole["error"].astype("float64").round(options.digits)
    without = whole.loc[error.isna(), "group"].tolist()
    figures = {
        "median_error": error.median(),
        "largest_error": error.max(),
        "n": error.notna().sum(),
    }
    none = "no group has rows with two values of x on both sides"
    notes = [f"no line in these groups, on a side: {listed(without)}"] if without else []
    return Finding("regression", figures, whole, why=none, notes=notes)


def _line(
    aligned: Aligned, table: Coded, options: Regression, group: RegressionGroup
) -> tuple[float, float, int]:
    """Slope, intercept and number of rows of a line of least squares over a group; NaN where there is none."""
    chosen = chosen_rows(aligned, table, group.where) & (table.n > 0)
    sides = []
    for name in (options.x, options.y):
        chosen &= table.codes[name] < len(aligned.values[name])
        sides.append(np.append(as_numbers(aligned.values[name]), np.nan)[table.codes[name]])
    x, y, n = sides[0][chosen], sides[1][chosen], table.n[chosen]
    total = int(n.sum())
    if not total or not np.isfinite(x).all() or not np.isfinite(y).all() or x.min() == x.max():
        return np.nan, np.nan, total
    line = fitted_line(x, y, n)
    return line.slope, line.intercept, total


# Principal components


def components(aligned: Aligned, options: Components) -> Finding:
    """Mean Kolmogorov-Smirnov distance of the principal components of the table with most columns.

    Columns are standardised by the original's mean and deviation, both sides projected on the original's components.
    Not computed where the table has fewer than half of the columns that tables show: it is a measure of all together.
    Blanks are the numbers that the study says, texts their place in the column's order, times are days. The public
    tool's solver draws at random, so that its figures differ by some 0.0002 from run to run; this one is exact.
    """
    if (why := nothing_to_compare(aligned)) is not None:
        return not_computed("components", why)
    left_out = set(options.leave_out)
    with_rows = [t for t in aligned.tables.values() if t.total]
    table = max(with_rows, key=lambda t: (len(set(t.columns) - left_out), len(t.n)))
    columns = tuple(c for c in table.columns if c not in left_out)
    n_all = len(set(aligned.original.columns) - left_out)
    if 2 * len(columns) < n_all:
        why = f"the widest table has {len(columns)} of the {n_all} columns that tables show: fewer than half"
        return not_computed("components", why)
    scaled: dict[str, Floats] = {}
    for name in columns:
        n = np.bincount(aligned.original.codes[name], aligned.original.n) / aligned.original.total
        numbers = _component_numbers(aligned, name, options)
        own = numbers[: len(n)][n > 0]  # only the original's own values: others may be endless
        with np.errstate(over="ignore", invalid="ignore"):
            mean = n[n > 0] @ own
            deviation = np.sqrt(n[n > 0] @ (own - mean) ** 2)
            if np.isfinite(deviation) and deviation > abs(mean) * 1e-12:
                scaled[name] = np.clip((numbers - mean) / deviation, -_FURTHEST, _FURTHEST)
    if len(scaled) < 2:
        why = "the widest table has fewer than 2 columns that vary in the original"
        return not_computed("components", why)
    sides = [
        np.column_stack([z[t.codes[name]] for name, z in scaled.items()])
        for t in (aligned.original, table)
    ]
    weights = aligned.original.n[:, np.newaxis]
    variance, vectors = np.linalg.eigh(sides[0].T @ (sides[0] * weights) / aligned.original.total)
    order = np.argsort(variance, kind="stable")[::-1][: min(options.n, len(scaled))]
    explained = np.maximum(variance[order], 0) / variance.sum()
    # Rounded, so that equal rows stay equal.
    first, second = (np.round(side @ vectors[:, order], _DIGITS).T for side in sides)
    distance = np.array(
        [
            ks_distance(one, other, aligned.original.n, table.n)
            for one, other in zip(first, second, strict=True)
        ]
    )
    notes = []
    if len(columns) < n_all:
        notes.append(f"components of {len(columns)} of {n_all} columns, as no table is wider")
    if constant := [c for c in columns if c not in scaled]:
        notes.append(
            f"constant in the original, or not finite, so in no component: {listed(constant)}"
        )
    number = np.arange(1, len(distance) + 1)
    return Finding(
        "components",
        {
            "mean_ks": distance.mean(),
            "largest_ks": distance.max(),
            "explained": min(explained.sum(), 1.0),
            "columns": len(columns),
        },
        pd.DataFrame({"component": number, "ks": distance, "explained": explained}),
        notes=notes,
        over=len(columns),
    )


def _component_numbers(aligned: Aligned, column: str, options: Components) -> Floats:
    """Numbers of a column's codes, the blank last."""
    blank = options.blanks.get(column, options.blank)
    if column in options.binned and column in aligned.groupings:
        return np.append(aligned.groupings[column].group[:-1].astype(np.float64), blank)
    return np.append(as_numbers(aligned.values[column]), blank)


def ks_distance(first: Floats, second: Floats, n_first: Numbers, n_second: Numbers) -> float:
    """Largest difference of two empirical distribution functions of weighted values, 0 to 1."""
    _, place = np.unique(np.concatenate([first, second]), return_inverse=True)
    sides = zip(np.split(place, [len(first)]), (n_first, n_second), strict=True)
    return apart(*(totals(at, n, int(place.max()) + 1) for at, n in sides))[0]


class Line(NamedTuple):
    """A line of least squares."""

    slope: float
    intercept: float
    square: float  # Sum of the squares of what it leaves
    spread: float  # Sum of the squares of x about its mean


def fitted_line(x: Floats, y: Floats, n: NDArray[Any]) -> Line:
    """Fit a line to points, each n times; not all x are the same."""
    middle = [float(np.average(side, weights=n)) for side in (x, y)]
    reach = float(np.abs(x - middle[0]).max())  # scaled, squares neither overflow nor vanish
    across, up = (x - middle[0]) / reach, y - middle[1]
    spread = float(np.sum(n * across**2))
    slope = float(np.sum(n * across * up)) / spread
    with np.errstate(over="ignore"):  # huge values, whose slope is asked for alone
        square = float(np.sum(n * (up - slope * across) ** 2))
    slope /= reach
    return Line(slope, middle[1] - slope * middle[0], square, spread * reach**2)


# Estimates


@dataclass(frozen=True, kw_only=True, slots=True)
class Combined:
    """What m synthetic sets say together."""

    q: float  # Mean of the estimates
    between: float  # Variance of the estimates, b_m; 0 where there is one
    within: float  # Mean of their variances, v_bar
    # Partial: T_p = b_m / m + v_bar. Full: T_f = (1 + 1 / m) b_m - v_bar; v_bar where that is not above 0,
    # which is Reiter's adjustment (Journal of Official Statistics 18 (2002), 531-544) for sets of the data's size.
    variance: float
    # Partial: (m - 1) (1 + v_bar / (b_m / m))^2. Full: (m - 1) (1 - v_bar / ((1 + 1 / m) b_m))^2. Infinite,
    # so the normal distribution, where m = 1, b_m = 0, or T_f was adjusted.
    df: float
    low: float  # low, high: 95 % interval
    high: float

    @property
    def interval(self) -> tuple[float, float]:
        return self.low, self.high


class _NotEstimable(Exception):
    """Why an estimate cannot be had; never leaves this module."""


def estimates(aligned: Aligned, options: Sequence[Estimate]) -> Finding:
    """Compare declared estimates from one synthetic set with those from the original; see `combined_estimates`."""
    return combined_estimates([aligned], options)


def combined_estimates(
    several: Sequence[Aligned], options: Sequence[Estimate], *, rule: Rule = "partial"
) -> Finding:
    """Compare declared estimates from m synthetic sets of one original with those from the original.

    Each estimate is read from the smallest table that has its columns. `mean_overlap` is definition 1, `lowest_overlap`
    definition 2. The rules for partially synthetic data hold as well for complete synthesis without a new sample (Raab,
    Nowok and Dibben 2017, doi:10.29012/jpc.v7i3.407). Estimates that cannot be had are counted in `missing`, with the
    reason.
    """
    if not several or not options:
        why = "there is no synthetic table" if options else "none is declared"
        return not_computed("estimates", why)
    rows, notes = [], []
    for estimate in options:
        try:
            rows.append(_row(several, estimate, rule))
        except _NotEstimable as reason:
            notes.append(f"{estimate.name}: {reason}")
    if not rows:
        return not_computed("estimates", "none could be had: " + "; ".join(notes))
    names = ["name", "kind", "original", "se_original", "low_original", "high_original"]
    names += ["synthetic", "se_synthetic", "df", "low_synthetic", "high_synthetic"]
    names += ["overlap", "overlap_signed", "difference", "covers"]
    whole = pd.DataFrame(rows, columns=names)
    figures = {
        "mean_overlap": whole["overlap"].mean(),
        "lowest_overlap": whole["overlap_signed"].min(),
        "median_difference": whole["difference"].median(),
        "share_covering": whole["covers"].mean(),
        "n": len(whole),
        "missing": len(notes),
    }
    return Finding("estimates", figures, whole, notes=notes)


def combine(q: Sequence[float], v: Sequence[float], *, rule: Rule = "partial") -> Combined:
    """Combine the estimates and variances of m synthetic sets; one set is combined as "partial" in any case."""
    m, mean, within = len(q), float(np.mean(q)), float(np.mean(v))
    between = float(np.var(q, ddof=1)) if m > 1 else 0.0
    variance, df = between / m + within, float("inf")
    if rule == "full" and between > 0:
        variance = (1 + 1 / m) * between - within
        if variance > 0:
            df = (m - 1) * (1 - within / ((1 + 1 / m) * between)) ** 2
        else:
            variance = within
    elif between > 0:
        df = (m - 1) * (1 + within / (between / m)) ** 2
    quantile = _NORMAL
    if df < 1e9:  # beyond it is the normal one, and the series is not made for more
        quantile = float(optional("scipy.special", "estimates").stdtrit(df, _LEVEL))
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
    """How much two intervals overlap, 1 if they are the same, by both definitions.

    The mean of the shares of both that are common, 0 where they are disjoint (Drechsler and Reiter 2009, section 4);
    the same with the gap as a negative length where they are disjoint (Snoke et al. 2018, section 4).
    """
    common = min(first[1], second[1]) - max(first[0], second[0])
    signed = (common / (first[1] - first[0]) + common / (second[1] - second[0])) / 2
    return max(signed, 0.0), signed


def _row(several: Sequence[Aligned], estimate: Estimate, rule: Rule) -> tuple[object, ...]:
    if estimate.kind == "slope" and estimate.on is None:
        raise _NotEstimable("a slope needs `on`")
    if estimate.kind == "share" and estimate.value is None:
        raise _NotEstimable("a share needs `value`")
    needed = {c for c in (estimate.column, estimate.on, *estimate.where) if c}
    for aligned in several if estimate.kind != "share" else ():
        for column in filter(None, (estimate.column, estimate.on)):
            if column in aligned.values and aligned.values[column].dtype == object:
                raise _NotEstimable(f"{column} is no number")
    q, v = _estimate(several[0], several[0].original, estimate, needed)
    found = [_estimate(one, covering(one, needed), estimate, needed) for one in several]
    truth, shown = combine([q], [v]), combine(*zip(*found, strict=True), rule=rule)
    if min(c.variance for c in (truth, shown)) <= (_ROUNDING * q) ** 2:
        raise _NotEstimable("it does not vary, so that it has no interval")
    error = truth.variance**0.5
    return (
        *(estimate.name, estimate.kind, q, error, *truth.interval),
        *(shown.q, shown.variance**0.5, shown.df, *shown.interval),
        *overlaps(truth.interval, shown.interval),
        *(abs(shown.q - q) / error, shown.low <= q <= shown.high),
    )


def _estimate(
    aligned: Aligned, table: Coded | None, estimate: Estimate, needed: set[str]
) -> tuple[float, float]:
    if table is None:
        raise _NotEstimable("no table has its columns")
    if absent := sorted(needed - set(table.columns)):
        raise _NotEstimable(f"no table has {', '.join(absent)}")
    chosen = chosen_rows(aligned, table, estimate.where)
    if estimate.kind == "share" and estimate.value is not None:
        is_value = matching(aligned.values[estimate.column], [estimate.value])
        return _mean(is_value[table.codes[estimate.column]].astype(np.float64), table, chosen)
    y = _numbers(aligned, table, estimate.column)
    if estimate.on is None or estimate.kind == "mean":
        return _mean(y, table, chosen & ~np.isnan(y))
    x = _numbers(aligned, table, estimate.on)
    return _slope(x, y, table, chosen & ~np.isnan(y) & ~np.isnan(x))


def _numbers(aligned: Aligned, table: Coded, name: str) -> Floats:
    """Values of a column, times in days since 1970; a blank is NaN."""
    numbers = np.append(as_numbers(aligned.values[name]), np.nan)[table.codes[name]]
    if np.nanmax(np.abs(numbers), initial=0.0) > _LARGEST:
        raise _NotEstimable(f"a value of {name} is too large to be squared")
    return numbers


def _mean(y: Floats, table: Coded, chosen: Flags) -> tuple[float, float]:
    """Mean and its variance, s^2 / n."""
    y, n = y[chosen], table.n[chosen].astype(np.float64)
    total = float(n.sum())
    if total < 2:
        raise _NotEstimable("fewer than 2 records on one side")
    mean = float(n @ y) / total if y.min() < y.max() else float(y[0])
    return mean, float(n @ (y - mean) ** 2) / (total - 1) / total


def _slope(x: Floats, y: Floats, table: Coded, chosen: Flags) -> tuple[float, float]:
    """Slope by least squares and its classical variance."""
    x, y, n = x[chosen], y[chosen], table.n[chosen]
    total = float(n.sum())
    if total < 3:
        raise _NotEstimable("fewer than 3 records on one side")
    if x.min() == x.max():
        raise _NotEstimable("it is a slope on a column that is constant on one side")
    line = fitted_line(x, y, n)
    return line.slope, line.square / (total - 2) / line.spread
