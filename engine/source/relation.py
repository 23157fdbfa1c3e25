"""Opens the source: whatever holds the rows becomes one relation named `source` on a confidential connection.

Takes where the rows are (CSV, Parquet, a table of a DuckDB file, a pandas or Arrow object); gives
the names and types of the columns, with every cell as it was read: null spellings and kinds are the
business of `ingest`. Invariant: column names are those of the file (DuckDB would rename doubles in
silence), every row of a CSV has as many fields as its header, and no message ever repeats
DuckDB's, for that may hold a value of the data.
"""

from __future__ import annotations

import glob
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

from engine.errors import DataError, SpecError, StoreError, TablepackError
from engine.schema import SourceSpec, literal, quoted
from engine.source.csv_header import CsvShape, csv_shape
from engine.source.frames import register_frame

_ATTACHED = "tablepack_source"


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """What is known of an opened source before its cells are looked at.

    Attributes
    ----------
    columns : tuple of str
        Column names in the source's order.
    types : dict
        DuckDB type by column name; VARCHAR for every column of a CSV.
    unreadable : dict
        Columns that cannot be used, with the reason in words.
    mixed_numbers : frozenset of str
        Columns of a frame that hold whole and other numbers as separate Python types.
    place : str
        What it is, for messages.
    """

    columns: tuple[str, ...]
    types: dict[str, str]
    unreadable: dict[str, str] = field(default_factory=dict)
    mixed_numbers: frozenset[str] = frozenset()
    place: str = "the source"


def open_source(con: duckdb.DuckDBPyConnection, source: SourceSpec, frame: Any = None) -> Source:
    """Make the relation `source` (a table for CSV, else a view) on the connection.

    Parameters
    ----------
    con : DuckDBPyConnection
        Confidential connection.
    frame : object, optional
        The pandas DataFrame or Arrow table where the format is "frame".

    Raises
    ------
    SpecError
        If the path, the table or the frame is not there.
    DataError
        If it cannot be read, has no rows, or has empty or repeated column names.
    """
    unreadable: dict[str, str] = {}
    mixed: frozenset[str] = frozenset()
    if source.format == "frame":
        place = "the data frame"
        prepared = register_frame(con, frame)
        check_names(prepared.columns, place)
        unreadable, mixed = prepared.unreadable, prepared.mixed_numbers
        fetch(con, "CREATE OR REPLACE TEMP VIEW source AS SELECT * FROM frame", place)
    else:
        if source.path is None:
            raise SpecError("source.path: say where the rows are")
        place = f"source {source.path}"
        reader = {"csv": _open_csv, "parquet": _open_parquet, "duckdb": _open_table}[source.format]
        reader(con, source, place)
    described = fetch(con, "DESCRIBE source", place)
    if not fetch(con, "SELECT 1 FROM source LIMIT 1", place):
        raise DataError(f"{place}: has no rows")
    return Source(
        columns=tuple(str(row[0]) for row in described),
        types={str(row[0]): str(row[1]) for row in described},
        unreadable=unreadable,
        mixed_numbers=mixed,
        place=place,
    )


def fetch(
    con: duckdb.DuckDBPyConnection, sql: str, place: str, parameters: Sequence[Any] = ()
) -> list[tuple[Any, ...]]:
    """Run a statement over confidential rows; an error of DuckDB is put in our own words.

    Parameters
    ----------
    place : str
        What is being read, for the message.

    Raises
    ------
    StoreError
        If memory or disk is full.
    DataError
        For whatever else goes wrong.
    """
    try:
        return con.execute(sql, list(parameters)).fetchall()
    except duckdb.Error as error:
        failure = _in_our_words(error, place)
    # Raised here, not above: the new error must not carry the old one, which may quote the data.
    raise failure


def _in_our_words(error: duckdb.Error, place: str) -> TablepackError:
    """Sort an error of DuckDB by its fixed phrases; nothing of its text is passed on."""
    text = str(error)
    if isinstance(error, duckdb.OutOfMemoryException) or "No space left" in text:
        return StoreError(f"{place}: memory or the scratch disk is full while reading it")
    if "Expected Number of Columns" in text:
        return DataError(f"{place}: some rows have more or fewer fields than the header")
    if "unterminated quote" in text:
        return DataError(
            f"{place}: a quoted field is not closed, or has text after its closing quote"
        )
    if "reached an invalid state" in text:
        return DataError(
            f"{place}: its lines end in different ways (some in LF, some in CR LF or CR), or text follows "
            "a closing quote; write all line ends alike"
        )
    if "Invalid unicode" in text:
        return DataError(f"{place}: is not UTF-8 text; convert it first")
    if "Maximum line size" in text:
        return DataError(f"{place}: a line is longer than 2 MB")
    return DataError(f"{place}: cannot be read; it may be cut, damaged or of another format")


def matching_files(path: str) -> list[str]:
    """Files that a path or a glob names, sorted.

    Raises
    ------
    SpecError
        If there is none, or one is a directory.
    """
    files = [path] if Path(path).exists() else sorted(glob.glob(path, recursive=True))
    if not files:
        raise SpecError(f"source.path: no file {path}")
    folders = [one for one in files if Path(one).is_dir()]
    if folders:
        raise SpecError(
            f"source.path: {folders[0]} is a folder; name files, such as {folders[0]}/*.parquet"
        )
    return files


