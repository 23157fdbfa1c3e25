"""A round of `engine.fit.whole.settling`, compiled: the same exchanges, bit for bit. Whole numbers only."""

from __future__ import annotations

import numpy as np
from numba import int64, njit

from engine.fit.compiled.sources.sums import move, where

__all__ = ["exchange"]

_INTS, _INTS_2D = int64[::1], int64[:, ::1]
_SHORT = np.int64(1 << 40)


@njit
def _rows_by(of, units, size):
    """Cells that hold rows by their part, and where each part begins."""
    first = np.zeros(size + 1, dtype=np.int64)
    for cell in units:
        first[of[cell] + 1] += 1
    for part in range(size):
        first[part + 1] += first[part]
    free, held = first[:-1].copy(), np.empty(len(units), dtype=np.int64)
    for cell in units:
        held[free[of[cell]]] = cell
        free[of[cell]] += 1
    return held, first


@njit
def _drawn(rows, part, bits):
    """One of the cells of a part by random bits, -1 if it has none."""
    held, first = rows
    count = first[part + 1] - first[part]
    return held[first[part] + bits % count] if count > 0 else np.int64(-1)


@njit
def _first_row(margin, column, wanted, is_over, bits, width, own, others, of, base, order, first):
    """A row that leaves a sum that is too large, or comes to one that is too small; its cell, and where it goes."""
    mask = (1 << width) - 1
    low, high = bits & mask, (bits >> width) & mask
    if is_over:
        leaves = _drawn(own, wanted, low)
        if leaves < 0:
            return leaves, leaves
        return leaves, _any_cell(column, of[column, leaves], high, base, order, first)
    comes = _any_cell(margin, wanted, low, base, order, first)
    if comes < 0:
        return comes, comes
    return _drawn(others, of[column, comes], high), comes


@njit
def _any_cell(margin, part, bits, base, order, first):
    """A cell of a part by random bits, be it empty or not; -1 if it has none."""
    at = base[margin] + margin + part
    count = first[at + 1] - first[at]
    return order[margin, first[at] + bits % count] if count > 0 else np.int64(-1)


@njit
def _second_row(one, to_one, bits, key, n, along, by, starts, alike):
    """A row that gives the code which the first one takes and takes its; its cell, and where it goes."""
    shift = key[to_one] - key[one]
    if bits % 2 == 0:
        other = _drawn(alike, along[to_one], bits >> 1)
        if other < 0:
            return other, other
        return other, _find(key, key[other] - shift)
    part = along[one]
    count = starts[part + 1] - starts[part]
    to_other = by[starts[part] + (bits >> 1) % count]
    other = _find(key, key[to_other] + shift)
    if other >= 0 and n[other] <= 0:
        other = np.int64(-1)
    return other, to_other


@njit
def _find(key, wanted):
    """A cell by its key, -1 if there is none."""
    at = np.searchsorted(key, wanted)
    return at if at < len(key) and key[at] == wanted else np.int64(-1)


@njit
def _cost(one, other, to_one, to_other, of, base, values, kind, steps, reach):
    """What an exchange adds to the penalties of all sums."""
    cost = np.int64(0)
    for margin in range(of.shape[0]):
        for source, target in ((one, to_other), (other, to_one)):
            if of[margin, source] != of[margin, target]:
                at = base[margin] + of[margin, source]
                near = min(max(values[at], -reach), reach)
                cost += steps[0, near + kind[at] * (2 * reach + 3) + reach + 1]
                at = base[margin] + of[margin, target]
                near = min(max(values[at], -reach), reach)
                cost += steps[1, near + kind[at] * (2 * reach + 3) + reach + 1]
    return cost


@njit
def _kept_apart(four, number, n_cells, of, base):
    """Exchanges that share no cell that gives, and no sum, with one of a larger number."""
    kept = np.arange(len(number))
    for margin in range(-1, of.shape[0]):
        taken = np.full(n_cells if margin < 0 else base[margin + 1] - base[margin], -1)
        n_parts = 2 if margin < 0 else 4
        for i in kept:
            for j in range(n_parts):
                part = four[j, i] if margin < 0 else of[margin, four[j, i]]
                taken[part] = max(taken[part], number[i])
        size = 0
        for i in kept:
            is_free = True
            for j in range(n_parts):
                part = four[j, i] if margin < 0 else of[margin, four[j, i]]
                is_free = is_free and taken[part] == number[i]
            if is_free:
                kept[size] = i
                size += 1
        kept = kept[:size]
    return kept


_EXCHANGED = int64(
    *(
        int64,
        int64,
        _INTS,
        _INTS,
        int64,
        int64,
        _INTS,
        _INTS,
        _INTS_2D,
        _INTS,
        _INTS_2D,
        _INTS,
        _INTS,
    ),
    *(_INTS, _INTS, _INTS, _INTS, _INTS_2D, int64),
)


@njit(_EXCHANGED)
def exchange(
    margin, column, far, bits, tries, width, key, n, of, base, order, first, along, by, starts, values, kind,
    steps, reach,
):  # fmt: skip
    """`settling._exchange`: `along` is the code of the column, `by` and `starts` are its cells by code."""
    units = where(n)
    own = _rows_by(of[margin], units, base[margin + 1] - base[margin])
    others = _rows_by(of[column], units, base[column + 1] - base[column])
    alike = _rows_by(along, units, len(starts) - 1)
    size = len(far)
    four = np.empty((4, size), dtype=np.int64)
    number = np.empty(size, dtype=np.int64)
    found = 0
    for i in range(size):
        least = np.int64(0)
        best = -1
        is_over = values[base[margin] + far[i]] > 0
        for step in range(tries):
            at = i * tries + step
            one, to_one = _first_row(
                margin,
                column,
                far[i],
                is_over,
                bits[at],
                width,
                own,
                others,
                of,
                base,
                order,
                first,
            )
            if one < 0 or to_one < 0 or one == to_one:
                continue
            other, to_other = _second_row(
                one, to_one, bits[at] >> 2 * width, key, n, along, by, starts, alike
            )
            if other < 0 or to_other < 0:
                continue
            cost = _cost(one, other, to_one, to_other, of, base, values, kind, steps, reach)
            if cost < least:
                least, best = cost, at
                four[0, found], four[1, found] = one, other
                four[2, found], four[3, found] = to_one, to_other
        if best >= 0:
            number[found] = best + (0 if is_over else _SHORT)
            found += 1
    kept = _kept_apart(four[:, :found], number[:found], len(n), of, base)
    for i in kept:
        source = np.array([four[0, i], four[1, i]])
        target = np.array([four[2, i], four[3, i]])
        move(source, target, n, of, base, values)
    return len(kept)
