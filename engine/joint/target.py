"""What the fit of a joint distribution works on: targets for its margins, and how well they were met."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.schema import ColumnSet, FloatArray

Sizes = Mapping[str, int]
"""Number of levels of each column."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """What one margin of the joint distribution should be.

    Attributes
    ----------
    columns : ColumnSet
    n : ndarray of float64
        One axis a column, never negative. All targets of a fit have the same sum.
    """

    columns: ColumnSet
    n: FloatArray


@dataclass(frozen=True, kw_only=True, slots=True)
class FitReport:
    """How a fit ended.

    Attributes
    ----------
    how : str
        "dense", "junction tree" or "support rows".
    cycles : int
    error : float
        Largest sum of absolute differences between a margin and its target, as a share of all rows.
    converged : bool
        The error is within the tolerance.
    at_rest : bool
        It is, or more cycles would not make it smaller: the targets contradict each other, as noisy ones do.
    """

    how: str
    cycles: int
    error: float
    converged: bool
    at_rest: bool = True
