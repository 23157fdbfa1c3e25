"""The main path, spec -> measure -> folder -> fit -> release, in both modes (`building`), and its plans.

Takes a `ReleaseSpec`, perhaps a frame.
Gives a release file (`build`), by way of a measurement folder (`measure`, `fit`), or what it would hold (`plan`,
    `plan_dp`).
May import the engine's root, `engine.spec`, `engine.source`, `engine.measure`, `engine.fit`, `engine.store`.
    What runs in the fit process (`fit_process` and all it reaches) imports the root, `engine.fit` and
    `engine.store` only: so names are resolved when they are first used.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.progress import Progress
    from engine.release.building import fit, make, measure
    from engine.release.fitter import Fitter
    from engine.release.header import unpublishable
    from engine.release.planner import Estimate, Plan, estimate, fitting, further_tables, plan
    from engine.release.planner_dp import PlanDP, noise_words, plan_dp
    from engine.release.relating import measure_columns
    from engine.release.sticky import fit_order
    from engine.spec import ReleaseSpec
    from engine.store import EarlierRelease

__all__ = [
    "Estimate",
    "Fitter",
    "Made",
    "Plan",
    "PlanDP",
    "build",
    "estimate",
    "fit",
    "fit_order",
    "fitting",
    "further_tables",
    "make",
    "measure",
    "measure_columns",
    "noise_words",
    "plan",
    "plan_dp",
    "unpublishable",
]
_HOMES = {
    "Fitter": "fitter",
    **dict.fromkeys(
        ("Estimate", "Plan", "estimate", "fitting", "further_tables", "plan"), "planner"
    ),
    **dict.fromkeys(("PlanDP", "noise_words", "plan_dp"), "planner_dp"),
    **dict.fromkeys(("fit", "make", "measure"), "building"),
    "measure_columns": "relating",
    "fit_order": "sticky",
    "unpublishable": "header",
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
    exposure: dict[str, Any]  # What it says that it discloses: `Exposure.as_dict`


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
    jobs: Tables that are fitted at once.
    earlier: Mode sticky: a release of the same data, key and spec but for its tables. Those that both have
        are taken from there; the result is what a build of all would be.
    """
    from engine.release.building import make

    return make(
        spec, out, frame=frame, jobs=jobs, force=force, earlier=earlier, progress=progress
    ).path
