"""Which figures of a statement are not released that is made of others: WITH, subqueries in FROM, joins, UNION.

Takes an open release, the statement and rows of its answer. Each SELECT of figures over the logical table is answered
by itself, with a column of statuses for each of its own, called the same and one sign more. So does everything else
that is read; each SELECT around them gives the statuses of what its columns are computed from, under such names again,
and DuckDB finds what belongs together. What adds figures up anew, or looks at several rows, is not followed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb

from engine.schema import ColumnSet, literal, quoted
from engine.store import table_name
from queries.intervals.statement.groupings import Rows
from queries.intervals.statement.inlined import named_selects
from queries.intervals.statement.nodes import (
    Node,
    column_node,
    is_total,
    left_out_by,
    name_of,
    nodes_below,
    nodes_in,
    text_of_select,
)
from queries.intervals.statement.reckoned import NOT_KNOWN, RELEASED, reckon
from queries.intervals.statement.tree import (
    NoFigures,
    NotAlone,
    Unknown,
    aggregates_in,
    parsed_select,
)
from queries.sql import NOT_RELEASED, Marks, Session

_MOST_ROWS = 100_000
"""Rows up to which an answer is compared with one that has statuses."""
_SIGN = "\u2063"
"""What the name of a column of statuses has more; people do not type it."""
_LOST = "?"
"""Status of a figure that is not followed."""
_MANY = "it reckons from several figures of a subquery at once"
Known = Mapping[str, Node]


class _OneColumn(Unknown):
    """Why one column is not followed."""


@dataclass(kw_only=True, slots=True)
class _Composing:
    """What is known while a statement is taken apart; lives as long as its connection."""

    con: duckdb.DuckDBPyConnection
    release: Session
    table: ColumnSet
    n_tables: int = 0
    notes: list[str] = field(default_factory=list)


def composed_marks(release: Session, text: str, table: ColumnSet, rows: Rows) -> Marks:
    """Return the statuses of a statement's figures."""
    with release.cursor() as con:
        view = f"SELECT * FROM main.{quoted(table_name(table))}"
        con.execute(f"CREATE TEMP VIEW {quoted(release.logical_name)} AS {view}")
        made = _Composing(con=con, release=release, table=table)
        node = _select(made, parsed_select(con, text), {})
        node["modifiers"] = [m for m in node.get("modifiers", []) if "LIMIT" not in m["type"]]
        answer = con.execute(text_of_select(con, node))
        names = [d[0] for d in answer.description]
        found = answer.fetchmany(_MOST_ROWS + 1)
    if len(found) > _MOST_ROWS:
        raise Unknown(f"it gives more than {_MOST_ROWS:,} rows")
    n = len(names) // 2
    statuses: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for row in found:
        key = _key(row[:n])
        statuses[key] = tuple(map(_worse, statuses.get(key, row[n:]), row[n:]))
    try:
        listed = [statuses[_key(row)] for row in rows]
    except KeyError:
        raise Unknown("which rows it shows is not always the same") from None
    told = {at: {of[at] for of in statuses.values()} for at in range(n)}
    made.notes += [f"{names[at]}: {_MANY}." for at in range(n) if _LOST in told[at]]
    figures = [at for at in range(n) if _LOST not in told[at] and told[at] - {"", None}]
    return Marks(
        statuses={at: [of[at] or RELEASED for of in listed] for at in figures},
        unknown=tuple(made.notes),
    )


def _worse(one: str | None, other: str | None) -> str:
    """Of two statuses of equal rows the one that promises less."""
    worst = (s for s in (_LOST, NOT_RELEASED, NOT_KNOWN) if s in (one, other))
    return next(worst, max(one or "", other or ""))


def _key(row: Sequence[Any]) -> tuple[str, ...]:
    """A row as a dict takes it; floats may differ in the last digits from run to run."""
    return tuple(f"{v:.9g}" if isinstance(v, float) else repr(v) for v in row)


