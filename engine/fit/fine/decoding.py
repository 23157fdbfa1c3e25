"""Decoding: rows that are known to lie in ranges of a column get values, each value as often as published.

Takes ranges with numbers of rows, and values with the rows that are there for them; gives each row a value. From the
finest ranges up, the rows of a range share what is left of its values. Where there are more rows than that, which
noise brings about, those over it look in the next larger range: first those that have left one already, then such
as no measurement is sure of. So a row leaves a range only where others that are known to lie in it have all its values.
Seeded by the sampling key; whole numbers only. Cost follows rows and values, not their product. Rows that want the same
are one entry, so memory follows the ranges; of each row no more than its value is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.fit.fine.boxes import ALIKE, EVERYTHING, places_of
from engine.fit.fine.lots import deal, taken_of
from engine.fit.fine.runs import AWAY, LEAVING, LOOSE, SURE, Runs, before, joined, parted, sums_of
from engine.ranges import ROOT_LEVEL, bit_length
from engine.schema import (
    KIND_NEGATIVE,
    KIND_NONNEGATIVE,
    Int64Array,
    Support,
    UInt8Array,
    UInt64Array,
)
from engine.sticky_prf import siphash


@dataclass(frozen=True, kw_only=True, slots=True)
class Supply:
    """Values that rows may get."""

    support: Support  # Of the column
    value: Int64Array  # shape (n_places,): Its codes, ascending within a class
    # shape (n_places,): Ascending: rows get values of their own class, as long as there are any.
    of_class: Int64Array
    n: Int64Array  # shape (n_places,): Rows that have the value


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """Rows that want a value, in items of one range and one class."""

    # kind, level: shape (n_items,)
    kind: UInt8Array
    level: UInt8Array
    index: Int64Array  # shape (n_items,)
    of_class: Int64Array  # shape (n_items,)
    n: Int64Array  # shape (n_items,): Rows of each item, one item's behind the other's
    # shape (n_items,): So many of an item's rows, its first, leave their range only after all others.
    sure: Int64Array


def supply_of(support: Support) -> Supply:
    """All values of a column, as its own table says."""
    none = np.zeros(len(support), dtype=np.int64)
    return Supply(support=support, value=np.arange(len(support)), of_class=none, n=support.n)


def decoded(wanted: Wanted, supply: Supply, key: bytes, column: int) -> NDArray[np.int32]:
    """Give each row a value."""
    level, at = _anchored(wanted, supply)
    parts = _parting(supply)
    ranges = _Ranges(head=np.arange(len(parts)), left=supply.n.copy())
    looking = _Looking(
        left=supply.n.copy(),
        value=supply.value.astype(np.int32),
        key=key,
        column=column,
        out=np.full(int(wanted.n.sum()), -1, dtype=np.int32),
    )
    runs, of = _runs(wanted, level, at)
    upto = np.searchsorted(of, np.arange(EVERYTHING + 1), side="right")
    waiting, done = runs.take(slice(0)), 0
    highest = int(level[level <= ROOT_LEVEL].max(initial=0))
    for here in (*range(highest + 1), ROOT_LEVEL, ALIKE, EVERYTHING):
        end = int(upto[here])
        waiting = joined(waiting, runs.take(slice(done, end)))
        done = max(done, end)
        if len(waiting):
            ranges = ranges.risen(parts, here)
            waiting = looking.served(waiting, ranges, here)
    return looking.out


def _anchored(wanted: Wanted, supply: Supply) -> tuple[Int64Array, Int64Array]:
    """Level of the smallest range around each item's that has a value, and the place of its first value there."""
    level, index = wanted.level.astype(np.int64), wanted.index.copy()
    at = np.zeros(len(level), dtype=np.int64)
    size = len(supply.support)
    composite = supply.of_class * size + supply.value
    looking = np.flatnonzero(level < ALIKE)
    is_valued = (wanted.kind == KIND_NEGATIVE) | (wanted.kind == KIND_NONNEGATIVE)
    while len(looking):
        first, end = places_of(
            supply.support, wanted.kind[looking], level[looking].astype(np.uint8), index[looking]
        )
        of = wanted.of_class[looking] * size
        found = np.searchsorted(composite, of + first)
        has_value = found < np.searchsorted(composite, of + end)
        at[looking[has_value]] = found[has_value]
        looking = looking[~has_value]
        up = is_valued[looking] & (level[looking] < ROOT_LEVEL)
        level[looking] = np.where(up, level[looking] + 1, ALIKE)
        index[looking] >>= 1
        looking = looking[up]
    alike = np.flatnonzero(level == ALIKE)
    of = wanted.of_class[alike]
    at[alike] = np.searchsorted(supply.of_class, of)
    missing = alike[np.searchsorted(supply.of_class, of, side="right") == at[alike]]
    level[missing], at[missing] = EVERYTHING, 0
    return level, at


