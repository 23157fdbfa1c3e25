"""Looks at one column of an opened source: its kind, its spellings of null, its resolution.

Takes the relation `source` on a confidential connection; gives a `Column` marked as detected, with
remarks in plain words. Invariant: every decision compares a number of entities (rows, where no entity
is named) to a noisy threshold of its own: values, spellings of null, decimals, kinds. In doubt a column
is a category, and a remark says so.
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
)
from engine.source.detection.holders import list_cells
from engine.source.detection.resolution import detected_resolution
from engine.source.detection.shape import Shape, shape_of
from engine.source.detection.thresholds import MEAN, Thresholds
from engine.source.encoding import cell_class, cell_sql, value_sql
from engine.source.relation import fetch

MAX_VALUES = 30
"""Longest list of values that is written, as a comment."""
FEW_NUMBERS = 20
"""Numbers with no more usual values than this, and few others, may be codes: a category, in doubt."""
FEW_TEXTS = 100
"""Texts with no more usual values than this, and about as many people with others at most, are a category."""
_SLACK = MEAN - 2
"""A threshold beyond it tolerates ids that were entered twice in tiny data."""

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


def look_at(
    con: duckdb.DuckDBPyConnection,
    name: str,
    sql_type: str,
    entities: Sequence[str],
    *,
    is_entity: bool,
    thresholds: Thresholds,
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
    thresholds : Thresholds
        What numbers of entities are compared to.
    place : str
        What is being read, for messages.
    """
    list_cells(con, name, sql_type, entities, place)
    counts = _spellings(con, sql_type)
    written = [t for t, n in counts.items() if n >= thresholds.of("spelling", name, t)]
    spellings = _NULLS if sql_type == "VARCHAR" else ()
    shape = shape_of(con, name, sql_type, entities, thresholds, nulls=spellings)
    in_doubt: list[str] = []
    if sql_type == "VARCHAR" and not (
        shape.is_number or shape.is_date or shape.is_timestamp or shape.is_boolean
    ):
        in_doubt = [text for text in _IN_DOUBT if text in written]
        written = [text for text in written if text in _PLAIN_NULLS]
        shape = shape_of(con, name, sql_type, entities, thresholds, nulls=written)
    nulls = (*sorted(written), "")
    many = FEW_TEXTS + thresholds.of("distinct", name, "texts") - MEAN
    few = thresholds.of("distinct", name, "numbers")
    kind, value_type, doubts = _kind(sql_type, shape, few, many, is_entity=is_entity)
    if in_doubt:
        listed = ", ".join(f'"{text}"' for text in (*in_doubt, *nulls))
        doubts.append(f"in doubt: a value looks like a null; if it is one, add nulls = [{listed}]")
    resolution = None
    if kind in ("real", "decimal"):
        resolution, is_fixed = detected_resolution(con, name, sql_type, entities, kind, thresholds)
        kind = value_type = kind if is_fixed else "real"
        if resolution == Resolution() and not shape.is_whole:
            doubts.append(
                "in doubt: too few rows show decimals; say a finer resolution if it is public"
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
    enough = thresholds.of("values", name)
    values = _values(con, column, sql_type, enough) if kind == "category" else ()
    n_rows = int(fetch(con, "SELECT count(*) FROM source", _PLACE)[0][0])
    # 0.95: a key may have been entered twice. The other: people with many rows each.
    slack = max(thresholds.of("key", name) - _SLACK, 0)
    is_key = shape.n > 1 and (shape.n >= 0.95 * n_rows - slack or shape.n > many)
    return Look(column=column, values=values, remarks=tuple(doubts), is_key=is_key)


def _spellings(con: duckdb.DuckDBPyConnection, sql_type: str) -> dict[str, int]:
    """Cells of the fixed list of spellings of null, with the entities that hold them."""
    if sql_type != "VARCHAR":
        return {}
    listed = ", ".join(map(literal, _NULLS))
    return dict(fetch(con, f"SELECT cell, n FROM cells WHERE cell IN ({listed})", _PLACE))


def _kind(
    sql_type: str, shape: Shape, few: int, many: int, *, is_entity: bool
) -> tuple[ColumnKind, ValueType, list[str]]:
    """Kind, type of values, and what is in doubt.

    Parameters
    ----------
    few, many : int
        A category of numbers, or of texts, has fewer entities with rare values.
    """
    has_zeros = shape.has_leading_zero and cell_class(sql_type) == "text"
    is_code = shape.is_number and (has_zeros or shape.is_huge)
    if is_entity:
        return (
            ("integer", "integer", []) if shape.is_whole and not is_code else ("text", "text", [])
        )
    if shape.is_empty and cell_class(sql_type) == "text":
        return "category", "text", ["in doubt: all cells are null, or nearly all"]
    if shape.is_boolean:
        return "boolean", "boolean", []
    if shape.is_number and not is_code:
        if shape.n_usual <= FEW_NUMBERS and shape.n_with_rare < few:
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
    is_list = shape.n_usual <= FEW_TEXTS and shape.n_with_rare < many
    if is_list or sql_type.startswith("ENUM"):
        return "category", "text", doubts
    return "text", "text", doubts


def _values(
    con: duckdb.DuckDBPyConnection, column: Column, sql_type: str, enough: int
) -> tuple[Any, ...]:
    """Values that enough entities hold, ascending; none if they are too many to list."""
    probe = Column(name="cell", kind=column.kind, value_type=column.value_type, nulls=column.nulls)
    held_type = "VARCHAR" if cell_class(sql_type) == "text" else sql_type
    value = value_sql(probe, held_type, cell_sql(probe, held_type))
    rows = fetch(
        con,
        f"SELECT {value} AS v FROM cells GROUP BY v HAVING v IS NOT NULL AND max(n) >= {enough} "
        f"ORDER BY v LIMIT {MAX_VALUES + 1}",
        _PLACE,
    )
    return tuple(v for (v,) in rows) if len(rows) <= MAX_VALUES else ()