def _select(made: _Composing, node: Node, around: Known) -> Node:
    """A SELECT or UNION that gives the same columns and behind them as many with their statuses.

    `around` is what WITH names around it.
    """
    known, listed = dict(around), []
    for name, value in named_selects(node).items():
        if value.get("aliases"):
            raise Unknown(f"its WITH renames the columns of {name}")
        inner = _select(made, value["query_node"], known)
        known[name] = {"key": name, "value": {**value, "query_node": inner}}
        listed.append(known[name])
    node = {**node, "cte_map": {"map": listed}}
    if node["type"] == "SET_OPERATION_NODE" and node.get("setop_type") == "UNION":
        return {**node, "children": [_select(made, child, known) for child in node["children"]]}
    if node["type"] != "SELECT_NODE":
        raise Unknown("it is no plain SELECT, WITH or UNION")
    source = node["from_table"]
    name = source.get("table_name", "").casefold()
    if source.get("type") == "BASE_TABLE" and name == made.release.logical_name.casefold():
        if name not in known:
            return _figures(made, {**node, "cte_map": {}})
    return _around(made, node, known)


def _figures(made: _Composing, node: Node) -> Node:
    """A SELECT over the logical table, answered by itself."""
    con, text = made.con, text_of_select(made.con, node)
    made.n_tables += 1
    name = f"__figures_{made.n_tables}"
    con.execute(f"CREATE TEMP TABLE {name} AS {text}")
    described = con.execute(f"DESCRIBE {name}").fetchall()
    names, types = [d[0] for d in described], [d[1] for d in described]
    marks = Marks()
    try:
        if len({n.casefold() for n in names}) < len(names):
            raise Unknown("a subquery has two columns of one name")
        rows = con.execute(f"FROM {name} ORDER BY rowid LIMIT {_MOST_ROWS + 1}").fetchall()
        if len(rows) > _MOST_ROWS:
            raise Unknown(f"a subquery gives more than {_MOST_ROWS:,} rows")
        found = reckon(made.release, text, names, types, made.table, rows, is_strict=False)
        marks = found.marks()
        for at, why in found.unread.items():
            if at not in marks.statuses:
                raise Unknown(why.rstrip("."))
    except NoFigures:
        pass
    made.notes += [why for why in marks.unknown if why not in made.notes]
    given = [list(marks.statuses[at]) for at in sorted(marks.statuses)]
    ends = [
        f"{'unnest(?::VARCHAR[])' if at in marks.statuses else literal('')} AS {quoted(n + _SIGN)}"
        for at, n in enumerate(names)
    ]
    beside = (
        f"POSITIONAL JOIN (SELECT {', '.join(ends)})" if given else f", (SELECT {', '.join(ends)})"
    )
    con.execute(f"CREATE TEMP TABLE {name}_s AS SELECT * FROM {name} {beside}", given)
    return parsed_select(con, f"FROM {name}_s")


def _around(made: _Composing, node: Node, known: Known) -> Node:
    """A SELECT over others, with the statuses of what it shows of them."""
    if (
        node.get("group_expressions")
        or node.get("sample")
        or node.get("aggregate_handling") == "FORCE_AGGREGATES"
    ):
        raise NotAlone(_MANY)
    source = _from(made, node["from_table"], known)
    aggregates = aggregates_in(made.con, node["select_list"])
    items = node["select_list"]
    if any(item.get("class") == "STAR" for item in items):
        columns = _columns(made, source, known)
        own = [_stars(item, columns) if item.get("class") == "STAR" else [item] for item in items]
        items = [one for of_one in own for one in of_one]
    ends = []
    for at, item in enumerate(items):
        name = item.get("alias") or (item.get("column_names") or [""])[-1]
        try:
            status = _status(item, aggregates)
        except _OneColumn as why:
            status = literal("")
            made.notes.append(f"{name or item.get('function_name', 'a figure')}: {why}.")
        ends.append(f"{status} AS {quoted((name or f'__{at}') + _SIGN)}")
    ends = parsed_select(made.con, f"SELECT {', '.join(ends)}")["select_list"]
    return {**node, "from_table": source, "select_list": [*items, *ends]}


def _stars(item: Node, columns: Sequence[tuple[str, str]]) -> list[Node]:
    """The columns that a * stands for."""
    left_out = left_out_by(item)
    if left_out is None:
        raise Unknown("it has * with changes, or COLUMNS(...)")
    wanted = item.get("relation_name", "").casefold()
    return [
        column_node(*filter(None, (of, name)))
        for of, name in columns
        if name.casefold() not in left_out and wanted in ("", of.casefold())
    ]


