"""Iterative proportional fitting over a list of cells (dense arrays are a list too).

Takes a positive start and margins, each a partition of the cells with target counts; gives the cells raked to the
margins: the distribution nearest to the start (in relative entropy) that meets them, where one exists. Deming and
Stephan 1940, doi:10.1214/aoms/1177731829. Stops on the largest margin error, and says so when it could not get
below the tolerance: it never loops on.

Cells that were measured are sure to their noise variance, however large they are; in plain raking a margin that is
off by a tenth would take a tenth of each. Here what a margin is off is shared out by variance: a filled cell counts
with all it holds (for these alone this is plain raking), a measured one with its noise variance at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.candidates import Margin
from engine.schema import FloatArray


@dataclass(frozen=True, kw_only=True, slots=True)
class Raked:
    """Result of raking.

    Attributes
    ----------
    x : ndarray of float64, shape (n_cells,)
    cycles : int
        Cycles run.
    error : float
        Largest margin error relative to max(target, 1), met in the last cycle.
    """

    x: FloatArray
    cycles: int
    error: float


def rake(
    x: FloatArray,
    margins: Sequence[Margin],
    *,
    variance: FloatArray | None = None,
    max_cycles: int = 30,
    tolerance: float = 0.01,
) -> Raked:
    """Rake cells to margins.

    Parameters
    ----------
    x : ndarray of float64, shape (n_cells,)
        Start, >= 0; a zero stays a zero.
    margins : sequence of Margin
    variance : ndarray of float64, shape (n_cells,), optional
        Noise variance of each cell; infinite for cells that were filled. None: plain raking.
    max_cycles : int
    tolerance : float
        Stop once no margin differs from its target by more than this share of max(target, 1).

    Returns
    -------
    Raked
    """
    error, cycles = 0.0, 0
    targets = [margin.n.astype(np.float64) for margin in margins]
    while cycles < max_cycles:
        cycles += 1
        error = 0.0
        for margin, target in zip(margins, targets, strict=True):
            have = np.bincount(margin.of, weights=x, minlength=len(target)).astype(np.float64)
            off = np.abs(have - target) / np.maximum(target, 1.0)
            error = max(error, float(off.max(initial=0.0)))
            if variance is None:
                factor = np.divide(target, have, out=np.zeros_like(target), where=have > 0)
                x = x * factor[margin.of]
            else:
                x = _shared_by_variance(x, variance, margin, target, have)
        if error <= tolerance:
            break
    return Raked(x=x, cycles=cycles, error=error)


def _shared_by_variance(
    x: FloatArray, variance: FloatArray, margin: Margin, target: FloatArray, have: FloatArray
) -> FloatArray:
    """Add to the cells of each margin entry what it falls short of; no cell loses more than 3/4 at once."""
    short = target - have
    weight = np.minimum(x, variance)
    sums = np.bincount(margin.of, weights=weight, minlength=len(short))
    rate = np.divide(short, sums, out=np.zeros_like(short), where=sums > 0)[margin.of]
    least = np.where(target > 0, 0.25, 0.0)[margin.of] * x
    shared: FloatArray = np.maximum(x + weight * rate, least)
    return shared
