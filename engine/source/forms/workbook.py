"""Workbooks: a sheet becomes a table of texts, as a CSV of it would.

Takes xlsx, xls, xlsb and ods files; gives one table. Numbers, dates and truth values are written plainly, so that the
kinds of columns are found and checked as in any text.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from engine.errors import DataError, SpecError
from engine.schema import SourceSpec, quoted
from engine.source.forms.writing import cell_text
from engine.source.relation import check_names, fetch

if TYPE_CHECKING:
    import pandas as pd

_FRAME = "tablepack_sheet"


def open_workbook(
    con: duckdb.DuckDBPyConnection,
    source: SourceSpec,
    files: Sequence[str],
    relation: str,
    place: str,
    *,
    by_row: bool = False,
) -> None:
    """Read one sheet of each file into one table, every cell as text.

    by_row: What has no name in the header is no column, whatever stands below; else it is refused.
    """
    import pandas as pd  # slow to load

    frames: list[pd.DataFrame] = []
    for file in files:
        rows = sheet_rows(file, source.sheet)[source.skip :]
        frame = _frame(rows, f"source {file}", by_row=by_row)
        if frames and list(frame.columns) != list(frames[0].columns):
            raise DataError(f"source {file}: its header differs from that of {files[0]}")
        frames.append(frame)
    con.register(_FRAME, pd.concat(frames, ignore_index=True))
    try:
        fetch(con, f"CREATE OR REPLACE TABLE {quoted(relation)} AS SELECT * FROM {_FRAME}", place)
    finally:
        con.unregister(_FRAME)


def sheets_of(file: str) -> dict[str, list[list[str]]]:
    """The rows of every sheet that holds any, as texts."""
    try:
        from python_calamine import CalamineError, CalamineWorkbook
    except ImportError:
        raise SpecError(
            'source: a workbook needs python-calamine: pip install "tablepack[xlsx]"'
        ) from None
    if Path(file).stat().st_size == 0:
        raise DataError(f"source {file}: the file is empty")
    book = None
    try:
        book = CalamineWorkbook.from_path(file)
        rows = {
            name: book.get_sheet_by_name(name).to_python(skip_empty_area=False)
            for name in book.sheet_names
        }
    except (CalamineError, OSError, ValueError):
        book = None
    if book is None:
        raise DataError(
            f"source {file}: is no workbook that can be read; it may have a password, or be damaged"
        )
    texts = {name: [[cell_text(cell) for cell in row] for row in of] for name, of in rows.items()}
    return {name: of for name, of in texts.items() if any(any(row) for row in of)}


def sheet_rows(file: str, sheet: str | None) -> list[list[str]]:
    """The rows of one sheet, as texts."""
    sheets = sheets_of(file)
    if not sheets:
        raise DataError(f"source {file}: has no rows")
    if sheet is None and len(sheets) == 1:
        return next(iter(sheets.values()))
    if sheet not in sheets:
        problem = "say which sheet" if sheet is None else f"no sheet {sheet} with rows"
        raise SpecError(f"source.sheet: {problem}; {file} holds: {', '.join(sheets)}")
    return sheets[sheet]


def _frame(rows: list[list[str]], place: str, *, by_row: bool) -> pd.DataFrame:
    """Rows below their names; what is empty altogether is no row and no column."""
    import pandas as pd

    filled = [row for row in rows if any(row)]
    if not filled:
        raise DataError(f"{place}: has no rows")
    looked_at = filled[:1] if by_row else filled
    used = [
        j
        for j in range(max(map(len, looked_at)))
        if any(j < len(row) and row[j] for row in looked_at)
    ]
    names, *cells = [[row[j] if j < len(row) else "" for j in used] for row in filled]
    check_names(names, place)
    return pd.DataFrame(cells, columns=names, dtype="string")
