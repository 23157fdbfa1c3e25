"""What exchanges between rows would gain, and the best ones made. Whole numbers only.

A board's tables come as the places of their copies: see `Copies`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engine.kernels import Whole, kernel, part
from engine.schema import BoolArray, Int64Array

MATCHES = 6
"""Turns in which those whose choice was taken choose again."""
_NEVER = np.int64(1 << 60)


class Copies(NamedTuple):
    """Where the copies of the tables lie in the vector of prices.

    A row x has its cell of a copy at x[first] * stride + x[second] * step + x[own] + start.
    """

    # all of shape (n_copies,): `own` is the column the copy is for; a table of two columns has step 0.
    own: Int64Array
    first: Int64Array
    second: Int64Array
    stride: Int64Array
    step: Int64Array
    start: Int64Array


class Prices(NamedTuple):
    """What rows in the cells of all copies cost."""

    cost: Int64Array  # shape (n_cells,): What one more row adds to the error
    twice: Int64Array  # shape (n_cells,): How much more that is with every row


@kernel
def gains(
    x: Int64Array, column: int, low: int, high: int, copies: Copies, prices: Prices
) -> Int64Array:
    """What it adds to the error when a row alone takes another level of a column, shape (n_rows, high - low).

    x: shape (n_columns, n_rows). Levels from `low` to less than `high` are asked for; the rows' own are among them.
    """
    n_rows, size = x.shape[1], high - low
    gained = np.zeros((n_rows, size), dtype=np.int64)
    booked = np.zeros(n_rows, dtype=np.int64)
    own = x[column]
    for c in range(len(copies.own)):  # copy by copy, so that what is looked up lies together
        one, other = x[copies.first[c]], x[copies.second[c]]
        by_one, by_other, begin = copies.stride[c], copies.step[c], copies.start[c]
        for i in range(n_rows):
            stretch = begin + one[i] * by_one + other[i] * by_other
            booked[i] += prices.twice[stretch + own[i]]
            # Slices: three times as fast as places reckoned from the stretch.
            sums, added = gained[i], prices.cost[stretch + low : stretch + high]
            for j in range(size):
                sums[j] += added[j]
    for i in range(n_rows):
        leaving = gained[i, own[i] - low] - booked[i]  # a row is not in its own way
        for j in range(size):
            gained[i, j] -= leaving
    return gained


@part
def _best_partners(
    gained: Int64Array,
    level: Int64Array,
    half: Whole,
    is_taken: BoolArray,
    least: Int64Array,
    which: Int64Array,
) -> None:
    """By what a row has and what it would get: the partner that gains most, the first of several."""
    least[:] = _NEVER
    for k in range(half, len(level)):
        if not is_taken[k]:
            own = level[k]
            for j in range(gained.shape[1]):
                if gained[k, j] < least[j, own]:
                    least[j, own] = gained[k, j]
                    which[j, own] = k


@part
def _matched(gained: Int64Array, level: Int64Array, half: Whole) -> tuple[Int64Array, Int64Array]:
    """Pair rows of the first half with rows of the second whose exchange gains, the best first, none twice.

    An exchange gains what both rows gain alone; of rows alike otherwise this thinks too little, never too much. A row's
    best partner is found by levels, not one by one.
    """
    size = gained.shape[1]
    least, which = np.empty((size, size), np.int64), np.empty((size, size), np.int64)
    is_taken = np.zeros(len(level), dtype=np.bool_)
    free = np.arange(half)
    choice, value = np.empty(half, np.int64), np.empty(half, np.int64)
    ones, others = np.empty(half, np.int64), np.empty(half, np.int64)
    found = 0
    for _ in range(MATCHES):
        if len(free) == 0:
            break
        _best_partners(gained, level, half, is_taken, least, which)
        wanting = 0
        for i in free:
            best, partner = np.int64(0), np.int64(-1)
            for j in range(size):
                price = gained[i, j] + least[level[i], j]
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


@part
def _book(
    rows: Int64Array, row: Whole, column: Whole, level: Whole, touched: Copies, prices: Prices
) -> Whole:
    """Give a row another level of a column; return the one that it had."""
    old = rows[column, row]
    for c in range(len(touched.own)):
        first, second, own = touched.first[c], touched.second[c], touched.own[c]
        x, y, z = rows[first, row], rows[second, row], rows[own, row]
        source = x * touched.stride[c] + y * touched.step[c] + z + touched.start[c]
        x = level if first == column else x
        y = level if second == column else y
        z = level if own == column else z
        target = x * touched.stride[c] + y * touched.step[c] + z + touched.start[c]
        if source != target:
            prices.cost[source] -= prices.twice[source]
            prices.cost[target] += prices.twice[target]
    rows[column, row] = level
    return old


@kernel
def change_level(
    rows: Int64Array,
    at: Int64Array,
    column: int,
    levels: Int64Array,
    touched: Copies,
    prices: Prices,
) -> None:
    """Give rows, each once, other levels of a column."""
    for i in range(len(at)):
        _book(rows, at[i], column, levels[i], touched, prices)


@kernel
def exchange(
    batch: Int64Array,
    column: int,
    low: int,
    high: int,
    rows: Int64Array,
    copies: Copies,
    touched: Copies,
    prices: Prices,
) -> int:
    """Exchange levels of a column between the halves of a batch where that lowers the error; return how often."""
    half = len(batch) // 2
    x = np.empty((len(rows), len(batch)), dtype=np.int64)
    for at in range(len(rows)):
        for i in range(len(batch)):
            x[at, i] = rows[at, batch[i]]
    level = x[column] - low
    ones, others = _matched(gains(x, column, low, high, copies, prices), level, half)
    for i in range(len(ones)):
        one, other = batch[ones[i]], batch[others[i]]
        given = _book(rows, one, column, rows[column, other], touched, prices)
        _book(rows, other, column, given, touched, prices)
    return len(ones)


@kernel
def exchange_gains(
    one: Int64Array,
    other: Int64Array,
    block: BoolArray,
    rows: Int64Array,
    crossed: Copies,
    prices: Prices,
) -> Int64Array:
    """What it adds to the error when pairs of rows exchange a block of columns; exact for each pair alone.

    crossed: One copy of each table that has columns inside the block and outside.
    """
    gained = np.zeros(len(one), dtype=np.int64)
    cost, twice = prices.cost, prices.twice
    a, b = rows[:, one], rows[:, other]
    for c in range(len(crossed.own)):
        by_first, by_second, begin = crossed.stride[c], crossed.step[c], crossed.start[c]
        first, second, own = crossed.first[c], crossed.second[c], crossed.own[c]
        a1, a2, a3 = a[first], a[second], a[own]
        b1, b2, b3 = b[first], b[second], b[own]
        # What does not move of either row, and what does.
        stay1, stay2, stay3 = not block[first], not block[second], not block[own]
        for i in range(len(one)):
            left = begin + a1[i] * by_first + a2[i] * by_second + a3[i]
            right = begin + b1[i] * by_first + b2[i] * by_second + b3[i]
            to_left = begin + (a1[i] if stay1 else b1[i]) * by_first
            to_left += (a2[i] if stay2 else b2[i]) * by_second + (a3[i] if stay3 else b3[i])
            # Where the rows only change places in a table, nothing changes.
            if to_left != left and to_left != right:
                to_right = left + right - to_left
                gained[i] += cost[to_left] + cost[to_right] - cost[left] - cost[right]
                gained[i] += twice[left] + twice[right]
    return gained


@kernel
def exchange_block(
    one: Int64Array,
    other: Int64Array,
    block: BoolArray,
    rows: Int64Array,
    crossed: Copies,
    prices: Prices,
) -> None:
    """Let pairs of rows exchange a block of columns; no row is in two pairs.

    crossed: All copies of the tables that have columns inside the block and outside.
    """
    cost, twice = prices.cost, prices.twice
    for i in range(len(one)):
        for row, partner in ((one[i], other[i]), (other[i], one[i])):
            for c in range(len(crossed.own)):
                source = target = crossed.start[c]
                for axis, by in (
                    (crossed.first[c], crossed.stride[c]),
                    (crossed.second[c], crossed.step[c]),
                    (crossed.own[c], 1),
                ):
                    source += rows[axis, row] * by
                    target += (rows[axis, partner] if block[axis] else rows[axis, row]) * by
                if source != target:
                    cost[source] -= twice[source]
                    cost[target] += twice[target]
        for column in range(len(block)):
            if block[column]:
                held = rows[column, one[i]]
                rows[column, one[i]] = rows[column, other[i]]
                rows[column, other[i]] = held
