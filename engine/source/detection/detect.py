"""Detects what a spec must say of a source: kinds, resolutions, spellings of null, columns that name entities.

Takes a source; gives columns marked as detected and remarks in plain words, for `spec_text` to
write or, from Python, a spec at once. Runs in scratch space that is swept afterwards. Invariant:
nothing here is a declaration: no column is public and no domain set until a person says so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import duckdb

from engine.errors import DataError, SpecError
from engine.keys import MasterKey
from engine.progress import Progress, silent
from engine.schema import (
    DATE_KINDS,
    NUMBER_KINDS,
    Column,
    Entity,
    SourceSpec,
    Writing,
    as_entities,
    columns_of,
    entity_columns,
    entity_option,
    literal,
    quoted,
)
from engine.source.detection.column import NULLS, Look, look_at
from engine.source.detection.determined import MOST_COLUMNS, Table, determined
from engine.source.detection.frequencies import count_column_of
from engine.source.detection.holders import blocks_of, plain_cell, who_sql
from engine.source.detection.identifiers import may_be_suspect
from engine.source.detection.resolution import NUMBER_PATTERN
from engine.source.detection.rows import proposed_bound, proposed_bounds_of_values
from engine.source.detection.spec_text import Detection, toml
from engine.source.detection.spelling.written import Written, with_plain_cells, written_columns
from engine.source.detection.suspects import Judged, suspects
from engine.source.detection.thresholds import Thresholds, keyed_thresholds
from engine.source.detection.together import Together, named_together
from engine.source.encoding import cell_class, cell_sql
from engine.source.forms.opened import open_source
from engine.source.forms.text import found_form
from engine.source.relation import Source, fetch
from engine.source.scratch import confidential_connection, scratch_directory
from engine.spec import knows_null, named_format, warning_of_many

_ID_NAME = re.compile(r"(^|[\W_])(id|uid|uuid|guid|pid|key|nr|no|number|identifier)\W*$|^id[\W_]")
_CAMEL_ID = re.compile(r"[a-z](Id|ID)$")
_DATE = re.compile(r"[0-9]{1,4}([-/.])[0-9]{1,2}\1[0-9]{1,4}([T ].*)?")
_NO_HEADER = (
    "the first line looks like data, not names: it holds numbers or dates, or values that occur below it; "
    "if the file has no line of column names, write one"
)


def detect_source(
    path: str | Path,
    *,
    table: str | None = None,
    entities: tuple[Entity, ...] = (),
    key: MasterKey | None = None,
    count_column: str | None = None,
    progress: Progress | None = None,
) -> Detection:
    """Detect the columns of a file.

    count_column: See `SourceSpec`; None: a table of frequencies is refused.
    key: Decides the noisy thresholds, so that the same data gives the same spec. Without one they are drawn
        afresh and forgotten: two calls may differ where about ten entities decide.
    """
    source = replace(
        source_of(str(path), table), entities=as_entities(entities), count_column=count_column
    )
    return detect(source, thresholds=keyed_thresholds(key), progress=progress)


def source_of(path: str | None, table: str | None) -> SourceSpec:
    """A source of which no more than its file is said, and perhaps a table, or a sheet; a frame without a file."""
    if path is None:
        return SourceSpec(path=None, format="frame", table=table)
    form = named_format(path)
    is_workbook = form == "xlsx"
    return SourceSpec(
        path=path,
        format=form,
        table=None if is_workbook else table,
        sheet=table if is_workbook else None,
    )


def detect(
    source: SourceSpec,
    frame: Any = None,
    entities: tuple[Entity, ...] = (),
    *,
    thresholds: Thresholds,
    progress: Progress | None = None,
) -> Detection:
    """Detect the columns of a source."""
    source, of_form = found_form(replace(source, entities=as_entities(entities) or source.entities))
    report = progress or silent
    with scratch_directory() as scratch:
        con = confidential_connection(scratch)
        try:
            opened = open_source(con, source, frame)
            named = source.entity_columns
            known = [
                one for one in source.entities if {*columns_of(one)} <= {*opened.columns} and one
            ]
            is_headless = source.format == "csv" and _first_line_is_data(
                con, opened, known, thresholds.of("header", "")
            )
            missing = [name for name in named if name not in opened.columns]
            missing += ["''" for one in source.entities if not columns_of(one)]
            if missing:
                there = _NO_HEADER if is_headless else f"there are: {', '.join(opened.columns)}"
                raise SpecError([f"source.entities: no column {name}; {there}" for name in missing])
            written = _written(con, opened, source, thresholds)
            writings = {name: of.writing for name, of in written.items()}
            looks = _looks(
                con,
                opened,
                source.entities,
                thresholds,
                report,
                writings,
                knows_null=knows_null(source),
            )
            together = _together(con, opened, source, looks, thresholds)
            detection = _as_written(_detection(source, opened, looks, together), written)
            if source.count_column is None and not (source.entities or detection.entity_candidates):
                _refuse_counts(con, opened, detection)
            detection = _with_nameless(con, opened, detection)
            detection = _with_suspects(con, opened, detection, thresholds)
            detection = _with_bounds(con, opened, detection, thresholds)
            detection = _with_determined(con, opened, detection, thresholds, report)
            remarks = (*of_form, *detection.remarks, *_of_width(detection))
            detection = replace(detection, remarks=remarks)
        finally:
            con.close()
    if is_headless:
        detection = replace(detection, remarks=(f"in doubt: {_NO_HEADER}", *detection.remarks))
    return detection


def _first_line_is_data(
    con: duckdb.DuckDBPyConnection, opened: Source, entities: list[Entity], enough: int
) -> bool:
    """Whether a column name reads as a number or a date, or is a value of its column for enough entities."""
    if any(re.fullmatch(NUMBER_PATTERN, n.strip()) or _DATE.fullmatch(n) for n in opened.columns):
        return True
    repeated = " OR ".join(f"{quoted(name)} = {literal(name)}" for name in opened.columns)
    counts = [f"count(DISTINCT {who_sql(entity)})" for entity in entities] or ["count(*)"]
    found = fetch(con, f"SELECT {', '.join(counts)} FROM source WHERE {repeated}", opened.place)
    return min(int(n) for n in found[0]) >= enough


def _written(
    con: duckdb.DuckDBPyConnection, opened: Source, source: SourceSpec, thresholds: Thresholds
) -> dict[str, Written]:
    """How numbers and dates are written that are not written plainly; from here on `source` shows them plainly."""
    texts = [name for name, sql_type in opened.types.items() if sql_type == "VARCHAR"]
    found = written_columns(
        con,
        [name for name in texts if name not in opened.unreadable],
        source.entities,
        thresholds,
        n_rows=_n_rows(con, opened),
        delimiter=source.delimiter,
        nulls=NULLS,
        place=opened.place,
    )
    if found:
        with_plain_cells(con, opened.columns, found, opened.place)
    return found


def _as_written(detection: Detection, written: dict[str, Written]) -> Detection:
    """Add to columns of numbers and dates how they are written."""
    columns, remarks = [], dict(detection.column_remarks)
    for column in detection.columns:
        found = written.get(column.name)
        kinds = DATE_KINDS if found and found.writing.date_format else NUMBER_KINDS
        if found is None or column.value_type not in kinds:
            columns.append(column)
            continue
        guessed = ("century",) if found.writing.century else ()
        columns.append(
            replace(column, writing=found.writing, detected=(*column.detected, *guessed))
        )
        doubts = (found.doubt,) if found.doubt else ()
        if doubts:
            remarks[column.name] = (*remarks.get(column.name, ()), *doubts)
    return replace(detection, columns=tuple(columns), column_remarks=remarks)


def _looks(
    con: duckdb.DuckDBPyConnection,
    opened: Source,
    entities: tuple[Entity, ...],
    thresholds: Thresholds,
    report: Progress,
    writings: Mapping[str, Writing],
    *,
    knows_null: bool,
) -> dict[str, Look]:
    """Look at the columns of a type that can be read, in the source's order."""
    types = {
        name: sql_type
        for name, sql_type in opened.types.items()
        if name not in opened.unreadable and cell_class(sql_type) not in ("other", "blob")
    }
    n_rows = _n_rows(con, opened)
    looks: dict[str, Look] = {}
    for block in blocks_of(con, types, entities, n_rows=n_rows, place=opened.place):
        report("columns", len(looks), len(types))
        looks |= look_at(
            block,
            thresholds,
            n_rows=n_rows,
            writings=writings,
            knows_null=knows_null,
            labels=opened.labels.values,
        )
    return {name: looks[name] for name in opened.columns if name in looks}


