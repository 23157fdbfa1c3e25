"""Writes a spec as `tablepack init` leaves it: complete, commented, to be reviewed.

Takes what was detected; gives TOML that `read_spec` accepts as it is. Invariant: it holds no value
of the data but in comments, and there only what enough entities hold; nothing in it is public until
someone says so.
"""

from __future__ import annotations

import datetime
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.errors import SpecError
from engine.schema import (
    DATE_KINDS,
    GRID_KINDS,
    NUMBER_KINDS,
    Column,
    Entity,
    SourceSpec,
    Writing,
    columns_of,
    entity_columns,
    usual_nulls,
)
from engine.source.detection.determined import MOST_COLUMNS
from engine.spec import knows_null
from engine.units import units_for

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BOUNDS = (
    "# domain = {min = , max = }   # smallest and largest possible value, if known from outside the data; "
    "ranges are filled within it"
)
_HEAD = """\
# A tablepack release. CONFIDENTIAL until a person has reviewed every line: what was found in the data is marked
# "detected"; take a setting off that list once it is confirmed. A release says what is still on it.
# Then: {made}tablepack plan {spec}
# A column that is about some rows only, and null for all others, can say so: universe = {{ column = "age", min = 15 }}
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Detection:
    """What is detected in a source."""

    source: SourceSpec  # With the entity columns that were given
    # All columns that can be read, in the source's order, each marked `detected`.
    columns: tuple[Column, ...] = ()
    # Columns that look like identifiers of entities, besides those given.
    entity_candidates: tuple[Entity, ...] = ()
    remarks: tuple[str, ...] = ()  # About the source as a whole, and columns left out
    # Sentences by column name.
    column_remarks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    # Values of categories by column name, where a short list holds all that enough entities share.
    # Confidential until someone has confirmed them.
    values: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    # Where columns name entities: how many rows of one of them are to count.
    max_rows: int | None = None
    # Why other columns cannot be read, by name.
    unreadable: dict[str, str] = field(default_factory=dict)
    # Why other columns look like identifiers, by name: they are left out of every table.
    suspects: dict[str, str] = field(default_factory=dict)

    @property
    def named(self) -> tuple[Entity, ...]:
        """The kinds of entities: those given, else what looks so."""
        return self.source.entities or self.entity_candidates


def spec_text(
    detection: Detection,
    *,
    spec_path: str | Path = "release.toml",
    tables: Sequence[Mapping[str, Any]] = (),
    key_path: str | Path | None = None,
) -> str:
    """Write the spec.

    spec_path: Where it will be written: file names in it are relative to that folder.
    key_path: The key file; None: one of the spec's name, beside it, which is to be made.
    """
    spec_path = Path(spec_path)
    entities = entity_columns(detection.named)
    candidates = entity_columns(detection.entity_candidates)
    key = key_name(spec_path) if key_path is None else _seen_from(spec_path, key_path)
    made = f"tablepack key new {key} && " if key_path is None else ""
    is_row_each = detection.max_rows in (None, 1)
    unit = units_for(None, None, entities=entities, is_row_each=is_row_each)[0].many
    lines = [
        _HEAD.format(made=made, spec=spec_path.name).rstrip(),
        "",
        "[release]",
        'title = ""',
        'name = "data"  # the table\'s name in SQL',
        'vintage = "1"  # a changed source is a new vintage',
        f"key = {toml(key)}",
        f"unit = {toml(unit)}  # what a row is, as counts are to say: people, stays, visits ...",
        "reviewed = false  # true once a person has looked at every line marked detected: publish wants it",
        *_source_lines(detection, spec_path),
        "",
        "[privacy]",
        'profile = "standard"  # or "strict"',
    ]
    if detection.max_rows is not None:
        lines += [
            f"max_rows = {detection.max_rows}  # rows of one entity that count in any figure, a power of two: those "
            "beyond it are left out, and the noise is multiplied by it",
            '# max_rows_by = "entity"  # choose the rows that count once, for all tables: groups add up (see '
            "`init --example`)",
            "# Counts of entities beside those of rows are a second release: a copy of this spec with another name, "
            'and count = "entities", in [release]',
            'detected = ["max_rows"]',
        ]
    data = [column for column in detection.columns if column.name not in entities]
    usual = usual_writing(detection.columns)
    for column in detection.columns:
        if column.name in entities:
            remarks = [_naming(column.name, detection.named)]
        elif column.name in candidates:
            lines += ["", f"# Left out: {_comment(column.name)} looks like an identifier."]
            data.remove(column)
            continue
        elif column.name in detection.suspects:
            lines += [
                "",
                f"[columns.{_bare(column.name)}]",
                f"# Left out: it looks like an identifier: {detection.suspects[column.name]}.",
                "# If it names whom to protect, name it in entities above, and take drop away. If it is harmless, say",
                '# release = "why" instead of drop: the release will show it.',
                "drop = true",
                f"kind = {toml(column.kind)}",
                'detected = ["drop", "kind"]',
            ]
            data.remove(column)
            continue
        else:
            remarks = list(detection.column_remarks.get(column.name, ()))
        nulls = usual_nulls(
            column.value_type,
            knows_null=knows_null(detection.source),
            is_entity=column.name in entities,
        )
        values = detection.values.get(column.name, ())
        lines += _column_lines(column, remarks, values, usual, nulls)
        if column.kind in GRID_KINDS and column.name not in entities:
            lines.append(_BOUNDS)
    if tables:
        _check_tables(tables, [column.name for column in data], detection)
        for entry in tables:
            lines += ["", "[[tables]]", *(f"{key} = {toml(value)}" for key, value in entry.items())]
        return "\n".join(lines) + "\n"
    lines += ["", "[[tables]]", "all = 1  # each column"]
    if len(data) > 1:
        pairs = ["[[tables]]", "all = 2  # every pair of columns"]
        # Of so many columns the pairs are more tables than anybody wants, or can have.
        lines += ["", *(pairs if len(data) <= MOST_COLUMNS else (f"# {line}" for line in pairs))]
    return "\n".join(lines) + "\n"


def _naming(name: str, entities: Iterable[Entity]) -> str:
    """What a column of an identifier is for."""
    together = [one for one in entities if name in columns_of(one) and one != name]
    others = [n for one in together if name not in entities for n in one if n != name]
    beside = f" together with {' and '.join(others)}" if others else ""
    return f"names whom to protect{beside}; never published"


def _check_tables(
    tables: Sequence[Mapping[str, Any]], names: Sequence[str], detection: Detection
) -> None:
    """Refuse tables of columns that cannot be in one."""
    asked = dict.fromkeys(name for entry in tables for name in entry.get("columns", ()))
    there = {column.name for column in detection.columns}
    problems = [
        f"tables: {name} names whom to protect, or looks like an identifier; it is left out of the spec"
        if name in there
        else f"tables: the source has no column {name}; there are: {', '.join(names)}"
        for name in asked
        if name not in names
    ]
    problems += [
        f"tables: all = {entry['all']}, but the spec has {len(names)} columns that tables can have"
        for entry in tables
        if entry.get("all", 0) > len(names)
    ]
    if problems:
        raise SpecError(problems)


def key_name(spec_path: str | Path) -> str:
    """Name of the key file that a written spec asks for, beside it."""
    return f"{Path(spec_path).stem}.key"


def _seen_from(spec_path: Path, path: str | Path) -> str:
    """A path as the spec says it: relative to its folder, unless it was given as a whole one."""
    if Path(path).is_absolute():
        return str(path)
    return Path(os.path.relpath(path, spec_path.parent)).as_posix()


def toml(value: Any) -> str:
    """Spell a value in TOML, on one line."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{toml(key)} = {toml(of)}' for key, of in value.items())} }}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    # JSON's escapes are TOML's too, but for DEL, which TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _source_lines(detection: Detection, spec_path: Path) -> list[str]:
    """The section [source]."""
    source = detection.source
    lines = ["", "[source]", *(f"# {_comment(remark)}" for remark in detection.remarks)]
    path = _seen_from(spec_path, source.path) if source.path else ""
    lines += [f"path = {toml(path)}", f"format = {toml(source.format)}"]
    found = {
        "table": source.table,
        "sheet": source.sheet,
        "encoding": source.encoding,
        "delimiter": None if source.delimiter == "," else source.delimiter,
        "skip": source.skip or None,
        "count_column": source.count_column or None,
        **_said(usual_writing(detection.columns), Writing()),
    }
    lines += [f"{key} = {toml(value)}" for key, value in found.items() if value is not None]
    lines.append(
        f"entities = {toml(detection.named)}  # columns that name whom to protect; none: each row is one"
    )
    return lines


