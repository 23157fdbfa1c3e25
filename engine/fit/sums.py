"""Bring cells to measured sums of a column: in each group rows move towards its larger or smaller values.

A group is a combination of a table's other columns. What its cells sum up to is known before only as well as rows
inside boxes are spread and boxes are counted; the measured sum is known up to its noise. The aim is the mean of both,
weighed by their variances, and made consistent with the narrower tables that the table is locked to, each group giving
way by the variance that is left. Cells are brought to it by linear calibration (Deville and Särndal 1992,
doi:10.1080/01621459.1992.10475217) in turns with raking: rows within a box give way by their number, boxes by the
variance of their noise. No group gains or loses rows, and values beyond the ends that a sum was clipped to stay out of
it: of them raking decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from engine.fit.cells import positions_in
from engine.fit.supports import is_valued, positions_in_support
from engine.fit.tree import Codes
from engine.kernels import kernel, part
from engine.params import NOISE_LAYERS
from engine.ranges import stored_codes
from engine.schema import (
    FloatArray,
    Int64Array,
    Measurement,
    Sums,
    Support,
    SyntheticTable,
)

_ROUNDS = 6  # in which aims are made consistent with several narrower tables
_LEAST, _MOST = 0.25, 4.0  # by which the rows of a cell are multiplied at once
_TINY = 1e-300  # so that nothing is divided by 0


class Moments(NamedTuple):
    """What is known of one column's sums in the groups of a table."""

    group: Int64Array  # shape (n_cells,): -1 where the column has no number
    value: FloatArray  # shape (n_cells,): Clipped, less the middle of its group
    box: Int64Array  # shape (n_cells,): The released bucket of the group that holds the cell, or all outside of these
    variance: FloatArray  # shape (n_boxes,): Of the noise of its count; inf: it has none
    sums: FloatArray  # shape (n_groups,): Measured
    noise: FloatArray  # shape (n_groups,): Variance of their noise; inf: not measured
    parts: (
        Int64Array  # shape (n_tables, n_groups): Group in each narrower table that has the column
    )


