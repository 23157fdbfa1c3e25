"""Registers a pandas or Arrow object as the relation `frame` of a confidential connection.

Takes what a Python user holds; gives columns whose DuckDB type says what they are; what cannot be read is set aside
with the reason: only a spec that uses it is refused. pandas is loaded only where a frame of it is held.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

import duckdb

from engine.errors import DataError, SpecError

_NO_FRAME = (
    "source: must be a path, a data frame (pandas, polars) or an Arrow table, not {}; a single column becomes a frame "
    "with to_frame()"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """A registered frame."""

    columns: tuple[str, ...] = ()
    # Columns set aside (all null in the relation), with the reason.
    unreadable: dict[str, str] = field(default_factory=dict)
    # Columns of Python objects that hold both int and float.
    mixed_numbers: frozenset[str] = frozenset()
    # The values of ordered categoricals, in their order, by column.
    orders: dict[str, tuple[str, ...]] = field(default_factory=dict)


def register_frame(con: duckdb.DuckDBPyConnection, frame: Any, *, by_row: bool = False) -> Frame:
    """Register a pandas DataFrame, or anything with an Arrow stream, as `frame`; `by_row` as in `prepared`."""
    relation: Any
    pandas = sys.modules.get("pandas")  # slow to load; a caller with a data frame has loaded it
    if pandas is not None and isinstance(frame, pandas.DataFrame):
        from engine.source.forms.dataframe import orders_of, prepared

        relation, unreadable, mixed = prepared(frame, by_row=by_row)
        names, orders = tuple(frame.columns), orders_of(frame)
    elif hasattr(frame, "__arrow_c_stream__"):
        relation = _arrow_table(frame)
        names, unreadable, mixed = tuple(relation.column_names), {}, frozenset()
        relation, orders = _in_local_time(relation), _arrow_orders(relation)
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
    return Frame(columns=names, unreadable=unreadable, mixed_numbers=mixed, orders=orders)


def _arrow_table(frame: Any) -> Any:
    """Hold a stream as a table, so that it can be read more than once."""
    try:
        import pyarrow as pa
    except ImportError:
        pa = None
    if pa is None:
        raise SpecError('source: an Arrow object needs pyarrow: pip install "tablepack[arrow]"')
    try:
        return frame if isinstance(frame, pa.Table) else pa.table(frame)
    except (pa.ArrowInvalid, TypeError, ValueError):  # a Series, or an array, streams no table
        pass
    raise SpecError(_NO_FRAME.format(type(frame).__name__))


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
