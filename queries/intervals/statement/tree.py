"""DuckDB's own parse of a SELECT: its aggregates, and the expressions that it groups by."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence

import duckdb

from queries.intervals.statement.nodes import Node, name_of, nodes_in, number_of

AGGREGATES = (
    *("count_star", "count", "count_if", "countif", "sum", "avg", "mean", "median"),
    *("quantile_cont", "quantile_disc"),
)
"""Aggregates that most statements have: if these are all, DuckDB's list of functions is not read."""
_ALL_AGGREGATES: set[str] = set()
"""All that DuckDB has, with the macros that call one; read when it is first needed, as it takes 80 ms."""
_CALLED = re.compile(r"(\w+)\s*\(")
"""Names of functions that the definition of a macro calls."""
_OPERATORS = ("+", "-", "*", "/")
_MAKE_MORE = ("unnest", "unlist")


class Unknown(Exception):
    """Why no interval is known for a statement."""


class NoFigures(Unknown):
    """It shows rows or values, and computes nothing from them."""


def parsed_select(con: duckdb.DuckDBPyConnection, text: str) -> Node:
    """DuckDB's parse of one SELECT."""
    parsed = json.loads(
        con.execute(
            "SELECT json_serialize_sql(?, skip_null := true, skip_empty := true)", [text]
        ).fetchall()[0][0]
    )
    if parsed.get("error") or len(parsed.get("statements", [])) != 1:
        raise Unknown("it is not one plain SELECT")
    node: Node = parsed["statements"][0]["node"]
    return node


def makes_more(node: Node) -> bool:
    """Whether an expression stands for several columns or rows: places in the text are not those in the answer."""
    return node.get("class") == "STAR" or name_of(node) in _MAKE_MORE


def aggregates_in(con: duckdb.DuckDBPyConnection, items: Sequence[Node]) -> Collection[str]:
    """Names of the aggregates among the functions of expressions: ours, others that DuckDB has, and macros of these."""
    names = {name_of(n) for item in items for n in nodes_in(item)}
    if names <= {"", *AGGREGATES, *_OPERATORS}:
        return AGGREGATES
    if not _ALL_AGGREGATES:
        listed = con.execute(
            "SELECT DISTINCT lower(function_name), lower(coalesce(macro_definition, '')) FROM duckdb_functions() "
            "WHERE function_type = 'aggregate' OR (function_type = 'macro' AND database_name = 'system')"
        ).fetchall()
        known = {name for name, definition in listed if not definition}
        macros = [(name, {*_CALLED.findall(of)}) for name, of in listed if of]
        while more := {name for name, called in macros if called & known} - known:
            known |= more
        _ALL_AGGREGATES.update(known)
    return names & _ALL_AGGREGATES | {*AGGREGATES}


def group_expressions(
    node: Node, items: Sequence[Node], aggregates: Collection[str], columns: Collection[str]
) -> list[Node]:
    """Expressions of GROUP BY, with positions and names looked up; a column goes before a name that hides it."""
    if node.get("aggregate_handling") == "FORCE_AGGREGATES":
        return [item for item in items if not _has_aggregate(item, aggregates)]
    expressions = node.get("group_expressions", [])
    if not expressions and not any(_has_aggregate(item, aggregates) for item in items):
        raise NoFigures(f"it has no group, and none of {', '.join(AGGREGATES[1:])}")
    named = {item["alias"].casefold(): item for item in items if item.get("alias")}
    out = []
    for group in expressions:
        number = number_of(group)
        if number is not None and 1 <= int(number) <= len(items):
            group = items[int(number) - 1]
        elif group.get("class") == "COLUMN_REF" and len(group["column_names"]) == 1:
            name = group["column_names"][0].casefold()
            same = None if name in columns else named.get(name)
            group = same if same is not None else group
        out.append(group)
    return out


def _has_aggregate(node: Node, aggregates: Collection[str]) -> bool:
    """Whether an aggregate or window is in an expression."""
    return any(n.get("class") == "WINDOW" or name_of(n) in aggregates for n in nodes_in(node))
