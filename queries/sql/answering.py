"""From a statement to its answer: plan it, choose the released table, run the unchanged text over a view of it.

Takes SQL and the user's own tables; gives a `Result`, or the `Reads` and the table of a `Routing`. Every run has a
connection of its own. Columns that a plan cannot show in advance (a PIVOT looks up its values first) are found by
running the statement.
"""

from __future__ import annotations

import copy
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import duckdb

from engine.errors import TimedOut
from engine.schema import MAX_WIDTH, ColumnSet
from engine.store import GeneratorCard, swap_of_table, table_name
from queries.sql.advice import Advice
from queries.sql.budget import Budget, Oversight, watched
from queries.sql.catalogue import Facts
from queries.sql.own_tables import OwnTable, own_tables, put
from queries.sql.planner import NO_ADVICE, Reads, StubPlanner, plan_of, read_from, selected
from queries.sql.refusals import LackingColumn, Vocabulary, refusal
from queries.sql.result import Result, Statement
from queries.sql.router import route, to_measure
from queries.sql.views import Filling, GiveBack, LogicalViews, Variants


@dataclass(frozen=True, kw_only=True, slots=True)
class _Request:
    """One statement with the user's own tables, and the time budget that all its runs share."""

    text: str
    own: tuple[OwnTable, ...]
    budget: Budget


