"""Sums of many margins, one behind another: what they are off, what moves cost; compiled.

Takes the arrays of `engine.fit.whole.steps`, in which the sums of all margins lie one behind the other; changes them in
place. Each function here and in the modules beside has its twin in numpy, in `engine.fit.whole`, which says why; a test
holds them equal. Whole numbers only.
"""

from __future__ import annotations

import numpy as np
from numba import int64, njit, types

__all__ = ["by_part"]

_INTS, _INTS_2D = int64[::1], int64[:, ::1]
FAR = np.int64(1 << 62)


@njit
def where(values):
    """Places of what is not 0: `np.flatnonzero`, which numba can do by functions of its own only."""
    places = np.empty(len(values), dtype=np.int64)
    size = 0
    for i in range(len(values)):
        if values[i]:
            places[size] = i
            size += 1
    return places[:size].copy()


@njit
def affordable(best, cost, most):
    """Of the best of each group those that cost no more than `most`: their places, which are the low bits of a rank."""
    places = np.empty(len(best), dtype=np.int64)
    size = 0
    for rank in best:
        if rank < FAR and cost[rank & 0xFFFFFFFF] <= most:
            places[size] = rank & 0xFFFFFFFF
            size += 1
    return places[:size]


@njit
def off_of(values, kind, fitted, at, limits):
    """Units that a sum is too large: `Sums.off`, and that of `FittedSums` where `kind` is below 0."""
    off = values[at]
    if kind[at] < 0:
        apart = off * limits[6] - fitted[at]
        whole = abs(apart) // limits[6]
        return whole if apart > 0 else -whole
    if kind[at] == limits[8] and abs(off) <= 1:
        return np.int64(0)
    return off


@njit
def change_of(values, kind, fitted, at, sign, steps, limits):
    """What a unit more (sign 1) or less (-1) adds to the penalty of a sum."""
    off = values[at]
    if kind[at] < 0:
        change = limits[6] + 2 * sign * (off * limits[6] - fitted[at])
        return min(max(change, -limits[7]), limits[7])
    reach = limits[4]
    near = min(max(off, -reach), reach)
    row = kind[at] * (2 * reach + 3) + reach + 1
    return steps[0 if sign < 0 else 1, near + row]


@njit
def set_prices(prices, begin, end, values, kind, fitted, steps, limits):
    """What a unit less (row 0) and one more (row 1) adds to the penalty of some sums, in place."""
    for at in range(begin, end):
        prices[0, at] = change_of(values, kind, fitted, at, -1, steps, limits)
        prices[1, at] = change_of(values, kind, fitted, at, 1, steps, limits)


@njit
def cost_of(cell, row, of, base, prices, judged, weights):
    """What a unit less or more in a cell adds to the penalties of all margins that judge."""
    cost = np.int64(0)
    for j in range(len(judged)):
        margin = judged[j]
        cost += prices[row, base[margin] + of[margin, cell]] * weights[j]
    return cost


@njit
def lot_of(lot, cell, number, limits):
    """16 bits of a cell, others in every round."""
    return (lot[cell] * (2 * number + 1) * limits[5]) & 0xFFFF


@njit
def cells_of(parts, margin, of, base, order, first, kind):
    """All cells of some parts: part by part, or in their own order for boxes."""
    n_cells = of.shape[1]
    if kind[base[margin]] < 0:
        wanted = np.zeros(base[margin + 1] - base[margin], dtype=np.bool_)
        wanted[parts] = True
        size = 0
        for cell in range(n_cells):
            size += wanted[of[margin, cell]]
        cells = np.empty(size, dtype=np.int64)
        size = 0
        for cell in range(n_cells):
            if wanted[of[margin, cell]]:
                cells[size] = cell
                size += 1
        return cells
    begin = base[margin] + margin
    size = 0
    for part in parts:
        size += first[begin + part + 1] - first[begin + part]
    cells = np.empty(size, dtype=np.int64)
    size = 0
    for part in parts:
        for at in range(first[begin + part], first[begin + part + 1]):
            cells[size] = order[margin, at]
            size += 1
    return cells


@njit
def faulty(asked, number, n, of, base, order, first, values, kind, fitted, limits):
    """Cells with units in sums that are too large, and cells of sums that are too small."""
    size = base[asked + 1] - base[asked]
    over, short = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    n_over = n_short = 0
    for part in range(size):
        off = off_of(values, kind, fitted, base[asked] + part, limits)
        if off > 0:
            over[n_over] = part
            n_over += 1
        elif off < 0:
            short[n_short] = part
            n_short += 1
    turns = 1 + len(n) // max(size, 1) * n_short // limits[0]
    source = cells_of(over[:n_over], asked, of, base, order, first, kind)
    kept = 0
    for cell in source:
        if n[cell] > 0:
            source[kept] = cell
            kept += 1
    wanted = short[:n_short][number % turns :: turns]
    return source[:kept], cells_of(wanted, asked, of, base, order, first, kind)


@njit
def move(source, target, n, of, base, values):
    """`Moving.move`."""
    for i in range(len(source)):
        one, other = source[i], target[i]
        n[one] -= 1
        n[other] += 1
        for margin in range(of.shape[0]):
            values[base[margin] + of[margin, one]] -= 1
            values[base[margin] + of[margin, other]] += 1


@njit
def move_priced(source, target, n, of, base, values, kind, fitted, prices, steps, limits):
    """`Moving.move`, and what the sums that change cost from then on."""
    for sign, cells in ((-1, source), (1, target)):
        for cell in cells:
            n[cell] += sign
            for margin in range(of.shape[0]):
                at = base[margin] + of[margin, cell]
                values[at] += sign
                set_prices(prices, at, at + 1, values, kind, fitted, steps, limits)


@njit
def penalty(margins, base, values, kind, steps, limits):
    """The sum of `Sums.penalty` over margins."""
    reach, total = limits[4], np.int64(0)
    for margin in margins:
        for at in range(base[margin], base[margin + 1]):
            near = min(max(values[at], -reach), reach)
            total += steps[2, near + kind[at] * (2 * reach + 3) + reach + 1]
            total += abs(values[at] - near) * limits[9]
    return total


@njit(types.Tuple((_INTS_2D, _INTS))(_INTS_2D, _INTS))
def by_part(of, base):
    """Cells of each margin by their part, and where each part begins: `Sums.cells_of` reads them."""
    n_margins, n_cells = of.shape
    order = np.empty((n_margins, n_cells), dtype=np.int64)
    first = np.zeros(base[n_margins] + n_margins, dtype=np.int64)
    for margin in range(n_margins):
        begin, size = base[margin] + margin, base[margin + 1] - base[margin]
        for cell in range(n_cells):
            first[begin + of[margin, cell] + 1] += 1
        for part in range(size):
            first[begin + part + 1] += first[begin + part]
        free = first[begin : begin + size].copy()
        for cell in range(n_cells):
            part = of[margin, cell]
            order[margin, free[part]] = cell
            free[part] += 1
    return order, first
