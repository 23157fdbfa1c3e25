"""When raking ends: a cycle in, the number of cycles run and whether it came to rest out.

Raking to margins that agree converges, at times slowly; to margins that do not, it goes round between them for ever.
So it also ends once the error has all but stopped to fall.
"""

from __future__ import annotations

from collections.abc import Callable

PATIENCE = 5
"""Cycles in which the error must fall by LEAST_GAIN."""
LEAST_GAIN = 0.01
FIRST = 10
"""Cycles that are always allowed."""


def run_cycles(
    cycle: Callable[[], float], *, max_cycles: int, tolerance: float
) -> tuple[int, bool]:
    """Run cycles until the error is within the tolerance, or no longer falls.

    Parameters
    ----------
    cycle : callable
        Rakes to every margin once; gives the largest error met on the way, as a share of all rows.
    max_cycles : int
    tolerance : float

    Returns
    -------
    cycles : int
    at_rest : bool
        The error is within the tolerance, or has stopped to fall: more cycles would not help.
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