def _n_rows(con: duckdb.DuckDBPyConnection, opened: Source) -> int:
    return int(fetch(con, "SELECT count(*) FROM source", opened.place)[0][0])


def _together(
    con: duckdb.DuckDBPyConnection,
    opened: Source,
    source: SourceSpec,
    looks: Mapping[str, Look],
    thresholds: Thresholds,
) -> Together | None:
    """Columns that name somebody together; of those given as kinds of their own, where they are several."""
    given = [one for one in source.entities if isinstance(one, str)]
    if source.entities and len(given) < max(len(source.entities), 2):
        return None
    cells = {name: plain_cell(name, opened.types[name]) for name in looks}
    kinds = ("integer", "category", "text")
    judged = [name for name in given or looks if looks[name].column.kind in kinds]
    table = Table(con=con, name="source", columns=cells)
    return named_together(table, judged, thresholds)


def _detection(
    source: SourceSpec, opened: Source, looks: dict[str, Look], together: Together | None
) -> Detection:
    """Put the looks at all columns together."""
    unreadable = [name for name in opened.columns if name not in looks]
    given = source.entity_columns
    lost = [name for name in given if name in unreadable]
    reasons = {
        name: opened.unreadable.get(name, "is of a type that cannot be read") for name in unreadable
    }
    if lost or not set(looks) - set(given):
        faults = [f"column {n!r}: {reasons[n]}; convert it to one type" for n in lost or unreadable]
        raise DataError("\n".join(faults) or f"{opened.place}: has only columns that name entities")
    is_pair = together is not None and together.is_sure and not given
    alone = [
        name
        for name, look in looks.items()
        if name not in given and look.is_key and _is_named_like_an_id(name)
        if together is None or not is_pair or name not in together.columns
    ]
    candidates: tuple[Entity, ...] = tuple(alone)
    if together is not None and is_pair:
        candidates = (together.columns, *alone)
    if not set(looks) - set(entity_columns(candidates)) - set(given):
        candidates, alone = (), []
    remarks = [f"column {name!r} is left out: it {why}" for name, why in reasons.items()]
    if together is not None:
        remarks.append(_of_together(together, given))
    if alone and not given:
        listed = ", ".join(alone)
        remarks.append(f"in doubt: {listed} may name the entities; check entities below")
    elif not given and not candidates:
        remarks.append("no column names whom to protect: each row is taken for one entity")
    named = entity_columns(source.entities or candidates)
    columns = tuple(
        _as_entity(look.column) if name in named else _as_told(look.column, opened)
        for name, look in looks.items()
    )
    return Detection(
        source=source,
        columns=columns,
        entity_candidates=candidates,
        remarks=tuple(remarks),
        column_remarks={name: look.remarks for name, look in looks.items() if look.remarks},
        unreadable=reasons,
        values={
            name: look.values for name, look in looks.items() if look.values and name not in named
        },
    )


