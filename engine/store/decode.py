"""From codes back to values: what a released `(kind, code)` pair means in Python and in SQL.

Takes a `Support` and gives its values, their SQL type, and a carrier: a numpy array that DuckDB converts to the
typed value with one expression, so that a whole table is decoded without a Python loop over rows.
Reals are correctly rounded (one division of integers), decimals exact; dates and times outside Python's years 1 to
9999 are kept.
Invariant: position i of everything returned belongs to code i of the support.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.periods import starts_of, unit
from engine.schema import (
    DEFAULT_PLACEHOLDER,
    KIND_NONNEGATIVE,
    KIND_NULL,
    KIND_OTHER,
    SQL_TYPES,
    BoolArray,
    Column,
    Prefix,
    Resolution,
    Support,
)

DECIMAL_DIGITS = 18
"""Digits of a DECIMAL that DuckDB stores in 64 bits; wider ones get 38."""
_FIRST_DAY = datetime.date(1970, 1, 1)
_FIRST_SECOND = datetime.datetime(1970, 1, 1)
_LAST_SECOND = 86_399
_INT64 = np.iinfo(np.int64)
_EXACT = 2**53
"""Integers up to here are exact as floats."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Carrier:
    """The values of a support as an array that numpy indexes and an SQL expression that gives them their type."""

    array: NDArray[Any]  # shape (n_values,): Raw values; arbitrary where `is_null`
    is_null: BoolArray  # shape (n_values,): The code has no value
    sql_type: str  # Type of the value in the release
    expression: str  # SQL for the value; `{}` stands for the carrier

    @property
    def has_nulls(self) -> bool:
        """Whether some code has no value."""
        return bool(self.is_null.any())


def sql_type(column: Column) -> str:
    """Return the SQL type of a column by its declaration alone."""
    if column.value_type != "decimal":
        return SQL_TYPES[column.value_type]
    digits = 0
    if column.resolution is not None:
        digits = max(0, -column.resolution.exponent)
    elif column.domain is not None:
        digits = _fraction_digits(column.domain)
    return f"DECIMAL({DECIMAL_DIGITS if digits <= 15 else 38},{digits})"


def support_type(support: Support) -> str:
    """Return the SQL type that holds every released value of a column.

    The same as `sql_type`, except for integers beyond 64 bits (HUGEINT) and decimals of more than 18
    digits or of an undeclared resolution.
    """
    column = support.column
    if column.value_type == "integer" and support.values is not None:
        wide = any(not _INT64.min <= int(v) <= _INT64.max for v in support.values.values())
        return "HUGEINT" if wide else "BIGINT"
    if column.value_type != "decimal":
        return sql_type(column)
    values = [v for v in decode_values(support) if v is not None]
    declared = int(sql_type(column).rstrip(")").split(",")[1])
    digits = max(declared, _fraction_digits(values))
    whole = max((len(str(abs(int(v)))) for v in values), default=1)
    return f"DECIMAL({DECIMAL_DIGITS if whole + digits <= DECIMAL_DIGITS else 38},{digits})"


def decode_values(support: Support) -> list[Any]:
    """Return the Python value of every code, in the support's order.

    Returns: None for null; the placeholder for the unreleased values of a ranked column (None if the column is not
    text and has none), or a prefix with its mark; dates and times outside the years 1 to 9999 as `numpy.datetime64`.
    """
    column = support.column
    other = column.placeholder
    if other is None and column.value_type == "text":
        other = DEFAULT_PLACEHOLDER
    mark = prefix_mark((support.values or {}).values())
    values: list[Any] = []
    for kind, code in zip(support.kind.tolist(), support.grid.tolist(), strict=True):
        if kind == KIND_NULL:
            values.append(None)
        elif kind == KIND_OTHER:
            values.append(other)
        elif support.values is not None:
            value = support.values[code]
            values.append(value.text + mark if isinstance(value, Prefix) else value)
        else:
            values.append(grid_value(column, code))
    return values


def hides(support: Support) -> BoolArray:
    """Which values are prefixes that stand for hidden ones."""
    codes = [code for code, value in (support.values or {}).items() if isinstance(value, Prefix)]
    out: BoolArray = (support.kind == KIND_NONNEGATIVE) & np.isin(support.grid, codes)
    return out


