"""Answers as files: CSV, Parquet and JSON-stat 2, all from the same rows; for workbooks see `queries.serve.workbook`.

Numbers stay numbers: figures that are not released are empty, and the `status` column says so.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal

import numpy as np

from engine.errors import MissingPackage
from engine.store import unused_name
from queries.intervals import Tabulation
from queries.packs import Dimension, Item, Pack, PackTable, as_json, dataset, sorted_figures
from queries.serve.values import Variable, key_of

MEDIA = {
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "json-stat": "application/json",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
"""Content type by format."""
ENDINGS = {"csv": "csv", "parquet": "parquet", "json-stat": "json", "xlsx": "xlsx", "px": "px"}
FIGURES = ("value", "low", "high", "status")
Rows = Sequence[Sequence[Any]]
Formulas = Literal["quote", "keep"]
"""How CSV text that a spreadsheet would run is treated: prefixed with an apostrophe, or kept."""
_FORMULA = re.compile(r"[\s']*[=+\-@\uff1d\uff0b\uff0d\uff20]|'*[\t\r\n]")
"""How such text starts; including apostrophes, so that quoted text can be told apart from text that starts with one."""
_FIGURE = r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?"
_NUMBER = re.compile(f"{_FIGURE}( to {_FIGURE})?", re.ASCII)
"""A number, or a band of numbers."""


def rows_of(table: Tabulation) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return a tabulation as column names and rows: its columns, then value, low, high and status."""
    figures = zip(table.value.tolist(), table.low.tolist(), table.high.tolist(), strict=True)
    rows = [
        (*key, *(None if math.isnan(x) else x for x in three), status)
        for key, three, status in zip(table.keys, figures, table.status, strict=True)
    ]
    names = list(table.columns)
    return [*names, *(unused_name(f, names) for f in FIGURES)], rows


def csv_of(names: Sequence[str], rows: Rows, formulas: Formulas = "quote") -> bytes:
    """Return CSV with a header; blanks are empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    cell = _number_or_text if formulas == "keep" else _quoted_formula
    writer.writerow([cell(name) for name in names])
    writer.writerows([["" if v is None else cell(v) for v in row] for row in rows])
    return out.getvalue().encode()


def _quoted_formula(value: Any) -> Any:
    """A CSV value that no spreadsheet runs as a formula; numbers stay unchanged, even as text."""
    if not isinstance(value, str):
        return _number_or_text(value)
    is_formula = _FORMULA.match(value) and not _NUMBER.fullmatch(value)
    return f"'{value}" if is_formula else value


def parquet_of(names: Sequence[str], rows: Rows) -> bytes:
    """Return Parquet."""
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


def jsonstat_of(
    table: Tabulation, *, label: str, source: str, pack: Pack, variables: Mapping[str, Variable]
) -> bytes:
    """Return a JSON-stat 2 dataset, as of a pack: one dimension per column, and one for value, low and high."""
    orders = []
    for j, c in enumerate(table.columns):
        keys = {key[j] for key in table.keys}
        known = (v.value for v in variables[c].values if v.value in keys)
        orders.append({v: i for i, v in enumerate(known)})
    places = [[order[part] for order, part in zip(orders, key, strict=True)] for key in table.keys]
    index = np.array(places, dtype=np.int32).reshape(len(table), len(orders))
    cube = PackTable(
        id="",
        titles=(label,),
        units=("",),
        dimensions=tuple(
            _dimension(variables[c], order) for c, order in zip(table.columns, orders, strict=True)
        ),
        is_whole=table.measure == "count",
        **sorted_figures(table, index),
    )
    contents = cube.contents({word: texts[:1] for word, texts in pack.words.items()})
    out = dataset(cube, pack, 0, contents) | {"source": source}
    return as_json(out, compact=True).encode()


def _dimension(variable: Variable, order: Mapping[Any, int]) -> Dimension:
    """A dimension with the codes and labels of its categories."""
    names = {v.value: v.label for v in variable.values}
    items = tuple(
        Item(
            code=key_of(v),
            key=key_of(v),
            labels=(names[v],),
            kind="value",
        )
        for v in order
    )
    return Dimension(name=variable.name, key=variable.name, labels=(variable.label,), items=items)


def _number_or_text(value: Any) -> Any:
    """A CSV value; whole numbers without a decimal point."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else format(value, ".15g")
    return key_of(value) if isinstance(value, bool | Decimal) else value


def _text(value: Any) -> str:
    return key_of(value) if isinstance(value, bool | float | Decimal) else str(value)


def _arrow(pyarrow: Any, column: list[Any]) -> Any:
    """A column; as text if its values have several types."""
    try:
        return pyarrow.array(column)
    except (pyarrow.ArrowException, OverflowError):
        return pyarrow.array([None if v is None else _text(v) for v in column])


def _missing(form: str, package: str) -> MissingPackage:
    return MissingPackage(f"a download as {form} needs {package}: pip install 'tablepack[serve]'")
