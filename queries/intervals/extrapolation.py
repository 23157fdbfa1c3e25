"""What lies beyond the outermost released values of a column: a few people at most, nobody knows where.

Takes a table with its noise, and the groups of a question; gives each end of each ordered column, by how much sums may
be higher or lower for what is beyond, and how many rows at the last value may be beyond a group's limits. The largest
incomes of all stand in no released bucket; their rows are there, at values nearer the middle, most of them at the last
one, so that sums come out too small in every release and no noise evens that out. Sees released numbers only.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from engine.cell_keys import distinct_cells
from engine.schema import FloatArray, Int64Array
from queries.intervals.buckets import ReleasedValues, TableBuckets, sum_by
from queries.intervals.model import Groups, NoiseModel, noise_model
from queries.intervals.neighbours import beside
from queries.intervals.regions import Region
from queries.intervals.sums import Z
from queries.sql import Session

OUTERMOST, SHARE = 100, 0.02
"""Rows that tell how thinly values are spread at an end: so many, or this share of a smaller table's."""
REACH = 4.0
"""How far beyond ranges are looked for that may be hidden, in mean excesses of the outermost rows (e^-4 is 2 %)."""
LIKELY = 1.83
"""Mean excesses by which the mean of five rows is beyond where their range begins, at most in 95 of 100 cases: the
95 % quantile of a gamma distribution of shape 5, over 5. Five are as many as the standard threshold hides."""
FEWER = 20
"""Rows at each end that tell how far values still reach; where all are the same value, the scale ends there."""
FURTHER, NEXT = 10.0, 1.5
"""How far beyond the outermost value a quantile may be: at most so much as that one lies beyond the mean of the
outermost rows, and not beyond the middle of the next range, which starts at the next power of two (ranges are snapped
to these); nor across 0. Incomes fall off by a power of about 2, so that the mean beyond the top is about twice the
top; 10 times the distance covers that on the sets of data named in `queries.intervals.sums`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class End:
    """One end of one column, in codes of its grid, with the sign turned so that outward is up."""

    column: int
    sign: int  # 1: the upper end; -1: the lower one
    last: int  # The outermost released code
    width: int  # Codes of the range that stands at it: whoever is in it is there or further out
    counted: FloatArray  # shape (n_values,): Rows of the table by value
    # shape (n_ranges, n_values): Of these, rows that each range beyond may hold and does not release: the
    # fit counts them there.
    inside: FloatArray
    inner: int  # Where the outermost rows begin
    excess: float  # Their mean excess
    # Codes by which a row that stands at the last value is further out at most, on average.
    own: float
    # Codes by which all rows that ranges beyond may hold are further out than the last value, together.
    hidden: float
    far: Any  # Further out than any that is likely
    far_code: int  # Its code


Top = tuple[End, float]
"""An end, and what an expression is far beyond it."""


def ends_of(release: Session, model: NoiseModel) -> tuple[End, ...]:
    """Find the ends of a table's columns beyond which somebody may be; once as long as the release is open."""
    key = ("ends", model.table.columns)
    if model.tree is None:
        return ()
    if key not in release.models:
        release.models[key] = tuple(
            end
            for j, column in enumerate(model.table.released)
            for sign in (1, -1)
            if (end := _end(release, model, j, column, sign)) is not None
        )
    ends: tuple[End, ...] = release.models[key]
    return ends


def absorbed(groups: Groups, row: Int64Array, weight: FloatArray) -> FloatArray:
    """How much higher figures are for rows that are counted elsewhere than they are, at most.

    Those of rare values beside a lone one (`beside`), those by which filled ranges lean (`lean_of_rows`), and those
    beyond the last value, counted further inside.

    Where limits hold beyond the end, too, a row there belongs to them as one at the last value does; else it does not.
    Of groups that are not made of released values, the one with the last value is taken to go on beyond it.
    Parameters as in `Groups.sd`.

    Returns: Each may be all of this or nothing: what two parts of a figure share adds up. The first row is
    between groups, and in no total of theirs, the second what is leant by; then come sides of lone values,
    and ranges beyond ends.
    """
    ends, region = ends_of(groups.release, groups.model), groups.region
    if not region.n_groups:
        return np.zeros((1, 0))
    of_ends = [_of_end(groups.model.table, end, region, row, weight) for end in ends]
    leans = sum_by(region.group[row], weight * groups.model.lean[row], region.n_groups)
    between, *sides = beside(groups, row, weight)
    return np.stack([between, leans, *sides, *chain.from_iterable(of_ends)])


