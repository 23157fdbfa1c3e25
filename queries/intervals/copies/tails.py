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

from engine.schema import BoolArray, Int64Array
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
    """What may lie beyond the ends of a table's columns, or elsewhere in a range."""

    # Rows that the release does not have, each like one of its own in all columns but one.
    rows: RowsBeyond
    # shape (n_rows + n_beyond, n_terms * DRAWS): Counts of the table's rows and of those, copy by copy; the
    # copies of one term stand together: first those of the ends, then those of columns whose filled values
    # are drawn anew.
    counts: Int64Array
    n_ends: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Move:
    """Rows moved to where nothing is released: one fewer of each that they are `like`, and `code` in one column."""

    like: Int64Array
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
    """Draw the rows that may lie beyond the outermost released values of a table's columns, or elsewhere in a range."""
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
        n_ends=len(ends),
    )


def _counts(table: TableBuckets, moves: Sequence[_Move]) -> Int64Array:
    """Counts of a table's rows and of those that it does not have, a copy for each move."""
    counts = np.repeat(table.n[:, None], len(moves), axis=1)
    copy = np.repeat(np.arange(len(moves)), [len(move.like) for move in moves])
    for at, move in enumerate(moves):
        np.subtract.at(counts[:, at], move.like, 1)
    own = (copy[:, None] == np.arange(len(moves))).astype(np.int64)
    return np.concatenate([counts, own])


def _beyond(table: TableBuckets, end: End, rng: np.random.Generator) -> _Move:
    """Rows moved beyond an end, from where the fit counts them; those of the last value anywhere in its range."""
    n, place = table.n.astype(np.float64), table.rows[:, end.column]
    column = table.released[end.column]
    upto = np.cumsum(n * (end.inside.sum(axis=0) / np.maximum(end.counted, 1.0))[place])
    # One by one along the rows from a random start, so that no row is taken more often than it is there.
    like = np.searchsorted(upto, np.arange(rng.random(), upto[-1], 1.0), side="right")
    beyond = end.last + np.ceil(rng.exponential(end.excess, len(like)) / column.step) * column.step
    left = table.n - np.bincount(like, minlength=len(n))
    at_last = np.flatnonzero(end.sign * column.grid[place] == end.last)
    own = np.repeat(at_last, left[at_last])[:OUTERMOST]
    further = end.last + np.floor(rng.random(len(own)) * end.width / column.step) * column.step
    is_further = further > end.last
    codes = end.sign * np.concatenate([beyond, further[is_further]])
    like = np.concatenate([like, own[is_further]]).astype(np.int64)
    return _Move(like=like, code=codes.astype(np.int64))


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
    return _Move(like=like[is_open], code=code[is_open])
