"""Frames of pandas, and what streams Arrow, registered as the relation `frame` of a confidential connection.

Each column has a type that says what it is, or is set aside with the reason: only a spec that uses it is refused.
Columns of Python objects become text, for DuckDB would guess their type from a sample of the rows. pandas, which is
slow to load, is loaded only where a frame of it is held.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import duckdb

from engine.errors import DataError, SpecError
from engine.source.encoding import cell_text
from engine.source.relation import Source

if TYPE_CHECKING:
    import pandas as pd

_NO_FRAME = (
    "source: must be a path, a data frame (pandas, polars) or an Arrow table, not {}; a single column becomes a frame "
    "with to_frame()"
)
# What pandas infers of objects that have a plain spelling each; of those that DuckDB reads as they are.
_AS_TEXT = frozenset(
    "integer floating mixed-integer-float decimal boolean date datetime datetime64 time interval period".split()
)
_AS_IS = frozenset({"string", "bytes"})


def register_frame(con: duckdb.DuckDBPyConnection, frame: Any, *, by_row: bool = False) -> Source:
    """Register a pandas DataFrame, or anything with an Arrow stream, as `frame`.

    by_row: Of Python objects each becomes a text by itself, whatever other rows hold.
    """
    pandas = sys.modules.get("pandas")  # a caller with a data frame has loaded it
    if pandas is not None and isinstance(frame, pandas.DataFrame):
        relation, found = _of_pandas(frame, by_row=by_row)
    elif hasattr(frame, "__arrow_c_stream__"):
        relation, found = _of_arrow(frame)
    else:
        raise SpecError(_NO_FRAME.format(type(frame).__name__))
    try:
        con.register("frame", relation)
        con.execute("DESCRIBE frame").fetchall()
        is_open = True
    except (duckdb.Error, TypeError, ValueError):
        is_open = False
    if not is_open:
        raise DataError("the data frame: has no columns, or a column of a type that cannot be read")
    return found


def _of_arrow(frame: Any) -> tuple[Any, Source]:
    """A table of a stream, so that it can be read more than once, with moments as the clocks of their zone show them.

    Of dictionaries that have an order of their own the values are kept in it.
    """
    try:
        import pyarrow as pa
        from pyarrow import compute
    except ImportError:
        pa = None
    if pa is None:
        raise SpecError('source: an Arrow object needs pyarrow: pip install "tablepack[arrow]"')
    try:
        table = frame if isinstance(frame, pa.Table) else pa.table(frame)
    except (pa.ArrowInvalid, TypeError, ValueError):  # a Series, or an array, streams no table
        table = None
    if table is None:
        raise SpecError(_NO_FRAME.format(type(frame).__name__))
    orders: dict[str, tuple[str, ...]] = {}
    for j, about in enumerate(table.schema):  # of one name there may be several
        held = about.type
        if pa.types.is_timestamp(held) and held.tz not in (None, "UTC"):
            table = table.set_column(j, about.name, compute.local_timestamp(table.column(j)))
        elif pa.types.is_dictionary(held) and held.ordered and "string" in str(held.value_type):
            chunks = table.column(j).unify_dictionaries().chunks
            orders[about.name] = tuple(chunks[0].dictionary.to_pylist()) if chunks else ()
    return table, Source(columns=tuple(table.column_names), types={}, orders=orders)


def _of_pandas(frame: pd.DataFrame, *, by_row: bool) -> tuple[pd.DataFrame, Source]:
    """Copy of the frame (sharing what it can) that DuckDB reads without guessing, and what is known of it."""
    import pandas as pd

    if not all(isinstance(name, str) for name in frame.columns):
        raise DataError("the data frame: column names must be text")
    unreadable: dict[str, str] = {}
    mixed: set[str] = set()
    columns: dict[str, Any] = {}
    orders: dict[str, tuple[str, ...]] = {}
    for position, name in enumerate(frame.columns):
        series = _as_taken(frame.iloc[:, position].reset_index(drop=True))
        held, problem = series.dtype, ""
        if isinstance(held, pd.CategoricalDtype):
            # Numbers and moments have an order anyway.
            if held.ordered and held.categories.dtype.kind not in "iufbMm":
                orders[name] = tuple(map(str, held.categories))
            if pd.api.types.infer_dtype(held.categories, skipna=False) != "string":
                series = series.astype(object)
        if series.dtype == object and by_row:
            series = series.map(cell_text, na_action="ignore").astype("string")
        elif series.dtype == object:
            inferred = pd.api.types.infer_dtype(series, skipna=True)
            if inferred == "mixed-integer-float":
                mixed.add(name)
            if inferred in _AS_TEXT:
                series = series.map(str, na_action="ignore")
            elif inferred == "empty":
                series = series.astype("string")
            elif inferred not in _AS_IS:
                problem = "holds values of several Python types, such as numbers and texts"
        elif not _is_readable(series):
            named = series.dtype.name.partition("[")[0]
            problem = f"holds values of the type {named}, which cannot be read"
        if problem:
            unreadable[name] = problem
            series = pd.Series([None] * len(series), dtype="string")
        columns[name] = series
    found = Source(
        columns=tuple(frame.columns),
        types={},
        unreadable=unreadable,
        mixed_numbers=frozenset(mixed),
        orders=orders,
    )
    return pd.DataFrame(columns), found


def _as_taken(series: Any) -> Any:
    """A column in a type that can be read, where its own has a plain counterpart.

    Moments with a zone become what the clocks of that zone showed, periods the day on which they begin, spans of
    time seconds, intervals texts.
    """
    import pandas as pd

    held = series.dtype
    if isinstance(held, pd.ArrowDtype):
        import pyarrow as pa

        is_zoned = pa.types.is_timestamp(held.pyarrow_dtype) and held.pyarrow_dtype.tz is not None
        return (
            series.dt.tz_localize(None) if is_zoned and held.pyarrow_dtype.tz != "UTC" else series
        )
    if isinstance(held, pd.CategoricalDtype):
        is_interval = isinstance(held.categories.dtype, pd.IntervalDtype)
        return (
            series.cat.rename_categories(list(map(str, held.categories))) if is_interval else series
        )
    if isinstance(held, pd.DatetimeTZDtype):
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


def _is_readable(series: pd.Series) -> bool:
    """Whether DuckDB has a type for it."""
    import pandas as pd

    types, dtype = pd.api.types, series.dtype
    return isinstance(dtype, pd.CategoricalDtype | pd.ArrowDtype) or (
        not types.is_complex_dtype(dtype)
        and (
            types.is_numeric_dtype(dtype)
            or types.is_string_dtype(dtype)
            or types.is_datetime64_any_dtype(dtype)
        )
    )
