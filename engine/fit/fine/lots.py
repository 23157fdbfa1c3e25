"""Lots: every member of a group gets another rank, as if all had been shuffled, without a list of them.

A keyed permutation of 0 .. size - 1, one number at a time: rounds of a Feistel network over a rectangle that holds the
size, walked on until it is inside (Black and Rogaway, Ciphers with arbitrary finite domains, CT-RSA 2002, section 4;
doi:10.1007/3-540-45760-7_9). It hides nothing, it only mixes: what it works on is released already.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from engine.fit.compiled.loops import DEALING, compiled
from engine.schema import Int64Array, UInt64Array

ROUNDS, ROUNDS_OF_FEW, FEW = 8, 24, 32
"""Of fewer members than the last more rounds: there each mixes less. Then all pairs of ranks come equally often."""
_CHUNK = 1 << 16
_GOLDEN, _FIRST, _SECOND = (
    np.uint64(word) for word in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
_HALF = np.uint64(32)


def shuffled(number: Int64Array, size: Int64Array, seed: UInt64Array) -> Int64Array:
    """Rank of each number among as many as there are."""
    kernels = compiled(DEALING)
    if kernels:
        ranks: Int64Array = kernels.ranks(number, size, high_of(size), seed)
        return ranks
    rank = number.copy()
    for members, rounds in ((size < FEW, ROUNDS_OF_FEW), (size >= FEW, ROUNDS)):
        walking = np.flatnonzero(members)
        while len(walking):
            inside = size[walking]
            rank[walking] = _stepped(rank[walking], high_of(inside), inside, seed[walking], rounds)
            walking = walking[rank[walking] >= inside]
    return rank


def high_of(size: Int64Array) -> Int64Array:
    """The smallest whole number whose square is not below each size: one side of its rectangle."""
    side: Int64Array = np.sqrt(size.astype(np.float64)).astype(np.int64)
    side += side * side < size
    return side


def _stepped(
    number: Int64Array, high: Int64Array, size: Int64Array, seed: UInt64Array, rounds: int
) -> Int64Array:
    """One walk through all rounds, inside the rectangle of `high` times what is needed to hold the size."""
    low = -(-size // high)
    left, right = np.divmod(number, low)
    for turn in range(0, rounds, 2):
        left += _drawn(right, turn, high, seed)
        left -= np.where(left >= high, high, 0)
        right += _drawn(left, turn + 1, low, seed)
        right -= np.where(right >= low, low, 0)
    rank: Int64Array = left * low + right
    return rank


def _drawn(of: Int64Array, turn: int, below: Int64Array, seed: UInt64Array) -> Int64Array:
    """A number below another, by the bits of a hash (the finalizer of SplitMix64)."""
    bits = (of.view(np.uint64) * np.uint64(ROUNDS_OF_FEW) + np.uint64(turn)) * _GOLDEN
    bits ^= seed
    bits ^= bits >> np.uint64(30)
    bits *= _FIRST
    bits ^= bits >> np.uint64(27)
    bits *= _SECOND
    bits >>= _HALF
    bits *= below.view(np.uint64)
    bits >>= _HALF
    return bits.view(np.int64)


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
    kernels = compiled(DEALING)
    if kernels:
        kernels.deal(*run, *group, high_of(group[1]), running, value, out)
        return
    row, n, of, number = run
    seed, size, begin, head, end = group
    one = end[of] - head[of] == 1
    for which, offset in _chunks(n[one]):
        out[row[one][which] + offset] = value[head[of[one][which]]]
    several = ~one
    row, of, number = row[several], of[several], number[several]
    for which, offset in _chunks(n[several]):
        mine = of[which]
        unit = begin[mine] + shuffled(number[which] + offset, size[mine], seed[mine])
        out[row[which] + offset] = value[np.searchsorted(running, unit, side="right")]


def taken_of(
    units: Int64Array, head: Int64Array, end: Int64Array, wanted: Int64Array, seed: UInt64Array
) -> Int64Array:
    """So many of the units of each place as their group wants, spread evenly over them from a drawn unit on."""
    kernels = compiled(DEALING)
    if kernels:
        out: Int64Array = kernels.taken(units, head, end, wanted, seed)
        return out
    sizes = end - head
    running = np.cumsum(units)
    after = running - np.repeat(running[head] - units[head], sizes)
    there = np.repeat(np.add.reduceat(units, head), sizes)
    first = np.repeat((seed >> np.uint64(1)).view(np.int64), sizes) % there
    share = np.repeat(wanted, sizes)
    taken: Int64Array = (after * share + first) // there
    taken -= ((after - units) * share + first) // there
    return taken


def _chunks(n: Int64Array) -> Iterator[tuple[Int64Array, Int64Array]]:
    """The run and the offset in it of each row, some at a time."""
    upto = np.cumsum(n)
    total = int(upto[-1]) if len(n) else 0
    for start in range(0, total, _CHUNK):
        at = np.arange(start, min(start + _CHUNK, total))
        which = np.searchsorted(upto, at, side="right")
        yield which, at - (upto[which] - n[which])
