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
    dp, entities, given = said.get("dp"), said.get("entities"), said.get("columns")
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
    named = source.entity_columns
    declared = {c.name: c for c in (given.values() if isinstance(given, Mapping) else given or ())}
    if (
        dp is not None
    ):  # ids are read as text, whatever the data hold, unless they are declared otherwise
        ids = {name: Column(name=name, kind="text", value_type="text") for name in named}
        declared = ids | declared
    told = knows_null(source)
    for name, c in declared.items():
        if c.nulls is None:
            nulls = usual_nulls(c.value_type, knows_null=told, is_entity=name in named)
            declared[name] = replace(c, nulls=nulls)
    if dp is not None:  # no data are read to make a spec
        detection = Detection(source=source)
    else:
        frame = None if path is not None else what
        key, previous = Path(said["key"]), said.get("previous")
        detection = _detected(source, frame, key, said["vintage"], previous)
    detected = {column.name: column for column in detection.columns}
    max_rows = detection.max_rows
    if not source.entities:  # each row is one, whatever looks like an identifier
        max_rows = None
        for name, c in detected.items():
            marks = tuple(mark for mark in c.detected if mark != "max_rows")
            detected[name] = replace(c, max_rows=None, detected=marks)
    looking_so = (*entity_columns(detection.entity_candidates), *detection.suspects)
    identifiers = [name for name in looking_so if name not in declared]
    in_tables = {n for columns in listed for n in columns} if isinstance(listed, list) else set()
    problems = _doubtful_identifiers(
        () if is_said else detection.entity_candidates,
        [name for name in identifiers if name in in_tables],
    )
    undeclared = in_tables - {*named, *declared}
    if dp is not None and undeclared:
        raise SpecError(
            [
                f"columns: {name} is not declared; mode dp takes nothing from the data, so pass it in columns= as a "
                "Column, with its kind and a domain or bounds that are public"
                for name in sorted(undeclared)
            ]
        )
    problems += [
        f"column {name!r}: {why}; convert it, or leave it out: frame.drop(columns=[{name!r}])"
        for name, why in detection.unreadable.items()
        if name not in declared and (isinstance(listed, int) or name in in_tables)
    ]
    tables: list[dict[str, Any]]
    if isinstance(listed, int):
        names = [n for n in detected | declared if n not in (*named, *identifiers)]
        tables = [{"all": listed, "of": names}]
    else:
        tables = [{"columns": columns} for columns in listed]
    for identifier in set(identifiers) - set(identity) - in_tables:
        detected.pop(identifier, None)
    known = (detected | declared).keys() - set(named)
    for name, c in detected.items():
        detected[name] = replace(c, determines=tuple(one for one in c.determines if one in known))
    release = {name: said[name] for name in ReleaseSection.model_fields if name in said}
    release |= {"key": str(said["key"]), "notes": list(said.get("notes", ()))}
    if dp is not None:
        release["mode"] = "dp"
    privacy = said["privacy"]
    privacy = {"profile": privacy} if isinstance(privacy, str) else dict(privacy)
    if "max_rows" in said:
        privacy["max_rows"] = said["max_rows"]
    elif max_rows is not None and "max_rows" not in privacy:
        privacy |= {"max_rows": max_rows, "detected": ["max_rows"]}
    return spec_of(
        release=release,
        source=detection.source,
        columns=tuple((detected | declared).values()),
        privacy=privacy,
        tables=tables,
        dp=dp,
        check_key=check_key,
        problems=problems,
    )


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