def _of_end(
    table: TableBuckets, end: End, region: Region, row: Int64Array, weight: FloatArray
) -> FloatArray:
    """The same for the ranges of one end."""
    j, out = end.column, np.zeros((len(end.inside), region.n_groups))
    is_open = region.is_free or region.reach[j][end.sign > 0]
    is_whole = is_open and region.allowed[j].all() and not region.is_free
    if is_whole and (not len(weight) or (weight == weight[0]).all()):
        return out  # wherever the rows are, they count alike
    if is_whole:  # blanks are in the groups, too, and count for nothing
        of_row = np.zeros(len(region.group))
        of_row[row] = weight
        row = np.flatnonzero(region.group >= 0)
        weight = of_row[row]
    column, code = table.released[j], table.rows[:, j]
    of_code = np.maximum(end.counted, 1.0)
    is_last = column.valued & (end.sign * column.grid == end.last)
    is_near = (end.inside.any(axis=0) | is_last) & region.allowed[j]
    if not is_near.any():
        return out
    here = np.flatnonzero(is_near[code[row]])
    row, weight = row[here], weight[here]
    codes = region.n_groups, len(column.values)
    (group, at), number = distinct_cells((region.group[row], code[row]), codes)
    part = sum_by(number, table.n[row] * weight, len(at)) / of_code[at]
    beyond_it = is_open * sum_by(group, part * is_last[at], region.n_groups)
    if is_whole:
        # No row leaves its group: where that has the last value, each moves from its own weight to that of this.
        share = sum_by(number, table.n[row].astype(np.float64), len(at)) / of_code[at]
        at_last = sum_by(group, share * is_last[at], region.n_groups)
        of_last = beyond_it / np.maximum(at_last, 1e-300)
        part = np.where(at_last[group] > 0, part - share * of_last[group], 0.0)
        beyond_it = np.zeros(region.n_groups)
    for i, rows in enumerate(end.inside):
        out[i] = sum_by(group, part * rows[at], region.n_groups) - rows.sum() * beyond_it
    return out


def lower_higher(shift: FloatArray) -> tuple[FloatArray, FloatArray]:
    """By how much figures may be lower, and higher, for what `absorbed` gives."""
    return np.maximum(shift, 0.0).sum(axis=0), np.maximum(-shift, 0.0).sum(axis=0)


def _end(
    release: Session, model: NoiseModel, j: int, column: ReleasedValues, sign: int
) -> End | None:
    """One end of a column; None where nothing lies beyond it, or its values are in no order."""
    valued = column.valued
    if not valued.any() or not column.is_ordered:
        return None
    of_one = (column.name,)
    one = noise_model(release, of_one) if of_one in release.tables else model
    n = np.where(valued, np.maximum(column.n, 0), 0).astype(np.float64)
    code = sign * column.grid
    order = np.argsort(np.where(valued, -code, np.iinfo(np.int64).max), kind="stable")
    order = order[: int(valued.sum())]
    upto = np.cumsum(n[order])
    wanted = min(OUTERMOST, SHARE * upto[-1])
    outer = order[: int(np.searchsorted(upto, wanted)) + 1]
    last, threshold = int(code[order[0]]), int(code[outer[-1]])
    excess = float((n[outer] * (code[outer] - threshold)).sum() / max(n[outer].sum(), 1.0))
    if excess <= 0:  # so many rows have the last value: the scale ends there
        return None
    width = _width(one.table, order[0]) if one.table.columns == of_one else 1
    drawn_from = _drawn_from(one, int(order[0]))
    reach = max(REACH * excess, column.step) + drawn_from
    levels = _hidden_ranges(sign * last, sign, width, reach)
    of_top = one.table.columns.index(column.name)
    inside = one.beyond * np.array(
        [_shares(column, sign * last, level, one.table.tops[of_top]) for level in levels]
    ).reshape(-1, len(code))
    counted = sum_by(model.table.rows[:, j], model.table.n.astype(np.float64), len(code))
    inside *= np.minimum(1.0, counted / np.maximum(inside.sum(axis=0), 1e-9))
    own = max(width - 1, drawn_from) / 2
    begin = [sign * _outside(sign * last, sign, at) for at in levels]
    told = begin, last, levels, threshold
    # Outermost rows are where they are counted: of what they are further out at most, half is to be expected.
    at_most = one.beyond * _further(*told, excess) + own * n[order[0]]
    hidden = one.beyond * _further(*told, excess + at_most / (2 * n[outer].sum()))
    return End(
        column=j,
        sign=sign,
        last=last,
        width=width,
        counted=counted,
        inside=inside,
        inner=threshold,
        excess=excess,
        own=own,
        hidden=hidden,
        far=value_at(column, sign * (last + math.ceil(reach))),
        far_code=last + math.ceil(reach),
    )


