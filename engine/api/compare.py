"""The Python face of comparisons: sticky and dp releases of one spec, side by side; the levers of a sticky one.

import engine
comparison = engine.compare("release.toml", epsilon=[0.5, 1, 2], seeds=3, out="compare.html")
comparison.spread("tables.s_pmse_2", "dp", 1.0).median
found = engine.compare_levers("release.toml", control="strangers.csv", out="levers.html")
found.spread("attribute", found.settings()[0]).median
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine import release
from engine.api.reading import read
from engine.evaluation.compare import (
    EPSILONS,
    Build,
    LeverMap,
    ModeComparison,
    checked_epsilons,
    compare_all,
    map_levers,
    with_defaults,
)
from engine.evaluation.report import check_target, write_comparison, write_map
from engine.progress import Progress
from engine.spec import ReleaseSpec, of_rows

_INSTEAD = "a source of one row an entity"


def compare(
    what: ReleaseSpec | str | Path,
    *,
    epsilon: str | Sequence[float] = EPSILONS,
    control: Any = None,
    seeds: int = 3,
    out: str | Path | None = None,
    frame: Any = None,
    jobs: int = 2,
    force: bool = False,
    build: Build | None = None,
    progress: Progress | None = None,
) -> ModeComparison:
    """Build sticky and dp releases of a spec's tables in scratch; say how good and safe each is. CONFIDENTIAL.

    Parameters
    ----------
    what : ReleaseSpec, str or Path
        A spec or the path of one. Without a section `[dp]` the defaults stand: every domain must be public.
    epsilon : sequence of float, or str
        Budgets of the dp releases.
    control : str, Path, DataFrame or Arrow table, optional
        People of the same population whom the source does not hold: the attacks' control.
    seeds : int
        How many releases of each way are built, each with a key, or noise, of its own.
    out : str or Path, optional
        HTML file to write; JSON goes beside it.
    frame : object, optional
        The source, where the spec's is a frame.
    jobs : int
        As in `engine.build`.
    force : bool
        Replace files that are there.
    build : callable, optional
        Builds a release of a spec at a path; by default as `engine.build`.

    Raises
    ------
    SpecError, DataError, PrivacyError, StoreError
    """
    if out is not None:
        check_target(Path(out), force=force, inputs=[what])
    epsilons = checked_epsilons(epsilon)
    spec = of_rows(what if isinstance(what, ReleaseSpec) else read(Path(what)), _INSTEAD)
    notes: tuple[str, ...] = ()
    if spec.dp is None:
        spec = with_defaults(spec)
        notes = ("The spec has no section [dp]: the defaults of dp mode stand.",)

    comparison = compare_all(
        spec,
        epsilons=epsilons,
        repeats=seeds,
        build=build or _builder(frame, jobs),
        frame=frame,
        control=control,
        notes=notes,
        progress=progress,
    )
    if out is not None:
        write_comparison(comparison, Path(out), force=force)
    return comparison


def compare_levers(
    what: ReleaseSpec | str | Path,
    *,
    control: Any = None,
    seeds: int = 1,
    out: str | Path | None = None,
    frame: Any = None,
    jobs: int = 2,
    force: bool = False,
    build: Build | None = None,
    progress: Progress | None = None,
) -> LeverMap:
    """Say what each setting of a sticky release costs, and what it takes from attackers. The result is CONFIDENTIAL.

    Builds the spec in scratch, as it is and with one lever moved at a time: threshold, noise, profile, fewer tables,
    and swapping where the spec declares it.

    Parameters
    ----------
    what : ReleaseSpec, str or Path
        A spec or the path of one.
    control : str, Path, DataFrame or Arrow table, optional
        People of the same population whom the source does not hold: the attacks' control.
    seeds : int
        How many releases of each setting are built, each with a key of its own.
    out : str or Path, optional
        HTML file to write; JSON goes beside it.
    frame : object, optional
        The source, where the spec's is a frame.
    jobs : int
        As in `engine.build`.
    force : bool
        Replace files that are there.
    build : callable, optional
        Builds a release of a spec at a path; by default as `engine.build`.

    Raises
    ------
    SpecError, DataError, PrivacyError, StoreError
    """
    if out is not None:
        check_target(Path(out), force=force, inputs=[what])
    spec = of_rows(what if isinstance(what, ReleaseSpec) else read(Path(what)), _INSTEAD)

    found = map_levers(
        spec,
        repeats=seeds,
        build=build or _builder(frame, jobs),
        frame=frame,
        control=control,
        progress=progress,
    )
    if out is not None:
        write_map(found, Path(out), force=force)
    return found


def _builder(frame: Any, jobs: int) -> Build:
    """What builds a release of a spec at a path, if nobody says otherwise."""

    def built(one: ReleaseSpec, path: Path) -> object:
        return release.build(one, path, frame=frame, jobs=jobs)

    return built
