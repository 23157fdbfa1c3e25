"""What no noise tells of: rows beyond the last released value of a column, and where in a range filled values stand.

Values too rare to be released lie beyond the outermost released one; their rows are counted, at values nearer the
middle. Takes an open release and a table; gives, for each end of each ordered column, copies of the counts in which as
many rows as thresholds can hide there are moved out, and others in which filled values are drawn anew from their range.
Sees released numbers only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.schema import BoolArray, FloatArray, Int64Array
from queries.intervals.buckets import ReleasedValues, TableBuckets
from queries.intervals.extrapolation import OUTERMOST, End, as_text, ends_of, value_at
from queries.intervals.model import NoiseModel, noise_model
from queries.sql import RowsBeyond, Session

DRAWS = 3
"""Copies for each end; the one that moves a figure furthest counts."""
MOST_MOVED = 1000
"""Rows of filled values that are moved in one copy."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tails:
    """What may lie beyond the ends of a table's columns, or elsewhere in a range.

    Attributes
    ----------
    rows : RowsBeyond
        Rows that the release does not have, each like one of its own in all columns but one.
    counts : ndarray of int64, shape (n_rows + n_beyond, n_terms * DRAWS)
        Counts of the table's rows and of those, copy by copy; the copies of one term stand together: first those of
        the ends, then those of columns whose filled values are drawn anew.
    most : tuple of int
        For each end, how many rows may lie beyond it.
    """

    rows: RowsBeyond
    counts: Int64Array
    most: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Move:
    """Rows moved to where nothing is released: those they are `like` but for one column, in which they have `code`.

    Of those `taken` there is one fewer for each.
    """

    like: Int64Array
    taken: Int64Array
    code: Int64Array


@dataclass(frozen=True, kw_only=True, slots=True)
class _Filled:
    """Values of a column that were filled in, codes `low` to `high` that each may stand for, and codes measured."""

    column: int
    is_filled: BoolArray
    low: Int64Array
    high: Int64Array
    measured: Int64Array


def tails(release: Session, model: NoiseModel, rng: np.random.Generator) -> Tails:
    """Draw the rows that may lie beyond the outermost released values of a table's columns, or elsewhere in a range.

    Parameters
    ----------
    model : NoiseModel
        Of the table.
    """
    table = model.table
    ends = ends_of(release, model)
    filled = [
        ranges
        for j, column in enumerate(table.released)
        if (ranges := _filled(release, j, column)) is not None
    ]
    moves = [(end.column, _beyond(table, end, rng)) for end in ends for _ in range(DRAWS)]
    moves += [(of.column, _inside(table, of, rng)) for of in filled for _ in range(DRAWS)]
    return Tails(
        rows=RowsBeyond(
            source=np.concatenate([np.zeros(0, dtype=np.int64), *(move.like for _, move in moves)]),
            column=tuple(table.columns[j] for j, move in moves for _ in move.like),
            value=tuple(
                as_text(value_at(table.released[j], code))
                for j, move in moves
                for code in move.code.tolist()
            ),
        ),
        counts=_counts(table, [move for _, move in moves]),
        most=tuple(end.hidden for end in ends),
    )


def _counts(table: TableBuckets, moves: Sequence[_Move]) -> Int64Array:
    """Counts of a table's rows and of those that it does not have, a copy for each move."""
    counts = np.repeat(table.n[:, None], len(moves), axis=1)
    copy = np.repeat(np.arange(len(moves)), [len(move.like) for move in moves])
    for at, move in enumerate(moves):
        np.subtract.at(counts[:, at], move.taken, 1)
    own = (copy[:, None] == np.arange(len(moves))).astype(np.int64)
    return np.concatenate([np.maximum(counts, 0), own])