def _refuse_counts(con: duckdb.DuckDBPyConnection, opened: Source, detection: Detection) -> None:
    """Refuse a table of frequencies, unless somebody said what its rows are."""
    counts = count_column_of(con, detection.columns, opened.place)
    if counts is not None:
        raise DataError(
            f"{opened.place}: looks like a table of frequencies: column {counts!r} counts, and each combination of the "
            "other columns occurs once. Its units want protection, not its rows: to read each row as so many units, "
            f"say --count-column {counts} (in [source] count_column = {toml(counts)}; of a data frame, "
            f'frame.loc[frame.index.repeat(frame[{counts!r}])]). If each row is one unit, say --count-column "" (of a '
            "data frame, entities=[])"
        )


def _of_together(together: Together, given: Sequence[str]) -> str:
    """What is understood of columns that name somebody together."""
    *groups, number = together.columns
    group, pair = " and ".join(groups), list(together.columns)
    start = f"in doubt: {number} seems to number somebody within {group}"
    if given:
        return (
            f"{start}, yet each is protected by itself, which multiplies the noise; if they name one entity together, "
            f"say --entity {entity_option(together.columns)}, or entities = {toml([pair])}"
        )
    if not together.is_sure:
        return f"{start}; if they name one entity together, say entities = {toml([pair])}"
    wider = groups[0] if len(groups) == 1 else groups
    return (
        f"{start}: they are taken to name one entity together; check entities below. To protect each {group} as a "
        f"whole too, with more noise: entities = {toml([pair, wider])}"
    )


