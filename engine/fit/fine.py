"""Tables of two columns of many values, whose combinations are not listed: rows in released boxes, then values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from engine.fit.budget import BUDGET
from engine.fit.cells import Coarse
from engine.fit.supports import Marks, allowed_pairs, classes_of, is_leaf
from engine.fit.tree import UNRELEASED_CAP, Codes, FittedTree, fit_tree
from engine.fit.whole import by_running_sums, starts
from engine.kernels import Whole, kernel, part
from engine.params import NOISE_LAYERS
from engine.ranges import ROOT_LEVEL, bit_length, chosen_places, code_bounds
from engine.schema import (
    KIND_NEGATIVE,
    KIND_NONNEGATIVE,
    BoolArray,
    FloatArray,
    Int64Array,
    Measurement,
    Support,
    UInt8Array,
    UInt64Array,
)
from engine.sticky_prf import siphash

# Lots: every member of a group gets another rank, as if all had been shuffled, without a list of them.
#
# A keyed permutation of 0 .. size - 1, one number at a time: rounds of a Feistel network over a rectangle that holds
# the size, walked on until it is inside (Black and Rogaway, Ciphers with arbitrary finite domains, CT-RSA 2002, section
# 4; doi:10.1007/3-540-45760-7_9). It hides nothing, it only mixes: what it works on is released already.


ROUNDS, ROUNDS_OF_FEW, FEW = 8, 24, 32
"""Of fewer members than the last more rounds: there each mixes less. Then all pairs of ranks come equally often."""
_TIMES = np.uint64(ROUNDS_OF_FEW)
_GOLDEN, _FIRST, _SECOND = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)
_HALF, _SHIFT, _NEXT = np.uint64(32), np.uint64(30), np.uint64(27)


def shuffled(number: Int64Array, size: Int64Array, seed: UInt64Array) -> Int64Array:
    """Rank of each number among as many as there are."""
    return ranks(number, size, high_of(size), seed)


def high_of(size: Int64Array) -> Int64Array:
    """The smallest whole number whose square is not below each size: one side of its rectangle."""
    side: Int64Array = np.sqrt(size.astype(np.float64)).astype(np.int64)
    side += side * side < size
    return side


def deal(
    run: tuple[Int64Array, Int64Array, Int64Array, Int64Array],
    group: tuple[UInt64Array, Int64Array, Int64Array, Int64Array, Int64Array],
    running: Int64Array,
    value: NDArray[np.int32],
    out: NDArray[np.int32],
) -> None:
    """Give each row the value of a unit of its group, by lot.

    run: First row, number of rows, group, and members of the group in the runs before.
    group: Seed, size, units before the group's, first place of its values and the one behind the last.
    """
    seed, size, begin, head, end = group
    dealt(*run, seed, size, begin, head, end, high_of(size), running, value, out)


@part
def _drawn(of: Whole, turn: Whole, below: Whole, seed: Whole) -> Whole:
    """A number below another, by the bits of a hash (the finalizer of SplitMix64)."""
    bits = ((np.uint64(of) * _TIMES + np.uint64(turn)) * _GOLDEN) ^ seed
    bits = (bits ^ (bits >> _SHIFT)) * _FIRST
    bits = (bits ^ (bits >> _NEXT)) * _SECOND
    return np.int64(((bits >> _HALF) * np.uint64(below)) >> _HALF)


@part
def _shuffled(number: Whole, size: Whole, high: Whole, low: Whole, seed: Whole) -> Whole:
    """Rank of a number among as many as there are."""
    rounds = ROUNDS_OF_FEW if size < FEW else ROUNDS
    while True:
        left = number // low
        right = number - left * low
        for turn in range(0, rounds, 2):
            left += _drawn(right, turn, high, seed)
            left -= high if left >= high else 0
            right += _drawn(left, turn + 1, low, seed)
            right -= low if right >= low else 0
        number = left * low + right
        if number < size:
            return number


@part
def _place_of(unit: Whole, head: Whole, end: Whole, running: Int64Array) -> Whole:
    """The first place of a group up to which there are more units."""
    while head < end:
        middle = (head + end) >> 1
        if running[middle] > unit:
            end = middle
        else:
            head = middle + 1
    return head


@kernel
def dealt(
    row: Int64Array,
    n: Int64Array,
    of: Int64Array,
    number: Int64Array,
    seed: UInt64Array,
    size: Int64Array,
    begin: Int64Array,
    head: Int64Array,
    end: Int64Array,
    high: Int64Array,
    running: Int64Array,
    value: NDArray[np.int32],
    out: NDArray[np.int32],
) -> None:
    """Give each row the value of a unit of its group; `high` is a side of a group's rectangle."""
    for r in range(len(row)):
        group = of[r]
        if end[group] - head[group] == 1:
            out[row[r] : row[r] + n[r]] = value[head[group]]
            continue
        low = -(-size[group] // high[group])
        for offset in range(n[r]):
            rank = _shuffled(number[r] + offset, size[group], high[group], low, seed[group])
            at = _place_of(begin[group] + rank, head[group], end[group], running)
            out[row[r] + offset] = value[at]


@kernel
def ranks(number: Int64Array, size: Int64Array, high: Int64Array, seed: UInt64Array) -> Int64Array:
    """Rank of each number among as many as there are; `high` is a side of each rectangle."""
    out = np.empty(len(number), dtype=np.int64)
    for i in range(len(number)):
        low = -(-size[i] // high[i])
        out[i] = _shuffled(number[i], size[i], high[i], low, seed[i])
    return out


@kernel
def taken_of(
    units: Int64Array, head: Int64Array, end: Int64Array, wanted: Int64Array, seed: UInt64Array
) -> Int64Array:
    """So many of the units of each place as their group wants, spread evenly over them from a drawn unit on."""
    out = np.empty(len(units), dtype=np.int64)
    for group in range(len(head)):
        there = np.int64(0)
        for place in range(head[group], end[group]):
            there += units[place]
        before = np.int64(seed[group] >> np.uint64(1)) % there
        running = before // there
        for place in range(head[group], end[group]):
            before += units[place] * wanted[group]
            upto = before // there
            out[place] = upto - running
            running = upto
    return out


# Runs: rows next to each other that want the same, kept as one entry however many they are.


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
    staying, drawn = _left_by_lot(runs.take(some[of]), of[some[of]], all_of, out, seeds)
    whole = runs.take((out > 0)[of] & ~some[of])
    leaving = joined(whole, drawn)
    away = np.full(len(leaving), AWAY, dtype=np.int64)
    return (
        joined(runs.take((out == 0)[of]), staying),
        Runs(row=leaving.row, n=leaving.n, place=leaving.place, stays=away),
    )


def _left_by_lot(
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


# Boxes: a table's rows, in whole numbers, over the finest ranges at which it releases anything.
#
# Takes a measurement and the supports of its columns; gives disjoint boxes that cover all combinations: released
# buckets without released children, and the children that were not released of those that have some. What a bucket
# holds beyond its released children goes to the other ones, in proportion to the columns' own counts there (maximum
# entropy given these), capped where a bucket that large would have been released. Sees measurements and published
# tables only.


ALIKE, EVERYTHING = ROOT_LEVEL + 1, ROOT_LEVEL + 2
"""Levels above all ranges: all values of whatever kind that may stand in a row, and all values."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranges:
    """A range of each column, an entry a box."""

    # kind, level: shape (n_boxes, n_columns): As in `Measurement`.
    kind: UInt8Array
    level: UInt8Array
    index: Int64Array  # shape (n_boxes, n_columns)

    def __len__(self) -> int:
        return len(self.index)

    def take(self, where: Int64Array | BoolArray) -> Ranges:
        """Some of the boxes."""
        at = chosen_places(where)
        return Ranges(
            kind=self.kind.take(at, axis=0),
            level=self.level.take(at, axis=0),
            index=self.index.take(at, axis=0),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Boxes:
    """Disjoint boxes, and the rows in each."""

    ranges: Ranges
    n: Int64Array  # shape (n_boxes,): Rows, all > 0
    # shape (n_boxes,): So many of them the measurement is sure of: all but as many as its noise can be.
    sure: Int64Array


def whole_boxes(
    tree: Measurement,
    supports: tuple[Support, ...],
    *,
    noisy_total: int,
    floor: int,
    layer_sd: int,
    key: bytes,
    marks: tuple[Marks, ...] = (),
) -> Boxes:
    """Share out all rows among boxes."""
    total = int(supports[0].n.sum())
    leaf = is_leaf(tree)
    of_nodes = Ranges(kind=tree.kind, level=tree.level, index=tree.index)
    parent, missing = _without_released(tree, supports)
    weight = _Expected(supports, marks).of(missing)
    parent, missing, weight = parent[weight > 0], missing.take(weight > 0), weight[weight > 0]
    has_room = np.zeros(tree.n_nodes + 1, dtype=bool)
    has_room[parent] = True  # of nodes without released children all is their own anyway
    fitted = fit_tree(
        tree,
        noisy_total=noisy_total,
        total=float(total),
        has_room=has_room,
        floor=floor,
        layer_sd=layer_sd,
        is_capped=True,
    )
    depth = np.concatenate([[0], tree.depth.astype(np.int64) + 1])
    scale = tree.scale[np.minimum(depth[parent], len(tree.scale) - 1)].astype(np.float64)
    mass = _capped(parent, weight, fitted, UNRELEASED_CAP * scale)
    whole, open_rows = _in_whole(tree.parent + 1, depth, fitted.mass, parent, mass, total, key)
    noise = (NOISE_LAYERS * (layer_sd * tree.scale.astype(np.int64)) ** 2)[tree.depth]
    rows = np.concatenate([whole[1:][leaf], open_rows])
    sure = np.concatenate([np.maximum(whole[1:] - noise, 0)[leaf], np.zeros_like(open_rows)])
    kept = rows > 0
    both = _joined([of_nodes.take(leaf), missing])
    if not kept.any():  # nothing is released, or nothing can be: somewhere
        return Boxes(ranges=_everywhere(supports), n=np.array([total]), sure=np.array([0]))
    return Boxes(ranges=both.take(kept), n=rows[kept], sure=sure[kept])


def _without_released(
    tree: Measurement, supports: tuple[Support, ...]
) -> tuple[Int64Array, Ranges]:
    """Children that were not released, of the virtual root (0) and of every node with released ones (from 1)."""
    k = len(supports)
    inner = np.flatnonzero(~is_leaf(tree))
    child = np.flatnonzero(tree.parent >= 0)
    above = tree.parent[child]
    bit = np.where(tree.level[above] > 0, tree.index[child] & 1, 0) << np.arange(k)
    present = np.zeros((tree.n_nodes, 1 << k), dtype=bool)
    present[above, bit.sum(axis=1)] = True
    parts, owners = [_tops(tree, supports)], [np.zeros(0, dtype=np.int64)]
    owners[0] = np.zeros(len(parts[0]), dtype=np.int64)
    for bits in product((0, 1), repeat=k):
        half = np.array(bits)
        which = int((half << np.arange(k)).sum())
        node = inner[~present[inner, which] & ((half == 0) | (tree.level[inner] > 0)).all(axis=1)]
        halved = tree.level[node] > 0
        owners.append(node + 1)
        parts.append(
            Ranges(
                kind=tree.kind[node],
                level=tree.level[node] - halved.astype(np.uint8),
                index=np.where(halved, 2 * tree.index[node] + half, tree.index[node]),
            )
        )
    owner = np.concatenate(owners)
    order = np.argsort(owner, kind="stable")
    return owner[order], _joined(parts).take(order)


def _tops(tree: Measurement, supports: tuple[Support, ...]) -> Ranges:
    """Combinations of the columns' top ranges, as their supports have them, that are no released node."""
    tops = np.flatnonzero(tree.depth == 0)
    of_column = []
    for j, support in enumerate(supports):
        valued = _is_valued(tree.kind[tops, j])
        level = int(tree.level[tops[valued], j].max()) if valued.any() else ROOT_LEVEL
        has_range = _is_valued(support.kind)
        places = np.where(has_range, magnitude_of(support) >> level, 0)
        at_level = np.where(has_range, level, 0)
        # Values are sorted, so those of one range stand next to each other.
        parts = np.column_stack([support.kind, at_level, places])
        fresh = np.append(True, (parts[1:] != parts[:-1]).any(axis=1))[: len(parts)]
        of_column.append(parts[fresh])
    at = np.stack(np.meshgrid(*(np.arange(len(c)) for c in of_column), indexing="ij"), axis=-1)
    at = at.reshape(-1, len(supports))
    kind, levels, index = (
        np.column_stack([column[at[:, j], i] for j, column in enumerate(of_column)])
        for i in range(3)
    )
    known = {
        (*kinds, *indexes)
        for kinds, indexes in zip(tree.kind[tops].tolist(), tree.index[tops].tolist(), strict=True)
    }
    is_open = np.array(
        [
            (*kinds, *indexes) not in known
            for kinds, indexes in zip(kind.tolist(), index.tolist(), strict=True)
        ],
        dtype=bool,
    )
    return Ranges(
        kind=kind[is_open].astype(np.uint8),
        level=levels[is_open].astype(np.uint8),
        index=index[is_open],
    )


def _everywhere(supports: tuple[Support, ...]) -> Ranges:
    """One box of all values of all columns."""
    shape = (1, len(supports))
    return Ranges(
        kind=np.zeros(shape, dtype=np.uint8),
        level=np.full(shape, EVERYTHING, dtype=np.uint8),
        index=np.zeros(shape, dtype=np.int64),
    )


class _Expected:
    """Rows that boxes would hold if columns were independent, combinations that universes rule out left aside.

    In units of one over all rows; counts are added up in whole numbers.
    """

    def __init__(self, supports: tuple[Support, ...], marks: tuple[Marks, ...]) -> None:
        self._supports = supports
        self._running: list[Int64Array] = []
        firsts = []
        for j, support in enumerate(supports):
            of, first = classes_of(len(support), marks[j] if marks else {})
            counted = np.zeros((len(first), len(support) + 1), dtype=np.int64)
            for number in range(len(first)):
                counted[number, 1:] = np.cumsum(np.where(of == number, support.n, 0))
            self._running.append(counted)
            firsts.append(first)
        self._allowed = allowed_pairs(firsts, marks)

    def of(self, ranges: Ranges) -> FloatArray:
        """The weight of each box."""
        held = []
        for j, support in enumerate(self._supports):
            first, end = places_of(
                support, ranges.kind[:, j], ranges.level[:, j], ranges.index[:, j]
            )
            running = self._running[j]
            held.append((running[:, end] - running[:, first]).astype(np.float64))
        weight = np.zeros(len(ranges))
        for one, other in zip(*np.nonzero(self._allowed), strict=True):
            weight += held[0][one] * held[1][other]
        return weight


def places_of(
    support: Support, kind: UInt8Array, level: UInt8Array, index: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """First value of a column in each range, and the one behind the last."""
    low, high = code_bounds(kind, level, index)
    first, end = np.zeros(len(kind), dtype=np.int64), np.zeros(len(kind), dtype=np.int64)
    for one in np.unique(support.kind):
        begin, stop = np.searchsorted(support.kind, [one, one + 1])
        here = np.flatnonzero(kind == one)
        grid = support.grid[begin:stop]
        first[here] = begin + np.searchsorted(grid, low[here])
        end[here] = begin + np.searchsorted(grid, high[here], side="right")
    return first, end


def magnitude_of(support: Support) -> Int64Array:
    """Magnitude of each value: how far it is from 0 on its side."""
    return np.where(support.kind == KIND_NEGATIVE, ~support.grid, support.grid)


def _is_valued(kind: UInt8Array) -> BoolArray:
    """Kinds that lie on the grid."""
    valued: BoolArray = (kind == KIND_NEGATIVE) | (kind == KIND_NONNEGATIVE)
    return valued


def _joined(parts: list[Ranges]) -> Ranges:
    """Boxes one behind the other."""
    return Ranges(
        kind=np.concatenate([part.kind for part in parts]),
        level=np.concatenate([part.level for part in parts]),
        index=np.concatenate([part.index for part in parts]),
    )


def _capped(
    owner: Int64Array, weight: FloatArray, fitted: FittedTree, cap: FloatArray
) -> FloatArray:
    """Share each node's remainder among its unreleased children by weight; what the cap cuts off goes to the others."""
    left, rest = np.zeros(len(weight)), fitted.remainder
    free = weight
    for _ in range(3):
        sums = np.bincount(owner, weights=free, minlength=len(rest))
        rate = np.divide(rest, sums, out=np.zeros_like(rest), where=sums > 0)
        own = left + free * rate[owner]
        over = own > cap
        if not over.any():
            return own
        left = np.where(over, cap, 0.0)
        free = np.where(over, 0.0, weight)
        rest = np.maximum(
            fitted.remainder - np.bincount(owner, weights=left, minlength=len(rest)), 0.0
        )
    return own


def _in_whole(
    parent: Int64Array,
    depth: Int64Array,
    mass: FloatArray,
    owner: Int64Array,
    open_mass: FloatArray,
    total: int,
    key: bytes,
) -> tuple[Int64Array, Int64Array]:
    """Whole rows of each node (the virtual root first) and of each unreleased child; both add up to their parents."""
    whole, open_rows = np.zeros(len(mass), dtype=np.int64), np.zeros(len(owner), dtype=np.int64)
    whole[0] = total
    of_open = depth[owner]
    for level in range(int(depth.max(initial=0)) + 1):
        below = np.flatnonzero(depth == level + 1)
        opened = np.flatnonzero(of_open == level)
        above = np.concatenate([parent[below - 1], owner[opened]])
        if not len(above):
            continue
        order = np.argsort(above, kind="stable")
        above = above[order]
        heads = np.flatnonzero(np.diff(above, prepend=-1))
        name = above[heads]
        x = np.concatenate([mass[below], open_mass[opened]])[order]
        rows = np.empty(len(above), dtype=np.int64)
        have = np.add.reduceat(x, heads)
        rows[order] = by_running_sums(x, have, whole[name], heads, starts(key, name))
        whole[below], open_rows[opened] = rows[: len(below)], rows[len(below) :]
    return whole, open_rows


# Decoding: rows that are known to lie in ranges of a column get values, each value as often as published.
#
# Takes ranges with numbers of rows, and values with the rows that are there for them; gives each row a value. From the
# finest ranges up, the rows of a range share what is left of its values. Where there are more rows than that, which
# noise brings about, those over it look in the next larger range: first those that have left one already, then such as
# no measurement is sure of. So a row leaves a range only where others that are known to lie in it have all its values.
# Seeded by the sampling key; whole numbers only. Cost follows rows and values, not their product. Rows that want the
# same are one entry, so memory follows the ranges; of each row no more than its value is kept.


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


# A table of two columns of many values: whole rows in released boxes, then each row's values.
#
# Takes what `engine.fit.locking.lock_table` does; gives cells that show every value of both columns exactly as often as
# published. Where one column tells a coarser one, the other's values are shared out as the coarser table says.
# Where universes rule out what two rows hold, they exchange values with others.


FINE = 400_000
"""Tables of two columns with more combinations of values are fitted here."""


Values = tuple[NDArray[np.int32], NDArray[np.int32]]
"""Codes of both columns of each row."""


def is_fine(sizes: Sequence[int]) -> bool:
    """Whether columns of so many values have so many combinations that they are not listed; only of two columns."""
    return len(sizes) == 2 and sizes[0] * sizes[1] > FINE


def fine_pair(
    tree: Measurement,
    supports: tuple[Support, ...],
    *,
    noisy_total: int,
    floor: int,
    layer_sd: int,
    key: bytes,
    marks: tuple[Marks, ...] = (),
    coarse: tuple[Coarse, ...] = (),
) -> tuple[Codes, Int64Array]:
    """Fit a table of two columns.

    tree, supports, noisy_total, floor, layer_sd, key, marks, coarse: As in `engine.fit.locking.lock_table`;
        of several coarser tables the first is met exactly.

    Returns: codes: Distinct, in lexicographic order; n.
    """
    boxes = whole_boxes(
        tree,
        supports,
        noisy_total=noisy_total,
        floor=floor,
        layer_sd=layer_sd,
        key=key,
        marks=marks,
    )
    one = coarse[0].at[coarse[0].replaced] if coarse else 0
    other = 1 - one
    first = decoded(_wanted(boxes, one), supply_of(supports[one]), key, one)
    if coarse:
        items = _told_apart(boxes, other, coarse[0].told, first)
        second = decoded(items, _told_supply(coarse[0], supports[other]), key, other)
    else:
        second = decoded(_wanted(boxes, other), supply_of(supports[other]), key, other)
    values = (second, first) if one else (first, second)
    _exchanged(values, supports, marks)
    return _counted(values, len(supports[1]))


def _counted(values: Values, n_others: int) -> tuple[Codes, Int64Array]:
    """Distinct pairs of codes of rows in lexicographic order, and how many rows have each."""
    keys, counts = [], []
    for start in range(0, max(len(values[0]), 1), BUDGET.fine_rows):
        part = slice(start, start + BUDGET.fine_rows)
        key = values[0][part] * np.int64(n_others)
        key += values[1][part]
        key.sort()
        heads = _heads(key)
        keys.append(key[heads])
        counts.append(np.diff(np.append(heads, len(key))))
    key, n = np.concatenate(keys), np.concatenate(counts)
    if len(keys) > 1:
        order = np.argsort(key, kind="stable")
        key, n = key[order], n[order]
        heads = _heads(key)
        key, n = key[heads], np.add.reduceat(n, heads)
    return np.column_stack(np.divmod(key, n_others)).astype(np.int32), n.astype(np.int64)


def _heads(key: Int64Array) -> Int64Array:
    """The first of each kind of equal ones next to each other."""
    return np.flatnonzero(np.append(True, key[1:] != key[:-1])[: len(key)])


def _wanted(boxes: Boxes, column: int) -> Wanted:
    """What the rows of all boxes want of a column."""
    return Wanted(
        kind=boxes.ranges.kind[:, column],
        level=boxes.ranges.level[:, column],
        index=boxes.ranges.index[:, column],
        of_class=np.zeros(len(boxes.n), dtype=np.int64),
        n=boxes.n,
        sure=np.minimum(boxes.sure, boxes.n),
    )


def _told_supply(coarse: Coarse, support: Support) -> Supply:
    """Values of a column by the code of the coarser one that they stand with in its table."""
    table = coarse.table
    of_class = table.codes[:, coarse.replaced].astype(np.int64)
    value = table.codes[:, 1 - coarse.replaced].astype(np.int64)
    order = np.lexsort((value, of_class))
    return Supply(support=support, value=value[order], of_class=of_class[order], n=table.n[order])


def _told_apart(boxes: Boxes, column: int, told: Int64Array, values: NDArray[np.int32]) -> Wanted:
    """What rows want of a column, those of each box told apart by the code of the coarser one.

    Their values of the other column are put in that order, in place, a part of the rows after the other.
    """
    n_told = int(told.max(initial=0)) + 1
    end = np.cumsum(boxes.n)
    last_sure = end - boxes.n + np.minimum(boxes.sure, boxes.n)
    labels, counts, sures = [], [], []
    for start in range(0, max(len(values), 1), BUDGET.fine_rows):
        part = values[start : start + BUDGET.fine_rows]
        row = np.arange(start, start + len(part))
        box = np.searchsorted(end, row, side="right")
        label = box * n_told + told[part]
        order = np.argsort(label, kind="stable")  # so that the sure ones of a box stay the first
        part[:] = part[order]
        heads = _heads(label[order])
        labels.append(label[order[heads]])
        counts.append(np.diff(np.append(heads, len(part))))
        sures.append(np.add.reduceat((row < last_sure[box])[order].astype(np.int64), heads))
    box, of_class = np.divmod(np.concatenate(labels), n_told)
    ranges = boxes.ranges.take(box)
    return Wanted(
        kind=ranges.kind[:, column],
        level=ranges.level[:, column],
        index=ranges.index[:, column],
        of_class=of_class,
        n=np.concatenate(counts),
        sure=np.concatenate(sures),
    )


def _exchanged(values: Values, supports: tuple[Support, ...], marks: tuple[Marks, ...]) -> None:
    """Rows that universes rule out exchange their first column's value with others, in place."""
    classes, firsts = [], []
    for j, support in enumerate(supports):
        of, first = classes_of(len(support), marks[j] if marks else {})
        classes.append(of)
        firsts.append(first)
    allowed = allowed_pairs(firsts, marks)
    if allowed.all():
        return
    n_others = allowed.shape[1]
    small = np.min_scalar_type(allowed.size)
    pair = (classes[0].astype(small) * small.type(n_others))[values[0]]
    pair += classes[1].astype(small)[values[1]]
    for wrong in np.flatnonzero(~allowed.ravel()):
        i, j = divmod(int(wrong), n_others)
        # A row of classes (p, q) helps if (p, j) and (i, q) are allowed; first those that are wrong themselves.
        helps = allowed[:, [j]] & allowed[[i], :]
        for other in sorted(np.flatnonzero(helps.ravel()), key=lambda o: allowed.ravel()[o]):
            rows, others = np.flatnonzero(pair == wrong), np.flatnonzero(pair == other)
            count = min(len(rows), len(others))
            if not count:
                continue
            # Spread evenly over the rows, which stand in the order of the boxes.
            rows, others = rows[:count], others[np.arange(count) * len(others) // count]
            values[0][rows], values[0][others] = values[0][others], values[0][rows]
            pair[rows] = classes[0][values[0][rows]] * n_others + j
            pair[others] = i * n_others + classes[1][values[1][others]]