class Answering:
    """Answers statements of one session; lives as long as its release is open.

    connect: Gives a new locked-down connection; refuses if the session is closed.
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
        oversight: Oversight | None = None,
    ) -> None:
        self._oversight = oversight
        self._is_stopped = None if oversight is None else oversight.is_stopped
        self._memory_mb = memory_mb
        self._facts, self._connect, self._card, self._timeout_s = facts, connect, card, timeout_s
        tables = tuple(facts.cells)
        self._taken = (facts.logical_name, *map(table_name, tables))
        self._known = Vocabulary(
            columns=tuple(facts.columns),
            logical_name=facts.logical_name,
            tables=tables,
            hidden=facts.hidden,
        )
        self._views = LogicalViews(
            facts.columns, facts.logical_name, tables, is_shared=oversight is None
        )
        self._planner = StubPlanner(
            facts.columns,
            facts.logical_name,
            release=release,
            tables=tables,
            oversight=oversight,
            of_entities=_of_entities(facts),
            hidden=facts.hidden,
        )

    def route(self, columns: Collection[str], parts: Collection[ColumnSet] = ()) -> ColumnSet:
        """Return the table that answers; in mode dp, tables have any width."""
        widest = None if self._facts.mode == "dp" else MAX_WIDTH
        return route(columns, self._facts.cells, max_width=widest, parts=parts)

    def read(self, text: str, own: tuple[OwnTable, ...], budget: Budget) -> Reads:
        """Plan a statement on the stub."""
        return self._planner.read(text, own=own, budget=budget)

    def answer(self, text: str, tables: Mapping[str, Any] | None) -> Result:
        """Answer one statement; see `Release.sql`."""
        request = _Request(text=text, own=self._own(tables), budget=self._budget())
        reads = self.read(text, request.own, request.budget)
        if not reads.is_logical:
            listing = reads.is_listing
            return self._run(
                request, None, advice=reads.advice, filling="guard", is_listing=listing
            )
        if reads.is_multi:
            return self._learned(request, reads.columns)[0]
        table = self.route(reads.columns, reads.parts)
        advice = self._advised(reads, table)
        try:
            return self._run(request, table, advice=advice, is_kept=not request.own)
        except LackingColumn:
            if not self._is_the_same_without(request, table):
                self._run(
                    request, table, filling="guard"
                )  # raises the same error, with the column's name
                raise
        return self._run(request, table, advice=advice, filling="blank")

    def _advised(self, reads: Reads, table: ColumnSet) -> Advice:
        """What is said of a statement, with what table would measure what only a modelled one has."""
        is_modelled = self._facts.noise[table][0] == 0 and self._card(table).wide
        more = to_measure(reads.columns) if is_modelled else ""
        advice = reads.advice
        return replace(advice, warnings=(*advice.warnings, more)) if more else advice

    def routing(
        self, text: str, tables: Mapping[str, Any] | None
    ) -> tuple[Reads, ColumnSet | None]:
        """Return what a statement reads, and the table that would answer."""
        request = _Request(text=text, own=self._own(tables), budget=self._budget())
        reads = self.read(text, request.own, request.budget)
        if not reads.is_logical:
            return reads, None
        if not reads.is_multi:
            return reads, self.route(reads.columns, reads.parts)
        result, reads = self._learned(request, reads.columns)
        return reads, result.table

    def run(self, text: str, table: ColumnSet) -> Result:
        """Run a statement of our own over a table."""
        return self._run(_Request(text=text, own=(), budget=self._budget()), table)

    def on_variants(
        self,
        text: str,
        table: ColumnSet,
        variants: Callable[[], Variants],
        n_variants: int,
        *,
        tables: Mapping[str, Any] | None,
        seconds: float,
        is_one_statement: bool = False,
        is_kept: bool = True,
    ) -> list[list[tuple[Any, ...]]]:
        """Run one statement on each variant of a table; see `Session.on_variants`."""
        budget = Budget(min(seconds, self._timeout_s()), self._is_stopped)
        until = time.monotonic() + budget.left
        own = self._own(tables)
        answers: list[list[tuple[Any, ...]]] = []
        with (
            self._views.lent_variants(
                self._connect, table, n_variants, is_kept=is_kept and not own
            ) as con,
            watched(con, budget, self._memory_mb),
        ):
            self._views.put_variants(con, table, variants, is_one_statement=is_one_statement)
            put(con, own)
            if is_one_statement:
                answers = [[] for _ in range(n_variants)]
                for row in self._rows(con, text):
                    answers[row[-1]].append(row[:-1])
                return answers
            for number in range(n_variants):
                if (
                    time.monotonic() >= until
                ):  # runs may be too short for the watcher to interrupt one
                    raise TimedOut(
                        f"The replays of the statement took more than {budget.seconds:g} seconds"
                    )
                self._views.use_variant(con, number)
                answers.append(self._rows(con, text))
        return answers

    def _rows(self, con: duckdb.DuckDBPyConnection, text: str) -> list[tuple[Any, ...]]:
        """All rows of a statement."""
        try:
            return con.execute(text).fetchall()
        except duckdb.InterruptException:
            raise
        except duckdb.Error as error:
            raise refusal(error, self._known) from None

    @property
    def variant_column(self) -> str:
        """See `Session.variant_column`."""
        return self._views.variant_column

    def _run(
        self,
        request: _Request,
        table: ColumnSet | None,
        *,
        advice: Advice = NO_ADVICE,
        filling: Filling = "quick",
        is_listing: bool = False,
        is_kept: bool = False,
    ) -> Result:
        """Run a statement on a connection over a table, or over none; `is_kept`: its connection may be reused."""
        give_back: GiveBack | None = None
        if table is not None and is_kept:
            con, give_back = self._views.lent(self._connect, table)
        elif is_listing:  # on a connection where the views of this session are invisible
            con = self._planner.cursor()
            self._views.use_alone(con)
        else:
            con = self._connect()
            self._views.use(con, table, filling)
        put(con, request.own)
        statement = Statement(
            con,
            request.text,
            self._known,
            budget=request.budget,
            memory_mb=self._memory_mb,
            give_back=give_back,
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
            wide=self._card(table).wide if table is not None and noise_sd == 0 else None,
            swap=swap_of_table(self._facts.swap, table or ()),
            max_rows=self._facts.max_rows,
            range_sd=self._facts.range_sd,
            unit=self._facts.unit,
            entity=self._facts.entity,
            warnings=advice.warnings,
            may_look_up=advice.may_look_up,
            statement=statement,
        )

    def _budget(self) -> Budget:
        """The time budget of one statement."""
        return Budget(self._timeout_s(), self._is_stopped)

    def until(self, is_stopped: Callable[[], bool]) -> Self:
        """Return a copy whose statements stop soon after `is_stopped` returns true."""
        other = copy.copy(self)
        other._is_stopped = is_stopped
        return other

    def close(self) -> None:
        """Close the planner, and connections that are kept."""
        self._planner.close()
        self._views.close()

    def _own(self, tables: Mapping[str, Any] | None) -> tuple[OwnTable, ...]:
        """The user's own tables; their names must not hide objects of the release."""
        return own_tables(tables, taken=self._taken)

    def _is_the_same_without(self, request: _Request, table: ColumnSet) -> bool:
        """Whether the answer does not depend on the values of the columns that a table lacks.

        DuckDB passes whole rows through some correlated subqueries, although no column of them is used.
        """
        fillings: tuple[Filling, ...] = ("blank", "other")
        one, other = (self._run(request, table, filling=f).rows for f in fillings)
        return Counter(map(repr, one)) == Counter(map(repr, other))

    def _learned(self, request: _Request, planned: ColumnSet) -> tuple[Result, Reads]:
        """Run a statement that looks up values before it is planned, and read the resulting plan."""
        table = self._table_by_trial(request, set(planned))
        con = self._connect()
        try:
            self._views.use(con, table)
            put(con, request.own)
            with watched(con, request.budget):
                plan = plan_of(con, selected(request.text, con)[0])
        finally:
            con.close()
        if self._oversight is not None:
            self._oversight.look(plan)
        reads = read_from(plan, tuple(self._facts.columns))
        answering = table if reads.is_logical else None
        return self._run(request, answering, advice=reads.advice), reads

    def _table_by_trial(self, request: _Request, columns: set[str]) -> ColumnSet:
        """Return the table over which a statement runs: columns that a table lacks are added one by one."""
        while True:
            table = self.route(columns)
            try:
                self._run(request, table, filling="guard")
            except LackingColumn as error:
                if error.column in columns or error.column not in self._facts.columns:
                    raise
                columns.add(error.column)
            else:
                return table


def _of_entities(facts: Facts) -> str:
    """How to count the protected entities."""
    many = facts.entity.many
    unnamed = f"If it names {many}: such columns are never released"
    if facts.mode == "dp":
        return f"{unnamed}."
    if facts.max_rows in (None, 1):
        return f"{unnamed}. Each row is one of the {many}: write count(*)."
    return (
        f"{unnamed}, and this release cannot tell which rows belong to the same one. To count {many}, build a second "
        'release from a copy of the spec with another name and count = "entities" in [release]; there, count(*) counts '
        f"{many}."
    )
