"""What a release may contain: what our own writer makes, and nothing else. Checked before anything in it is used.

Takes a locked-down connection with an attached release, which anybody may have written; gives refusals, and what the
catalogue lists. Invariant: during the checks the release is not the default database, so no name in it can hide one of
DuckDB's, and a sentence names the place, never a value.

Structure: tables, views and macros are compared with what the writer's own statements give in the installed DuckDB,
executed in memory in a transaction that is rolled back; views and tables of the released tables follow one pattern
each. A view with another definition could read anything, and a column with a default, or a macro in place of a
function, could run anything: none of them is ever bound.

Sizes: repeated text compresses a thousandfold, and what Python reads does not count against DuckDB's memory limit: a
small file could exhaust the memory of the process that opens it. DuckDB's own statistics give the longest text of a
column, so no longer text is ever decompressed; then the lengths are added up. The writer refuses in terms of the spec
what the reader would refuse.

Facts: a name or a type in the catalogue becomes SQL, a number becomes a size: types, ranges, lengths and consistency
are checked, at a cost that does not grow with the synthetic rows.

Contents: a count may stand for any number of rows, so one that does not match its table could fill a disk
(`check_counts`, for all who read or write all rows). `check_contents`, for `tablepack doctor`, recomputes the content
hashes from the rows. A ranked column's list may contain values that no row has, and its hash then cannot be recomputed
from the file: such columns are reported, not ignored.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import duckdb
import numpy as np

from engine.errors import DamagedRelease, DataError, SpecError, StoreError
from engine.schema import (
    RANKED_KINDS,
    Column,
    ColumnKind,
    ColumnSet,
    Prefix,
    ReleaseHeader,
    Resolution,
    Support,
    ValueType,
    quoted,
)
from engine.store.card import GeneratorCard
from engine.store.catalogue import (
    HIDDEN_WORDS,
    KIND_WORDS,
    count_names,
    kind_of,
    physical_name,
    table_name,
    unused_name,
    view_sql,
)
from engine.store.decode import prefix_mark
from engine.store.manifest import (
    ATTACHED,
    FORMAT_VERSION,
    HASH,
    MOST_NAME,
    ReleaseRecord,
    release_hash,
    rows_hash,
    support_hash,
)
from engine.store.schema import OPTIONAL, REQUIRED, catalog_statements, columns_of, macro_statements
from engine.units import unit_from_json

if TYPE_CHECKING:  # slow to import, and only `check_contents` uses it
    import pandas as pd


MOST_TABLES = 200_000
"""Largest number of tables; a census with all triples has a tenth of that."""
MOST_WIDTH = 500
"""Largest width of a table."""
_FORBIDDEN = {
    "sequences": "sequence_name",
    "types": "type_name",
    "indexes": "index_name",
    "triggers": "trigger_name",
}
"""Kinds of objects that no release has, with the column of their name; constraints are part of a table's statement."""
_VIEW, _COLUMN, _COUNT, _REPEAT, _TABLE = '"v x"', '"c x"', '"n x"', '"i x"', '"t x"'
"""Names in a sample statement, which always need quotes."""
_Pattern = Callable[[Mapping[str, str]], str]
_SAMPLE = re.compile("(" + "|".join((_VIEW, _COLUMN, _COUNT, _REPEAT, _TABLE)) + ")")
_ADDED = [name + "_" * i for name in ("n", "measured", "i") for i in range(9)]
"""Possible names of columns that are added to a table."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outline:
    """The objects in a release, by schema and name."""

    tables: dict[tuple[str, str], str]  # Their CREATE statements
    rows: dict[tuple[str, str], int]  # Rows of each table
    views: dict[tuple[str, str], str]  # Their CREATE statements
    # made_tables, made_views: The same for the reference.
    made_tables: dict[tuple[str, str], str]
    made_views: dict[tuple[str, str], str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """What the catalogue lists, which determines tables, views and macros."""

    mode: str
    columns: dict[str, str]  # SQL type of every column, in the source's order
    tables: dict[int, ColumnSet]  # The released tables by number
    noise_sd: float | None  # Largest noise sd of a table with a measured count


def damaged(path: Path, where: str, what: str) -> DamagedRelease:
    """Return the error for an object or value that tablepack did not write."""
    return DamagedRelease(f"{path}: {where} {what}; tablepack did not write this")


def outline_of(con: duckdb.DuckDBPyConnection, path: Path) -> Outline:
    """List the objects of the attached release and of the reference; refuse kinds that no release has."""
    _check_kinds(con, path)
    both = f"WHERE database_name IN ('{ATTACHED}', 'memory') LIMIT {MOST_TABLES}"
    tables = con.execute(
        "SELECT database_name, schema_name, table_name, sql, estimated_size "
        f"FROM duckdb_tables() {both}"
    ).fetchall()
    views = con.execute(
        f"SELECT database_name, schema_name, view_name, sql FROM duckdb_views() {both}"
    ).fetchall()
    if max(len(tables), len(views)) >= MOST_TABLES:
        raise damaged(path, "its number of tables", f"is above {MOST_TABLES:,}")
    ours = [row for row in tables if row[0] == ATTACHED]
    return Outline(
        tables={(schema, name): sql for _, schema, name, sql, _ in ours},
        rows={(schema, name): int(n or 0) for _, schema, name, _, n in ours},
        views={(schema, name): sql for base, schema, name, sql in views if base == ATTACHED},
        made_tables={(t[1], t[2]): t[3] for t in tables if t[0] != ATTACHED},
        made_views={(v[1], v[2]): v[3] for v in views if v[0] != ATTACHED},
    )


def _check_kinds(con: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Refuse other schemas, and kinds of objects that no release has."""
    here = f"WHERE database_name = '{ATTACHED}'"
    parts = [f"SELECT 'schemas', schema_name FROM duckdb_schemas() {here}"]
    for kind, column in _FORBIDDEN.items():
        also = "AND NOT internal" if kind == "types" else ""
        parts.append(f"SELECT '{kind}', {column} FROM duckdb_{kind}() {here} {also}")
    found = con.execute(" UNION ALL ".join(parts) + f" LIMIT {MOST_TABLES}").fetchall()
    wrong = {name for kind, name in found if kind == "schemas"} ^ {"main", "tables", "catalog"}
    if wrong:
        raise damaged(path, f"schema {_shown(wrong)}", "is missing or unexpected")
    for kind, name in found:
        if kind != "schemas":
            raise damaged(
                path, _shown({str(name)}), f"is among its {kind}, of which a release has none"
            )


