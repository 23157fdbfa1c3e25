"""Rows are changed, one value at a time, until their counts come near to targets.

Rows of level indexes and tables of target counts in, better rows out. A step takes a batch of rows and a column: every
row of the batch takes the value that lowers the weighted squared error of all tables most, with some chance in it that
cools down. All values of a batch are weighed at once, so only a share of the changes is made: all of them would
overshoot. Of rows that are near already even a share would: there only changes are made that touch no count twice, and
the error never rises. Changes that lead out of an impossible combination are always made, whatever they do to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.fit.joint.chow_liu import Rows
from engine.schema import BoolArray, FloatArray, Int64Array

BARRED = 1e4
"""Cost of an impossible combination: above all that counts can make up for."""
BATCHES = 256
MOST_AT_ONCE = 512
"""Rows of a batch, at most."""
SMALLEST = 1e-30


@dataclass(frozen=True, kw_only=True, slots=True)
class Goal:
    """What one table of the rows should be."""

    axes: tuple[int, ...]  # Places of its columns
    n: FloatArray  # Counts, one axis a column, for the number of rows that are changed
    weight: FloatArray  # Of the squared error of each count; 0 where a count does not matter
    barred: BoolArray  # Combinations that no row may have


@dataclass(frozen=True, kw_only=True, slots=True)
class Sweep:
    """One pass over all rows and columns."""

    heat: float  # How much chance there is in a choice, in units of the cost
    share: float  # Share of the changes that are made, of rows that are possible
    # Of these, at once only such that leave different values, and go to others: of two values one change a
    # batch, enough for rows that are near.
    is_apart: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class _Layout:
    """Where the cells of all tables lie: one vector that holds each table once for each of its columns.

    A table's copy for a column has this column as its last axis; copies for the same column lie together, so that what
    a row would cost with each value of the column is the sum of a few stretches. Copy p's cell of row x is at
    x @ strides[:, p] + starts[p].
    """

    strides: FloatArray  # shape (n_columns, n_copies): Whole numbers: products of them are quick
    starts: FloatArray  # shape (n_copies,)
    own: tuple[Int64Array, ...]  # Copies for each column
    touched: tuple[Int64Array, ...]  # Copies of the tables that have the column
    segments: tuple[slice, ...]  # Where the copies for each column lie
    weight2: NDArray[np.float32]  # shape (n_cells,): Twice the weight of each cell


def search_rows(
    rows: Rows,
    goals: Sequence[Goal],
    sizes: Sequence[int],
    sweeps: Sequence[Sweep],
    rng: np.random.Generator,
) -> Rows:
    """Change rows until their tables come near to the goals."""
    layout = _laid_out(goals, sizes)
    x = rows.astype(np.float64)
    free = np.flatnonzero(np.array(sizes) > 1)
    n_batches = max(min(BATCHES, len(rows)), -(-len(rows) // MOST_AT_ONCE))
    for sweep in sweeps if len(rows) and len(goals) else ():
        cost = _costs(x, goals, sizes)
        for batch in np.array_split(rng.permutation(len(rows)), n_batches):
            here = x[batch]
            for column in rng.permutation(free).tolist():
                _change(here, column, sizes[column], cost, layout, sweep, rng)
            x[batch] = here
    return x.astype(np.int32)


def counted(rows: FloatArray | Rows, goal: Goal) -> FloatArray:
    """Counts of the rows by the columns of a goal; of its shape."""
    codes = np.ravel_multi_index(
        tuple(rows[:, axis].astype(np.int64) for axis in goal.axes), goal.n.shape
    )
    return np.bincount(codes, minlength=goal.n.size).reshape(goal.n.shape).astype(np.float64)


def _change(
    x: FloatArray,
    column: int,
    n_levels: int,
    cost: NDArray[np.float32],
    layout: _Layout,
    sweep: Sweep,
    rng: np.random.Generator,
) -> None:
    """Change one column of a batch of rows in place, and the costs with it."""
    own, segment = layout.own[column], layout.segments[column]
    if not len(own):
        return
    at = (x @ layout.strides[:, own] + layout.starts[own]).astype(np.int64)
    now = x[:, column].astype(np.int64)
    stretch = (at - now[:, np.newaxis] - segment.start) // n_levels
    price = cost[segment].reshape(-1, n_levels)[stretch].sum(axis=1)
    each = np.arange(len(x))
    is_barred = price[each, now] > BARRED / 2
    price[each, now] -= layout.weight2[at].sum(axis=1)  # a row is not in its own way
    if sweep.heat > 0:
        chance = rng.standard_exponential(price.shape, dtype=np.float32)
        price += np.float32(sweep.heat) * np.log(np.maximum(chance, SMALLEST))
    best = price.argmin(axis=1)
    best = np.where(price[each, best] < price[each, now], best, now)  # of equal ones the row's own
    may_move = (rng.random(len(x)) < sweep.share) | is_barred
    moved = np.flatnonzero((best != now) & may_move)
    if sweep.is_apart:
        moved = changes_apart(moved, now, best, is_barred)
    if not len(moved):
        return
    touched = layout.touched[column]
    here = x[moved]
    old = (here @ layout.strides[:, touched] + layout.starts[touched]).astype(np.int64)
    step = (best - now)[moved, np.newaxis] * layout.strides[column, touched].astype(np.int64)
    old, new = old.ravel(), (old + step).ravel()
    np.subtract.at(cost, old, layout.weight2[old])
    np.add.at(cost, new, layout.weight2[new])
    x[moved, column] = best[moved]


def changes_apart(
    moved: Int64Array, now: Int64Array, best: Int64Array, is_barred: BoolArray
) -> Int64Array:
    """Choose changes of one column that have no value in common: they touch no count twice, each helps as if alone.

    Rows that are impossible change besides.
    """
    forced, moved = moved[is_barred[moved]], moved[~is_barred[moved]]
    for values in (now, best):
        moved = moved[np.sort(np.unique(values[moved], return_index=True)[1])]
    crossed = np.isin(now[moved], best[moved])
    return np.concatenate([forced, moved[:1] if crossed.all() else moved[~crossed]])


def _costs(x: FloatArray, goals: Sequence[Goal], sizes: Sequence[int]) -> NDArray[np.float32]:
    """What one more row in each cell would add to the error, for all cells of the layout."""
    each = [
        2 * goal.weight * (counted(x, goal) - goal.n) + goal.weight + BARRED * goal.barred
        for goal in goals
    ]
    return _copied(each, goals, sizes)


def _laid_out(goals: Sequence[Goal], sizes: Sequence[int]) -> _Layout:
    """Lay out the cells of all tables."""
    strides, starts, table_of, column_of, segments = [], [], [], [], []
    end = 0
    for column in range(len(sizes)):
        first = end
        for table, goal in enumerate(goals):
            if column not in goal.axes:
                continue
            stride, step = np.zeros(len(sizes)), 1
            for axis in (column, *(a for a in reversed(goal.axes) if a != column)):
                stride[axis] = step
                step *= sizes[axis]
            strides.append(stride)
            starts.append(end)
            table_of.append(table)
            column_of.append(column)
            end += step
        segments.append(slice(first, end))
    of = np.array(column_of, dtype=np.int64)
    holds = [np.array([c in goals[t].axes for t in table_of], bool) for c in range(len(sizes))]
    return _Layout(
        strides=np.array(strides).reshape(-1, len(sizes)).T,
        starts=np.array(starts, dtype=np.float64),
        own=tuple(np.flatnonzero(of == c) for c in range(len(sizes))),
        touched=tuple(np.flatnonzero(has_column) for has_column in holds),
        segments=tuple(segments),
        weight2=_copied([2 * goal.weight for goal in goals], goals, sizes),
    )


def _copied(
    each: Sequence[FloatArray], goals: Sequence[Goal], sizes: Sequence[int]
) -> NDArray[np.float32]:
    """One value a cell, in the order of the layout."""
    parts = [np.empty(0, np.float32)]
    for column in range(len(sizes)):
        for goal, values in zip(goals, each, strict=True):
            if column in goal.axes:
                moved = np.moveaxis(values, goal.axes.index(column), -1)
                parts.append(moved.astype(np.float32).ravel())
    return np.concatenate(parts)