def _with_nameless(
    con: duckdb.DuckDBPyConnection, opened: Source, detection: Detection
) -> Detection:
    """Say where a column that names entities names none in some rows: a build refuses that."""
    cells = {
        c.name: cell_sql(c, opened.types[c.name])
        for c in detection.columns
        if c.name in entity_columns(detection.named)
    }
    if not cells:
        return detection
    has_null = ", ".join(f"coalesce(bool_or(({cell}) IS NULL), false)" for cell in cells.values())
    flags = fetch(con, f"SELECT {has_null} FROM source", opened.place)[0]
    nameless = tuple(
        f"column {name!r}: holds a null, which names nobody, and a build refuses it; give each row its entity, or "
        "leave such rows out of the source"
        for name, is_found in zip(cells, flags, strict=True)
        if is_found
    )
    return replace(detection, remarks=(*detection.remarks, *nameless))


def _with_suspects(
    con: duckdb.DuckDBPyConnection, opened: Source, detection: Detection, thresholds: Thresholds
) -> Detection:
    """Leave out columns that look like identifiers and name no entities."""
    cells = {c.name: plain_cell(c.name, opened.types[c.name]) for c in detection.columns}
    published = frozenset(_published(detection))
    judged = {
        column.name: Judged(
            is_number=column.value_type in NUMBER_KINDS,
            is_whole=column.value_type == "integer",
            sample=partial(_sample, con, cells[column.name], column.value_type, opened.place),
        )
        for column in detection.columns
        if column.name in published and may_be_suspect(column)
    }
    found: dict[str, str] = {}
    # Candidates may be declined: then each row is one.
    for entities in dict.fromkeys((detection.named, detection.source.entities)):
        table = Table(con=con, name="source", columns=cells, entities=tuple(map(who_sql, entities)))
        found |= suspects(table, judged, thresholds)
    if not found:
        return detection
    left_out = ", ".join(found)
    remark = f"left out of the tables, as identifiers may be: {left_out}; see each below"
    return replace(detection, suspects=found, remarks=(*detection.remarks, remark))


def _sample(
    con: duckdb.DuckDBPyConnection, cell: str, value_type: str, place: str, most: int
) -> Sequence[Any]:
    """Distinct values of a column of the source."""
    as_type = {"integer": "BIGINT", "real": "DOUBLE", "decimal": "DOUBLE"}.get(
        value_type, "VARCHAR"
    )
    value = f"TRY_CAST({cell} AS {as_type})"
    rows = fetch(
        con,
        f"SELECT v FROM (SELECT DISTINCT {value} AS v FROM source) WHERE v IS NOT NULL "
        f"ORDER BY hash(v) LIMIT {most}",
        place,
    )
    return [v for (v,) in rows]


