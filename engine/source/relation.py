"""What all forms of a source share: what is known of an opened one, its names and files, statements over its rows.

Invariant: column names are those of the file (DuckDB would rename doubles in silence), and no message ever repeats
DuckDB's, for that may hold a value of the data.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

from engine.errors import DataError, SpecError, StoreError, TablepackError
from engine.schema import NULL_CODE, OTHER_CODE, literal, quoted
from engine.source.scratch import working_file

PACKED = "packed_"
"""Before the name of a column of codes: where a file stores it; see `stored`."""
SAY_ENCODING = 'say in [source] what it is, such as encoding = "cp1252" (Windows) or "utf-16"'


BEHIND = "the last column has no name and is empty"

# What DuckDB raises where an expression of SQL cannot take a value.
_OF_CELLS = (
    duckdb.ConversionException,
    duckdb.InvalidInputException,
    duckdb.OutOfRangeException,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Labels:
    """What a source calls its columns, and their values as texts."""

    columns: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """What is known of an opened source before its cells are looked at."""

    columns: tuple[str, ...]  # Column names in the source's order
    types: dict[str, str]  # DuckDB type by column name; VARCHAR for every column of a CSV
    # Columns that cannot be used, with the reason in words.
    unreadable: dict[str, str] = field(default_factory=dict)
    # Columns of a frame that hold whole and other numbers as separate Python types.
    mixed_numbers: frozenset[str] = frozenset()
    place: str = "the source"  # What it is, for messages
    # The values of columns whose source has an order for them, by column.
    orders: dict[str, tuple[str, ...]] = field(default_factory=dict)
    labels: Labels = Labels()


def fetch(
    con: duckdb.DuckDBPyConnection,
    sql: str,
    place: str,
    parameters: Sequence[Any] = (),
    *,
    on_cell: str = "",
) -> list[tuple[Any, ...]]:
    """Run a statement over confidential rows; an error of DuckDB is put in our own words.

    on_cell: What to say where a value cannot be computed of a cell; empty: what is said of damaged files.
    """
    try:
        return con.execute(sql, list(parameters)).fetchall()
    except duckdb.InterruptException:
        raise
    except duckdb.Error as error:
        failure = _in_our_words(error, place, on_cell)
    # Raised here, not above: the new error must not carry the old one, which may quote the data.
    raise failure


@contextmanager
def lent(con: duckdb.DuckDBPyConnection, name: str, held: Any) -> Iterator[None]:
    """Let a connection read a frame, an Arrow table or arrays by name, for a while."""
    con.register(name, held)
    try:
        yield
    finally:
        con.unregister(name)


def kind_of(con: duckdb.DuckDBPyConnection, name: str) -> str:
    """What a relation of ours is: a temporary view of what can be read again, or a table."""
    views = "SELECT 1 FROM duckdb_views() WHERE view_name = ? AND temporary"
    return "VIEW" if con.execute(views, [name]).fetchall() else "TABLE"


def drop(con: duckdb.DuckDBPyConnection, *names: str) -> None:
    """Let go of relations of ours, where they are."""
    for name in names:
        con.execute(f"DROP {kind_of(con, name)} IF EXISTS {quoted(name)}")


def rename(con: duckdb.DuckDBPyConnection, name: str, to: str) -> None:
    con.execute(f"ALTER {kind_of(con, name)} {quoted(name)} RENAME TO {quoted(to)}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """How a table of codes is stored."""

    ddl: str  # Its columns, as CREATE TABLE wants them
    # names, values: What INSERT fills, and with what of the columns selected.
    names: str
    values: str


def stored(
    con: duckdb.DuckDBPyConnection,
    select: str,
    place: str,
    may_be_null: Collection[str],
    *,
    may_misfit: bool,
) -> Stored:
    """How to store what a statement selects: in a file, columns of codes that may be null as small as it packs them.

    One code of null far from all others takes eight bytes of every row. So null is stored as the database's own, and
    what is NULL because it does not fit as a code that no cell has; under the old names stand the codes as selected.
    """
    ddl, names, values = [], [], []
    is_packed = working_file(con) is not None
    for name, sql_type, *_ in fetch(con, f"DESCRIBE {select}", place):
        if not is_packed or name not in may_be_null:
            ddl.append(f"{name} {sql_type}")
            names.append(name)
            values.append(name)
            continue
        own = PACKED + name
        code, packed = f"coalesce({own}, {NULL_CODE})", f"nullif({name}, {NULL_CODE})"
        if may_misfit:
            code = f"CASE WHEN {own} = {OTHER_CODE} THEN NULL ELSE {code} END"
            packed = f"CASE WHEN {name} IS NULL THEN {OTHER_CODE} ELSE {packed} END"
        ddl += [f"{own} BIGINT", f"{name} BIGINT AS ({code}) VIRTUAL"]
        names.append(own)
        values.append(packed)
    return Stored(ddl=", ".join(ddl), names=", ".join(names), values=", ".join(values))


def assigned(
    con: duckdb.DuckDBPyConnection, table: str, columns: Sequence[str], source: str
) -> str:
    """What UPDATE sets to give columns of codes those of another relation, however the table is `stored`."""
    there_are = {name for name, *_ in con.execute(f"DESCRIBE {table}").fetchall()}
    return ", ".join(
        f"{PACKED}{name} = nullif({source}.{name}, {NULL_CODE})"
        if PACKED + name in there_are
        else f"{name} = {source}.{name}"
        for name in columns
    )


def lines_about(line: int) -> str:
    """Where a line is, to the thousand: of a file that was cut off it may be the last, and tell how many there are."""
    first = (line - 1) // 1_000 * 1_000 + 1
    return f"{first:,} to {first + 999:,}"


def _in_our_words(error: duckdb.Error, place: str, on_cell: str) -> TablepackError:
    """Sort an error of DuckDB by its fixed phrases; nothing of its text is passed on."""
    text = str(error)
    found = re.search(r"Line: (\d+)", text)
    near = lines_about(int(found[1])) if found else ""
    if isinstance(error, duckdb.OutOfMemoryException) or "No space left" in text:
        return StoreError(f"{place}: memory or the scratch disk is full while reading it")
    if "Expected Number of Columns" in text:
        first = f"; the first is among lines {near}" if near else ""
        return DataError(
            f"{place}: some rows have more or fewer fields than the header{first}. Quote fields that hold the "
            "delimiter, and take out lines that are no rows, such as totals at the end"
        )
    if "unterminated quote" in text:
        # DuckDB counts rows here, however many lines a quoted field takes.
        where = f"; it is among rows {near}, the header being row 1" if near else ""
        return DataError(
            f"{place}: a quoted field is not closed, or has text after its closing quote{where}"
        )
    if "reached an invalid state" in text:
        return DataError(
            f"{place}: its lines end in different ways (some in LF, some in CR LF or CR), or text follows "
            "a closing quote; write all line ends alike"
        )
    if BEHIND in text:
        return DataError(
            f"{place}: {BEHIND}, but not in all rows; give that column a name, or take it out"
        )
    if "Invalid unicode" in text:
        return DataError(f"{place}: is not UTF-8 text; {SAY_ENCODING}")
    if "Maximum line size" in text:
        return DataError(f"{place}: a line is longer than 2 MB")
    if on_cell and isinstance(error, _OF_CELLS):
        return DataError(f"{place}: {on_cell}")
    return DataError(f"{place}: cannot be read; it may be cut, damaged or of another format")


def matching_files(path: str) -> list[str]:
    """Files that a path or a glob names, sorted."""
    files = [path] if Path(path).exists() else sorted(glob.glob(path, recursive=True))
    if not files:
        raise SpecError(f"source.path: no file {path}")
    folders = [one for one in files if Path(one).is_dir()]
    if folders:
        raise SpecError(
            f"source.path: {folders[0]} is a folder; name files, such as {folders[0]}/*.parquet"
        )
    for file in files:
        try:
            size = Path(file).stat().st_size
        except OSError as error:
            raise DataError(f"source {file}: cannot be read ({error.strerror})") from None
        if size == 0:
            raise DataError(f"source {file}: the file is empty")
    return files


def check_names(names: Iterable[str], place: str) -> None:
    """Refuse empty and repeated column names; DuckDB does not tell "a" from "A", so nor do we."""
    problems, seen = [], dict[str, str]()
    for position, name in enumerate(names, start=1):
        if not name.strip():
            problems.append(
                f"{place}: column {position} has no name; write one above it, or leave the column out"
            )
        elif name.casefold() in seen:
            problems.append(
                f"{place}: the column names {seen[name.casefold()]!r} and {name!r} "
                "are the same (capital letters make no difference); give each a name of its own"
            )
        seen.setdefault(name.casefold(), name)
    if problems:
        raise DataError("\n".join(problems))


def file_literal(file: str) -> str:
    """A file name as a string for DuckDB, which takes every such string for a glob."""
    return literal(glob.escape(file))
