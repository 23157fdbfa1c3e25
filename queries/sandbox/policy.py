"""The statement policy: what untrusted SQL may call and read, checked against a list of all DuckDB functions.

Every statement is checked twice. Before planning, DuckDB's own parser lists its functions, and each must be allowed in
`functions.toml`, because functions computed during binding do not appear in any plan. Then each plan that DuckDB binds
may scan only the release and allowed functions, whatever view, macro or text named them. Functions of a newer DuckDB
that are not on the list are refused.
"""

from __future__ import annotations

import difflib
import json
import string
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

import duckdb

from engine.errors import QueryRefused
from engine.store import ATTACHED
from engine.store.schema import COMMENTS
from queries.sql import Plan, selected

_LEAVES = frozenset(
    "COLUMN_DATA_SCAN CTE_SCAN DELIM_SCAN DUMMY_SCAN EMPTY_RESULT EXPRESSION_SCAN REC_CTE_SCAN REC_REC_CTE_SCAN".split()
)
"""Leaves of a plan that read what the statement itself created."""
_OURS = (f"{ATTACHED}.", "temp.main.")
"""Prefixes of the release's tables and of the logical table's stub; statements cannot create tables there."""
_CALLED_ON_ROWS = "INOUT_FUNCTION"
Kind = Literal["value", "table", "scan", "show"]
"""Role of a name in a statement: scalar function, table function, table that is read, or argument of SHOW."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FunctionList:
    """Names of functions and views, allowed or refused."""

    # values, tables: Allowed as a value, and as a table.
    values: frozenset[str]
    bound: frozenset[str]  # Allowed as a value, and not in DuckDB's own list
    tables: frozenset[str]
    # Refused by name, but allowed in a plan if a view or SHOW uses them.
    beneath: frozenset[str]
    views: frozenset[str]  # Allowed system views
    # refused_values, refused_tables, refused_views, pragmas: Known and refused.
    refused_values: frozenset[str]
    refused_tables: frozenset[str]
    refused_views: frozenset[str]
    pragmas: frozenset[str]


def listed() -> FunctionList:
    """Read the list."""
    read = tomllib.loads((files("queries.sandbox") / "functions.toml").read_text("utf-8"))

    def names(kind: str, what: str) -> frozenset[str]:
        return frozenset(name for text in read[kind][what].values() for name in text.split())

    return FunctionList(
        values=names("values", "allowed"),
        bound=frozenset(read["values"]["bound"]),
        tables=names("tables", "allowed"),
        beneath=names("tables", "beneath"),
        views=names("views", "allowed"),
        refused_values=names("values", "refused") | frozenset(read["values"]["spaced"]),
        refused_tables=names("tables", "refused"),
        refused_views=names("views", "refused"),
        pragmas=names("pragmas", "refused"),
    )


class StatementPolicy:
    """Checks statements against the list; created once per process."""

    def __init__(self) -> None:
        names = listed()
        ours = frozenset(COMMENTS)
        self._values = frozenset(map(str.lower, names.values)) | names.bound | ours
        self._tables = names.tables | ours
        self._bound = self._tables | names.beneath
        with duckdb.connect() as con:
            self._closed_calls, self._closed_views = self._not_listed(con, names.views)
            self._settings = _settings(con)
        closed = names.refused_values | names.refused_tables | names.beneath | names.pragmas
        self._closed = self._closed_calls | self._values | self._tables | {*map(str.lower, closed)}

    def _not_listed(
        self, con: duckdb.DuckDBPyConnection, allowed: frozenset[str]
    ) -> tuple[frozenset[str], frozenset[str]]:
        """Functions and views of the installed DuckDB that are not allowed."""
        found = con.execute(
            "SELECT DISTINCT lower(function_name), function_type LIKE 'table%' FROM duckdb_functions() "
            "WHERE function_type <> 'pragma'"
        ).fetchall()
        calls = {
            n for n, is_table in found if n not in (self._tables if is_table else self._values)
        }
        views = con.execute("SELECT lower(view_name) FROM duckdb_views() WHERE internal").fetchall()
        return frozenset(calls), frozenset(name for (name,) in views) - allowed

    def check_text(
        self, sql: str, con: duckdb.DuckDBPyConnection, *, shown: frozenset[str] = frozenset()
    ) -> None:
        """Refuse a statement that calls anything not allowed; it is parsed, not planned.

        shown: Names that SHOW may be used with, in lower case. DuckDB also answers SHOW for settings, which no
            plan reveals.
        """
        body, _ = selected(sql, con)
        ((parsed,),) = con.execute("SELECT json_serialize_sql(?)", [body]).fetchall()
        try:
            tree = json.loads(parsed)
        except RecursionError:
            raise QueryRefused("The statement is nested too deeply") from None
        if tree["error"]:  # DuckDB cannot serialise a PIVOT that looks up its values
            self._check_tokens(body)
            return
        for name, kind in _names(tree):
            if not self._is_open(name.lower(), kind, shown):
                is_call = kind in ("value", "table")
                if is_call and name.lower() not in self._closed:
                    raise self._unknown(name, kind)
                raise _refused(name)

    def _unknown(self, name: str, kind: Kind) -> QueryRefused:
        """The refusal of a function unknown to the list and to DuckDB: most likely a typo."""
        there = sorted(self._tables if kind == "table" else self._values)
        nearest = difflib.get_close_matches(name[:100].lower(), there, n=3)
        near = f". Nearest: {', '.join(nearest)}" if nearest else ""
        return QueryRefused(f"Unknown function {name[:100]}{near}")

    def _is_open(self, name: str, kind: Kind, shown: frozenset[str]) -> bool:
        """Whether a statement may use a name in this role."""
        if kind == "scan":
            return name not in self._closed_views
        if kind == "show":
            return name in shown - self._settings - self._closed_views
        return name in (self._tables if kind == "table" else self._values)

    def _check_tokens(self, sql: str) -> None:
        """Check a statement by DuckDB's tokens: stricter, as the roles of names are unknown."""
        tokens, before = list(_tokens(sql)), ("", "operator")
        for (name, kind), (following, _) in zip(
            tokens, [*tokens[1:], ("", "operator")], strict=True
        ):
            if kind == "odd":
                raise QueryRefused(
                    "A PIVOT cannot contain string escapes, dollar quotes or unusual white space: write strings in "
                    "plain quotes, and names with such characters in double quotes"
                )
            if kind == "keyword" and name == "show":
                raise QueryRefused("A PIVOT cannot read from SHOW: run SHOW on its own")
            is_call = kind != "operator" and following.startswith("(")
            is_value = (
                before == ("using", "keyword") and name in self._values
            )  # tables are not possible there
            is_closed_call = is_call and not is_value and name in self._closed_calls
            if name in self._closed_views or is_closed_call:
                raise _refused(name)
            before = (name, kind)

    def check_plan(self, plan: Plan) -> None:
        """Refuse a statement whose plan scans anything but the release and allowed functions."""
        for name, table in _scanned(plan):
            if table is not None:
                if not table.startswith(_OURS):
                    raise _refused(table)
            elif name.lower() not in self._bound:
                raise _refused(name.lower())


