"""Nodes of DuckDB's parse tree: what they hold, compared, named, replaced; aggregates, and what a SELECT groups by.

Takes nodes as `json_serialize_sql` gives them; gives parts of them or changed copies.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import duckdb

from engine.errors import QueryRefused

Node = dict[str, Any]
"""A node of DuckDB's parse tree."""
_PLACES = ("query_location", "query_location_length", "alias")
_STAR_KEYS = {
    *("class", "type", "query_location", "query_location_length", "columns"),
    *("relation_name", "exclude_list"),
}

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


def parsed_tree(con: duckdb.DuckDBPyConnection, text: str) -> Any:
    """DuckDB's parse of a statement, whole, so that it can be written as a text again."""
    (parsed,) = con.execute("SELECT json_serialize_sql(?)", [text]).fetchall()[0]
    tree = json.loads(parsed)
    if tree["error"] or len(tree["statements"]) != 1:
        raise QueryRefused(str(tree.get("error_message", "there are several statements")))
    return tree


def text_of_tree(con: duckdb.DuckDBPyConnection, tree: Any) -> str:
    """The text of a parse."""
    return str(con.execute("SELECT json_deserialize_sql(?)", [json.dumps(tree)]).fetchall()[0][0])


def text_of_select(con: duckdb.DuckDBPyConnection, node: Node) -> str:
    """The text of one SELECT or UNION."""
    text = text_of_tree(con, {"error": False, "statements": [{"node": node}]})
    return text.rstrip().rstrip(";")


def dicts_in(tree: Any, without: Collection[str] = ()) -> Iterator[Node]:
    """All nodes of a parse, expressions or not; not those that are, or are in, an inner one of some types."""
    left = [tree] if isinstance(tree, dict | list) else []
    while left:
        one = left.pop()
        if isinstance(one, dict):
            yield one
        values = one.values() if isinstance(one, dict) else one
        inner = [value for value in values if isinstance(value, dict | list)]
        left += [
            value
            for value in reversed(inner)
            if not (isinstance(value, dict) and value.get("type") in without)
        ]


def parts(node: Node) -> list[Node]:
    """Arguments of a function, or what an operator joins."""
    if "arguments" in node:
        return [a["expression"] for a in node["arguments"]]
    children: list[Node] = node.get("children", [])
    return children


def name_of(node: Node) -> str:
    """Name of the function that an expression calls, in small letters; empty where it calls none."""
    return str(node.get("function_name", "")).lower()


def column_node(*names: str) -> Node:
    """A column by its name, or by its table's and its own."""
    return {"class": "COLUMN_REF", "type": "COLUMN_REF", "column_names": [*names]}


def columns_in(node: Any) -> Iterator[str]:
    """Names of the columns that an expression names."""
    return (n["column_names"][-1] for n in nodes_in(node) if n["class"] == "COLUMN_REF")


def left_out_by(star: Node) -> set[str] | None:
    """Names of columns that a * leaves out, in small letters; None where it has changes, or is COLUMNS(...)."""
    if set(star) - _STAR_KEYS or star.get("columns"):
        return None
    return {str(name).casefold() for name in star.get("exclude_list", [])}


def nodes_in(node: Any) -> Iterator[Node]:
    """All nodes of an expression."""
    return (one for one in dicts_in(node) if "class" in one)


def nodes_below(node: Node) -> Iterator[Node]:
    """The expressions right below one."""
    for value in node.values():
        yield from _outermost(value)


def _outermost(value: Any) -> Iterator[Node]:
    """Expressions in what is no expression itself."""
    if isinstance(value, dict):
        if "class" in value:
            yield value
        else:
            for inner in value.values():
                yield from _outermost(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _outermost(inner)


def bare(node: Any) -> Any:
    """An expression without its place in the text and its name; columns as SQL compares them."""
    if isinstance(node, dict):
        out = {k: bare(v) for k, v in node.items() if k not in _PLACES}
        if node.get("class") == "COLUMN_REF":
            out["column_names"] = [node["column_names"][-1].casefold()]
            out.pop("qualified_name", None)
        return out
    return [bare(v) for v in node] if isinstance(node, list) else node


def text_of(node: Any) -> str:
    """One text for expressions that are the same."""
    return json.dumps(bare(node), sort_keys=True)


def followed(items: Sequence[Node], columns: Collection[str]) -> tuple[list[Node], dict[str, Node]]:
    """Selected expressions with the names of earlier ones replaced by what these are, and what each name is.

    A column of the table goes before a name, as in DuckDB.
    """
    named: dict[str, Node] = {}
    out = []
    for item in items:
        expression = replaced(item, named)
        out.append({**expression, "alias": item["alias"]} if item.get("alias") else expression)
        name = item.get("alias", "").casefold()
        if name and name not in columns:
            named[name] = {k: v for k, v in expression.items() if k != "alias"}
    return out, named


def replaced(node: Any, named: Mapping[str, Node]) -> Any:
    """An expression with names replaced by what they stand for."""
    if isinstance(node, dict):
        names = node.get("column_names", ())
        if node.get("class") == "COLUMN_REF" and len(names) == 1:
            return named.get(names[0].casefold(), node)
        return {k: replaced(v, named) for k, v in node.items()}
    return [replaced(v, named) for v in node] if isinstance(node, list) else node


def number_of(node: Node) -> float | None:
    """The value of a numeric constant."""
    sign = 1.0
    if node.get("function_name") == "-" and len(parts(node)) == 1:
        node, sign = parts(node)[0], -1.0
    literal = node.get("literal") or {}
    is_number = literal.get("kind") in ("INTEGER", "NUMERIC", "FLOAT", "DECIMAL")
    return sign * float(literal["text"]) if is_number else None


def names_call(text: str, name: str) -> bool:
    """Whether a statement names a function before a bracket, outside comments and strings."""
    found = duckdb.tokenize(text)
    ends = [at for at, _ in found[1:]] + [len(text)]
    words = [(kind, text[at:end].strip()) for (at, kind), end in zip(found, ends, strict=True)]
    return any(
        kind == duckdb.token_type.identifier
        and word.strip('"').casefold() == name
        and after.startswith("(")
        for (kind, word), (_, after) in pairwise(words)
    )


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
