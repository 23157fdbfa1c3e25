"""Workbooks, and files of SPSS, Stata and SAS, with the labels that these carry.

Takes their paths; gives one table and the labels of columns and values. A sheet becomes a table of texts, as a CSV of
it would. What a statistical file declares missing is null, and so is a blank text, for these packages have no other
null among texts.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from engine.errors import DataError, SpecError
from engine.schema import SourceSpec, quoted
from engine.source.encoding import cell_text
from engine.source.forms.frames import register_frame
from engine.source.relation import Labels, Source, check_names, fetch

if TYPE_CHECKING:
    import pandas as pd


_READERS = {
    "sav": "read_sav",
    "por": "read_por",
    "dta": "read_dta",
    "xpt": "read_xport",
    "sas7bdat": "read_sas7bdat",
}
"""What reads each format."""


def open_package(
    con: duckdb.DuckDBPyConnection,
    source: SourceSpec,
    files: Sequence[str],
    relation: str,
    place: str,
    *,
    by_row: bool = False,
) -> Source:
    """Read files of one format into one table; the labels are those of the first.

    by_row: No row decides what becomes of others (mode dp).
    """
    import pandas as pd  # slow to load

    read = _read_sheet if source.format == "xlsx" else _read
    frames: list[pd.DataFrame] = []
    labels: list[Labels] = []
    for file in files:
        frame, of_file = read(file, source, by_row=by_row)
        check_names(frame.columns, f"source {file}")
        if frames and list(frame.columns) != list(frames[0].columns):
            raise DataError(f"source {file}: its columns differ from those of {files[0]}")
        frames.append(frame)
        labels.append(of_file)
    found = register_frame(con, pd.concat(frames, ignore_index=True), by_row=by_row)
    try:
        fetch(con, f"CREATE OR REPLACE TABLE {quoted(relation)} AS SELECT * FROM frame", place)
    finally:
        con.unregister("frame")
    return replace(found, labels=labels[0])


def sheets_of(file: str) -> dict[str, list[list[str]]]:
    """The rows of every sheet that holds any, as texts."""
    try:
        from python_calamine import CalamineError, CalamineWorkbook
    except ImportError:
        raise SpecError(
            'source: a workbook needs python-calamine: pip install "tablepack[xlsx]"'
        ) from None
    rows: dict[str, list[list[Any]]] | None = None
    try:
        book = CalamineWorkbook.from_path(file)
        rows = {
            name: book.get_sheet_by_name(name).to_python(skip_empty_area=False)
            for name in book.sheet_names
        }
    except (CalamineError, OSError, ValueError):
        rows = None
    if rows is None:
        raise DataError(
            f"source {file}: is no workbook that can be read; it may have a password, or be damaged"
        )
    texts = {name: [[cell_text(cell) for cell in row] for row in of] for name, of in rows.items()}
    return {name: of for name, of in texts.items() if any(any(row) for row in of)}


def _read_sheet(file: str, source: SourceSpec, *, by_row: bool) -> tuple[pd.DataFrame, Labels]:
    """One sheet of a file as texts; what is empty altogether is no row and no column.

    by_row: What has no name in the header is no column, whatever stands below; else it is refused.
    """
    import pandas as pd

    sheets = sheets_of(file)
    sheet = next(iter(sheets)) if source.sheet is None and len(sheets) == 1 else source.sheet
    if sheets and sheet not in sheets:
        problem = "say which sheet" if sheet is None else f"no sheet {sheet} with rows"
        raise SpecError(f"source.sheet: {problem}; {file} holds: {', '.join(sheets)}")
    filled = [row for row in sheets[sheet][source.skip :] if any(row)] if sheet in sheets else []
    if not filled:
        raise DataError(f"source {file}: has no rows")
    looked_at = filled[:1] if by_row else filled
    used = [
        j
        for j in range(max(map(len, looked_at)))
        if any(j < len(row) and row[j] for row in looked_at)
    ]
    names, *cells = [[row[j] if j < len(row) else "" for j in used] for row in filled]
    check_names(names, f"source {file}")  # pandas would take doubles
    return pd.DataFrame(cells, columns=names, dtype="string"), Labels()


def _read(file: str, source: SourceSpec, *, by_row: bool) -> tuple[pd.DataFrame, Labels]:
    """One file.

    by_row: What the library refuses of a row concerns that row only: texts are decoded one by one, and a row with a
        date that no calendar has is one without cells.
    """
    try:
        import pyreadstat
    except ImportError:
        raise SpecError(
            'source: files of SPSS, Stata and SAS need pyreadstat: pip install "tablepack[stat]"'
        ) from None
    read = getattr(pyreadstat, _READERS[source.format])
    options = {} if source.encoding is None else {"encoding": source.encoding}
    found = None
    try:
        found = read(file, **options, metadataonly=by_row)
        if by_row:
            found = _rows_of(partial(read, file, encoding="LATIN1"), 0, None), found[1]
    except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError, ValueError, OverflowError):
        found = None
    if found is None:
        raise DataError(
            f"source {file}: is no {source.format} file that can be read; it may be damaged, or its texts of another "
            'encoding, such as encoding = "cp1252" in [source]'
        )
    frame, about = found
    if by_row:
        frame.columns = about.column_names
        encoding = _encoding(file, source, about.file_encoding)

        def decoded(text: str) -> str:  # that was read byte by byte
            return text.encode("latin-1").decode(encoding, errors="replace")

        for name, kind in about.readstat_variable_types.items():
            if kind == "string":
                frame[name] = frame[name].map(decoded, na_action="ignore")
    for name in frame.columns:
        if frame[name].dtype in ("str", "string", "object"):
            frame[name] = frame[name].mask(frame[name] == "")
    columns = {name: text for name, text in about.column_names_to_labels.items() if text}
    values = {
        name: {v.strip() if isinstance(v, str) else f"{v:.15g}": label for v, label in of.items()}
        for name, of in about.variable_value_labels.items()
    }  # by the values as text: whole numbers without a point
    return frame, Labels(columns=columns, values=values)


def _rows_of(read: Callable[..., Any], first: int, n: int | None) -> pd.DataFrame:
    """Rows of a file; those that cannot be converted have no cells.

    n: How many; None: all there are.
    """
    import pandas as pd

    try:
        frame: pd.DataFrame = read(row_offset=first, row_limit=n or 0)[0]
    except (ValueError, OverflowError):
        if n is None:
            n = len(read(disable_datetime_conversion=True)[0])
        if n == 1:
            names = read(metadataonly=True)[1].column_names
            return pd.DataFrame([[None] * len(names)], columns=names)
        half = n // 2
        parts = _rows_of(read, first, half), _rows_of(read, first + half, n - half)
        return pd.concat(parts, ignore_index=True)
    return frame


def _encoding(file: str, source: SourceSpec, noted: str | None) -> str:
    """That of the texts: as declared, else as the file says."""
    if source.format == "dta":
        with Path(file).open("rb") as opened:
            is_old = not re.search(rb"<release>(118|119)", opened.read(64))
        noted = "cp1252" if is_old else "utf-8"
    try:
        return codecs.lookup(source.encoding or noted or "utf-8").name
    except LookupError:
        return "utf-8"