def _refused(name: str) -> QueryRefused:
    return QueryRefused(
        f"{name[:100]} is not available here, as it could reveal settings, files or other users' statements. Available "
        "are the release, its catalogue, information_schema, and functions that compute"
    )


def _settings(con: duckdb.DuckDBPyConnection) -> frozenset[str]:
    """Names and aliases of the installed DuckDB's settings, in lower case."""
    found = con.execute(
        "SELECT lower(unnest(list_append(aliases, name))) FROM duckdb_settings()"
    ).fetchall()
    return frozenset(name for (name,) in found)


def _names(tree: Any) -> Iterator[tuple[str, Kind]]:
    """Yield all functions and tables in a parsed statement, at any depth, with their role."""
    nodes = [(tree, False)]
    while nodes:
        node, is_table = nodes.pop()
        if isinstance(node, dict):
            if isinstance(node.get("function_name"), str):
                yield node["function_name"], "table" if is_table else "value"
            if isinstance(node.get("table_name"), str):
                is_plain_show = node.get("show_type") == "SHOW" and not node.get("query")
                yield node["table_name"], "show" if is_plain_show else "scan"
            of_table = node.get("type") == "TABLE_FUNCTION"
            nodes += [(v, of_table and k == "function") for k, v in node.items()]
        elif isinstance(node, list):
            nodes += [(v, False) for v in node]


def _scanned(plan: Plan) -> Iterator[tuple[str, str | None]]:
    """Yield what a plan reads: a function, or a stored table."""
    nodes = list(plan)
    while nodes:
        node = nodes.pop()
        name, info = node.get("name", "").strip(), node.get("extra_info") or {}
        below = node.get("children") or []
        if name == _CALLED_ON_ROWS:
            yield info.get("Name", "?"), None
        elif not below and "Table" in info:
            yield name, info["Table"].replace('"', "")
        elif not below and name not in _LEAVES:
            yield info.get("Function", name), None
        nodes += below


def _tokens(sql: str) -> Iterator[tuple[str, Literal["operator", "odd", "keyword", "name"]]]:
    """Yield DuckDB's tokens without comments, in lower case and unquoted; strings count as names (of tables)."""
    found = duckdb.tokenize(sql)
    raw = sql.encode()
    ends = [*(start for start, _ in found[1:]), len(raw)]
    for (start, kind), end in zip(found, ends, strict=True):
        text = raw[start:end].decode(errors="replace").strip(string.whitespace)
        if kind == duckdb.token_type.comment:
            continue
        is_text = kind == duckdb.token_type.string_const
        if (is_text and not text.startswith("'")) or not _is_plain(text):
            yield text, "odd"
        elif kind == duckdb.token_type.operator:
            yield text, "operator"
        else:
            is_keyword = kind == duckdb.token_type.keyword
            yield _bare(text).lower(), "keyword" if is_keyword else "name"


def _is_plain(text: str) -> bool:
    """Whether a token is entirely quoted, or has no character that only DuckDB's parser treats as white space."""
    is_quoted = text[:1] in ("'", '"') and text.endswith(text[0]) and len(text) > 1
    return is_quoted or text.isascii() or text.replace("_", "a").replace("$", "a").isalnum()


def _bare(text: str) -> str:
    """A name or string without its quotes."""
    quote = text[:1]
    if quote in ("'", '"') and text.endswith(quote) and len(text) > 1:
        return text[1:-1].replace(quote * 2, quote)
    return text
