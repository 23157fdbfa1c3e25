"""Exchanges between rows of `engine.fit.wide`, compiled: the same ones, bit for bit. Whole numbers only.

A board's tables come as the arrays of their copies: a row x has its cell of a copy at
x[first] * stride + x[second] * step + x[own] + start.
"""

from __future__ import annotations

import numpy as np
from numba import boolean, int64, njit

__all__ = ["exchange", "exchange_gains"]

_INTS, _INTS_2D = int64[::1], int64[:, ::1]
_NEVER = np.int64(1 << 60)


@njit
def _gains(x, column, low, high, copies, cost, twice):
    """`Board.gains` for the levels of a batch; copy by copy, so that what is looked up lies together."""
    first, second, stride, step, start = copies
    n_rows, size = x.shape[1], high - low
    gains = np.zeros((n_rows, size), dtype=np.int64)
    booked = np.zeros(n_rows, dtype=np.int64)
    own = x[column]
    for c in range(len(first)):
        one, other, by_one, by_other, begin = (
            x[first[c]],
            x[second[c]],
            stride[c],
            step[c],
            start[c],
        )
        for i in range(n_rows):
            stretch = begin + one[i] * by_one + other[i] * by_other
            booked[i] += twice[stretch + own[i]]
            # Slices: three times as fast as places reckoned from the stretch.
            sums, prices = gains[i], cost[stretch + low : stretch + high]
            for j in range(size):
                sums[j] += prices[j]
    for i in range(n_rows):
        leaving = gains[i, own[i] - low] - booked[i]
        for j in range(size):
            gains[i, j] -= leaving
    return gains


@njit
def _best_partners(gains, level, half, is_taken, least, which):
    """By what a row has and what it would get: the partner that gains most, the first of several."""
    least[:] = _NEVER
    for k in range(half, len(level)):
        if not is_taken[k]:
            own = level[k]
            for j in range(gains.shape[1]):
                if gains[k, j] < least[j, own]:
                    least[j, own] = gains[k, j]
                    which[j, own] = k


@njit
def _matched(gains, level, half, turns):
    """`search.matched`: pairs of places in the batch; a row's best partner is found by levels, not one by one."""
    size = gains.shape[1]
    least, which = np.empty((size, size), np.int64), np.empty((size, size), np.int64)
    is_taken = np.zeros(len(level), dtype=np.bool_)
    free = np.arange(half)
    choice, value = np.empty(half, np.int64), np.empty(half, np.int64)
    ones, others = np.empty(half, np.int64), np.empty(half, np.int64)
    found = 0
    for _ in range(turns):
        if len(free) == 0:
            break
        _best_partners(gains, level, half, is_taken, least, which)
        wanting = 0
        for i in free:
            best, partner = np.int64(0), np.int64(-1)
            for j in range(size):
                price = gains[i, j] + least[level[i], j]
                if j != level[i] and (
                    price < best or (price == best and which[level[i], j] < partner)
                ):
                    best, partner = price, which[level[i], j]
            if best < 0:
                free[wanting], choice[wanting], value[wanting] = i, partner, best
                wanting += 1
        order = np.argsort(value[:wanting], kind="mergesort")
        left = np.empty(wanting, np.int64)
        rest = 0
        for at in order:
            if is_taken[choice[at]]:
                left[rest] = free[at]
                rest += 1
            else:
                is_taken[choice[at]] = True
                ones[found], others[found] = free[at], choice[at]
                found += 1
        free = left[:rest]
    return ones[:found], others[:found]


@njit
def _book(rows, row, column, level, own, copies, cost, twice):
    """`Board.change_level` for one row."""
    first, second, stride, step, start = copies
    old = rows[column, row]
    for c in range(len(own)):
        x, y, z = rows[first[c], row], rows[second[c], row], rows[own[c], row]
        source = x * stride[c] + y * step[c] + z + start[c]
        x = level if first[c] == column else x
        y = level if second[c] == column else y
        z = level if own[c] == column else z
        target = x * stride[c] + y * step[c] + z + start[c]
        if source != target:
            cost[source] -= twice[source]
            cost[target] += twice[target]
    rows[column, row] = level
    return old


_EXCHANGED = int64(
    *(_INTS, int64, int64, int64, int64),
    *(_INTS_2D, _INTS, _INTS),
    *(_INTS, _INTS, _INTS, _INTS, _INTS),
    *(_INTS, _INTS, _INTS, _INTS, _INTS, _INTS),
)


@njit(_EXCHANGED)
def exchange(
    batch, column, low, high, turns, rows, cost, twice, first, second, stride, step, start, own, touched_first,
    touched_second, touched_stride, touched_step, touched_start,
):  # fmt: skip
    """`search.matched_exchange`, with a board's rows, prices, copies of the column, and copies that it touches."""
    half = len(batch) // 2
    copies = first, second, stride, step, start
    touched = touched_first, touched_second, touched_stride, touched_step, touched_start
    x = np.empty((len(rows), len(batch)), dtype=np.int64)
    for at in range(len(rows)):
        for i in range(len(batch)):
            x[at, i] = rows[at, batch[i]]
    gains = _gains(x, column, low, high, copies, cost, twice)
    level = x[column] - low
    ones, others = _matched(gains, level, half, turns)
    for i in range(len(ones)):
        one, other = batch[ones[i]], batch[others[i]]
        given = _book(rows, one, column, rows[column, other], own, touched, cost, twice)
        _book(rows, other, column, given, own, touched, cost, twice)
    return len(ones)


@njit(
    _INTS(_INTS, _INTS, boolean[::1], _INTS_2D, _INTS, _INTS, *([_INTS] * 6)),
)
def exchange_gains(one, other, block, rows, cost, twice, own, first, second, stride, step, start):
    """`Board.exchange_gains`, with copies of the tables that the block crosses."""
    gains = np.zeros(len(one), dtype=np.int64)
    a, b = rows[:, one], rows[:, other]
    for c in range(len(own)):
        by_first, by_second, begin = stride[c], step[c], start[c]
        a1, a2, a3 = a[first[c]], a[second[c]], a[own[c]]
        b1, b2, b3 = b[first[c]], b[second[c]], b[own[c]]
        # What does not move of either row, and what does.
        stay1, stay2, stay3 = not block[first[c]], not block[second[c]], not block[own[c]]
        for i in range(len(one)):
            left = begin + a1[i] * by_first + a2[i] * by_second + a3[i]
            right = begin + b1[i] * by_first + b2[i] * by_second + b3[i]
            to_left = begin + (a1[i] if stay1 else b1[i]) * by_first
            to_left += (a2[i] if stay2 else b2[i]) * by_second + (a3[i] if stay3 else b3[i])
            if to_left != left and to_left != right:
                to_right = left + right - to_left
                gains[i] += cost[to_left] + cost[to_right] - cost[left] - cost[right]
                gains[i] += twice[left] + twice[right]
    return gains