def _with_bounds(
    con: duckdb.DuckDBPyConnection, opened: Source, detection: Detection, thresholds: Thresholds
) -> Detection:
    """Add how many rows of one entity are to count, where columns name entities."""
    named = detection.named
    if not named:
        return detection
    most = proposed_bound(con, named, thresholds)
    types = {name: opened.types[name] for name in _published(detection)}
    own: dict[str, int] = {}
    for block in blocks_of(con, types, named, n_rows=_n_rows(con, opened), place=opened.place):
        own |= proposed_bounds_of_values(block, most, thresholds)
    columns = tuple(
        replace(c, max_rows=own[c.name], detected=(*c.detected, "max_rows"))
        if own.get(c.name, most) < most
        else c
        for c in detection.columns
    )
    return replace(detection, columns=columns, max_rows=most)


def _with_determined(
    con: duckdb.DuckDBPyConnection,
    opened: Source,
    detection: Detection,
    thresholds: Thresholds,
    report: Progress,
) -> Detection:
    """Add which columns determine which."""
    cells = {name: plain_cell(name, opened.types[name]) for name in _published(detection)}
    if len(cells) < 2:
        return detection
    table = Table(
        con=con, name="source", columns=cells, entities=tuple(map(who_sql, detection.named))
    )
    told: dict[str, list[str]] = {}
    for finer, coarser in determined(table, thresholds, report):
        told.setdefault(finer, []).append(coarser)
    columns = tuple(
        replace(c, determines=tuple(told[c.name]), detected=(*c.detected, "determines"))
        if c.name in told
        else c
        for c in detection.columns
    )
    return replace(detection, columns=columns)


def _published(detection: Detection) -> list[str]:
    """The columns that do not name entities, nor look like it."""
    names = {
        *entity_columns(detection.source.entities),
        *entity_columns(detection.entity_candidates),
    }
    names |= {*detection.suspects}
    return [column.name for column in detection.columns if column.name not in names]


def _of_width(detection: Detection) -> list[str]:
    """What is to be known of a source of many columns."""
    n = len(_published(detection))
    pairs = math.comb(n, 2)
    if n <= MOST_COLUMNS:
        warning = warning_of_many(pairs)
        return [f"every pair of {n} columns: {warning}"] if warning else []
    return [
        f"every pair of {n:,} columns would be {pairs:,} tables, so they are not asked for below; name the tables that "
        'people ask for (columns = ["...", "..."]), or the columns to combine (all = 2, of = ["...", "..."])',
        f"which columns determine each other is not looked for: there are more than {MOST_COLUMNS}",
    ]


def _is_named_like_an_id(name: str) -> bool:
    """Whether people would call such a column an identifier."""
    return bool(_ID_NAME.search(name.casefold()) or _CAMEL_ID.search(name))


def _as_told(column: Column, opened: Source) -> Column:
    """The column with the labels, and its values in the order, that the source has for them."""
    labels = opened.labels
    column = replace(
        column,
        label=labels.columns.get(column.name, ""),
        labels=tuple(labels.values.get(column.name, {}).items()),
    )
    order = opened.orders.get(column.name, ())
    if not order or column.kind != "category" or column.value_type != "text":
        return column
    values = tuple(v for v in order if v not in (*column.spellings, column.placeholder))
    return replace(column, domain=values, detected=(*column.detected, "domain"))


def _as_entity(column: Column) -> Column:
    """The column as a name of entities: a number or a text."""
    column = replace(column, nulls=tuple(dict.fromkeys((*column.spellings, ""))))
    if column.kind in ("integer", "text"):
        return column
    is_number = column.value_type == "integer"
    return replace(
        column,
        kind="integer" if is_number else "text",
        value_type="integer" if is_number else "text",
        resolution=None,
        detected=("kind",),
    )
