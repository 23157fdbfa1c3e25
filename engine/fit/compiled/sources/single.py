"""Single moves within fibres, compiled: see `engine.fit.whole.walks`."""

from __future__ import annotations

import numpy as np
from numba import njit

from engine.fit.compiled.sources.sums import FAR, affordable, cost_of, faulty, lot_of

_FEW = 24  # cells of a fibre that are sorted one by one


@njit
def _in_common(source, target, fibre):
    """Cells in fibres that have both a source and a target; in place."""
    has = np.zeros(fibre[-1] + 1, dtype=np.uint8)
    for cell in source:
        has[fibre[cell]] = 1
    for cell in target:
        has[fibre[cell]] |= 2
    n_source = n_target = 0
    for cell in source:
        if has[fibre[cell]] == 3:
            source[n_source] = cell
            n_source += 1
    for cell in target:
        if has[fibre[cell]] == 3:
            target[n_target] = cell
            n_target += 1
    return source[:n_source], target[:n_target]


@njit
def _by_fibre(cells, fibre):
    """Cells by fibre, in each as they came, and where each fibre begins."""
    first = np.zeros(fibre[-1] + 2, dtype=np.int64)
    for cell in cells:
        first[fibre[cell] + 1] += 1
    for one in range(len(first) - 1):
        first[one + 1] += first[one]
    free, grouped = first[:-1].copy(), np.empty_like(cells)
    for cell in cells:
        grouped[free[fibre[cell]]] = cell
        free[fibre[cell]] += 1
    return grouped, first


@njit
def _sort_few(rank, cells, cost, begin, end):
    """Sort a few neighbours by rank, in place; equal ones stay as they are."""
    for i in range(begin + 1, end):
        one, cell, price, at = rank[i], cells[i], cost[i], i
        while at > begin and rank[at - 1] > one:
            rank[at], cells[at], cost[at] = rank[at - 1], cells[at - 1], cost[at - 1]
            at -= 1
        rank[at], cells[at], cost[at] = one, cell, price


@njit
def _ranked(
    cells,
    sign,
    number,
    n,
    x,
    fibre,
    lot,
    of,
    base,
    prices,
    judged,
    weights,
    limits,
):
    """Cells and their costs by fibre, the cheapest first; among equals those back towards the fit, then by lot."""
    cells, first = _by_fibre(cells, fibre)
    row = 1 if sign > 0 else 0
    cost = np.empty(len(cells), dtype=np.int64)
    rank = np.empty(len(cells), dtype=np.int64)
    for i in range(len(cells)):
        cell = cells[i]
        cost[i] = cost_of(cell, row, of, base, prices, judged, weights)
        late = n[cell] > x[cell] if sign > 0 else n[cell] <= x[cell]
        rank[i] = ((cost[i] * 2 + late + limits[3]) << 16) | lot_of(lot, cell, number, limits)
    for one in range(len(first) - 1):
        begin, end = first[one], first[one + 1]
        if end - begin > _FEW:
            by = np.argsort(rank[begin:end], kind="mergesort")
            held, price = cells[begin:end].copy(), cost[begin:end].copy()
            for i in range(len(by)):
                cells[begin + i], cost[begin + i] = held[by[i]], price[by[i]]
        elif end - begin > 1:
            _sort_few(rank, cells, cost, begin, end)
    return cells, cost


@njit
def _kept_apart(source, target, asked, judged, number, lot, of, base, values, kind, limits):
    """Which of the moves that want the same slot of a margin stay: the last of each."""
    kept = np.arange(len(source))
    for j in range(-1, len(judged)):
        margin = asked if j < 0 else judged[j]
        if (j >= 0 and margin == asked) or kind[base[margin]] < 0:
            continue
        taken = np.empty(limits[2] * (base[margin + 1] - base[margin]), dtype=np.int64)
        slot = np.empty(len(kept), dtype=np.int64)
        for sign in (1, -1):
            for i in range(len(kept)):
                move = kept[i]
                cell = source[move] if sign > 0 else target[move]
                part = of[margin, cell]
                free = min(max(sign * values[base[margin] + part], 1), limits[2])
                slot[i] = part * limits[2] + lot_of(lot, source[move], number, limits) % free
                taken[slot[i]] = move
            left = 0
            for i in range(len(kept)):
                if taken[slot[i]] == kept[i]:
                    kept[left] = kept[i]
                    left += 1
            kept = kept[:left]
    return kept


@njit
def _pairs(source, target, loss, gain, asked, number, fibre, lot, of, size, most, limits):
    """In every fibre the best source with the best target, and so on; of these the best for each sum."""
    best = np.full(size, FAR)
    giver, taker = np.empty_like(source), np.empty_like(source)
    cost = np.empty_like(source)
    i = j = pairs = 0
    while i < len(source) and j < len(target):
        one, other = fibre[source[i]], fibre[target[j]]
        if one == other:
            giver[pairs], taker[pairs], cost[pairs] = source[i], target[j], loss[i] + gain[j]
            part = of[asked, source[i]]
            rank = (cost[pairs] << 48) | (lot_of(lot, source[i], number, limits) << 32) | pairs
            best[part] = min(best[part], rank)
            pairs += 1
        i += one <= other
        j += other <= one
    places = affordable(best, cost, most)
    return giver[places], taker[places]


@njit
def single_moves(
    asked, judged, weights, most, number, n, x, fibre, lot, of, base, order, first, values, kind, fitted, prices,
    limits,
):  # fmt: skip
    """`walks.single_moves`."""
    source, target = faulty(asked, number, n, of, base, order, first, values, kind, fitted, limits)
    if not len(source) or not len(target):
        return source[:0].copy(), target[:0].copy()
    source, target = _in_common(source, target, fibre)
    judging = of, base, prices, judged, weights, limits
    target, gain = _ranked(target, 1, number, n, x, fibre, lot, *judging)
    source, loss = _ranked(source, -1, number, n, x, fibre, lot, *judging)
    size = base[asked + 1] - base[asked]
    source, target = _pairs(
        source, target, loss, gain, asked, number, fibre, lot, of, size, most, limits
    )
    kept = _kept_apart(source, target, asked, judged, number, lot, of, base, values, kind, limits)
    return source[kept], target[kept]
