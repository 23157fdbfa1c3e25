"""Registers a pandas or Arrow object as the relation `frame` of a confidential connection.

Takes what a Python user holds; gives columns whose DuckDB type says what they are. Columns of
Python objects become text, for DuckDB would guess their type from a sample of the rows;
those that hold several types, or types without a counterpart, are set aside with the reason: only a
spec that uses them is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
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
        "time",
        "interval",
        "period",
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
    orders : dict
        The values of ordered categoricals, in their order, by column.
    """

    columns: tuple[str, ...]
    unreadable: dict[str, str]
    mixed_numbers: frozenset[str]
    orders: dict[str, tuple[str, ...]] = field(default_factory=dict)


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
        orders = {str(name): _order(frame[name]) for name in names if _is_ordered(frame[name])}
        relation: Any = prepared
    elif hasattr(frame, "__arrow_c_stream__"):
        relation = _arrow_table(frame)
        names, unreadable, mixed = tuple(relation.column_names), {}, frozenset()
        relation, orders = _in_local_time(relation), _arrow_orders(relation)
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
    return Frame(columns=names, unreadable=unreadable, mixed_numbers=mixed, orders=orders)


def _arrow_table(frame: Any) -> Any:
    """Hold a stream as a table, so that it can be read more than once."""
    try:
        import pyarrow as pa
    except ImportError:
        pa = None
    if pa is None:
        raise SpecError('source: an Arrow object needs pyarrow: pip install "tablepack[arrow]"')
    return frame if isinstance(frame, pa.Table) else pa.table(frame)


def _in_local_time(table: Any) -> Any:
    """Show moments with a zone as the clocks of that zone did."""
    import pyarrow as pa
    from pyarrow import compute

    for position, about in enumerate(table.schema):
        if pa.types.is_timestamp(about.type) and about.type.tz not in (None, "UTC"):
            shown = compute.local_timestamp(table.column(position))
            table = table.set_column(position, about.name, shown)
    return table


def _arrow_orders(table: Any) -> dict[str, tuple[str, ...]]:
    """The values of ordered dictionaries of texts, in their order."""
    import pyarrow as pa

    orders = {}
    for position, about in enumerate(table.schema):  # of one name there may be several
        held = about.type
        is_ordered = pa.types.is_dictionary(held) and held.ordered
        if is_ordered and str(held.value_type) in ("string", "large_string"):
            chunks = table.column(position).unify_dictionaries().chunks
            orders[str(about.name)] = tuple(chunks[0].dictionary.to_pylist()) if chunks else ()
    return orders


def _is_ordered(series: Any) -> bool:
    """Whether a column is a categorical whose values have an order of their own."""
    held = getattr(series, "dtype", None)  # columns of one name are a frame, refused later
    return isinstance(held, pd.CategoricalDtype) and bool(held.ordered) and not _is_number(held)


def _is_number(held: pd.CategoricalDtype) -> bool:
    """Whether the values of a categorical have an order anyway."""
    return held.categories.dtype.kind in "iufbMm"


def _order(series: pd.Series) -> tuple[str, ...]:
    """The values of a categorical as texts, in their order."""
    return tuple(str(value) for value in series.cat.categories)


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


def _prepared(frame: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, str], frozenset[str]]:
    """Copy of the frame (sharing what it can) that DuckDB reads without guessing."""
    if not all(isinstance(name, str) for name in frame.columns):
        raise DataError("the data frame: column names must be text")
    unreadable: dict[str, str] = {}
    mixed: set[str] = set()
    columns: dict[str, Any] = {}
    for position, name in enumerate(frame.columns):
        series = _as_taken(frame.iloc[:, position].reset_index(drop=True))
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
