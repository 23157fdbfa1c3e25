"""What the SQL of strangers may call and read: decided by what DuckDB parses and binds, from a list of all it has.

A statement passes twice. Before it is planned, DuckDB's own parser names its functions, and each must be on the list
(`functions.toml`): what is computed while a statement is bound shows in no plan. Then each plan that DuckDB binds
must scan the release and listed functions only, whatever view, macro or text named them.
A function that is not on the list, because DuckDB is newer, is refused.
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
from engine.store.macros import COMMENTS
from queries.sql import Plan, selected

_LEAVES = frozenset(
    "COLUMN_DATA_SCAN CTE_SCAN DELIM_SCAN DUMMY_SCAN EMPTY_RESULT EXPRESSION_SCAN REC_CTE_SCAN REC_REC_CTE_SCAN".split()
)
"""Ends of a plan that read what the statement itself made."""
_OURS = (f"{ATTACHED}.", "temp.main.")
"""Where tables of the release lie, and the stub of the logical one; a statement can make none."""
_CALLED_ON_ROWS = "INOUT_FUNCTION"


Kind = Literal["value", "table", "scan", "show"]
"""Where a name stands in a statement: as a function of values or of a table, what is read, or what SHOW is asked of."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FunctionList:
    """Names of functions by what becomes of a statement that calls them."""

    # values, tables: Allowed where a value stands, and where a table stands.
    values: frozenset[str]
    bound: frozenset[str]  # Allowed where a value stands, and in no list of DuckDB
    tables: frozenset[str]
    # Allowed in a plan where a view or SHOW brings them, and refused by name.
    beneath: frozenset[str]
    views: frozenset[str]  # Views of DuckDB's own that are allowed
    # refused_values, refused_tables, refused_views, pragmas: Known, and refused.
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


class Wall:
    """The list at work; made once for a process."""

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
        """Functions of the installed DuckDB that are not allowed in every place, and its views that are not."""
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
        """Refuse a statement that calls what is not on the list; it is parsed, not planned.

        shown: What SHOW may be asked of by a plain name, small. DuckDB answers it of a setting, too, and no
            plan tells.
        """
        body, _ = selected(sql, con)
        ((parsed,),) = con.execute("SELECT json_serialize_sql(?)", [body]).fetchall()
        try:
            tree = json.loads(parsed)
        except RecursionError:
            raise QueryRefused("The statement is nested too deeply") from None
        if tree["error"]:  # a PIVOT that looks up its values is none that DuckDB gives as a tree
            self._check_tokens(body)
            return
        for name, kind in _names(tree):
            if not self._is_open(name.lower(), kind, shown):
                is_call = kind in ("value", "table")
                if is_call and name.lower() not in self._closed:
                    raise self._unknown(name, kind)
                raise _refused(name)

    def _unknown(self, name: str, kind: Kind) -> QueryRefused:
        """The refusal of a call that neither the list nor DuckDB has: a slip, most likely."""
        there = sorted(self._tables if kind == "table" else self._values)
        nearest = difflib.get_close_matches(name[:100].lower(), there, n=3)
        near = f". Nearest: {', '.join(nearest)}" if nearest else ""
        return QueryRefused(f"There is no function {name[:100]} here{near}")

    def _is_open(self, name: str, kind: Kind, shown: frozenset[str]) -> bool:
        """Whether a statement may name something where it stands."""
        if kind == "scan":
            return name not in self._closed_views
        if kind == "show":
            return name in shown - self._settings - self._closed_views
        return name in (self._tables if kind == "table" else self._values)

    def _check_tokens(self, sql: str) -> None:
        """The same of a text in DuckDB's own tokens: stricter, for names are not told from one another."""
        tokens, before = list(_tokens(sql)), ("", "sign")
        for (name, kind), (following, _) in zip(tokens, [*tokens[1:], ("", "sign")], strict=True):
            if kind == "odd":
                raise QueryRefused(
                    "A PIVOT may have no texts with escapes or $, and no unusual blanks: write texts in plain quotes, "
                    "and names with such signs in double quotes"
                )
            if kind == "keyword" and name == "show":
                raise QueryRefused("A PIVOT may not read what SHOW lists: ask SHOW by itself")
            is_call = kind != "sign" and following.startswith("(")
            is_value = (
                before == ("using", "keyword") and name in self._values
            )  # no table stands there
            is_closed_call = is_call and not is_value and name in self._closed_calls
            if name in self._closed_views or is_closed_call:
                raise _refused(name)
            before = (name, kind)

    def check_plan(self, plan: Plan) -> None:
        """Refuse a statement whose plan scans anything but the release and listed functions."""
        for name, table in _scanned(plan):
            if table is not None:
                if not table.startswith(_OURS):
                    raise _refused(table)
            elif name.lower() not in self._bound:
                raise _refused(name.lower())


def _refused(name: str) -> QueryRefused:
    return QueryRefused(
        f"{name[:100]} is not open to statements here: it may tell of the server, other statements or files. Open "
        "are the release, its catalogue, information_schema, and functions that compute"
    )


def _settings(con: duckdb.DuckDBPyConnection) -> frozenset[str]:
    """Names of the installed DuckDB's settings, small, and their other names."""
    found = con.execute(
        "SELECT lower(unnest(list_append(aliases, name))) FROM duckdb_settings()"
    ).fetchall()
    return frozenset(name for (name,) in found)


def _names(tree: Any) -> Iterator[tuple[str, Kind]]:
    """Yield what a parsed statement names, however deep: functions by where they stand, and tables."""
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
    """Yield what a plan reads: the name of a function, or a stored table."""
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


def _tokens(sql: str) -> Iterator[tuple[str, Literal["sign", "odd", "keyword", "name"]]]:
    """Yield DuckDB's tokens without comments, small, without quotes; a text may be a name, too."""
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
            yield text, "sign"
        else:
            is_keyword = kind == duckdb.token_type.keyword
            yield _bare(text).lower(), "keyword" if is_keyword else "name"


def _is_plain(text: str) -> bool:
    """Whether a token is quoted as a whole, or has no sign that only DuckDB's parser takes for a blank."""
    is_quoted = text[:1] in ("'", '"') and text.endswith(text[0]) and len(text) > 1
    return is_quoted or text.isascii() or text.replace("_", "a").replace("$", "a").isalnum()


def _bare(text: str) -> str:
    """A name or a text without its quotes."""
    quote = text[:1]
    if quote in ("'", '"') and text.endswith(quote) and len(text) > 1:
        return text[1:-1].replace(quote * 2, quote)
    return text