def _beyond(table: TableBuckets, end: End, rng: np.random.Generator) -> _Move:
    """Rows moved beyond an end."""
    n, place = table.n.astype(np.float64), table.rows[:, end.column]
    near = np.where(end.outer[place], n, 0.0)
    column = table.released[end.column]
    like = _drawn(near, end.hidden, rng)
    beyond = end.last + np.ceil(rng.exponential(end.excess, len(like)) / column.step) * column.step
    taken = _with_the_same(table, end.column, like, rng)
    at_last = np.flatnonzero(end.sign * column.grid[place] == end.last)
    own = np.repeat(at_last, table.n[at_last])[:OUTERMOST]
    further = end.last + np.floor(rng.random(len(own)) * end.width / column.step) * column.step
    is_further = further > end.last
    codes = end.sign * np.concatenate([beyond, further[is_further]])
    like, taken = (
        np.concatenate([rows, own[is_further]]).astype(np.int64) for rows in (like, taken)
    )
    return _Move(like=like, taken=taken, code=codes.astype(np.int64))


def _filled(release: Session, j: int, column: ReleasedValues) -> _Filled | None:
    """Values of a column that were filled in, with the ranges that they stand for; None where there are none."""
    of_one = (column.name,)
    if of_one not in release.tables or not column.is_ordered:
        return None
    one = noise_model(release, of_one)
    if one.tree is None:
        return None
    bucket, place = one.tree.row_bucket, one.table.rows[:, 0]
    here = np.flatnonzero(~one.table.row_measured & (bucket >= 0) & column.valued[place])
    if not len(here):
        return None
    at, code = place[here], column.grid[place[here]]
    width = one.table.span[bucket[here], 0] + 1
    low, high = np.zeros((2, len(column.values)), dtype=np.int64)
    low[at] = np.maximum(code // width * width, column.grid[column.valued].min())
    high[at] = np.minimum(code // width * width + width - 1, column.grid[column.valued].max())
    is_filled = np.zeros(len(column.values), dtype=bool)
    is_filled[at] = True
    measured = column.grid[np.setdiff1d(np.flatnonzero(column.valued), at)]
    return _Filled(column=j, is_filled=is_filled, low=low, high=high, measured=measured)


def _inside(table: TableBuckets, of: _Filled, rng: np.random.Generator) -> _Move:
    """Rows of filled values moved to any place of their range that was not measured."""
    place, column = table.rows[:, of.column], table.released[of.column]
    rows = np.flatnonzero(of.is_filled[place] & (table.n > 0))
    like = np.repeat(rows, table.n[rows])
    if len(like) > MOST_MOVED:
        like = np.sort(rng.choice(like, MOST_MOVED, replace=False))
    low, high = of.low[place[like]], of.high[place[like]]
    steps = np.floor(rng.random(len(like)) * ((high - low) // column.step + 1)).astype(np.int64)
    code = low + steps * column.step
    is_open = ~np.isin(code, of.measured)
    return _Move(like=like[is_open], taken=like[is_open], code=code[is_open])


def _drawn(weight: FloatArray, n: int, rng: np.random.Generator) -> Int64Array:
    """Draw n places by their weights; none where these are all 0."""
    upto = np.cumsum(weight)
    if not len(upto) or upto[-1] <= 0:
        return np.zeros(0, dtype=np.int64)
    at: Int64Array = np.searchsorted(upto, rng.random(n) * upto[-1], side="right")
    return np.minimum(at, len(weight) - 1)


def _with_the_same(
    table: TableBuckets, j: int, rows: Int64Array, rng: np.random.Generator
) -> Int64Array:
    """For each row another one that is the same but for one column, drawn by how many there are."""
    others = np.delete(table.rows, j, axis=1)
    _, group = np.unique(others, axis=0, return_inverse=True)
    group = group.reshape(-1)
    order = np.argsort(group, kind="stable")
    upto = np.cumsum(table.n[order].astype(np.float64))
    before = np.concatenate([[0.0], upto])
    first = np.searchsorted(group[order], group[rows], side="left")
    after = np.searchsorted(group[order], group[rows], side="right")
    wanted = before[first] + rng.random(len(rows)) * (before[after] - before[first])
    at = np.minimum(np.searchsorted(upto, wanted, side="right"), len(order) - 1)
    taken: Int64Array = order[at]
    return taken