def usual_writing(columns: Iterable[Column]) -> Writing:
    """How most columns are written whose numbers, or dates, could be written otherwise."""
    listed = list(columns)
    numbers = Counter(
        (c.writing.decimal, c.writing.thousands) for c in listed if c.value_type in NUMBER_KINDS
    )
    # Whole numbers are written plainly under any sign; they have no say.
    strange = {way: n for way, n in numbers.items() if way != (".", "")}
    decimal, thousands = max(strange, key=lambda way: strange[way], default=(".", ""))
    dates = Counter(
        (c.writing.date_format, c.writing.century) for c in listed if c.value_type in DATE_KINDS
    )
    date_format, century = max(dates, key=lambda form: dates[form], default=("", ""))
    return Writing(decimal=decimal, thousands=thousands, date_format=date_format, century=century)


def _said(writing: Writing, usual: Writing, kind: str | None = None) -> dict[str, str | None]:
    """The keys that say how a column is written, where it is not as usual."""
    numbers = {"decimal": writing.decimal, "thousands": writing.thousands}
    dates = {"date_format": writing.date_format}
    dates |= {"century": writing.century} if writing.century else {}
    if writing.decimal == usual.decimal and not writing.thousands:
        numbers = {}  # a reader of thousands separators also reads numbers without
    said: dict[str, str] = {}
    said |= numbers if kind is None or kind in NUMBER_KINDS else {}
    said |= dates if kind is None or kind in DATE_KINDS else {}
    return {key: value for key, value in said.items() if value != getattr(usual, key)}


