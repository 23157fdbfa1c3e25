"""The contents of a release's catalogue, checked before use: types, ranges, lengths, consistency.

Takes a connection with an attached release whose catalogue has the writer's own tables (`structure`). A name
or a type in it becomes SQL, a number becomes a size: anything invalid is refused, and its position named.
Invariant: the cost does not grow with the synthetic rows; `contents.check_counts` checks their counts.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import duckdb

from engine.errors import DamagedRelease
from engine.schema import ColumnKind, ColumnSet, ValueType
from engine.store.catalogue import HIDDEN_WORDS, KIND_WORDS, physical_name, table_name
from engine.store.checks.sizes import MOST_LENGTH, MOST_LIST, MOST_SQL
from engine.store.checks.structure import Listed, Outline, damaged
from engine.store.manifest import (
    ATTACHED,
    FORMAT_VERSION,
    HASH,
    MOST_NAME,
    ReleaseRecord,
    release_hash,
)
from engine.store.schema import columns_of
from engine.units import unit_from_json

MOST_ROWS = 10**12
"""Largest number of synthetic rows of a table."""
_LARGEST = 2**62
_TOO_LONG = "(too long)\t"
_TYPE = re.compile(
    r"BIGINT|HUGEINT|DOUBLE|BOOLEAN|VARCHAR|DATE|TIMESTAMP|TIME|DECIMAL\((?:18|38),(?:\d|[12]\d|3[0-8])\)"
)
_Row = Mapping[str, Any]
_Checks = Mapping[str, tuple[Callable[[Any], bool], str]]


def is_text(value: Any, most: int = MOST_LENGTH) -> bool:
    """Whether a value is text of at most a number of bytes."""
    return isinstance(value, str) and len(value.encode("utf-8", "surrogatepass")) <= most


def is_whole(value: Any, low: int, high: int) -> bool:
    """Whether a value is an integer between two bounds, inclusive."""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _is_number(value: Any, low: float) -> bool:
    return isinstance(value, float | int) and math.isfinite(value) and value >= low


def _or_none(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or check(value)


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and HASH.fullmatch(value) is not None


def _is_list(value: Any, check: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(check(v) for v in value)


def _is_name(value: Any) -> bool:
    return is_text(value, MOST_NAME) and value != ""


def _is_count(value: Any) -> bool:
    return is_whole(value, 0, MOST_ROWS)


_NAME = (_is_name, f"a text of 1 to {MOST_NAME:,} bytes")
_SHORT = (lambda v: is_text(v, MOST_NAME), f"a text of at most {MOST_NAME:,} bytes")
_TEXT = (is_text, f"a text of at most {MOST_LENGTH:,} bytes")
_COUNT = (_is_count, f"a whole number from 0 to {MOST_ROWS:,}")
_HASH = (_is_hash, "32 hexadecimal digits")
_SPREAD = (lambda v: _is_number(v, 0), "a number of 0 and above")
_RELEASE: _Checks = {
    "title": _TEXT,
    "logical_name": (
        lambda v: is_text(v, MOST_SQL) and v != "",
        f"a text of 1 to {MOST_SQL} bytes",
    ),
    "vintage": _SHORT,
    "mode": (lambda v: v in ("sticky", "dp"), "sticky or dp"),
    "key_id": _SHORT,
    "privacy": (lambda v: is_object(v), "a JSON object"),
    "engine_version": _SHORT,
    "format_version": (lambda v: is_whole(v, 1, 2**31), "a whole number"),
    "content_hash": _HASH,
    "unit": (lambda v: _is_unit(v), "names in singular and plural"),
    "entity": (lambda v: _is_unit(v), "names in singular and plural"),
    "reviewed": (lambda v: isinstance(v, bool), "true or false"),
}
_TABLE: _Checks = {
    "table_id": (lambda v: is_whole(v, 1, 2**31 - 1), "a whole number from 1"),
    "columns": (lambda v: _is_list(v, _is_name) and v == sorted(set(v)) != [], "sorted names"),
    "rows": _COUNT,
    "cells": _COUNT,
    "content_hash": _HASH,
    "cells_released": _COUNT,
    "noise_sd": _SPREAD,
    "suppressed_share": (lambda v: _is_number(v, -_LARGEST), "a number"),
    "rounding_gap": (lambda v: is_whole(v, 0, _LARGEST), "a whole number of 0 and above"),
    "cells_per_entity": _SPREAD,
    "tops": (lambda v: _is_list(v, lambda i: is_whole(i, 0, 64)), "levels from 0 to 64"),
    "scale": (lambda v: _is_list(v, lambda i: is_whole(i, 1, _LARGEST)), "powers of two"),
    "card": (lambda v: is_whole(v, 1, MOST_LENGTH), f"a text of at most {MOST_LENGTH:,} bytes"),
}
_COLUMN: _Checks = {
    "position": (lambda v: is_whole(v, 1, 2**31 - 1), "a whole number from 1"),
    "name": _NAME,
    "label": _TEXT,
    "kind": (lambda v: v in get_args(ColumnKind), f"one of {', '.join(get_args(ColumnKind))}"),
    "value_type": (lambda v: v in get_args(ValueType), f"one of {', '.join(get_args(ValueType))}"),
    "sql_type": (
        lambda v: isinstance(v, str) and _TYPE.fullmatch(v) is not None,
        "a type of a column",
    ),
    "resolution_base": (_or_none(lambda v: v in (2, 10)), "2 or 10"),
    "resolution_exponent": (
        _or_none(lambda v: is_whole(v, -1100, 1100)),
        "a whole number from -1100 to 1100",
    ),
    "public": (lambda v: isinstance(v, bool), "true or false"),
    "detected": (lambda v: _is_list(v, _is_name), "names of settings"),
    "placeholder": (_or_none(is_text), "a text"),
    "null_spelling": _TEXT,
    "released_values": _COUNT,
    "content_hash": (_or_none(_is_hash), "32 hexadecimal digits"),
}


def _is_unit(text: Any) -> bool:
    """Whether a text holds the names of a unit in singular and plural."""
    try:
        return isinstance(text, str) and bool(unit_from_json(text))
    except ValueError:
        return False


def is_object(text: Any) -> bool:
    """Whether a text is a JSON object, without NaN and not nested beyond the parser's limit."""
    try:
        return isinstance(plain_json(text), dict)
    except ValueError:
        return False


