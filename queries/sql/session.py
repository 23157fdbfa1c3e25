"""An open release: SQL over the logical table, tables, cards; read-only, locked down.

A statement is planned on a stub (`queries.sql.planner`), routed to one released table (`queries.sql.router`), and then
run unchanged over a view of that table (`queries.sql.views`) on a connection of its own. Columns that a plan cannot
show in advance (a PIVOT looks up its values first) are found by running the statement. Invariant: no statement can
access the file system, extensions, Python variables or settings.
"""

from __future__ import annotations

import copy
import html
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import duckdb

import engine.store.opening
from engine.errors import DamagedRelease, StoreError, TimedOut
from engine.schema import (
    KIND_OTHER,
    MAX_WIDTH,
    MEMORY,
    Column,
    ColumnSet,
    Resolution,
    Universe,
    column_set,
    quoted,
)
from engine.store import (
    ATTACHED,
    HIDDEN_WORDS,
    KIND_WORDS,
    GeneratorCard,
    ReleaseRecord,
    Signature,
    table_name,
)
from engine.texts import html_table
from engine.units import unit_from_json
from queries.sql.advice import Advice
from queries.sql.budget import Budget, Oversight, megabytes_of, watched
from queries.sql.own_tables import OwnTable, own_tables, put
from queries.sql.planner import NO_ADVICE, Reads, StubPlanner, plan_of, read_from, selected
from queries.sql.refusals import LackingColumn, Vocabulary, refusal, unknown_column
from queries.sql.result import Result, Statement
from queries.sql.router import Routing, no_such_table, route, to_measure
from queries.sql.views import Filling, GiveBack, LogicalViews, VariantSource

T = TypeVar("T")
TIMEOUT_S = 60.0
"""Default time limit of a statement in seconds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Request:
    """One statement with the user's own tables, and the time budget that all its runs share."""

    text: str
    own: tuple[OwnTable, ...] = ()
    budget: Budget


