"""Ends of figures, from what each of them is on copies of the table that it is reckoned from.

Takes the figures of a column, row by row: as shown, on each copy, on measured rows alone, with rows moved to where
nothing is released. Gives low and high ends and statuses; of figures that copies cannot tell, the reason.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.schema import KIND_OTHER, FloatArray
from queries.intervals.buckets import TableBuckets
from queries.intervals.copies.replicates import N_REPLICATES
from queries.intervals.copies.tails import DRAWS
from queries.intervals.estimates import Estimates, statuses

T = 2.0117 * math.sqrt(1 + 1 / N_REPLICATES)
"""Quantile of Student's t with 47 degrees of freedom, for a spread taken from 48 copies round their own mean."""
MEASURED, TABLE_MEASURED = 0.99, 0.8
"""Share of each column's values, and of a table's combinations, that must have been measured. What was filled in is the
same in all copies as in the release, with its error: scripts/intervals_copies.py shows what holds on each side."""
ENOUGH = 0.9
"""Share of copies in which a row must stand, and of values that a column must share with the answer to name rows."""
TIED = 0.125
"""A figure that takes at most this many different values for each copy goes by steps."""
SOME_TIED = 0.9
"""A figure that takes at most this many has some: copies lie in its interval, all of them, but of numbers of rows."""
MANY_STEPS = 8
"""A figure that takes so many values, the middle half of copies over a step at least, and has no quantile or mode in
it, is as good as normal: a number of rows, or its share of others. Between two of its values half a step is enough,
taken as the mean distance of those that copies take."""
_SAME = 1e-9


@dataclass(frozen=True, kw_only=True, slots=True)
class Spread:
    """The figures of one column with their ends."""

    # low, high: shape (n_rows,): NaN: none.
    low: FloatArray
    high: FloatArray
    status: Sequence[str]
    is_whole: bool


def measured_share(table: TableBuckets) -> float:
    """Share of a table's rows whose combination of values was measured; the placeholder of rare values is none."""
    is_known = table.row_measured.copy()
    for j, column in enumerate(table.released):
        is_known &= column.kind[table.rows[:, j]] != KIND_OTHER
    return float(table.n[is_known].sum() / max(int(table.n.sum()), 1))


def unfit(values: FloatArray) -> str | None:
    """Why a figure has no interval by its copies, or None; `values` as in `spread_of`."""
    shown, again, copies = values[:, 0], values[:, 1], values[:, 2:-1]
    endless = ~np.isfinite(shown)
    off = np.abs(np.where(endless, np.nan, again) - np.where(endless, 0.0, shown))
    is_same = (off <= _SAME * np.maximum(np.abs(shown), 1.0)) | (again == shown)
    if not (is_same | (np.isnan(shown) & np.isnan(again))).all():
        return "reckoned once more from the released rows it is another figure"
    there = np.isfinite(copies)
    if not there.any():
        return "its rows stand in no copy of the table, as those that a figure chooses or joins"
    moved = there & (copies != shown[:, None])
    return None if moved.any() else "it is the same in every copy of the table"


def _by_tails(
    value: FloatArray, of_tails: FloatArray, n_ends: int
) -> tuple[FloatArray, FloatArray]:
    """By how much figures may be lower, and higher, for rows that stand elsewhere; both at least 0.

    `of_tails` is what they are with rows moved, term by term as in `Tails`; NaN: no such row. The first `n_ends` terms
    are of rows beyond an end, which move a figure to one side; others may move it to either.
    """
    off = np.where(np.isfinite(of_tails), of_tails, np.nan) - value[:, None]
    off = np.nan_to_num(off).reshape(len(value), -1, DRAWS)
    if not off.size:
        return np.zeros(len(value)), np.zeros(len(value))
    below, above = -off.min(axis=2), off.max(axis=2)
    below[:, n_ends:] = above[:, n_ends:] = np.maximum(below, above)[:, n_ends:]
    lower, higher = (np.sqrt((np.maximum(to, 0.0) ** 2).sum(axis=1)) for to in (below, above))
    return lower, higher


