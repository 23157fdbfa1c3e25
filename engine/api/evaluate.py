"""The Python face of evaluation: hold releases, and synthetic tables of any tool, against their original; attack them.

import engine
evaluation = engine.evaluate("r.duckdb", data="people.csv", spec="nist-acs", out="report.html")
evaluation.results[0].figures()["univariate.median_composite_error"]
engine.evaluate("ours.duckdb", "theirs.csv", data=frame)
engine.attack("r.duckdb", data="people.csv", control="strangers.csv").results[0].risks["membership"].verdict
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from engine.errors import SpecError
from engine.evaluation.collector import uncollected
from engine.evaluation.data import (
    Released,
    Subject,
    data_of,
    is_release,
    notes_of,
    read_like,
    read_original,
    read_release,
    read_subject,
)
from engine.evaluation.data.words import listed, unshown
from engine.evaluation.report import (
    Names,
    check_target,
    load_packages,
    pictures_ahead,
    write_report,
)
from engine.evaluation.result import Evaluation
from engine.evaluation.runner import Settings, attack_subjects, evaluate_all, names_of
from engine.evaluation.study import (
    Study,
    default_study,
    labels_of,
    named_study,
    of_spec,
    read_baselines,
    with_files,
)
from engine.evaluation.workers import Workers, default_jobs
from engine.keys import MasterKey
from engine.progress import Progress, silent
from engine.source.detection import detect_source
from engine.spec import ReleaseSpec, format_of, of_rows, read_spec
from queries.sql import StatementReader

Source = Any
"""The path of a release, CSV or Parquet file, or a pandas or Arrow table."""
_LARGE = 4_000_000
"""Bytes of what is read from which on workers pay for their start."""


def evaluate(
    *synthetic: Source,
    data: Source,
    spec: str | Path | Study | None = None,
    control: Source | None = None,
    out: str | Path | None = None,
    publishable: bool = False,
    sample: float = 40,
    seed: int = 2021,
    together: bool = False,
    combining: Literal["partial", "full"] = "partial",
    attacks: bool = False,
    table: str | None = None,
    jobs: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Evaluation:
    """Say how good and how safe releases or synthetic tables are. The result is CONFIDENTIAL.

    Parameters
    ----------
    *synthetic : str, Path, DataFrame or Arrow table
        Releases, or synthetic tables of any tool (CSV, Parquet, frames); several are compared with the first.
    data : str, Path, DataFrame or Arrow table
        The original.
    spec : str, Path or Study, optional
        A study, the path of one, the name of a preset, or the spec of a release. By default, and for what a release's
        spec does not say, what is measured is chosen by what the columns look like.
    control : str, Path, DataFrame or Arrow table, optional
        People of the same population whom nothing synthetic was made from: the attacks' control.
    out : str or Path, optional
        HTML file to write; JSON goes beside it.
    publishable : bool
        Write rounded scores only, instead of the confidential report.
    sample : float
        Percentage of the original that is sampled as a scale for the scores.
    seed : int
        Fixes all that is drawn.
    together : bool
        The synthetic tables are sets of one synthesis: figures are means, estimates are combined.
    combining : str
        By the rules for partially synthetic data, which hold for all that is synthesised from the rows themselves; or
        "full": each set is a sample of a synthetic population of its own (Raghunathan, Reiter and Rubin 2003).
    attacks : bool
        Run the strong attacks of `attack`, too: one report then holds all three attackers.
    table : str, optional
        Table of `data` where that is a DuckDB file.
    jobs : int, optional
        Processes that measure, each with a copy of what is compared; by default one a processor that may be used, at
        most 4, fewer where memory is short, and one where files are small. More than there are measures are not
        started. Figures are the same to the last bit.
    force : bool
        Replace files that are there.
    progress : callable, optional
        Called with what is done, how much of it, and how much there is.

    Raises
    ------
    SpecError, DataError, StoreError, DamagedRelease
    """
    tell = progress or silent
    if combining not in ("partial", "full"):
        raise SpecError(f"combining: wants partial or full, not {combining!r}")
    if out is not None:
        check_target(Path(out), force=force, inputs=(*synthetic, data, control))
    ahead = None if out is None else load_packages
    with Workers(_jobs(jobs, [*synthetic, data]), ahead) as workers:
        with uncollected():
            given = _given(synthetic, data, spec, control, table, tell)
        study, chosen = given.study()
        labels, value_labels = given.labels(study)
        drawn: dict[Any, Any] = {}
        names = Names(labels={**study.labels, **labels}, value_labels=value_labels)
        is_shown = out is not None and not publishable and not together and len(synthetic) == 1
        evaluation = evaluate_all(
            given.subjects,
            given.original,
            study,
            Settings(
                share=sample / 100,
                seed=seed,
                baselines=read_baselines(study, given.folders),
                attacks=attacks,
            ),
            data=given.name,
            control=given.control,
            together=together,
            combining=combining,
            labels=labels,
            value_labels=value_labels,
            notes=(*notes_of(given.original), *chosen),
            workers=workers,
            aside=(lambda one: drawn.update(pictures_ahead(one, names))) if is_shown else None,
            progress=tell,
        )
    evaluation = evaluation if spec is not None else _with_doubts(evaluation)
    if out is not None:
        tell("writing the report", 0, 0)
        write_report(evaluation, Path(out), publishable=publishable, force=force, drawn=drawn)
    return evaluation


def attack(
    *synthetic: Source,
    data: Source,
    spec: str | Path | Study | None = None,
    control: Source | None = None,
    out: str | Path | None = None,
    seed: int = 2021,
    together: bool = False,
    table: str | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Evaluation:
    """Run strong attacks on finished releases or synthetic tables, each with a control. The result is CONFIDENTIAL.

    Parameters
    ----------
    *synthetic : str, Path, DataFrame or Arrow table
        Releases, or synthetic tables of any tool (CSV, Parquet, frames).
    data : str, Path, DataFrame or Arrow table
        The data that they were made from.
    spec : str, Path or Study, optional
        A study, whose section `attacks` says what attackers know and want, or the spec of a release.
    control : str, Path, DataFrame or Arrow table, optional
        People of the same population whom nothing synthetic was made from. Without, attacks that need strangers say so.
    out : str or Path, optional
        HTML file to write; JSON goes beside it.
    seed : int
        Fixes all that is drawn.
    together : bool
        One attacker holds all releases; else each is attacked alone.
    table : str, optional
        Table of `data` where that is a DuckDB file.
    force : bool
        Replace files that are there.
    progress : callable, optional
        Called with what is done, how much of it, and how much there is.

    Returns
    -------
    Evaluation
        Its results hold risks, and no scores.

    Raises
    ------
    SpecError, DataError, StoreError, DamagedRelease
    """
    tell = progress or silent
    if out is not None:
        check_target(Path(out), force=force, inputs=(*synthetic, data, control))
    given = _given(synthetic, data, spec, control, table, tell)
    labels, value_labels = given.labels(given.reading)
    evaluation = attack_subjects(
        given.subjects,
        given.original,
        given.reading,
        data=given.name,
        seed=seed,
        control=given.control,
        together=together,
        labels=labels,
        value_labels=value_labels,
        notes=notes_of(given.original),
        progress=tell,
    )
    evaluation = evaluation if spec is not None else _with_doubts(evaluation)
    if out is not None:
        tell("writing the report", 0, 0)
        write_report(evaluation, Path(out), force=force)
    return evaluation


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Given:
    """What was handed over, as it is read."""

    reading: Study  # How the data is read; the whole study where `is_whole`
    is_whole: bool
    original: pd.DataFrame
    subjects: list[Subject]
    control: pd.DataFrame | None
    name: str  # Of the data, for people
    folders: list[Path]  # Where files that a study names are looked for
    release: Released | None  # The first release

    def study(self) -> tuple[Study, tuple[str, ...]]:
        """The study, chosen by rule where none was declared, and what a reader must know of the choice."""
        if self.is_whole:
            return self.reading, ()
        return _chosen(self.reading, self.original, self.subjects)

    def labels(self, study: Study) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
        """What columns and values are called."""
        if self.release is None:
            return labels_of(study, self.folders)
        carried = self.release
        return labels_of(
            study, self.folders, labels=carried.labels, value_labels=carried.value_labels
        )


def _with_doubts(evaluation: Evaluation) -> Evaluation:
    """Say where the data, read without a spec, seem not to be read as the build of a release did."""
    compared = [r.comparison for r in evaluation.results if r.subject.kind == "release"]
    odd = dict.fromkeys(name for paired in compared for name in unshown(paired))
    if not odd:
        return evaluation
    doubt = (
        f"{listed(list(odd))}: many rows of the data hold a value that the release does not have; its build may have "
        "read them otherwise (a value as a blank, say): with the spec of the release (--spec) they are read as it did"
    )
    return replace(evaluation, notes=(*evaluation.notes, doubt))


def _jobs(jobs: int | None, sources: Sequence[Source]) -> int:
    """How many processes measure: more than one where nobody says so only for files that take long to read."""
    if jobs is not None:
        if jobs < 1:
            raise SpecError("jobs: wants at least 1")
        return jobs
    paths = [Path(what) for what in sources if isinstance(what, str | Path)]
    size = sum(path.stat().st_size for path in paths if path.is_file())
    return default_jobs(size) if size >= _LARGE else 1


def _given(
    synthetic: Sequence[Source],
    data: Source,
    spec: str | Path | Study | None,
    control: Source | None,
    table: str | None,
    tell: Progress,
) -> _Given:
    """Read all that was handed over."""
    if not synthetic:
        raise SpecError("at least one release or synthetic table is needed")
    tell("reading", 0, 0)
    folders = _folders(spec, data)
    reading, is_whole, rows = _reading(spec, data, folders, table)
    releases = [Path(what) for what in synthetic if is_release(what)]
    first = read_release(releases[0]) if releases else None
    original = read_original(
        rows, reading, like=None if first is None else first.columns, table=table
    )
    return _Given(
        reading=reading,
        is_whole=is_whole,
        original=original,
        subjects=[
            read_subject(
                what, original, reading, name, released=first if _is(what, releases[:1]) else None
            )
            for what, name in zip(synthetic, names_of(synthetic), strict=True)
        ],
        control=None if control is None else read_like(control, original, reading, name="control"),
        name=names_of([data])[0] if isinstance(data, str | Path) else "the data",
        folders=folders,
        release=first,
    )


def _is(what: Source, paths: Sequence[Path]) -> bool:
    """Whether something is the path of one of some files."""
    return isinstance(what, str | Path) and Path(what) in paths


def _folders(spec: str | Path | Study | None, data: Source) -> list[Path]:
    """Where files that a study names are looked for: beside it, beside the data."""
    near = [Path(what).parent for what in (spec, data) if isinstance(what, str | Path)]
    return list(dict.fromkeys(near))


def _reading(
    spec: str | Path | Study | None, data: Source, folders: Sequence[Path], table: str | None
) -> tuple[Study, bool, Source]:
    """The study; whether it says what is measured, or only how the data is read; the data, as a spec reads it."""
    if isinstance(spec, Study):
        return with_files(spec, folders), True, data
    if spec is None:
        return Study(title="", nulls=spellings(data, table)), False, data
    study, release = named_study(spec, beside=folders, read_spec=_read_spec)
    if study is not None:
        return with_files(study, folders), True, data
    if release is None:
        raise SpecError(f"{spec}: is neither a study nor the spec of a release")
    of_rows(release, "--data a file of one row an entity, without a spec")
    return of_spec(release, Study(title=release.title)), False, data_of(release, data)


def _read_spec(path: Path) -> ReleaseSpec:
    """The spec of a release."""
    return read_spec(path, sql=StatementReader())


def spellings(data: Source, table: str | None) -> tuple[str, ...]:
    """How a text file seems to spell blanks; other sources have blanks of their own."""
    if not isinstance(data, str | Path) or format_of(str(data)) != "csv":
        return ()
    # An evaluation is confidential and repeatable: nothing is gained by thresholds that nobody knows.
    source = detect_source(data, table=table, key=MasterKey(bytes(32)))
    return tuple(dict.fromkeys(n for column in source.columns for n in column.nulls if n))


def _chosen(
    reading: Study, original: pd.DataFrame, subjects: Sequence[Subject]
) -> tuple[Study, tuple[str, ...]]:
    """What is measured where nobody declared it, and what a reader must know of the choice."""
    chosen = default_study(original, subjects[0].tables, title=reading.title)
    declared = {name: getattr(reading, name) for name in ("nulls", "texts", "order", "labels")}
    return chosen.study.model_copy(update=declared), chosen.notes
