"""From a statement to its answer: plan it, choose the released table, run the text untouched over a view of it.

Takes SQL and tables of one's own; gives a `Result` or the reads and the table of a `Routing`. Every run has a
connection of its own. What a plan cannot foresee (a PIVOT looks up its values first) is learnt by running.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from engine.card import GeneratorCard
from engine.errors import QueryRefused
from engine.schema import ColumnSet
from engine.store_catalog import table_name
from queries.advice import Advice
from queries.catalogue import Facts
from queries.columns import NO_ADVICE, Reads, StubPlanner, plan_of, read_from, selected
from queries.own_tables import OwnTable, own_tables, put
from queries.refusals import Vocabulary
from queries.result import Result, Statement
from queries.router import MAX_WIDTH, route
from queries.views import UNPLANNED, Filling, LogicalViews
from queries.watched import Budget, watched


@dataclass(frozen=True, kw_only=True, slots=True)
class _Asking:
    """One statement with the tables its user brought, and the time that all its runs share."""

    text: str
    own: tuple[OwnTable, ...]
    budget: Budget


class Answering:
    """Answers statements of one session; lives as long as its release is open.

    Parameters
    ----------
    facts : Facts
    release : Path
    connect : callable
        Gives a fresh connection, locked down; refuses where the session is closed.
    card : callable
        Gives the card of a table.
    timeout_s : callable
        Gives the seconds that a statement has.
    memory_mb : int
        What an answer may take.
    """

    def __init__(
        self,
        facts: Facts,
        release: Path,
        *,
        connect: Callable[[], duckdb.DuckDBPyConnection],
        card: Callable[[ColumnSet], GeneratorCard],
        timeout_s: Callable[[], float],
        memory_mb: int,
    ) -> None:
        self._memory_mb = memory_mb
        self._facts, self._connect, self._card, self._timeout_s = facts, connect, card, timeout_s
        tables = tuple(facts.cells)
        self._known = Vocabulary(
            columns=tuple(facts.columns), logical_name=facts.logical_name, tables=tables
        )
        self._views = LogicalViews(facts.columns, facts.logical_name, tables)
        self._planner = StubPlanner(
            facts.columns, facts.logical_name, release=release, tables=tables
        )

    def route(self, columns: Collection[str], parts: Collection[ColumnSet] = ()) -> ColumnSet:
        """Return the table that answers; in mode dp tables have any width."""
        widest = None if self._facts.mode == "dp" else MAX_WIDTH
        return route(columns, self._facts.cells, max_width=widest, parts=parts)

    def read(self, text: str, own: tuple[OwnTable, ...], budget: Budget) -> Reads:
        """Plan a statement on the stub."""
        return self._planner.read(text, own=own, budget=budget)

    def answer(self, text: str, tables: Mapping[str, Any] | None) -> Result:
        """Answer one statement; see `Release.sql`."""
        asking = _Asking(text=text, own=self._own(tables), budget=Budget(self._timeout_s()))
        reads = self.read(text, asking.own, asking.budget)
        if not reads.is_logical:
            return self._run(asking, None, advice=reads.advice, is_listing=reads.is_listing)
        if reads.is_multi:
            return self._learned(asking, reads.columns)[0]
        table = self.route(reads.columns, reads.parts)
        try:
            return self._run(asking, table, advice=reads.advice)
        except QueryRefused as error:
            if UNPLANNED not in str(error) or not self._is_the_same_without(asking, table):
                raise
        return self._run(asking, table, advice=reads.advice, filling="blank")

    def routing(
        self, text: str, tables: Mapping[str, Any] | None
    ) -> tuple[Reads, ColumnSet | None]:
        """Return what a statement reads, and the table that would answer."""
        asking = _Asking(text=text, own=self._own(tables), budget=Budget(self._timeout_s()))
        reads = self.read(text, asking.own, asking.budget)
        if not reads.is_logical:
            return reads, None
        if not reads.is_multi:
            return reads, self.route(reads.columns, reads.parts)
        result, reads = self._learned(asking, reads.columns)
        return reads, result.table

    def run(self, text: str, table: ColumnSet) -> Result:
        """Run a text of our own over a table."""
        return self._run(_Asking(text=text, own=(), budget=Budget(self._timeout_s())), table)

    def _run(
        self,
        asking: _Asking,
        table: ColumnSet | None,
        *,
        advice: Advice = NO_ADVICE,
        filling: Filling = "guard",
        is_listing: bool = False,
    ) -> Result:
        """Run a statement on a fresh connection over a table, or over none."""
        if is_listing:  # where the views of this session do not show
            con = self._planner.cursor()
            self._views.use_alone(con)
        else:
            con = self._connect()
            self._views.use(con, table, filling)
        put(con, asking.own)
        statement = Statement(
            con, asking.text, self._known, budget=asking.budget, memory_mb=self._memory_mb
        )
        columns, types = statement.start()
        noise_sd, filled_share = (None, None) if table is None else self._facts.noise[table]
        is_dp = table is not None and self._facts.mode == "dp"
        return Result(
            columns=columns,
            types=types,
            table=table,
            noise_sd=noise_sd,
            filled_share=filled_share,
            dp=self._card(table).dp if is_dp and table is not None else None,
            warnings=advice.warnings,
            may_look_up=advice.may_look_up,
            statement=statement,
        )

    def close(self) -> None:
        """Close what plans statements."""
        self._planner.close()

    def _own(self, tables: Mapping[str, Any] | None) -> tuple[OwnTable, ...]:
        """Tables that the user brings; they may hide nothing of the release."""
        taken = (self._facts.logical_name, *map(table_name, self._facts.cells))
        return own_tables(tables, taken=taken)

    def _is_the_same_without(self, asking: _Asking, table: ColumnSet) -> bool:
        """Whether the columns that a table lacks can hold anything, and the answer is the same.

        DuckDB carries whole rows through some correlated subqueries, though no column of them is looked at.
        """
        fillings: tuple[Filling, ...] = ("blank", "other")
        one, other = (self._run(asking, table, filling=f).rows for f in fillings)
        return Counter(map(repr, one)) == Counter(map(repr, other))

    def _learned(self, asking: _Asking, planned: ColumnSet) -> tuple[Result, Reads]:
        """Run a statement that looks up values before its plan is made; that plan tells what it reads."""
        table = self._found(asking, set(planned))
        con = self._connect()
        try:
            self._views.use(con, table)
            put(con, asking.own)
            with watched(con, asking.budget):
                plan = plan_of(con, selected(asking.text, con)[0])
        finally:
            con.close()
        reads = read_from(plan, tuple(self._facts.columns))
        answered = table if reads.is_logical else None
        return self._run(asking, answered, advice=reads.advice), reads

    def _found(self, asking: _Asking, columns: set[str]) -> ColumnSet:
        """Return the table over which a statement runs; what it lacked is added, once a column."""
        while True:
            table = self.route(columns)
            try:
                self._run(asking, table)
            except QueryRefused as error:
                _, found, missing = str(error).partition(UNPLANNED)
                if not found or missing in columns or missing not in self._facts.columns:
                    raise
                columns.add(missing)
            else:
                return table
