"""Registers a pandas or Arrow object as the relation `frame` of a confidential connection.

Takes what a Python user holds; gives columns whose DuckDB type says what they are. Columns of
Python objects become text, for DuckDB would guess their type from a sample of the rows;
those that hold several types, or types without a counterpart, are set aside with the reason: only a
spec that uses them is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import duckdb
import pandas as pd

from engine.errors import DataError, SpecError

_AS_TEXT = frozenset(
    {
        "integer",
        "floating",
        "mixed-integer-float",
        "decimal",
        "boolean",
        "date",
        "datetime",
        "datetime64",
    }
)
_AS_IS = frozenset({"string", "bytes"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """A registered frame.

    Attributes
    ----------
    unreadable : dict
        Columns set aside (all null in the relation), with the reason.
    mixed_numbers : frozenset of str
        Columns of Python objects that hold both int and float.
    """

    columns: tuple[str, ...]
    unreadable: dict[str, str]
    mixed_numbers: frozenset[str]


def register_frame(con: duckdb.DuckDBPyConnection, frame: Any) -> Frame:
    """Register a pandas DataFrame, or anything with an Arrow stream, as `frame`.

    Raises
    ------
    SpecError
        If it is none of these, or pyarrow is missing.
    DataError
        If it has no columns, names that are not text, or cannot be read.
    """
    if isinstance(frame, pd.DataFrame):
        prepared, unreadable, mixed = _prepared(frame)
        names = tuple(frame.columns)
        relation: Any = prepared
    elif hasattr(frame, "__arrow_c_stream__"):
        relation = _arrow_table(frame)
        names, unreadable, mixed = tuple(relation.column_names), {}, frozenset()
    else:
        raise SpecError("source: wants a path, a pandas DataFrame or an Arrow table")
    try:
        con.register("frame", relation)
        con.execute("DESCRIBE frame").fetchall()
        is_open = True
    except (duckdb.Error, TypeError, ValueError):
        is_open = False
    if not is_open:
        raise DataError("the data frame: has no columns, or a column of a type that cannot be read")
    return Frame(columns=names, unreadable=unreadable, mixed_numbers=mixed)


def _arrow_table(frame: Any) -> Any:
    """Hold a stream as a table, so that it can be read more than once."""
    try:
        import pyarrow as pa
    except ImportError:
        pa = None
    if pa is None:
        raise SpecError('source: an Arrow object needs pyarrow: pip install "tablepack[arrow]"')
    return frame if isinstance(frame, pa.Table) else pa.table(frame)


def _prepared(frame: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, str], frozenset[str]]:
    """Copy of the frame (sharing what it can) that DuckDB reads without guessing."""
    if not all(isinstance(name, str) for name in frame.columns):
        raise DataError("the data frame: column names must be text")
    unreadable: dict[str, str] = {}
    mixed: set[str] = set()
    columns: dict[str, Any] = {}
    for position, name in enumerate(frame.columns):
        series = frame.iloc[:, position].reset_index(drop=True)
        if isinstance(series.dtype, pd.CategoricalDtype) and not _is_text(series.cat.categories):
            series = series.astype(object)
        if series.dtype == object:
            held_type = pd.api.types.infer_dtype(series, skipna=True)
            if held_type == "mixed-integer-float":
                mixed.add(name)
            if held_type in _AS_TEXT:
                series = series.map(str, na_action="ignore")
            elif held_type not in _AS_IS:
                if held_type != "empty":
                    unreadable[name] = "holds values of several Python types (mixed types)"
                series = _all_null(len(series))
        elif not _is_readable(series):
            unreadable[name] = (
                f"holds values of the type {series.dtype.name.partition('[')[0]}, which cannot be read"
            )
            series = _all_null(len(series))
        columns[name] = series
    return pd.DataFrame(columns), unreadable, frozenset(mixed)


def _is_text(categories: pd.Index) -> bool:
    """Whether the values of a categorical are all text."""
    return pd.api.types.infer_dtype(categories, skipna=False) == "string"


def _all_null(n_rows: int) -> pd.Series:
    """A text column of nulls."""
    return pd.Series([None] * n_rows, dtype="string")


def _is_readable(series: pd.Series) -> bool:
    """Whether DuckDB has a type for it."""
    types, dtype = pd.api.types, series.dtype
    if types.is_complex_dtype(dtype) or isinstance(dtype, pd.SparseDtype):
        return False
    return (
        isinstance(dtype, pd.CategoricalDtype | pd.ArrowDtype)
        or types.is_numeric_dtype(dtype)
        or types.is_bool_dtype(dtype)
        or types.is_string_dtype(dtype)
        or types.is_datetime64_any_dtype(dtype)
    )
