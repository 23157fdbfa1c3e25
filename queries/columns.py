"""Which columns a statement reads: asked of DuckDB's own plan, on a stub of the logical table.

The stub has the release's columns and two rows of nothing; a plan with the optimisers that could drop a scan
switched off says, for every scan of it, which columns are projected. So COLUMNS(...), PIVOT, SUMMARIZE or
`list(data)` are understood as DuckDB understands them, and no SQL is rewritten.
Invariant: a plan is made, the statement is not run; outside files are closed to it all the same.
"""

from __future__ import annotations

import difflib
import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from engine.errors import NotAnswerable, QueryRefused
from engine.manifest import ATTACHED
from engine.schema import ColumnSet, column_set, literal, quoted

LOCKDOWN = (
    "SET enable_external_access = false; SET autoload_known_extensions = false; "
    "SET autoinstall_known_extensions = false; SET allow_community_extensions = false; "
    "SET python_enable_replacements = false; SET max_temp_directory_size = '0B'; "
    "SET disabled_filesystems = 'LocalFileSystem'; SET lock_configuration = true"
)
"""Closes the file system, the network, extensions, Python variables, and then the settings themselves."""
_NO_PRUNING = (
    "expression_rewriter,statistics_propagation,filter_pushdown,empty_result_pullup,"
    "join_elimination,deliminator"
)
_ALLOWED = (
    "one SELECT, or one of FROM, WITH, VALUES, PIVOT, UNPIVOT, SUMMARIZE, DESCRIBE, SHOW, EXPLAIN"
)
_EXPLAIN = re.compile(
    r"\A(?:\s|--[^\n]*\n|/\*.*?\*/)*EXPLAIN\s*(?:ANALYZE\b\s*)?(?:\([^)]*\)\s*)?",
    re.IGNORECASE | re.DOTALL,
)
_LOAD = re.compile(r"\A(?:\s|;|--[^\n]*\n|/\*.*?\*/)*LOAD\b", re.IGNORECASE | re.DOTALL)
_UNKNOWN_COLUMN = re.compile(
    r'column "(.*?)" (?:in \w+ list )?not found|does not have a column named "(.*?)"\n',
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Reads:
    """What a statement reads.

    Attributes
    ----------
    columns : ColumnSet
        Columns of the logical table.
    is_logical : bool
        The logical table is scanned at all.
    """

    columns: ColumnSet
    is_logical: bool


class StubPlanner:
    """Plans statements on a stub of the logical table; lives as long as its release is open.

    Parameters
    ----------
    columns : mapping of str to str
        Names of the logical table's columns, with their SQL types.
    logical_name : str
    release : Path or None
        A release to attach, so that its views and catalogue can be named beside the logical table.
    """

    def __init__(
        self, columns: Mapping[str, str], logical_name: str, *, release: Path | None = None
    ) -> None:
        self._names = tuple(columns)
        self._logical_name = logical_name
        typed = ", ".join(f"{_dummy(type_)} AS {quoted(c)}" for c, type_ in columns.items())
        self._stub = (
            f"CREATE TEMP TABLE {quoted(logical_name)} AS SELECT {typed or 'NULL'} "
            "FROM range(2) AS two(i)"
        )
        if release is not None:
            self._stub = f"USE {ATTACHED}; {self._stub}"
        self._scan = f"temp.main.{logical_name}"
        self._con = duckdb.connect(config={"threads": 1, "memory_limit": "512MB"})
        if release is not None:
            self._con.execute(f"ATTACH {literal(str(release))} AS {ATTACHED} (READ_ONLY)")
        self._con.execute(f"SET disabled_optimizers = '{_NO_PRUNING}'; {LOCKDOWN}")

        self._lock = threading.Lock()
        self._con.execute(self._stub)

    def read(self, sql: str, *, timeout_s: float = 60.0) -> Reads:
        """Return what a statement reads.

        Parameters
        ----------
        sql : str
        timeout_s : float
            Seconds after which planning is stopped.

        Raises
        ------
        QueryRefused
            Not exactly one SELECT-like statement, or one that DuckDB cannot plan here.
        NotAnswerable
            It names a column that the release does not have.
        """
        with self._lock:  # DuckDB refuses a connection that is busy in another thread
            body, is_multi = selected(sql, self._con)
            cursor = self._con.cursor() if is_multi else None
        try:
            if cursor is not None:  # runs what looks up a PIVOT's values, and leaves types behind
                with cursor as con, limited(con, timeout_s):
                    con.execute(self._stub)
                    rows = con.execute(f"EXPLAIN (FORMAT json) {body}").fetchall()
            else:
                with self._lock:
                    rows = self._con.execute(f"EXPLAIN (FORMAT json) {body}").fetchall()
        except duckdb.Error as error:
            raise refusal(error, self._names) from None
        plan = json.loads(rows[-1][1])
        found = [names for table, names in _scans(plan) if self._is_stub(table)]
        read = {name for names in found for name in self._known(names)}
        return Reads(columns=column_set(tuple(read)), is_logical=bool(found))

    def close(self) -> None:
        """Close the planner."""
        self._con.close()

    def _is_stub(self, table: str) -> bool:
        return table.replace('"', "") == self._scan.replace('"', "")

    def _known(self, fragments: Sequence[str]) -> Iterator[str]:
        """Yield column names; DuckDB cuts a name that holds a line break in two."""
        start = 0
        while start < len(fragments):
            for stop in range(len(fragments), start, -1):
                name = "\n".join(fragments[start:stop])
                if name in self._names:
                    yield name
                    start = stop
                    break
            else:
                start += 1


def columns_read(sql: str, columns: Mapping[str, str], logical_name: str = "data") -> ColumnSet:
    """Return the columns of the logical table that a statement reads.

    Parameters
    ----------
    sql : str
    columns : mapping of str to str
        Names of the logical table's columns, with their SQL types.
    logical_name : str

    Raises
    ------
    QueryRefused, NotAnswerable
        As `StubPlanner.read`.
    """
    planner = StubPlanner(columns, logical_name)
    try:
        return planner.read(sql).columns
    finally:
        planner.close()


def selected(sql: str, con: duckdb.DuckDBPyConnection) -> tuple[str, bool]:
    """Return the one SELECT-like statement in a text, without a leading EXPLAIN.

    Returns
    -------
    (str, bool)
        The statement, and whether DuckDB runs more than one for it (a PIVOT looks up its values first).

    Raises
    ------
    QueryRefused
        There is none, more than one, or another kind of statement.
    """
    try:
        statements = con.extract_statements(sql)
        if len(statements) == 1 and statements[0].type.name == "EXPLAIN":
            sql = _EXPLAIN.sub("", sql, count=1)
            statements = con.extract_statements(sql)
    except duckdb.Error as error:
        raise refusal(error, ()) from None
    if not statements:
        raise QueryRefused(f"no statement: allowed is {_ALLOWED}")
    if len(statements) != 1:
        raise QueryRefused(f"{len(statements)} statements: allowed is {_ALLOWED}")
    kind = statements[0].type.name
    if kind not in ("SELECT", "MULTI"):
        if kind == "LOAD" and not _LOAD.match(sql):  # DuckDB counts INSTALL among them
            kind = "INSTALL"
        raise QueryRefused(f"{kind} is not allowed here: allowed is {_ALLOWED}")
    return sql, kind == "MULTI"


def refusal(error: duckdb.Error, names: Sequence[str]) -> QueryRefused:
    """Return the refusal that a DuckDB error means, naming near columns where one is unknown."""
    text = str(error).split("\n\nLINE ")[0]
    unknown = _UNKNOWN_COLUMN.search(text)
    if unknown and names:
        name = unknown[1] or unknown[2] or ""
        near = near_names(name, names)
        hint = f"Near: {', '.join(near)}." if near else f"Columns: {', '.join(names[:40])}."
        return NotAnswerable(f"The release has no column {name!r}. {hint}", missing=(name,))
    if isinstance(error, duckdb.PermissionException | duckdb.IOException | duckdb.HTTPException):
        return QueryRefused(f"The statement reaches outside the release: {text}")
    if isinstance(error, duckdb.OutOfMemoryException):
        return QueryRefused(f"The statement needs more memory than a query may use: {text}")
    return QueryRefused(text)


@contextmanager
def limited(con: duckdb.DuckDBPyConnection, timeout_s: float) -> Iterator[None]:
    """Stop what runs on a connection when its time is up."""
    # No daemon: one that is torn down with the interpreter aborts it; cancelled, it ends at once.
    timer = threading.Timer(timeout_s, con.interrupt)
    timer.start()
    try:
        yield
    except duckdb.InterruptException:
        raise QueryRefused(f"The statement was stopped after {timeout_s:g} seconds") from None
    finally:
        timer.cancel()


def near_names(name: str, names: Sequence[str]) -> list[str]:
    """Return the names that look most like one, whatever the case."""
    folded = {n.casefold(): n for n in names}
    return [folded[n] for n in difflib.get_close_matches(name.casefold(), folded, n=4, cutoff=0.5)]


def _dummy(type_: str) -> str:
    """Return SQL for a value of a type that differs between the stub's rows: a PIVOT wants values."""
    if type_ in ("DATE", "TIMESTAMP"):
        return f"CAST(DATE '1970-01-01' + CAST(i AS INTEGER) AS {type_})"
    return f"CAST(i AS {type_})"


def _scans(plan: list[dict[str, Any]]) -> Iterator[tuple[str, list[str]]]:
    """Yield table and projected columns of every scan in a plan."""
    for node in plan:
        info = node.get("extra_info") or {}
        if node.get("name", "").strip() == "SEQ_SCAN" and "Table" in info:
            names = info.get("Projections") or []
            yield info["Table"], names.split("\n") if isinstance(names, str) else names
        yield from _scans(node.get("children") or [])
