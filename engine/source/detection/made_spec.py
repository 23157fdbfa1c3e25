"""Makes the spec of a source that has none, as Python asks for it: detected columns, tables, a key.

Takes a source and what the caller declares; gives a checked spec, or every mistake at once. Invariant: a column that
looks like an identifier is in no table unless the caller declared it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict, Unpack

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
from engine.source.journal import read_journal
from engine.source.spark import check_packages, is_spark_frame
from engine.spec import ReleaseSection, ReleaseSpec, knows_null, spec_of


class SourceSettings(TypedDict, total=False):
    """What Python says of a source that has no spec.

    Parameters
    ----------
    tables : iterable of iterable of str, or int
        For a source: column sets, or a number: every combination of this many columns. Columns that look like
        identifiers and are not declared are left out.
    key : str or Path
        For a source: key file; make one with `new_key`.
    columns : iterable or mapping of Column, optional
        For a source: declared columns; the others are detected.
    entities : str, or iterable of str or of lists of str, optional
        For a source: column, or columns that identify the protected entities, each one kind of them; a list in the
        list is one kind that its columns identify together, as in [["household", "person_no"]]. []: each row is one.
        Required if a column looks like an identifier, unless `identity` says that rows are told apart by their values.
    identity : iterable of str, optional
        For a source without entities: columns that identify a row, as in `[source]`.
    vintage, previous, title, name, notes, weight
        For a source: as in section `[release]` of a spec; by default the vintage is "1".
    unit : str or mapping, optional
        For a source: what a row is, as in `[release]`: "stays", or {"one": "stay", "many": "stays", "de": {...}}.
    reviewed : bool
        For a source: you have checked the detected settings; `publish_pack` requires this, or `accept_detected`.
    privacy : str or mapping
        For a source: name of a profile, or section `[privacy]` of a spec, such as `{"accept_risk": "agreed with ..."}`.
    max_rows : int, optional
        For a source: most rows of one entity that count in any figure, as in `[privacy]`; by default detected.
    dp : mapping, optional
        For a source: section `[dp]` of a spec; the release is then built in mode dp.
    table : str, optional
        For a source: table of a database, or sheet of a workbook.
    """

    tables: Iterable[Iterable[str]] | int
    key: str | Path
    columns: Mapping[str, Column] | Iterable[Column] | None
    entities: str | Iterable[str | Iterable[str]] | None
    identity: Iterable[str]
    vintage: str
    previous: str | None
    title: str
    name: str
    notes: Iterable[str]
    weight: str | None
    unit: str | Mapping[str, Any] | None
    reviewed: bool
    privacy: str | Mapping[str, Any]
    max_rows: int | None
    dp: Mapping[str, Any] | None
    table: str | None


def make_spec(
    what: Any, *, check_key: bool = True, **settings: Unpack[SourceSettings]
) -> ReleaseSpec:
    """Make a spec from Python; None stands for a setting that is not given."""
    said: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
    said = {"vintage": "1", "privacy": "standard"} | said
    key, dp, entities, columns = (
        said["key"],
        said.get("dp"),
        said.get("entities"),
        said.get("columns"),
    )
    listed = _listed(said["tables"])
    path = str(what) if isinstance(what, str | Path) else None
    identity = tuple(said.get("identity", ()))
    is_said = entities is not None or bool(identity)
    source = replace(
        source_of(path, said.get("table")),
        entities=as_entities([entities] if isinstance(entities, str) else entities or ()),
        identity=identity,
        count_column="" if is_said else None,
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
        detection = _detected(source, frame, Path(key), said["vintage"], said.get("previous"))
    if not source.entities:
        detection = _without_bounds(detection)
    by_name = {column.name: column for column in detection.columns} | declared
    looking_so = (*entity_columns(detection.entity_candidates), *detection.suspects)
    identifiers = [name for name in looking_so if name not in declared]
    in_tables = {n for columns in listed for n in columns} if isinstance(listed, list) else set()
    problems = _doubtful_identifiers(
        () if is_said else detection.entity_candidates,
        [name for name in identifiers if name in in_tables],
    )
    undeclared = in_tables - {*source.entity_columns, *declared}
    if dp is not None and undeclared:
        raise SpecError(_undeclared(undeclared))
    problems += _unreadable(detection, None if isinstance(listed, int) else in_tables, declared)
    entries = _entries(listed, [n for n in by_name if n not in source.entity_columns], identifiers)
    for identifier in set(identifiers) - set(identity) - in_tables:
        del by_name[identifier]
    by_name = _within(by_name, set(by_name) - set(source.entity_columns)) | declared
    release = {name: said[name] for name in ReleaseSection.model_fields if name in said}
    release |= {"key": str(key), "notes": list(said.get("notes", ()))}
    if dp is not None:
        release["mode"] = "dp"
    return spec_of(
        release=release,
        source=detection.source,
        columns=tuple(by_name.values()),
        privacy=_privacy(said["privacy"], said.get("max_rows"), detection),
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
    """The tables as lists. A text is a list of letters to Python; a caller who gives one means a column."""
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
    # A vintage that goes on from another detects as that one.
    draws = read_journal(key).draws_of(vintage, previous)
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
