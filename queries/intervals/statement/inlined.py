"""Statements over a subquery, or a WITH, that only chooses and computes rows: as the one SELECT that they mean.

Takes DuckDB's parse of a statement; gives the same with what the subquery computes put in the place of its names.
`WITH d AS (SELECT *, age // 10 AS band FROM data WHERE age > 17) SELECT band, count(*) FROM d GROUP BY band` is then
read as if it grouped by `age // 10`, and has that statement's intervals and marks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from queries.intervals.statement.nodes import (
    Node,
    column_node,
    columns_in,
    left_out_by,
    name_of,
    nodes_in,
    replaced,
)

_PLAIN_KEYS = {
    *("type", "cte_map", "select_list", "from_table", "where_clause", "aggregate_handling"),
    *("modifiers", "group_expressions", "group_sets"),
}

_COMPUTED = -1
"""The place of what is computed from several columns, or of none."""


def chosen(
    node: Node, columns: Collection[str], aggregates: Collection[str]
) -> tuple[Node, list[int]]:
    """Return the SELECT of which one only chooses columns and rows, and the places of these; none where it does more.

    Groups that are chosen after they were made, by LIMIT, WHERE or a rank, are what they were.
    """
    inner, shown = _chosen(node, {}, {name.casefold() for name in columns}, aggregates)
    places = [place for place, _ in shown]
    return (node, []) if _COMPUTED in places else (inner, places)


def _chosen(
    node: Node, around: Mapping[str, Node], columns: Collection[str], aggregates: Collection[str]
) -> tuple[Node, list[tuple[int, str]]]:
    """The same, with the name of each column."""
    known = {**around, **named_selects(node)}
    source = node.get("from_table", {})
    inner, name = _read(source, known)
    is_plain = node.get("aggregate_handling") == "STANDARD_HANDLING"
    if inner is None or not is_plain or node.get("group_expressions") or node.get("sample"):
        return node, []
    known = _without(known, source)
    found, given = _chosen(inner, known, columns, aggregates)
    if not given:
        found = inlined(inner, known, columns, aggregates)
        if found.get("type") != "SELECT_NODE" or _read(found["from_table"], known)[0] is not None:
            return node, []
        given = [(at, _named(item)) for at, item in enumerate(found["select_list"])]
    shown: list[tuple[int, str]] = []
    for item in (_unqualified(item, name) for item in node["select_list"]):
        if item.get("class") == "STAR":
            left_out = left_out_by(item)
            if left_out is None:
                return node, []
            shown += [one for one in given if one[1] not in left_out]
            continue
        same = [one for one in given if item.get("column_names", []) == [one[1]]]
        shown.append((same[0][0] if len(same) == 1 else _COMPUTED, _named(item)))
    return found, shown


def _named(item: Node) -> str:
    """The name of a selected column, in small letters."""
    return str(item.get("alias") or (item.get("column_names") or [""])[-1]).casefold()


def named_selects(node: Node) -> dict[str, Node]:
    """What each name of a WITH stands for."""
    listed = (node.get("cte_map") or {}).get("map", [])
    return {one["key"].casefold(): one["value"] for one in listed}


def inlined(
    node: Node, around: Mapping[str, Node], columns: Collection[str], aggregates: Collection[str]
) -> Node:
    """A SELECT over others that only choose and compute rows as the one that it means; else the same.

    around: What each name of the WITH around it stands for.
    """
    known = {**around, **named_selects(node)}
    source = node.get("from_table", {})
    inner, name = _read(source, known)
    if inner is None or node.get("type") != "SELECT_NODE":
        return node
    inner = inlined(inner, _without(known, source), columns, aggregates)
    meant = _meanings(inner, columns, aggregates)
    if meant is None:
        return node
    items = [_called(item, name) for item in node["select_list"]]
    rest = {k: v for k, v in node.items() if k not in ("select_list", "from_table", "cte_map")}
    rest = _unqualified(rest, name)
    aliases = {item["alias"].casefold() for item in items if item.get("alias")}
    for inner_node in nodes_in([items, rest]):
        if inner_node.get("class") != "COLUMN_REF":
            continue
        names = [n.casefold() for n in inner_node["column_names"]]
        if len(names) != 1 or (names[0] not in meant and names[0] not in aliases - set(columns)):
            return node  # a name of something else
    out = replaced({**rest, "select_list": items}, meant)
    out["select_list"] = [
        {**item, "alias": before["alias"]} if before.get("alias") else item
        for item, before in zip(out["select_list"], items, strict=True)
    ]
    wheres = [part for part in (inner.get("where_clause"), out.get("where_clause")) if part]
    if len(wheres) == 2:
        wheres = [{"class": "CONJUNCTION", "type": "CONJUNCTION_AND", "children": wheres}]
    out |= {"from_table": inner["from_table"], "cte_map": {}}
    return {**out, "where_clause": wheres[0]} if wheres else out


def _without(known: Mapping[str, Node], source: Node) -> dict[str, Node]:
    """What is known where the SELECT stands that a FROM reads: inside, its own name is that of a table."""
    name = source.get("table_name", "").casefold()
    return {other: value for other, value in known.items() if other != name}


def _read(source: Node, known: Mapping[str, Node]) -> tuple[Node | None, str]:
    """The SELECT that a FROM reads, and what it is called there; None where it reads something else."""
    name = source.get("alias", "")
    if source.get("sample") or source.get("column_name_alias"):
        return None, name
    if source.get("type") == "SUBQUERY":
        return source["subquery"]["node"], name
    table = source.get("table_name", "").casefold()
    if source.get("type") != "BASE_TABLE" or table not in known:
        return None, name
    value = known[table]
    if value.get("aliases"):
        return None, name
    return value.get("query_node"), name or source["table_name"]


def _meanings(
    inner: Node, columns: Collection[str], aggregates: Collection[str]
) -> dict[str, Node] | None:
    """What each name of a SELECT that only chooses and computes stands for; None where it does more."""
    is_plain = (
        inner.get("type") == "SELECT_NODE"
        and inner["from_table"].get("type") == "BASE_TABLE"
        and set(inner) <= _PLAIN_KEYS
        and not inner.get("group_expressions")
        and inner.get("aggregate_handling") == "STANDARD_HANDLING"
        and all(m.get("type") == "ORDER_MODIFIER" for m in inner.get("modifiers", []))
        and not (inner.get("cte_map") or {}).get("map")
    )
    if not is_plain:
        return None
    meant: dict[str, Node] = {}
    for item in inner["select_list"]:
        if item.get("class") == "STAR":
            left_out = left_out_by(item)
            if left_out is None:
                return None
            meant = {name: column_node(name) for name in {*columns} - left_out} | meant
            continue
        for part in nodes_in(item):
            does_more = part.get("class") in ("WINDOW", "SUBQUERY", "STAR")
            if does_more or name_of(part) in aggregates:
                return None
        if item.get("alias") or item.get("class") == "COLUMN_REF":
            name = item.get("alias") or item["column_names"][-1]
            meant.setdefault(name.casefold(), {k: v for k, v in item.items() if k != "alias"})
    own = {name for name, node in meant.items() if node != column_node(name)} - {*columns}
    named = {name.casefold() for name in columns_in([*meant.values()])}
    return None if own & named else meant  # names of its own SELECT in one another are not followed


def _called(item: Node, name: str) -> Node:
    """A selected expression without the name of its table, and with a name where it is a column."""
    if item.get("class") == "COLUMN_REF" and not item.get("alias"):
        item = {**item, "alias": item["column_names"][-1]}
    out: Node = _unqualified(item, name)
    return out


def _unqualified(node: Any, name: str) -> Any:
    """An expression whose columns are named without their table."""
    if isinstance(node, dict):
        names = node.get("column_names", ())
        if len(names) == 2 and names[0].casefold() == name.casefold():
            return {**node, "column_names": [names[1]]}
        return {k: _unqualified(v, name) for k, v in node.items()}
    return [_unqualified(v, name) for v in node] if isinstance(node, list) else node
