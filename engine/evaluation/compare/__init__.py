"""CONFIDENTIAL. Comparison: releases of one spec in both modes, or with other settings, built in scratch, scored alike.

Takes a `ReleaseSpec`, budgets, and a function that builds.
Gives a `ModeComparison`, a `LeverMap`, or, beside rivals, a `Contest`: every figure over all runs.
May import what `engine.evaluation` may, and its `attacks`, `data`, `risk`, `rivals`, `study`, `utility`.
"""

from engine.evaluation.compare.building import (
    EPSILONS,
    Build,
    checked_epsilons,
    compare_all,
    refuse_scratch,
    with_defaults,
)
from engine.evaluation.compare.contest import Contest
from engine.evaluation.compare.levers import map_levers
from engine.evaluation.compare.mapped import LeverMap
from engine.evaluation.compare.rivalry import contest
from engine.evaluation.compare.runs import ModeComparison

__all__ = [
    "EPSILONS",
    "Build",
    "Contest",
    "LeverMap",
    "ModeComparison",
    "checked_epsilons",
    "compare_all",
    "contest",
    "map_levers",
    "refuse_scratch",
    "with_defaults",
]
