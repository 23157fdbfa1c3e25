"""Runs: rows next to each other that want the same, kept as one entry however many they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from engine.fit.fine.lots import shuffled
from engine.schema import BoolArray, Int64Array, UInt64Array

AWAY, LOOSE, SURE = LEAVING = 0, 1, 2
"""Who leaves a crowded range first: rows that have left one already, those that no measurement is sure of, others."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Runs:
    """Disjoint runs of rows."""

    # row, n: shape (n_runs,): The first row, and how many.
    row: Int64Array
    n: Int64Array
    # shape (n_runs,): A place of the values that they want: what ranges they look in.
    place: Int64Array
    stays: Int64Array  # shape (n_runs,): One of `LEAVING`

    def __len__(self) -> int:
        return len(self.row)

    def take(self, where: Int64Array | BoolArray | slice) -> Runs:
        """Some of the runs."""
        return Runs(
            row=self.row[where],
            n=self.n[where],
            place=self.place[where],
            stays=self.stays[where],
        )


def joined(first: Runs, second: Runs) -> Runs:
    """Runs one behind the other."""
    return Runs(
        row=np.concatenate([first.row, second.row]),
        n=np.concatenate([first.n, second.n]),
        place=np.concatenate([first.place, second.place]),
        stays=np.concatenate([first.stays, second.stays]),
    )


def sums_of(n: Int64Array, of: Int64Array, n_groups: int) -> Int64Array:
    """Rows of each group, in whole numbers."""
    return np.bincount(of, weights=n, minlength=n_groups).astype(np.int64)


def before(n: Int64Array, of: Int64Array) -> Int64Array:
    """Rows in the runs before each of the same group; runs stand by their groups."""
    upto = np.cumsum(n) - n
    heads = np.flatnonzero(np.diff(of, prepend=-1))
    sizes = np.diff(np.append(heads, len(of)))
    return upto - np.repeat(upto[heads], sizes)


def parted(
    runs: Runs, node: Int64Array, room: Int64Array, seeds: Callable[[Int64Array], UInt64Array]
) -> tuple[Runs, Runs]:
    """Rows for which their nodes have room, and those that are too many.

    seeds: Gives the seeds of the lots of those that leave a node alike, by their numbers: a node's times 3,
        and `stays`.
    """
    over = np.maximum(sums_of(runs.n, node, len(room)) - room, 0)
    if not over.any():
        return runs, runs.take(slice(0))
    of = node * len(LEAVING) + runs.stays
    size = sums_of(runs.n, of, len(room) * len(LEAVING)).reshape(-1, len(LEAVING))
    leaves = np.zeros_like(size)
    for first in LEAVING:
        leaves[:, first] = np.minimum(over, size[:, first])
        over -= leaves[:, first]
    out, all_of = leaves.ravel(), size.ravel()
    some = (out > 0) & (out < all_of)
    staying, drawn = _drawn(runs.take(some[of]), of[some[of]], all_of, out, seeds)
    whole = runs.take((out > 0)[of] & ~some[of])
    leaving = joined(whole, drawn)
    away = np.full(len(leaving), AWAY, dtype=np.int64)
    return (
        joined(runs.take((out == 0)[of]), staying),
        Runs(row=leaving.row, n=leaving.n, place=leaving.place, stays=away),
    )


def _drawn(
    runs: Runs,
    of: Int64Array,
    size: Int64Array,
    out: Int64Array,
    seeds: Callable[[Int64Array], UInt64Array],
) -> tuple[Runs, Runs]:
    """Those that stay, in pieces, and those that leave between them, by lot, where some of a group do."""
    order = np.lexsort((runs.row, of))
    runs, of = runs.take(order), of[order]
    end = np.cumsum(runs.n)
    begin = end - runs.n
    heads = np.flatnonzero(np.diff(of, prepend=-1))
    group = of[heads]
    count = out[group]
    number = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    size, seed = np.repeat(size[group], count), np.repeat(seeds(group), count)
    at = np.repeat(begin[heads], count) + shuffled(number, size, seed)
    at.sort()
    first = np.sort(np.concatenate([begin, at + 1]))
    last = np.sort(np.concatenate([at, end]))
    there = last > first
    return _cut(runs, begin, first[there], last[there]), _cut(runs, begin, at, at + 1)


def _cut(runs: Runs, begin: Int64Array, first: Int64Array, last: Int64Array) -> Runs:
    """Pieces of runs that lie one behind the other, by where they begin and end."""
    of = np.searchsorted(begin, first, side="right") - 1
    return Runs(
        row=runs.row[of] + first - begin[of],
        n=last - first,
        place=runs.place[of],
        stays=runs.stays[of],
    )