def _parting(supply: Supply) -> Int64Array:
    """Smallest level at whose ranges each place lies in another one than the place before."""
    support, value = supply.support, supply.value
    kind = support.kind[value]
    magnitude = np.where(kind == KIND_NEGATIVE, ~support.grid[value], support.grid[value])
    parts = np.full(len(value), EVERYTHING + 1, dtype=np.int64)
    differ = (magnitude[1:] ^ magnitude[:-1]).view(np.uint64)
    between = np.zeros(len(differ), dtype=np.int64)
    between[differ > 0] = bit_length(differ[differ > 0])
    between[kind[1:] != kind[:-1]] = ALIKE
    between[supply.of_class[1:] != supply.of_class[:-1]] = EVERYTHING
    parts[1:] = between
    return parts


def _runs(wanted: Wanted, level: Int64Array, at: Int64Array) -> tuple[Runs, Int64Array]:
    """Rows of all items by the level of the ranges that they look in first, and that level."""
    begin = np.cumsum(wanted.n) - wanted.n
    sure = np.where(level > wanted.level, AWAY, SURE)
    loose = np.where(level > wanted.level, AWAY, LOOSE)
    both = Runs(
        row=np.concatenate([begin, begin + wanted.sure]),
        n=np.concatenate([wanted.sure, wanted.n - wanted.sure]),
        place=np.concatenate([at, at]),
        stays=np.concatenate([sure, loose]),
    )
    of = np.concatenate([level, level])
    there = np.flatnonzero(both.n > 0)
    order = there[np.argsort(of[there], kind="stable")]
    return both.take(order), of[order]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Ranges:
    """All ranges of one level."""

    head: Int64Array  # shape (n_ranges,): Their first places, ascending
    # shape (n_ranges,): Rows that still may have a value of each; booked in place.
    left: Int64Array

    def risen(self, parts: Int64Array, level: int) -> _Ranges:
        """Those of a higher level, each made of neighbours of these; `parts` as `_parting` gives it."""
        first = np.flatnonzero(parts[self.head] > level)
        return _Ranges(head=self.head[first], left=np.add.reduceat(self.left, first))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Looking:
    """Rows look for values in ever larger ranges; what is left, and what they got, is booked in place.

    Only ranges that somebody looks in are looked through; the others are merged, level by level.
    """

    left: Int64Array  # shape (n_places,): Rows that still may have the value
    value: NDArray[np.int32]  # shape (n_places,)
    # key, column: As in `decoded`.
    key: bytes
    column: int
    out: NDArray[np.int32]  # shape (n_rows,): The value of each row

    def served(self, runs: Runs, ranges: _Ranges, level: int) -> Runs:
        """Give rows values in their ranges of a level; those that are too many are returned."""
        node = np.searchsorted(ranges.head, runs.place, side="right") - 1
        runs, of, at = _by_group(runs, node)

        def seeds(lots: Int64Array) -> UInt64Array:
            group, stays = np.divmod(lots, len(LEAVING))
            return self._seeds(2 * level, at[group] * len(LEAVING) + stays)

        staying, leaving = parted(runs, of, ranges.left[at], seeds)
        if len(leaving):
            node = np.searchsorted(ranges.head, staying.place, side="right") - 1
            staying, of, at = _by_group(staying, node)
        if len(staying):
            self._deal(staying, of, at, ranges, level)
        return leaving

    def _deal(
        self, runs: Runs, of: Int64Array, at: Int64Array, ranges: _Ranges, level: int
    ) -> None:
        """Give rows values of their ranges by lot, spread evenly over what is left there."""
        wanted = sums_of(runs.n, of, len(at))
        ranges.left[at] -= wanted
        begin = ranges.head[at]
        n_places = np.append(ranges.head, len(self.left))[at + 1] - begin
        end = np.cumsum(n_places)
        head = end - n_places
        busy = np.arange(int(end[-1])) + np.repeat(begin - head, n_places)
        several = np.flatnonzero(n_places > 1)  # a range of one value has no lots
        seed = np.zeros(len(at), dtype=np.uint64)
        seed[several] = self._seeds(2 * level + 1, at[several])
        taken = taken_of(self.left[busy], head, end, wanted, seed)
        self.left[busy] -= taken
        group = (seed, wanted, np.cumsum(wanted) - wanted, head, end)
        run = (runs.row, runs.n, of, before(runs.n, of))
        deal(run, group, np.cumsum(taken), self.value[busy], self.out)

    def _seeds(self, draw: int, names: Int64Array) -> UInt64Array:
        """Bits of each group of a draw."""
        same = [np.full(len(names), one, dtype=np.uint64) for one in (self.column, draw)]
        return siphash(self.key, [*same, names.view(np.uint64)])


def _by_group(runs: Runs, node: Int64Array) -> tuple[Runs, Int64Array, Int64Array]:
    """Runs by their nodes and rows, the number of each one's group, and the node of each group."""
    order = np.argsort(node * (int(runs.row.max(initial=0)) + 1) + runs.row)
    node = node[order]
    heads = np.flatnonzero(np.diff(node, prepend=-1))
    of = np.repeat(np.arange(len(heads)), np.diff(np.append(heads, len(node))))
    return runs.take(order), of, node[heads]
