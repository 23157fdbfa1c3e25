"""Turns a cell of the source into an integer code or a typed value, as SQL.

Takes a column of the spec and the DuckDB type of its cells; gives expressions that DuckDB evaluates row by row, out of
core. Invariant: the same value gives the same code whether it came as text, as a Parquet type or from pandas; what does
not fit the declared kind, or is not written as declared, gives NULL and never a guess. `schema.Column` says what codes
mean.
"""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from hashlib import blake2b
from typing import Any, Literal

from engine.periods import PERIODS, number_of, number_sql, seconds_of, unit
from engine.schema import (
    DATE_KINDS,
    NUMBER_KINDS,
    CodedUniverse,
    Column,
    Resolution,
    Writing,
    literal,
    quoted,
)

_SPACES = "\u00a0\u202f\u2009"
_APOSTROPHES = "\u2019"
_HAS_TIME = re.compile("%[HISMp]")


def cell_text(cell: Any) -> str:
    """A cell as a CSV would have it."""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() and abs(cell) < 2**53 else repr(cell)
    if isinstance(cell, datetime.datetime):
        return cell.isoformat(sep=" ")
    return "" if cell is None else str(cell)


def plain_sql(writing: Writing, kind: str, cell: str) -> str:
    """A cell of text as the engine reads it, NULL if it is not written as declared.

    kind: Kind, or type of values; only numbers and dates are written in several ways.
    """
    if kind in NUMBER_KINDS and (writing.decimal != "." or writing.thousands):
        bare = cell
        for sign in _thousands(writing):
            bare = f"replace({bare}, {literal(sign)}, '')"
        if writing.decimal != ".":
            bare = f"replace({bare}, {literal(writing.decimal)}, '.')"
        return f"CASE WHEN {is_written(writing, cell)} THEN {bare} END"
    if kind in DATE_KINDS and writing.date_format:
        shown = "%Y-%m-%d %H:%M:%S.%f" if _HAS_TIME.search(writing.date_format) else "%Y-%m-%d"
        moment = f"try_strptime({cell}, {literal(writing.date_format)})"
        if writing.has_short_years and writing.century:
            # As text: a 29 February that the century lacks is no date, then.
            first = int(writing.century[:4])
            year = f"{first} + (year({moment}) + {100 - first % 100}) % 100"
            return f"({year}) || strftime({moment}, {literal(shown.removeprefix('%Y'))})"
        if "%Y" in writing.date_format:  # 35 would be read as the year 35
            moment = f"CASE WHEN regexp_matches({cell}, '[0-9]{{4}}') THEN {moment} END"
        return f"strftime({moment}, {literal(shown)})"
    return cell


def is_written(writing: Writing, cell: str) -> str:
    """SQL that says whether a cell is a number written so."""
    decimal = re.escape(writing.decimal)
    whole = "[0-9]+"
    if writing.thousands:
        one = f"[{''.join(re.escape(sign) for sign in _thousands(writing))}]"
        whole = f"([0-9]+|[0-9]{{1,3}}({one}[0-9]{{3}})+)"
    pattern = f"[+-]?({whole}({decimal}[0-9]*)?|{decimal}[0-9]+)([eE][+-]?[0-9]+)?"
    return f"regexp_full_match({cell}, {literal(pattern)})"


def _thousands(writing: Writing) -> str:
    """The signs that may stand between thousands: spaces and apostrophes come in several kinds."""
    kinds = {" ": _SPACES, "'": _APOSTROPHES}
    return writing.thousands + kinds.get(writing.thousands, "")


CellClass = Literal[
    "text",
    "integer",
    "float",
    "decimal",
    "boolean",
    "date",
    "timestamp",
    "time",
    "nanoseconds",
    "zoned",
    "blob",
    "other",
]
"""What the DuckDB types come down to."""
CODE_LIMIT = 2**63 - 2
"""Codes of values lie between minus and plus this: the two below are taken."""

