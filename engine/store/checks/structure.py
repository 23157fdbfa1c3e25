"""What a release may contain: the tables, views and macros that our own writer makes, and nothing else.

Everything is compared with what the writer's own statements give in the installed DuckDB, executed in memory in a
transaction that is rolled back; views and tables of the released tables follow one pattern each. A view with another
definition could read anything, and a column with a default, or a macro in place of a function, could run anything: none
of them is ever bound.
Invariant: during the checks the release is not the default database, so no name in it can hide one of DuckDB's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from engine.errors import DamagedRelease
from engine.schema import ColumnSet, quoted
from engine.store.catalogue import count_names, physical_name, table_name, unused_name, view_sql
from engine.store.macros import macro_statements
from engine.store.manifest import ATTACHED
from engine.store.schema import OPTIONAL, REQUIRED, catalog_statements

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
