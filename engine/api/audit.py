"""The Python face of audits and generator cards.

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
    AS_ROWS,
    Audit,
    Claim,
    CommandGenerator,
    FrameGenerator,
    Generator,
    Settings,
    StickyGenerator,
    chosen_domain,
    claim_of_release,
    claim_of_spec,
    run_audit,
    safe_of,
    safe_statistics,
    write_audit,
    write_card,
)
from engine.evaluation.data import data_of, is_release, read_original, released_columns
from engine.evaluation.report import check_target
from engine.evaluation.study import Study, of_spec
from engine.progress import Progress
from engine.schema import ColumnSet, column_set
from engine.spec import ReleaseSpec

Audited = Any
"""A spec or its path (.toml), the path of a release, a function of frames, or a command with {in} and {out}."""
SAFE_OF_OTHERS = (
    "safe: say which margins the generator may use, such as [['age', 'sex'], ['age', 'region']]"
)


def audit(
    generator: Audited,
    *,
    data: Source | None = None,
    safe: Iterable[Sequence[str]] | int | None = None,
    columns: Sequence[str] | None = None,
    runs: int = 10,
    directions: int = 1,
    rows: int = 10_000,
    level: float = 0.01,
    seed: int = 2021,
    seconds: float = 600,
    out: str | Path | None = None,
    table: str | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Audit:
    """Test whether a generator uses more of the data than the margins that its card names. The result is CONFIDENTIAL.

    Parameters
    ----------
    generator : ReleaseSpec, str, Path or callable
        A spec, or its path; a release; a function that takes a frame and gives one with the same columns, drawing anew
        whenever it is called; or a command with `{in}` and `{out}`.
    data : str, Path, DataFrame or Arrow table, optional
        The data; by default the source of a spec.
    safe : iterable of sequence of str, or int, optional
        Margins that it may use, or a width: all of so many of `columns`. By default those that a spec or release
        measures.
    columns : sequence of str, optional
        Columns to audit; by default all that margins name, or of many a few of which no margin holds all.
    runs : int
        Runs on each of two data sets, to choose a direction and again to test it.
    directions : int
        Random directions to begin with; p-values are corrected for their number.
    rows : int
        About how many rows the data sets have.
    level : float
        The card is refuted below it.
    seed : int
        Fixes all that the audit draws, and the keys of mode sticky; not what other generators draw.
    seconds : float
        Time that one run of a command may take.
    out : str or Path, optional
        HTML file to write; JSON goes beside it.
    table : str, optional
        Table of `data` where that is a DuckDB file.
    force : bool
        Replace files that are there.
    progress : callable, optional
        Called with what is done, how much of it, and how much there is.

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
    made: Generator
    if claim is not None:
        made = claim.generator(domain, safe_of(claim, domain))
        notes = (*notes, AS_ROWS)
    elif callable(generator):
        made = FrameGenerator(domain, generator)
    else:
        made = CommandGenerator(domain, str(generator), seconds=seconds)
    if isinstance(made, StickyGenerator):
        settings = replace(settings, least=made.least)
    found = run_audit(
        domain.coded(frame, "the data"),
        chosen,
        made,
        settings,
        title="" if claim is None else claim.title,
        notes=notes,
        progress=progress,
    )
    if out is not None:
        write_audit(found, Path(out), force=force)
    return found


def card(release: str | Path, out: str | Path, *, force: bool = False) -> tuple[Path, Path]:
    """Write the generator card of a release as a page, and JSON beside it.

    Parameters
    ----------
    out : str or Path
        HTML file to write.
    force : bool
        Replace files that are there.

    Returns
    -------
    tuple of Path
        HTML, JSON.

    Raises
    ------
    StoreError, DamagedRelease
    """
    return write_card(Path(release), Path(out), force=force)


def _claimed(generator: Audited) -> tuple[Claim | None, ReleaseSpec | None]:
    """What a spec or a release claims, and the spec; nothing of other generators."""
    if isinstance(generator, ReleaseSpec):
        return claim_of_spec(generator), generator
    if callable(generator) or (isinstance(generator, str) and "{in}" in generator):
        return None, None
    if not isinstance(generator, str | Path):
        raise SpecError(
            "audit: wants a spec, a release, a function, or a command with {in} and {out}"
        )
    if Path(generator).suffix == ".toml":
        spec = read(Path(generator))
        return claim_of_spec(spec), spec
    if is_release(generator):
        return claim_of_release(Path(generator)), None
    if Path(generator).exists():
        raise SpecError(f"{generator}: is neither a spec (.toml) nor a release")
    raise SpecError(f"{generator}: is no spec, no release, and no command with {{in}} and {{out}}")


def _read(
    generator: Audited, spec: ReleaseSpec | None, data: Source | None, table: str | None
) -> pd.DataFrame:
    """The data as an evaluation reads it."""
    if spec is not None:
        source = data_of(spec, data)
        if source is None:
            raise SpecError("data: the spec's source is a frame; give it")
        return read_original(source, of_spec(spec, Study(title="")), table=table)
    if data is None:
        raise SpecError("data: give the data that the generator works on")
    like = released_columns(Path(generator)) if is_release(generator) else None
    return read_original(
        data, Study(title="", nulls=spellings(data, table)), like=like, table=table
    )


def _margins(
    safe: Iterable[Sequence[str]] | int | None, columns: Sequence[str] | None
) -> tuple[ColumnSet, ...]:
    """The margins that are given; none where none are."""
    if safe is None:
        return ()
    if isinstance(safe, int):
        if not columns or not 1 <= safe <= len(columns):
            raise SpecError("safe: a width wants columns, as many at least")
        return tuple(combinations(column_set(tuple(columns)), safe))
    margins = tuple(column_set(tuple(margin)) for margin in safe)
    if not margins or not all(margins):
        raise SpecError(SAFE_OF_OTHERS)
    return margins