_CLASSES: dict[str, CellClass] = {
    **dict.fromkeys(("VARCHAR", "JSON", "UUID", '"NULL"'), "text"),
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"), "integer"),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"), "integer"),
    **dict.fromkeys(("FLOAT", "DOUBLE"), "float"),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS"), "timestamp"),
    **dict.fromkeys(("TIME", "TIME_NS"), "time"),
    "BOOLEAN": "boolean",
    "DATE": "date",
    "TIMESTAMP WITH TIME ZONE": "zoned",
    "TIMESTAMP_NS": "nanoseconds",
    "BLOB": "blob",
}
_DAY_US, _SECOND_US = 86_400_000_000, 1_000_000
_EXACT_FLOAT = 2**53
_NONE = "CAST(NULL AS BIGINT)"
"""Where a class of cells cannot hold such a value."""
_CLOCK = r"\s*[0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?( ?[AaPp][Mm])?\s*"
_CLOCK_FORMS = ["%H:%M:%S", "%H:%M", "%I:%M:%S %p", "%I:%M %p", "%I:%M:%S%p", "%I:%M%p"]


def cell_class(sql_type: str) -> CellClass:
    """Sort a DuckDB type name."""
    if sql_type.startswith("DECIMAL"):
        return "decimal"
    if sql_type.startswith("ENUM"):
        return "text"
    return _CLASSES.get(sql_type, "other")


def cell_sql(column: Column, sql_type: str) -> str:
    """The cell with every spelling of null as NULL: declared ones in text, NaN in floats."""
    cell, cell_type = quoted(column.name), cell_class(sql_type)
    if cell_type == "float":
        return f"CASE WHEN NOT isnan({cell}) THEN {cell} END"
    if cell_type != "text":
        return cell
    if sql_type != "VARCHAR":
        cell = f"CAST({cell} AS VARCHAR)"
    if not column.spellings:
        return cell
    return f"CASE WHEN {cell} NOT IN ({', '.join(map(literal, column.spellings))}) THEN {cell} END"


def value_sql(column: Column, sql_type: str, cell: str) -> str:
    """The typed value of a cell (NULL: it does not fit), for dictionaries and entity ids."""
    cell_type = cell_class(sql_type)
    if cell_type == "text":
        cell = plain_sql(column.writing, column.value_type, cell)
    match column.value_type:
        case "integer":
            return _within(_integer(cell_type, cell))
        case "real" | "decimal":
            number = _double(cell_type, cell)
            # Adding 0 turns -0.0 into 0.0.
            return f"CASE WHEN isfinite({number}) THEN {number} + 0.0 END"
        case "boolean":
            return f"({_boolean(cell_type, cell)} = 1)"
        case "date":
            return f"(DATE '1970-01-01' + CAST({_days(cell_type, cell)} AS INTEGER))"
        case "timestamp":
            return f"make_timestamp({_microseconds(cell_type, cell)})"
        case "time":
            return f"(TIME '00:00:00' + to_seconds({_seconds(cell_type, cell)}))"
        case _:
            return _text(cell_type, cell)


def id_sql(columns: Sequence[Column], types: Mapping[str, str], cells: Sequence[str]) -> str:
    """The typed id of an entity that columns name (NULL: one of them names none), as `joined_sql`."""
    return joined_sql(
        [value_sql(c, types[c.name], cell) for c, cell in zip(columns, cells, strict=True)]
    )


def joined_sql(values: Sequence[str]) -> str:
    """One value as it is; of several a text that no others give: before each stands its length."""
    if len(values) == 1:
        return values[0]
    texts = [f"CAST({value} AS VARCHAR)" for value in values]
    return "(" + " || ".join(f"length({text}) || ':' || {text}" for text in texts) + ")"