def _further(
    begin: Sequence[int], last: int, levels: Sequence[int], threshold: int, excess: float
) -> float:
    """Codes by which a row of each hidden range is further out than the last value, at most on average, together.

    Rows get rarer outward, so that half a range is the most; where values fall off by a power, as incomes do, their
    mean excess grows with them.
    """
    inner = np.array(begin, dtype=np.float64)
    grown = excess * np.maximum(inner / threshold if threshold > 0 else 1.0, 1.0)
    return float((inner - last + np.minimum(np.exp2(levels) / 2, LIKELY * grown)).sum())


def _width(table: TableBuckets, at: int) -> int:
    """Codes of the released range that one value of a one-way table stands for."""
    inside = np.flatnonzero((table.first[:, 0] <= at) & (table.last[:, 0] >= at) & table.measured)
    return int(table.span[inside, 0].min()) + 1 if len(inside) else 1


def _drawn_from(one: NoiseModel, at: int) -> int:
    """Codes, less 1, of the range that a one-way table's value was drawn from: it stands at the inner end."""
    table, tree = one.table, one.tree
    if tree is None or len(table.columns) > 1:
        return 0
    inside = (table.first[:, 0] <= at) & (table.last[:, 0] >= at)
    inside &= ~table.measured & (tree.is_open == 1)
    return int(table.span[inside, 0].max(initial=0))


def _hidden_ranges(last: int, sign: int, width: int, reach: float) -> list[int]:
    """Levels of the ranges beyond a code, not across 0, that may each hold as many rows as a threshold hides.

    Ranges are those of powers of two (`engine.ranges`): where the released one is the inner half, the outer one is not
    released.
    """
    found = []
    for level in range(max(width.bit_length() - 1, 0), 62):
        place = last >> level
        is_half = (place & 1 == 0) if sign > 0 else (place & 1 == 1)
        if is_half and abs(_outside(last, sign, level) - last) <= reach:
            found.append(level)
    return found


def _outside(last: int, sign: int, level: int) -> int:
    """The first code outside the range of a level that a code lies in."""
    place = last >> level
    return (place + 1) << level if sign > 0 else (place << level) - 1


def _shares(column: ReleasedValues, last: int, level: int, top: int) -> FloatArray:
    """Share of a hidden range's rows that the fit counts at each value.

    All go to its other half, which is released, and of each range in there the same number to both halves, if both are.
    The widest ranges (of level `top`) are no halves: what is in one that is hidden, all others share alike, blanks too.
    """
    share = np.where(column.valued & (column.grid >> level == last >> level), 1.0, 0.0)
    if level >= top:
        widest = np.where(column.valued, column.grid >> top, 0)
        _, of = np.unique(np.stack([column.kind, widest]), axis=1, return_inverse=True)
        share = np.full(len(share), 1 / (of.max() + 1))
    at = np.flatnonzero(share * column.valued)
    for finer in range(min(level, top) if len(at) else 0):
        half = column.grid[at] >> finer
        known = np.sort(half)  # `np.isin` may load numpy.ma, which takes longer than all this
        other = np.minimum(np.searchsorted(known, half ^ 1), len(known) - 1)
        share[at] /= 1 + (known[other] == half ^ 1)
    return share


def as_text(value: Any) -> str:
    """A value as SQL reads it."""
    return repr(value) if isinstance(value, float) else str(value)


def value_at(column: ReleasedValues, code: int) -> Any:
    """The value of a code, from two released values and their codes."""
    valued = np.flatnonzero(column.valued)
    order = valued[np.argsort(column.grid[valued], kind="stable")]
    low, high = int(order[0]), int(order[-1])
    span = int(column.grid[high] - column.grid[low])
    first: Any = column.values[low]
    steps = code - int(column.grid[low])
    if not span:
        return first
    if isinstance(first, datetime.time):  # seconds of a day, beyond which there is none
        begin, end, zero, last = (
            datetime.datetime.combine(datetime.date(2000, 1, 2), time)
            for time in (first, column.values[high], datetime.time.min, datetime.time(23, 59, 59))
        )
        return min(max(begin + (end - begin) * steps / span, zero), last).time()
    whole: Any = column.values[high] - first
    if isinstance(whole, int):
        return first + whole * steps // span
    if isinstance(whole, float):
        return first + whole * (steps / span)
    try:
        return first + whole * steps / span
    except OverflowError:  # a date before the first or beyond the last one that there is
        return column.values[high if steps > 0 else low]


