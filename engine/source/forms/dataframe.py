"""Frames of pandas, made ready for DuckDB: a type that says what a column is, or the reason why it cannot be read.

Columns of Python objects become text, for DuckDB would guess their type from a sample of the rows; those that hold
several types, or types without a counterpart, are set aside. In a module of its own, for pandas is slow to load.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from engine.errors import DataError
from engine.source.encoding import cell_text

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
        "time",
        "interval",
        "period",
    }
)
_AS_IS = frozenset({"string", "bytes"})


def orders_of(frame: pd.DataFrame) -> dict[str, tuple[str, ...]]:
    """The values of ordered categoricals as texts, in their order, by column."""
    return {
        str(name): tuple(str(value) for value in frame[name].cat.categories)
        for name in frame.columns
        if _is_ordered(frame[name])
    }


def _is_ordered(series: Any) -> bool:
    """Whether a column is a categorical whose values have an order of their own."""
    held = getattr(series, "dtype", None)  # columns of one name are a frame, refused later
    return isinstance(held, pd.CategoricalDtype) and bool(held.ordered) and not _is_number(held)


def _is_number(held: pd.CategoricalDtype) -> bool:
    """Whether the values of a categorical have an order anyway."""
    return held.categories.dtype.kind in "iufbMm"


def _as_taken(series: Any) -> Any:
    """A column in a type that can be read, where its own has a plain counterpart.

    Moments with a zone become what the clocks of that zone showed, periods the day on which they begin, spans of
    time seconds, intervals texts.
    """
    held = series.dtype
    if isinstance(held, pd.CategoricalDtype) and isinstance(
        held.categories.dtype, pd.IntervalDtype
    ):
        return series.cat.rename_categories([str(one) for one in held.categories])
    if isinstance(held, pd.DatetimeTZDtype) or _is_moment_of_arrow(held):
        return series.dt.tz_localize(None)
    if isinstance(held, pd.PeriodDtype):
        return series.dt.to_timestamp()
    if isinstance(held, pd.IntervalDtype):
        return series.astype(object)
    if isinstance(held, pd.SparseDtype):
        return series.sparse.to_dense()
    if pd.api.types.is_timedelta64_dtype(held):
        return series.dt.total_seconds()
    return series


def _is_moment_of_arrow(held: Any) -> bool:
    """Whether a type of pandas is Arrow's of moments with a zone."""
    if not isinstance(held, pd.ArrowDtype):
        return False
    import pyarrow as pa

    of_arrow = held.pyarrow_dtype
    return pa.types.is_timestamp(of_arrow) and of_arrow.tz not in (None, "UTC")


def prepared(
    frame: pd.DataFrame, *, by_row: bool = False
) -> tuple[pd.DataFrame, dict[str, str], frozenset[str]]:
    """Copy of the frame (sharing what it can) that DuckDB reads without guessing.

    by_row: Of Python objects each becomes a text by itself, whatever other rows hold.
    """
    if not all(isinstance(name, str) for name in frame.columns):
        raise DataError("the data frame: column names must be text")
    unreadable: dict[str, str] = {}
    mixed: set[str] = set()
    columns: dict[str, Any] = {}
    for position, name in enumerate(frame.columns):
        series = _as_taken(frame.iloc[:, position].reset_index(drop=True))
        if isinstance(series.dtype, pd.CategoricalDtype) and not _is_text(series.cat.categories):
            series = series.astype(object)
        if series.dtype == object and by_row:
            series = series.map(cell_text, na_action="ignore").astype("string")
        elif series.dtype == object:
            held_type = pd.api.types.infer_dtype(series, skipna=True)
            if held_type == "mixed-integer-float":
                mixed.add(name)
            if held_type in _AS_TEXT:
                series = series.map(str, na_action="ignore")
            elif held_type not in _AS_IS:
                if held_type != "empty":
                    unreadable[name] = (
                        "holds values of several Python types, such as numbers and texts"
                    )
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