def code_sql(column: Column, sql_type: str, cell: str) -> str:
    """The grid code of a cell (NULL: it does not fit), for columns that are not ranked."""
    cell_type = cell_class(sql_type)
    if cell_type == "text":
        cell = plain_sql(column.writing, column.kind, cell)
    match column.kind:
        case "integer":
            code = _rounded(_integer(cell_type, cell), column.resolution)
            step = int(_resolution(column).step)
            if step > 1 and cell_type in ("text", "float", "decimal"):  # fractions are rounded too
                up = f"floor({_double(cell_type, cell)} / {step} + 0.5)"
                fits = f"abs({up}) <= {CODE_LIMIT}::DOUBLE AND NOT isnan({up})"
                code = f"coalesce({code}, CASE WHEN {fits} THEN TRY_CAST({up} AS BIGINT) END)"
        case "boolean":
            code = _boolean(cell_type, cell)
        case "date":
            code = _days(cell_type, cell)
        case "timestamp":
            code = _floor_division(_microseconds(cell_type, cell), _SECOND_US)
        case "time":
            code = _seconds(cell_type, cell)
        case "decimal" if _is_digits(column.resolution):
            code = _decimal(cell_type, cell, -_resolution(column).exponent)
        case _:
            code = _scaled(_double(cell_type, cell), _resolution(column))
    if period := _resolution(column).period:
        code = number_sql(code, column.kind, period)
    return _within(code)


def grid_code(column: Column, value: Any) -> int:
    """The grid code of one value of the spec, as `code_sql` gives for the same value in the source."""
    step = _resolution(column)
    if column.kind in PERIODS:
        moment = seconds_of(value)
        return number_of(moment, step.period) if step.period else moment // unit(column.kind)
    if column.kind in ("integer", "boolean"):
        return math.floor(int(value) / step.step + Fraction(1, 2))
    if column.kind == "decimal" and _is_digits(step):
        scaled = Decimal(str(value)).scaleb(-step.exponent)
        return int(scaled.quantize(Decimal(1), rounding=ROUND_HALF_UP))
    number = float(value)
    return round(Fraction(number * _factor(step) if step.exponent < 0 else number / _factor(step)))


def _resolution(column: Column) -> Resolution:
    return column.resolution or Resolution()


def _is_digits(step: Resolution | None) -> bool:
    """Whether the step is a number of decimal digits that a DECIMAL can hold."""
    return step is not None and step.base == 10 and -18 <= step.exponent <= 0


def _factor(step: Resolution) -> float:
    """What to multiply with (exponent below 0) or to divide by: exact for all steps in use."""
    return float(step.base ** abs(step.exponent))


def _floor_division(number: str, by: int) -> str:
    """Division downwards; DuckDB's own // cuts towards zero."""
    return f"(({number}) - ((({number}) % {by}) + {by}) % {by}) // {by}"


def _within(code: str) -> str:
    return f"CASE WHEN ({code}) BETWEEN {-CODE_LIMIT} AND {CODE_LIMIT} THEN {code} END"


def _integer(cell_type: CellClass, cell: str) -> str:
    """Whole numbers; a cast alone would round 15400.6."""
    match cell_type:
        case "text":
            exact = f"TRY_CAST({cell} AS DECIMAL(38, 18))"
            has_point = f"contains({cell}, '.') OR contains({cell}, 'e') OR contains({cell}, 'E')"
            return (
                f"CASE WHEN {has_point} THEN CASE WHEN {exact} = trunc({exact}) "
                f"THEN TRY_CAST({exact} AS BIGINT) END ELSE TRY_CAST({cell} AS BIGINT) END"
            )
        case "float":
            # Beyond 2**53 a float has lost the units: the number it holds need not be the one that was meant.
            is_exact = f"{cell} = trunc({cell}) AND abs({cell}) <= {_EXACT_FLOAT}"
            return f"CASE WHEN {is_exact} THEN TRY_CAST({cell} AS BIGINT) END"
        case "integer":
            return f"TRY_CAST({cell} AS BIGINT)"
        case "decimal":
            return f"CASE WHEN {cell} = trunc({cell}) THEN TRY_CAST({cell} AS BIGINT) END"
    return _NONE


