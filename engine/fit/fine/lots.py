"""Lots: every member of a group gets another rank, as if all had been shuffled, without a list of them.

A keyed permutation of 0 .. size - 1, one number at a time: rounds of a Feistel network over a rectangle that holds the
size, walked on until it is inside (Black and Rogaway, Ciphers with arbitrary finite domains, CT-RSA 2002, section 4;
doi:10.1007/3-540-45760-7_9). It hides nothing, it only mixes: what it works on is released already.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.kernels import Whole, kernel, part
from engine.schema import Int64Array, UInt64Array

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
