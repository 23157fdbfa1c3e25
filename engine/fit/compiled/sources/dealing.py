"""Values for rows by lot, compiled: `engine.fit.fine.lots` says what; whole numbers only."""

from __future__ import annotations

import numpy as np
from numba import int32, int64, njit, uint64, void

__all__ = ["deal", "ranks", "taken"]

_INTS = int64[::1]
_ROUNDS, _ROUNDS_OF_FEW, _FEW = 8, 24, 32
_TIMES = np.uint64(_ROUNDS_OF_FEW)
_GOLDEN, _FIRST, _SECOND = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)
_HALF, _SHIFT, _NEXT = np.uint64(32), np.uint64(30), np.uint64(27)


@njit
def _drawn(of, turn, below, seed):
    """A number below another, by the bits of a hash."""
    bits = ((np.uint64(of) * _TIMES + np.uint64(turn)) * _GOLDEN) ^ seed
    bits = (bits ^ (bits >> _SHIFT)) * _FIRST
    bits = (bits ^ (bits >> _NEXT)) * _SECOND
    return np.int64(((bits >> _HALF) * np.uint64(below)) >> _HALF)


@njit
def _shuffled(number, size, high, low, seed):
    """Rank of a number among as many as there are."""
    rounds = _ROUNDS_OF_FEW if size < _FEW else _ROUNDS
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


@njit
def _place_of(unit, head, end, running):
    """The first place of a group up to which there are more units."""
    while head < end:
        middle = (head + end) >> 1
        if running[middle] > unit:
            end = middle
        else:
            head = middle + 1
    return head


@njit(
    void(*(4 * [_INTS]), uint64[::1], *(6 * [_INTS]), int32[::1], int32[::1]),
)
def deal(row, n, of, number, seed, size, begin, head, end, high, running, value, out):
    """Give each row the value of a unit of its group, by lot.

    All as in the twin; `high` is a side of a group's rectangle.
    """
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


@njit(_INTS(_INTS, _INTS, _INTS, uint64[::1]))
def ranks(number, size, high, seed):
    """Rank of each number among as many as there are; `high` is a side of each rectangle."""
    out = np.empty(len(number), dtype=np.int64)
    for i in range(len(number)):
        low = -(-size[i] // high[i])
        out[i] = _shuffled(number[i], size[i], high[i], low, seed[i])
    return out


@njit(_INTS(*(4 * [_INTS]), uint64[::1]))
def taken(units, head, end, wanted, seed):
    """Units that each group takes of its places, all as in the twin."""
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