def plain_json(text: str) -> Any:
    """Parse untrusted JSON."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except (RecursionError, TypeError):
        raise ValueError("not JSON, or nested too deeply") from None


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number")


def check_facts(
    con: duckdb.DuckDBPyConnection, path: Path, outline: Outline, record: ReleaseRecord
) -> Listed:
    """Check the catalogue's rows, and return what determines the structure of the file."""
    release = _rows(con, path, "release", _RELEASE)
    if len(release) != 1:
        raise damaged(path, "catalog.release", "does not have exactly one row")
    _check_manifest(path, release[0], record)
    columns = _rows(con, path, "columns", _COLUMN, "ORDER BY position")
    names = [str(c["name"]) for c in columns]
    if len({n.lower() for n in names}) != len(names):
        raise damaged(path, "catalog.columns", "names a column twice")
    tables = _rows(con, path, "tables", _TABLE, "ORDER BY table_id")
    known = set(names)
    for row in tables:
        _check_table(path, row, known, outline)
    if len({t["table_id"] for t in tables}) != len(tables):
        raise damaged(path, "catalog.tables", "has two tables of the same number")
    _check_hashes(path, tables, columns, record)
    _check_codes(con, path, columns)
    _check_ranges(con, path, tables)
    _check_privacy(path, release[0], tables)
    _check_universes(con, path, known)
    return Listed(
        mode=release[0]["mode"],
        columns={str(c["name"]): str(c["sql_type"]) for c in columns},
        tables={int(t["table_id"]): tuple(t["columns"]) for t in tables},
        noise_sd=max((t["noise_sd"] for t in tables if t["cells_released"] > 0), default=None),
    )


def _rows(
    con: duckdb.DuckDBPyConnection, path: Path, name: str, checks: _Checks, order: str = ""
) -> list[dict[str, Any]]:
    """Fetch a table of the catalogue, with every field checked."""
    fields = [c for c, *_ in columns_of(name)]
    listed = ", ".join(_bounded(c, type_) for c, type_, _ in columns_of(name))
    fetched = con.execute(f"SELECT {listed} FROM {ATTACHED}.catalog.{name} {order}").fetchall()
    rows = [dict(zip(fields, row, strict=True)) for row in fetched]
    for i, row in enumerate(rows, 1):
        for column, (check, allowed) in checks.items():
            if row[column] in (_TOO_LONG, [_TOO_LONG]):
                raise damaged(path, f"catalog.{name}, row {i}: {column}", "is too long")
            if not check(row[column]):
                raise damaged(path, f"catalog.{name}, row {i}: {column}", f"is not {allowed}")
    return rows