class Session:
    """An open release without intervals; a context manager. `queries.release.Release` adds them.

    Attributes
    ----------
    path, timeout_s, title, tables, columns, ...
        As in `queries.release.Release`.
    record : ReleaseRecord
        The manifest's record of the file; reopening the file must find the same.
    verify : str
        How the file was checked: "size" or "hash"; always "hash" if a signature was required.
    privacy : dict
        Parameters of protection, as the catalogue states them.
    described : dict of str to Column
        What the catalogue states of each column: kind, resolution, universe and the like.
    models : dict
        What was read and drawn once; see `queries.intervals.replays`.
    """

    def __init__(
        self,
        path: Path,
        con: duckdb.DuckDBPyConnection,
        *,
        record: ReleaseRecord,
        verify: Literal["size", "hash"],
        timeout_s: float,
        oversight: Oversight | None = None,
        signature: Signature | None = None,
    ) -> None:
        self.path, self.record, self.verify = path, record, verify
        self.signature, self.timeout_s = signature, timeout_s
        self.models: dict[Any, Any] = {}
        self._con: duckdb.DuckDBPyConnection | None = con
        self._oversight = oversight
        self._is_stopped = None if oversight is None else oversight.is_stopped
        self._lock = threading.Lock()
        self._cards: dict[ColumnSet, GeneratorCard] = {}
        self._memory_mb = _memory_mb(con)
        self._read_catalogue(con)
        self._known = Vocabulary(
            types=self.columns,
            logical_name=self.logical_name,
            tables=self.tables,
            of_entities=self._of_entities(),
            hidden=_hidden(con),
            coarse={n: c for n, c in self.described.items() if c.resolution is not None},
        )
        self._views = LogicalViews(self.columns, self.logical_name, self._new_cursor)
        self._planner = StubPlanner(self._known, release=path, oversight=oversight)

    def _read_catalogue(self, con: duckdb.DuckDBPyConnection) -> None:
        """Describe the release: all of it is public."""
        *told, privacy, unit, entity, reviewed = con.execute(
            "SELECT title, logical_name, vintage, mode, key_id, engine_version, content_hash, privacy, unit, entity, "
            "reviewed FROM catalog.release"
        ).fetchall()[0]
        texts: list[str] = told
        self.title, self.logical_name, self.vintage, self.mode, self.key_id = texts[:5]
        self.engine_version, self.content_hash = texts[5:]
        self.unit, self.entity = unit_from_json(unit), unit_from_json(entity)
        self.is_reviewed: bool = reviewed
        self.privacy: dict[str, Any] = json.loads(privacy)
        self.weight: str | None = self.privacy.get("weight")
        tables = con.execute(
            "SELECT columns, cells FROM catalog.tables ORDER BY width, columns"
        ).fetchall()
        self._cells: dict[ColumnSet, int] = {tuple(table): cells for table, cells in tables}
        self.tables: tuple[ColumnSet, ...] = tuple(self._cells)
        columns = con.execute(
            "SELECT name, sql_type, label, detected, kind, value_type, public, placeholder, resolution "
            "FROM catalog.columns ORDER BY position"
        ).fetchall()
        self.columns: dict[str, str] = {name: type_ for name, type_, *_ in columns}
        self.labels: dict[str, str] = {name: label or name for name, _, label, *_ in columns}
        universes = self._universes(con)
        self.described: dict[str, Column] = {
            name: Column(
                name=name,
                kind=kind,
                value_type=value_type,
                public=public,
                placeholder=placeholder,
                resolution=None if step is None else Resolution.read(step),
                universe=universes.get(name),
            )
            for name, _, _, _, kind, value_type, public, placeholder, step in columns
        }
        notes = con.execute("SELECT note FROM catalog.notes ORDER BY position").fetchall()
        self.notes: tuple[str, ...] = tuple(note for (note,) in notes)
        self.unreviewed: dict[str, tuple[str, ...]] = {}
        if not self.is_reviewed:
            shown = {name for table in self.tables for name in table}
            found = {name: of for name, _, _, of, *_ in columns if of and name in shown}
            if isinstance(of_all := self.privacy.get("detected"), list) and of_all:
                found["privacy"] = map(str, of_all)
            self.unreviewed = {name: tuple(of) for name, of in found.items()}

    def _universes(self, con: duckdb.DuckDBPyConnection) -> dict[str, Universe]:
        """For which rows a column has a value, as declared, with values in the types of their columns."""
        out = {}
        pairs = con.execute("SELECT column_name, decided_by FROM catalog.universes").fetchall()
        for name, decided_by in pairs:
            deciding = self.columns[decided_by]
            low, high, listed, outside, complete = con.execute(
                f"SELECT CAST(low AS {deciding}), CAST(high AS {deciding}), CAST(listed AS {deciding}[]), "
                f"CAST(outside AS {self.columns[name]}), complete FROM catalog.universes WHERE column_name = ?",
                [name],
            ).fetchall()[0]
            out[name] = Universe(
                column=decided_by,
                low=low,
                high=high,
                values=None if listed is None else tuple(listed),
                outside=outside,
                complete=complete,
            )
        return out

    def _of_entities(self) -> str:
        """How to count the protected entities."""
        many = self.entity.many
        unnamed = f"If it names {many}: such columns are never released"
        if self.mode == "dp":
            return f"{unnamed}."
        if self._max_rows in (None, 1):
            return f"{unnamed}. Each row is one of the {many}: write count(*)."
        return (
            f"{unnamed}, and this release cannot tell which rows belong to the same one. To count {many}, build a "
            'second release from a copy of the spec with another name and count = "entities" in [release]; there, '
            f"count(*) counts {many}."
        )

    @property
    def _max_rows(self) -> int | None:
        """The declared bound on the rows of one entity; None: none is, or in mode dp, where cards state it."""
        bound = self.privacy.get("max_rows")
        return bound if isinstance(bound, int) and self.mode != "dp" else None

    @property
    def is_overseen(self) -> bool:
        """Whether its statements are those of untrusted users."""
        return self._oversight is not None

    def until(self, is_stopped: Callable[[], bool]) -> Self:
        """Return a handle for one task, which is cancelled soon after `is_stopped` returns true.

        It shares everything else with this handle, which remains the one to close.
        """
        other = copy.copy(self)
        other._is_stopped = is_stopped
        return other

    def check_cancelled(self) -> None:
        """Raise `TimedOut` if the task was cancelled (see `until`); for long work between queries."""
        if self._is_stopped is not None and self._is_stopped():
            raise TimedOut("Cancelled: the client no longer waits for the answer")

    def sql(self, text: str, *, tables: Mapping[str, Any] | None = None) -> Result:
        """Answer one read-only statement.

        A statement over the logical table is answered from the smallest released table that covers its columns; the
        views of the tables and the catalogue can be queried by name.

        Parameters
        ----------
        text : str
            One statement in DuckDB's SQL: SELECT, FROM, WITH, PIVOT, SUMMARIZE, DESCRIBE and the like.
        tables : mapping of str to frame or path, or None
            Your own public tables to join with, by name: DataFrames, Arrow tables, or CSV, Parquet and JSON files. They
            are copied for this statement only.

        Returns
        -------
        Result
            The rows, with the table that answered and its noise.

        Raises
        ------
        QueryRefused
            It is not one read-only statement, is invalid SQL, or accesses something outside the release.
        TimedOut, TooLarge
            It exceeds the time or memory limit; both are kinds of QueryRefused.
        NotAnswerable
            A column is unknown, or no released table covers the columns.
        StoreError
            One of your own files cannot be read.
        """
        request = self._request(text, tables)
        reads = self._planner.read(text, own=request.own, budget=request.budget)
        if not reads.is_logical:
            return self._run(request, None, advice=reads.advice, filling="guard")
        if reads.is_multi:
            return self._learned(request, reads.columns)[0]
        table = self._route(reads)
        advice = self._advised(reads, table)
        try:
            return self._run(request, table, advice=advice, is_kept=not request.own)
        except LackingColumn:
            if not self._is_the_same_without(request, table):
                # raises the same error, with the column's name
                self._run(request, table, filling="guard")
                raise
        return self._run(request, table, advice=advice, filling="blank")

    def on_variants(
        self,
        text: str,
        table: ColumnSet,
        source: VariantSource,
        *,
        tables: Mapping[str, Any] | None = None,
        seconds: float = TIMEOUT_S,
        is_one_statement: bool = False,
        is_kept: bool = True,
    ) -> list[list[tuple[Any, ...]]]:
        """Run a statement that was answered before on variants of the table that answered it; return the rows of each.

        source: Gives what stands in its place, once, as all is kept for the next statement.
        seconds: Time limit for all together.
        is_one_statement: The statement reads all variants at once, and its last column is `variant_column`.
        is_kept: Another statement on the same table may ask for these variants, too.
        """
        own = self._request(text, tables).own
        budget = Budget(min(seconds, self.timeout_s), self._is_stopped)
        until = time.monotonic() + budget.left
        answers: list[list[tuple[Any, ...]]] = []
        kept = self._views.lent_variants(table, source.n_variants, is_kept=is_kept and not own)
        with kept as con, watched(con, budget, self._memory_mb):
            self._views.put_variants(con, table, source, is_one_statement=is_one_statement)
            put(con, own)
            if is_one_statement:
                answers = [[] for _ in range(source.n_variants)]
                for row in self._rows(con, text):
                    answers[row[-1]].append(row[:-1])
                return answers
            for number in range(source.n_variants):
                if time.monotonic() >= until:  # runs may be too short for the watcher to see one
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
        """Column of the logical table that tells variants apart; see `on_variants`."""
        return self._views.variant_column

    def explain(self, text: str, *, tables: Mapping[str, Any] | None = None) -> Routing:
        """Return how a statement would be answered, without running it.

        Only a PIVOT that refers to its own value columns is run, because nothing else shows what it reads.

        Parameters
        ----------
        text, tables
            As in `sql`.

        Returns
        -------
        Routing
            The columns read, the table that would answer, its card, and warnings.

        Raises
        ------
        QueryRefused, NotAnswerable, StoreError
            As `sql`.
        """
        request, table = self._request(text, tables), None
        reads = self._planner.read(text, own=request.own, budget=request.budget)
        if reads.is_logical and reads.is_multi:
            result, reads = self._learned(request, reads.columns)
            table = result.table
        elif reads.is_logical:
            table = self._route(reads)
        card = self.card(*table) if table is not None else None
        return Routing(
            columns=reads.columns, table=table, card=card, warnings=reads.advice.foreseen
        )

    def values(self, column: str) -> list[tuple[Any, str | None, int]]:
        """Return a column's released values in order.

        Parameters
        ----------
        column : str
            Name of the column.

        Returns
        -------
        list of tuple
            Value (None: missing in the source), label (None: it has none), and fitted number of rows.

        Raises
        ------
        NotAnswerable
            There is no such column.
        """
        self.check_column(column)
        with self.cursor() as con:
            return con.execute(
                f"SELECT CAST(value AS {self.columns[column]}), label, n FROM catalog.codes "
                "WHERE column_name = ? ORDER BY position",
                [column],
            ).fetchall()

    def route(self, columns: Collection[str]) -> ColumnSet:
        """Return the smallest released table that has some columns; raises `NotAnswerable` if none has them."""
        return self._route(Reads(columns=tuple(columns), is_logical=True))

    def _route(self, reads: Reads) -> ColumnSet:
        """The table that answers; in mode dp, tables have any width."""
        widest = None if self.mode == "dp" else MAX_WIDTH
        return route(reads.columns, self._cells, max_width=widest, parts=reads.parts)

    def _advised(self, reads: Reads, table: ColumnSet) -> Advice:
        """What is said of a statement, with what table would measure what only a modelled one has."""
        more = to_measure(reads.columns) if self.card(*table).wide else ""
        advice = reads.advice
        return replace(advice, warnings=(*advice.warnings, more)) if more else advice

    def _request(self, text: str, tables: Mapping[str, Any] | None = None) -> _Request:
        """A statement with what it needs; the names of own tables must not hide objects of the release."""
        _ = self._connection  # refuses if the handle is closed
        taken = (self.logical_name, *map(table_name, self.tables))
        own, budget = own_tables(tables, taken=taken), Budget(self.timeout_s, self._is_stopped)
        return _Request(text=text, own=own, budget=budget)

    def _run(
        self,
        request: _Request,
        table: ColumnSet | None,
        *,
        advice: Advice = NO_ADVICE,
        filling: Filling = "quick",
        is_kept: bool = False,
    ) -> Result:
        """Run a statement on a connection over a table, or over none.

        is_kept: Statements of untrusted users may use its connection again.
        """
        give_back: GiveBack | None = None
        if table is not None and is_kept and self.is_overseen:
            con, give_back = self._views.lent(table)
        else:
            con = self._new_cursor()
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
        statement.start()
        return Result(
            statement,
            card=None if table is None else self.card(*table),
            unit=self.unit,
            entity=self.entity,
            max_rows=self._max_rows,
            warnings=advice.warnings,
            may_look_up=advice.may_look_up,
        )

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
        with self._new_cursor() as con:
            self._views.use(con, table)
            put(con, request.own)
            with watched(con, request.budget):
                plan = plan_of(con, selected(request.text, con)[0])
        if self._oversight is not None:
            self._oversight.look(plan)
        reads = read_from(plan, tuple(self.columns))
        return self._run(request, table if reads.is_logical else None, advice=reads.advice), reads

    def _table_by_trial(self, request: _Request, columns: set[str]) -> ColumnSet:
        """Return the table over which a statement runs: columns that a table lacks are added one by one."""
        while True:
            table = self.route(columns)
            try:
                self._run(request, table, filling="guard")
            except LackingColumn as error:
                if error.column in columns or error.column not in self.columns:
                    raise
                columns.add(error.column)
            else:
                return table

    def table(self, *names: str) -> Result:
        """Return one released table, with a row per synthetic record and columns in the source's order.

        Parameters
        ----------
        *names : str
            Its columns, in any order.

        Returns
        -------
        Result
            The rows.

        Raises
        ------
        NotAnswerable
            There is no table of exactly these columns.
        """
        columns = self._table_of(names)
        listed = ", ".join(quoted(c) for c in self.columns if c in columns)
        view = quoted(table_name(columns))
        return self._run(self._request(f"SELECT {listed} FROM main.{view}"), columns)

    def __getitem__(self, names: str | tuple[str, ...]) -> Result:
        """Return one released table: `release["age", "sex"]` is `release.table("age", "sex")`."""
        return self.table(*((names,) if isinstance(names, str) else names))

    def card(self, *names: str) -> GeneratorCard:
        """Return the generator card of the table of exactly these columns; parameters and errors as `table`."""
        columns = self._table_of(names)
        with self.cursor() as con:  # refuses if the handle is closed
            if columns not in self._cards:
                rows = con.execute(
                    "SELECT card FROM catalog.tables WHERE name = ?", [table_name(columns)]
                ).fetchall()
                card = GeneratorCard.from_json(rows[0][0])
                if card.columns != columns:
                    raise DamagedRelease(f"{self.path}: a card is that of another table")
                self._cards[columns] = card
        return self._cards[columns]

    def once(self, key: Any, make: Callable[[], T]) -> T:
        """Return what is made once as long as the release is open; it is kept in `models`."""
        nothing = object()
        made: Any = self.models.get(key, nothing)  # another thread may drop it at any time
        if made is nothing:
            made = self.models[key] = make()
        found: T = made
        return found

    def check_column(self, name: str) -> None:
        """Refuse a name that no column has, with similar ones, by `NotAnswerable`."""
        if name not in self.columns:
            raise unknown_column(name, tuple(self.columns))

    def _table_of(self, names: tuple[str, ...]) -> ColumnSet:
        """Return the released table of some columns."""
        for name in names:
            self.check_column(name)
        columns = column_set(names)
        if columns not in self._cells:
            raise no_such_table(columns, self.tables)
        return columns

    @contextmanager
    def cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Provide a new locked-down connection with the release as default database."""
        self.check_cancelled()
        con = self._new_cursor()
        try:
            con.execute(f"USE {ATTACHED}")
            if self._is_stopped is None:
                yield con
                return
            with watched(con, Budget(self.timeout_s, self._is_stopped)):
                yield con
        finally:
            con.close()

    def _new_cursor(self) -> duckdb.DuckDBPyConnection:
        """Return a new connection; one thread at a time, as DuckDB requires."""
        with self._lock:
            return self._connection.cursor()

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        if self._con is None:
            raise StoreError(f"{self.path}: the release is closed")
        return self._con

    def reopened(self, *, folder: Path | None = None) -> duckdb.DuckDBPyConnection:
        """Open the file again, with the same checks as before and those of the counts of all tables.

        folder: One that the locked-down connection may read and write. Raises `StoreError` if the file was replaced.
        """
        con, record = engine.store.opening.open_release(
            self.path, verify=self.verify, folder=folder, counts=True
        )
        if record != self.record:
            con.close()
            raise StoreError(f"{self.path}: was replaced since it was opened; open it again")
        return con

    def close(self) -> None:
        """Close the handle; its results remain usable, and keep the file open as long as they exist."""
        if self._con is not None:
            self._planner.close()
            self._views.close()
            self._con = None  # not closed: that would close the connections of its results

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            f"<Release {self.title or self.path.name!r}: {self._size()}, {self._width()}, "
            f"vintage {self.vintage}, {self.path}>"
        )

    def _size(self) -> str:
        return "1 table" if len(self.tables) == 1 else f"{len(self.tables):,} tables"

    def _width(self) -> str:
        return "1 column" if len(self.columns) == 1 else f"{len(self.columns):,} columns"

    def _repr_html_(self) -> str:
        more = len(self.tables) - 30
        title, name = html.escape(self.title or self.path.name), html.escape(self.logical_name)
        return html_table(
            ("table", "distinct rows", "noise sd"),
            [
                (", ".join(t), f"{self._cells[t]:,}", f"{self.card(*t).noise_sd:.2f}")
                for t in self.tables[:30]
            ],
            above=f"<p><b>{title}</b>, vintage {html.escape(self.vintage)}: {self._size()}; "
            f"query <code>{name}</code> with <code>.sql()</code></p>",
            below=[f"... and {more:,} more {'table' if more == 1 else 'tables'}"]
            if more > 0
            else [],
        )


def _memory_mb(con: duckdb.DuckDBPyConnection) -> int:
    """The memory limit of a connection."""
    (limit,) = con.execute("SELECT current_setting('memory_limit')").fetchall()[0]
    return megabytes_of(limit) or megabytes_of(MEMORY) or 0


def _hidden(con: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Say of each column of texts with hidden values which rows have no such value, as a cast sees it."""
    found = con.execute(
        "SELECT column_name, arg_max(value, n) FILTER (is_hidden), sum(n) FILTER (is_hidden) / sum(n) FROM "
        f"(SELECT *, kind IN {(*HIDDEN_WORDS, KIND_WORDS[KIND_OTHER])} AS is_hidden FROM catalog.codes) "
        "GROUP BY column_name HAVING bool_or(is_hidden)"
    ).fetchall()
    return {
        column: f"{share:.1%} of the rows have a text such as {text!r} in the place of a value of {column} that is "
        "too rare to show. Where it is no number or date, a cast fails, and TRY_CAST gives NULL, which figures leave "
        'out. To show more, the spec can declare a kind such as "integer", a public domain, or a hierarchy.'
        for column, text, share in found
    }