@contextmanager
def reference(con: duckdb.DuckDBPyConnection, width: int) -> Iterator[None]:
    """Provide an empty catalogue in memory, made by the writer's own statements, for the duration of a block."""
    sample = (
        f"CREATE TABLE tables.{_TABLE} ({_COLUMN} BIGINT, {_COUNT} BIGINT)",
        view_sql(_VIEW, _COLUMN, _TABLE, _COUNT, _REPEAT),
    )
    con.execute("BEGIN; " + "; ".join([*catalog_statements(width), *sample]))
    try:
        yield
    finally:
        con.execute("ROLLBACK")


def check_catalog(con: duckdb.DuckDBPyConnection, path: Path, outline: Outline) -> None:
    """Compare the tables and views of schema catalog with the reference."""
    tables = _inside(outline.made_tables, "catalog")
    views = _inside(outline.made_views, "catalog")
    _compare(path, "table", _inside(outline.tables, "catalog"), tables, OPTIONAL)
    seen = _inside(outline.views, "catalog")
    longest = 10 * max(map(len, views.values()))
    parsed = {name: _parsed(con, sql) if len(sql) < longest else sql for name, sql in seen.items()}
    made = {name: _parsed(con, sql) for name, sql in views.items()}
    _compare(path, "view", parsed, made, frozenset())
    for name in REQUIRED:
        if outline.rows["catalog", name] > MOST_ROWS_OF.get(name, MOST_ROWS):
            raise damaged(path, f"catalog.{name}", "has more rows than any release can have")


MOST_ROWS = 2**40
"""Largest number of rows of any table in a release."""
MOST_ROWS_OF = {
    "release": 1,
    "tables": MOST_TABLES,
    "columns": 100_000,
    "universes": 100_000,
    "notes": 10_000,
    "ledger": 1_000_000,
    "exposure": 1_000_000,
}
"""The same for the catalogue's small tables."""


