"""A pack from a release and a pack spec: every dimension, table, title and note, ready for the writers.

Takes an open release and a `PackSpec`; gives a `Pack`. Without tables in the spec, every released table of few columns
becomes a long table of counts. Invariant: nothing here is written; all that is refused is refused here.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence

import duckdb
import numpy as np

from engine.errors import PrivacyError, QueryRefused, SpecError
from queries.packs.asking import label_of, question_of, titles_of, units_of
from queries.packs.dimensions import check_columns, dimension_of
from queries.packs.doubts import doubts_of
from queries.packs.figures import ALL, Figures, listed_figures, whole_figures
from queries.packs.model import Dimension, Pack, PackTable, Texts, decimals_of
from queries.packs.pack_spec import UNNAMED, PackInfo, PackSpec, TableSpec
from queries.packs.words import pack_words, texts
from queries.router import nearest
from queries.session import Release

Progress = Callable[[int, int], None]


def assemble(
    release: Release,
    con: duckdb.DuckDBPyConnection,
    spec: PackSpec,
    *,
    unprotected: bool = False,
    progress: Progress | None = None,
) -> Pack:
    """Make the pack of a release.

    Parameters
    ----------
    release : Release
    con : duckdb.DuckDBPyConnection
        With the release in use.
    spec : PackSpec
    unprotected : bool
        Take a release of mode dp that guarantees nothing.
    progress : callable, optional
        Called with the number of tables made, and of all.

    Raises
    ------
    SpecError
        The spec names columns, values or combinations that the release does not have.
    PrivacyError
        The release guarantees nothing.
    """
    _check_protected(release, unprotected=unprotected)
    named = [c for t in spec.tables for c in (*t.names, *t.where, *([t.of] if t.of else []))]
    check_columns([*spec.columns, *named], release)
    words = pack_words(spec.words, spec.pack.languages)
    wanted = spec.tables or _default_tables(release, spec)
    names = dict.fromkeys(name for t in wanted for name in (*t.names, *t.where))
    problems: list[str] = []
    dimensions = {}
    for name in names:
        with _gathered(problems):
            dimensions[name] = dimension_of(name, release, con, spec, words)
    _refuse(problems)
    tables: list[PackTable] = []
    for number, (name, told) in enumerate(zip(_ids(wanted), wanted, strict=True), 1):
        with _gathered(problems):
            tables.append(_table(release, con, spec, told, name, dimensions, words))
        if progress is not None:
            progress(number, len(wanted))
    _refuse(problems)
    return _pack(release, con, spec, dimensions, tables, words)


def _pack(
    release: Release,
    con: duckdb.DuckDBPyConnection,
    spec: PackSpec,
    dimensions: dict[str, Dimension],
    tables: list[PackTable],
    words: dict[str, Texts],
) -> Pack:
    """Put the pack together, with what all its tables share."""
    languages = tuple(spec.pack.languages)
    about = {*dimensions, *(t.of for t in spec.tables if t.of)}
    return Pack(
        info=_identified(spec.pack, release),
        languages=languages,
        titles=texts(spec.pack.title, languages, release.title or release.path.stem),
        descriptions=texts(spec.pack.description, languages),
        dimensions=dimensions,
        tables=tuple(tables),
        cards={t.answered: release.card(*t.answered) for t in tables if t.answered},
        footnotes=tuple(texts(note, languages) for note in spec.footnotes),
        notes=tuple(note for note in release.notes if _is_about(note, about, release)),
        words=words,
        warnings=doubts_of(spec, dimensions, con),
        release={
            "title": release.title,
            "vintage": release.vintage,
            "mode": release.mode,
            "key_id": release.key_id,
            "engine_version": release.engine_version,
            "content_hash": release.content_hash,
            "file": release.path.name if _hands_out(spec) else "",
        },
    )


@contextlib.contextmanager
def _gathered(problems: list[str]) -> Iterator[None]:
    """Keep the mistakes of one entry, and go on to the next: all are told at once."""
    try:
        yield
    except SpecError as error:
        problems += [p for p in error.problems if p not in problems]


def _refuse(problems: list[str]) -> None:
    if problems:
        raise SpecError(problems)


def _identified(info: PackInfo, release: Release) -> PackInfo:
    """Who publishes what, with an identifier that no other pack has where the spec gives none."""
    if info.identifier != UNNAMED:
        return info
    return info.model_copy(update={"identifier": f"{UNNAMED}:{release.content_hash}"})


def _hands_out(spec: PackSpec) -> bool:
    """Whether the release file is in the pack; who chose tables has not chosen all that the release holds."""
    told = spec.pack.release_file
    return not spec.tables if told is None else told


def _is_about(note: str, columns: set[str], release: Release) -> bool:
    """Whether a note of the release concerns a pack of some columns: not other columns' universes."""
    others = (c for c in release.columns if c not in columns)
    return not any(note.startswith(f"Universe of {c}, declared: ") for c in others)


