"""Which figures of a statement are not released that is made of others: WITH, subqueries in FROM, joins, UNION.

Takes an open release, the statement and rows of its answer. Each SELECT of figures over the logical table is answered
by itself, with a column of statuses beside each of its own; what is around it is run over these, with the statuses of
what each of its columns is computed from. What adds figures up anew, or looks at several rows, is not followed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb

from engine.schema import ColumnSet, literal, quoted
from engine.store import table_name
from queries.intervals.statement.inlined import named_selects
from queries.intervals.statement.nodes import Node, nodes_below, nodes_in
from queries.intervals.statement.reckoned import NOT_KNOWN, RELEASED, Rows, reckon
from queries.intervals.statement.tree import (
    NoFigures,
    NotAlone,
    Unknown,
    is_total,
    parsed_select,
)
from queries.sql import NOT_RELEASED, Marks, Session

_MOST_ROWS = 100_000
"""Rows up to which an answer is compared with one that has statuses."""
_STAR_KEYS = {
    *("class", "type", "query_location", "query_location_length", "columns"),
    *("relation_name", "exclude_list"),
}
_MANY = "it reckons from several figures of a subquery at once"


class _OneColumn(Unknown):
    """Why one column is not followed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Column:
    """A column of what a SELECT gives.

    Attributes
    ----------
    status : str
        The column of its statuses; empty: it holds no figures.
    """

    name: str
    status: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Source:
    """One of the things that a FROM reads: what it is called there, and what it gives."""

    name: str
    columns: tuple[_Column, ...]


@dataclass(kw_only=True, slots=True)
class _Composing:
    """What is known while a statement is taken apart; lives as long as its connection."""

    con: duckdb.DuckDBPyConnection
    release: Session
    table: ColumnSet
    n_columns: int = 0
    notes: list[str] = field(default_factory=list)

    def fresh(self) -> str:
        """A name that no column has."""
        self.n_columns += 1
        return f"__status_{self.n_columns}"


def composed_marks(release: Session, text: str, table: ColumnSet, rows: Rows) -> Marks:
    """Return the statuses of a statement's figures.

    Parameters
    ----------
    table : ColumnSet
        The released table that answers it.
    rows : sequence of tuple
        Rows of its answer, or the first of them.

    Raises
    ------
    Unknown
        It is not followed, with the reason.
    """
    with release.cursor() as con:
        view = f"SELECT * FROM main.{quoted(table_name(table))}"
        con.execute(f"CREATE TEMP VIEW {quoted(release.logical_name)} AS {view}")
        made = _Composing(con=con, release=release, table=table)
        node, columns = _select(made, parsed_select(con, text), {})
        node["modifiers"] = [m for m in node.get("modifiers", []) if "LIMIT" not in m["type"]]
        found = con.execute(_text_of(con, node)).fetchmany(_MOST_ROWS + 1)
    if len(found) > _MOST_ROWS:
        raise Unknown(f"it gives more than {_MOST_ROWS:,} rows")
    n = len(columns)
    figures = [at for at, column in enumerate(columns) if column.status]
    statuses: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for row in found:
        key = _key(row[:n])
        statuses[key] = tuple(map(_worse, statuses.get(key, row[n:]), row[n:]))
    try:
        listed = [statuses[_key(row)] for row in rows]
    except KeyError:
        raise Unknown("which rows it shows is not always the same") from None
    return Marks(
        statuses={at: [of[at] or RELEASED for of in listed] for at in figures},
        unknown=tuple(made.notes),
    )


def _worse(one: str | None, other: str | None) -> str | None:
    """Of two statuses of equal rows the one that promises less."""
    for status in (NOT_RELEASED, NOT_KNOWN):
        if status in (one, other):
            return status
    return one or other


def _key(row: Sequence[Any]) -> tuple[str, ...]:
    """A row as a dict takes it; floats may differ in the last digits from run to run."""
    return tuple(f"{v:.9g}" if isinstance(v, float) else repr(v) for v in row)


def _text_of(con: duckdb.DuckDBPyConnection, node: Node) -> str:
    """A SELECT as text."""
    given = json.dumps({"error": False, "statements": [{"node": node}]})
    text: str = con.execute("SELECT json_deserialize_sql(?)", [given]).fetchall()[0][0]
    return text.rstrip().rstrip(";")


def _union(
    made: _Composing, node: Node, known: Mapping[str, tuple[_Column, ...]]
) -> tuple[Node, list[_Column]]:
    """A UNION; its columns are called as those of its first part."""
    parts = [_select(made, child, known) for child in node["children"]]
    listed = zip(*(columns for _, columns in parts), strict=True)
    columns = [next((c for c in of if c.status), of[0]) for of in listed]
    ends = _ends(parts[0][0], len(columns))
    named = [
        _Column(name=first.name, status=end if c.status else "")
        for first, c, end in zip(parts[0][1], columns, ends, strict=True)
    ]
    return {**node, "children": [part for part, _ in parts]}, named


