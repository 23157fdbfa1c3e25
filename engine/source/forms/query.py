"""A SELECT that makes the source of several files, or another of one.

Takes a statement and the relations that it may read; gives its text, checked. Invariant: it reads these relations and
nothing else, no file, no setting, no other statement; and what is wrong with it is said in front of empty tables, so
that no message can hold a value.

In mode dp each of its rows must come from one row of the source, which is what the bound rests on. That is shown by an
allow-list over DuckDB's plan before it is optimised: projections, filters, UNION ALL, and joins that keep to one row of
the source (the other side is public, and no row of the public side comes back because nobody matched it). Whatever may
fail on a cell is let through inside TRY only: whether a build succeeds must not disclose anything about one person.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from engine.errors import SpecError
from engine.schema import quoted
from engine.source.relation import fetch
from engine.spec import SUFFIXES

_ROWS_OF_NOTHING = frozenset({"unnest", "range", "generate_series"})
_FROM = frozenset(
    {"BASE_TABLE", "SUBQUERY", "JOIN", "EMPTY", "TABLE_FUNCTION", "EXPRESSION_LIST", "PIVOT"}
)
_ENDINGS = (".gz", *(suffix for suffix in SUFFIXES if not suffix.endswith(".gz")))


def table_name(path: str) -> str:
    """The name of a file, or glob, as a table: its own, without ending, signs as "_"."""
    stem = Path(path).name
    for ending in _ENDINGS:
        stem = stem[: -len(ending)] if stem.lower().endswith(ending) else stem
    return re.sub(r"\W+", "_", stem).strip("_") or "data"


def checked_query(
    con: duckdb.DuckDBPyConnection,
    sql: str,
    relations: Sequence[str],
    place: str,
    row_wise: RowWise | None = None,
) -> str:
    """Check a statement; where `row_wise` is given, also that each of its rows comes from one row.

    Returns: The statement without a semicolon at its end.
    """
    text = sql.strip().rstrip(";").strip()
    tree = json.loads(fetch(con, "SELECT json_serialize_sql(?)", place, [text])[0][0])
    if tree.get("error") or len(tree["statements"]) != 1:
        raise SpecError("source.sql: wants one SELECT; " + str(tree.get("error_message") or ""))
    nodes = list(_nodes(tree))
    known = {name.casefold() for name in relations}
    for node in nodes:  # names that WITH gives
        known |= {
            str(entry["key"]).casefold() for entry in (node.get("cte_map") or {}).get("map", ())
        }
    # Functions that give another value at each call.
    listed = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE stability = 'VOLATILE'"
    volatile = {str(name) for (name,) in fetch(con, listed, place)} - {"error"}
    for node in nodes:
        if wrong := _forbidden(node, known):
            there = ", ".join(quoted(name) if "." in name else name for name in relations)
            raise SpecError(
                f"source.sql: {wrong}; it may read the files of source.path only: {there}"
            )
        is_sample = isinstance(node.get("sample"), dict)
        if is_sample or str(node.get("function_name", "")).casefold() in volatile:
            raise SpecError(
                "source.sql: gives other rows or values each time that it is run (a sample, or a function such as "
                "random); a vintage wants the same ones, so choose by a column, such as hash(id) % 2 = 0"
            )
    with duckdb.connect(":memory:", config={"enable_external_access": "false"}) as empty:
        # In front of empty tables of the same columns.
        for name in relations:
            described = fetch(con, f"DESCRIBE {quoted(name)}", place)
            columns = ", ".join(f"{quoted(str(row[0]))} {row[1]}" for row in described)
            empty.execute(f"CREATE TABLE {quoted(name)} ({columns})")
        problem = ""
        try:
            empty.execute(text).fetchall()
        except duckdb.Error as error:
            problem = str(error).partition("\n")[0]
        if row_wise and not problem:
            problem = not_row_wise(empty, text, row_wise)
    if problem:
        raise SpecError(f"source.sql: {problem}")
    return text


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Every object of a parsed statement."""
    if isinstance(tree, dict):
        yield tree
    for inner in (
        tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    ):
        yield from _nodes(inner)