def spread_of(
    values: FloatArray,
    of_tails: FloatArray,
    n_ends: int,
    *,
    is_whole: bool,
    is_stepped: bool = False,
) -> Spread:
    """Ends of figures.

    values: The answer, the same from the released rows once more, the copies, and from measured rows alone;
        NaN: no such row.
    is_stepped: They may be made of quantiles, modes or the like: however many values they take, they jump.
    """
    values = np.where(np.isfinite(values), values, np.nan)  # of what is endless nothing is known
    value, copies, measured = values[:, 0], values[:, 2:-1], values[:, -1]
    there = np.isfinite(copies)
    n = np.maximum(there.sum(axis=1), 1)
    off = np.where(there, copies - value[:, None], 0.0)
    mean = off.sum(axis=1) / n
    off = np.where(there, off - mean[:, None], 0.0)
    sd = np.sqrt((off**2).sum(axis=1) / np.maximum(n - 1, 1))
    half, furthest = T * sd, np.abs(off).max(axis=1)
    least = 1.0 if is_whole else 0.0
    half += _by_steps(values[:, 1:-1], half, furthest, least=least, is_stepped=is_stepped)
    # What noise does to a figure on average it did once already: the data lie as far the other way.
    lower, higher = _by_tails(value, of_tails, n_ends)
    low = np.minimum(value - mean - half, value) - lower
    high = np.maximum(value - mean + half, value) + higher
    if is_whole:
        low, high = np.ceil(low - 0.5 - _SAME), np.floor(high + 0.5 + _SAME)
    known = np.isfinite(measured) & np.isfinite(value)
    # 0 in the release and in every copy: nothing is released there, and no copy tells how much that may be.
    is_nothing = (value == 0) & ~(there & (copies != 0)).any(axis=1)
    is_sure = known & (there.mean(axis=1) >= ENOUGH) & ~is_nothing
    low, high = np.where(is_sure, low, np.nan), np.where(is_sure, high, np.nan)
    given = Estimates(
        value=value, low=low, high=high, sd=np.where(is_sure, sd, np.nan), known=known
    )
    status = [*statuses(given, np.zeros(len(value), dtype=bool))]
    return Spread(low=low, high=high, status=status, is_whole=is_whole)


def _by_steps(
    values: FloatArray, half: FloatArray, furthest: FloatArray, *, least: float, is_stepped: bool
) -> FloatArray:
    """How much longer intervals are, on each side, for figures that go by steps: between two, copies cannot tell.

    A median of whole ages, a mode or a rank stays the same in many copies and then jumps: all copies lie inside, and
    one step more, which is at least `least`; where a row's figure takes one value alone, the smallest step of all rows
    stands for it. A quotient of two medians takes more values, but some of them twice: its spread is no normal one
    either, and its widest gap stands for a step. A number of rows takes many (`MANY_STEPS`). Of whole figures all that
    are at most half a unit beyond an end are taken in later, which is half of their step.

    half, furthest: Half of the interval without it; how far the furthest copy is off.
    """
    ordered = np.sort(values, axis=1)  # NaN last
    gaps = np.diff(ordered, axis=1)
    is_new = gaps > _SAME * np.maximum(np.abs(ordered[:, 1:]), 1e-300)
    n_values, n = 1 + is_new.sum(axis=1), np.isfinite(values).sum(axis=1)
    gaps = np.where(is_new, gaps, 0.0)
    smallest = gaps[is_new].min() if is_new.any() else least
    step = np.where(n_values > 1, gaps.sum(axis=1) / np.maximum(n_values - 1, 1), smallest)
    step = np.maximum(step, least)
    jump = np.where(n_values <= TIED * n, step, gaps.max(axis=1))
    middle = np.take_along_axis(ordered, np.stack([n // 4, 3 * n // 4], axis=1), axis=1)
    is_normal = (n_values >= MANY_STEPS) & (middle[:, 1] - middle[:, 0] >= step) & (not is_stepped)
    longer = np.where(is_normal, step / 2, np.maximum(furthest - half, 0.0) + jump) - least / 2
    return np.where(n_values <= SOME_TIED * n, longer, 0.0)