def _check_protected(release: Release, *, unprotected: bool) -> None:
    """Refuse a release of mode dp without an epsilon."""
    if release.mode != "dp" or unprotected or not release.tables:
        return
    if release.card(*release.tables[0]).dp.get("epsilon") is None:
        raise PrivacyError(
            f"{release.path}: guarantees nothing: its counts carry no noise. It is for comparison only; "
            "--unprotected publishes it all the same"
        )


def _ids(tables: Sequence[TableSpec]) -> list[str]:
    """The ids of tables: given ones, and numbers that nobody gave."""
    taken = {t.id.lower() for t in tables}
    out = []
    for number, told in enumerate(tables, 1):
        made = f"T{number:04d}"
        while made.lower() in taken:
            made += "_"
        out.append(told.id or made)
    return out


def _default_tables(release: Release, spec: PackSpec) -> list[TableSpec]:
    """Every released table of few columns, as a long table with columns in the source's order."""
    out = [
        TableSpec(columns=[c for c in release.columns if c in columns])
        for columns in release.tables
        if len(columns) <= spec.pack.max_width
    ]
    if not out:
        raise SpecError(
            f"pack.max_width: no released table has at most {spec.pack.max_width} columns; raise it, or name [[tables]]"
        )
    return out


def _table(
    release: Release,
    con: duckdb.DuckDBPyConnection,
    spec: PackSpec,
    told: TableSpec,
    name: str,
    dimensions: dict[str, Dimension],
    words: dict[str, Texts],
) -> PackTable:
    """Make one table."""
    mine = tuple(dimensions[c] for c in told.names)
    shown = [_shown(d, told, name) for d in mine]
    n_cells = math.prod(_n_shown(d, s) for d, s in zip(mine, shown, strict=True))
    is_listed = n_cells > spec.pack.max_cells
    try:
        figures = (
            _listed(release, told, mine, name, n_cells, spec.pack.max_cells)
            if is_listed
            else whole_figures(release, mine, shown, question_of(told, dimensions, release))
        )
    except QueryRefused as error:
        raise SpecError(f"tables, {name}: {error}") from None
    languages, of = spec.pack.languages, label_of(told, con, spec)
    is_whole = not told.percent and _is_whole(figures)
    decimals = decimals_of(figures.value, figures.low, figures.high, is_whole=is_whole)
    digits = decimals + 1  # more would be digits of the noise
    n_stub = len(told.rows) if told.rows else len(mine)
    return PackTable(
        id=name,
        titles=titles_of(told, mine, dimensions, of, words, languages),
        units=units_of(told, of, spec, words),
        dimensions=mine,
        index=figures.index,
        value=np.round(figures.value, digits),
        low=np.round(figures.low, digits),
        high=np.round(figures.high, digits),
        status=figures.status,
        stub=tuple(range(n_stub)),
        heading=tuple(range(n_stub, len(mine))),
        measure=told.measure,
        is_whole=is_whole,
        decimals=decimals,
        is_listed=is_listed,
        answered=figures.answered,
        footnotes=tuple(texts(note, languages) for note in told.footnotes),
        words=figures.words,
    )


def _shown(dimension: Dimension, told: TableSpec, table: str) -> list[int]:
    """What a table shows of a dimension: ALL for its values, and places of groups and the total."""
    name = dimension.name
    groups = dimension.places("group")
    if name in (*told.subtotals, *told.only_groups) and not groups:
        raise SpecError(
            f"tables, {table}: {name} has no groups; declare columns.{name}.groups or .parents"
        )
    out = [0] if name in told.totals else []
    if name in told.only_groups:
        return out + groups
    return out + (groups if name in told.subtotals else []) + [ALL]


def _n_shown(dimension: Dimension, shown: Sequence[int]) -> int:
    n_values = len(dimension.places("value", "blank"))
    return sum(n_values if s == ALL else 1 for s in shown)


def _listed(
    release: Release,
    told: TableSpec,
    mine: tuple[Dimension, ...],
    name: str,
    n_cells: int,
    limit: int,
) -> Figures:
    """Only what was measured, where there are too many combinations."""
    is_plain = not (told.totals or told.subtotals or told.only_groups or told.where)
    if not is_plain or told.percent or told.measure != "count":
        raise SpecError(
            f"tables, {name}: {n_cells:,} combinations, and pack.max_cells is {limit:,}: "
            "show fewer values (only_groups), or raise it"
        )
    columns = tuple(sorted(d.name for d in mine))
    if columns not in release.tables:
        near = "; ".join(", ".join(t) for t in nearest(columns, release.tables))
        raise SpecError(
            f"tables, {name}: no released table of {', '.join(columns)}. Nearest: {near}"
        )
    return listed_figures(release, mine)


def _is_whole(figures: Figures) -> bool:
    known = np.concatenate([figures.value, figures.low, figures.high])
    known = known[np.isfinite(known)]
    return bool(np.all(known == np.rint(known)))
