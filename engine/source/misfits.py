"""Says why cells do not fit what the spec declares, once `ingest` knows that some do not.

Takes a column of the relation `source`; gives sentences for a `DataError`. Invariant: a sentence names the column,
the rule and a way out, never a value of the data nor how many there are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.schema import DATE_KINDS, NUMBER_KINDS, Column
from engine.source.encoding import CODE_LIMIT, cell_class, cell_sql, code_sql, value_sql
from engine.source.relation import Source

_KIND_WORDS = {
    "integer": "whole numbers",
    "real": "numbers",
    "decimal": "decimal numbers",
    "boolean": "true, false, 1 or 0",
    "date": "dates (YYYY-MM-DD)",
    "timestamp": "timestamps (YYYY-MM-DD HH:MM:SS)",
    "time": "times of day (HH:MM:SS, HH:MM or HH:MM AM)",
    "text": "text",
}


Flags = Callable[[str], list[tuple[Any, ...]]]
"""Gives one row of what a SELECT of aggregated flags over the relation `source` finds."""
N_FLAGS = 4
"""Flags that are asked for at a time."""


def why_unfit(look: Flags, source: Source, column: Column, *, is_entity: bool) -> list[str]:
    """Say what is wrong with the cells of a column of the relation `source`.

    Returns: One sentence a fault; none holds a value of the data or a number of rows.
    """
    sql_type = source.types[column.name]
    cell, cell_type = cell_sql(column, sql_type), cell_class(sql_type)
    is_list = column.is_ranked or is_entity
    code = (value_sql if is_list else code_sql)(column, sql_type, cell)
    wanted = column.value_type if is_list else column.kind
    is_infinite = f"lower(trim(CAST({cell} AS VARCHAR), ' +-')) IN ('inf', 'infinity')"
    big = _is_too_large(cell_type, wanted, cell)
    has_null, has_infinite, has_big, has_other = look(
        f"SELECT bool_or({cell} IS NULL), bool_or({cell} IS NOT NULL AND {code} IS NULL AND {is_infinite}), "
        f"bool_or({cell} IS NOT NULL AND {code} IS NULL AND NOT {is_infinite} AND {big}), "
        f"bool_or({cell} IS NOT NULL AND {code} IS NULL AND NOT {is_infinite} AND NOT {big}) "
        "FROM source"
    )[0]
    problems = []
    place = f"column {column.name!r}"
    if is_entity and has_null:
        problems.append(f"{place}: an entity id is null; every row must name its entity")
    if has_infinite:
        problems.append(
            f"{place}: holds infinite values; write them as null or leave these rows out"
        )
    if has_big:
        problems.append(_too_large(place, wanted, cell_type))
    if has_other:
        problems.append(
            f"{place}: holds values that are not {_kind_words(column, wanted, cell_type)}, as declared or detected "
            f'({"type" if is_list else "kind"} = "{wanted}"); declare another kind, such as "category" or '
            f'"text", or add the spelling of null to "nulls"{_other_writing(wanted, cell_type)}'
        )
    return problems


def _kind_words(column: Column, wanted: str, cell_type: str) -> str:
    """What cells should be, and how they should be written."""
    date_format = column.writing.date_format
    if wanted in DATE_KINDS and cell_type == "text" and date_format:
        years = f" in the years {column.writing.century}" if column.writing.has_short_years else ""
        return f'{wanted}s written as date_format = "{date_format}" has it{years}'
    return _KIND_WORDS[wanted]


def _other_writing(wanted: str, cell_type: str) -> str:
    """The way out where text is what the spec declares, and only written otherwise."""
    if cell_type != "text" or wanted not in (*DATE_KINDS, *NUMBER_KINDS):
        return ""
    keys = 'date_format, such as "%d.%m.%Y"' if wanted in DATE_KINDS else 'decimal, such as ","'
    return f"; written in another way, they want {keys}, in [source] or in the column's section"


def _is_too_large(cell_type: str, wanted: str, cell: str) -> str:
    """Condition: a cell that has no code is a number all the same."""
    if wanted not in NUMBER_KINDS or cell_type not in (
        "text",
        "float",
        "integer",
        "decimal",
    ):
        return "false"
    if cell_type == "integer":
        return "true"
    # A text such as "1e400" overflows to infinity: it is a number too large, not one that is
    # infinite.
    number = f"TRY_CAST({cell} AS DOUBLE)"
    least = (
        {"text": CODE_LIMIT, "decimal": CODE_LIMIT, "float": 2**53}[cell_type]
        if wanted == "integer"
        else 0
    )
    return f"coalesce(NOT isnan({number}) AND abs({number}) >= {least}::DOUBLE, false)"


def _too_large(place: str, wanted: str, cell_type: str) -> str:
    if wanted == "integer" and cell_type == "float":
        return (
            f"{place}: holds whole numbers beyond 2**53 (or infinite ones) as floating-point numbers, "
            "which cannot tell them apart; read them as integers or as text"
        )
    return f"{place}: holds numbers beyond 63 bits of its resolution; use a coarser one, or text"
