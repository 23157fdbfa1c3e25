"""Audits and generator cards from Python.

import engine
engine.audit("release.toml").sentences()
engine.audit("r.duckdb", data="people.csv", out="audit.html")
engine.audit(my_generator, data=frame, safe=[["age", "sex"], ["age", "region"]]).p
engine.card("r.duckdb", "card.html")
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd

from engine.api.evaluate import Source, spellings
from engine.api.reading import read
from engine.errors import SpecError
from engine.evaluation.audit import (
    TEXTS,
    Audit,
    Claim,
    Settings,
    chosen_domain,
    claim_of_release,
    claim_of_spec,
    command_generator,
    frame_generator,
    run_audit,
    safe_statistics,
    write_audit,
    write_card,
)
from engine.evaluation.data.reading import data_of, is_release, read_original, released_columns
from engine.evaluation.report.verdicts import check_target
from engine.evaluation.study import Study, of_spec
from engine.progress import Progress
from engine.schema import ColumnSet, column_set
from engine.spec import ReleaseSpec

Audited = Any
"""A spec or its path (.toml), the path of a release, a function of frames, or a command with {in} and {out}."""
SAFE_OF_OTHERS = (
    "safe: list the margins that the generator may use, such as [['age', 'sex'], ['age', 'region']]"
)


def audit(
    generator: Audited,
    *,
    data: Source | None = None,
    safe: Iterable[Sequence[str]] | int | None = None,
    columns: Sequence[str] | None = None,
    out: str | Path | None = None,
    runs: int = 10,
    directions: int = 1,
    rows: int = 10_000,
    level: float = 0.01,
    seed: int = 2021,
    seconds: float = 600,
    table: str | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Audit:
    """Test whether a generator uses more of the data than the margins that its card names. The result is CONFIDENTIAL.

    Parameters
    ----------
    generator : ReleaseSpec, str, Path or callable
        A spec or its path; the path of a release; a function that takes a frame and returns one with the same columns,
        with fresh random numbers at each call; or a command with `{in}` and `{out}`.
    data : str, Path, DataFrame or Arrow table, optional
        Original data; by default the source in the spec.
    safe : iterable of sequence of str, or int, optional
        Margins that the generator may use, or a number: all combinations of this many of `columns`. By default those
        that the spec or release measures.
    columns : sequence of str, optional
        Columns to audit.

        By default all columns of the margins, or if these are many, a few that are in no margin together.
    runs : int
        Number of runs on each of the two data sets; done twice.

        First to choose a direction, then to test it.
    directions : int
        Number of random directions to start from; p-values are corrected.
    rows : int
        Approximate number of rows of the compared data sets.
    level : float
        Significance level: the card is refuted if a corrected p-value is below it.
    seed : int
        Random seed.

        Of the audit and of the keys of mode sticky; other generators have their own.
    seconds : float
        Time limit in seconds for one run of a command.
    out, table, force, progress
        As in `evaluate`.

    Returns
    -------
    Audit
        p-value, verdict and details; see its `sentences()`.

    Raises
    ------
    SpecError, DataError, StoreError, DamagedRelease

    References
    ----------
    Houssiau et al., A Framework for Auditable Synthetic Data Generation, arXiv:2211.11540.
    """
    settings = Settings(runs=runs, directions=directions, rows=rows, level=level, seed=seed)
    if out is not None:
        check_target(Path(out), force=force, inputs=(generator, data))
    claim, spec = _claimed(generator)
    frame = _read(generator, spec, data, table)
    given = _margins(safe, columns)
    margins = given or (claim.margins if claim is not None else ())
    if not margins:
        raise SpecError(SAFE_OF_OTHERS)
    domain, notes = chosen_domain(frame, margins, columns)
    chosen = safe_statistics(domain, margins)
    if claim is not None:
        made = claim.generator(domain, safe_statistics(domain, claim.margins))
        notes = (*notes, TEXTS["as_rows"])
    elif callable(generator):
        made = frame_generator(domain, generator)
    else:
        made = command_generator(domain, str(generator), seconds=seconds)
    found = run_audit(
        domain.coded(frame, "the data"),
        chosen,
        made,
        replace(settings, least=made.least),
        title="" if claim is None else claim.title,
        notes=notes,
        progress=progress,
    )
    if out is not None:
        write_audit(found, Path(out), force=force)
    return found


def card(release: str | Path, out: str | Path, *, force: bool = False) -> tuple[Path, Path]:
    """Write the generator card of a release as an HTML page, and as JSON.

    Parameters
    ----------
    release : str or Path
        Release file.
    out, force
        As in `evaluate`.

    Returns
    -------
    tuple of Path
        The HTML and the JSON file.

    Raises
    ------
    StoreError, DamagedRelease
    """
    return write_card(Path(release), Path(out), force=force)


def _claimed(generator: Audited) -> tuple[Claim | None, ReleaseSpec | None]:
    """What a spec or a release claims, and the spec; None for other generators."""
    if isinstance(generator, ReleaseSpec):
        return claim_of_spec(generator), generator
    if callable(generator) or (isinstance(generator, str) and "{in}" in generator):
        return None, None
    if not isinstance(generator, str | Path):
        raise SpecError(
            "audit: expected a spec, a release, a function, or a command with {in} and {out}"
        )
    if Path(generator).suffix == ".toml":
        spec = read(Path(generator))
        return claim_of_spec(spec), spec
    if is_release(generator):
        return claim_of_release(Path(generator)), None
    if Path(generator).exists():
        raise SpecError(f"{generator}: is not a spec (.toml) or a release")
    raise SpecError(f"{generator}: is not a spec, a release or a command with {{in}} and {{out}}")


def _read(
    generator: Audited, spec: ReleaseSpec | None, data: Source | None, table: str | None
) -> pd.DataFrame:
    """The data as an evaluation reads it."""
    if spec is not None:
        source = data_of(spec, data)
        if source is None:
            raise SpecError("data: the source of the spec is a frame; give it here")
        return read_original(source, of_spec(spec, Study(title="")), table=table)
    if data is None:
        raise SpecError("data: give the data that the generator is applied to")
    like = released_columns(Path(generator)) if is_release(generator) else None
    return read_original(
        data, Study(title="", nulls=spellings(data, table)), like=like, table=table
    )


def _margins(
    safe: Iterable[Sequence[str]] | int | None, columns: Sequence[str] | None
) -> tuple[ColumnSet, ...]:
    """The margins that were given, if any."""
    if safe is None:
        return ()
    if isinstance(safe, int):
        if not columns or not 1 <= safe <= len(columns):
            raise SpecError("safe: a number of columns needs at least as many columns")
        return tuple(combinations(column_set(tuple(columns)), safe))
    margins = tuple(column_set(tuple(margin)) for margin in safe)
    if not margins or not all(margins):
        raise SpecError(SAFE_OF_OTHERS)
    return margins