def _rounded(number: str, step: Resolution | None) -> str:
    """Number of steps of a whole number, rounded half up."""
    if step is None or step.step == 1:
        return number
    wide = f"CAST({number} AS HUGEINT) + {step.step // 2}"
    return f"CAST({_floor_division(wide, int(step.step))} AS BIGINT)"


def _double(cell_type: CellClass, cell: str) -> str:
    """Numbers as floats; may be infinite or (from text) NaN."""
    if cell_type not in ("text", "float", "integer", "decimal"):
        return "CAST(NULL AS DOUBLE)"
    return f"TRY_CAST({cell} AS DOUBLE)"


def _scaled(number: str, step: Resolution) -> str:
    """Number of steps, rounded half to even; NULL for NaN, infinity and beyond 63 bits."""
    factor = f"CAST('{_factor(step)!r}' AS DOUBLE)"
    scaled = f"round_even({number} {'*' if step.exponent < 0 else '/'} {factor}, 0)"
    return f"CASE WHEN abs({scaled}) < 9223372036854774784 THEN TRY_CAST({scaled} AS BIGINT) END"


def _decimal(cell_type: CellClass, cell: str, digits: int) -> str:
    """Number of decimal steps, exactly, rounded half away from zero."""
    if cell_type not in ("text", "float", "integer", "decimal"):
        return _NONE
    # A float goes through its shortest spelling, so that 1.015 is the same number as in a text
    # file.
    text = f"CAST({cell} AS VARCHAR)" if cell_type == "float" else cell
    exact = f"TRY_CAST({text} AS DECIMAL(19, {digits}))"
    return f"TRY_CAST({exact} * CAST({10**digits} AS DECIMAL({digits + 1}, 0)) AS BIGINT)"


def _boolean(cell_type: CellClass, cell: str) -> str:
    """0 and 1."""
    match cell_type:
        case "text":
            return (
                f"CASE WHEN lower({cell}) IN ('true', 't', '1', '1.0') THEN 1 "
                f"WHEN lower({cell}) IN ('false', 'f', '0', '0.0') THEN 0 END"
            )
        case "integer" | "float" | "decimal":
            return f"CASE WHEN {cell} = 1 THEN 1 WHEN {cell} = 0 THEN 0 END"
        case "boolean":
            return f"CAST({cell} AS INTEGER)"
    return _NONE


def _days(cell_type: CellClass, cell: str) -> str:
    """Days since 1970; a moment counts only if it is midnight."""
    us = _microseconds(cell_type, cell)
    of_moment = f"CASE WHEN ({us}) % {_DAY_US} = 0 THEN ({us}) // {_DAY_US} END"
    day = f"TRY_CAST({cell} AS DATE)" if cell_type == "text" else cell
    of_day = f"CASE WHEN isfinite({day}) THEN {day} - DATE '1970-01-01' END"
    match cell_type:
        case "text":
            return f"CASE WHEN length({cell}) > 10 THEN {of_moment} WHEN {_has_year(cell)} THEN {of_day} END"
        case "date":
            return of_day
        case "timestamp" | "nanoseconds" | "zoned":
            return of_moment
    return _NONE


def _microseconds(cell_type: CellClass, cell: str) -> str:
    """Microseconds since 1970, UTC where an offset is given; NULL for infinite moments."""
    match cell_type:
        case "text":
            behind = f"substr({cell}, 11)"
            has_offset = (
                f"length({cell}) > 16 AND (contains({behind}, '+') OR contains({behind}, '-'))"
            )
            return (
                f"CASE WHEN NOT {_has_year(cell)} THEN NULL "
                f"WHEN {has_offset} THEN epoch_us(TRY_CAST({cell} AS TIMESTAMPTZ)) "
                f"ELSE epoch_us(TRY_CAST({cell} AS TIMESTAMP)) END"
            )
        case "date" | "timestamp":
            return f"epoch_us(CAST({cell} AS TIMESTAMP))"
        case "nanoseconds":
            return _floor_division(f"epoch_ns({cell})", 1000)
        case "zoned":
            return f"epoch_us({cell})"
    return _NONE