def check_tables(
    con: duckdb.DuckDBPyConnection, path: Path, outline: Outline, listed: Listed
) -> None:
    """Compare tables, views and macros with what the catalogue lists; call inside `reference`."""
    render = _renderer(con, listed.columns)
    table_like = _pattern(
        outline.made_tables["tables", "t x"].replace(f"{_COLUMN} BIGINT, {_COUNT} BIGINT", _COLUMN)
    )
    view_like = _pattern(outline.made_views["main", "v x"])
    tables, views = {}, {}
    for table_id, columns in listed.tables.items():
        physical, view = physical_name(table_id), table_name(columns)
        count, measured = count_names(columns)
        typed = [f"{render(c)} {listed.columns[c]}" for c in columns]
        typed.append(f"{render(count)} BIGINT, {render(measured)} BOOLEAN")
        tables[physical] = table_like({_TABLE: physical, _COLUMN: ", ".join(typed)})
        chosen = {*columns}
        listing = ", ".join(render(c) for c in listed.columns if c in chosen)
        repeat = unused_name("i", (*columns, count, measured))
        named = {_VIEW: render(view), _COLUMN: listing, _TABLE: physical}
        views[view] = view_like({**named, _COUNT: render(count), _REPEAT: render(repeat)})
    _compare(path, "table", _inside(outline.tables, "tables"), tables, frozenset(), "tables.")
    _compare(path, "view", _inside(outline.views, "main"), views, frozenset(), "main.")
    for schema, name in (*outline.tables, *outline.views):
        is_table = (schema, name) in outline.tables
        if (schema == "main" and is_table) or (schema == "tables" and not is_table):
            raise damaged(path, f"{schema}.{name[:80]}", "is unexpected")
    _check_macros(con, path, listed)


def _check_macros(con: duckdb.DuckDBPyConnection, path: Path, listed: Listed) -> None:
    """Compare the macros, with all overloads, with those that the writer makes."""
    con.execute("; ".join(macro_statements(listed.noise_sd, mode=listed.mode)))
    rows = con.execute(
        "SELECT database_name, schema_name, function_name, function_type, parameters::VARCHAR, macro_definition "
        f"FROM duckdb_functions() WHERE database_name IN ('{ATTACHED}', 'memory')"
    ).fetchall()
    found = {tuple(row[1:]) for row in rows if row[0] == ATTACHED}
    made = {tuple(row[1:]) for row in rows if row[0] == "memory"}
    if found != made:
        names = {f"{schema}.{name}" for schema, name, *_ in found ^ made}
        raise damaged(path, f"macro {_shown(names)}", "is missing, different or unexpected")


def _pattern(sample: str) -> _Pattern:
    """Return a function that replaces the names in a sample statement."""
    parts = _SAMPLE.split(sample)
    return lambda names: "".join(names.get(part, part) for part in parts)


def _renderer(con: duckdb.DuckDBPyConnection, names: Iterable[str]) -> Callable[[str], str]:
    """Return a function that writes a name as DuckDB lists it: in quotes if needed."""
    known = [*names, *_ADDED]
    rows = con.execute(
        "SELECT json_deserialize_sql(json_serialize_sql('SELECT ' || q)) FROM (SELECT unnest(?) AS q)",
        [list(map(quoted, known))],
    ).fetchall()
    written = {n: sql.removeprefix("SELECT ") for n, (sql,) in zip(known, rows, strict=True)}
    return lambda name: written.get(name) or quoted(name)


def _parsed(con: duckdb.DuckDBPyConnection, sql: str) -> str:
    """Return a view's statement with its query parsed and rendered again: a stored one has fewer parentheses."""
    head, _, query = sql.partition(" AS ")
    rows = con.execute(
        "SELECT json_deserialize_sql(json_serialize_sql(?))", [query.rstrip(";")]
    ).fetchall()
    return f"{head} AS {rows[0][0]}"


def _inside(objects: Mapping[tuple[str, str], str], schema: str) -> dict[str, str]:
    """Return the objects of one schema by name."""
    return {name: sql for (place, name), sql in objects.items() if place == schema}


