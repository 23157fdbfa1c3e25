"""Opens whatever holds rows, original or synthetic, as a relation named `source` on a DuckDB connection of its own.

Takes a CSV or Parquet file, a table of a DuckDB file, a pandas or Arrow object, or what a spec declares; gives names
and types of its columns. Invariant: nothing is guessed from a sample of the rows, and no message repeats what DuckDB
said, for that may hold a value of the data. Rows of the original are CONFIDENTIAL: nothing is spilled to disk, but in
the scratch folder where a spec says how they are read.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from engine.errors import DataError, StoreError
from engine.evaluation.data.declared import Declared, opened_as_declared
from engine.schema import SourceSpec, quoted
from engine.source import (
    CsvShape,
    check_names,
    csv_rows,
    csv_shape,
    fetch,
    memory_connection,
    open_source,
    register_frame,
)
from engine.store import manifest_path

TEXT_FILES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz")
PARQUET_FILES = (".parquet", ".pq")
DUCKDB_FILES = (".duckdb", ".db", ".ddb")
INDEX = "Unnamed: 0"
"""What pandas calls an index that was written without a name."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Relation:
    """Rows that are ready to be read."""

    con: duckdb.DuckDBPyConnection  # Holds the relation `source`
    # DuckDB type of each column that can be read; VARCHAR for every column of a text file.
    types: dict[str, str]
    place: str  # What it is, for messages
    notes: tuple[str, ...] = ()  # Columns that were left out, and why


@contextmanager
def opened(
    what: Any,
    *,
    name: str = "the data frame",
    table: str | None = None,
    wanted: Collection[str] | None = None,
) -> Iterator[Relation]:
    """Open rows for reading; they are closed at the end of the block.

    wanted: Columns that are needed of a text file; others are named in `types`, but are not to be read.
    """
    if isinstance(what, Declared):
        with opened_as_declared(what) as (con, types, place, unreadable):
            yield _usable(con, types, place, unreadable)
        return
    with memory_connection() as con:
        if isinstance(what, str | Path):
            yield _file(con, Path(what), table, wanted)
        else:
            yield _frame(con, what, name)


def kind_of_file(path: Path) -> str:
    """Return "text", "parquet" or "duckdb"."""
    if not path.exists():
        raise StoreError(f"{path}: there is no such file")
    if not path.is_file():
        raise StoreError(f"{path}: is not a file; name one file")
    lower = path.name.lower()
    for kind, endings in (
        ("text", TEXT_FILES),
        ("parquet", PARQUET_FILES),
        ("duckdb", DUCKDB_FILES),
    ):
        if lower.endswith(endings):
            if path.stat().st_size == 0:
                raise DataError(f"{path}: the file is empty")
            return kind
    raise StoreError(
        f"{path}: is read by its ending, which is none of {', '.join(TEXT_FILES + PARQUET_FILES + DUCKDB_FILES)}"
    )


def _file(
    con: duckdb.DuckDBPyConnection, path: Path, table: str | None, wanted: Collection[str] | None
) -> Relation:
    """Open a file."""
    kind = kind_of_file(path)
    if kind == "text":
        return _text(con, path, wanted)
    if kind == "duckdb" and manifest_path(path).exists():
        raise DataError(f"{path}: is a release, not the rows of a table")
    opened_source = open_source(
        con,
        SourceSpec(path=str(path), format="duckdb" if kind == "duckdb" else "parquet", table=table),
    )
    return _usable(con, opened_source.types, str(path), opened_source.unreadable)


def _text(con: duckdb.DuckDBPyConnection, path: Path, wanted: Collection[str] | None) -> Relation:
    """Read a text file into the table `source`: it is looked at more than once."""
    place = str(path)
    shape = _shape(path)
    names = list(shape.names)
    if len(names) > 1 and not names[0].strip() and INDEX not in names:
        names[0] = INDEX
    check_names(names, place)
    here = [n for n in names if wanted is None or n in wanted]
    source = csv_rows(place, shape.delimiter, names, has_tail=shape.has_tail, empty_is_null=True)
    chosen = ", ".join(map(quoted, here)) or quoted(names[-1])
    fetch(con, f"CREATE TABLE source AS SELECT {chosen} FROM {source}", place)
    _check_rows(con, place)
    return _usable(con, dict.fromkeys(names, "VARCHAR"), place, {})


def _shape(path: Path) -> CsvShape:
    """Delimiter and header of a text file."""
    try:
        return csv_shape(path)
    except zlib.error:
        raise DataError(f"{path}: cannot be read; it may be cut or damaged") from None


def _frame(con: duckdb.DuckDBPyConnection, frame: Any, name: str) -> Relation:
    """Open a pandas or Arrow object."""
    prepared = register_frame(con, frame)
    check_names(prepared.columns, name)
    fetch(con, "CREATE TEMP VIEW source AS SELECT * FROM frame", name)
    _check_rows(con, name)
    types = {str(row[0]): str(row[1]) for row in fetch(con, "DESCRIBE source", name)}
    return _usable(con, types, name, prepared.unreadable)


def _usable(
    con: duckdb.DuckDBPyConnection, types: dict[str, str], place: str, bad: dict[str, str]
) -> Relation:
    """Leave out an index that pandas wrote, and columns that cannot be read."""
    notes = [f"{name}: {why}; left out" for name, why in bad.items()]
    first = next(iter(types))
    if first == INDEX and len(types) > 1:
        notes.append(
            "its first column is an index without a name, as other tools write it; left out"
        )
        types = {c: t for c, t in types.items() if c != INDEX}
    usable = {c: t for c, t in types.items() if c not in bad}
    return Relation(con=con, types=usable, place=place, notes=tuple(notes))


def _check_rows(con: duckdb.DuckDBPyConnection, place: str) -> None:
    """Refuse what has no rows."""
    if not fetch(con, "SELECT 1 FROM source LIMIT 1", place):
        raise DataError(f"{place}: has no rows")
