"""Evaluation from Python: compare releases, and synthetic tables of any tool, with the original data; attack them.

import engine
evaluation = engine.evaluate("r.duckdb", data="people.csv", spec="nist-acs", out="report.html")
evaluation.results[0].figures()["univariate.median_composite_error"]
engine.evaluate("ours.duckdb", "theirs.csv", data=frame)
engine.attack("r.duckdb", data="people.csv", control="others.csv").results[0].risks["membership"].verdict
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from engine.api.reading import specs_beside
from engine.errors import SpecError
from engine.evaluation.data.aligned import listed, unshown
from engine.evaluation.data.reading import (
    data_of,
    is_release,
    notes_of,
    read_like,
    read_original,
    read_release,
    read_subject,
)
from engine.evaluation.report.page import write_report
from engine.evaluation.report.verdicts import check_target
from engine.evaluation.runner import (
    Evaluation,
    Given,
    attack_subjects,
    default_jobs,
    evaluate_all,
    names_of,
)
from engine.evaluation.study import (
    Study,
    default_study,
    labels_of,
    named_study,
    of_spec,
    read_baselines,
    with_files,
)
from engine.keys import MasterKey
from engine.progress import Progress, silent
from engine.source.detection import detect_source
from engine.spec import ReleaseSpec, format_of, of_rows, read_spec
from queries.sql import StatementReader

Source = Any
"""The path of a release, CSV or Parquet file, or a pandas or Arrow table."""
_LARGE = 4_000_000
"""Bytes of input from which worker processes are worth their start."""


def evaluate(
    *synthetic: Source,
    data: Source,
    out: str | Path | None = None,
    spec: str | Path | Study | None = None,
    control: Source | None = None,
    publishable: bool = False,
    together: bool = False,
    combining: Literal["partial", "full"] = "partial",
    attacks: bool = False,
    sample: float = 40,
    seed: int = 2021,
    table: str | None = None,
    jobs: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Evaluation:
    """Measure the utility and the disclosure risk of releases or synthetic tables. The result is CONFIDENTIAL.

    Parameters
    ----------
    *synthetic : str, Path, DataFrame or Arrow table
        Releases, or synthetic tables of any tool (CSV, Parquet); the first is the reference for the others.

        Frames, too.
    data : str, Path, DataFrame or Arrow table
        Original data: CSV, Parquet or DuckDB file. With a release's spec, any file of its source, read as the spec
        defines.
    out : str or Path, optional
        HTML file to write; the JSON file is written next to it.
    spec : str, Path or Study, optional
        What to measure: a study (TOML), a preset such as nist-acs, or a release's spec.

        By default, and where the spec says nothing, measures are chosen by the columns.
    control : str, Path, DataFrame or Arrow table, optional
        Holdout: people from the same population who are not in the data; the control for attacks.
    publishable : bool
        Report only rounded scores, nothing else about the original data.
    together : bool
        The tables are replicates of one synthesis: average their results.
    combining : str
        "partial": combining rules for partially synthetic data, which apply if sets are synthesised from the rows
        themselves; "full": each set is a sample of its own synthetic population (Raghunathan, Reiter and Rubin 2003).
    attacks : bool
        Also run the strong attacks of `tablepack attack`; takes longer.
    sample : float
        Percentage of the original data sampled as a reference for the scores.
    seed : int
        Random seed.
    table : str, optional
        Table in --data, if it is a DuckDB file.
    jobs : int, optional
        Number of processes.

        Each has a copy of the data; by default one per available processor, at most 4, fewer if memory is short, and
        one for small files. Figures do not depend on it.
    force : bool
        Overwrite an existing file. Never overwrites a key or its ledgers, a release, a spec, or a data source named by
        a spec in the same or the current folder.
    progress : callable, optional
        Called with the stage, the work done and the total.

    Returns
    -------
    Evaluation
        One result per synthetic table, with scores and risks.

    Raises
    ------
    SpecError, DataError, StoreError, DamagedRelease
    """
    report = progress or silent
    if combining not in ("partial", "full"):
        raise SpecError(f"combining: must be partial or full, not {combining!r}")
    if out is not None:
        check_target(Path(out), force=force, inputs=(*synthetic, data, control))
    given = _given(synthetic, data, spec, control, table, report)
    evaluation = evaluate_all(
        given,
        share=sample / 100,
        seed=seed,
        attacks=attacks,
        combining=combining if together else None,
        processes=_jobs(jobs, [*synthetic, data]),
        progress=report,
    )
    evaluation = evaluation if spec is not None else _with_doubts(evaluation)
    if out is not None:
        report("writing the report", 0, 0)
        write_report(evaluation, Path(out), publishable=publishable, force=force)
    return evaluation


def attack(
    *synthetic: Source,
    data: Source,
    out: str | Path | None = None,
    spec: str | Path | Study | None = None,
    control: Source | None = None,
    together: bool = False,
    seed: int = 2021,
    table: str | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Evaluation:
    """Run all attacks on finished releases or synthetic tables, with a control group. The result is CONFIDENTIAL.

    Parameters
    ----------
    *synthetic : str, Path, DataFrame or Arrow table
        Releases, or synthetic tables of any tool (CSV, Parquet).
    data : str, Path, DataFrame or Arrow table
        Original data they were made from: CSV, Parquet or DuckDB file.
    spec : str, Path or Study, optional
        Study (TOML) that defines the attackers' knowledge and targets, or a release's spec.
    control : str, Path, DataFrame or Arrow table, optional
        Holdout: people from the same population who are not in the data.

        Attacks that need them say so if they are missing.
    together : bool
        One attacker has all the releases.

        Then only strong attacks run; by default each release is attacked separately.
    out, seed, table, force, progress
        As in `evaluate`.

    Returns
    -------
    Evaluation
        Its results have risks, but no scores.

    Raises
    ------
    SpecError, DataError, StoreError, DamagedRelease
    """
    report = progress or silent
    if out is not None:
        check_target(Path(out), force=force, inputs=(*synthetic, data, control))
    given = _given(synthetic, data, spec, control, table, report)
    # Nothing is learned; one attacker who holds all knows no quasi-identifiers.
    notes = tuple(n for n in given.notes if "learners" not in n)
    if together:
        study = given.study.model_copy(update={"risks": None})
        given = replace(given, study=study, notes=notes_of(given.original))
    else:
        given = replace(given, notes=notes)
    evaluation = attack_subjects(given, seed=seed, together=together, progress=report)
    evaluation = evaluation if spec is not None else _with_doubts(evaluation)
    if out is not None:
        report("writing the report", 0, 0)
        write_report(evaluation, Path(out), force=force)
    return evaluation


def _with_doubts(evaluation: Evaluation) -> Evaluation:
    """Add a note if the data, read without a spec, seem to be read in another way than by the build."""
    releases = [r.aligned for r in evaluation.results if r.subject.kind == "release"]
    odd = dict.fromkeys(name for one in releases for name in unshown(one))
    if not odd:
        return evaluation
    doubt = (
        f"{listed(list(odd))}: many rows of the data have a value that the release does not have; the build may have "
        "read them differently, such as a value as missing. Give the spec of the release (--spec) to read them alike"
    )
    return replace(evaluation, notes=(*evaluation.notes, doubt))


def _jobs(jobs: int | None, sources: Sequence[Source]) -> int:
    """Number of worker processes: by default more than one only for large files."""
    if jobs is not None:
        if jobs < 1:
            raise SpecError("jobs: must be at least 1")
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
    report: Progress,
) -> Given:
    """Read all inputs, and choose the study by the columns where none is given."""
    if not synthetic:
        raise SpecError("at least one release or synthetic table is needed")
    report("reading", 0, 0)
    folders = _folders(spec, data)
    releases = [Path(what) for what in synthetic if is_release(what)]
    if spec is None and releases and isinstance(data, str | Path):
        spec = _computed_by(releases[0], Path(data))
    first = read_release(releases[0]) if releases else None
    study, is_whole, rows = _reading(spec, data, folders, table, is_told=first is not None)
    original = read_original(
        rows, study, like=None if first is None else first.columns, table=table
    )
    subjects = [
        read_subject(
            what, original, study, name, released=first if _is(what, releases[:1]) else None
        )
        for what, name in zip(synthetic, names_of(synthetic), strict=True)
    ]
    others = None
    if control is not None:
        others = read_like(control, original, study, name="control", is_control=True)
    notes: tuple[str, ...] = ()
    if not is_whole:
        chosen = default_study(original, subjects[0].tables, title=study.title)
        read = {name: getattr(study, name) for name in ("nulls", "texts", "order", "labels")}
        study, notes = chosen.study.model_copy(update=read), chosen.notes
    labels, value_labels = labels_of(
        study,
        folders,
        labels={} if first is None else first.labels,
        value_labels={} if first is None else first.value_labels,
    )
    return Given(
        subjects=subjects,
        original=original,
        study=study,
        data=names_of([data])[0] if isinstance(data, str | Path) else "the data",
        control=others,
        labels=labels,
        value_labels=value_labels,
        notes=(*notes_of(original), *notes),
        baselines=read_baselines(study, folders) or {},
    )


def _computed_by(release: Path, data: Path) -> Path | None:
    """The spec beside a release whose `source.sql` computes its rows from a file: they are to be compared."""
    for path in specs_beside(release):
        source = _read_spec(path).source
        if source.sql and data.resolve() in {Path(one).resolve() for one in source.paths}:
            return path
    return None


def _is(what: Source, paths: Sequence[Path]) -> bool:
    """Whether an input is one of some paths."""
    return isinstance(what, str | Path) and Path(what) in paths


def _folders(spec: str | Path | Study | None, data: Source) -> list[Path]:
    """Where the files of a study are searched: next to it, and next to the data."""
    near = [Path(what).parent for what in (spec, data) if isinstance(what, str | Path)]
    return list(dict.fromkeys(near))


def _reading(
    spec: str | Path | Study | None,
    data: Source,
    folders: Sequence[Path],
    table: str | None,
    *,
    is_told: bool,
) -> tuple[Study, bool, Source]:
    """The study; whether it defines the measures or only how the data are read; and the data.

    is_told: A release says how the data are read.
    """
    if isinstance(spec, Study):
        return with_files(spec, folders), True, data
    if spec is None:
        return Study(title="", nulls=() if is_told else spellings(data, table)), False, data
    study, release = named_study(spec, beside=folders, read_spec=_read_spec)
    if study is not None:
        return with_files(study, folders), True, data
    if release is None:
        raise SpecError(f"{spec}: is not a study or the spec of a release")
    of_rows(release, "--data a file of one row an entity, without a spec")
    return of_spec(release, Study(title=release.title)), False, data_of(release, data)


def _read_spec(path: Path) -> ReleaseSpec:
    return read_spec(path, sql=StatementReader())


def spellings(data: Source, table: str | None) -> tuple[str, ...]:
    """Detected spellings of missing values in a text file; other sources have nulls."""
    if not isinstance(data, str | Path) or format_of(str(data)) != "csv":
        return ()
    # An evaluation is confidential and must be repeatable, so a fixed key for the thresholds does no harm.
    source = detect_source(data, table=table, key=MasterKey(bytes(32)))
    return tuple(dict.fromkeys(n for column in source.columns for n in column.spellings if n))
