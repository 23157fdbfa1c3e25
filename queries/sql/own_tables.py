"""Users' own tables: joined with a release by value, for one statement, in memory.

Takes a DataFrame, an Arrow table or a file (CSV, Parquet, JSON); creates a temporary table on the statement's own
connection. The contents are copied before the statement is planned, so the statement itself can access neither the
file nor the frame.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from engine.errors import QueryRefused, StoreError
from engine.schema import literal, quoted

_READERS = {
    ".csv": "read_csv",
    ".tsv": "read_csv",
    ".parquet": "read_parquet",
    ".json": "read_json",
    ".jsonl": "read_json",
    ".ndjson": "read_json",
}
_SOURCE = "own_table_source"


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnTable:
    """A user's own table."""

    name: str
    frame: Any  # Anything that DuckDB can register: a pandas or polars DataFrame, an Arrow table
    # SQL types that columns are cast to; other columns keep theirs.
    casts: Mapping[str, str]


def own_tables(tables: Mapping[str, Any] | None, *, taken: Iterable[str]) -> tuple[OwnTable, ...]:
    """Return the user's own tables with checked names; files are read."""
    used = {name.casefold() for name in taken}
    out = []
    for name, content in (tables or {}).items():
        if not name or name.casefold() in used:
            why = "is already used by the release or another table" if name else "is empty"
            raise QueryRefused(f"own table {name!r}: the name {why}; choose another")
        used.add(name.casefold())
        is_file = isinstance(content, str | os.PathLike)
        out.append(_of_file(name, Path(content)) if is_file else _of_frame(name, content))
    return tuple(out)


def put(con: duckdb.DuckDBPyConnection, tables: Iterable[OwnTable], *, stub: bool = False) -> None:
    """Copy own tables into a connection as temporary tables; as a stub, at most two rows of each."""
    for table in tables:
        name = quoted(table.name)
        casts = ", ".join(
            f"CAST({quoted(c)} AS {t}) AS {quoted(c)}" for c, t in table.casts.items()
        )
        try:
            con.register(_SOURCE, table.frame)
            try:
                con.execute(
                    f"CREATE TEMP TABLE {name} AS SELECT {casts or '*'} FROM {_SOURCE}"
                    + (" LIMIT 1" if stub else "")
                )
            finally:
                con.unregister(_SOURCE)
            if stub:  # never empty: DuckDB plans nothing for an empty table
                first = con.execute(f"FROM {name} LIMIT 0").description[0][0]
                con.execute(f"INSERT INTO {name} BY NAME SELECT NULL AS {quoted(first)}")
        except (duckdb.Error, TypeError, ValueError) as error:
            why = str(error).split("\n")[0]
            raise QueryRefused(f"own table {table.name!r}: cannot be read ({why})") from None


def _of_frame(name: str, frame: Any) -> OwnTable:
    """Return a table in memory."""
    if not any(hasattr(frame, word) for word in ("columns", "schema", "__arrow_c_stream__")):
        raise QueryRefused(
            f"own table {name!r}: expected a path, or a pandas, polars or Arrow table, not {type(frame).__name__}"
        )
    return OwnTable(name=name, frame=frame, casts={})


def _of_file(name: str, path: Path) -> OwnTable:
    """Return a table in a file, as text with its types, so that integers with missing values stay integers."""
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise StoreError(f"{path}: unsupported file type; own tables can be {', '.join(_READERS)}")
    if not path.is_file():
        raise StoreError(f"{path}: no such file")
    with duckdb.connect(config={"threads": 1}) as con:
        try:
            con.execute(f"CREATE TEMP VIEW f AS FROM {reader}({literal(str(path))})")
            types = {str(n): str(t) for n, t, *_ in con.execute("DESCRIBE f").fetchall()}
            listed = ", ".join(f"CAST({quoted(c)} AS VARCHAR) AS {quoted(c)}" for c in types)
            frame = con.execute(f"SELECT {listed} FROM f").df()
        except duckdb.Error as error:
            why = str(error).split("\n")[0]
            raise StoreError(f"{path}: cannot be read as a table ({why})") from None
    return OwnTable(name=name, frame=frame, casts=types)
