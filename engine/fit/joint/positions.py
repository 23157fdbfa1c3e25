"""Where rows stand inside levels of several values, so that they add up to measured sums.

Shares of a level in, shares out. Each row's is tilted along a truncated exponential distribution, the one of largest
entropy for a given mean: steeper in wide levels, whose rows say more of a sum. No count of a level changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.levels import HALF
from engine.schema import FloatArray, Int64Array

STEEPEST = 60.0
"""Of the density over a whole level: its mean is a 60th of the level from an end."""
HALVINGS = 40
CYCLES = 3
FLAT = 1e-6
"""Below, a share stays what it is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupSums:
    """Noisy sums of positions in groups of rows."""

    group: Int64Array  # Of each row
    n: FloatArray  # Of each group: see `engine.levels.positions`
    variance: float


def meeting(share: FloatArray, width: FloatArray, sums: Sequence[GroupSums]) -> FloatArray:
    """Shares whose positions add up to the sums, as far as these are no noise.

    What the sums of a table are off by is shrunk as a whole by as much of it as is noise. Sums of fewer groups
    come first, and what more groups say beside them is made to leave them.

    share: Of the way through its level where each row stands.
    width: Of each row's level, as a share of the widest.
    """
    tilt, wanted = np.zeros(len(share)), dict[int, FloatArray]()
    ranked = sorted(sums, key=lambda one: len(one.n))
    for at in [*range(len(ranked))] * CYCLES:
        one = ranked[at]
        if at not in wanted:
            wanted[at] = _aim(one, _sums(share, tilt * width, width, one), is_first=at == 0)
        low, high = np.full(len(one.n), -STEEPEST), np.full(len(one.n), STEEPEST)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            is_low = _sums(share, (tilt + middle[one.group]) * width, width, one) < wanted[at]
            low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
        tilt = tilt + ((low + high) / 2)[one.group]
    return _tilted(share, tilt * width)


def _aim(sums: GroupSums, now: FloatArray, *, is_first: bool) -> FloatArray:
    """What positions are to add up to, where they add up to so much now."""
    off = sums.n - now
    noise = len(off) * sums.variance / max(float((off**2).sum()), 1e-300)
    off = off * max(1.0 - noise, 0.0)
    return now + (off if is_first else off - off.mean())


def _sums(share: FloatArray, steep: FloatArray, width: FloatArray, groups: GroupSums) -> FloatArray:
    """Positions of tilted shares, added up by group."""
    position = 2 * HALF * (_tilted(share, steep) - 0.5) * width
    return np.bincount(groups.group, position, len(groups.n)).astype(np.float64)


def _tilted(share: FloatArray, steep: FloatArray) -> FloatArray:
    """Quantiles of a density that grows as exp(steep * x) on [0, 1]."""
    steep = np.clip(steep, -2 * STEEPEST, 2 * STEEPEST)
    is_flat = np.abs(steep) < FLAT
    safe = np.where(is_flat, 1.0, steep)
    out: FloatArray = np.where(is_flat, share, np.log1p(share * np.expm1(safe)) / safe)
    return out
