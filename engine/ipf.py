"""Iterative proportional fitting over a list of cells (dense arrays are a list too).

Takes a positive start and margins, each a partition of the cells with target counts; gives the cells raked to the
margins: the distribution nearest to the start (in relative entropy) that meets them, where one exists. Deming and
Stephan 1940, doi:10.1214/aoms/1177731829. Stops on the largest margin error, and says so when it could not get
below the tolerance: it never loops on.
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
        Largest margin error relative to max(target, 1), after the last cycle.
    """

    x: FloatArray
    cycles: int
    error: float


def rake(
    x: FloatArray,
    margins: Sequence[Margin],
    *,
    max_cycles: int = 30,
    tolerance: float = 0.01,
) -> Raked:
    """Rake cells to margins.

    Parameters
    ----------
    x : ndarray of float64, shape (n_cells,)
        Start, >= 0; a zero stays a zero.
    margins : sequence of Margin
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
            have = np.bincount(margin.of, weights=x, minlength=len(target))
            off = np.abs(have - target) / np.maximum(target, 1.0)
            error = max(error, float(off.max(initial=0.0)))
            factor = np.divide(target, have, out=np.zeros_like(target), where=have > 0)
            x = x * factor[margin.of]
        if error <= tolerance:
            break
    return Raked(x=x, cycles=cycles, error=error)
