"""Comparisons from Python: modes sticky and dp for one spec, settings of mode sticky, and other generators.

import engine
comparison = engine.compare("release.toml", epsilon=[0.5, 1, 2], seeds=3, out="compare.html")
comparison.spread("tables.s_pmse_2", "dp, epsilon 1").median
comparison = engine.compare("release.toml", sweep=True, control="others.csv", out="sweep.html")
comparison.spread("attribute", "the spec").median
comparison = engine.compare("release.toml", generators=["cart", "sample40", "theirs.csv"], out="others.html")
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
    View,
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
    generators: str | Sequence[str] | None = None,
    sweep: bool = False,
    epsilon: str | Sequence[float] | None = None,
    seeds: int | None = None,
    study: Study | str | Path | None = None,
    areas: Sequence[str] | None = None,
    control: Any = None,
    out: str | Path | None = None,
    frame: Any = None,
    jobs: int = 2,
    force: bool = False,
    build: Build | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Compare releases of a spec, built in a temporary folder: utility, risk, time. The result is CONFIDENTIAL.

    By default sticky and dp releases, at several epsilons. With `generators`: both modes, and other generators on the
    same data. With `sweep`: the sticky release as it is, and with one setting changed at a time, to show the utility
    that each costs, and the risk that it removes.

    Parameters
    ----------
    what : ReleaseSpec, str or Path
        Spec (TOML).

        Or a `ReleaseSpec`. Without a section `[dp]` its defaults apply, and every domain must be public; if mode dp
        cannot build it, only mode sticky is compared with other generators.
    generators : str or sequence of str, optional
        Compare both modes with other generators: cart, pram80, sample40, a synthetic FILE.csv, or a command,
        NAME='cmd {in} {out}'. An unknown name prints the list.
    sweep : bool
        Parameter sweep: compare settings of the sticky release (noise, threshold, fewer tables, swapping).

        Swapping, if the spec declares it.
    epsilon : sequence of float, or str, optional
        Epsilons of the dp releases, separated by commas.

        With `generators` by default that of the spec, or 1.
    seeds : int, optional
        Number of releases built of each kind.

        Each has a key, or noise, of its own. By default 3, or 1 with `generators` or `sweep`.
    study : Study, str or Path, optional
        With --with: what to measure, as --spec of `tablepack evaluate`.

        A study, the path of one, or the name of a preset; by default chosen by the columns.
    areas : sequence of str, optional
        With --with swap: columns that records exchange.

        By default those that the spec swaps.
    control, out, force, progress
        As in `evaluate`.
    frame : object, optional
        The source, if the spec's source is a frame.
    jobs : int
        As in `build`.
    build : callable, optional
        Function that builds a release of a spec at a path; by default `engine.build`.

    Raises
    ------
    SpecError, DataError, PrivacyError, StoreError
    """
    if sweep and (epsilon is not None or generators is not None):
        other = "--epsilon (epsilon=)" if generators is None else "--with (generators=)"
        raise SpecError(
            f"{other} cannot be combined with --levers (sweep=): it compares sticky releases"
        )
    if generators is None and (study or areas):
        raise SpecError(
            f"{'--study (study=)' if study else '--areas (areas=)'} needs --with (generators=)"
        )
    named = [generators] if isinstance(generators, str) else generators
    given = () if named is None else entrants(named)
    spec = _spec(what, out, control, *(one.path for one in given), force=force)
    view: View = "sweep" if sweep else "modes" if generators is None else "generators"
    notes: tuple[str, ...] = ()
    if view != "sweep":
        spec, notes = _with_dp(spec, is_needed=view == "modes")
    if view == "sweep":
        subjects = settings_of(spec)
    elif view == "modes":
        subjects = variants(spec, checked_epsilons(epsilon or EPSILONS))
    else:
        own = EPSILON if spec.dp is None or spec.dp.epsilon is None else (spec.dp.epsilon,)
        subjects = beside_baselines(spec, checked_epsilons(epsilon or own), given)
    comparison = compare_all(
        view,
        spec,
        subjects,
        repeats=seeds if seeds is not None else 3 if view == "modes" else 1,
        build=build or _builder(frame, jobs),
        frame=frame,
        control=control,
        study=None if study is None else _study(study, spec),
        areas=areas or (),
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


def _with_dp(spec: ReleaseSpec, *, is_needed: bool) -> tuple[ReleaseSpec, tuple[str, ...]]:
    """The spec with parameters of mode dp, if possible or needed, and notes for readers."""
    if spec.dp is not None:
        return spec, ()
    try:
        return with_defaults(spec), (
            "The spec has no section [dp]: the defaults of mode dp apply.",
        )
    except SpecError as error:
        if is_needed:
            raise
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