def _forbidden(node: dict[str, Any], known: set[str]) -> str:
    """What a part of a statement may not read; empty if nothing."""
    kind = str(node.get("type", ""))
    if kind == "BASE_TABLE":
        path = [part for part in (node.get("catalog_name"), node.get("schema_name")) if part]
        name = ".".join([*path, str(node.get("table_name"))])
        return "" if not path and name.casefold() in known else f"there is no table {name}"
    if kind == "TABLE_FUNCTION":
        name = str(node.get("function", {}).get("function_name", "")).casefold()
        return "" if name in _ROWS_OF_NOTHING else f"{name or 'a function'} is not allowed"
    if "sample" in node and "alias" in node and "query_location" in node and kind not in _FROM:
        return f"{kind or 'such a FROM'} is not allowed"
    return ""


_ROW_BY_ROW = frozenset({"PROJECTION", "FILTER", "UNNEST", "MATERIALIZED_CTE", "CTE_REF"})
_JOINS = frozenset({"COMPARISON_JOIN", "ANY_JOIN", "CROSS_PRODUCT"})
# Kinds of join that give rows of the source's side only, by the side that it stands on.
_KEPT = (
    frozenset({"INNER", "LEFT", "SEMI", "ANTI", "MARK"}),
    frozenset({"INNER", "RIGHT", "RIGHT_SEMI", "RIGHT_ANTI"}),
)
_WORDS = {
    "AGGREGATE_AND_GROUP_BY": "an aggregate",
    "WINDOW": "a window function",
    "DISTINCT": "DISTINCT",
    "LIMIT": "LIMIT",
    "ORDER_BY": "ORDER BY",
    "TOP_N": "LIMIT",
    "SAMPLE": "a sample",
    "RECURSIVE_CTE": "WITH RECURSIVE",
    "DELIM_JOIN": "a subquery",
    "POSITIONAL_JOIN": "a positional join",
    "ASOF_JOIN": "an ASOF join",
}
_VIRTUAL = 1 << 62
"""Numbers of columns from here on are not of the table: a row's position says who stands before it."""
_WIDER = ("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE")
# Functions that give a value, or null, for every value of these types.
_TOTAL = frozenset(
    "|| ~~ !~~ ~~* !~~* ~~~ lower upper lcase ucase trim ltrim rtrim replace concat concat_ws length len strlen "
    "contains starts_with ends_with prefix suffix reverse strip_accents list_contains list_value string_split "
    "split_part hash md5 sha256 isnan isfinite isinf year month day quarter week isoyear dayofmonth dayofweek isodow "
    "dayofyear weekday weekofyear yearweek hour minute second epoch monthname dayname greatest least try_strptime "
    "floor ceil ceiling trunc sign".split()
)
# The same where all arguments but the first are constants: a cell may be no pattern, or a place too far off.
_BY_CONSTANTS = frozenset(
    "regexp_matches regexp_full_match regexp_replace regexp_extract substr substring left right array_slice "
    "array_extract".split()
)
# Never fail on floats, may overflow elsewhere.
_OF_FLOATS = frozenset({"+", "-", "*", "/", "abs", "round"})


@dataclass(frozen=True, kw_only=True, slots=True)
class RowWise:
    """What is asked of a statement."""

    public: frozenset[str]  # Tables whose rows are public
    is_declared: bool = False  # What one entity changes is declared: the plan need not show it


def not_row_wise(con: duckdb.DuckDBPyConnection, sql: str, asked: RowWise) -> str:
    """What makes a row depend on other people's rows, or the statement fail on a cell; empty if nothing does.

    con: Holds the tables of the statement, empty.
    """
    ((text,),) = con.execute("SELECT json_serialize_plan(?)", [sql]).fetchall()
    tree = json.loads(text)
    if tree.get("error") or len(tree.get("plans", ())) != 1:
        return "its plan cannot be read; write it in a simpler way"
    walk = _Walk(public=frozenset(name.casefold() for name in asked.public))
    plan = tree["plans"][0]
    problem = "" if asked.is_declared else walk.problem(plan)
    return problem or next(
        (
            f"{name} can fail on a cell, and so the build would reveal one person; write TRY({name} ...), which "
            "gives null"
            for name in _that_fail(plan)
        ),
        "",
    )


