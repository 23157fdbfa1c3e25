"""Answers as files: CSV, Parquet, JSON-stat 2 and a workbook, all from the same rows.

Takes a tabulation (or the rows of a statement) and gives bytes. Numbers stay numbers: what is not released is empty,
and the `status` column says so.
"""

from __future__ import annotations

import csv
import datetime
import io
import json
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from engine.errors import MissingPackage
from engine.store import unused_name
from queries.intervals import Tabulation
from queries.serve.values import BLANK_LABEL, Variable, key_of

MEDIA = {
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "json-stat": "application/json",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
"""Content type by format."""
ENDINGS = {"csv": "csv", "parquet": "parquet", "json-stat": "json", "xlsx": "xlsx"}
FIGURES = ("value", "low", "high", "status")
_CREATED = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
Rows = Sequence[Sequence[Any]]


def rows_of(table: Tabulation) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return a tabulation as names and rows: its columns, then value, low, high and status."""
    figures = zip(table.value.tolist(), table.low.tolist(), table.high.tolist(), strict=True)
    rows = [
        (*key, *(None if math.isnan(x) else x for x in three), status)
        for key, three, status in zip(table.keys, figures, table.status, strict=True)
    ]
    names = list(table.columns)
    return [*names, *(unused_name(f, names) for f in FIGURES)], rows


def csv_of(names: Sequence[str], rows: Rows) -> bytes:
    """Return CSV with a header; a blank is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([["" if v is None else _number_or_text(v) for v in row] for row in rows])
    return out.getvalue().encode()


def parquet_of(names: Sequence[str], rows: Rows) -> bytes:
    """Return Parquet.

    Raises
    ------
    MissingPackage
        pyarrow is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise _missing("Parquet", "pyarrow") from None
    columns = [list(c) for c in zip(*rows, strict=True)] if rows else [[] for _ in names]
    arrays = [_arrow(pyarrow, column) for column in columns]
    out = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_arrays(arrays, names=list(names)), out)
    return out.getvalue()


def xlsx_of(names: Sequence[str], rows: Rows, notes: Sequence[tuple[str, str]]) -> bytes:
    """Return a workbook: one sheet with the table and nothing else, one that says what it is.

    Raises
    ------
    MissingPackage
        XlsxWriter is not installed.
    """
    try:
        import xlsxwriter
    except ImportError:
        raise _missing("Excel", "xlsxwriter") from None
    out = io.BytesIO()
    book = xlsxwriter.Workbook(out, {"in_memory": True, "strings_to_formulas": False})
    book.set_properties({"created": _CREATED, "title": notes[0][1] if notes else ""})
    bold, wrapped = book.add_format({"bold": True}), book.add_format({"text_wrap": True})
    sheet = book.add_worksheet("Table")
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


def jsonstat_of(
    table: Tabulation, *, label: str, source: str, variables: Mapping[str, Variable]
) -> bytes:
    """Return a JSON-stat 2 dataset: a dimension a column, and one of value, low and high."""
    orders = [_order(j, table, variables[c]) for j, c in enumerate(table.columns)]
    size = [len(order) for order in orders]
    places = [[order[part] for order, part in zip(orders, key, strict=True)] for key in table.keys]
    at = [int(np.ravel_multi_index(p, size)) if size else 0 for p in places]
    figures = np.full((math.prod(size), 3), np.nan)
    figures[at] = np.stack([table.value, table.low, table.high], axis=1)
    status = ["structural zero"] * math.prod(size)
    for i, word in zip(at, table.status, strict=True):
        status[i] = word
    dimension = {
        c: _dimension(variables[c], order) for c, order in zip(table.columns, orders, strict=True)
    }
    names = {"value": "Value", "low": "Noise interval, low", "high": "Noise interval, high"}
    figure = unused_name("figure", table.columns)
    dimension[figure] = {"label": "Figure", "category": {"index": list(names), "label": names}}
    dataset = {
        "version": "2.0",
        "class": "dataset",
        "label": label,
        "source": source,
        "id": [*table.columns, figure],
        "size": [*size, 3],
        "role": {"metric": [figure]},
        "dimension": dimension,
        "value": [None if math.isnan(x) else x for x in figures.ravel().tolist()],
        "status": [word for word in status for _ in names],
        "note": [table.words],
    }
    return (json.dumps(dataset, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _order(place: int, table: Tabulation, variable: Variable) -> dict[Any, int]:
    """Order of a column's keys that occur: as released, or as they come (bands)."""
    keys = dict.fromkeys(key[place] for key in table.keys)
    known = [v.value for v in variable.values if v.value in keys]
    return {v: i for i, v in enumerate(dict.fromkeys([*known, *keys]))}


def _dimension(variable: Variable, order: Mapping[Any, int]) -> dict[str, Any]:
    """A dimension with the codes and labels of its categories."""
    names = {v.value: v.label for v in variable.values}
    labels = {key_of(v): names.get(v, BLANK_LABEL if v is None else str(v)) for v in order}
    return {"label": variable.label, "category": {"index": list(labels), "label": labels}}


def _number_or_text(value: Any) -> Any:
    """A value in CSV: whole numbers without a point."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else format(value, ".15g")
    return key_of(value) if isinstance(value, bool | Decimal) else value


def _write(sheet: Any, i: int, j: int, value: Any) -> None:
    """One cell of a workbook: a number where it is one, never a formula."""
    if value is None:
        return
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        number = float(value)
        if math.isfinite(number) and abs(number) < 1e15:
            sheet.write_number(i, j, number)
            return
    sheet.write_string(i, j, _text(value)[:32_767])


def _text(value: Any) -> str:
    return key_of(value) if isinstance(value, bool | float | Decimal) else str(value)


def _arrow(pyarrow: Any, column: list[Any]) -> Any:
    """A column; as text where its values are of several types."""
    try:
        return pyarrow.array(column)
    except (pyarrow.ArrowException, OverflowError):
        return pyarrow.array([None if v is None else _text(v) for v in column])


def _missing(form: str, package: str) -> MissingPackage:
    return MissingPackage(f"a download as {form} needs {package}: pip install 'tablepack[serve]'")