def prefix_mark(values: Iterable[Any]) -> str:
    """What follows a prefix that stands for hidden values: more asterisks than any released value ends with."""
    texts = (value for value in values if isinstance(value, str))
    return "*" * (1 + max((len(text) - len(text.rstrip("*")) for text in texts), default=0))


def carrier(support: Support) -> Carrier:
    """Return the support's values in the form in which they are passed to DuckDB."""
    if (plain := _plain_carrier(support)) is not None:
        return plain
    values = decode_values(support)
    is_null = np.array([v is None for v in values], dtype=np.bool_)
    type_ = support_type(support)
    array: NDArray[Any]
    expression = "{}"
    if type_ == "BIGINT":
        array = np.array([0 if v is None else int(v) for v in values], dtype=np.int64)
    elif type_ == "BOOLEAN":
        array = np.array([0 if v is None else int(v) for v in values], dtype=np.int64)
        expression = "CAST({} AS BOOLEAN)"
    elif type_ == "DOUBLE":
        array = np.array([0.0 if v is None else float(v) for v in values], dtype=np.float64)
    else:  # an object array even if all values have the same length
        array = np.empty(len(values), dtype=np.object_)
        array[:] = [None if v is None else as_text(v) for v in values]
        expression = f"CAST({{}} AS {type_})"
    return Carrier(array=array, is_null=is_null, sql_type=type_, expression=expression)


def _plain_carrier(support: Support) -> Carrier | None:
    """The same for values that are computed from their codes, of which there may be millions; otherwise None."""
    column, grid = support.column, support.grid
    array: NDArray[Any] = grid
    is_null = support.kind == KIND_NULL
    if column.placeholder is None:
        is_null |= support.kind == KIND_OTHER
    expression = "{}"
    if column.resolution is not None and column.resolution.period:
        array = starts_of(grid, column.resolution.period) // unit(column.kind)
    if column.kind == "date":
        expression = "(DATE '1970-01-01' + CAST({} AS INTEGER))"
    elif column.kind == "timestamp":
        expression = "make_timestamp({} * 1000000)"
    elif column.kind == "time":
        expression = "(TIME '00:00:00' + to_seconds({}))"
    elif column.kind == "real" and column.resolution is not None and sql_type(column) == "DOUBLE":
        scale = column.resolution.base ** abs(column.resolution.exponent)
        largest = max(int(grid.max(initial=0)), -int(grid.min(initial=0)), scale)
        if column.resolution.exponent >= 0 or largest > _EXACT:
            return None
        array = grid / scale  # correctly rounded, since floats represent both integers exactly
    else:
        return None
    return Carrier(
        array=array,
        is_null=is_null,
        sql_type=support_type(support),
        expression=expression,
    )


def grid_value(column: Column, code: int) -> Any:
    """Return the value of one grid code; exact, or correctly rounded for reals."""
    if column.kind == "boolean":
        return bool(code)
    step = column.resolution or Resolution()
    if step.period:
        code = int(starts_of(np.array(code), step.period)) // unit(column.kind)
    if column.kind == "date":
        try:
            return _FIRST_DAY + datetime.timedelta(days=code)
        except OverflowError:
            return np.datetime64(code, "D")
    if column.kind == "timestamp":
        try:
            return _FIRST_SECOND + datetime.timedelta(seconds=code)
        except OverflowError:
            return np.datetime64(code, "s")
    if column.kind == "time":  # the last range of the grid is longer than the day
        return (_FIRST_SECOND + datetime.timedelta(seconds=min(code, _LAST_SECOND))).time()
    if column.kind == "real":
        scale = step.base ** abs(step.exponent)
        # Python divides integers, and converts them to float, with correct rounding.
        return code / scale if step.exponent < 0 else float(code * scale)
    if column.kind == "decimal":
        with decimal.localcontext(prec=60):
            return decimal.Decimal(code).scaleb(step.exponent)
    return code * int(step.step)


def _fraction_digits(values: Sequence[Any]) -> int:
    """Return the largest number of decimal places."""
    exponents = (decimal.Decimal(str(v)).as_tuple().exponent for v in values)
    return max((-e for e in exponents if isinstance(e, int) and e < 0), default=0)


def as_text(value: Any) -> str:
    """Return the text that DuckDB casts back to a value."""
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    return str(value)
