"""Which columns a statement reads: taken from DuckDB's own plan on a stub of the logical table.

The stub has the release's columns and two dummy rows; a plan with those optimisers disabled that could remove a scan
lists the projected columns of every scan. So COLUMNS(...), PIVOT, SUMMARIZE or `list(data)` are understood as DuckDB
understands them, and no SQL is rewritten.
Invariant: the statement is planned, not run; external files are inaccessible to it all the same.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import duckdb

from engine.errors import QueryRefused, TablepackError
from engine.schema import ColumnSet, column_set, quoted
from engine.store import ATTACHED, locked_connection
from queries.sql.advice import Advice, advice_of
from queries.sql.budget import Budget, Oversight, Plan, watched
from queries.sql.own_tables import OwnTable, put
from queries.sql.refusals import NO_NAMES, Vocabulary, near_names, refusal
from queries.sql.unreleased import (
    MOST_REMARKS,
    Released,
    casts,
    compared,
    finer,
    released,
    remark,
)

__all__ = [
    "NO_ADVICE",
    "Reads",
    "StatementReader",
    "StubPlanner",
    "columns_read",
    "has_stored_figures",
    "near_names",
    "plan_of",
    "read_from",
    "selected",
]

_NO_PRUNING = (
    "expression_rewriter,statistics_propagation,filter_pushdown,empty_result_pullup,"
    "join_elimination,deliminator,in_clause,"
    "cte_inlining"  # an inlined recursive expression hides what scans next to it read
)
_AS_WRITTEN = "SET GLOBAL asof_loop_join_threshold = 0"
"""On few rows, DuckDB would plan an ASOF join as numbering and selecting rows."""
_ALLOWED = (
    "one SELECT, or one of FROM, WITH, VALUES, PIVOT, UNPIVOT, SUMMARIZE, DESCRIBE, SHOW, EXPLAIN"
)
_EXPLAIN = re.compile(
    r"\A(?:\s|--[^\n]*\n|/\*.*?\*/)*EXPLAIN\s*(?:ANALYZE\b\s*)?(?:\([^)]*\)\s*)?",
    re.IGNORECASE | re.DOTALL,
)
_LOAD = re.compile(r"\A(?:\s|;|--[^\n]*\n|/\*.*?\*/)*LOAD\b", re.IGNORECASE | re.DOTALL)
_PLANNING_S = 60.0
NO_ADVICE = Advice(warnings=(), may_look_up=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Reads:
    """What a statement reads."""

    columns: ColumnSet  # Columns of the logical table
    is_logical: bool  # The logical table is scanned
    advice: Advice = NO_ADVICE  # Warnings about it
    # DuckDB runs more than one statement for it: a PIVOT looks up its values first. What it reads is fully
    # known only when it is run.
    is_multi: bool = False
    parts: tuple[ColumnSet, ...] = ()  # The columns of each scan of the logical table


class StubPlanner:
    """Plans statements on a stub of the logical table; lives as long as its release is open.

    known: The names that statements can use.
    release: A release to attach, so that they can also name its views and catalogue.
    """

    def __init__(
        self,
        known: Vocabulary,
        *,
        release: Path | None = None,
        oversight: Oversight | None = None,
    ) -> None:
        self._known, self._oversight = known, oversight
        typed = ", ".join(f"{_dummy(type_)} AS {quoted(c)}" for c, type_ in known.types.items())
        self._stub = (
            f"CREATE TEMP TABLE {quoted(known.logical_name)} AS SELECT {typed or 'NULL'} "
            "FROM range(2) AS two(i)"
        )
        if release is not None:
            self._stub = f"USE {ATTACHED}; {self._stub}"
        self._scan = f"temp.main.{known.logical_name}"
        self._is_attached = release is not None
        self._released: dict[str, Released] = {}
        settings = f"{_AS_WRITTEN}; SET disabled_optimizers = '{_NO_PRUNING}'"
        self._con = locked_connection(release, threads=1, memory="512MB", settings=settings)
        self._lock = threading.Lock()
        self._con.execute(self._stub)

    def read(
        self, sql: str, *, own: tuple[OwnTable, ...] = (), budget: Budget | None = None
    ) -> Reads:
        """Return what a statement reads.

        budget: Time budget of the statement; None: a minute.
        """
        budget = budget or Budget(_PLANNING_S)
        with self._lock:  # a DuckDB connection serves one thread at a time
            body, is_multi = selected(sql, self._con, self._known)
            cursor = self._con.cursor() if is_multi or own else None
        try:
            if cursor is not None:  # it runs the look-up of a PIVOT's values, which creates types
                with cursor as con, watched(con, budget):
                    con.execute(self._stub)
                    put(con, own, stub=True)
                    plan = plan_of(con, body)
            else:
                with self._lock, watched(self._con, budget):
                    plan = plan_of(self._con, body)
        except duckdb.Error as error:
            if is_multi and isinstance(error, duckdb.BinderException):
                return Reads(
                    columns=(), is_logical=True, is_multi=True
                )  # it names a PIVOT's values
            raise refusal(error, self._known, body) from None
        if self._oversight is not None:
            self._oversight.look(plan)
        return self._reads(plan, is_multi)

    def _reads(self, plan: Plan, is_multi: bool) -> Reads:
        """What a plan on the stub reads."""
        parts = tuple(
            column_set(tuple(_columns_in(names, self._known.columns)))
            for table, names in scans(plan)
            if self._is_stub(table)
        )
        read = {name for part in parts for name in part}
        unreleased = self._unreleased(plan)
        advice = advice_of(plan, lambda table: "rows" if self._is_stub(table) else _stored(table))
        return Reads(
            columns=column_set(tuple(read)),
            is_logical=bool(parts),
            advice=replace(advice, warnings=(*advice.warnings, *unreleased)),
            is_multi=is_multi,
            parts=parts,
        )

    def _unreleased(self, plan: Plan) -> list[str]:
        """Remarks on values in the statement that are not released."""
        if not self._is_attached:
            return []
        constants = [(c, v) for c, v in compared(plan, self._is_stub) if c in self._known.types]
        remarks = [remark(c, v, self._values(c)) for c, v in constants]
        ordered = compared(plan, self._is_stub, is_ordered=True)
        coarse = self._known.coarse
        remarks += [finer(coarse[c], v) for c, v in ordered if c in coarse]
        remarks += [self._known.hidden[c] for c in casts(plan, self._is_stub, self._known.hidden)]
        return [text for text in remarks if text is not None][:MOST_REMARKS]

    def _values(self, column: str) -> Released:
        """Released values of a column; looked up once."""
        if column not in self._released:
            with self._lock:
                self._released[column] = released(self._con, column)
        return self._released[column]

    def close(self) -> None:
        """Close the planner."""
        self._con.close()

    def _is_stub(self, table: str) -> bool:
        return table.replace('"', "") == self._scan.replace('"', "")


def columns_read(sql: str, columns: Mapping[str, str], logical_name: str = "data") -> ColumnSet:
    """Return the columns of the logical table that a statement reads."""
    planner = StubPlanner(Vocabulary(types=columns, logical_name=logical_name))
    try:
        return planner.read(sql).columns
    finally:
        planner.close()


class StatementReader:
    """Reads the statements of a spec: `engine.spec.workload.SqlReader`."""

    def split(self, text: str) -> list[tuple[int, str]]:
        """Return the statements of a text with the numbers of their first lines, as DuckDB's scanner separates them.

        Text that DuckDB cannot parse counts as a statement, up to its semicolon.
        """
        data = text.encode()
        found: list[tuple[int, str]] = []
        line = counted = start = 0
        first: int | None = None  # where the statement begins, after comments
        for at, kind in [*duckdb.tokenize(text), (len(data), duckdb.token_type.operator)]:
            if kind == duckdb.token_type.comment:
                continue
            if data[at : at + 1] not in (b";", b""):
                first = at if first is None else first
            else:
                if first is not None:
                    line, counted = line + data.count(b"\n", counted, first), first
                    found.append((line + 1, data[start:at].decode().strip()))
                start, first = at + 1, None
        return found

    def columns(self, sql: str, types: Mapping[str, str], logical_name: str) -> ColumnSet:
        """Return the columns that a statement reads: `columns_read`."""
        return columns_read(sql, types, logical_name)

    def columns_of_each(
        self, statements: Sequence[str], types: Mapping[str, str], logical_name: str
    ) -> list[ColumnSet | TablepackError]:
        """Return the columns that each statement reads, or the error that explains why it cannot be answered."""
        planner = StubPlanner(Vocabulary(types=types, logical_name=logical_name))
        try:
            return [_read_or_why(planner, sql, logical_name) for sql in statements]
        finally:
            planner.close()


def _read_or_why(planner: StubPlanner, sql: str, logical_name: str) -> ColumnSet | TablepackError:
    """Return the columns that a statement reads, or the error that explains why it cannot be answered."""
    try:
        reads = planner.read(sql)
    except TablepackError as error:
        return error
    if reads.is_multi and not reads.columns:
        return QueryRefused(
            "the columns it reads are known only when it is run; list them in [[tables]]"
        )
    if not reads.is_logical:
        return QueryRefused(f"does not read {logical_name}")
    return reads.columns


def read_from(plan: Plan, columns: Sequence[str]) -> Reads:
    """Return what a plan over a released table reads, for a statement that had to be run to find out."""
    projected = [names for table, names in scans(plan) if _stored(table)]
    read = {name for names in projected for name in _columns_in(names, columns)}
    return Reads(
        columns=column_set(tuple(read)), is_logical=bool(projected), advice=advice_of(plan, _stored)
    )


def selected(
    sql: str, con: duckdb.DuckDBPyConnection, known: Vocabulary = NO_NAMES
) -> tuple[str, bool]:
    """Return the one SELECT-like statement in a text, without a leading EXPLAIN.

    Returns: The statement, and whether DuckDB runs more than one for it (a PIVOT looks up its values first).
    """
    _refuse_surrogates(sql)
    try:
        statements = con.extract_statements(sql)
        if len(statements) == 1 and _kind(statements[0]) == "EXPLAIN":
            sql = _EXPLAIN.sub("", sql, count=1)
            statements = con.extract_statements(sql)
    except duckdb.Error as error:
        raise refusal(error, known, sql) from None
    if not statements:
        raise QueryRefused(f"no statement; allowed: {_ALLOWED}")
    if len(statements) != 1:
        raise QueryRefused(f"{len(statements)} statements; allowed: {_ALLOWED}")
    kind = _kind(statements[0])
    if kind not in ("SELECT", "MULTI"):
        if kind == "LOAD" and not _LOAD.match(sql):  # DuckDB reports INSTALL as LOAD
            kind = "INSTALL"
        raise QueryRefused(f"{kind.replace('_', ' ')} is not allowed here; allowed: {_ALLOWED}")
    return sql, kind == "MULTI"


def _refuse_surrogates(sql: str) -> None:
    r"""Refuse lone surrogates, which JSON can contain (`"\ud800"`), but UTF-8, and so DuckDB, cannot."""
    try:
        sql.encode()
    except UnicodeEncodeError as error:
        raise QueryRefused(
            f"invalid Unicode: lone surrogate U+{ord(sql[error.start]):04X} at character {error.start + 1}"
        ) from None


def _kind(statement: duckdb.Statement) -> str:
    """The kind of a statement; some have no name in DuckDB's Python package."""
    try:
        return statement.type.name
    except ValueError:
        return "a statement of this kind"


