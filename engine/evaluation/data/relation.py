"""Opens whatever holds rows, original or synthetic, as a relation named `source` on a DuckDB connection of its own.

Takes a CSV or Parquet file, a table of a DuckDB file, a pandas or Arrow object, or what a spec declares; gives names
and types of its columns. Invariant: nothing is guessed from a sample of the rows, and no message repeats what DuckDB
said, for that may hold a value of the data. Rows of the original are CONFIDENTIAL: nothing is spilled to disk, but in
the scratch folder where a spec says how they are read.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb

from engine.errors import DataError, StoreError
from engine.evaluation.data.declared import Declared, opened_as_declared, write_plainly
from engine.schema import Column, quoted
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
from engine.source.detection import source_of
from engine.source.forms.finding import found_form
from engine.spec import SUFFIXES, format_of
from engine.store import manifest_path

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
    written: Sequence[Column] = (),
) -> Iterator[Relation]:
    """Open rows for reading; they are closed at the end of the block.

    wanted: Columns that are needed of a text file; others are named in `types`, but are not to be read.
    written: Columns of a release, which says how texts were read: those whose cells all are written so are read so.
    """
    what, of_form = _in_its_form(what)
    if isinstance(what, Declared):
        with opened_as_declared(what) as (con, types, place, unreadable):
            write_plainly(con, written, types, place)
            found = _usable(con, types, place, unreadable)
            yield replace(found, notes=(*of_form, *found.notes))
        return
    with memory_connection() as con:
        is_file = isinstance(what, str | Path)
        found = _file(con, Path(what), table, wanted) if is_file else _frame(con, what, name)
        write_plainly(con, written, found.types, found.place)
        yield found


def _in_its_form(what: Any) -> tuple[Any, tuple[str, ...]]:
    """What is to be read; a text that is not plain UTF-8 from its first line on, as `init` finds it, with remarks."""
    if not isinstance(what, str | Path) or form_of_file(Path(what)) != "csv":
        return what, ()
    source, remarks = found_form(source_of(str(what), None))
    if not source.encoding and not source.skip:
        return what, ()
    return Declared(source=source, columns=()), remarks


def form_of_file(path: Path) -> str:
    """The format of a file, as in a spec."""
    if not path.exists():
        raise StoreError(f"{path}: there is no such file")
    if not path.is_file():
        raise StoreError(f"{path}: is not a file; name one file")
    form = format_of(str(path))
    if form is None:
        raise StoreError(f"{path}: is read by its ending, which is none of {', '.join(SUFFIXES)}")
    if path.stat().st_size == 0:
        raise DataError(f"{path}: the file is empty")
    return form


def _file(
    con: duckdb.DuckDBPyConnection, path: Path, table: str | None, wanted: Collection[str] | None
) -> Relation:
    """Open a file."""
    form = form_of_file(path)
    if form == "csv":
        return _text(con, path, wanted)
    if form == "duckdb" and manifest_path(path).exists():
        raise DataError(f"{path}: is a release, not the rows of a table")
    opened_source = open_source(con, source_of(str(path), table))
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
