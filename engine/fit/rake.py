"""Iterative proportional fitting over a list of cells (dense arrays are a list too).

Takes a positive start and margins, each a partition of the cells with bounds for its sums; gives the cells raked to the
margins, near the start (nearest in relative entropy where each sum has one right value). Deming and Stephan 1940,
doi:10.1214/aoms/1177731829. Stops on the largest margin error, and says so when it could not get below the tolerance.

A measured cell is known up to its noise variance, however large it is; in plain raking a margin that is
off by a tenth would take a tenth of each. Here what a margin is off is shared out by variance: a filled cell counts
with all it holds (for these alone this is plain raking), a measured one with its noise variance at most.
"""

from __future__ import annotations

import numpy as np

from engine.fit.budget import BUDGET
from engine.fit.cells import Margins
from engine.kernels import kernel, part
from engine.schema import BoolArray, FloatArray, Int64Array

TOLERANCE = 0.01
"""Share of a count (of 1 at least) that its cells may be off by, far below what rounding adds."""


def rake(
    x: FloatArray,
    margins: Margins,
    released: BoolArray,
    noise: float,
    *,
    max_cycles: int = BUDGET.raking_cycles,
    tolerance: float = TOLERANCE,
) -> tuple[int, float]:
    """Rake cells to margins, in place.

    margins: A sum within its bounds is left alone. The last margin is met best.
    released: The cell was measured, with so much noise variance; others were filled.
    tolerance: Stop once no sum is out of its bounds by more than this share of max(bound, 1); or when
        so many cycles as the budget says have not halved what the sums are out of bounds together.

    Returns: Cycles run; rows by which a margin's sums were out of bounds in the last cycle, as a share of its rows; of
    all margins the largest.
    """
    variance = np.where(released, noise, np.inf)
    return raked(x, variance, margins, max_cycles, BUDGET.raking_patience, tolerance)


@part
def _summed(
    x: FloatArray, variance: FloatArray, of: Int64Array, have: FloatArray, weights: FloatArray
) -> None:
    """What the cells of each sum hold together, and what they count for where it is shared out."""
    have[:] = 0.0
    weights[:] = 0.0
    for cell in range(len(x)):
        have[of[cell]] += x[cell]
        weights[of[cell]] += min(x[cell], variance[cell])


@part
def _compared(
    have: FloatArray, target: FloatArray, low: Int64Array, high: Int64Array
) -> tuple[float, float, float]:
    """Fill in what each sum should have; how far they are apart, what is wanted, the worst share."""
    apart, whole, worst = 0.0, 0.0, 0.0
    for one in range(len(have)):
        target[one] = min(max(have[one], float(low[one])), float(high[one]))
        off = abs(have[one] - target[one])
        apart += off
        whole += target[one]
        worst = max(worst, off / max(target[one], 1.0))
    return apart, whole, worst


@part
def _share(
    x: FloatArray,
    variance: FloatArray,
    of: Int64Array,
    rate: FloatArray,
    least: FloatArray,
    after: Int64Array,
    have: FloatArray,
    weights: FloatArray,
) -> None:
    """Add to the cells of each sum what it falls short of; on the way the sums of the margin that comes after."""
    have[:] = 0.0
    weights[:] = 0.0
    for cell in range(len(x)):
        one, other = of[cell], after[cell]
        now = max(x[cell] + min(x[cell], variance[cell]) * rate[one], least[one] * x[cell])
        x[cell] = now
        have[other] += now
        weights[other] += min(now, variance[cell])


@kernel
def raked(
    x: FloatArray,
    variance: FloatArray,
    margins: Margins,
    max_cycles: int,
    patience: int,
    tolerance: float,
) -> tuple[int, float]:
    """Rake `x` in place; return the cycles run and the error of the last.

    Each margin's sums are taken while the one before it is shared out, unless that was met: a look at all cells costs
    most. They are taken in the order of the cells.
    """
    of, base, low, high = margins
    error, cycles, mark = 0.0, 0, np.inf
    have, target = np.empty(len(low)), np.empty(len(low))
    weights, rate, least = np.empty(len(low)), np.empty(len(low)), np.empty(len(low))
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
            for one in range(begin, end):
                short = target[one] - have[one]
                rate[one] = short / weights[one] if weights[one] > 0 else 0.0
                # No cell loses more than 3/4 at once.
                least[one] = 0.25 if target[one] > 0 else 0.0
            summed = (margin + 1) % n_margins
            first, last = base[summed], base[summed + 1]
            _share(
                x,
                variance,
                of[margin],
                rate[begin:end],
                least[begin:end],
                of[summed],
                have[first:last],
                weights[first:last],
            )
        if largest <= tolerance:
            break
        if cycles % patience == 0:
            if together > mark / 2:
                break
            mark = together
    return cycles, error