class _Walk:
    """Goes through a plan from its root, and remembers which WITH queries read the source."""

    def __init__(self, public: Collection[str]) -> None:
        self._public = public
        self._private_ctes: set[int] = set()

    def problem(self, node: dict[str, Any]) -> str:
        """What is wrong with a part of a plan; empty if nothing is."""
        kind = str(node["type"]).removeprefix("LOGICAL_")
        children = node["children"]
        if kind == "MATERIALIZED_CTE" and self._is_private(children[0]):
            self._private_ctes.add(node["table_index"])
        if not self._is_private(node):
            return ""  # made of public tables and constants only
        if kind == "GET":
            at = [one["index"] >= _VIRTUAL for one in node["column_indexes"]]
            return "a row's position (rowid) depends on other rows" if any(at) else ""
        if kind in _JOINS:
            return self._of_join(node)
        if kind == "UNION" and node["setop_all"]:
            pass
        elif kind not in _ROW_BY_ROW:
            what = _WORDS.get(kind, kind.replace("_", " ").lower())
            return f"{what} makes rows depend on other people's rows"
        return next((found for one in children if (found := self.problem(one))), "")

    def _of_join(self, node: dict[str, Any]) -> str:
        """What is wrong with a join."""
        sides = [self._is_private(child) for child in node["children"]]
        if all(sides):
            return (
                "a join, or a subquery, of two tables makes rows depend on other people's rows; if one of them is a "
                "code list that anybody may see, name it in [dp]: public_tables"
            )
        side = sides.index(True)
        how = node.get("join_type", "INNER")
        if how not in _KEPT[side]:
            return (
                f"a join of kind {how} gives public rows that nobody matches, or fails where two match; use an inner "
                "join, or a LEFT JOIN with the public table on its right"
            )
        return self.problem(node["children"][side])

    def _is_private(self, node: dict[str, Any]) -> bool:
        """Whether a part of a plan reads rows of people."""
        kind = str(node["type"])
        if kind == "LOGICAL_GET" and not node["children"]:
            table = (node.get("function_data") or {}).get("table")
            return table is not None and str(table).casefold() not in self._public
        if kind == "LOGICAL_CTE_REF":
            return node["cte_index"] in self._private_ctes
        return any(map(self._is_private, node["children"]))


def _that_fail(tree: Any) -> Iterator[str]:
    """Functions and casts that may raise an error for some value, outside TRY."""
    if isinstance(tree, list):
        for inner in tree:
            yield from _that_fail(inner)
    if not isinstance(tree, dict):
        return
    if tree.get("type") == "OPERATOR_TRY":
        return
    if tree.get("expression_class") in ("BOUND_FUNCTION", "BOUND_CAST") and not _is_total(tree):
        yield (
            f"CAST to {tree['return_type']['id']}"
            if tree["type"] == "OPERATOR_CAST"
            else _name(tree)
        )
    for inner in tree.values():
        yield from _that_fail(inner)


def _is_total(call: dict[str, Any]) -> bool:
    """Whether a call gives a value for whatever a cell may hold."""
    kind, name = str(call["type"]), _name(call)
    if kind.startswith(("COMPARE_", "CONJUNCTION_")) or name in _TOTAL:
        return True
    if name in _BY_CONSTANTS:
        return all(_is_constant(one) for one in call["children"][1:])
    types = [str(one["id"]) for one in call.get("arguments", ())]
    if kind != "OPERATOR_CAST":
        numbers = types[:1] if name == "round" else types  # its precision is a constant
        return name in _OF_FLOATS and {*numbers} <= {"DOUBLE", "FLOAT"}
    if (call.get("function_data") or {}).get("try_cast"):
        return True
    to, of = str(call["return_type"]["id"]), types[0] if types else ""
    if to in ("VARCHAR", of) or of == "NULL":
        return True
    if of in _WIDER and to in _WIDER and _WIDER.index(of) <= _WIDER.index(to):
        return True
    return _is_good_constant(call)


def _is_constant(node: dict[str, Any]) -> bool:
    """Whether a part of a statement is a constant, perhaps of another type."""
    if str(node["type"]) == "OPERATOR_CAST":
        return _is_constant(node["children"][0])
    return node.get("expression_class") == "BOUND_CONSTANT"


def _is_good_constant(call: dict[str, Any]) -> bool:
    """Whether a cast is of a constant that it can take: a date written as text, for instance."""
    (child,) = call["children"]
    if child.get("expression_class") != "BOUND_CONSTANT" or "value" not in child["value"]:
        return False
    with duckdb.connect() as empty:
        found = empty.execute(
            f"SELECT TRY_CAST(? AS {call['return_type']['id']}) IS NOT NULL",
            [child["value"]["value"]],
        ).fetchone()
    return bool(found and found[0])


def _name(call: dict[str, Any]) -> str:
    """Name of a function."""
    return str((call.get("qname") or {}).get("path", [""])[-1])
