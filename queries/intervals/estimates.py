"""Estimates of groups with the noise of each: counts, sums, means, shares, ratios, quantiles.

Takes a table with its noise and the groups of a question; gives arrays with an entry a group. Every figure is a
weighted sum of rows to first order, so that one reckoning serves all: a mean weighs a row by its distance from the
mean, a share counts its total against it, a quantile is read off at the ranks that the noise leaves open.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from engine.errors import QueryRefused
from engine.schema import BoolArray, FloatArray, Int64Array
from queries.intervals.buckets import sum_by
from queries.intervals.extrapolation import beyond, stretched
from queries.intervals.locked import count_sd, edge_variance, high_of_unreleased, is_single, knows
from queries.intervals.model import NoiseModel
from queries.intervals.regions import Region
from queries.intervals.sums import Z
from queries.sql import Session

Status = Literal["reliable", "low", "unreliable", "not released", "structural zero"]
"""reliable: the noise is small against the figure. low: released, and rounds to nothing or next to it. unreliable: the
noise is a large share of the figure. not released: suppressed, or empty: it is not told which. structural zero:
impossible by a declared rule."""
Measure = Literal["count", "sum", "mean", "share", "median", "quantile", "ratio"]
_MOST_ENTRIES = 500_000
_FEW_ENTRIES, _FEW_GROUPS = 5_000, 40
RELIABLE = 1 / 3
"""Half of the interval over the figure, up to which it is reliable."""
LOW = 2.0
"""Standard deviations of the noise, up to which a figure is next to nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimates:
    """One measure of all groups.

    Attributes
    ----------
    value, low, high, sd : ndarray of float64, shape (n_groups,)
    known : ndarray of bool, shape (n_groups,)
        A released bucket says something of the group.
    is_amount : bool
        0 means nothing, as with counts, sums and shares; a mean or quantile near 0 is a figure like others.
    is_count : bool
        Rows, in whole numbers with whole ends.
    """

    value: FloatArray
    low: FloatArray
    high: FloatArray
    sd: FloatArray
    known: BoolArray
    is_amount: bool = True
    is_count: bool = False


def estimates_of(
    release: Session,
    model: NoiseModel,
    region: Region,
    *,
    measure: str,
    of: str | None,
    over: tuple[int, ...],
    quantile: float,
) -> Estimates:
    """Reckon one measure; parameters as in `queries.intervals.tabulation.tabulate`, `over` as places among the columns.

    Raises
    ------
    QueryRefused
        The column holds no numbers.
    """
    counted = counts(release, model, region)
    if measure == "count":
        return counted
    if of is None:
        return _shares(model, region, counted, over, is_ratio=measure == "ratio")
    column = model.table.released[model.table.columns.index(of)]
    if not column.is_number:
        raise QueryRefused(
            f"{measure} of {of}: it holds {column.sql_type}, and only numbers can be added up"
        )
    numbers = column.numbers()[model.table.rows[:, model.table.columns.index(of)]]
    if measure in ("sum", "mean"):
        return sums(model, region, counted, numbers, is_mean=measure == "mean")
    return quantiles(model, region, counted, numbers, quantile)


def counts(release: Session, model: NoiseModel, region: Region) -> Estimates:
    """Number of rows of each group, in whole numbers with whole ends."""
    value = _added(region, model.table.n.astype(np.float64))
    sd = count_sd(release, model, region)
    known = knows(model, region)
    if not is_single(region):  # many combinations: what the fill put there says something, too
        known |= value > model.suppressed
    half = np.ceil(Z * sd - 0.5)
    low = np.maximum(value - half, 0.0)
    unreleased = np.maximum(
        high_of_unreleased(model, region, value), value
    )  # never below what the fill shows
    high = np.where(known, value + half, unreleased)
    low = np.where(known, low, 0.0)
    return Estimates(value=value, low=low, high=high, sd=sd, known=known, is_count=True)


def _added(region: Region, weight: FloatArray) -> FloatArray:
    """Sum of a weight of rows over each group."""
    inside = region.group >= 0
    return sum_by(region.group[inside], weight[inside], region.n_groups).astype(np.float64)


