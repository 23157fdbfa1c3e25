"""Tables of two columns of many values, whose combinations are not listed: rows in released boxes, then values.

Takes what `engine.fit.locking.lock_table` does; gives cells that show every value of both columns exactly as often as
published. Where one column implies a coarser one, the other's values are shared out as the coarser table says. Where
universes rule out what two rows hold, they exchange values with others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.cell_keys import run_starts
from engine.fit.cells import Coarse
from engine.fit.supports import Marks, allowed_pairs, classes_of, is_valued
from engine.fit.tree import Codes, Noise, boxes_filled, in_whole, tree_of
from engine.kernels import Whole, kernel, part
from engine.params import NOISE_LAYERS
from engine.ranges import ROOT_LEVEL, bit_length, code_bounds
from engine.schema import (
    KIND_NEGATIVE,
    FloatArray,
    Int64Array,
    Measurement,
    Support,
    UInt64Array,
    is_leaf,
)
from engine.sticky_prf import siphash

FINE = 400_000
"""Tables of two columns with more combinations of values are fitted here."""


def is_fine(sizes: Sequence[int]) -> bool:
    """Whether columns of so many values have so many combinations that they are not listed; only of two columns."""
    return len(sizes) == 2 and sizes[0] * sizes[1] > FINE


def fine_pair(
    tree: Measurement,
    supports: tuple[Support, ...],
    *,
    noise: Noise,
    key: bytes,
    marks: tuple[Marks, ...] = (),
    coarse: tuple[Coarse, ...] = (),
) -> tuple[Codes, Int64Array]:
    """Fit a table of two columns.

    coarse: Of several coarser tables the first is met exactly.

    Returns: codes: Distinct, in lexicographic order; n.
    """
    boxes = whole_boxes(
        tree,
        supports,
        noise=noise,
        key=key,
        marks=marks,
    )
    one = coarse[0].at[coarse[0].replaced] if coarse else 0
    other = 1 - one
    first = decoded(_wanted(boxes, one), supply_of(supports[one]), key, one)
    if coarse:
        items = _split_by_implied(boxes, other, coarse[0].implied, first)
        second = decoded(items, _implied_supply(coarse[0], supports[other]), key, other)
    else:
        second = decoded(_wanted(boxes, other), supply_of(supports[other]), key, other)
    values = (second, first) if one else (first, second)
    _exchanged(values, supports, marks)
    key_of = values[0] * np.int64(len(supports[1])) + values[1]
    key_of.sort()
    heads = run_starts(key_of)
    codes = np.column_stack(np.divmod(key_of[heads], len(supports[1]))).astype(np.int32)
    return codes, np.diff(np.append(heads, len(key_of)))


# Boxes: a table's rows, in whole numbers, over the finest ranges at which it releases anything.
#
# Disjoint boxes that cover all combinations: released buckets without released children, and the children that were not
# released of those that have some. What a bucket holds beyond its released children goes to the other ones, in
# proportion to the columns' own counts there (maximum entropy given these), capped where a bucket that large would have
# been released.


CLASS_LEVEL, ALL_LEVEL = ROOT_LEVEL + 1, ROOT_LEVEL + 2
"""Levels above all ranges: all values of one class, whatever their kind; and all values."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Boxes:
    """Disjoint boxes, and the rows in each."""

    ranges: Int64Array  # shape (n_boxes, n_columns, 3): Kind, level and index of each, as in `Measurement`
    n: Int64Array  # shape (n_boxes,): Rows, all > 0
    # shape (n_boxes,): So many of them the measurement is sure of: all but as many as its noise can be.
    sure: Int64Array


