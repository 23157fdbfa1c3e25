"""Raking by variance, compiled: `engine.fit.rake` says what and why; bit for bit the same, without an array a step.

Sums are taken in the order of the cells, as numpy's `bincount` and `cumsum` take them, and nothing is contracted.
"""

from __future__ import annotations

import numpy as np
from numba import float64, int64, njit, types

__all__ = ["rake_by_variance"]

_INTS, _FLOATS, _INTS_2D = int64[::1], float64[::1], int64[:, ::1]
_RAKED = types.Tuple((int64, float64))


@njit
def _summed(x, variance, of, have, weights):
    """What the cells of each sum hold together, and what they count for where it is shared out."""
    have[:] = 0.0
    weights[:] = 0.0
    for cell in range(len(x)):
        part = of[cell]
        have[part] += x[cell]
        weights[part] += min(x[cell], variance[cell])


@njit
def _compared(have, target, low, high):
    """Fill in what each sum should have; how far they are apart, what is wanted, the worst share."""
    apart, whole, worst = 0.0, 0.0, 0.0
    for part in range(len(have)):
        target[part] = min(max(have[part], low[part]), high[part])
        off = abs(have[part] - target[part])
        apart += off
        whole += target[part]
        worst = max(worst, off / max(target[part], 1.0))
    return apart, whole, worst


@njit
def _share(x, variance, of, rate, least, after, have, weights):
    """Add to the cells of each sum what it falls short of; on the way the sums of the margin that comes after."""
    have[:] = 0.0
    weights[:] = 0.0
    for cell in range(len(x)):
        part, next_part = of[cell], after[cell]
        now = max(x[cell] + min(x[cell], variance[cell]) * rate[part], least[part] * x[cell])
        x[cell] = now
        have[next_part] += now
        weights[next_part] += min(now, variance[cell])


@njit(_RAKED(_FLOATS, _FLOATS, _INTS_2D, _INTS, _FLOATS, _FLOATS, int64, int64, float64))
def rake_by_variance(x, variance, of, base, low, high, max_cycles, patience, tolerance):
    """Rake `x` in place; return the cycles run and the error of the last.

    Each margin's sums are taken while the one before it is shared out, unless that was met: a look at all cells costs
    most.
    """
    error, cycles, mark = 0.0, 0, np.inf
    have, target = np.empty_like(low), np.empty_like(low)
    weights, rate, least = np.empty_like(low), np.empty_like(low), np.empty_like(low)
    n_margins, summed = of.shape[0], -1  # the margin whose sums are those of x as it is
    while cycles < max_cycles:
        cycles += 1
        error, largest, together = 0.0, 0.0, 0.0
        for margin in range(n_margins):
            begin, end = base[margin], base[margin + 1]
            if summed != margin:
                _summed(x, variance, of[margin], have[begin:end], weights[begin:end])
                summed = margin
            apart, whole, worst = _compared(
                have[begin:end], target[begin:end], low[begin:end], high[begin:end]
            )
            if apart == 0.0:
                continue
            together += apart
            error = max(error, apart / max(whole, 1.0))
            largest = max(largest, worst)
            for part in range(begin, end):
                short = target[part] - have[part]
                rate[part] = short / weights[part] if weights[part] > 0 else 0.0
                # No cell loses more than 3/4 at once.
                least[part] = 0.25 if target[part] > 0 else 0.0
            summed = (margin + 1) % n_margins
            first, last = base[summed], base[summed + 1]
            _share(
                x, variance, of[margin], rate[begin:end], least[begin:end], of[summed], have[first:last],
                weights[first:last],
            )  # fmt: skip
        if largest <= tolerance:
            break
        if cycles % patience == 0:
            if together > mark / 2:
                break
            mark = together
    return cycles, error