def beyond(
    groups: Groups, numbers: FloatArray, tops: Sequence[Top]
) -> tuple[FloatArray, FloatArray]:
    """By how much the sums of groups may be higher, and lower, for rows that lie further out than the last value.

    Each hidden range beyond an end is taken to hold all rows that it may, and rows that stand at the inner end of the
    outermost range to be in the middle of it. Who has rows of the last value has these, too. That the fit counts them
    further inside than at the last value tells `absorbed`.

    numbers: NaN does not count.
    tops: Ends of the columns that the numbers are made of, and the number far beyond each; NaN: not known.

    Returns: Both at least 0.
    """
    table, region = groups.model.table, groups.region
    ends = np.zeros((2, region.n_groups))
    for end, number in tops:
        column = table.released[end.column]
        is_last = (column.valued & (end.sign * column.grid == end.last))[table.rows[:, end.column]]
        here = is_last & (region.group >= 0) & np.isfinite(numbers)
        rows = sum_by(region.group[here], table.n[here].astype(np.float64), region.n_groups)
        codes = rows * (end.own + end.hidden / max(table.n[is_last].sum(), 1))
        slope = _slope(table, end, numbers, number)
        ends[int(slope < 0)] += abs(slope) * codes
    more, less = ends
    return more, less


def _slope(table: TableBuckets, end: End, numbers: FloatArray, number: float) -> float:
    """What a code further out than the last one adds to numbers, by the one far beyond; else by the outermost rows."""
    column, code = table.released[end.column], table.rows[:, end.column]
    place = np.where(column.valued, end.sign * column.grid, end.inner - 1)[code]
    known = np.flatnonzero(np.isfinite(numbers) & (place >= end.inner) & (table.n > 0))
    inner = int(place[known].min(initial=end.last))
    at = [known[place[known] == one] for one in (end.last, inner)]
    if not len(at[0]):
        return 0.0
    last, first = (float(np.average(numbers[rows], weights=table.n[rows])) for rows in at)
    if math.isfinite(number):
        return (number - last) / (end.far_code - end.last)
    return (last - first) / (end.last - inner) if inner < end.last else 0.0


def _farthest(numbers: FloatArray, n: FloatArray) -> float:
    """How far a row above the largest of the outermost values may lie."""
    top = float(numbers[-1])
    further = FURTHER * (top - float((n * numbers).sum() / n.sum()))
    with np.errstate(over="ignore"):  # the range may end beyond all numbers
        next_range = NEXT * float(np.exp2(np.ceil(np.log2(top)))) if top > 0 else 0.0
    return min(top + further, next_range)


def reaching(
    numbers: FloatArray, n: FloatArray, n_beyond: int
) -> tuple[float, float, float, float]:
    """Return the smallest and the largest value, and how far rows beyond them may lie.

    numbers, n: NaN does not count; how many rows each stands for.
    """
    valued = np.flatnonzero(np.isfinite(numbers) & (n > 0))
    row = valued[np.argsort(numbers[valued], kind="stable")]
    if not len(row):
        return 0.0, 0.0, 0.0, 0.0
    ends = []
    for sign, inward in ((-1, row), (1, row[::-1])):
        outer = inward[: int(np.searchsorted(np.cumsum(n[inward]), FEWER)) + 1][::-1]
        last = float(numbers[inward[0]])
        is_open = n_beyond > 0 and numbers[outer[0]] != last
        far = sign * _farthest(sign * numbers[outer], n[outer]) if is_open else last
        ends.append((last, sign * max(sign * far, sign * last)))
    (low, lower), (high, higher) = ends
    return low, high, lower, higher


def stretched(sd: FloatArray, of: FloatArray) -> FloatArray:
    """Factor by which a quotient's interval is longer than to first order, as its divisor is noisy; NaN: no end
    to it.
    """
    square = np.divide(Z * sd, np.abs(of), out=np.full(len(of), np.inf), where=of != 0) ** 2
    return np.where(square < 1, 1 / np.maximum(1 - square, 1e-9), np.nan)