def _has_year(text: str) -> str:
    """SQL that says whether a date in ISO's form begins with a whole year: 35-01-31 would be one of the year 35."""
    return f"regexp_matches({text}, '^[-+\\s]*[0-9]{{4}}')"


def _seconds(cell_type: CellClass, cell: str) -> str:
    """Seconds since midnight, fractions cut; 24:00 is midnight, too."""
    if cell_type not in ("text", "time"):
        return _NONE
    moment = cell
    if cell_type == "text":
        whole = f"upper(regexp_replace(trim({cell}), '[.,][0-9]+', ''))"
        whole = f"regexp_replace({whole}, '^24:00(:00)?$', '00:00')"
        moment = f"try_strptime({whole}, [{', '.join(map(literal, _CLOCK_FORMS))}])"
        moment = f"CAST({moment} AS TIME)"
    seconds = f"epoch_us({moment}) // {_SECOND_US} % {_DAY_US // _SECOND_US}"
    if cell_type == "text":
        return f"CASE WHEN regexp_full_match({cell}, {literal(_CLOCK)}) THEN {seconds} END"
    return seconds


def _text(cell_type: CellClass, cell: str) -> str:
    """Text as it is; whole numbers without ".0", for pandas holds integers with nulls as floats."""
    if cell_type in ("text", "blob"):
        return cell
    if cell_type == "float":
        whole = f"{cell} = trunc({cell}) AND abs({cell}) <= {_EXACT_FLOAT}"
        return (
            f"CASE WHEN {whole} THEN CAST(TRY_CAST({cell} AS BIGINT) AS VARCHAR) "
            f"WHEN isfinite({cell}) THEN CAST({cell} AS VARCHAR) END"
        )
    return f"CAST({cell} AS VARCHAR)"


def encoding_digest(column: Column) -> str:
    """Digest of all that decides a column's codes, and how many rows of an entity count in a value of it."""
    parts: list[Any] = [
        column.kind,
        column.value_type,
        column.resolution.parts if column.resolution else None,
        # A declared domain orders the ranks, public or not; a value equal to the placeholder has none.
        [str(v) for v in column.domain] if column.domain is not None else None,
        column.public,
        column.placeholder if column.is_ranked else None,
    ]
    if column.max_rows is not None:
        parts.append(column.max_rows)
    if column.order and column.domain is None:
        parts.append(column.order)
    if column.levels or column.level_of:
        parts += [column.hierarchy, sorted(column.tree.items()), column.level_of]
    return blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def code_limits(column: Column) -> tuple[int, int] | None:
    """Smallest and largest code that rows inside a range may get: the declared ones, or the calendar's or the day's."""
    if column.bounds is not None:
        low, high = column.bounds
    elif column.value_type == "date" and not column.is_ranked:
        low, high = datetime.date.min, datetime.date.max
    elif column.value_type == "timestamp" and not column.is_ranked:
        low, high = datetime.datetime.min, datetime.datetime.max
    elif column.value_type == "time" and not column.is_ranked:
        low, high = datetime.time.min, datetime.time.max
    else:
        return None
    return grid_code(column, low), grid_code(column, high)


def coded_universes(columns: tuple[Column, ...]) -> dict[str, CodedUniverse]:
    """The declared universes, by the column that has one, with their limits as codes."""
    by_name = {column.name: column for column in columns}
    coded = {}
    for column in columns:
        universe = column.universe
        if universe is None:
            continue
        decider = by_name[universe.column]
        low, high = (
            None if limit is None else grid_code(decider, limit)
            for limit in (universe.low, universe.high)
        )
        coded[column.name] = CodedUniverse(declared=universe, low=low, high=high)
    return coded
