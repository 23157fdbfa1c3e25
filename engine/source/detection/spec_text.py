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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.schema import Column, SourceSpec

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BOUNDED = ("integer", "real", "decimal", "date", "timestamp")
_BOUNDS = (
    "# domain = {min = , max = }   # smallest and largest possible value, if known from outside the data; "
    "ranges are filled within it"
)
_HEAD = """\
# A tablepack release. CONFIDENTIAL until a person has reviewed every line: what was found in the data is marked
# "detected"; take a setting off that list once it is confirmed. A release says what is still on it.
# Then: tablepack key new {key} && tablepack plan {spec}
# A column that is about some rows only, and null for all others, can say so: universe = {{ column = "age", min = 15 }}
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Detection:
    """What is detected in a source.

    Attributes
    ----------
    source : SourceSpec
        With the entity columns that were given.
    columns : tuple of Column
        All columns that can be read, in the source's order, each marked `detected`.
    entity_candidates : tuple of str
        Columns that look like identifiers of entities, besides those given.
    remarks : tuple of str
        About the source as a whole, and columns left out.
    column_remarks : dict
        Sentences by column name.
    values : dict
        Values of categories by column name, where a short list holds all that enough entities
        share. Confidential until someone has confirmed them.
    max_rows : int or None
        Where columns name entities: how many rows of one of them are to count.
    """

    source: SourceSpec
    columns: tuple[Column, ...]
    entity_candidates: tuple[str, ...]
    remarks: tuple[str, ...]
    column_remarks: dict[str, tuple[str, ...]]
    values: dict[str, tuple[Any, ...]]
    max_rows: int | None = None


def spec_text(detection: Detection, *, spec_path: str | Path = "release.toml") -> str:
    """Write the spec.

    Parameters
    ----------
    spec_path : str or Path
        Where it will be written: file names in it are relative to that folder.

    Returns
    -------
    str
        TOML.
    """
    spec_path = Path(spec_path)
    entities = detection.source.entities or detection.entity_candidates
    key = key_name(spec_path)
    lines = [
        _HEAD.format(key=key, spec=spec_path.name).rstrip(),
        "",
        "[release]",
        'title = ""',
        'name = "data"  # the table\'s name in SQL',
        'vintage = "1"  # a changed source is a new vintage',
        f"key = {toml(key)}",
        *_source_lines(detection, entities, spec_path),
        "",
        "[privacy]",
        'profile = "standard"  # or "strict"',
        *_bound_lines(detection),
    ]
    data = [column for column in detection.columns if column.name not in entities]
    for column in detection.columns:
        if column.name in entities:
            remarks = ["names whom to protect; never published"]
        elif column.name in detection.entity_candidates:
            lines += ["", f"# Left out: {_comment(column.name)} looks like an identifier."]
            data.remove(column)
            continue
        else:
            remarks = list(detection.column_remarks.get(column.name, ()))
        lines += _column_lines(column, remarks, detection.values.get(column.name, ()))
        if column.kind in _BOUNDED and column.name not in entities:
            lines.append(_BOUNDS)
    widths = [width for width in (1, 2) if width <= len(data)]
    for width, words in zip(widths, ("each column", "every pair of columns"), strict=False):
        lines += ["", "[[tables]]", f"all = {width}  # {words}"]
    return "\n".join(lines) + "\n"


def key_name(spec_path: str | Path) -> str:
    """Name of the key file that a written spec asks for, beside it."""
    return f"{Path(spec_path).stem}.key"


def toml(value: Any) -> str:
    """Spell a value in TOML, on one line."""
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, datetime.datetime | datetime.date):
        return value.isoformat()
    # JSON's escapes are TOML's too, but for DEL, which TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _source_lines(detection: Detection, entities: tuple[str, ...], spec_path: Path) -> list[str]:
    """The section [source]."""
    source = detection.source
    lines = ["", "[source]", *(f"# {_comment(remark)}" for remark in detection.remarks)]
    path = source.path or ""
    if path and not Path(path).is_absolute():
        path = Path(os.path.relpath(path, spec_path.parent)).as_posix()
    lines += [f"path = {toml(path)}", f"format = {toml(source.format)}"]
    if source.table is not None:
        lines.append(f"table = {toml(source.table)}")
    lines.append(
        f"entities = {toml(entities)}  # columns that name whom to protect; none: each row is one"
    )
    return lines


def _bound_lines(detection: Detection) -> list[str]:
    """How many rows of one entity count."""
    if detection.max_rows is None:
        return []
    return [
        f"max_rows = {detection.max_rows}  # rows of one entity that count in any figure, a power of two: those beyond "
        "it are left out, and the noise is multiplied by it",
        'detected = ["max_rows"]',
    ]


def _column_lines(column: Column, remarks: list[str], values: tuple[Any, ...]) -> list[str]:
    """One section [columns.X]."""
    name = column.name if _BARE_KEY.fullmatch(column.name) else toml(column.name)
    lines = ["", f"[columns.{name}]", *(f"# {_comment(remark)}" for remark in remarks)]
    lines.append(f"kind = {toml(column.kind)}")
    if column.kind == "category":
        lines.append(f"type = {toml(column.value_type)}")
    if column.resolution is not None:
        step = column.resolution
        exact = f"1e{step.exponent}" if step.base == 10 else repr(step.step)
        lines.append(f"resolution = {exact if step.exponent else '1'}")
    if column.max_rows is not None:
        lines.append(f"max_rows = {column.max_rows}  # the same for any one value of this column")
    lines.append(f"detected = {toml(column.detected)}")
    if column.nulls != ("",):
        lines.append(f"nulls = {toml(column.nulls)}")
    if values:
        lines.append(
            f"# domain = {toml(values)}  # seen in the data, values of few left out; "
            "confirm from outside it, then uncomment and say public = true"
        )
    return lines


def _comment(text: str) -> str:
    """Text that stays on one line of comment."""
    return toml(text)[1:-1].replace('\\"', '"')
