"""Exports: every table of a release as a CSV or Parquet file with a row per synthetic record; answers as workbooks.

Files are named by the table's sorted columns joined by dots; columns are in the source's order, and missing values are
written as in the source. Everything is written to a temporary folder, which is renamed when it is complete.
"""

from __future__ import annotations

import datetime
import hashlib
import io
import math
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import duckdb

from engine.errors import MissingPackage, StoreError
from engine.outputs import output_folder
from engine.schema import ColumnSet, literal, quoted
from engine.store import count_names, table_name, unused_name
from queries.sql.session import Session

MAX_STEM = 200
"""Longest file name in bytes, without extension; longer ones are cut and end in a hash of the whole name."""
_CREATED = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
_LONGEST_CELL = 32_767
_UNSAFE = frozenset('%./\\:*?"<>|')
_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|\Z)", re.IGNORECASE)
"""Names that Windows keeps for devices, whatever the extension."""


def export(
    release: Session,
    directory: str | os.PathLike[str],
    *,
    format: Literal["csv", "parquet"] = "csv",
    tables: tuple[ColumnSet, ...] | None = None,
    status: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> list[Path]:
    """Write one file per table.

    Parameters
    ----------
    release : Session
        The open release.
    directory : path-like
        Folder to create.

        May exist if it is empty.
    format : str
        File format.

        "csv" or "parquet".
    tables : tuple of ColumnSet or None
        Tables to write; None: all.
    status : bool
        Add a column: whether a row's combination is released or imputed.
    progress : callable or None
        Called with the numbers of tables written and to be written.

    Returns
    -------
    list of Path
        The files, in the order of the tables.

    Raises
    ------
    StoreError
        The format is unknown, the folder is not empty, or the release was replaced since it was opened.
    NotAnswerable
        There is no such table.
    """
    if format not in ("csv", "parquet"):
        raise StoreError(f"unknown format {format!r}: choose csv or parquet")
    wanted = release.tables if tables is None else tables
    for columns in wanted:
        release.card(*columns)  # refuses unknown tables
    target = Path(directory)
    with output_folder(target) as part:
        with release.reopened(folder=part) as con:
            names = _write_all(con, release, wanted, part, format, progress, status=status)
    return [target / name for name in names]


def file_stem(columns: Iterable[str]) -> str:
    """Return the file name of a table without extension; different tables have different names on every system.

    Characters that a file name cannot or should not contain, and dots inside a column's name, are
    percent-encoded; a name of more than `MAX_STEM` bytes is cut and ends in `~` and a hash of the whole.
    """
    stem = ".".join(_encoded(c) for c in sorted(columns))
    if _DEVICE.match(stem):
        stem = f"%{ord(stem[0]):02X}{stem[1:]}"
    data = stem.encode()
    if len(data) <= MAX_STEM:
        return stem
    suffix = "~" + hashlib.blake2b(data, digest_size=8).hexdigest()
    return data[: MAX_STEM - len(suffix)].decode(errors="ignore") + suffix


def _encoded(name: str) -> str:
    """Return a column's name with unsafe characters as %XX per UTF-8 byte."""
    # Some file systems take a letter with an accent and a letter plus an accent for the same.
    is_composed = unicodedata.is_normalized("NFC", name)
    inner = range(len(name) - len(name.lstrip()), len(name.rstrip()))
    return "".join(
        ch
        if ch not in _UNSAFE and ch.isprintable() and i in inner and (is_composed or ch.isascii())
        else "".join(f"%{b:02X}" for b in ch.encode())
        for i, ch in enumerate(name)
    )


def _write_all(
    con: duckdb.DuckDBPyConnection,
    release: Session,
    tables: tuple[ColumnSet, ...],
    folder: Path,
    format_: str,
    progress: Callable[[int, int], None] | None,
    *,
    status: bool,
) -> list[str]:
    """Write all files; return their names."""
    nulls = dict(con.execute("SELECT name, null_spelling FROM catalog.columns").fetchall())
    names = []
    for i, columns in enumerate(tables, 1):
        ordered = [c for c in release.columns if c in columns]
        name = f"{file_stem(columns)}.{format_}"
        added = [unused_name("status", columns)] if status else []
        rows = f"main.{quoted(table_name(columns))}"
        if status:
            rows = _rows_with_status(con, columns, added[0], is_dp=release.mode == "dp")
        con.execute(_copy_sql(rows, ordered, added, nulls, folder / name, format_))
        names.append(name)
        if progress is not None:
            progress(i, len(tables))
    return names


def _rows_with_status(
    con: duckdb.DuckDBPyConnection, columns: ColumnSet, name: str, *, is_dp: bool
) -> str:
    """Return SQL for the rows of a table as in its view, with a column that says whether they were measured."""
    physical, noise_sd = con.execute(
        "SELECT physical, noise_sd FROM catalog.tables WHERE name = ?", [table_name(columns)]
    ).fetchall()[0]
    count, measured = map(quoted, count_names(columns))
    # In mode dp nothing is suppressed: what was not measured is modelled, as the card says.
    value = (
        "'released'" if is_dp else f"CASE WHEN {measured} THEN 'released' ELSE 'not released' END"
    )
    if not is_dp and noise_sd == 0:  # a wide table, for which nothing was measured
        value = "'modelled'"
    return f"(SELECT *, {value} AS {quoted(name)}, unnest(range({count})) FROM tables.{quoted(physical)})"


def _copy_sql(
    rows: str,
    ordered: list[str],
    added: list[str],
    nulls: dict[str, str],
    path: Path,
    format_: str,
) -> str:
    """Return the COPY statement of one table; `added` are columns that are not in the source."""
    more = "".join(f", {quoted(name)}" for name in added)
    if format_ == "parquet":
        listed = ", ".join(quoted(c) for c in ordered) + more
        return f"COPY (SELECT {listed} FROM {rows}) TO {literal(str(path))} (FORMAT parquet)"
    spellings = {nulls[c] for c in ordered}
    if len(spellings) == 1 and spellings != {""}:
        listed, null = ", ".join(quoted(c) for c in ordered), spellings.pop()
    else:  # each column has its own spelling; NULLSTR writes empty ones
        null = ""
        listed = ", ".join(
            f"coalesce(CAST({quoted(c)} AS VARCHAR), {literal(nulls[c])}) AS {quoted(c)}"
            if nulls[c]
            or len(ordered)
            == 1  # in a single column, an empty value is quoted to avoid an empty line
            else quoted(c)
            for c in ordered
        )
    return (
        f"COPY (SELECT {listed}{more} FROM {rows}) TO {literal(str(path))} "
        f"(FORMAT csv, HEADER, NULLSTR {literal(null)})"
    )


def workbook_of(
    names: Sequence[str],
    rows: Sequence[Sequence[Any]],
    notes: Sequence[tuple[str, str]],
    *,
    first: Callable[[Any], None] | None = None,
) -> bytes:
    """Return a workbook with a sheet for the table, and one for notes.

    first: Adds a sheet "Table" in front; the sheet of the table itself is then called "Rows".
    """
    try:
        import xlsxwriter
    except ImportError:
        raise MissingPackage(
            "a workbook requires xlsxwriter: pip install 'tablepack[pack]'"
        ) from None
    out = io.BytesIO()
    book = xlsxwriter.Workbook(out, {"in_memory": True, "strings_to_formulas": False})
    book.set_properties({"created": _CREATED, "title": notes[0][1] if notes else ""})
    bold, wrapped = book.add_format({"bold": True}), book.add_format({"text_wrap": True})
    if first is not None:
        first(book)
    sheet = book.add_worksheet("Table" if first is None else "Rows")
    for j, name in enumerate(names):
        sheet.write_string(0, j, name, bold)
    for i, row in enumerate(rows, 1):
        for j, value in enumerate(row):
            _write(sheet, i, j, value)
    sheet.freeze_panes(1, 0)
    sheet.set_column(0, max(len(names) - 1, 0), 18)
    about = book.add_worksheet("Notes")
    for i, (topic, text) in enumerate(notes):
        about.write_string(i, 0, topic, bold)
        about.write_string(i, 1, text, wrapped)
    about.set_column(0, 0, 18)
    about.set_column(1, 1, 100)
    book.close()
    return out.getvalue()


def _write(sheet: Any, i: int, j: int, value: Any) -> None:
    """Write one cell: numbers as numbers, never a formula."""
    if value is None:
        return
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        number = float(value)
        if math.isfinite(number) and abs(number) < 1e15:
            sheet.write_number(i, j, number)
            return
    sheet.write_string(i, j, _text(value)[:_LONGEST_CELL])


def _text(value: Any) -> str:
    """Return the text of a value that a spreadsheet cannot hold as a number."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return format(value, "f") if isinstance(value, Decimal) else str(value)
