"""CONFIDENTIAL. Comparison: sticky and dp releases of the same tables, built in scratch and scored alike.

Takes a `ReleaseSpec`, budgets, and a function that builds.
Gives a `ModeComparison`: every figure over all runs.
May import what `engine.evaluation` may, and its `data`, `study`, `utility`.
"""

from engine.evaluation.compare.building import (
    EPSILONS,
    Build,
    checked_epsilons,
    compare_all,
    refuse_scratch,
    with_defaults,
)
from engine.evaluation.compare.runs import ModeComparison

__all__ = [
    "EPSILONS",
    "Build",
    "ModeComparison",
    "checked_epsilons",
    "compare_all",
    "refuse_scratch",
    "with_defaults",
]