def sums(
    model: NoiseModel, region: Region, counted: Estimates, numbers: FloatArray, *, is_mean: bool
) -> Estimates:
    """Sum or mean of a column over each group; blanks do not count, as in SQL."""
    n = model.table.n.astype(np.float64)
    inside = (region.group >= 0) & np.isfinite(numbers)
    row = np.flatnonzero(inside)
    group = region.group[row]
    rows = sum_by(group, n[row], region.n_groups)
    value = sum_by(group, n[row] * numbers[row], region.n_groups)
    weight = numbers[row]
    if is_mean:
        value = np.divide(value, rows, out=np.full(len(value), np.nan), where=rows > 0)
        weight = (weight - value[group]) / rows[group]
    sd = model.sd_of_values(region.n_groups, group, row, weight)
    sd = np.sqrt(sd**2 + edge_variance(model, region, row, weight))
    known = counted.known & (rows > 0)
    more, less = beyond(region.n_groups, region.group, numbers, n, model.beyond)
    if is_mean:
        more, less = more / np.maximum(rows, 1.0), less / np.maximum(rows, 1.0)
        sd = sd * stretched(model.sd(region.n_groups, group, row, np.ones(len(row))), rows, Z)
    half = np.where(known, Z * sd, np.nan)
    low, high = value - half - less, value + half + more
    return Estimates(value=value, low=low, high=high, sd=sd, known=known, is_amount=not is_mean)


def _shares(
    model: NoiseModel,
    region: Region,
    counted: Estimates,
    over: tuple[int, ...],
    *,
    is_ratio: bool,
) -> Estimates:
    """Share of each group in its total, or its ratio to the rest of that total."""
    if not region.n_groups:  # the limits leave no value
        return counted
    total_of = _totals(region, over)
    totals = np.bincount(total_of, weights=counted.value)
    total = totals[total_of]
    share = np.divide(counted.value, total, out=np.full(len(total), np.nan), where=total > 0)
    safe = np.maximum(total, 1.0)
    inside = (region.group >= 0).astype(np.float64)
    sd = sd_with_total(
        model,
        region,
        total_of,
        own=inside / safe[np.maximum(region.group, 0)],
        total=-np.nan_to_num(share) / safe,
        base=inside,
    )
    known = counted.known & (total > 0)
    low = np.where(known, np.maximum(share - Z * sd, 0.0), 0.0)
    unreleased = np.minimum(counted.high / np.maximum(total, 1.0), 1.0)
    high = np.where(known, np.minimum(share + Z * sd, 1.0), unreleased)
    if not is_ratio:
        return Estimates(value=share, low=low, high=high, sd=sd, known=known)
    with np.errstate(divide="ignore", invalid="ignore"):
        return Estimates(
            value=share / (1 - share),
            low=low / (1 - low),
            high=high / (1 - high),
            sd=sd / (1 - share) ** 2,
            known=known & (share < 1),
        )


def _totals(region: Region, over: tuple[int, ...]) -> Int64Array:
    """Number of the total that each group belongs to."""
    places = region.places()
    if not over:
        return np.zeros(region.n_groups, dtype=np.int64)
    _, total_of = np.unique(places[:, list(over)], axis=0, return_inverse=True)
    return total_of.reshape(-1).astype(np.int64)


def sd_with_total(
    model: NoiseModel,
    region: Region,
    total_of: Int64Array,
    *,
    own: FloatArray,
    total: FloatArray,
    base: FloatArray,
) -> FloatArray:
    """Standard deviation of figures that change with rows of their own and with a total that others share.

    Parameters
    ----------
    total_of : ndarray of int64, shape (n_groups,)
        Which total each group belongs to.
    own, base : ndarray of float64, shape (n_rows,)
        Change of a row's own group, and of its total, with that row.
    total : ndarray of float64, shape (n_groups,)
        Change of each group's figure with its total.
    """
    row = np.flatnonzero(region.group >= 0)
    group = region.group[row]
    in_total = total_of[group]
    per_total = np.bincount(in_total, minlength=int(total_of.max(initial=0)) + 1)
    size = per_total[total_of]
    n_entries = int(size.sum())
    if n_entries > _MOST_ENTRIES or (
        n_entries > _FEW_ENTRIES and region.n_groups > _FEW_GROUPS
    ):  # without what both have in common: a little too wide
        alone = model.sd(region.n_groups, group, row, own[row])
        whole = model.sd(len(per_total), in_total, row, base[row])[total_of]
        apart: FloatArray = np.sqrt(alone**2 + (total * whole) ** 2)
        return apart
    order = np.argsort(in_total, kind="stable")
    start = np.concatenate([[0], np.cumsum(per_total)])[:-1]
    of_sum = np.repeat(np.arange(region.n_groups), size)
    step = np.arange(len(of_sum)) - np.repeat(np.cumsum(size) - size, size)
    entry = order[start[total_of[of_sum]] + step]
    weight = (group[entry] == of_sum) * own[row[entry]] + total[of_sum] * base[row[entry]]
    return model.sd(region.n_groups, of_sum, row[entry], weight)


