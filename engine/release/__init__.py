"""The wall and the two main paths: spec -> measure -> fit -> sample -> store (`sticky`, `dp`), and their plans.

Takes a `ReleaseSpec`, perhaps a frame.
Gives a release file (`build`), or what it would hold (`plan`, `plan_dp`).
May import the engine's root, `engine.spec`, `engine.source`, `engine.measure`, `engine.fit`, `engine.store`.
    What runs right of the wall (`fit_process` and all it reaches) imports the root, `engine.fit` and
    `engine.store` only: so names are resolved when they are first used.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.release.pipes import interpreter_ahead

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.progress import Progress
    from engine.release.fit_process import FitProcess
    from engine.release.fitter import Fitter
    from engine.release.planner import Estimate, Plan, estimate, plan
    from engine.release.planner_dp import PlanDP, noise_words, plan_dp
    from engine.release.relating import measure_columns
    from engine.release.sticky import fit_order
    from engine.spec import ReleaseSpec
    from engine.store import EarlierRelease

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
    "fit_order": "sticky",
}


def __getattr__(name: str) -> Any:
    """Resolve a public name when it is used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


@dataclass(frozen=True, kw_only=True, slots=True)
class Made:
    """What was built, beside what the spec says of it."""

    path: Path  # The release
    # key_id, content_hash: As the release has them.
    key_id: str
    content_hash: str
    exposure: dict[str, Any]  # What it says that it gives away: `Exposure.as_dict`


def build(
    spec: ReleaseSpec,
    out: Path,
    *,
    frame: Any = None,
    jobs: int = 2,
    force: bool = False,
    earlier: EarlierRelease | None = None,
    progress: Progress | None = None,
) -> Path:
    """Build a release.

    out: The release file to be made; an older release there serves until the new one is whole.
    jobs: 1: measure and fit take turns. 2 and more: they work at the same time, and so many tables are fitted
        at once.
    earlier: Mode sticky: a release of the same data, key and spec but for its tables. Those that both have
        are taken from there; the result is what a build of all would be.
    """
    if spec.mode == "dp":
        from engine.release.dp import build_joint  # what it takes is slow to import

        out = Path(os.path.abspath(out))  # the fit process has a working folder of its own
        return build_joint(spec, out, frame=frame, force=force, progress=progress)
    return make(
        spec, out, frame=frame, jobs=jobs, force=force, earlier=earlier, progress=progress
    ).path


def make(
    spec: ReleaseSpec,
    out: Path,
    *,
    frame: Any = None,
    jobs: int = 2,
    force: bool = False,
    earlier: EarlierRelease | None = None,
    progress: Progress | None = None,
    placing: Callable[[], None] | None = None,
) -> Made:
    """Build a release in mode sticky, and say what it is; parameters and errors as `build`.

    placing: Called once all is made, before the release is put in place.
    """
    out = Path(os.path.abspath(out))
    with interpreter_ahead(f"{__name__}.fit_process", out) as child:
        from engine.release import sticky  # slow to import, while the other process loads

        return sticky.make(
            *(spec, out, child),
            frame=frame,
            jobs=jobs,
            force=force,
            earlier=earlier,
            report=progress,
            placing=placing,
        )