def _column_lines(
    column: Column,
    remarks: list[str],
    values: tuple[Any, ...],
    usual: Writing,
    nulls: tuple[str, ...],
) -> list[str]:
    """One section [columns.X].

    usual, nulls: How it is written, and null spelled, unless the section says otherwise.
    """
    lines = [
        "",
        f"[columns.{_bare(column.name)}]",
        *(f"# {_comment(remark)}" for remark in remarks),
    ]
    lines.append(f"kind = {toml(column.kind)}")
    if column.kind == "category":
        lines.append(f"type = {toml(column.value_type)}")
    if column.resolution is not None:
        lines.append(f"resolution = {column.resolution.toml}")
    if column.max_rows is not None:
        lines.append(f"max_rows = {column.max_rows}  # the same for any one value of this column")
    if column.order:
        lines.append(
            f"order = {toml(column.order)}  # bands: by their numbers, as 5-9 before 10-14"
        )
    if column.determines:
        lines.append(
            f"determines = {toml(column.determines)}  # rows that agree in this column agree in these"
        )
    is_any = column.value_type == "integer" and column.writing == Writing()
    said = {} if is_any else _said(column.writing, usual, column.value_type)
    lines += [f"{key} = {toml(value)}" for key, value in said.items()]
    lines.append(f"detected = {toml(column.detected)}")
    if column.spellings != nulls:
        lines.append(f"nulls = {toml(column.spellings)}")
    if column.label:
        lines.append(f"label = {toml(column.label)}")
    if column.labels:
        lines.append(f"labels = {toml(dict(column.labels))}")
    if values:
        lines.append(
            f"# domain = {toml(values)}  # seen in the data, values of few left out; "
            "confirm from outside it, then uncomment and say public = true"
        )
    return lines


def _bare(name: str) -> str:
    """A name as a key of TOML."""
    return name if _BARE_KEY.fullmatch(name) else toml(name)


def _comment(text: str) -> str:
    """Text that stays on one line of comment."""
    return toml(text)[1:-1].replace('\\"', '"')
