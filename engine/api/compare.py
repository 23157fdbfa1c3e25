"""The Python face of comparisons: sticky and dp releases of one spec, side by side.

import engine
comparison = engine.compare("release.toml", epsilon=[0.5, 1, 2], seeds=3, out="compare.html")
comparison.spread("tables.s_pmse_2", "dp", 1.0).median
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine import release
from engine.api.build import read
from engine.evaluation.compare import (
    EPSILONS,
    Build,
    ModeComparison,
    checked_epsilons,
    compare_all,
    with_defaults,
)
from engine.evaluation.report import check_target, write_comparison
from engine.progress import Progress
from engine.spec import ReleaseSpec


def compare(
    what: ReleaseSpec | str | Path,
    *,
    epsilon: str | Sequence[float] = EPSILONS,
    seeds: int = 3,
    out: str | Path | None = None,
    frame: Any = None,
    jobs: int = 2,
    build: Build | None = None,
    progress: Progress | None = None,
) -> ModeComparison:
    """Build sticky and dp releases of a spec's tables in scratch, and say how good each is. The result is CONFIDENTIAL.

    Parameters
    ----------
    what : ReleaseSpec, str or Path
        A spec or the path of one. Without a section `[dp]` the defaults stand: every domain must be public.
    epsilon : sequence of float, or str
        Budgets of the dp releases.
    seeds : int
        How many releases of each way are built, each with a key, or noise, of its own.
    out : str or Path, optional
        HTML file to write; JSON goes beside it.
    frame : object, optional
        The source, where the spec's is a frame.
    jobs : int
        As in `engine.build`.
    build : callable, optional
        Builds a release of a spec at a path; by default as `engine.build`.

    Raises
    ------
    SpecError, DataError, PrivacyError, StoreError
    """
    if out is not None:
        check_target(Path(out))
    epsilons = checked_epsilons(epsilon)
    spec = what if isinstance(what, ReleaseSpec) else read(Path(what))
    notes: tuple[str, ...] = ()
    if spec.dp is None:
        spec = with_defaults(spec)
        notes = ("The spec has no section [dp]: the defaults of dp mode stand.",)

    def built(one: ReleaseSpec, path: Path) -> object:
        return release.build(one, path, frame=frame, jobs=jobs)

    comparison = compare_all(
        spec,
        epsilons=epsilons,
        repeats=seeds,
        build=build or built,
        frame=frame,
        notes=notes,
        progress=progress,
    )
    if out is not None:
        write_comparison(comparison, Path(out))
    return comparison
