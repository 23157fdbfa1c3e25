"""Rounds of moves, compiled: see `engine.fit.whole.steps`, whose arrays these are."""

from __future__ import annotations

import numpy as np
from numba import float64, int64, njit, types, void

from engine.fit.compiled.sources.pairs import exchanges
from engine.fit.compiled.sources.single import single_moves
from engine.fit.compiled.sources.sums import move_priced, penalty, set_prices

__all__ = ["go_on", "until_idle"]

_INTS, _INTS_2D = int64[::1], int64[:, ::1]
_SUMS = (_INTS_2D, _INTS, _INTS_2D, _INTS, _INTS, _INTS, _INTS, _INTS_2D, _INTS)


@njit
def _priced(values, kind, fitted, steps, limits):
    """What a unit less and one more costs, of all sums."""
    prices = np.empty((2, len(values)), dtype=np.int64)
    set_prices(prices, 0, len(values), values, kind, fitted, steps, limits)
    return prices


@njit
def _longer(one, size, more):
    """An array with room for more entries behind the first ones."""
    if size + more <= len(one):
        return one
    out = np.empty(2 * (size + more), dtype=np.int64)
    for i in range(size):
        out[i] = one[i]
    return out


@njit(
    types.UniTuple(int64, 2)(
        *(
            _INTS,
            _INTS,
            _INTS,
            int64,
            int64,
            int64,
            _INTS,
            float64[::1],
            _INTS,
            _INTS,
            _INTS,
            _INTS,
        ),
        *(_INTS, _INTS, int64, *_SUMS),
    )
)
def go_on(
    asked, judged, weights, most, number, patience, n, x, fibre, heads, lot, code, index_key, index_order, index_width,
    of, base, order, first, values, kind, fitted, steps, limits,
):  # fmt: skip
    """`Steps.go_on`."""
    prices = _priced(values, kind, fitted, steps, limits)
    mark = least = penalty(asked, base, values, kind, steps, limits)
    left, came = np.empty(1024, dtype=np.int64), np.empty(1024, dtype=np.int64)
    made, idle, n_asked = 0, 0, len(asked)
    for _ in range(limits[10]):
        if not least or idle > patience:
            break
        turn, at = number // n_asked, number % n_asked
        if n_asked == 1 or number < limits[11] or turn % 2 == 0:
            source, target = single_moves(
                asked[at], judged, weights, most, number, n, x, fibre, lot, of, base, order, first, values, kind,
                fitted, prices, limits,
            )  # fmt: skip
        else:
            kept = asked[(at + 1 + turn // 2 % (n_asked - 1)) % n_asked]
            source, target = exchanges(
                asked[at], kept, judged, weights, most, number, n, fibre, heads, lot, code, of, base, order, first,
                values, kind, fitted, prices, index_key, index_order, index_width, limits,
            )  # fmt: skip
        number += 1
        move_priced(source, target, n, of, base, values, kind, fitted, prices, steps, limits)
        left, came = _longer(left, made, len(source)), _longer(came, made, len(source))
        for i in range(len(source)):
            left[made + i], came[made + i] = source[i], target[i]
        made += len(source)
        now = penalty(asked, base, values, kind, steps, limits)
        if now < least:
            least, made = now, 0
        idle += 1
        if 100 * now < limits[12] * mark:
            mark, idle = now, 0
    # What came after the best round is undone.
    move_priced(came[:made], left[:made], n, of, base, values, kind, fitted, prices, steps, limits)
    return number, least


@njit(void(int64, _INTS, _INTS, int64, _INTS, float64[::1], _INTS, _INTS, *_SUMS))
def until_idle(
    asked, judged, weights, most, n, x, fibre, lot, of, base, order, first, values, kind, fitted, steps, limits
):  # fmt: skip
    """`Steps.until_idle`."""
    prices = _priced(values, kind, fitted, steps, limits)
    for number in range(limits[13]):
        source, target = single_moves(
            asked, judged, weights, most, number, n, x, fibre, lot, of, base, order, first, values, kind, fitted,
            prices, limits,
        )  # fmt: skip
        if not len(source):
            return
        move_priced(source, target, n, of, base, values, kind, fitted, prices, steps, limits)
