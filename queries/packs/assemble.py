"""A pack from a release and a pack spec: every dimension, table, title and note, ready for the writers.

Takes an open release and a `PackSpec`; gives a `Pack`. Without tables in the spec, every released table of few columns
becomes a long table of counts. Invariant: nothing here is written; all that is refused is refused here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import duckdb
import numpy as np

from engine.errors import PrivacyError, QueryRefused, SpecError
from queries.packs.dimensions import check_columns, dimension_of
from queries.packs.figures import ALL, Figures, Question, listed_figures, whole_figures
from queries.packs.model import Dimension, Pack, PackTable, Texts
from queries.packs.pack_spec import PackSpec, TableSpec
from queries.packs.words import pack_words, texts
from queries.refusals import near_names
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
    check_columns(spec.columns, release)
    check_columns([c for t in spec.tables for c in (*t.names, *t.where)], release)
    words = pack_words(spec.words, spec.pack.languages)
    wanted = spec.tables or _default_tables(release, spec)
    names = dict.fromkeys(name for t in wanted for name in (*t.names, *t.where))
    dimensions = {name: dimension_of(name, release, con, spec, words) for name in names}
    tables = []
    for number, (name, told) in enumerate(zip(_ids(wanted), wanted, strict=True), 1):
        tables.append(_table(release, con, spec, told, name, dimensions, words))
        if progress is not None:
            progress(number, len(wanted))
    languages = tuple(spec.pack.languages)
    return Pack(
        info=spec.pack,
        languages=languages,
        titles=texts(spec.pack.title, languages, release.title or release.path.stem),
        descriptions=texts(spec.pack.description, languages),
        dimensions=dimensions,
        tables=tuple(tables),
        cards={t.answered: release.card(*t.answered) for t in tables if t.answered},
        footnotes=tuple(texts(note, languages) for note in spec.footnotes),
        notes=release.notes,
        words=words,
        release={
            "title": release.title,
            "vintage": release.vintage,
            "mode": release.mode,
            "key_id": release.key_id,
            "engine_version": release.engine_version,
            "content_hash": release.content_hash,
            "file": release.path.name,
        },
    )


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
    check_columns([told.of] if told.of else [], release)
    mine = tuple(dimensions[c] for c in told.names)
    shown = [_shown(d, told, name) for d in mine]
    n_cells = math.prod(_n_shown(d, s) for d, s in zip(mine, shown, strict=True))
    is_listed = n_cells > spec.pack.max_cells
    try:
        figures = (
            _listed(release, con, told, mine, name, n_cells, spec.pack.max_cells)
            if is_listed
            else whole_figures(release, mine, shown, _question(told, dimensions, release))
        )
    except QueryRefused as error:
        raise SpecError(f"tables, {name}: {error}") from None
    languages, of = spec.pack.languages, _label_of(told, con, spec)
    n_stub = len(told.rows) if told.rows else len(mine)
    return PackTable(
        id=name,
        titles=_titles(told, mine, dimensions, of, words, languages),
        units=_units(told, of, spec, words),
        dimensions=mine,
        index=figures.index,
        value=figures.value,
        low=figures.low,
        high=figures.high,
        status=figures.status,
        stub=tuple(range(n_stub)),
        heading=tuple(range(n_stub, len(mine))),
        measure=told.measure,
        is_whole=not told.percent and _is_whole(figures),
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
    con: duckdb.DuckDBPyConnection,
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
    return listed_figures(release, con, mine)


def _question(told: TableSpec, dimensions: dict[str, Dimension], release: Release) -> Question:
    """What a table asks of the release."""
    n, n_rows = len(told.names), len(told.rows)
    over = {
        "": (),
        "total": tuple(range(n)),
        "row": tuple(range(n_rows, n)),
        "column": tuple(range(n_rows)),
    }[told.percent]
    return Question(
        measure=told.measure,
        of=told.of,
        quantile=told.quantile,
        where={c: _typed(c, values, dimensions) for c, values in told.where.items()},
        over=over,
        has_negative=bool(over and told.of)
        and any(v is not None and v < 0 for v, *_ in release.values(told.of or "")),
    )


def _typed(column: str, given: list[Any], dimensions: dict[str, Dimension]) -> list[Any]:
    """The values of a filter, as the release types them."""
    items = [item for item in dimensions[column].items if item.kind == "value"]
    by_text = {item.code: item.value for item in items}
    by_text |= {item.value: item.value for item in items if isinstance(item.value, str)}
    out = []
    for value in given:
        same = [i.value for i in items if i.value == value and _is_bool(i.value) == _is_bool(value)]
        if not same and str(value) not in by_text:
            near = ", ".join(near_names(str(value), tuple(by_text))) or "none"
            raise SpecError(
                f"pack spec, where: {column} has no released value {value!r}. Near: {near}"
            )
        out.append(same[0] if same else by_text[str(value)])
    return out


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _is_whole(figures: Figures) -> bool:
    known = np.concatenate([figures.value, figures.low, figures.high])
    known = known[np.isfinite(known)]
    return bool(np.all(known == np.rint(known)))


def _label_of(told: TableSpec, con: duckdb.DuckDBPyConnection, spec: PackSpec) -> Texts | None:
    """The label of the column that is summed or averaged; None: people are counted."""
    if told.of is None:
        return None
    ((label,),) = con.execute(
        "SELECT label FROM catalog.columns WHERE name = ?", [told.of]
    ).fetchall()
    given = spec.columns[told.of].label if told.of in spec.columns else ""
    return texts(given, spec.pack.languages, label or told.of)


def _units(told: TableSpec, of: Texts | None, spec: PackSpec, words: dict[str, Texts]) -> Texts:
    """What figures count: percent, people, or what a column holds."""
    if told.percent:
        return words["percent"]
    if of is not None and not told.unit:
        return of
    return texts(told.unit or spec.pack.unit, spec.pack.languages)


def _titles(
    told: TableSpec,
    mine: Sequence[Dimension],
    dimensions: dict[str, Dimension],
    of: Texts | None,
    words: dict[str, Texts],
    languages: Sequence[str],
) -> Texts:
    """The title given; or what is measured, the columns by their labels, and whom it is about."""
    if told.title:
        return texts(told.title, languages)
    out = []
    for i in range(len(languages)):
        by = f" {words['by'][i]} "
        parts = [d.labels[i] for d in mine]
        title = by.join(parts) if len(parts) < 3 else f"{parts[0]}{by}{', '.join(parts[1:])}"
        if of is not None:
            title = f"{words[told.measure][i]} {of[i]}{by}{', '.join(parts)}"
        for column in told.where:
            kept = _typed(column, told.where[column], dimensions)
            labels = [it.labels[i] for it in dimensions[column].items if it.value in kept]
            title += f"; {dimensions[column].labels[i]}: {', '.join(labels)}"
        out.append(title)
    return tuple(out)
