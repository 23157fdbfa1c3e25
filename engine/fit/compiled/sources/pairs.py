"""Moves in pairs between two fibres, compiled: see `engine.fit.whole.walks`."""

from __future__ import annotations

import numpy as np
from numba import njit

from engine.fit.compiled.sources.sums import FAR, affordable, faulty, lot_of, where


@njit
def _across(asked, kept, number, n, lot, of, base, order, first, values, kind, fitted, limits):
    """A unit of each sum that is too large, and where it is wanted: in another fibre, in the same sum of `kept`."""
    source, target = faulty(asked, number, n, of, base, order, first, values, kind, fitted, limits)
    none = np.empty(0, dtype=np.int64)
    if not len(source) or not len(target):
        return none, none
    best = np.full(base[kept + 1] - base[kept], FAR)
    for cell in target:
        part = of[kept, cell]
        best[part] = min(best[part], (lot_of(lot, cell, number, limits) << 32) | cell)
    given = np.full(base[asked + 1] - base[asked], FAR)
    size = 0
    for cell in source:
        if best[of[kept, cell]] < FAR:
            part = of[asked, cell]
            given[part] = min(given[part], (lot_of(lot, cell, number, limits) << 32) | size)
            source[size] = cell
            size += 1
    found = np.empty(len(given), dtype=np.int64)
    size = 0
    for rank in given:
        if rank < FAR:
            found[size] = source[rank & 0xFFFFFFFF]
            size += 1
    found = found[:size]
    wanted = np.empty(size, dtype=np.int64)
    for i in range(size):
        wanted[i] = best[of[kept, found[i]]] & 0xFFFFFFFF
    return found, wanted


@njit
def _find(keys, places, wanted):
    """Where a sorted key is, -1 where it is not."""
    at = np.searchsorted(keys, wanted)
    if at < len(keys) and keys[at] == wanted:
        return places[at]
    return np.int64(-1)


@njit
def _unshared(one, other, size):
    """Which pairs share none of their parts with one of a larger number: `walks.unshared`."""
    taken = np.full(size, -1)
    for i in range(len(one)):
        taken[one[i]] = max(taken[one[i]], i)
        taken[other[i]] = max(taken[other[i]], i)
    keep = np.empty(len(one), dtype=np.bool_)
    for i in range(len(one)):
        keep[i] = taken[one[i]] == i and taken[other[i]] == i
    return where(keep)


@njit
def _apart(chosen, given, wanted, pair, back, place, kept, judged, of, base, kind):
    """Of the exchanges that share a sum of a margin those of the largest number; their four cells."""
    for margin in judged:
        if margin == kept or kind[base[margin]] < 0:
            continue
        taken = np.full(base[margin + 1] - base[margin], -1)
        for number in range(len(chosen)):
            i = chosen[number]
            for cell in (given[pair[i]], wanted[pair[i]], back[i], place[i]):
                part = of[margin, cell]
                taken[part] = max(taken[part], number)
        size = 0
        for number in range(len(chosen)):
            i = chosen[number]
            is_free = True
            for cell in (given[pair[i]], wanted[pair[i]], back[i], place[i]):
                is_free = is_free and taken[of[margin, cell]] == number
            if is_free:
                chosen[size] = i
                size += 1
        chosen = chosen[:size]
    one, other = given[pair[chosen]], wanted[pair[chosen]]
    return np.concatenate((one, back[chosen])), np.concatenate((place[chosen], other))


@njit
def _cost_of_two(one, other, kept, of, base, prices, judged, weights):
    """What a unit from one cell to another adds to the penalties, but for the margin that stays as it is."""
    cost = np.int64(0)
    for j in range(len(judged)):
        if judged[j] != kept:
            margin = judged[j]
            cost += prices[0, base[margin] + of[margin, one]] * weights[j]
            cost += prices[1, base[margin] + of[margin, other]] * weights[j]
    return cost


@njit
def exchanges(
    asked, kept, judged, weights, most, number, n, fibre, heads, lot, code, of, base, order, first, values, kind,
    fitted, prices, index_key, index_order, index_width, limits,
):  # fmt: skip
    """`walks.exchanges`."""
    given, wanted = _across(
        asked, kept, number, n, lot, of, base, order, first, values, kind, fitted, limits
    )
    full = where(n)
    pair = np.empty(len(given) * limits[1], dtype=np.int64)
    back, place, cost = np.empty_like(pair), np.empty_like(pair), np.empty_like(pair)
    best = np.full(len(given), FAR)
    found = 0
    for i in range(len(given)):
        begin = np.searchsorted(full, heads[fibre[wanted[i]]])
        size = np.searchsorted(full, heads[fibre[wanted[i]] + 1]) - begin
        own = _cost_of_two(given[i], wanted[i], kept, of, base, prices, judged, weights)
        for step in range(min(size, limits[1])):
            cell = full[begin + (step + lot_of(lot, given[i], number, limits)) % size]
            goes = _find(index_key, index_order, fibre[given[i]] * index_width + code[cell])
            if goes < 0 or code[cell] == code[given[i]]:
                continue
            total = own + _cost_of_two(cell, goes, kept, of, base, prices, judged, weights)
            pair[found], back[found], place[found], cost[found] = i, cell, goes, total
            rank = (total << 48) | (lot_of(lot, cell, number, limits) << 32) | found
            best[i] = min(best[i], rank)
            found += 1
    chosen = affordable(best, cost, most)
    chosen = chosen[_unshared(given[pair[chosen]], back[chosen], len(n))]
    return _apart(chosen, given, wanted, pair, back, place, kept, judged, of, base, kind)
