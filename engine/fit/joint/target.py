"""What the fit of a joint distribution works on: targets for its margins, and how well they were met."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from engine.schema import ColumnSet, FloatArray

Sizes = Mapping[str, int]
"""Number of levels of each column."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """What one margin of the joint distribution should be."""

    columns: ColumnSet
    n: FloatArray  # One axis a column, never negative. All targets of a fit have the same sum.


@dataclass(frozen=True, kw_only=True, slots=True)
class FitReport:
    """How a fit ended."""

    how: str  # "dense", "junction tree" or "support rows"
    cycles: int
    # Largest sum of absolute differences between a margin and its target, as a share of all rows.
    error: float
    converged: bool  # The error is within the tolerance
    # It is, or more cycles would not make it smaller: the targets contradict each other, as noisy ones do.
    at_rest: bool = True


PATIENCE = 5
"""Cycles in which the error must fall by LEAST_GAIN."""
LEAST_GAIN = 0.01
FIRST = 10
"""Cycles that are always allowed."""


def run_cycles(
    cycle: Callable[[], float], *, max_cycles: int, tolerance: float
) -> tuple[int, bool]:
    """Run cycles until the error is within the tolerance, or no longer falls.

    cycle: Rakes to every margin once; gives the largest error met on the way, as a share of all rows.

    Returns: The error is within the tolerance, or has stopped to fall: more cycles would not help.
    """
    errors: list[float] = []
    while len(errors) < max_cycles:
        errors.append(cycle())
        if errors[-1] <= tolerance or _stands_still(errors):
            return len(errors), True
    return len(errors), False


def _stands_still(errors: list[float]) -> bool:
    if len(errors) < FIRST:
        return False
    return errors[-1] > (1 - LEAST_GAIN) * errors[-1 - PATIENCE]