def _select(
    made: _Composing, node: Node, around: Mapping[str, tuple[_Column, ...]]
) -> tuple[Node, list[_Column]]:
    """A SELECT or UNION that gives the same columns and behind them as many with their statuses."""
    known = dict(around)
    listed = []
    for name, value in named_selects(node).items():
        if value.get("aliases"):
            raise Unknown(f"its WITH renames the columns of {name}")
        inner, columns = _select(made, value["query_node"], known)
        known[name] = tuple(columns)
        listed.append({"key": name, "value": {**value, "query_node": inner}})
    node = {**node, "cte_map": {"map": listed}}
    if node["type"] == "SET_OPERATION_NODE" and node.get("setop_type") == "UNION":
        return _union(made, node, known)
    if node["type"] != "SELECT_NODE":
        raise Unknown("it is no plain SELECT, WITH or UNION")
    source = node["from_table"]
    if (
        source.get("type") == "BASE_TABLE"
        and source["table_name"].casefold() == made.release.logical_name.casefold()
        and source["table_name"].casefold() not in known
    ):
        return _figures(made, {**node, "cte_map": {}})
    return _around(made, node, known)


def _ends(node: Node, n: int) -> list[str]:
    """Names of the last columns that a SELECT or UNION gives."""
    while "children" in node:
        node = node["children"][0]
    return [item["alias"] for item in node["select_list"][-n:]]


def _figures(made: _Composing, node: Node) -> tuple[Node, list[_Column]]:
    """A SELECT over the logical table, answered by itself."""
    con, text = made.con, _text_of(made.con, node)
    name = made.fresh()
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
    columns = [
        _Column(name=n, status=made.fresh() if at in marks.statuses else "")
        for at, n in enumerate(names)
    ]
    given = [(c.status, marks.statuses[at]) for at, c in enumerate(columns) if c.status]
    beside = ", ".join(f"unnest(?::VARCHAR[]) AS {status}" for status, _ in given)
    if given:
        con.execute(
            f"CREATE TEMP TABLE {name}_s AS SELECT * FROM {name} POSITIONAL JOIN (SELECT {beside})",
            [list(of) for _, of in given],
        )
    ends = ", ".join(c.status or f"NULL::VARCHAR AS {made.fresh()}" for c in columns)
    shown = ", ".join(quoted(c.name) for c in columns)
    source = f"{name}_s" if given else name
    made_of = parsed_select(con, f"SELECT {shown}, {ends} FROM {source}")
    for item in made_of["select_list"]:
        item.setdefault("alias", (item.get("column_names") or [""])[-1])
    return made_of, columns


def _around(
    made: _Composing, node: Node, known: Mapping[str, tuple[_Column, ...]]
) -> tuple[Node, list[_Column]]:
    """A SELECT over others, with the statuses of what it shows of them."""
    if node.get("group_expressions") or node.get("sample"):
        raise NotAlone(_MANY)
    source, read, star = _from(made, node["from_table"], known)
    if node.get("aggregate_handling") == "FORCE_AGGREGATES":
        raise NotAlone(_MANY)
    items = [one for item in node["select_list"] for one in _starless(item, star)]
    before: dict[str, list[str]] = {}
    columns, ends = [], []
    for item in items:
        name = item.get("alias") or (item.get("column_names") or [""])[-1]
        try:
            parts = _statuses_of(made, item, read, before)
        except _OneColumn as why:
            parts = []
            made.notes.append(f"{name or item.get('function_name', 'a figure')}: {why}.")
        if item.get("alias"):
            before.setdefault(item["alias"].casefold(), parts)
        end = made.fresh()
        columns.append(_Column(name=name, status=end if parts else ""))
        is_alone = item.get("class") == "COLUMN_REF" and len(parts) == 1
        text = parts[0] if is_alone else _joined(parts)
        (one,) = parsed_select(made.con, f"SELECT {text} AS {end}")["select_list"]
        ends.append(one)
    return {**node, "from_table": source, "select_list": [*items, *ends]}, columns


def _joined(parts: Sequence[str]) -> str:
    """The status of what is computed from several figures, as SQL."""
    if not parts:
        return "NULL::VARCHAR"
    any_of = " ".join(
        f"WHEN {literal(status)} IN ({', '.join(parts)}) THEN {literal(status)}"
        for status in (NOT_RELEASED, NOT_KNOWN)
    )
    return (
        f"CASE {any_of} WHEN coalesce({', '.join(parts)}) IS NOT NULL THEN {literal(RELEASED)} END"
    )


def _starless(item: Node, star: Sequence[tuple[_Source, _Column]]) -> Iterator[Node]:
    """A selected expression, or the columns that a * stands for."""
    if item.get("class") != "STAR":
        yield item
        return
    if set(item) - _STAR_KEYS or item.get("columns"):
        raise Unknown("it has * with changes, or COLUMNS(...)")
    left_out = {str(name).casefold() for name in item.get("exclude_list", [])}
    wanted = item.get("relation_name", "").casefold()
    for source, column in star:
        if column.name.casefold() in left_out or wanted not in ("", source.name.casefold()):
            continue
        names = [source.name, column.name] if source.name else [column.name]
        yield {
            "class": "COLUMN_REF",
            "type": "COLUMN_REF",
            "alias": column.name,
            "column_names": names,
        }