def _compare(
    path: Path,
    kind: str,
    found: Mapping[str, str],
    made: Mapping[str, str],
    optional: frozenset[str],
    schema: str = "catalog.",
) -> None:
    """Refuse anything that is missing, different or unexpected."""
    for name, sql in found.items():
        if name not in made:
            raise damaged(path, f"{kind} {schema}{_shown({name})}", "is unexpected")
        if sql != made[name]:
            raise damaged(path, f"{kind} {schema}{_shown({name})}", "has an unexpected definition")
    missing = set(made) - set(found) - optional
    if missing:
        raise damaged(path, f"{kind} {schema}{_shown(missing)}", "is missing")


def _shown(names: Any) -> str:
    """Return the first of some names, safe to print."""
    return repr(sorted(names)[0][:80])


MOST_LENGTH = 2**16
"""Bytes of a text in the catalogue: a card, a note, a label."""
MOST_LIST = 2**20
"""Bytes of a list in the catalogue, as text."""
MOST_SQL = 300
"""Bytes of the name of the logical table."""
MOST_ALL = 64 * 2**20
"""Bytes of all text in the catalogue. 438 tables have 0.4 MB, nearly all of it in cards: about 0.8 KB a table."""
MOST_EVER = 2**30
"""Bytes of all text in the catalogue of a file of any size."""
_MOST_BUILT = 100_000
"""Tables that a build writes: the cards of more would fill the catalogue."""
_TOPIC = 100
"""Bytes left for the topic of a note."""
_A_ROW = 16
"""Bytes counted for every row, whatever it holds."""
_SHARED = frozenset({"column_name", "kind"})
"""Columns of `codes` that repeat a few texts, and are never read row by row."""


def check_sizes(con: duckdb.DuckDBPyConnection, path: Path, outline: Outline) -> None:
    """Refuse texts that are too long, or too much in total; only in tables that `check_catalog` has accepted."""
    tables = [table for schema, table in outline.tables if schema == "catalog"]
    columns = _texts_of(con, tables)
    for table in columns:
        _check_longest(con, path, table)
    most = most_text(path.stat().st_size)
    if _bytes_of_all(con, columns) > most:
        raise damaged(path, "its catalogue", f"has more than {most // 2**20} MB of text")


def most_text(file_size: int) -> int:
    """Return the most bytes of text that the catalogue of a file may have: twice the size of a large file.

    A million distinct timestamps are a million released values of a column, stored uncompressed in the file.
    """
    return max(MOST_ALL, min(2 * file_size, MOST_EVER))


def bytes_of_texts(con: duckdb.DuckDBPyConnection) -> int:
    """Return the bytes of all text in the catalogue of an attached release that this process wrote."""
    tables = con.execute(
        f"SELECT table_name FROM duckdb_tables() WHERE database_name = '{ATTACHED}' AND schema_name = 'catalog'"
    ).fetchall()
    return _bytes_of_all(con, _texts_of(con, [table for (table,) in tables]))


def _texts_of(
    con: duckdb.DuckDBPyConnection, tables: Collection[str]
) -> dict[str, list[tuple[str, str]]]:
    """Names and types of the text columns, by table."""
    rows = con.execute(
        "SELECT table_name, column_name, data_type FROM duckdb_columns() "
        f"WHERE database_name = '{ATTACHED}' AND schema_name = 'catalog' AND data_type LIKE 'VARCHAR%'"
    ).fetchall()
    columns: dict[str, list[tuple[str, str]]] = {}
    for table, name, type_ in rows:
        if table in tables:
            columns.setdefault(table, []).append((name, type_))
    return columns


def _bytes_of_all(
    con: duckdb.DuckDBPyConnection, columns: Mapping[str, list[tuple[str, str]]]
) -> int:
    return sum(_bytes_of(con, table, texts) for table, texts in sorted(columns.items()))