def quantiles(
    model: NoiseModel, region: Region, counted: Estimates, numbers: FloatArray, quantile: float
) -> Estimates:
    """A quantile of each group, between neighbours in proportion, as DuckDB's quantile_cont."""
    inside = np.flatnonzero((region.group >= 0) & np.isfinite(numbers))
    row = inside[np.lexsort((numbers[inside], region.group[inside]))]
    group, n = region.group[row], model.table.n[row].astype(np.float64)
    rows = sum_by(group, n, region.n_groups)
    start = np.concatenate([[0.0], np.cumsum(rows)])[:-1]
    upto = np.cumsum(n)
    place = start + (rows - 1) * quantile
    value = _at(numbers[row], upto, place)
    weight = np.where(numbers[row] <= value[group], 1.0 - quantile, -quantile)
    sd = model.sd(region.n_groups, group, row, weight)
    reach = Z * sd + 0.5
    last = start + np.maximum(rows - 1, 0)
    known = counted.known & (rows > 0)
    low = _end(numbers[row], upto, place, np.floor(place - reach), start, value)
    high = _end(numbers[row], upto, place, np.ceil(place + reach), last, value)
    nothing = ~known | ~np.isfinite(sd)
    low, high = np.where(nothing, np.nan, low), np.where(nothing, np.nan, high)
    return Estimates(
        value=np.where(rows > 0, value, np.nan),
        low=low,
        high=high,
        sd=(high - low) / (2 * Z),
        known=known,
        is_amount=False,
    )


def _at(numbers: FloatArray, upto: FloatArray, place: FloatArray) -> FloatArray:
    """Values at some ranks of sorted rows that stand for several each, between neighbours in proportion."""
    if not len(numbers):
        return np.full(len(place), np.nan)
    place = np.nan_to_num(place)
    below = np.floor(place)
    last = len(numbers) - 1
    left = numbers[np.minimum(np.searchsorted(upto, below, side="right"), last)]
    right = numbers[np.minimum(np.searchsorted(upto, np.ceil(place), side="right"), last)]
    between: FloatArray = left + (right - left) * (place - below)
    return between


def _end(
    numbers: FloatArray, upto: FloatArray, place: FloatArray, rank: FloatArray, outermost: FloatArray, value: FloatArray
) -> FloatArray:  # fmt: skip
    """The value at a rank; where that is beyond a group's rows, as far beyond as these rows are apart.

    Not beyond the rows of all groups: what has no row of its own in one group is likely to be in another.
    """
    if not len(numbers):
        return np.full(len(place), np.nan)
    is_above = rank > place
    inside = np.where(is_above, np.minimum(rank, outermost), np.maximum(rank, outermost))
    end = _at(numbers, upto, inside)
    step = (end - value) / np.maximum(np.abs(outermost - place), 1.0)
    beyond_it = np.nan_to_num(end + np.abs(rank - inside) * step)
    farthest: FloatArray = np.clip(beyond_it, numbers.min(), numbers.max())
    return farthest


def holds(value: FloatArray, low: FloatArray, high: FloatArray) -> BoolArray:
    """Whether figures lie in their intervals, as every one that is shown must; no figure, or no end, is no fault."""
    slack = 1e-6 * np.maximum(np.abs(value), 1e-3)
    with np.errstate(invalid="ignore"):
        return ~((value < low - slack) | (value > high + slack))


def statuses(estimates: Estimates, ruled: BoolArray) -> tuple[Status, ...]:
    """Give each figure its status; see the module's first lines for the thresholds."""
    with np.errstate(invalid="ignore"):  # an end may be infinite, and a ratio to nothing has none
        half = (estimates.high - estimates.low) / 2
        low = estimates.is_amount & (np.abs(estimates.value) <= LOW * estimates.sd)
        sure = half <= RELIABLE * np.abs(estimates.value)
    number = np.where(sure, 0, 2)
    number = np.where(low, 1, number)
    number = np.where(np.isfinite(estimates.sd), number, 2)
    number = np.where(estimates.known, number, 3)
    number = np.where(ruled, 4, number)
    words: tuple[Status, ...] = (
        "reliable", "low", "unreliable", "not released", "structural zero",
    )  # fmt: skip
    return tuple(words[i] for i in number.tolist())