def _from(
    made: _Composing, source: Node, known: Mapping[str, tuple[_Column, ...]]
) -> tuple[Node, list[_Source], list[tuple[_Source, _Column]]]:
    """What a FROM reads, with statuses; the things it reads, and the columns of its *."""
    kind = source.get("type")
    is_known = kind == "BASE_TABLE" and source["table_name"].casefold() in known
    if source.get("sample") or (
        source.get("column_name_alias") and (is_known or kind == "SUBQUERY")
    ):
        raise Unknown("its FROM renames columns or samples rows")
    if kind == "JOIN":
        if source.get("ref_type") == "NATURAL":
            raise Unknown("it has a NATURAL JOIN")
        left, read, star = _from(made, source["left"], known)
        right, more, rest = _from(made, source["right"], known)
        if source.get("join_type") in ("SEMI", "ANTI"):
            more, rest = [], []
        using = {name.casefold() for name in source.get("using_columns", [])}
        rest = [(of, c) for of, c in rest if c.name.casefold() not in using]
        return {**source, "left": left, "right": right}, [*read, *more], [*star, *rest]
    if kind == "SUBQUERY":
        inner, columns = _select(made, source["subquery"]["node"], known)
        source = {**source, "subquery": {"node": inner}}
        one = _Source(name=source.get("alias", ""), columns=tuple(columns))
    elif is_known:
        name = source["table_name"]
        one = _Source(name=source.get("alias") or name, columns=known[name.casefold()])
    else:
        text = _text_of(made.con, {
            "type": "SELECT_NODE", "modifiers": [], "cte_map": {"map": []}, "from_table": source,
            "select_list": [{"class": "STAR", "type": "STAR"}], "aggregate_handling": "STANDARD_HANDLING",
        })  # fmt: skip
        names = [d[0] for d in made.con.execute(f"SELECT * FROM ({text}) LIMIT 0").description]
        name = source.get("alias") or source.get("table_name", "")
        one = _Source(name=name, columns=tuple(_Column(name=n) for n in names))
    return source, [one], [(one, column) for column in one.columns]


def _statuses_of(
    made: _Composing, item: Node, read: Sequence[_Source], before: Mapping[str, list[str]]
) -> list[str]:
    """Columns of statuses, as SQL, of the figures that an expression is computed from."""
    out: dict[str, None] = {}
    left = [item]
    while left:
        part = left.pop()
        if part.get("class") == "SUBQUERY":
            if not is_total(part):
                raise _OneColumn("it has a subquery in an expression")
        elif part.get("class") == "COLUMN_REF":
            out |= dict.fromkeys(_resolved(part, read, before))
        elif part.get("class") == "WINDOW":
            is_sum = part.get("function_name", "").lower() == "sum" and not part.get("orders")
            named = dict.fromkeys(_named(part, read, before))
            if not is_sum and named:
                raise _OneColumn(_MANY)
            if part.get("partitions"):  # a part may be one row, that of all hides none
                out |= named
        else:
            if _is_aggregate(made, part):
                raise NotAlone(_MANY)
            left += nodes_below(part)
    return list(out)


def _named(node: Node, read: Sequence[_Source], before: Mapping[str, list[str]]) -> Iterator[str]:
    """Statuses of all columns that an expression names anywhere."""
    for part in nodes_in(node):
        if part.get("class") == "COLUMN_REF":
            yield from _resolved(part, read, before)


def _resolved(node: Node, read: Sequence[_Source], before: Mapping[str, list[str]]) -> list[str]:
    """Columns of statuses of a column that is named, as SQL."""
    names = [name.casefold() for name in node["column_names"]]
    if len(names) > 2:
        raise Unknown("it names a column by more than its table")
    found = [
        (source, column)
        for source in read
        if len(names) == 1 or source.name.casefold() == names[0]
        for column in source.columns
        if column.name.casefold() == names[-1]
    ]
    if not found:
        if names[-1] in before:
            return before[names[-1]]
        raise Unknown(f"it is not clear what {'.'.join(node['column_names'])} is")
    return [
        f"{quoted(source.name)}.{column.status}" if source.name else column.status
        for source, column in found
        if column.status
    ]


def _is_aggregate(made: _Composing, node: Node) -> bool:
    """Whether an expression is a call of an aggregate."""
    name = node.get("function_name", "").lower()
    return bool(name) and bool(
        made.con.execute(
            "SELECT 1 FROM duckdb_functions() WHERE lower(function_name) = ? AND "
            "(function_type = 'aggregate' OR function_type = 'macro') LIMIT 1",
            [name],
        ).fetchall()
    )