def _check_longest(con: duckdb.DuckDBPyConnection, path: Path, table: str) -> None:
    """Refuse a table whose statistics show a text that is too long."""
    longest = con.execute(
        "SELECT column_name, max(regexp_extract(stats::VARCHAR, 'max_string_length\\W+(\\d+)', 1)::BIGINT) "
        f"FROM pragma_storage_info('{ATTACHED}.catalog.{table}') WHERE segment_type = 'VARCHAR' "
        "AND stats::VARCHAR LIKE '%max_string_length%' GROUP BY column_name ORDER BY column_name"
    ).fetchall()
    for column, length in longest:
        if length > MOST_LENGTH:
            raise damaged(path, f"catalog.{table}: {column}", "is too long")


def _bytes_of(con: duckdb.DuckDBPyConnection, table: str, texts: list[tuple[str, str]]) -> int:
    """Return the bytes of a table's texts."""
    lengths = [
        f'coalesce(strlen("{name}"{"::VARCHAR" if type_ != "VARCHAR" else ""}), 0)'
        for name, type_ in texts
        if table != "codes" or name not in _SHARED
    ]
    total = con.execute(
        f"SELECT sum({' + '.join(lengths)} + {_A_ROW}) FROM {ATTACHED}.catalog.{table}"
    ).fetchall()[0][0]
    return int(total or 0)


def check_header(header: ReleaseHeader) -> None:
    """Refuse texts of a spec that are too long for any release."""
    n_tables = len(header.tables)
    problems = [
        f"{place}: has {size(text):,} bytes; a release can store at most {most:,} there"
        for place, text, most in _texts(header)
        if size(text) > most
    ]
    if n_tables > _MOST_BUILT:
        problems.append(
            f"tables: {n_tables:,} requested; a release can have at most {_MOST_BUILT:,}"
        )
    if problems:
        raise SpecError(problems)


def size(text: str) -> int:
    """Return the bytes of a text."""
    return len(text.encode("utf-8", "surrogatepass"))


def _texts(header: ReleaseHeader) -> Iterator[tuple[str, str, int]]:
    """Spec entry, text and most bytes of every text in a header."""
    yield "release.title", header.title, MOST_LENGTH
    yield "release.name", header.logical_name, MOST_SQL
    yield "release.vintage", header.vintage, MOST_NAME
    for note in header.notes:
        yield "release.notes", note, MOST_LENGTH - _TOPIC
    yield "privacy", json.dumps(header.privacy, sort_keys=True), MOST_LENGTH
    for column in header.columns:
        for entry, text in _of_column(column):
            most = MOST_NAME if entry == "" else MOST_LENGTH
            yield f"columns.{column.name[:100]}{entry}", text, most
        listed = (column.universe.values if column.universe else None) or ()
        yield f"columns.{column.name[:100]}.universe", "".join(map(str, listed)), MOST_LIST // 2


def _of_column(column: Column) -> Iterator[tuple[str, str]]:
    """Spec entry and text of every text of a column."""
    yield "", column.name
    yield ".label", column.label
    yield ".placeholder", column.placeholder or ""
    for spelling in column.spellings[:1]:
        yield ".nulls", spelling
    for value, label in column.labels:
        yield ".labels", value
        yield ".labels", label


def check_support(support: Support) -> None:
    """Refuse released values of a column that are too long for a release."""
    texts = (value for value in (support.values or {}).values() if isinstance(value, str))
    if any(size(text) > MOST_LENGTH for text in texts):
        raise DataError(
            f"column {support.column.name!r}: a value common enough to be released has more than {MOST_LENGTH:,} "
            "bytes, the most that a release can store; shorten it in the source, or leave the column out (drop = true)"
        )


def check_card(card: GeneratorCard) -> None:
    """Refuse a card that is too long for a release."""
    length = size(card.to_json())
    if length > MOST_LENGTH:
        raise StoreError(
            f"table {', '.join(card.columns)}: its card would have {length:,} bytes; a release can store at most "
            f"{MOST_LENGTH:,}: shorten its texts in the spec (accept_risk, release, names)"
        )


def check_total_text(con: duckdb.DuckDBPyConnection, path: Path, file_size: int) -> None:
    """Refuse a release whose catalogue has so much text that it could not be opened."""
    total, most = bytes_of_texts(con), most_text(file_size)
    if total > most:
        raise StoreError(
            f"{path}: the catalogue (cards, notes, values and their labels) would have {total / 2**20:,.0f} MB of "
            f"text; at most {most // 2**20} MB can be opened: release fewer tables, or leave out columns with many "
            "long texts"
        )


