"""Detects what a spec must say of a source: kinds, resolutions, spellings of null, columns that name entities.

Takes a source; gives columns marked as detected and remarks in plain words, for `spec_text` to
write or, from Python, a spec at once. Runs in scratch space that is swept afterwards. Invariant:
nothing here is a declaration: no column is public and no domain set until a person says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb

from engine.errors import DataError, SpecError
from engine.keys import MasterKey, check_key_file, read_key
from engine.schema import Column, SourceSpec, literal, quoted
from engine.source.detection.column import Look, look_at
from engine.source.detection.resolution import NUMBER_PATTERN
from engine.source.detection.rows import proposed_bound, proposed_bound_of_values
from engine.source.detection.spec_text import Detection, key_name, spec_text
from engine.source.detection.thresholds import Thresholds
from engine.source.encoding import cell_class
from engine.source.journal import draws_of
from engine.source.relation import Source, fetch, open_source
from engine.source.scratch import confidential_connection, scratch_directory
from engine.spec import ReleaseSpec, named_format, spec_of

__all__ = ["Detection", "detect", "detect_source", "key_name", "make_spec", "spec_text"]

_ID_NAME = re.compile(r"(^|[\W_])(id|uid|uuid|guid|pid|key|nr|no|number|identifier)$|^id[\W_]")
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
    entities: tuple[str, ...] = (),
    key: MasterKey | None = None,
) -> Detection:
    """Detect the columns of a file.

    Parameters
    ----------
    path : str or Path
        CSV, Parquet (file or glob) or DuckDB file.
    table : str, optional
        Table of a DuckDB file.
    key : MasterKey, optional
        Decides the noisy thresholds, so that the same data gives the same spec. Without one they are drawn afresh
        and forgotten: two calls may differ where about ten entities decide.

    Raises
    ------
    SpecError, DataError
        As `open_source`.
    """
    form = named_format(str(path))
    source = SourceSpec(path=str(path), format=form, table=table, entities=tuple(entities))
    return detect(source, thresholds=keyed_thresholds(key))


def keyed_thresholds(key: MasterKey | None, vintage: str = "1") -> Thresholds:
    """The thresholds of a key and vintage; fresh ones without a key."""
    return Thresholds(None if key is None else key.derive("detection", vintage))


def detect(
    source: SourceSpec,
    frame: Any = None,
    entities: tuple[str, ...] = (),
    *,
    thresholds: Thresholds,
) -> Detection:
    """Detect the columns of a source.

    Parameters
    ----------
    frame : object, optional
        The pandas or Arrow object where the format is "frame".
    entities : tuple of str
        Entity columns; those of the source where empty.
    thresholds : Thresholds
        What numbers of entities are compared to.

    Raises
    ------
    SpecError
        If an entity column is missing, or nothing is there to be published.
    DataError
        If the source cannot be read.
    """
    source = replace(source, entities=tuple(entities) or source.entities)
    with scratch_directory() as scratch:
        con = confidential_connection(scratch)
        try:
            opened = open_source(con, source, frame)
            known = [name for name in source.entities if name in opened.columns]
            is_headless = source.format == "csv" and _first_line_is_data(
                con, opened, known, thresholds.of("header", "")
            )
            missing = [name for name in source.entities if name not in opened.columns]
            if missing:
                there = _NO_HEADER if is_headless else f"there are: {', '.join(opened.columns)}"
                raise SpecError([f"source.entities: no column {name}; {there}" for name in missing])
            readable = _readable(opened)
            looks = {
                name: look_at(
                    con,
                    name,
                    opened.types[name],
                    source.entities,
                    is_entity=name in source.entities,
                    thresholds=thresholds,
                    place=opened.place,
                )
                for name in opened.columns
                if name in readable
            }
            detection = _detection(source, opened, looks)
            detection = _with_bounds(con, opened, detection, thresholds)
        finally:
            con.close()
    if is_headless:
        detection = replace(detection, remarks=(f"in doubt: {_NO_HEADER}", *detection.remarks))
    return detection


def _first_line_is_data(
    con: duckdb.DuckDBPyConnection, opened: Source, entities: list[str], enough: int
) -> bool:
    """Whether a column name reads as a number or a date, or is a value of its column for enough entities."""
    if any(re.fullmatch(NUMBER_PATTERN, n.strip()) or _DATE.fullmatch(n) for n in opened.columns):
        return True
    repeated = " OR ".join(f"{quoted(name)} = {literal(name)}" for name in opened.columns)
    counts = [f"count(DISTINCT {quoted(entity)})" for entity in entities] or ["count(*)"]
    found = fetch(con, f"SELECT {', '.join(counts)} FROM source WHERE {repeated}", opened.place)
    return min(int(n) for n in found[0]) >= enough


def _readable(opened: Source) -> set[str]:
    """Columns of a type that can be read."""
    return {
        name
        for name, sql_type in opened.types.items()
        if name not in opened.unreadable and cell_class(sql_type) not in ("other", "blob")
    }


def _detection(source: SourceSpec, opened: Source, looks: dict[str, Look]) -> Detection:
    """Put the looks at all columns together."""
    unreadable = [name for name in opened.columns if name not in looks]
    lost = [name for name in source.entities if name in unreadable]
    if lost or not set(looks) - set(source.entities):
        place = f"column {lost[0]!r}" if lost else "the source"
        raise DataError(
            f"{place}: holds nothing that can be read; declare its columns in a spec by hand"
        )
    candidates = tuple(
        name
        for name, look in looks.items()
        if name not in source.entities and look.is_key and _is_named_like_an_id(name)
    )
    if not set(looks) - set(candidates) - set(source.entities):
        candidates = ()
    remarks = [
        f"column {name!r} is left out: it holds values that cannot be read" for name in unreadable
    ]
    if candidates and not source.entities:
        remarks.append(
            f"in doubt: {', '.join(candidates)} may name the entities; check entities below"
        )
    elif not source.entities:
        remarks.append("no column looks like an identifier: each row is taken for one entity")
    named = source.entities or candidates
    columns = tuple(
        _as_entity(look.column) if name in named else look.column for name, look in looks.items()
    )
    return Detection(
        source=source,
        columns=columns,
        entity_candidates=candidates,
        remarks=tuple(remarks),
        column_remarks={name: look.remarks for name, look in looks.items() if look.remarks},
        values={
            name: look.values for name, look in looks.items() if look.values and name not in named
        },
    )


def _with_bounds(
    con: duckdb.DuckDBPyConnection, opened: Source, detection: Detection, thresholds: Thresholds
) -> Detection:
    """Add how many rows of one entity are to count, where columns name entities."""
    named = detection.source.entities or detection.entity_candidates
    if not named:
        return detection
    most = proposed_bound(con, named, thresholds)
    columns = []
    for column in detection.columns:
        own = most
        if column.name not in (*named, *detection.entity_candidates):
            sql_type = opened.types[column.name]
            own = proposed_bound_of_values(con, column.name, sql_type, named, most, thresholds)
        if own < most:
            column = replace(column, max_rows=own, detected=(*column.detected, "max_rows"))
        columns.append(column)
    return replace(detection, columns=tuple(columns), max_rows=most)


def _without_bounds(detection: Detection) -> Detection:
    """Without bounds on the rows of one entity: each row is one, or mode dp has its own."""
    columns = tuple(
        replace(c, max_rows=None, detected=tuple(d for d in c.detected if d != "max_rows"))
        for c in detection.columns
    )
    return replace(detection, columns=columns, max_rows=None)


def _is_named_like_an_id(name: str) -> bool:
    """Whether people would call such a column an identifier."""
    return bool(_ID_NAME.search(name.casefold()) or _CAMEL_ID.search(name))


def _as_entity(column: Column) -> Column:
    """The column as a name of entities: a number or a text."""
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


def make_spec(
    what: Any,
    *,
    tables: Iterable[Iterable[str]] | int,
    key: str | Path,
    columns: Mapping[str, Column] | Iterable[Column] | None = None,
    entities: Iterable[str] | None = None,
    identity: Iterable[str] = (),
    vintage: str = "1",
    previous: str | None = None,
    title: str = "",
    name: str = "data",
    privacy: str | Mapping[str, Any] = "standard",
    max_rows: int | None = None,
    dp: Mapping[str, Any] | None = None,
    notes: Iterable[str] = (),
    table: str | None = None,
    check_key: bool = True,
) -> ReleaseSpec:
    """Make a spec from Python.

    Parameters
    ----------
    what : str, Path, DataFrame or Arrow table
        A source file or the rows themselves.
    tables : iterable of iterable of str, or int
        Column sets, or a width: every set of so many columns. Columns that look like identifiers and are not
        declared are left out.
    key : str or Path
        Key file.
    columns : mapping or iterable of Column, optional
        Declared columns; all others are detected.
    entities : iterable of str, optional
        As in `[source]`; []: each row is one. None: not said, which is refused where a column looks like an identifier,
        unless `identity` says that rows are told apart by their values.
    identity : iterable of str
        As in `[source]`.
    vintage, previous, title, name, privacy, notes
        As in `[release]`; `privacy` is the name of a profile, or the section `[privacy]`.
    max_rows : int, optional
        As in `[privacy]`; detected where entities are named and it is not said.
    dp : mapping, optional
        As `[dp]`: the release is built in mode dp.
    table : str, optional
        Table of a DuckDB file.

    Raises
    ------
    SpecError
        With every mistake; or if a column looks like an identifier and `entities` is not said, or a table names it and
        it is not declared.
    DataError
        If the source cannot be read.
    """
    path = str(what) if isinstance(what, str | Path) else None
    source = SourceSpec(
        path=path,
        format=named_format(path) if path is not None else "frame",
        table=table,
        entities=tuple(entities or ()),
        identity=tuple(identity),
    )
    declared = {
        c.name: c for c in (columns.values() if isinstance(columns, Mapping) else columns or ())
    }
    detection = _detected(source, None if path is not None else what, Path(key), vintage, previous)
    if dp is not None or not source.entities:
        detection = _without_bounds(detection)
    by_name = {column.name: column for column in detection.columns} | declared
    identifiers = [name for name in detection.entity_candidates if name not in declared]
    listed = tables if isinstance(tables, int) else [list(columns) for columns in tables]
    in_tables = (
        {name for columns in listed for name in columns} if isinstance(listed, list) else set()
    )
    problems = _doubtful_identifiers(
        () if entities is not None or source.identity else detection.entity_candidates,
        [name for name in identifiers if name in in_tables],
    )
    entries = _entries(listed, [n for n in by_name if n not in source.entities], identifiers)
    for identifier in set(identifiers) - set(source.identity) - in_tables:
        del by_name[identifier]
    release: dict[str, Any] = {"title": title, "name": name, "vintage": vintage, "key": str(key)}
    release |= {"notes": list(notes)} | ({"mode": "dp"} if dp is not None else {})
    release |= {"previous": previous} if previous is not None else {}
    return spec_of(
        release=release,
        source=source,
        columns=tuple(by_name.values()),
        privacy=_privacy(privacy, max_rows, detection),
        tables=entries,
        dp=dp,
        check_key=check_key,
        problems=problems,
    )


def _detected(
    source: SourceSpec, frame: Any, key: Path, vintage: str, previous: str | None
) -> Detection:
    """What a key detects; a key that is missing or wrong is told later, with all other mistakes."""
    if check_key_file(key):
        return detect(source, frame, thresholds=keyed_thresholds(None, vintage))
    draws = draws_of(
        key, vintage, previous
    )  # a vintage that goes on from another detects as that one
    return detect(source, frame, thresholds=keyed_thresholds(read_key(key), draws))


def _privacy(
    privacy: str | Mapping[str, Any], max_rows: int | None, detection: Detection
) -> dict[str, Any]:
    """The section `[privacy]`, with how many rows of one entity count: as said, else as detected."""
    section = {"profile": privacy} if isinstance(privacy, str) else dict(privacy)
    if max_rows is not None:
        return section | {"max_rows": max_rows}
    if detection.max_rows is None or "max_rows" in section:
        return section
    return section | {"max_rows": detection.max_rows, "detected": ["max_rows"]}


def _doubtful_identifiers(unsaid: Sequence[str], undeclared: Sequence[str]) -> list[str]:
    """Say what is wrong with columns that look like identifiers.

    Parameters
    ----------
    unsaid : sequence of str
        All of them, where nobody said which columns name entities.
    undeclared : sequence of str
        Those that a table names and nobody declared.
    """
    problems = []
    if unsaid:
        looks = "looks like an identifier" if len(unsaid) == 1 else "look like identifiers"
        problems.append(
            f"entities: {', '.join(unsaid)} {looks}; say whom to protect: entities=[{unsaid[0]!r}] if it names them, "
            "entities=[] if each row is one of them"
        )
    problems += [
        f"tables: {name} looks like an identifier; if it names whom to protect, name it in entities=; "
        "if it is to be published, declare it: pass it in columns= as a Column"
        for name in undeclared
    ]
    return problems


def _entries(
    tables: list[list[str]] | int, names: list[str], identifiers: list[str]
) -> list[dict[str, Any]]:
    """Table entries; a width without what looks like an identifier."""
    if isinstance(tables, int):
        return [{"all": tables, "of": [name for name in names if name not in identifiers]}]
    return [{"columns": columns} for columns in tables]