def whole_boxes(
    tree: Measurement,
    supports: tuple[Support, ...],
    *,
    noise: Noise,
    key: bytes,
    marks: tuple[Marks, ...] = (),
) -> Boxes:
    """Share out all rows among boxes."""
    total = int(supports[0].n.sum())
    nodes = np.stack([tree.kind, tree.level, tree.index], axis=-1).astype(np.int64)
    owner, missing = _without_released(tree, nodes, supports)
    weight = _expected(missing, supports, marks)
    owner, missing, weight = owner[weight > 0], missing[weight > 0], weight[weight > 0]
    mass, open_mass = boxes_filled(tree_of(tree, noise), owner, weight, float(total))
    names = np.arange(tree.n_nodes + 1, dtype=np.uint64)
    parent = np.concatenate([tree.parent + 1, owner])
    rows = in_whole(
        parent, np.concatenate([mass[1:], open_mass]), total, siphash(key, [names]), len(names)
    )
    leaf = is_leaf(tree)
    variance = (NOISE_LAYERS * (noise.layer_sd * tree.scale.astype(np.int64)) ** 2)[tree.depth]
    sure = np.zeros(len(rows), dtype=np.int64)
    sure[: len(leaf)] = np.maximum(rows[: len(leaf)] - variance, 0)
    kept = (rows > 0) & np.append(leaf, np.ones(len(owner), dtype=bool))
    if not kept.any():  # nothing is released, or nothing can be: somewhere
        everything = np.full((1, len(supports), 3), [0, ALL_LEVEL, 0])
        return Boxes(ranges=everything, n=np.array([total]), sure=np.array([0]))
    return Boxes(ranges=np.concatenate([nodes, missing])[kept], n=rows[kept], sure=sure[kept])


def _without_released(
    tree: Measurement, nodes: Int64Array, supports: tuple[Support, ...]
) -> tuple[Int64Array, Int64Array]:
    """Children that were not released, of the virtual root (0) and of every node with released ones (from 1)."""
    k = len(supports)
    inner = np.flatnonzero(~is_leaf(tree))
    child = np.flatnonzero(tree.parent >= 0)
    above = tree.parent[child]
    bit = np.where(tree.level[above] > 0, tree.index[child] & 1, 0) << np.arange(k)
    present = np.zeros((tree.n_nodes, 1 << k), dtype=bool)
    present[above, bit.sum(axis=1)] = True
    parts = [_tops(tree, nodes, supports)]
    owners = [np.zeros(len(parts[0]), dtype=np.int64)]
    for bits in product((0, 1), repeat=k):
        half = np.array(bits)
        which = int((half << np.arange(k)).sum())
        node = inner[~present[inner, which] & ((half == 0) | (tree.level[inner] > 0)).all(axis=1)]
        halved = tree.level[node] > 0
        below = nodes[node]
        below[:, :, 1] -= halved
        below[:, :, 2] = np.where(halved, 2 * below[:, :, 2] + half, below[:, :, 2])
        owners.append(node + 1)
        parts.append(below)
    owner = np.concatenate(owners)
    order = np.argsort(owner, kind="stable")
    return owner[order], np.concatenate(parts)[order]


def _tops(tree: Measurement, nodes: Int64Array, supports: tuple[Support, ...]) -> Int64Array:
    """Combinations of the columns' top ranges, as their supports have them, that are no released node."""
    tops = nodes[tree.depth == 0]
    of_column = []
    for j, support in enumerate(supports):
        on_grid = is_valued(support.kind)
        levels = tops[is_valued(tops[:, j, 0]), j, 1]
        level = np.where(on_grid, levels.max() if len(levels) else ROOT_LEVEL, 0)
        index = np.where(on_grid, _magnitude_of(support) >> level, 0)
        # Values are sorted, so those of one range stand next to each other.
        ranges = np.column_stack([support.kind, level, index]).astype(np.int64)
        of_column.append(ranges[run_starts(*ranges.T)])
    at = np.indices([len(ranges) for ranges in of_column]).reshape(len(supports), -1)
    all_of_them = np.stack([ranges[i] for ranges, i in zip(of_column, at, strict=True)], axis=1)
    known = {top.tobytes() for top in tops[:, :, ::2]}
    return all_of_them[[top.tobytes() not in known for top in all_of_them[:, :, ::2]]]


