"""From a statement to its answer: plan it, choose the released table, run the text untouched over a view of it.

Takes SQL and tables of one's own; gives a `Result` or the reads and the table of a `Routing`. Every run has a
connection of its own. What a plan cannot foresee (a PIVOT looks up its values first) is learnt by running.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
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
    timeout_s : float
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
        timeout_s: float,
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

    def read(self, text: str, own: tuple[OwnTable, ...] = ()) -> Reads:
        """Plan a statement on the stub."""
        return self._planner.read(text, own=own, timeout_s=self._timeout_s)

    def answer(self, text: str, tables: Mapping[str, Any] | None) -> Result:
        """Answer one statement; see `Release.sql`."""
        own = self._own(tables)
        reads = self.read(text, own)
        if not reads.is_logical:
            return self.run(text, None, own=own, advice=reads.advice)
        if reads.is_multi:
            return self._learned(text, reads.columns, own)[0]
        table = self.route(reads.columns, reads.parts)
        try:
            return self.run(text, table, own=own, advice=reads.advice)
        except QueryRefused as error:
            if UNPLANNED not in str(error) or not self._is_the_same_without(text, table, own):
                raise
        return self.run(text, table, own=own, advice=reads.advice, filling="blank")

    def routing(
        self, text: str, tables: Mapping[str, Any] | None
    ) -> tuple[Reads, ColumnSet | None]:
        """Return what a statement reads, and the table that would answer."""
        own = self._own(tables)
        reads = self.read(text, own)
        if not reads.is_logical:
            return reads, None
        if not reads.is_multi:
            return reads, self.route(reads.columns, reads.parts)
        result, reads = self._learned(text, reads.columns, own)
        return reads, result.table

    def run(
        self,
        text: str,
        table: ColumnSet | None,
        *,
        own: tuple[OwnTable, ...] = (),
        advice: Advice = NO_ADVICE,
        filling: Filling = "guard",
    ) -> Result:
        """Run a text on a fresh connection over a table, or over none."""
        con = self._connect()
        self._views.use(con, table, filling)
        put(con, own)
        statement = Statement(
            con, text, self._known, timeout_s=self._timeout_s, memory_mb=self._memory_mb
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

    def _is_the_same_without(self, text: str, table: ColumnSet, own: tuple[OwnTable, ...]) -> bool:
        """Whether the columns that a table lacks can hold anything, and the answer is the same.

        DuckDB carries whole rows through some correlated subqueries, though no column of them is looked at.
        """
        fillings: tuple[Filling, ...] = ("blank", "other")
        one, other = (self.run(text, table, own=own, filling=f).rows for f in fillings)
        return Counter(map(repr, one)) == Counter(map(repr, other))

    def _learned(
        self, text: str, planned: ColumnSet, own: tuple[OwnTable, ...]
    ) -> tuple[Result, Reads]:
        """Run a statement that looks up values before its plan is made; that plan tells what it reads."""
        table = self._found(text, set(planned), own)
        con = self._connect()
        try:
            self._views.use(con, table)
            put(con, own)
            plan = plan_of(con, selected(text, con)[0])
        finally:
            con.close()
        reads = read_from(plan, tuple(self._facts.columns))
        answered = table if reads.is_logical else None
        return self.run(text, answered, own=own, advice=reads.advice), reads

    def _found(self, text: str, columns: set[str], own: tuple[OwnTable, ...]) -> ColumnSet:
        """Return the table over which a statement runs; what it lacked is added, once a column."""
        while True:
            table = self.route(columns)
            try:
                self.run(text, table, own=own)
            except QueryRefused as error:
                _, found, missing = str(error).partition(UNPLANNED)
                if not found or missing in columns or missing not in self._facts.columns:
                    raise
                columns.add(missing)
            else:
                return table