MOST_SYNTHETIC = 10**12
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


def _is_resolution(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(Resolution.read(value))
    except ValueError:
        return False


def _is_count(value: Any) -> bool:
    return is_whole(value, 0, MOST_SYNTHETIC)


_NAME = (_is_name, f"a text of 1 to {MOST_NAME:,} bytes")
_SHORT = (lambda v: is_text(v, MOST_NAME), f"a text of at most {MOST_NAME:,} bytes")
_TEXT = (is_text, f"a text of at most {MOST_LENGTH:,} bytes")
_IS_COUNT = (_is_count, f"a whole number from 0 to {MOST_SYNTHETIC:,}")
_HASH = (_is_hash, "32 hexadecimal digits")

_SPREAD = (lambda v: _is_number(v, 0), "a number of 0 and above")
_OF_RELEASE: _Checks = {
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
_OF_TABLE: _Checks = {
    "table_id": (lambda v: is_whole(v, 1, 2**31 - 1), "a whole number from 1"),
    "columns": (lambda v: _is_list(v, _is_name) and v == sorted(set(v)) != [], "sorted names"),
    "rows": _IS_COUNT,
    "cells": _IS_COUNT,
    "content_hash": _HASH,
    "cells_released": _IS_COUNT,
    "noise_sd": _SPREAD,
    "suppressed_share": (lambda v: _is_number(v, -_LARGEST), "a number"),
    "rounding_gap": (lambda v: is_whole(v, 0, _LARGEST), "a whole number of 0 and above"),
    "cells_per_entity": _SPREAD,
    "tops": (lambda v: _is_list(v, lambda i: is_whole(i, 0, 64)), "levels from 0 to 64"),
    "scale": (lambda v: _is_list(v, lambda i: is_whole(i, 1, _LARGEST)), "powers of two"),
    "card": (lambda v: is_whole(v, 1, MOST_LENGTH), f"a text of at most {MOST_LENGTH:,} bytes"),
}
_OF_COLUMN: _Checks = {
    "position": (lambda v: is_whole(v, 1, 2**31 - 1), "a whole number from 1"),
    "name": _NAME,
    "label": _TEXT,
    "kind": (lambda v: v in get_args(ColumnKind), f"one of {', '.join(get_args(ColumnKind))}"),
    "value_type": (lambda v: v in get_args(ValueType), f"one of {', '.join(get_args(ValueType))}"),
    "sql_type": (
        lambda v: isinstance(v, str) and _TYPE.fullmatch(v) is not None,
        "a type of a column",
    ),
    "resolution": (_or_none(_is_resolution), "a number or a period"),
    "public": (lambda v: isinstance(v, bool), "true or false"),
    "detected": (lambda v: _is_list(v, _is_name), "names of settings"),
    "placeholder": (_or_none(is_text), "a text"),
    "null_spelling": _TEXT,
    "released_values": _IS_COUNT,
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
    release = _catalogued(con, path, "release", _OF_RELEASE)
    if len(release) != 1:
        raise damaged(path, "catalog.release", "does not have exactly one row")
    _check_manifest(path, release[0], record)
    columns = _catalogued(con, path, "columns", _OF_COLUMN, "ORDER BY position")
    names = [str(c["name"]) for c in columns]
    if len({n.lower() for n in names}) != len(names):
        raise damaged(path, "catalog.columns", "names a column twice")
    tables = _catalogued(con, path, "tables", _OF_TABLE, "ORDER BY table_id")
    known = set(names)
    for row in tables:
        _check_table(path, row, known, outline)
    if len({t["table_id"] for t in tables}) != len(tables):
        raise damaged(path, "catalog.tables", "has two tables of the same number")
    _check_hashes(path, tables, columns, record)
    _check_codes(con, path, columns)
    _check_ranges(con, path, tables)
    _check_privacy(path, release[0], tables)
    _check_universes(con, path, {str(c["name"]): str(c["sql_type"]) for c in columns})
    return Listed(
        mode=release[0]["mode"],
        columns={str(c["name"]): str(c["sql_type"]) for c in columns},
        tables={int(t["table_id"]): tuple(t["columns"]) for t in tables},
        noise_sd=max((t["noise_sd"] for t in tables if t["cells_released"] > 0), default=None),
    )


def _catalogued(
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
        f"OR k.n IS NULL OR k.n < 0 OR k.n > {MOST_SYNTHETIC} OR strlen(k.value) > {MOST_LENGTH} "
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


def _check_universes(con: duckdb.DuckDBPyConnection, path: Path, types: Mapping[str, str]) -> None:
    """Check that universes refer to existing columns and have values of their types, and that notes have text."""
    rows = con.execute(
        f"SELECT column_name, decided_by, complete, strlen(concat(low, high, listed::VARCHAR, outside)) "
        f"FROM {ATTACHED}.catalog.universes"
    ).fetchall()
    for name, decided_by, complete, length in rows:
        fits = isinstance(complete, bool) and length <= MOST_LIST
        if not {name, decided_by} <= types.keys() or not fits:
            raise damaged(path, "catalog.universes", "refers to a column that does not exist")
        of = types[decided_by]
        read = (("low", of), ("high", of), ("outside", types[name]))
        parts = [f"({c} IS NOT NULL AND TRY_CAST({c} AS {t}) IS NULL)" for c, t in read]
        parts.append(f"list_count(TRY_CAST(listed AS {of}[])) < len(listed)")
        unread = " OR ".join(parts)
        found = con.execute(
            f"SELECT bool_or({unread}) FROM {ATTACHED}.catalog.universes WHERE column_name = ?",
            [name],
        ).fetchall()
        if found[0][0]:
            raise damaged(path, "catalog.universes", "has a value that is not of the column's type")
    notes = con.execute(
        f"SELECT count_if(topic IS NULL OR note IS NULL OR strlen(topic) + strlen(note) > {MOST_LENGTH}) "
        f"FROM {ATTACHED}.catalog.notes"
    ).fetchall()
    if notes[0][0]:
        raise damaged(path, "catalog.notes", "has a note without text, or one that is too long")


_MANY = 100
"""Tables whose counts are summed by one statement."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Stored:
    """A column according to the catalogue."""

    support: Support
    texts: pd.Index  # Its released values as text in order, None for a missing value
    is_known: (
        bool  # Its list of values can be recovered from the file, so that hashes can be computed
    )


def check_counts(con: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Check that every table's counts are positive and sum to its number of rows."""
    listed = con.execute(
        f"SELECT table_id, columns, rows FROM {ATTACHED}.catalog.tables ORDER BY table_id"
    ).fetchall()
    for start in range(0, len(listed), _MANY):
        some = listed[start : start + _MANY]
        counted = con.execute(" UNION ALL ".join(_sums(i, columns) for i, columns, _ in some))
        sums = {i: tuple(sums) for i, *sums in counted.fetchall()}
        for table_id, _, rows in some:
            total, least, n_blank = sums[table_id]
            if (total or 0) != rows or n_blank or (least is not None and least < 1):
                raise damaged(
                    path,
                    f"table {physical_name(table_id)}",
                    "does not have the number of rows that its card states",
                )


def _sums(table_id: int, columns: list[str]) -> str:
    """Return SQL for the sum, the minimum and the number of missing counts of a table."""
    count, measured = map(quoted, count_names(columns))
    return (
        f"SELECT {table_id}, sum({count}), min({count}), count_if({count} IS NULL OR {measured} IS NULL) "
        f"FROM {ATTACHED}.tables.{physical_name(table_id)}"
    )


def check_contents(con: duckdb.DuckDBPyConnection, path: Path) -> tuple[str, ...]:
    """Recompute the content hashes of columns and tables from the rows, and compare.

    Returns: Columns with released values that no row has: the hashes of their tables cannot be recomputed.
    """
    check_counts(con, path)
    stored = _columns(con, path)
    tables = con.execute(
        f"SELECT table_id, columns, content_hash FROM {ATTACHED}.catalog.tables ORDER BY table_id"
    ).fetchall()
    for table_id, names, expected in tables:
        columns = tuple(names)
        codes, n = _rows(con, path, table_id, columns, stored)
        if not all(stored[c].is_known for c in columns):
            continue
        supports = {c: stored[c].support for c in columns}
        if rows_hash(columns, codes, n, supports) != expected:
            raise damaged(
                path, f"table {physical_name(table_id)}", "does not match its content hash"
            )
    return tuple(name for name, column in stored.items() if not column.is_known)


def _rows(
    con: duckdb.DuckDBPyConnection,
    path: Path,
    table_id: int,
    columns: ColumnSet,
    stored: Mapping[str, _Stored],
) -> tuple[Any, Any]:
    """Return a table's rows as positions in its columns' released values, and their counts."""
    import pandas as pd

    physical = physical_name(table_id)
    texts = ", ".join(
        f"CAST({quoted(c)} AS VARCHAR) AS {quoted(f'c{j}')}" for j, c in enumerate(columns)
    )
    count, _ = count_names(columns)
    frame = con.execute(
        f"SELECT {texts}, {quoted(count)} AS n FROM {ATTACHED}.tables.{physical}"
    ).df()
    codes = np.empty((len(frame), len(columns)), dtype=np.int64)
    for j, name in enumerate(columns):
        given = frame[f"c{j}"].astype(object)
        plain = pd.Index(given.where(given.notna(), None), dtype=object)
        codes[:, j] = _places(stored[name].texts, plain)
    if (codes < 0).any():
        raise damaged(path, f"table {physical}", "has a value that is not in catalog.codes")
    return codes, frame["n"].to_numpy(np.int64)


def _places(texts: pd.Index, given: pd.Index) -> Any:
    """Return the position of every text; columns in which two values have the same text are not hashed."""
    return (texts if texts.is_unique else texts.drop_duplicates()).get_indexer(given)


def _columns(con: duckdb.DuckDBPyConnection, path: Path) -> dict[str, _Stored]:
    """Return the columns of the tables, each checked against its content hash if that can be recomputed."""
    listed = con.execute(
        "SELECT name, kind, value_type, sql_type, placeholder, resolution, "
        f"content_hash FROM {ATTACHED}.catalog.columns WHERE content_hash IS NOT NULL ORDER BY position"
    ).fetchall()
    out = {}
    for name, kind, value_type, sql_type, placeholder, step, expected in listed:
        column = Column(
            name=name,
            kind=cast(ColumnKind, kind),
            value_type=cast(ValueType, value_type),
            placeholder=placeholder,
            resolution=None if step is None else Resolution.read(step),
        )
        out[name] = stored = _stored(con, column, sql_type, expected)
        if not stored.is_known and column.kind not in RANKED_KINDS:
            raise damaged(path, f"column {name[:80]!r}", "does not match its content hash")
    return out


def _stored(
    con: duckdb.DuckDBPyConnection, column: Column, sql_type: str, expected: str
) -> _Stored:
    """Return a column's released values in the form from which its content hash is computed."""
    import pandas as pd

    rows = con.execute(
        f"SELECT value, CAST(value AS {sql_type}), kind, code, measured, n FROM {ATTACHED}.catalog.codes "
        "WHERE column_name = ? ORDER BY position",
        [column.name],
    ).fetchall()
    texts, typed, words, codes, measured, n = (
        map(list, zip(*rows, strict=True)) if rows else [[]] * 6
    )
    kind = np.array([kind_of(w) for w in words], dtype=np.uint8)
    values: dict[int, Any] | None = None
    is_known = len(set(texts)) == len(texts)
    if column.kind in RANKED_KINDS:
        mark = prefix_mark(v for v, word in zip(typed, words, strict=True) if word == "value")
        values = {
            code: Prefix(value.removesuffix(mark)) if word in HIDDEN_WORDS else value
            for code, value, word in sorted(
                zip(codes, typed, words, strict=True), key=itemgetter(0)
            )
            if word in ("value", *HIDDEN_WORDS)
        }
    support = Support(
        column=column,
        kind=kind,
        grid=np.array(codes, dtype=np.int64),
        n=np.array(n, dtype=np.int64),
        measured=np.array(measured, dtype=np.bool_),
        values=values,
    )
    is_known = is_known and support_hash(support) == expected
    return _Stored(support=support, texts=pd.Index(texts, dtype=object), is_known=is_known)
