"""Tables of databases: DuckDB and SQLite files, Postgres and MySQL where DuckDB's extensions for them are installed.

Takes a file, or an address such as "host=db dbname=stays"; gives its tables, of which those that are wanted become
views, or of SQLite tables of texts: its cells have types of their own, whatever a column declares. Invariant:
everything is opened for reading only, and nothing is installed or downloaded.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import duckdb

from engine.errors import DataError, SpecError
from engine.schema import SourceSpec, literal, quoted
from engine.source.relation import check_names, fetch, lent

SERVERS = ("postgres", "mysql")
DATABASES = ("duckdb", "sqlite", *SERVERS)
_SQLITE_MAGIC = b"SQLite format 3\0"
_AT_A_TIME = 50_000


class Table(NamedTuple):
    """A table of a database."""

    names: tuple[str, ...]  # What a spec may call it; the first is shown
    short: str  # What SQL may call it
    make: Callable[[str], None]  # Makes a relation of that name


def tables_of(con: duckdb.DuckDBPyConnection, source: SourceSpec, *, by_row: bool) -> list[Table]:
    """The tables of a database.

    by_row: Bytes, and texts that are none, are read as what does not fit; else they are refused.
    """
    path, place = source.path or "", f"source {source.path}"
    if source.format in SERVERS:
        place = f"source ({source.format})"
        with contextlib.suppress(duckdb.Error):
            con.execute(f"LOAD {source.format}")
        loaded = "SELECT 1 FROM duckdb_extensions() WHERE loaded AND extension_name IN (?, ?)"
        if not fetch(con, loaded, place, [f"{source.format}_scanner", source.format]):
            raise SpecError(
                f"source.format: DuckDB's extension for {source.format} is not installed here; once, on a machine that "
                "may download it: python -c \"import duckdb; duckdb.execute('INSTALL "
                f"{source.format}')\"; or export the table as Parquet or CSV"
            )
        return _attached(
            con, path, source.format, place, "cannot be reached at the address in source.path"
        )
    if not Path(path).is_file():
        raise SpecError(f"source.path: no file {path}")
    if Path(path).stat().st_size == 0:
        raise DataError(f"{place}: the file is empty")
    with open(path, "rb") as file:
        is_sqlite = file.read(len(_SQLITE_MAGIC)) == _SQLITE_MAGIC
    if is_sqlite:
        with _sqlite(path, by_row=by_row) as opened:
            listed = opened.execute(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%' "
                "ORDER BY name"
            ).fetchall()
        copy = partial(
            _copy, con, path, by_row=by_row, may_have_bytes=by_row or source.sql is not None
        )
        return [Table((name,), name, partial(copy, name)) for (name,) in listed]
    if source.format == "sqlite":
        raise DataError(f"{place}: is not a SQLite file")
    return _attached(
        con,
        path,
        "duckdb",
        place,
        "is not a DuckDB file that can be opened (another program may be writing it, or a newer DuckDB may have made "
        "it)",
    )


def the_table(tables: list[Table], source: SourceSpec, place: str) -> Table:
    """The table that is meant; which is never guessed."""
    chosen = [table for table in tables if source.table is None or source.table in table.names]
    if len(chosen) != 1:
        problem = "say which table" if source.table is None else f"no table {source.table}"
        there = ", ".join(table.names[0] for table in tables) or "none"
        raise SpecError(f"source.table: {problem}; {place} holds: {there}")
    return chosen[0]


def _attached(
    con: duckdb.DuckDBPyConnection, path: str, kind: str, place: str, problem: str
) -> list[Table]:
    """The tables of a database that DuckDB attaches; in SQL one whose name another has is called schema.table."""
    ours = "starts_with(database_name, 'tablepack_source')"
    n_ours = fetch(con, f"SELECT count(*) FROM duckdb_databases() WHERE {ours}", place)[0][0]
    attached = f"tablepack_source{n_ours or ''}"
    try:
        con.execute(f"ATTACH {literal(path)} AS {attached} (READ_ONLY, TYPE {kind})")
        is_open = True
    except duckdb.Error:
        is_open = False
    if not is_open:
        raise DataError(f"{place}: {problem}")
    found = fetch(
        con,
        "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = ? AND NOT internal "
        "UNION ALL SELECT schema_name, view_name FROM duckdb_views() WHERE database_name = ? "
        "AND NOT internal ORDER BY 1, 2",
        place,
        [attached, attached],
    )
    times = Counter(name.casefold() for _, name in found)

    def view(of: str, name: str) -> None:
        sql = f"CREATE OR REPLACE TEMP VIEW {quoted(name)} AS SELECT * FROM {of}"
        fetch(con, sql, place)

    tables = []
    for schema, name in found:
        full = f"{schema}.{name}"
        names = (name, full) if schema in ("main", "public") else (full,)
        of = ".".join(quoted(part) for part in (attached, schema, name))
        short = names[0] if times[name.casefold()] > 1 else name
        tables.append(Table(names, short, partial(view, of)))
    return tables


@contextmanager
def _sqlite(path: str, *, by_row: bool) -> Iterator[sqlite3.Connection]:
    """A SQLite file, opened for reading."""
    try:
        uri = f"{Path(path).absolute().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as file:
            if by_row:
                file.text_factory = lambda text: text.decode(errors="replace")
            yield file
        return
    except sqlite3.Error:
        pass
    raise DataError(f"source {path}: is a SQLite file that cannot be read; it may be damaged")


def _copy(
    con: duckdb.DuckDBPyConnection,
    path: str,
    table: str,
    relation: str,
    *,
    by_row: bool,
    may_have_bytes: bool,
) -> None:
    """Copy one table of a SQLite file, every cell as text; bytes are null, or refused."""
    import pandas as pd  # slow to load

    place = f"source {path}"
    with _sqlite(path, by_row=by_row) as file:
        rows = file.execute(f"SELECT * FROM {quoted(table)}")
        names = [str(about[0]) for about in rows.description]
        check_names(names, place)
        columns = ", ".join(f"{quoted(name)} VARCHAR" for name in names)
        fetch(con, f"CREATE OR REPLACE TABLE {quoted(relation)} ({columns})", place)
        while cells := rows.fetchmany(_AT_A_TIME):
            held = [
                name
                for name, of in zip(names, zip(*cells, strict=True), strict=True)
                if bytes in map(type, of)
            ]
            if held and not may_have_bytes:
                raise DataError(
                    f"{place}: column {held[0]!r} holds bytes, which are no values of a table; leave it out with "
                    f"sql = 'SELECT * EXCLUDE ({quoted(held[0])}) FROM {quoted(table)}'"
                )
            texts = [
                [None if v is None or isinstance(v, bytes) else str(v) for v in row]
                for row in cells
            ]
            with lent(con, "copied", pd.DataFrame(texts, columns=names, dtype="string")):
                fetch(con, f"INSERT INTO {quoted(relation)} SELECT * FROM copied", place)
