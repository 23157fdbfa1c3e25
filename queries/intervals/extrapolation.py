"""What lies beyond the outermost released values of a column of numbers: a few people at most, nobody knows where.

Takes the values of a table's rows and their groups; gives by how much each group's sum may be higher, or lower, than
what the release can show. The largest incomes of all stand in no released bucket; their rows are there, at values
nearer the middle, so that sums come out too small in every release and no noise evens that out.
"""

from __future__ import annotations

import numpy as np

from engine.schema import FloatArray, Int64Array
from queries.intervals.buckets import sum_by

OUTERMOST = 20
"""Rows at each end that tell how far values still reach; where all are the same value, the scale ends there."""

FURTHER, NEXT = 10.0, 1.5
"""How far beyond the outermost value: at most so much as that one lies beyond the mean of the outermost rows, and not
beyond the middle of the next range, which starts at the next power of two (ranges are snapped to these); nor across 0.
Incomes fall off by a power of about 2, so that the mean beyond the top is about twice the top; 10 times the distance
covers that on the sets of data named in `queries.intervals.sums`."""


def beyond(
    n_groups: int, group: Int64Array, numbers: FloatArray, n: FloatArray, n_beyond: int
) -> tuple[FloatArray, FloatArray]:
    """By how much the sums of groups may be higher, and lower, for rows beyond the outermost released values.

    Parameters
    ----------
    group : ndarray of int64, shape (n_rows,)
        -1: in no group.
    numbers : ndarray of float64, shape (n_rows,)
        NaN does not count.
    n : ndarray of float64, shape (n_rows,)
    n_beyond : int
        How many rows may lie beyond each end.

    Returns
    -------
    tuple of ndarray of float64, shape (n_groups,)
        Both at least 0.
    """
    valued = np.flatnonzero(np.isfinite(numbers) & (n > 0))
    row = valued[np.argsort(numbers[valued], kind="stable")]
    inside = row[group[row] >= 0]
    rows = sum_by(group[inside], n[inside], n_groups)
    added = sum_by(group[inside], n[inside] * numbers[inside], n_groups)
    mean = np.divide(added, rows, out=np.zeros(n_groups), where=rows > 0)
    more = _beyond_the_top(n_groups, group[row], numbers[row], n[row], mean)
    less = _beyond_the_top(n_groups, group[row][::-1], -numbers[row][::-1], n[row][::-1], -mean)
    return n_beyond * more, n_beyond * less


def _beyond_the_top(
    n_groups: int, group: Int64Array, numbers: FloatArray, n: FloatArray, mean: FloatArray
) -> FloatArray:
    """What one row above the largest of values, which are in order, adds to each group by its chance of it."""
    from_top = np.cumsum(n[::-1])[::-1]
    if not len(n) or from_top[0] < 2 * OUTERMOST:
        return np.zeros(n_groups)
    first = int(np.flatnonzero(from_top >= OUTERMOST)[-1])
    top, outer = numbers[-1], slice(first, None)
    if numbers[first] == top:
        return np.zeros(n_groups)
    further = FURTHER * (top - float((n[outer] * numbers[outer]).sum() / from_top[first]))
    inside = group[outer] >= 0
    share = sum_by(group[outer][inside], n[outer][inside], n_groups) / from_top[first]
    next_range = NEXT * 2.0 ** np.ceil(np.log2(top)) if top > 0 else 0.0
    added: FloatArray = share * np.maximum(min(top + further, next_range) - mean, 0.0)
    return added


def stretched(sd: FloatArray, of: FloatArray, z: float) -> FloatArray:
    """Factor by which a quotient's interval is longer than to first order, as its divisor is noisy; NaN: no end to it.

    Parameters
    ----------
    sd, of : ndarray of float64
        Standard deviation and value of the divisor.
    z : float
        Standard deviations on each side.
    """
    square = np.divide(z * sd, np.abs(of), out=np.full(len(of), np.inf), where=of != 0) ** 2
    return np.where(square < 1, 1 / np.maximum(1 - square, 1e-9), np.nan)
