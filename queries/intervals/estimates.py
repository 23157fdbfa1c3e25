"""Estimates of groups with the noise of each: counts, sums, means, shares, ratios, quantiles.

Takes a table with its noise and the groups of a question; gives arrays with an entry a group. Every figure is a
weighted sum of rows to first order, so that one reckoning serves all: a mean weighs a row by its distance from the
mean, a share counts its total against it, a quantile is read off at the ranks that the noise leaves open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from engine.errors import QueryRefused
from engine.schema import BoolArray, FloatArray, Int64Array
from queries.intervals.buckets import sum_by
from queries.intervals.extrapolation import (
    Top,
    absorbed,
    beyond,
    ends_of,
    lower_higher,
    reaching,
    stretched,
)
from queries.intervals.filling import untold_spread
from queries.intervals.locked import count_sd, edge_variance, high_of_unreleased, knows
from queries.intervals.model import Groups
from queries.intervals.regions import Region, is_single
from queries.intervals.sums import Z, sparse_variance

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
    """One measure of all groups."""

    # value, low, high, sd: shape (n_groups,)
    value: FloatArray
    low: FloatArray
    high: FloatArray
    sd: FloatArray
    known: BoolArray  # shape (n_groups,): A released bucket says something of the group
    # 0 means nothing, as with counts, sums and shares; a mean or quantile near 0 is a figure like others.
    is_amount: bool = True
    is_count: bool = False  # Rows, in whole numbers with whole ends


def estimates_of(
    groups: Groups, *, measure: str, of: str | None, over: tuple[int, ...], quantile: float
) -> Estimates:
    """Reckon one measure; parameters as in `queries.intervals.tabulation.tabulate`, `over` as places among the
    columns.
    """
    table = groups.model.table
    place = None if of is None else table.columns.index(of)
    if place is not None and not table.released[place].is_number:
        raise QueryRefused(
            f"{measure} of {of}: it holds {table.released[place].sql_type}, and only numbers can be added up"
        )
    counted = counts(groups)
    if measure == "count" or not groups.region.n_groups:
        return counted
    if place is None:
        return _shares(groups, counted.known, over, is_ratio=measure == "ratio")
    numbers = table.released[place].numbers()[table.rows[:, place]]
    if measure in ("sum", "mean"):
        ends = ends_of(groups.release, groups.model)
        tops = [(end, float(end.far)) for end in ends if end.column == place]
        told = are_told(groups, numbers)
        return sums(groups, numbers, tops, is_mean=measure == "mean", told=told)
    return quantiles(groups, numbers, quantile)


def counted_rows(groups: Groups) -> tuple[FloatArray, BoolArray, BoolArray]:
    """Number of rows of each group; whether it is known, and whether more than the fill tells of it.

    The fill of many combinations makes a number known. That of one column knows its ranges, and that of three the
    tables of two; of two columns it takes them for independent, and nobody looked whether they rule each other out.
    """
    model, region, row = groups.model, groups.region, groups.row
    value = sum_by(region.group[row], model.table.n[row].astype(np.float64), region.n_groups)
    is_told = knows(groups)
    known = is_told if is_single(region) else is_told | (value > model.suppressed)
    return value, known, is_told if len(model.table.columns) == 2 else known


def are_told(groups: Groups, numbers: FloatArray) -> BoolArray:
    """Whether more than the fill tells of each group's rows with a number."""
    region = groups.region
    inside = np.where(np.isfinite(numbers), region.group, -1)
    return counted_rows(replace(groups, region=replace(region, group=inside)))[2]