def _expected(
    ranges: Int64Array, supports: tuple[Support, ...], marks: tuple[Marks, ...]
) -> FloatArray:
    """Rows that boxes would hold if columns were independent, combinations that universes rule out left aside.

    In units of one over all rows; counts are added up in whole numbers.
    """
    held, firsts = [], []
    for j, support in enumerate(supports):
        of, classes = classes_of(len(support), marks[j] if marks else {})
        first, end = places_of(support, ranges[:, j])
        running = np.zeros((len(classes), len(support) + 1), dtype=np.int64)
        for number in range(len(classes)):
            running[number, 1:] = np.cumsum(np.where(of == number, support.n, 0))
        held.append((running[:, end] - running[:, first]).astype(np.float64))
        firsts.append(classes)
    weight = np.zeros(len(ranges))
    for one, other in zip(*np.nonzero(allowed_pairs(firsts, marks)), strict=True):
        weight += held[0][one] * held[1][other]
    return weight


def places_of(support: Support, ranges: Int64Array) -> tuple[Int64Array, Int64Array]:
    """First value of a column in each range, and the one behind the last."""
    kind, level = ranges[:, 0].astype(np.uint8), ranges[:, 1].astype(np.uint8)
    low, high = code_bounds(kind, level, ranges[:, 2])
    first, end = np.zeros(len(kind), dtype=np.int64), np.zeros(len(kind), dtype=np.int64)
    for one in np.unique(support.kind):
        begin, stop = np.searchsorted(support.kind, [one, one + 1])
        here = np.flatnonzero(kind == one)
        grid = support.grid[begin:stop]
        first[here] = begin + np.searchsorted(grid, low[here])
        end[here] = begin + np.searchsorted(grid, high[here], side="right")
    return first, end


def _magnitude_of(support: Support) -> Int64Array:
    """Magnitude of each value: how far it is from 0 on its side."""
    return np.where(support.kind == KIND_NEGATIVE, ~support.grid, support.grid)


# Decoding: rows that are known to lie in ranges of a column get values, each value as often as published.
#
# From the finest ranges up, the rows of a range share what is left of its values. Where there are more rows than that,
# which noise brings about, those over it look in the next larger range: first those that have left one already, then
# such as no measurement is sure of. So a row leaves a range only where others that are known to lie in it have all its
# values. Seeded by the sampling key; whole numbers only. Cost follows rows and values, not their product.


AWAY, LOOSE, SURE = LEAVING = 0, 1, 2
"""Who leaves a crowded range first: rows that have left one already, those that no measurement is sure of, others."""
_GOLDEN, _FIRST, _SECOND = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)
_HALF, _SHIFT, _NEXT, _LAST = np.uint64(32), np.uint64(30), np.uint64(27), np.uint64(31)


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

    ranges: Int64Array  # shape (n_items, 3): Kind, level and index
    of_class: Int64Array  # shape (n_items,)
    n: Int64Array  # shape (n_items,): Rows of each item, one item's behind the other's
    # shape (n_items,): So many of an item's rows, its first, leave their range only after all others.
    sure: Int64Array


class Runs(NamedTuple):
    """Rows next to each other that look for values in the same range, as one entry however many they are."""

    row: Int64Array  # The first of them
    n: Int64Array
    place: Int64Array  # One of the places in their range
    stays: Int64Array  # One of `LEAVING`


def decoded(wanted: Wanted, supply: Supply, key: bytes, column: int) -> NDArray[np.int32]:
    """Give each row a value."""
    out = np.full(int(wanted.n.sum()), -1, dtype=np.int32)
    if not len(supply.value):
        return out
    level, place, apart = _anchored(wanted, supply)
    begin = np.cumsum(wanted.n) - wanted.n
    has_left = level > wanted.ranges[:, 1]
    runs = Runs(
        np.concatenate([begin, begin + wanted.sure]),
        np.concatenate([wanted.sure, wanted.n - wanted.sure]),
        np.tile(place, 2),
        np.concatenate([np.where(has_left, AWAY, SURE), np.where(has_left, AWAY, LOOSE)]),
    )
    level = np.where(runs.n > 0, np.tile(level, 2), -1)
    waiting = Runs(*(one[:0] for one in runs))
    heads, left, value = np.arange(len(apart)), supply.n.copy(), supply.value.astype(np.int32)
    highest = int(level[level <= ROOT_LEVEL].max(initial=0))
    for here in (*range(highest + 1), ROOT_LEVEL, CLASS_LEVEL, ALL_LEVEL):
        fresh = np.flatnonzero(level == here)
        level[fresh] = -1
        waiting = Runs(*(np.concatenate([a, b[fresh]]) for a, b in zip(waiting, runs, strict=True)))
        if not len(waiting.row):
            continue
        heads = heads[apart[heads] > here]
        ends = np.append(heads, len(apart))
        of = np.searchsorted(heads, waiting.place, side="right") - 1
        order = np.argsort(of, kind="stable")
        seed = siphash(key, [np.array([one], dtype=np.uint64) for one in (column, here)])
        waiting = dealt(
            Runs(*(one[order] for one in waiting)), of[order], ends, left, value, seed, out
        )
    return out


