"""Tables of databases: DuckDB and SQLite files, Postgres and MySQL where DuckDB's extensions for them are installed.

Takes a file, or an address such as "host=db dbname=stays"; gives views, or for SQLite tables of texts: its cells have
types of their own, whatever a column declares. Invariant: everything is opened for reading only, and nothing is
installed or downloaded.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import duckdb

from engine.errors import DataError, SpecError
from engine.schema import SourceSpec, literal, quoted
from engine.source.relation import check_names, fetch

_ATTACHED, _FRAME = "tablepack_source", "tablepack_rows"
_SQLITE_MAGIC = b"SQLite format 3\0"
_AT_A_TIME = 50_000


def open_database(
    con: duckdb.DuckDBPyConnection,
    source: SourceSpec,
    path: str,
    relation: str | None,
    taken: Collection[str] = (),
    *,
    by_row: bool = False,
) -> list[str]:
    """Make one table of a database a relation; or, without a name for it, all tables under their own names.

    by_row: Bytes, and texts that are none, are read as what does not fit; else they are refused.
    """
    if source.format in ("postgres", "mysql"):
        return _open_server(con, source, path, relation, taken)
    if not Path(path).is_file():
        raise SpecError(f"source.path: no file {path}")
    if Path(path).stat().st_size == 0:
        raise DataError(f"source {path}: the file is empty")
    with open(path, "rb") as file:
        is_sqlite = file.read(len(_SQLITE_MAGIC)) == _SQLITE_MAGIC
    if is_sqlite:
        return _open_sqlite(con, source, path, relation, taken, by_row=by_row)
    if source.format == "sqlite":
        raise DataError(f"source {path}: is not a SQLite file")
    attached = _attached(con, path, "duckdb")
    if attached is None:
        raise DataError(
            f"source {path}: is not a DuckDB file that can be opened "
            "(another program may be writing it, or a newer DuckDB may have made it)"
        )
    return _views(con, source, path, attached, relation, taken)


def _open_server(
    con: duckdb.DuckDBPyConnection,
    source: SourceSpec,
    address: str,
    relation: str | None,
    taken: Collection[str],
) -> list[str]:
    """Open a table of a Postgres or MySQL server."""
    with contextlib.suppress(duckdb.Error):
        con.execute(f"LOAD {source.format}")
    loaded = "SELECT 1 FROM duckdb_extensions() WHERE loaded AND extension_name IN (?, ?)"
    place = f"source ({source.format})"
    if not fetch(con, loaded, place, [f"{source.format}_scanner", source.format]):
        raise SpecError(
            f"source.format: DuckDB's extension for {source.format} is not installed here; once, on a machine that "
            f"may download it: python -c \"import duckdb; duckdb.execute('INSTALL {source.format}')\"; "
            "or export the table as Parquet or CSV"
        )
    attached = _attached(con, address, source.format)
    if attached is None:
        raise DataError(f"{place}: cannot be reached at the address in source.path")
    return _views(con, source, "the database", attached, relation, taken)


def _attached(con: duckdb.DuckDBPyConnection, path: str, kind: str) -> str | None:
    """Attach a database for reading; None if it cannot be opened."""
    there = {
        str(name)
        for (name,) in con.execute("SELECT database_name FROM duckdb_databases()").fetchall()
    }
    name = next(n for i in range(len(there) + 1) if (n := f"{_ATTACHED}{i or ''}") not in there)
    try:
        con.execute(f"ATTACH {literal(path)} AS {name} (READ_ONLY, TYPE {kind})")
    except duckdb.Error:
        return None
    return name


def _views(
    con: duckdb.DuckDBPyConnection,
    source: SourceSpec,
    path: str,
    attached: str,
    relation: str | None,
    taken: Collection[str],
) -> list[str]:
    """Make views of one table, or of all; a table whose name another has is called schema.table."""
    tables = fetch(
        con,
        "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = ? AND NOT internal "
        "UNION ALL SELECT schema_name, view_name FROM duckdb_views() WHERE database_name = ? "
        "AND NOT internal ORDER BY 1, 2",
        f"source {path}",
        [attached, attached],
    )
    default = ("main", "public")
    names = {(s, t): t if s in default else f"{s}.{t}" for s, t in tables}
    if relation is None:
        chosen = dict.fromkeys(names)
    else:
        chosen = dict.fromkeys(
            key for key, name in names.items() if source.table in (None, name, f"{key[0]}.{key[1]}")
        )
        _check_one(list(chosen), source.table, names.values(), path)
    times = Counter(table.casefold() for _, table in names)
    made = [
        relation or (names[schema, table] if times[table.casefold()] > 1 else table)
        for schema, table in chosen
    ]
    if relation is None:
        check_doubles([*taken, *made], path)
    for (schema, table), shown in zip(chosen, made, strict=True):
        name = ".".join(quoted(part) for part in (attached, schema, table))
        fetch(
            con,
            f"CREATE OR REPLACE TEMP VIEW {quoted(shown)} AS SELECT * FROM {name}",
            f"source {path}",
        )
    return made


def check_doubles(names: Sequence[str], path: str) -> None:
    """Refuse two tables of one name.

    names: All tables of sql so far, those of `path` last.
    """
    times = Counter(name.casefold() for name in names)
    twin = next((name for name in reversed(names) if times[name.casefold()] > 1), None)
    if twin is not None:
        raise SpecError(
            f"source.path: {path} would give sql a second table {twin} (capital letters make no difference); rename "
            "one of the two, or export one as Parquet or CSV under another name"
        )


def _check_one(chosen: list[object], wanted: str | None, names: Iterable[str], path: str) -> None:
    """Refuse to guess which table is meant."""
    if len(chosen) != 1:
        problem = "say which table" if wanted is None else f"no table {wanted}"
        raise SpecError(f"source.table: {problem}; {path} holds: {', '.join(names) or 'none'}")


def _open_sqlite(
    con: duckdb.DuckDBPyConnection,
    source: SourceSpec,
    path: str,
    relation: str | None,
    taken: Collection[str],
    *,
    by_row: bool,
) -> list[str]:
    """Read tables of a SQLite file as texts."""
    problem = False
    made: list[str] = []
    try:
        uri = f"{Path(path).absolute().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as file:
            if by_row:
                file.text_factory = lambda text: text.decode(errors="replace")
            listed = file.execute(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%' "
                "ORDER BY name"
            ).fetchall()
            names = [str(name) for (name,) in listed]
            chosen = [n for n in names if relation is None or source.table in (None, n)]
            if relation is not None:
                _check_one(list(chosen), source.table, names, path)
            else:
                check_doubles([*taken, *chosen], path)
            for table in chosen:
                made.append(relation or table)
                is_strict = relation is not None and not by_row
                _copy(con, file, table, made[-1], f"source {path}", is_strict=is_strict)
    except sqlite3.Error:
        problem = True
    if problem:
        raise DataError(f"source {path}: is a SQLite file that cannot be read; it may be damaged")
    return made


def _copy(
    con: duckdb.DuckDBPyConnection,
    file: sqlite3.Connection,
    table: str,
    relation: str,
    place: str,
    *,
    is_strict: bool,
) -> None:
    """Copy one table of a SQLite file, every cell as text; bytes are refused, or null."""
    import pandas as pd  # slow to load

    rows = file.execute(f"SELECT * FROM {quoted(table)}")
    names = [str(about[0]) for about in rows.description]
    check_names(names, place)
    columns = ", ".join(f"{quoted(name)} VARCHAR" for name in names)
    fetch(con, f"CREATE OR REPLACE TABLE {quoted(relation)} ({columns})", place)
    while cells := rows.fetchmany(_AT_A_TIME):
        held = [
            name for j, name in enumerate(names) if any(isinstance(row[j], bytes) for row in cells)
        ]
        if held and is_strict:
            raise DataError(
                f"{place}: column {held[0]!r} holds bytes, which are no values of a table; leave it out with "
                f"sql = 'SELECT * EXCLUDE ({quoted(held[0])}) FROM {quoted(table)}'"
            )
        texts = [
            [None if v is None or isinstance(v, bytes) else str(v) for v in row] for row in cells
        ]
        con.register(_FRAME, pd.DataFrame(texts, columns=names, dtype="string"))
        try:
            fetch(con, f"INSERT INTO {quoted(relation)} SELECT * FROM {_FRAME}", place)
        finally:
            con.unregister(_FRAME)