def moments_of(
    sums: Sums,
    tree: Measurement,
    supports: Sequence[Support],
    codes: Codes,
    node: Int64Array,
    of_groups: tuple[SyntheticTable, Int64Array],
    layer_sd: int,
) -> Moments:
    """Read the sums of a column for the cells of a table.

    node: As of `Placement`.
    of_groups: The table of the other columns, whose cells are the groups; and where each cell of this one lies in it.
    """
    j = tree.columns.index(sums.column)
    others = [i for i in range(len(supports)) if i != j]
    table, group = of_groups
    n_groups = len(table.n)
    stored = stored_codes(tree.kind[sums.node], tree.level[sums.node], tree.index[sums.node])
    wanted = np.column_stack([positions_in_support(supports[i], stored[:, i]) for i in others])
    at = positions_in(table.codes, np.ascontiguousarray(wanted, dtype=np.int32))
    known, at = np.flatnonzero(at >= 0), at[at >= 0]
    value = supports[j].grid.astype(np.float64)[codes[:, j]]
    low, high, middle = np.full(n_groups, -np.inf), np.full(n_groups, np.inf), np.zeros(n_groups)
    low[at], high[at], middle[at] = sums.low[known], sums.high[known], sums.middle[known]
    measured, noise = np.zeros(n_groups), np.full(n_groups, np.inf)
    measured[at] = sums.n[known]
    noise[at] = NOISE_LAYERS * (layer_sd * sums.scale[known].astype(np.float64)) ** 2
    # Buckets in which the other columns have single values are of one group; what is in no such is a box by group.
    is_own = np.concatenate([[False], (tree.level[:, others] == 0).all(axis=1)])
    box = np.where(is_own[node], node, len(is_own) + group)
    count_noise = np.full(len(is_own) + n_groups, np.inf)
    scale = tree.scale[tree.depth].astype(np.float64)
    count_noise[1 : len(is_own)] = NOISE_LAYERS * (layer_sd * scale) ** 2
    parts = [
        np.unique(np.delete(table.codes, i, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
        for i in range(len(others))
    ]
    return Moments(
        np.where(is_valued(supports[j].kind)[codes[:, j]], group, -1),
        np.clip(value, low[group], high[group]) - middle[group],
        box,
        count_noise,
        measured,
        noise,
        np.stack(parts).astype(np.int64),
    )


def beyond(
    sums: Sums, tree: Measurement, supports: Sequence[Support], table: SyntheticTable
) -> float:
    """Share of a column's total in a table that lies beyond the ends to which its measured sums are clipped."""
    j = tree.columns.index(sums.column)
    others = [i for i in range(len(supports)) if i != j]
    stored = stored_codes(tree.kind[sums.node], tree.level[sums.node], tree.index[sums.node])
    places = [positions_in_support(supports[i], stored[:, i]) for i in others]
    wanted = np.column_stack([np.zeros(len(sums.node)), *places]).astype(np.int32)
    codes = table.codes.copy()
    codes[:, j] = 0
    codes = np.ascontiguousarray(codes[:, [j, *others]])
    order = np.lexsort(wanted.T[::-1])
    at = positions_in(wanted[order], codes)
    at = np.where(at >= 0, order[at], -1)
    x = supports[j].grid[table.codes[:, j]].astype(np.float64)
    n = table.n * is_valued(supports[j].kind)[table.codes[:, j]]
    over = np.where(at >= 0, np.abs(x - np.clip(x, sums.low[at], sums.high[at])), 0.0)
    return float((n * over).sum() / max((n * np.abs(x)).sum(), _TINY))


class _Spread(NamedTuple):
    """How the rows of groups are spread."""

    mean: FloatArray  # shape (n_boxes,): Of the values in each box
    gives: FloatArray  # shape (n_boxes,): Share of its rows by which a box gives way
    middle: FloatArray  # shape (n_groups,): Mean over boxes, by what they give way
    sums: FloatArray  # shape (n_groups,)
    variance: FloatArray  # shape (n_groups,): Of what is known of the sum without measuring it


@part
def _spread(x: FloatArray, known: Moments) -> _Spread:
    n_boxes, n_groups = len(known.variance), len(known.sums)
    rows, mean, gives = np.zeros(n_boxes), np.zeros(n_boxes), np.zeros(n_boxes)
    of = np.full(n_boxes, -1)
    for i in range(len(x)):
        if known.group[i] >= 0:
            rows[known.box[i]] += x[i]
            mean[known.box[i]] += x[i] * known.value[i]
            of[known.box[i]] = known.group[i]
    weights, middle, sums = np.zeros(n_groups), np.zeros(n_groups), np.zeros(n_groups)
    for b in range(n_boxes):
        if of[b] >= 0:
            sums[of[b]] += mean[b]
            mean[b] /= max(rows[b], _TINY)
            weight = min(rows[b], known.variance[b])
            gives[b] = weight / max(rows[b], _TINY)
            weights[of[b]] += weight
            middle[of[b]] += weight * mean[b]
    for g in range(n_groups):
        middle[g] /= max(weights[g], _TINY)
    variance = np.zeros(n_groups)
    for i in range(len(x)):
        g, b = known.group[i], known.box[i]
        if g >= 0:
            within, between = known.value[i] - mean[b], mean[b] - middle[g]
            variance[g] += x[i] * (within * within + between * between * gives[b])
    return _Spread(mean, gives, middle, sums, variance)


@kernel
def aims(x: FloatArray, known: Moments) -> FloatArray:
    """What the cells of each group are to sum up to."""
    now = _spread(x, known)
    n_groups = len(now.sums)
    change, left = np.zeros(n_groups), np.zeros(n_groups)
    for g in range(n_groups):
        left[g] = now.variance[g]
        if known.noise[g] < np.inf:
            share = now.variance[g] / (now.variance[g] + known.noise[g])
            change[g] = share * (known.sums[g] - now.sums[g])
            left[g] = share * known.noise[g]
    n_tables = len(known.parts)
    off, weights = np.empty(n_groups), np.empty(n_groups)
    for turn in range(1 if n_tables == 1 else _ROUNDS * n_tables):
        of = known.parts[turn % n_tables]
        off[:], weights[:] = 0.0, 0.0
        for g in range(n_groups):
            off[of[g]] += change[g]
            weights[of[g]] += left[g]
        for g in range(n_groups):
            change[g] -= left[g] * (off[of[g]] / max(weights[of[g]], _TINY))
    for g in range(n_groups):
        change[g] += now.sums[g]
    return change


@kernel
def calibrate(x: FloatArray, known: Moments, aim: FloatArray) -> None:
    """Bring the cells of groups nearer to what they are to sum up to, in place."""
    now = _spread(x, known)
    rate = np.zeros(len(aim))
    for g in range(len(aim)):
        if known.noise[g] < np.inf and now.variance[g] > 0:
            rate[g] = (aim[g] - now.sums[g]) / now.variance[g]
    for i in range(len(x)):
        g, b = known.group[i], known.box[i]
        if g >= 0:
            away = known.value[i] - now.mean[b] + (now.mean[b] - now.middle[g]) * now.gives[b]
            x[i] *= min(max(1.0 + rate[g] * away, _LEAST), _MOST)
