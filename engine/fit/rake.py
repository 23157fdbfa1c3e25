"""Iterative proportional fitting over a list of cells (dense arrays are a list too).

Takes a positive start and margins, each a partition of the cells with bounds for its sums; gives the cells raked to the
margins, near the start (nearest in relative entropy where each sum has one right value). Deming and Stephan 1940,
doi:10.1214/aoms/1177731829. Stops on the largest margin error, and says so when it could not get below the tolerance:
it never loops on.

Cells that were measured are sure to their noise variance, however large they are; in plain raking a margin that is
off by a tenth would take a tenth of each. Here what a margin is off is shared out by variance: a filled cell counts
with all it holds (for these alone this is plain raking), a measured one with its noise variance at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.fit.candidates import MarginBounds
from engine.fit.compiled.loops import RAKING, compiled
from engine.schema import FloatArray

PATIENCE = 6
"""Cycles in which what the sums are out of bounds must have halved for raking to go on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RakeResult:
    """Result of raking."""

    x: FloatArray  # shape (n_cells,)
    cycles: int  # Cycles run
    # Rows by which a margin's sums were out of bounds in the last cycle, as a share of its rows; of all
    # margins the largest.
    error: float


def rake(
    x: FloatArray,
    margins: Sequence[MarginBounds],
    *,
    variance: FloatArray | None = None,
    max_cycles: int = 30,
    tolerance: float = 0.01,
) -> RakeResult:
    """Rake cells to margins.

    margins: A sum within its bounds is left alone. The last margin is met best.
    variance: Noise variance of each cell; infinite for cells that were filled. None: plain raking.
    tolerance: Stop once no sum is out of its bounds by more than this share of max(bound, 1); or when
        PATIENCE cycles have not halved what the sums are out of bounds together.
    """
    kernels = compiled(RAKING)
    if kernels and variance is not None:
        base = np.cumsum([0, *(len(m.low) for m in margins)])
        low, high = (
            np.concatenate([getattr(m, name) for m in margins]).astype(np.float64)
            for name in ("low", "high")
        )
        x = x.astype(np.float64)
        cycles, error = kernels.rake_by_variance(
            x,
            variance,
            np.stack([m.of for m in margins]),
            base,
            low,
            high,
            max_cycles,
            PATIENCE,
            tolerance,
        )
        return RakeResult(x=x, cycles=cycles, error=error)
    error, cycles, mark = 0.0, 0, np.inf
    bounds = [(m.low.astype(np.float64), m.high.astype(np.float64)) for m in margins]
    while cycles < max_cycles:
        cycles += 1
        error, largest, together = 0.0, 0.0, 0.0
        for margin, (low, high) in zip(margins, bounds, strict=True):
            have = np.bincount(margin.of, weights=x, minlength=len(low)).astype(np.float64)
            target = np.minimum(np.maximum(have, low), high)
            off = np.abs(have - target)
            apart = float(np.cumsum(off)[-1]) if len(off) else 0.0
            if apart == 0.0:
                continue
            together += apart
            error = max(error, apart / max(float(np.cumsum(target)[-1]), 1.0))
            largest = max(largest, float((off / np.maximum(target, 1.0)).max()))
            if variance is None:
                factor = np.divide(target, have, out=np.zeros_like(target), where=have > 0)
                x = x * factor[margin.of]
            else:
                x = _shared_by_variance(x, variance, margin, target, have)
        if largest <= tolerance:
            break
        if cycles % PATIENCE == 0:
            if together > mark / 2:
                break
            mark = together
    return RakeResult(x=x, cycles=cycles, error=error)


def _shared_by_variance(
    x: FloatArray, variance: FloatArray, margin: MarginBounds, target: FloatArray, have: FloatArray
) -> FloatArray:
    """Add to the cells of each margin entry what it falls short of; no cell loses more than 3/4 at once."""
    short = target - have
    weight = np.minimum(x, variance)
    sums = np.bincount(margin.of, weights=weight, minlength=len(short))
    rate = np.divide(short, sums, out=np.zeros_like(short), where=sums > 0)[margin.of]
    least = np.where(target > 0, 0.25, 0.0)[margin.of] * x
    shared: FloatArray = np.maximum(x + weight * rate, least)
    return shared
