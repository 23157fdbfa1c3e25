"""Comparisons from Python: modes sticky and dp for one spec, settings of mode sticky, and other generators.

import engine
comparison = engine.compare("release.toml", epsilon=[0.5, 1, 2], seeds=3, out="compare.html")
comparison.spread("tables.s_pmse_2", "dp, epsilon 1").median
comparison = engine.compare_levers("release.toml", control="others.csv", out="sweep.html")
comparison.spread("attribute", "the spec").median
comparison = engine.compare_rivals("release.toml", ["cart", "sample40", "theirs.csv"], out="others.html")
comparison.spread("misplaced", "cart").median
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine import release
from engine.api.reading import read
from engine.errors import SpecError
from engine.evaluation.baselines.catalogue import entrants
from engine.evaluation.compare import (
    EPSILONS,
    Build,
    Comparison,
    beside_baselines,
    checked_epsilons,
    compare_all,
    settings_of,
    variants,
    with_defaults,
)
from engine.evaluation.report.page import write_comparison
from engine.evaluation.report.verdicts import check_target
from engine.evaluation.study import Study, named_study, with_files
from engine.progress import Progress
from engine.spec import ReleaseSpec, of_rows

_INSTEAD = "a source of one row an entity"
EPSILON = (1.0,)
"""Budget of the dp release that is compared with other generators, if the spec has none."""


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
) -> Comparison:
    """Build sticky and dp releases of a spec in a temporary folder; compare utility and risk. CONFIDENTIAL.

    Parameters
    ----------
    what : ReleaseSpec, str or Path
        A spec or the path of one. Without a section `[dp]` its defaults apply, and every domain must be public.
    epsilon : sequence of float, or str
        Budgets of the dp releases.
    control, seeds, out, frame, jobs, force, build, progress
        As in `compare_rivals`.

    Raises
    ------
    SpecError, DataError, PrivacyError, StoreError
    """
    epsilons = checked_epsilons(epsilon)
    spec = _spec(what, out, force=force)
    notes: tuple[str, ...] = ()
    if spec.dp is None:
        spec = with_defaults(spec)
        notes = ("The spec has no section [dp]: the defaults of mode dp apply.",)

    comparison = compare_all(
        "modes",
        spec,
        variants(spec, epsilons),
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
) -> Comparison:
    """Sweep the settings of a sticky release: the utility that each costs, and the risk that it removes. CONFIDENTIAL.

    Builds the spec in a temporary folder, as it is and with one setting changed at a time: threshold, noise, profile,
    fewer tables, and record swapping if the spec declares it.

    Parameters
    ----------
    what : ReleaseSpec, str or Path
        A spec or the path of one.
    control, seeds, out, frame, jobs, force, build, progress
        As in `compare_rivals`.

    Raises
    ------
    SpecError, DataError, PrivacyError, StoreError
    """
    spec = _spec(what, out, force=force)
    comparison = compare_all(
        "sweep",
        spec,
        settings_of(spec),
        repeats=seeds,
        build=build or _builder(frame, jobs),
        frame=frame,
        control=control,
        progress=progress,
    )
    if out is not None:
        write_comparison(comparison, Path(out), force=force)
    return comparison


def compare_rivals(
    what: ReleaseSpec | str | Path,
    rivals: str | Sequence[str],
    *,
    epsilon: str | Sequence[float] | None = None,
    seeds: int = 1,
    study: Study | str | Path | None = None,
    areas: Sequence[str] = (),
    control: Any = None,
    out: str | Path | None = None,
    frame: Any = None,
    jobs: int = 2,
    force: bool = False,
    build: Build | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Compare both modes with other generators on the same data: utility, risk, time. The result is CONFIDENTIAL.

    Parameters
    ----------
    what : ReleaseSpec, str or Path
        Spec (TOML).

        Or a `ReleaseSpec`. If mode dp cannot build it (domains that are not public), only mode sticky does.
    rivals : str or sequence of str
        Other generators by name, synthetic files, or commands; see `engine.evaluation.baselines.entrants`.
    epsilon : sequence of float, or str, optional
        Epsilons of the dp releases, separated by commas.

        By default that of the spec, or 1.
    seeds : int
        Number of releases built of each kind.

        Each has a key, or noise, of its own.
    study : Study, str or Path, optional
        With --with: what to measure, as --spec of `tablepack evaluate`.

        A study, the path of one, or the name of a preset; by default chosen by the columns.
    areas : sequence of str
        With --with swap: columns that records exchange, separated by commas.

        By default those that the spec swaps.
    control : str, Path, DataFrame or Arrow table, optional
        Holdout: people from the same population who are not in the data; the control for attacks.
    out : str or Path, optional
        HTML file to write; the JSON file is written next to it.
    frame : object, optional
        The source, if the spec's source is a frame.
    jobs : int
        Tables fitted at the same time, while others are measured.
    force : bool
        Overwrite an existing file. Never overwrites a key or its ledgers, a release, a spec, or a data source named by
        a spec in the same or the current folder.
    build : callable, optional
        Function that builds a release of a spec at a path; by default `engine.build`.
    progress : callable, optional
        Called with the stage, the work done and the total.

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

    comparison = compare_all(
        "generators",
        spec,
        beside_baselines(spec, epsilons, given),
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
        write_comparison(comparison, Path(out), force=force)
    return comparison


def _spec(
    what: ReleaseSpec | str | Path, out: str | Path | None, *more: Any, force: bool
) -> ReleaseSpec:
    """The spec to compare; checks that the page overwrites no input."""
    if out is not None:
        check_target(Path(out), force=force, inputs=[what, *more])
    return of_rows(what if isinstance(what, ReleaseSpec) else read(Path(what)), _INSTEAD)


def _with_dp(spec: ReleaseSpec) -> tuple[ReleaseSpec, tuple[str, ...]]:
    """The spec with parameters of mode dp if possible, and notes for readers."""
    if spec.dp is not None:
        return spec, ()
    try:
        return with_defaults(spec), (
            "The spec has no section [dp]: the defaults of mode dp apply.",
        )
    except SpecError as error:
        return spec, (
            f"Mode dp is not compared, as it cannot build this spec: {error.problems[0]}",
        )


def _study(study: Study | str | Path, spec: ReleaseSpec) -> Study:
    """A study that is given or named; its files are next to it or to the data."""
    near = [Path(path).parent for path in spec.source.paths]
    if isinstance(study, Study):
        return with_files(study, near)
    folders = [Path(study).parent, *near]
    found, _ = named_study(study, beside=folders, read_spec=read)
    if found is None:
        raise SpecError(f"{study}: is the spec of a release, not a study")
    return with_files(found, folders)


def _builder(frame: Any, jobs: int) -> Build:
    """The default function that builds a release of a spec at a path."""

    def built(one: ReleaseSpec, path: Path) -> object:
        return release.build(one, path, frame=frame, jobs=jobs)

    return built