def _columns(made: _Composing, source: Node, known: Known) -> list[tuple[str, str]]:
    """What the * of a FROM stands for: names of what is read, and of its columns without those of statuses."""
    if source.get("type") == "JOIN":
        listed = _columns(made, source["left"], known)
        if source.get("join_type") in ("SEMI", "ANTI"):
            return listed
        using = {name.casefold() for name in source.get("using_columns", [])}
        more = _columns(made, source["right"], known)
        return [*listed, *(one for one in more if one[1].casefold() not in using)]
    every = parsed_select(made.con, "SELECT * FROM t LIMIT 0")
    every |= {"from_table": source, "cte_map": {"map": [*known.values()]}}
    names = [d[0] for d in made.con.execute(text_of_select(made.con, every)).description]
    of = source.get("alias") or source.get("table_name", "")
    return [(of, name) for name in names if not name.endswith(_SIGN)]


def _from(made: _Composing, source: Node, known: Known) -> Node:
    """What a FROM reads, with statuses."""
    kind = source.get("type")
    is_known = kind == "BASE_TABLE" and source["table_name"].casefold() in known
    if source.get("sample") or (
        source.get("column_name_alias") and (is_known or kind == "SUBQUERY")
    ):
        raise Unknown("its FROM renames columns or samples rows")
    if is_known:
        return source
    if kind == "JOIN":
        if source.get("ref_type") == "NATURAL":
            raise Unknown("it has a NATURAL JOIN")
        sides = {side: _from(made, source[side], known) for side in ("left", "right")}
        using = source.get("using_columns", [])
        return {**source, **sides, "using_columns": [*using, *(n + _SIGN for n in using)]}
    if kind == "SUBQUERY":
        inner = _select(made, source["subquery"]["node"], known)
        return {**source, "subquery": {"node": inner}}
    status = "CASE WHEN false THEN COLUMNS(*)::VARCHAR ELSE '' END"
    wider = parsed_select(made.con, f"SELECT *, {status} AS {quoted(chr(92) + '0' + _SIGN)} FROM t")
    name = source.get("alias") or source.get("table_name", "")
    read = {"type": "SUBQUERY", "subquery": {"node": {**wider, "from_table": source}}}
    return {**read, "alias": name} if name else read


def _status(item: Node, aggregates: Collection[str]) -> str:
    """The status of what an expression is computed from, as SQL."""
    parts: dict[str, None] = {}
    left = [item]
    while left:
        part = left.pop()
        if part.get("class") == "SUBQUERY":
            if not is_total(part):
                raise _OneColumn("it has a subquery in an expression")
        elif part.get("class") == "COLUMN_REF":
            parts[_beside(part)] = None
        elif part.get("class") == "WINDOW":
            columns = (n for n in nodes_in(part) if n["class"] == "COLUMN_REF")
            named = dict.fromkeys(map(_beside, columns))
            is_sum = name_of(part) == "sum" and not part.get("orders")
            if not is_sum and named:
                parts[f"if(concat({', '.join(named)}) = '', '', {literal(_LOST)})"] = None
            elif part.get("partitions"):  # a part may be one row, that of all hides none
                parts |= named
        elif name_of(part) in aggregates:
            raise NotAlone(_MANY)
        else:
            left += nodes_below(part)
    if not parts or (len(parts) == 1 and item.get("class") == "COLUMN_REF"):
        return next(iter(parts), literal(""))
    any_of = " ".join(
        f"WHEN {literal(status)} IN ({', '.join(parts)}) THEN {literal(status)}"
        for status in (_LOST, NOT_RELEASED, NOT_KNOWN)
    )
    return (
        f"CASE {any_of} WHEN concat({', '.join(parts)}) <> '' THEN {literal(RELEASED)} ELSE '' END"
    )


def _beside(node: Node) -> str:
    """The column of statuses beside one that is named, as SQL."""
    names: list[str] = node["column_names"]
    if len(names) > 2:
        raise Unknown("it names a column by more than its table")
    return ".".join([*map(quoted, names[:-1]), quoted(names[-1] + _SIGN)])