def plan_of(con: duckdb.DuckDBPyConnection, body: str) -> Plan:
    """Return DuckDB's plan of one statement without EXPLAIN."""
    rows = con.execute(f"EXPLAIN (FORMAT json) {body}").fetchall()
    plan: Plan = json.loads(rows[-1][1])
    return plan


def _columns_in(fragments: Sequence[str], known: Sequence[str]) -> Iterator[str]:
    """Yield column names; DuckDB splits a name at a line break."""
    start = 0
    while start < len(fragments):
        for stop in range(len(fragments), start, -1):
            name = "\n".join(fragments[start:stop])
            if name in known:
                yield name
                start = stop
                break
        else:
            start += 1


def _stored(table: str) -> Literal["stored"] | None:
    """Return "stored" for a table of the release, which has distinct rows with their number."""
    is_ours = table.replace('"', "").startswith(f"{ATTACHED}.tables.")
    return "stored" if is_ours else None


def _dummy(type_: str) -> str:
    """Return SQL for a value of a type that differs between the stub's rows: a PIVOT needs values."""
    if type_ in ("DATE", "TIMESTAMP", "TIME"):  # a day and a second further each time
        return f"CAST(TIMESTAMP '1970-01-01' + to_seconds(i * 86401) AS {type_})"
    return f"CAST(i AS {type_})"


def has_stored_figures(plan: Plan) -> bool:
    """Return whether a plan computes from the release's stored tables by name, or shows their counts.

    A view repeats each distinct row by its count: a plan that only unnests gives rows, not figures.
    """
    nodes = list(_nodes(plan))
    is_stored = any(_stored(table) for table, _ in scans(plan))
    names = [node.get("name", "").strip() for node in nodes]
    is_aggregated = any((node.get("extra_info") or {}).get("Aggregates") for node in nodes)
    is_windowed = any("WINDOW" in name for name in names)
    return is_stored and (is_aggregated or is_windowed or "UNNEST" not in names)


def _nodes(plan: Plan) -> Iterator[dict[str, Any]]:
    """Yield all operators of a plan."""
    for node in plan:
        yield node
        yield from _nodes(node.get("children") or [])


def scans(plan: Plan) -> Iterator[tuple[str, list[str]]]:
    """Yield the table and the projected columns of every scan in a plan."""
    for node in plan:
        info = node.get("extra_info") or {}
        if node.get("name", "").strip() == "SEQ_SCAN" and "Table" in info:
            names = info.get("Projections") or []
            yield info["Table"], names.split("\n") if isinstance(names, str) else names
        yield from scans(node.get("children") or [])