def _anchored(wanted: Wanted, supply: Supply) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Where items look for values first.

    Returns: level: Of the smallest range around each item's that has a value; place: One in it; apart: Of each place
    the level up to which it lies in another range than the place before.
    """
    support, value, of_class = supply.support, supply.value, supply.of_class
    kind, magnitude = support.kind[value].astype(np.int64), _magnitude_of(support)[value]
    apart = np.full(len(value), ALL_LEVEL + 1, dtype=np.int64)
    apart[1:] = _together(
        (of_class[1:], kind[1:], magnitude[1:]), (of_class[:-1], kind[:-1], magnitude[:-1])
    )
    size = len(support)
    composite = of_class * size + value
    first, end = places_of(support, wanted.ranges)
    place = np.searchsorted(composite, wanted.of_class * size + first)
    has_value = place < np.searchsorted(composite, wanted.of_class * size + end)
    own_kind, own_level, index = wanted.ranges.T
    own = (wanted.of_class, own_kind, index << np.minimum(own_level, ROOT_LEVEL))
    after, before = np.minimum(place, len(value) - 1), np.maximum(place - 1, 0)
    to_after, to_before = (
        _together(own, (of_class[at], kind[at], magnitude[at])) for at in (after, before)
    )
    place = np.where(to_after <= to_before, after, before)
    up = np.maximum(np.minimum(to_after, to_before), own_level)
    return np.where(has_value, own_level, up), np.where(has_value, after, place), apart


def _together(
    one: tuple[Int64Array, Int64Array, Int64Array], other: tuple[Int64Array, Int64Array, Int64Array]
) -> Int64Array:
    """Lowest level at which two values, each by its class, kind and magnitude, lie in one range."""
    differ = (one[2] ^ other[2]).view(np.uint64)
    level = np.zeros(len(differ), dtype=np.int64)
    level[differ > 0] = bit_length(differ[differ > 0])
    level[one[1] != other[1]] = CLASS_LEVEL
    level[one[0] != other[0]] = ALL_LEVEL
    return level


@part
def _drawn(state: UInt64Array, below: Whole) -> Whole:
    """A random whole number below another (SplitMix64)."""
    state[0] += _GOLDEN
    bits = state[0]
    bits = (bits ^ (bits >> _SHIFT)) * _FIRST
    bits = (bits ^ (bits >> _NEXT)) * _SECOND
    bits ^= bits >> _LAST
    return np.int64(((bits >> _HALF) * np.uint64(below)) >> _HALF)


@part
def _shuffle(rows: Int64Array, begin: Whole, end: Whole, state: UInt64Array) -> None:
    """Put neighbours in random order."""
    for i in range(end - 1, begin, -1):
        j = begin + _drawn(state, i + 1 - begin)
        rows[i], rows[j] = rows[j], rows[i]


@kernel
def dealt(
    runs: Runs,
    of: Int64Array,
    ends: Int64Array,
    left: Int64Array,
    value: NDArray[np.int32],
    seed: UInt64Array,
    out: NDArray[np.int32],
) -> Runs:
    """Give rows random values of their ranges, spread evenly over what is left there; return those that are too many.

    of: Range of each run, ascending; its places end where the next one's begin, in `ends`.
    left: Rows that still may have the value of each place; booked in place, as is `out`.
    """
    n_rows = np.int64(0)
    for n in runs.n:
        n_rows += n
    rows = np.empty(n_rows, dtype=np.int64)  # of one range
    leaving, places = np.empty(n_rows, dtype=np.int64), np.empty(n_rows, dtype=np.int64)
    n_leaving = 0
    state = np.empty(1, dtype=np.uint64)
    begin = 0
    while begin < len(of):
        group = of[begin]
        stop = begin
        while stop < len(of) and of[stop] == group:
            stop += 1
        head, end = ends[group], ends[group + 1]
        state[0] = seed[0] ^ (np.uint64(head) * _SECOND)
        room = np.int64(0)
        for place in range(head, end):
            room += left[place]
        size = np.int64(0)
        for stays in LEAVING:  # who leaves first comes first, those of a kind at random
            first = size
            for run in range(begin, stop):
                if runs.stays[run] == stays:
                    for row in range(runs.row[run], runs.row[run] + runs.n[run]):
                        rows[size] = row
                        size += 1
            if first < room:
                _shuffle(rows, first, size, state)
        over: Whole = max(size - room, 0)
        for i in range(over):
            leaving[n_leaving], places[n_leaving] = rows[i], head
            n_leaving += 1
        if size > over:
            _shuffle(rows, over, size, state)
            before, at, dealt_out = _drawn(state, room), over, np.int64(0)
            for place in range(head, end):
                before += left[place] * (size - over)
                upto = before // room
                for _ in range(upto - dealt_out):
                    out[rows[at]] = value[place]
                    at += 1
                left[place] -= upto - dealt_out
                dealt_out = upto
        begin = stop
    ones, away = np.ones(n_leaving, dtype=np.int64), np.full(n_leaving, np.int64(AWAY))
    return Runs(leaving[:n_leaving].copy(), ones, places[:n_leaving].copy(), away)


def supply_of(support: Support) -> Supply:
    """All values of a column, as its own table says."""
    none = np.zeros(len(support), dtype=np.int64)
    return Supply(support=support, value=np.arange(len(support)), of_class=none, n=support.n)


def _wanted(boxes: Boxes, column: int) -> Wanted:
    """What the rows of all boxes want of a column."""
    return Wanted(
        ranges=boxes.ranges[:, column],
        of_class=np.zeros(len(boxes.n), dtype=np.int64),
        n=boxes.n,
        sure=np.minimum(boxes.sure, boxes.n),
    )


def _implied_supply(coarse: Coarse, support: Support) -> Supply:
    """Values of a column by the code of the coarser one that they stand with in its table."""
    table = coarse.table
    of_class = table.codes[:, coarse.replaced].astype(np.int64)
    value = table.codes[:, 1 - coarse.replaced].astype(np.int64)
    order = np.lexsort((value, of_class))
    return Supply(support=support, value=value[order], of_class=of_class[order], n=table.n[order])


def _split_by_implied(
    boxes: Boxes, column: int, implied: Int64Array, values: NDArray[np.int32]
) -> Wanted:
    """What rows want of a column, those of each box split by the code of the coarser one.

    Their values of the other column are put in that order, in place.
    """
    n_implied = int(implied.max(initial=0)) + 1
    row, last_sure = np.arange(len(values)), np.minimum(boxes.sure, boxes.n)
    last_sure += np.cumsum(boxes.n) - boxes.n
    box = np.repeat(np.arange(len(boxes.n)), boxes.n)
    label = box * n_implied + implied[values]
    order = np.argsort(label, kind="stable")  # so that the sure ones of a box stay the first
    values[:] = values[order]
    heads = run_starts(label[order])
    box, of_class = np.divmod(label[order[heads]], n_implied)
    is_sure = row < np.repeat(last_sure, boxes.n)
    return Wanted(
        ranges=boxes.ranges[box, column],
        of_class=of_class,
        n=np.diff(np.append(heads, len(values))),
        sure=np.add.reduceat(is_sure[order].astype(np.int64), heads),
    )


def _exchanged(
    values: tuple[NDArray[np.int32], NDArray[np.int32]],
    supports: tuple[Support, ...],
    marks: tuple[Marks, ...],
) -> None:
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
