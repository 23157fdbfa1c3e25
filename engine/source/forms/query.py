"""A SELECT that makes the source of several files, or another of one.

Takes a statement and the relations that it may read; gives its text, checked. Invariant: it reads these relations and
nothing else, no file, no setting, no other statement; and what is wrong with it is said in front of empty tables, so
that no message can hold a value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb

from engine.errors import SpecError
from engine.schema import quoted
from engine.source.forms.row_wise import RowWise, not_row_wise
from engine.source.relation import fetch
from engine.spec import SUFFIXES

_ROWS_OF_NOTHING = frozenset({"unnest", "range", "generate_series"})
_FROM = frozenset(
    {"BASE_TABLE", "SUBQUERY", "JOIN", "EMPTY", "TABLE_FUNCTION", "EXPRESSION_LIST", "PIVOT"}
)
_ENDINGS = (".gz", *(suffix for suffix in SUFFIXES if not suffix.endswith(".gz")))


def named_files(paths: Sequence[str]) -> dict[str, str]:
    """The name of each file, or glob, as a table: its own, without ending, signs as "_"."""
    names: dict[str, str] = {}
    for path in paths:
        stem = Path(path).name
        for ending in _ENDINGS:
            stem = stem[: -len(ending)] if stem.lower().endswith(ending) else stem
        name = re.sub(r"\W+", "_", stem).strip("_") or "data"
        twin = next((known for known in names if known.casefold() == name.casefold()), None)
        if twin is not None:
            raise SpecError(
                f"source.path: {names[twin]} and {path} would both be the table {name} of sql; rename one"
            )
        names[name] = path
    return names


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
    known = {name.casefold() for name in relations}
    made = {str(name).casefold() for name in _made(tree)}
    volatile = _volatile(con, place)
    for node in _nodes(tree):
        wrong = _forbidden(node, known | made)
        if wrong:
            there = ", ".join(quoted(name) if "." in name else name for name in relations)
            raise SpecError(
                f"source.sql: {wrong}; it may read the files of source.path only: {there}"
            )
        if _is_chance(node, volatile):
            raise SpecError(
                "source.sql: gives other rows or values each time that it is run (a sample, or a function such as "
                "random); a vintage wants the same ones, so choose by a column, such as hash(id) % 2 = 0"
            )
    problem = _misfit(con, text, relations, place, row_wise)
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


def _made(tree: Any) -> Iterator[str]:
    """Names that WITH gives."""
    for node in _nodes(tree):
        for entry in (node.get("cte_map") or {}).get("map", ()) if "cte_map" in node else ():
            yield entry["key"]


def _volatile(con: duckdb.DuckDBPyConnection, place: str) -> set[str]:
    """Functions that give another value at each call."""
    listed = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE stability = 'VOLATILE'"
    return {str(name) for (name,) in fetch(con, listed, place)} - {"error"}


def _is_chance(node: dict[str, Any], volatile: set[str]) -> bool:
    """Whether a part of a statement need not give the same twice."""
    is_sample = isinstance(node.get("sample"), dict)
    return is_sample or str(node.get("function_name", "")).casefold() in volatile


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


def _misfit(
    con: duckdb.DuckDBPyConnection,
    sql: str,
    relations: Sequence[str],
    place: str,
    row_wise: RowWise | None,
) -> str:
    """What DuckDB says of the statement over empty tables of the same columns; empty if it fits."""
    with duckdb.connect(":memory:", config={"enable_external_access": "false"}) as empty:
        for name in relations:
            described = fetch(con, f"DESCRIBE {quoted(name)}", place)
            columns = ", ".join(f"{quoted(str(row[0]))} {row[1]}" for row in described)
            empty.execute(f"CREATE TABLE {quoted(name)} ({columns})")
        try:
            empty.execute(sql).fetchall()
        except duckdb.Error as error:
            return str(error).partition("\n")[0]
        return not_row_wise(empty, sql, row_wise) if row_wise else ""