def counts(groups: Groups) -> Estimates:
    """Number of rows of each group, in whole numbers with whole ends."""
    row, sd = groups.row, count_sd(groups)
    value, known, is_told = counted_rows(groups)
    less, more = lower_higher(absorbed(groups, row, np.ones(len(row))))
    down, up = (np.maximum(np.ceil(Z * sd + side - 0.5), 0.0) for side in (less, more))
    low = np.where(is_told, np.maximum(value - down, 0.0), 0.0)
    unreleased = np.maximum(high_of_unreleased(groups, value), value)  # never below the fill
    high = np.where(
        is_told, value + up, np.where(known, np.maximum(value + up, unreleased), unreleased)
    )
    return Estimates(value=value, low=low, high=high, sd=sd, known=known, is_count=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A figure to first order."""

    value: FloatArray  # shape (n_groups,)
    # shape (n_rows,): How much the group's figure changes with each row of its own.
    own: FloatArray
    # shape (n_groups,): How much it changes with a total that groups share.
    total: FloatArray | float = 0.0
    base: FloatArray | None = None  # shape (n_rows,): How much that total changes with each row
    total_of: Int64Array | None = None  # shape (n_groups,): Which total each group belongs to
    # more, less: shape (n_groups,): How much higher, and lower, it may be for what lies beyond the released
    # values.
    more: FloatArray | float = 0.0
    less: FloatArray | float = 0.0
    # shape (n_shifts, n_groups): How much higher it is at most for rows that are counted in it and are
    # elsewhere, as `absorbed` gives it.
    shift: FloatArray | float = 0.0
    # shape (n_groups,): Variance that values add to that of the rows.
    extra: FloatArray | float = 0.0
    # shape (n_groups,): Factor that noisy divisors put on the interval; NaN: it has no end.
    stretch: FloatArray | float = 1.0
    # shape (n_groups,): Standard deviation of its error, to first order, where it was reckoned with another
    # one.
    noise: FloatArray | None = None

    def sd(self, groups: Groups) -> FloatArray:
        """Standard deviation of its error, to first order."""
        if self.noise is not None:
            return self.noise
        region, row, sd = groups.region, groups.row, groups.model.sd
        if self.base is None or self.total_of is None:
            return groups.sd(row, self.own[row])
        group = region.group[row]
        in_total = self.total_of[group]
        total = np.broadcast_to(self.total, region.n_groups)
        per_total = np.bincount(in_total, minlength=int(self.total_of.max(initial=0)) + 1)
        size = per_total[self.total_of]
        n_entries = int(size.sum())
        is_long = n_entries > _FEW_ENTRIES and region.n_groups > _FEW_GROUPS
        if n_entries > _MOST_ENTRIES or is_long:
            # without what both have in common: a little too wide
            whole = sd(len(per_total), in_total, row, self.base[row])[self.total_of]
            apart: FloatArray = np.sqrt(groups.sd(row, self.own[row]) ** 2 + (total * whole) ** 2)
            return apart
        order = np.argsort(in_total, kind="stable")
        start = np.concatenate([[0], np.cumsum(per_total)])[:-1]
        of_sum = np.repeat(np.arange(region.n_groups), size)
        step = np.arange(len(of_sum)) - np.repeat(np.cumsum(size) - size, size)
        entry = order[start[self.total_of[of_sum]] + step]
        own = (group[entry] == of_sum) * self.own[row[entry]]
        weight = own + total[of_sum] * self.base[row[entry]]
        return sd(region.n_groups, of_sum, row[entry], weight)

    def half(self, groups: Groups) -> FloatArray:
        """How far it may be off, to the wider side."""
        noise: FloatArray = Z * np.sqrt(self.sd(groups) ** 2 + self.extra) * self.stretch
        less, more = lower_higher(np.atleast_2d(self.shift))
        return np.maximum(np.hypot(noise, self.less) + less, np.hypot(noise, self.more) + more)

    def estimates(self, groups: Groups, known: BoolArray) -> Estimates:
        """Its interval, where it is known."""
        sd = np.sqrt(self.sd(groups) ** 2 + self.extra) * self.stretch
        known = known & np.isfinite(self.value)
        half = np.where(known, Z * sd, np.nan)
        less, more = lower_higher(np.atleast_2d(self.shift))
        low = self.value - np.hypot(half, self.less) - less
        high = self.value + np.hypot(half, self.more) + more
        return Estimates(value=self.value, low=low, high=high, sd=sd, known=known)


def counted_part(groups: Groups) -> Part:
    """Rows of each group; where nothing tells of them they may be anywhere in the count's own interval."""
    estimates, group = counts(groups), groups.region.group
    is_known = estimates.known
    says = (group >= 0) & is_known[np.maximum(group, 0)]
    row = np.flatnonzero(says)
    return Part(
        value=estimates.value,
        own=says.astype(np.float64),
        more=np.where(is_known, 0.0, estimates.high - estimates.value),
        less=np.where(is_known, 0.0, estimates.value - estimates.low),
        shift=absorbed(groups, row, np.ones(len(row))) * is_known,
        extra=edge_variance(groups, row, np.ones(len(row))),
    )


def valued_part(groups: Groups, numbers: FloatArray, tops: Sequence[Top], *, is_mean: bool) -> Part:
    """Sum or mean of numbers over each group; blanks do not count, and of nothing it is NaN, as in SQL.

    `tops` as in `beyond`.
    """
    model, region = groups.model, groups.region
    row = np.flatnonzero((region.group >= 0) & np.isfinite(numbers))
    n = model.table.n.astype(np.float64)
    given = region.n_groups, region.group[row], row
    rows = sum_by(given[1], n[row], region.n_groups)
    value = sum_by(given[1], n[row] * numbers[row], region.n_groups)
    value = np.where(rows > 0, value, np.nan)
    more, less = beyond(groups, numbers, tops)
    weight, stretch, noise = numbers[row], np.ones(region.n_groups), None
    if is_mean:
        safe = np.maximum(rows, 1.0)
        value, more, less = value / safe, more / safe, less / safe
        weight = (weight - value[given[1]]) / safe[given[1]]
        noise, of_rows = groups.sds(row, np.stack([weight, np.ones(len(row))]))
        stretch = stretched(of_rows, rows)
    extra: FloatArray | float = edge_variance(groups, row, weight)
    if model.tree is not None:
        sparse = sparse_variance(model.table, *given, weight)
        extra = extra + np.where(model.locked(*given[:2]), 0.0, sparse)
        if not region.is_free:
            like = np.where(region.group >= 0, numbers, np.nan)  # within the limits
            unit = np.maximum(rows, 1.0) if is_mean else 1.0
            extra = extra + untold_spread(model.table, model.tree, *given, like) / unit**2
    own = np.zeros(len(numbers))
    own[row] = weight
    shift = absorbed(groups, row, weight)
    return Part(
        value=value,
        own=own,
        more=more,
        less=less,
        shift=shift,
        extra=extra,
        stretch=stretch,
        noise=noise,
    )


def sums(
    groups: Groups, numbers: FloatArray, tops: Sequence[Top], *, is_mean: bool, told: BoolArray
) -> Estimates:
    """Sum or mean of numbers over each group, where it is told; `tops` as in `beyond`, `told` as by `are_told`."""
    part = valued_part(groups, numbers, tops, is_mean=is_mean)
    return replace(part.estimates(groups, told), is_amount=not is_mean)


def joined(region: Region, operator: str, left: Part, right: Part) -> Part:
    """Two parts joined by + - * /, with the product and quotient rules; where both have a total it is the same one."""
    ones = np.ones(region.n_groups)
    with np.errstate(divide="ignore", invalid="ignore"):
        if operator == "*":
            value, by_left, by_right = left.value * right.value, right.value, left.value
        elif operator == "/":
            value = left.value / right.value
            by_left, by_right = 1 / right.value, -value / right.value
        else:
            by_left, by_right = ones, ones if operator == "+" else -ones
            value = left.value + by_right * right.value
    by_left, by_right = (np.nan_to_num(by, posinf=0.0, neginf=0.0) for by in (by_left, by_right))
    at = np.maximum(region.group, 0)
    ends = [(by * part.more, by * part.less) for by, part in ((by_left, left), (by_right, right))]
    of_total = right if left.base is None else left
    return Part(
        value=value,
        own=left.own * by_left[at] + right.own * by_right[at],
        total=left.total * by_left + right.total * by_right,
        base=of_total.base,
        total_of=of_total.total_of,
        more=sum(np.maximum(more, -less) for more, less in ends),
        less=sum(np.maximum(less, -more) for more, less in ends),
        shift=by_left * left.shift + by_right * right.shift,
        extra=by_left**2 * left.extra + by_right**2 * right.extra,
        stretch=np.maximum(left.stretch, right.stretch),
    )


def total_part(region: Region, part: Part, total_of: Int64Array, base: FloatArray) -> Part:
    """The total of a part over groups that share it, which changes with each row by `base`."""
    totals = sum_by(total_of, np.nan_to_num(part.value), region.n_groups)
    shifts = np.array(
        [
            sum_by(total_of, shift, region.n_groups)
            for shift in np.atleast_2d(part.shift) + np.zeros(region.n_groups)
        ]
    )
    # What one group has another lacks, but where there is no other.
    shifts[0] *= np.bincount(total_of, minlength=region.n_groups) == 1
    is_counted = bool(np.isin(base, (0.0, 1.0)).all())  # unreleased groups are in its noise
    more, less, extra = (
        0.0 if is_counted else sum_by(total_of, of_group, region.n_groups)[total_of]
        for of_group in (
            np.nan_to_num(given + np.zeros(region.n_groups))
            for given in (part.more, part.less, part.extra)
        )
    )
    return Part(
        value=totals[total_of],
        own=np.zeros(len(base)),
        total=np.ones(region.n_groups),
        base=base,
        total_of=total_of,
        more=more,
        less=less,
        shift=shifts[:, total_of],
        extra=extra,
    )


def _shares(
    groups: Groups, known: BoolArray, over: tuple[int, ...], *, is_ratio: bool
) -> Estimates:
    """Share of each group in its total, or its ratio to the rest of that total."""
    region = groups.region
    inside = (region.group >= 0).astype(np.float64)
    part = counted_part(groups)
    total = total_part(region, part, _totals(region, over), inside)
    # Of what is not released the part says how much it may be: it has an interval, too.
    found = joined(region, "/", part, total).estimates(groups, total.value > 0)
    share, is_known = found.value, known & found.known
    low = np.where(is_known, np.clip(found.low, 0.0, 1.0), 0.0)
    high = np.clip(np.nan_to_num(found.high, nan=1.0), 0.0, 1.0)
    if not is_ratio:
        return replace(found, low=low, high=high, known=is_known)
    with np.errstate(divide="ignore", invalid="ignore"):
        value, low, high = (at / (1 - at) for at in (share, low, high))
        sd = found.sd / (1 - share) ** 2
    return Estimates(value=value, low=low, high=high, sd=sd, known=is_known & (share < 1))


def _totals(region: Region, over: tuple[int, ...]) -> Int64Array:
    """Number of the total that each group belongs to."""
    if not over:
        return np.zeros(region.n_groups, dtype=np.int64)
    _, total_of = np.unique(region.codes[:, list(over)], axis=0, return_inverse=True)
    return total_of.reshape(-1).astype(np.int64)


def quantiles(groups: Groups, numbers: FloatArray, quantile: float) -> Estimates:
    """A quantile of each group, between neighbours in proportion, as DuckDB's quantile_cont."""
    region = groups.region
    inside = np.flatnonzero((region.group >= 0) & np.isfinite(numbers))
    row = inside[np.lexsort((numbers[inside], region.group[inside]))]
    group, n = region.group[row], groups.model.table.n[row].astype(np.float64)
    rows = sum_by(group, n, region.n_groups)
    start = np.concatenate([[0.0], np.cumsum(rows)])[:-1]
    upto = np.cumsum(n)
    place = start + (rows - 1) * quantile
    value = _at(numbers[row], upto, place)
    weight = np.where(numbers[row] <= value[group], 1.0 - quantile, -quantile)
    sd = groups.sd(row, weight)
    # Rows less above the quantile move the rank down, below it up; of those at it the nearer end of the column counts.
    middle = (np.nanmin(numbers) + np.nanmax(numbers)) / 2 if len(row) else 0.0
    at = value[group]
    is_upper = np.where(numbers[row] == at, at > middle, numbers[row] > at)
    moved = np.where(is_upper, -quantile, 1.0 - quantile)
    up, down = lower_higher(absorbed(groups, row, moved))
    reach = Z * sd + 0.5
    last = start + np.maximum(rows - 1, 0)
    known = are_told(groups, numbers) & (rows > 0)
    low = _end(numbers[row], upto, place, np.floor(place - reach - down), start, value)
    high = _end(numbers[row], upto, place, np.ceil(place + reach + up), last, value)
    model = groups.model
    least, most, lower, higher = reaching(numbers, model.table.n.astype(np.float64), model.beyond)
    low, high = np.where(low <= least, lower, low), np.where(high >= most, higher, high)
    low, high = (np.where(known & np.isfinite(sd), end, np.nan) for end in (low, high))
    value, sd = np.where(rows > 0, value, np.nan), (high - low) / (2 * Z)
    return Estimates(value=value, low=low, high=high, sd=sd, known=known, is_amount=False)


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