def check_names(names: Iterable[str], place: str) -> None:
    """Refuse empty and repeated column names; DuckDB does not tell "a" from "A", so nor do we.

    Parameters
    ----------
    place : str
        Of the source, for the message.

    Raises
    ------
    DataError
    """
    problems, seen = [], dict[str, str]()
    for position, name in enumerate(names, start=1):
        if not name.strip():
            problems.append(f"{place}: column {position} has no name")
        elif name.casefold() in seen:
            problems.append(
                f"{place}: the column names {seen[name.casefold()]!r} and {name!r} "
                "are the same (capital letters make no difference)"
            )
        seen.setdefault(name.casefold(), name)
    if problems:
        raise DataError("\n".join(problems))


def _open_csv(con: duckdb.DuckDBPyConnection, source: SourceSpec, place: str) -> None:
    """Read CSV files into the table `source`, every cell as text."""
    files = matching_files(source.path or "")
    shapes: list[CsvShape] = []
    for file in files:
        shape = csv_shape(Path(file))
        check_names(shape.names, f"source {file}")
        if shape.names != (shapes[0] if shapes else shape).names:
            raise DataError(f"source {file}: its header differs from that of {files[0]}")
        shapes.append(shape)
    parts = []
    for file, shape in zip(files, shapes, strict=True):
        parts.append(f"SELECT * FROM {csv_rows(file, shape.delimiter, shape.names)}")
    fetch(con, f"CREATE OR REPLACE TABLE source AS {' UNION ALL '.join(parts)}", place)


def _open_parquet(con: duckdb.DuckDBPyConnection, source: SourceSpec, place: str) -> None:
    """Make `source` a view of Parquet files."""
    files = matching_files(source.path or "")
    for file in files:
        if Path(file).stat().st_size == 0:
            raise DataError(f"source {file}: the file is empty")
        schema = fetch(
            con,
            f"SELECT name, num_children FROM parquet_schema({_file_literal(file)})",
            f"source {file}",
        )
        check_names(_top_level([(str(name), int(n or 0)) for name, n in schema]), f"source {file}")
    listed = ", ".join(_file_literal(file) for file in files)
    fetch(
        con,
        f"CREATE OR REPLACE TEMP VIEW source AS SELECT * FROM read_parquet([{listed}], "
        "union_by_name = true, hive_partitioning = false)",
        place,
    )


def _top_level(schema: list[tuple[str, int]]) -> list[str]:
    """Names of a Parquet file's columns from its flattened tree of (name, number of children)."""
    names: list[str] = []
    inside = 0
    for name, n_children in schema[1:]:
        if inside == 0:
            names.append(name)
        else:
            inside -= 1
        inside += n_children
    return names


def csv_rows(
    file: str, delimiter: str, names: Sequence[str], *, empty_is_null: bool = False
) -> str:
    """SQL that reads a CSV file, every cell as text; nothing is guessed, and every row has all fields.

    Parameters
    ----------
    names : sequence of str
        What the columns are called, whatever the header says.
    empty_is_null : bool
        An empty cell is null; else it is an empty text.
    """
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in names)
    texts = f", force_not_null = [{', '.join(literal(name) for name in names)}]"
    return (
        f"read_csv({_file_literal(file)}, auto_detect = false, header = true, delim = {literal(delimiter)}, "
        "quote = '\"', escape = '\"', comment = '', skip = 0, strict_mode = true, null_padding = false, "
        f"columns = {{{columns}}}{'' if empty_is_null else texts})"
    )


def _file_literal(file: str) -> str:
    """A file name as a string for DuckDB, which takes every such string for a glob."""
    return literal(glob.escape(file))


def _open_table(con: duckdb.DuckDBPyConnection, source: SourceSpec, place: str) -> None:
    """Make `source` a view of one table of a DuckDB file, attached read-only."""
    path = source.path or ""
    if not Path(path).is_file():
        raise SpecError(f"source.path: no file {path}")
    if Path(path).stat().st_size == 0:
        raise DataError(f"{place}: the file is empty")
    try:
        con.execute(f"DETACH DATABASE IF EXISTS {_ATTACHED}")
        con.execute(f"ATTACH {literal(path)} AS {_ATTACHED} (READ_ONLY, TYPE duckdb)")
        is_open = True
    except duckdb.Error:
        is_open = False
    if not is_open:
        raise DataError(
            f"{place}: is not a DuckDB file that can be opened "
            "(another program may be writing it, or a newer DuckDB may have made it)"
        )
    tables = fetch(
        con,
        "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = ? AND NOT internal "
        "UNION ALL SELECT schema_name, view_name FROM duckdb_views() WHERE database_name = ? "
        "AND NOT internal ORDER BY 1, 2",
        place,
        [_ATTACHED, _ATTACHED],
    )
    names = {(s, t): t if s == "main" else f"{s}.{t}" for s, t in tables}
    wanted = [
        key for key, name in names.items() if source.table in (None, name, f"{key[0]}.{key[1]}")
    ]
    if len(wanted) != 1:
        there = ", ".join(names.values()) or "none"
        problem = "say which table" if source.table is None else f"no table {source.table}"
        raise SpecError(f"source.table: {problem}; {path} holds: {there}")
    name = ".".join(quoted(part) for part in (_ATTACHED, *wanted[0]))
    fetch(con, f"CREATE OR REPLACE TEMP VIEW source AS SELECT * FROM {name}", place)