def _bounded(column: str, type_: str) -> str:
    """Return SQL for a column, with a marker for texts that are too long to fetch; for a card, its length."""
    if column == "card":
        return "strlen(card)"
    name, mark = f'"{column}"', f"'{_TOO_LONG}'"
    if type_ == "VARCHAR":
        return f"CASE WHEN strlen({name}) > {MOST_LENGTH} THEN {mark} ELSE {name} END"
    if type_ == "VARCHAR[]":
        return f"CASE WHEN strlen({name}::VARCHAR) > {MOST_LIST} THEN [{mark}] ELSE {name} END"
    return name


def _check_manifest(path: Path, release: _Row, record: ReleaseRecord) -> None:
    """Compare the release's own row with the manifest."""
    same = ("content_hash", "key_id", "vintage", "engine_version")
    if release["format_version"] != FORMAT_VERSION or any(
        release[k] != getattr(record, k) for k in same
    ):
        raise DamagedRelease(f"{path}: is not the release described by its manifest")


def _check_table(path: Path, row: _Row, known: set[str], outline: Outline) -> None:
    """Check one row of catalog.tables for consistency with itself, the columns and the file."""
    where = f"catalog.tables, row of table {row['table_id']}"
    columns: ColumnSet = tuple(row["columns"])
    if not known.issuperset(columns):
        raise damaged(path, where, "names a column that is not in catalog.columns")
    physical = physical_name(row["table_id"])
    own = {"name": table_name(columns), "width": len(columns), "physical": physical}
    for field, value in own.items():
        if row[field] != value:
            raise damaged(path, f"{where}: {field}", "does not match its columns and number")
    if row["tops"] and len(row["tops"]) != len(columns):
        raise damaged(path, f"{where}: tops", "do not have one entry per column")
    if row["cells"] > row["rows"] or outline.rows.get(("tables", physical)) != row["cells"]:
        raise damaged(path, f"{where}: cells", "is not the number of rows of the table")


def _check_hashes(
    path: Path, tables: Sequence[_Row], columns: Sequence[_Row], record: ReleaseRecord
) -> None:
    """Check that the content hashes of tables and columns give that of the release."""
    of_tables = {str(t["name"]): str(t["content_hash"]) for t in tables}
    of_columns = {str(c["name"]): str(c["content_hash"]) for c in columns if c["content_hash"]}
    if of_tables != record.tables:
        raise damaged(path, "catalog.tables", "lists other tables than the manifest")
    if release_hash(of_tables, of_columns) != record.content_hash:
        raise damaged(path, "its content hash", "is not that of its tables and columns")


