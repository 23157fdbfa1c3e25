"""The Python face of comparisons: sticky and dp releases of one spec, side by side; levers of a sticky one; rivals.

import engine
comparison = engine.compare("release.toml", epsilon=[0.5, 1, 2], seeds=3, out="compare.html")
comparison.spread("tables.s_pmse_2", "dp", 1.0).median
found = engine.compare_levers("release.toml", control="strangers.csv", out="levers.html")
found.spread("attribute", found.settings()[0]).median
contest = engine.compare_rivals("release.toml", ["cart", "sample40", "theirs.csv"], out="rivals.html")
contest.spread("misplaced", "cart").median
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine import release
from engine.api.reading import read
from engine.errors import SpecError
from engine.evaluation.compare import (
    EPSILONS,
    Build,
    Contest,
    LeverMap,
    ModeComparison,
    checked_epsilons,
    compare_all,
    contest,
    map_levers,
    with_defaults,
)
from engine.evaluation.report import check_target, write_comparison, write_contest, write_map
from engine.evaluation.rivals import entrants
from engine.evaluation.study import Study, named_study, with_files
from engine.progress import Progress
from engine.spec import ReleaseSpec, of_rows

_INSTEAD = "a source of one row an entity"
EPSILON = (1.0,)
"""Of the dp release that rivals are held beside, where the spec names none."""


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
    epsilons = checked_epsilons(epsilon)
    spec = _spec(what, out, force=force)
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
    spec = _spec(what, out, force=force)
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


def compare_rivals(
    what: ReleaseSpec | str | Path,
    rivals: str | Sequence[str],
    *,
    epsilon: str | Sequence[float] | None = None,
    study: Study | str | Path | None = None,
    control: Any = None,
    areas: Sequence[str] = (),
    seeds: int = 1,
    out: str | Path | None = None,
    frame: Any = None,
    jobs: int = 2,
    force: bool = False,
    build: Build | None = None,
    progress: Progress | None = None,
) -> Contest:
    """Hold our two modes beside other generators on the same data: utility, risk, time. The result is CONFIDENTIAL.

    Parameters
    ----------
    what : ReleaseSpec, str or Path
        A spec or the path of one. Where dp mode cannot build it (domains that are not public), only sticky mode does.
    rivals : str or sequence of str
        Names of rivals, synthetic files, commands; see `engine.evaluation.rivals.entrants`.
    epsilon : sequence of float, or str, optional
        Budgets of the dp releases; by default the spec's, or 1.
    study : Study, str or Path, optional
        What is measured: a study, the path of one, or the name of a preset. By default chosen by rule.
    control : str, Path, DataFrame or Arrow table, optional
        People of the same population whom the source does not hold: the attacks' control.
    areas : sequence of str
        Columns that record swapping exchanges; by default those of the spec's own swapping.
    seeds : int
        How often each is made.
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
    given = entrants([rivals] if isinstance(rivals, str) else list(rivals))
    spec = _spec(what, out, control, *(one.path for one in given), force=force)
    declared = None if study is None else _study(study, spec)
    spec, notes = _with_dp(spec)
    own = spec.dp.epsilon if spec.dp is not None else None
    epsilons = checked_epsilons(epsilon or ((own,) if own is not None else EPSILON))

    found = contest(
        spec,
        given,
        epsilons=epsilons,
        repeats=seeds,
        build=build or _builder(frame, jobs),
        frame=frame,
        control=control,
        study=declared,
        areas=areas,
        notes=notes,
        progress=progress,
    )
    if out is not None:
        write_contest(found, Path(out), force=force)
    return found


def _spec(
    what: ReleaseSpec | str | Path, out: str | Path | None, *more: Any, force: bool
) -> ReleaseSpec:
    """The spec that is compared; the page goes over none of what is read."""
    if out is not None:
        check_target(Path(out), force=force, inputs=[what, *more])
    return of_rows(what if isinstance(what, ReleaseSpec) else read(Path(what)), _INSTEAD)


def _with_dp(spec: ReleaseSpec) -> tuple[ReleaseSpec, tuple[str, ...]]:
    """The spec with parameters of dp mode, if it can have any, and what a reader must know of that."""
    if spec.dp is not None:
        return spec, ()
    try:
        return with_defaults(spec), (
            "The spec has no section [dp]: the defaults of dp mode stand.",
        )
    except SpecError as error:
        return spec, (
            f"Mode dp is not compared, as the spec has no place for it: {error.problems[0]}",
        )


def _study(study: Study | str | Path, spec: ReleaseSpec) -> Study:
    """A study that is given, or named; its files lie beside it or beside the data."""
    near = [Path(path).parent for path in spec.source.paths]
    if isinstance(study, Study):
        return with_files(study, near)
    folders = [Path(study).parent, *near]
    found, _ = named_study(study, beside=folders, read_spec=read)
    if found is None:
        raise SpecError(f"{study}: is the spec of a release, and no study")
    return with_files(found, folders)


def _builder(frame: Any, jobs: int) -> Build:
    """What builds a release of a spec at a path, if nobody says otherwise."""

    def built(one: ReleaseSpec, path: Path) -> object:
        return release.build(one, path, frame=frame, jobs=jobs)

    return built
