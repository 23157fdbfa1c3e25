"""The wall and the two main paths: spec -> measure -> fit -> sample -> store (`sticky`, `dp`), and their plans.

Takes a `ReleaseSpec`, perhaps a frame.
Gives a release file (`build`), or what it would hold (`plan`, `plan_dp`).
May import the engine's root, `engine.spec`, `engine.source`, `engine.measure`, `engine.fit`, `engine.store`.
    What runs right of the wall (`fit_process` and all it reaches) imports the root, `engine.fit` and
    `engine.store` only: so names are resolved when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.release.fit_process import FitProcess
    from engine.release.fitter import Fitter
    from engine.release.planner import Estimate, Plan, estimate, plan
    from engine.release.planner_dp import PlanDP, noise_words, plan_dp
    from engine.release.relating import measure_columns
    from engine.release.sticky import Made, build, fit_order, make

__all__ = [
    "Estimate",
    "FitProcess",
    "Fitter",
    "Made",
    "Plan",
    "PlanDP",
    "build",
    "estimate",
    "fit_order",
    "make",
    "measure_columns",
    "noise_words",
    "plan",
    "plan_dp",
]
_HOMES = {
    "FitProcess": "fit_process",
    "Fitter": "fitter",
    **dict.fromkeys(("Estimate", "Plan", "estimate", "plan"), "planner"),
    **dict.fromkeys(("PlanDP", "noise_words", "plan_dp"), "planner_dp"),
    "measure_columns": "relating",
    **dict.fromkeys(("Made", "build", "fit_order", "make"), "sticky"),
}


def __getattr__(name: str) -> Any:
    """Resolve a public name when it is used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