def _check_codes(con: duckdb.DuckDBPyConnection, path: Path, columns: Sequence[_Row]) -> None:
    """Check the released values: positions, kinds, counts, and that each can be cast to its column's type."""
    words = ", ".join(f"'{w}'" for w in (*KIND_WORDS, *HIDDEN_WORDS))
    readable = " ".join(
        f"WHEN '{t}' THEN TRY_CAST(k.value AS {t}) IS NOT NULL"
        for t in sorted({str(c["sql_type"]) for c in columns})
    )
    rows = con.execute(
        "SELECT k.column_name, count(*), sum(k.position), min(k.position), max(k.position), "
        f"count_if(k.kind IS NULL OR k.kind NOT IN ({words}) OR k.code IS NULL OR k.measured IS NULL "
        f"OR (k.kind IN {('value', *HIDDEN_WORDS)} AND k.code < 0) OR (k.kind = 'negative' AND k.code >= 0) "
        f"OR k.n IS NULL OR k.n < 0 OR k.n > {MOST_ROWS} OR strlen(k.value) > {MOST_LENGTH} "
        f"OR strlen(k.label) > {MOST_LENGTH}), "
        f"count_if(k.value IS NOT NULL AND NOT CASE c.sql_type {readable or 'WHEN NULL THEN true'} ELSE false END) "
        f"FROM {ATTACHED}.catalog.codes AS k LEFT JOIN {ATTACHED}.catalog.columns AS c "
        "ON k.column_name = c.name GROUP BY k.column_name"
    ).fetchall()
    expected = {str(c["name"]): int(c["released_values"]) for c in columns}
    for name, count, total, low, high, n_bad, n_unread in rows:
        where = f"catalog.codes, column {str(name)[:80]!r}"
        if name not in expected:
            raise damaged(path, where, "is not in catalog.columns")
        places = (count * (count - 1) // 2, 0, count - 1)
        if count != expected[name] or (total, low, high) != places:
            raise damaged(
                path, where, "does not have the number of values stated in catalog.columns"
            )
        if n_bad:
            raise damaged(path, where, "has an invalid kind, code, count or length")
        if n_unread:
            raise damaged(path, where, "has a value that is not of the column's type")
        expected[name] = 0
    for name, count in expected.items():
        if count:
            raise damaged(path, f"catalog.codes, column {name[:80]!r}", "has no values")


def _check_ranges(con: duckdb.DuckDBPyConnection, path: Path, tables: Sequence[_Row]) -> None:
    """Check the ranges of `cell_ranges`; DuckDB answers from its statistics, without reading the table."""
    row = con.execute(
        "SELECT min(table_id), max(table_id), min(n), max(n), min(noise_sd), max(noise_sd), min(depth), max(depth), "
        "count_if(table_id IS NULL OR n IS NULL OR noise_sd IS NULL OR measured IS NULL), "
        f"count(*) FROM {ATTACHED}.catalog.cell_ranges"
    ).fetchall()[0]
    low_id, high_id, low_n, high_n, low_sd, high_sd, low_depth, high_depth, n_blank, count = row
    if not count:
        return
    known = {t["table_id"] for t in tables}
    width = max((len(t["columns"]) for t in tables), default=0)
    places = con.execute(
        "SELECT "
        + " OR ".join(
            f"min(span_{j}) < -1 "
            f"OR max(CAST(low_{j} AS HUGEINT) + greatest(span_{j}, 0)) >= {2**63}"
            for j in range(1, width + 1)
        )
        + f" FROM {ATTACHED}.catalog.cell_ranges"
    ).fetchall()
    fits = (
        not n_blank
        and not places[0][0]
        and {low_id, high_id} <= known
        and _is_count(low_n)
        and _is_count(high_n)
        and _is_number(low_sd, 0)
        and _is_number(high_sd, 0)
        and (low_depth is None or (is_whole(low_depth, 0, 127) and high_depth <= 127))
    )
    if not fits:
        raise damaged(path, "catalog.cell_ranges", "has numbers that are impossible for a cell")


def _check_privacy(path: Path, release: _Row, tables: Sequence[_Row]) -> None:
    """Check the parameters that readers compute with or show."""
    privacy = plain_json(release["privacy"])
    swap = privacy.get("swap")
    fits = swap is None or (
        isinstance(swap, dict)
        and {"columns", "within"} <= set(swap) <= {"columns", "within", "rate"}
        and all(_is_list(swap[k], _is_name) for k in ("columns", "within"))
        and _is_number(swap.get("rate", 0), 0)
    )
    numbers = ["layer_sd", "noise_layers"] if any(t["scale"] for t in tables) else []
    bounds = privacy.get("bounds", {})
    fits = fits and isinstance(bounds, dict)
    fits = fits and all(_is_list(b, _is_code) and len(b) == 2 for b in bounds.values())
    fits = fits and _is_list(privacy.get("sums", []), _is_name)
    if not fits or not all(_is_factor(privacy.get(k)) for k in numbers):
        raise damaged(path, "catalog.release: privacy", "lacks valid parameters for its mode")


def _is_code(value: Any) -> bool:
    return is_whole(value, -(2**63), 2**63 - 1)


def _is_factor(value: Any) -> bool:
    return not isinstance(value, bool) and _is_number(value, 0) and value <= _LARGEST


def _check_universes(con: duckdb.DuckDBPyConnection, path: Path, known: set[str]) -> None:
    """Check that universes refer to existing columns, and that notes have text."""
    rows = con.execute(
        f"SELECT column_name, decided_by, complete, strlen(concat(low, high, listed::VARCHAR, outside)) "
        f"FROM {ATTACHED}.catalog.universes"
    ).fetchall()
    for name, decided_by, complete, length in rows:
        fits = isinstance(complete, bool) and length <= MOST_LIST
        if not {name, decided_by} <= known or not fits:
            raise damaged(path, "catalog.universes", "refers to a column that does not exist")
    notes = con.execute(
        f"SELECT count_if(topic IS NULL OR note IS NULL OR strlen(topic) + strlen(note) > {MOST_LENGTH}) "
        f"FROM {ATTACHED}.catalog.notes"
    ).fetchall()
    if notes[0][0]:
        raise damaged(path, "catalog.notes", "has a note without text, or one that is too long")
