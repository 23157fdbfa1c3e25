"""Looks at one column of an opened source: its kind, its spellings of null, its resolution.

Takes the relation `source` on a confidential connection; gives a `Column` marked as detected, with
remarks in plain words. Invariant: what is written anywhere was shown by at least `THRESHOLD`
entities (rows, where no entity is named): values, spellings of null, decimals. In doubt a column is
a category, and a remark says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from engine.schema import (
    DEFAULT_PLACEHOLDER,
    Column,
    ColumnKind,
    Resolution,
    ValueType,
    literal,
    quoted,
)
from engine.source.detection.resolution import NUMBER_PATTERN, THRESHOLD, detected_resolution
from engine.source.encoding import cell_class, cell_sql, code_sql, value_sql
from engine.source.relation import fetch

MAX_VALUES = 30
"""Longest list of values that is written, as a comment."""
FEWNUMBER_PATTERNS = 20
"""Whole numbers with no more distinct values than this may be codes: a category, in doubt."""
FEW_TEXTS = 100
"""Texts with no more distinct values than this are a category."""

_PLACE = "the source"
_PLAIN_NULLS = (
    "NA",
    "N/A",
    "n/a",
    "#N/A",
    "<NA>",
    "null",
    "NULL",
    "Null",
    "NaN",
    "nan",
    "NaT",
)
"""Mean null in any column."""
_IN_DOUBT = ("None", "none", "na", ".", "..", "-", "--", "?", "*", "missing")
"""Mean null where all other cells are numbers or dates; among texts they may be values like any other."""
_NULLS = (*_PLAIN_NULLS, *_IN_DOUBT, "N", "n")
"""All of them; N among texts says no."""
_WHOLE = r"[+-]?[0-9]+(\.0*)?"
_TRUTH = ("true", "false", "t", "f")


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """What is detected of one column.

    Attributes
    ----------
    values : tuple
        Its values, ascending, if all that enough entities hold fit into a short list; else empty.
        Confidential until someone has confirmed them.
    remarks : tuple of str
        In plain words; no value, no number of the data.
    is_key : bool
        Has (nearly) as many distinct values as rows, or many: can name entities.
    """

    column: Column
    values: tuple[Any, ...]
    remarks: tuple[str, ...]
    is_key: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class _Shape:
    """Facts of the distinct cells that are not a spelling of null."""

    n: int
    is_whole: bool
    is_huge: bool
    is_number: bool
    is_boolean: bool
    is_date: bool
    is_timestamp: bool
    has_leading_zero: bool
    has_fixed_digits: bool


def look_at(
    con: duckdb.DuckDBPyConnection,
    name: str,
    sql_type: str,
    entities: Sequence[str],
    *,
    is_entity: bool,
    place: str = _PLACE,
) -> Look:
    """Detect one column of the relation `source`.

    Parameters
    ----------
    sql_type : str
        Its DuckDB type.
    entities : sequence of str
        Entity columns; empty: each row is one.
    is_entity : bool
        The column itself names entities: then only numbers and texts are told apart.
    place : str
        What is being read, for messages.
    """
    _list_cells(con, name, sql_type, entities, place)
    null_counts = _spellings(con, sql_type)
    shape = _shape(con, sql_type, null_counts)
    in_doubt: list[str] = []
    if sql_type == "VARCHAR" and not (
        shape.is_number or shape.is_date or shape.is_timestamp or shape.is_boolean
    ):
        in_doubt = [text for text in _IN_DOUBT if null_counts.get(text, 0) >= THRESHOLD]
        null_counts = {
            text: n for text, n in null_counts.items() if text in _PLAIN_NULLS and n >= THRESHOLD
        }
        shape = _shape(con, sql_type, null_counts)
    nulls = (*sorted((text for text, n in null_counts.items() if n >= THRESHOLD)), "")
    kind, value_type, doubts = _kind(sql_type, shape, is_entity=is_entity)
    if in_doubt:
        listed = ", ".join(f'"{text}"' for text in (*in_doubt, *nulls))
        doubts.append(f"in doubt: a value looks like a null; if it is one, add nulls = [{listed}]")
    resolution = None
    if kind in ("real", "decimal"):
        resolution, is_fixed = detected_resolution(con, name, sql_type, entities, kind)
        kind = value_type = kind if is_fixed else "real"
        if resolution == Resolution() and not shape.is_whole:
            doubts.append(
                "in doubt: too few rows show decimals; say a finer resolution if it is public"
            )
    if any(n < THRESHOLD for n in null_counts.values()) and shape.n:
        doubts.append(
            "a few cells look like null in another spelling: if the build stops there, add it to nulls"
        )
    is_ranked = kind in ("category", "text")
    column = Column(
        name=name,
        kind=kind,
        value_type=value_type,
        resolution=resolution,
        detected=("kind", "resolution") if resolution else ("kind",),
        nulls=nulls,
        placeholder=DEFAULT_PLACEHOLDER if is_ranked and value_type == "text" else None,
    )
    values = _values(con, column, sql_type) if kind == "category" else ()
    n_rows = int(fetch(con, "SELECT count(*) FROM source", _PLACE)[0][0])
    # 0.95: a key may have been entered twice. FEW_TEXTS: people with many rows each.
    is_key = shape.n > 1 and (shape.n >= 0.95 * n_rows or shape.n > FEW_TEXTS)
    return Look(column=column, values=values, remarks=tuple(doubts), is_key=is_key)


def _list_cells(
    con: duckdb.DuckDBPyConnection, name: str, sql_type: str, entities: Sequence[str], place: str
) -> None:
    """Make the table `cells(cell, n)`: distinct cells that are not null or empty, and how many entities hold each."""
    cell = cell_sql(Column(name=name, kind="text", value_type="text"), sql_type)
    counts = [f"count(DISTINCT {quoted(entity)})" for entity in entities]
    n = (
        "count(*)"
        if not counts
        else counts[0]
        if len(counts) == 1
        else f"least({', '.join(counts)})"
    )
    fetch(
        con,
        "CREATE OR REPLACE TABLE cells AS SELECT * FROM "
        f"(SELECT {cell} AS cell, {n} AS n FROM source GROUP BY ({cell})) WHERE cell IS NOT NULL",
        place,
    )


def _spellings(con: duckdb.DuckDBPyConnection, sql_type: str) -> dict[str, int]:
    """Cells of the fixed list of spellings of null, with the entities that hold them."""
    if sql_type != "VARCHAR":
        return {}
    listed = ", ".join(map(literal, _NULLS))
    return dict(fetch(con, f"SELECT cell, n FROM cells WHERE cell IN ({listed})", _PLACE))


def _shape(con: duckdb.DuckDBPyConnection, sql_type: str, null_counts: dict[str, int]) -> _Shape:
    """What all other cells have in common."""
    cell_type = cell_class(sql_type)

    def fits(kind: ColumnKind) -> str:
        probe = Column(
            name="cell", kind=kind, value_type="integer", resolution=Resolution(exponent=-2)
        )
        return (
            f"{code_sql(probe, 'VARCHAR' if cell_type == 'text' else sql_type, 'cell')} IS NOT NULL"
        )

    text = "CAST(cell AS VARCHAR)"
    dashed = (
        "true" if cell_type != "text" else f"regexp_matches({text}, '^[0-9]+[-/][0-9]+[-/][0-9]+')"
    )
    tests = [
        f"({fits('integer')}) AND regexp_full_match({text}, {literal(_WHOLE)})"
        if cell_type == "text"
        else fits("integer"),
        f"regexp_full_match({text}, {literal(_WHOLE)})"
        if cell_type == "text"
        else str(cell_type == "integer"),
        f"regexp_full_match({text}, {literal(NUMBER_PATTERN)}) AND isfinite(TRY_CAST(cell AS DOUBLE))"
        if cell_type == "text"
        else "true"
        if cell_type in ("integer", "float", "decimal")
        else "false",
        f"lower({text}) IN ({', '.join(map(literal, _TRUTH))})"
        if cell_type == "text"
        else str(cell_type == "boolean"),
        f"({fits('date')}) AND {dashed}",
        f"({fits('timestamp')}) AND {dashed}",
        f"NOT regexp_full_match({text}, '[+-]?0[0-9]+.*')",
    ]
    outside = f"cell NOT IN ({', '.join(map(literal, null_counts))})" if null_counts else "true"
    row = fetch(
        con,
        f"SELECT count(*), {', '.join(f'coalesce(bool_and({test}), false)' for test in tests)}, "
        f"count(DISTINCT length(split_part({text}, '.', 2))) = 1 FROM cells WHERE {outside}",
        _PLACE,
    )[0]
    n, is_whole, is_like_whole, is_number, is_boolean, is_date, is_timestamp, no_zero, is_fixed = (
        row
    )
    return _Shape(
        n=int(n),
        is_whole=bool(is_whole),
        is_huge=bool(is_like_whole) and not is_whole,
        is_number=bool(is_number),
        is_boolean=bool(is_boolean),
        is_date=bool(is_date),
        is_timestamp=bool(is_timestamp),
        has_leading_zero=not no_zero,
        has_fixed_digits=bool(is_fixed),
    )


def _kind(
    sql_type: str, shape: _Shape, *, is_entity: bool
) -> tuple[ColumnKind, ValueType, list[str]]:
    """Kind, type of values, and what is in doubt."""
    has_zeros = shape.has_leading_zero and cell_class(sql_type) == "text"
    is_code = shape.is_number and (has_zeros or shape.is_huge)
    if is_entity:
        return (
            ("integer", "integer", []) if shape.is_whole and not is_code else ("text", "text", [])
        )
    if shape.n == 0:
        return "category", "text", ["in doubt: all cells are null"]
    if shape.is_boolean:
        return "boolean", "boolean", []
    if shape.is_number and not is_code:
        if shape.n <= FEWNUMBER_PATTERNS:
            doubt = 'in doubt: numbers, but few different ones; if they are amounts, not codes, say kind = "{}"'
            if shape.is_whole:
                return "category", "integer", [doubt.format("integer")]
            return "category", "real", [doubt.format("real") + " and a resolution"]
        if shape.is_whole:
            return "integer", "integer", []
        cell_type = cell_class(sql_type)
        if cell_type == "decimal" or (cell_type == "text" and shape.has_fixed_digits):
            return "decimal", "decimal", []
        return "real", "real", []
    if shape.is_date:
        return "date", "date", []
    if shape.is_timestamp:
        return "timestamp", "timestamp", []
    doubts = (
        ["digits with leading zeros, or too many for a number: codes, kept as text"]
        if is_code
        else []
    )
    if shape.n <= FEW_TEXTS or sql_type.startswith("ENUM"):
        return "category", "text", doubts
    return "text", "text", doubts


def _values(con: duckdb.DuckDBPyConnection, column: Column, sql_type: str) -> tuple[Any, ...]:
    """Values that enough entities hold, ascending; none if they are too many to list."""
    probe = Column(name="cell", kind=column.kind, value_type=column.value_type, nulls=column.nulls)
    held_type = "VARCHAR" if cell_class(sql_type) == "text" else sql_type
    value = value_sql(probe, held_type, cell_sql(probe, held_type))
    rows = fetch(
        con,
        f"SELECT {value} AS v FROM cells GROUP BY v HAVING v IS NOT NULL AND max(n) >= {THRESHOLD} "
        f"ORDER BY v LIMIT {MAX_VALUES + 1}",
        _PLACE,
    )
    return tuple(v for (v,) in rows) if len(rows) <= MAX_VALUES else ()
