"""Makes the spec of a source that has none, as Python asks for it: detected columns, tables, a key.

Takes a source and what the caller declares; gives a checked spec, or every mistake at once. Invariant: a column that
looks like an identifier is in no table unless the caller declared it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.errors import SpecError
from engine.key_files import check_key_file, read_key
from engine.schema import (
    Column,
    Entity,
    SourceSpec,
    as_entities,
    entity_columns,
    entity_name,
    usual_nulls,
)
from engine.source.detection.detect import detect, source_of
from engine.source.detection.spec_text import Detection
from engine.source.detection.thresholds import keyed_thresholds
from engine.source.journal import draws_of
from engine.source.spark import check_packages, is_spark_frame
from engine.spec import ReleaseSpec, knows_null, spec_of


def make_spec(
    what: Any,
    *,
    tables: Iterable[Iterable[str]] | int,
    key: str | Path,
    columns: Mapping[str, Column] | Iterable[Column] | None = None,
    entities: Iterable[str | Iterable[str]] | None = None,
    identity: Iterable[str] = (),
    vintage: str = "1",
    previous: str | None = None,
    title: str = "",
    name: str = "data",
    privacy: str | Mapping[str, Any] = "standard",
    max_rows: int | None = None,
    dp: Mapping[str, Any] | None = None,
    notes: Iterable[str] = (),
    unit: str | Mapping[str, Any] | None = None,
    weight: str | None = None,
    reviewed: bool = False,
    table: str | None = None,
    check_key: bool = True,
) -> ReleaseSpec:
    """Make a spec from Python.

    tables: Column sets, or a width: every set of so many columns. Columns that look like identifiers and are
        not declared are left out.
    entities: As in `[source]`; []: each row is one. None: not said, which is refused where a column looks
        like an identifier, unless `identity` says that rows are told apart by their values.
    vintage, previous, title, name, privacy, notes, unit, weight, reviewed: As in `[release]`; `privacy` is the name
        of a profile, or the section `[privacy]`.
    max_rows: As in `[privacy]`; detected where entities are named and it is not said.
    """
    listed = _listed(tables)
    path = str(what) if isinstance(what, str | Path) else None
    source = replace(
        source_of(path, table),
        entities=as_entities(entities or ()),
        identity=tuple(identity),
        count_column=None if entities is None and not identity else "",
    )
    declared = {
        name: replace(
            c,
            nulls=usual_nulls(
                c.value_type, knows_null=knows_null(source), is_entity=name in source.entity_columns
            ),
        )
        if c.nulls is None
        else c
        for name, c in (_ids_as_text(source, dp) | _by_name(columns)).items()
    }
    if dp is not None:
        detection = _nothing_detected(source)
    else:
        frame = None if path is not None else what
        detection = _detected(source, frame, Path(key), vintage, previous)
    if not source.entities:
        detection = _without_bounds(detection)
    by_name = {column.name: column for column in detection.columns} | declared
    looking_so = (*entity_columns(detection.entity_candidates), *detection.suspects)
    identifiers = [name for name in looking_so if name not in declared]
    in_tables = {n for columns in listed for n in columns} if isinstance(listed, list) else set()
    problems = _doubtful_identifiers(
        () if entities is not None or source.identity else detection.entity_candidates,
        [name for name in identifiers if name in in_tables],
    )
    undeclared = in_tables - {*source.entity_columns, *declared}
    if dp is not None and undeclared:
        raise SpecError(_undeclared(undeclared))
    problems += _unreadable(detection, None if isinstance(listed, int) else in_tables, declared)
    entries = _entries(listed, [n for n in by_name if n not in source.entity_columns], identifiers)
    for identifier in set(identifiers) - set(source.identity) - in_tables:
        del by_name[identifier]
    by_name = _within(by_name, set(by_name) - set(source.entity_columns)) | declared
    release: dict[str, Any] = {"title": title, "name": name, "vintage": vintage, "key": str(key)}
    mode = None if dp is None else "dp"
    said = {"mode": mode, "unit": unit, "weight": weight, "previous": previous}
    release |= {"notes": list(notes), "reviewed": reviewed}
    release |= {word: value for word, value in said.items() if value is not None}
    return spec_of(
        release=release,
        source=detection.source,
        columns=tuple(by_name.values()),
        privacy=_privacy(privacy, max_rows, detection),
        tables=entries,
        dp=dp,
        check_key=check_key,
        problems=problems,
    )


def _ids_as_text(source: SourceSpec, dp: Mapping[str, Any] | None) -> dict[str, Column]:
    """Mode dp: columns of ids are read as text, whatever the data hold, unless they are declared otherwise."""
    names = source.entity_columns if dp is not None else ()
    return {name: Column(name=name, kind="text", value_type="text") for name in names}


def _nothing_detected(source: SourceSpec) -> Detection:
    """Mode dp: no data are read to make a spec."""
    return Detection(
        source=source,
        columns=(),
        entity_candidates=(),
        remarks=(),
        column_remarks={},
        values={},
    )


def _undeclared(names: set[str]) -> list[str]:
    """Say which columns of tables mode dp would have to detect in the data."""
    return [
        f"columns: {name} is not declared; mode dp takes nothing from the data, so pass it in columns= as a Column, "
        "with its kind and a domain or bounds that are public"
        for name in sorted(names)
    ]


def _unreadable(
    detection: Detection, in_tables: set[str] | None, declared: Mapping[str, Column]
) -> list[str]:
    """Say which columns that are asked for cannot be read.

    in_tables: Columns of the tables; None: all columns are asked for.
    """
    return [
        f"column {name!r}: {why}; convert it, or leave it out: frame.drop(columns=[{name!r}])"
        for name, why in detection.unreadable.items()
        if name not in declared and (in_tables is None or name in in_tables)
    ]


def _by_name(columns: Mapping[str, Column] | Iterable[Column] | None) -> dict[str, Column]:
    """Declared columns by name."""
    given = columns.values() if isinstance(columns, Mapping) else columns or ()
    return {c.name: c for c in given}


def _listed(tables: Iterable[Iterable[str]] | int) -> list[list[str]] | int:
    """The tables as lists. A text is a list of letters to Python; whoever gives one means a column."""
    if isinstance(tables, int):
        return tables
    given = [tables] if isinstance(tables, str) else list(tables)
    names = [table for table in given if isinstance(table, str)]
    if names:
        apart = ", ".join(f"[{name!r}]" for name in names[:2])
        together = ", ".join(map(repr, names[:2]))
        raise SpecError(
            f"tables: {names[0]!r} is a column; a table is a list of columns: tables=[{apart}] for one table each, "
            f"tables=[[{together}]] for one of all"
        )
    return [list(columns) for columns in given]


def _without_bounds(detection: Detection) -> Detection:
    """Without bounds on the rows of one entity: each row is one, or mode dp has its own."""
    columns = tuple(
        replace(c, max_rows=None, detected=tuple(d for d in c.detected if d != "max_rows"))
        for c in detection.columns
    )
    return replace(detection, columns=columns, max_rows=None)


def _within(columns: dict[str, Column], known: set[str]) -> dict[str, Column]:
    """Detected columns that determine no column but these."""
    return {
        name: replace(column, determines=tuple(c for c in column.determines if c in known))
        for name, column in columns.items()
    }


def _detected(
    source: SourceSpec, frame: Any, key: Path, vintage: str, previous: str | None
) -> Detection:
    """What a key detects; a key that is missing or wrong is told later, with all other mistakes.

    Of a Spark DataFrame some rows are looked at: what does not fit what they show is refused when all are read.
    """
    if is_spark_frame(frame):
        check_packages()
        from engine.source.spark.frames import sample_of

        frame = sample_of(frame)
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


def _doubtful_identifiers(unsaid: Sequence[Entity], undeclared: Sequence[str]) -> list[str]:
    """Say what is wrong with columns that look like identifiers."""
    problems = []
    if unsaid:
        looks = "looks like an identifier" if len(unsaid) == 1 else "look like identifiers"
        kinds = [one if isinstance(one, str) else list(one) for one in unsaid]
        problems.append(
            f"entities: {', '.join(map(entity_name, unsaid))} {looks}; say whom to protect: entities=[{kinds[0]!r}] "
            "if it names them, entities=[] if each row is one of them"
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
