"""CONFIDENTIAL. Comparison: modes, settings or generators on the same data, made in scratch, scored and attacked alike.

Takes a `ReleaseSpec`, candidates, and a function that builds; gives a `Comparison`: every figure over all runs.
May import what `engine.evaluation` may, and its `attacks`, `baselines`, `data`, `measures`, `study`.
"""

from engine.evaluation.compare.building import (
    EPSILONS,
    Build,
    beside_baselines,
    checked_epsilons,
    compare_all,
    dp_name,
    refuse_scratch,
    settings_of,
    variants,
    with_defaults,
)
from engine.evaluation.compare.result import Comparison

__all__ = [
    "EPSILONS",
    "Build",
    "Comparison",
    "beside_baselines",
    "checked_epsilons",
    "compare_all",
    "dp_name",
    "refuse_scratch",
    "settings_of",
    "variants",
    "with_defaults",
]
