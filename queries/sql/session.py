"""An open release: SQL over the logical table, tables, cards; read-only, locked down.

A statement is planned on a stub (`queries.sql.planner`), routed to one released table (`queries.sql.router`), and then
run unchanged over a view of that table on a new connection (`queries.sql.answering`). Invariant: no statement can
access the file system, extensions, Python variables or settings.
"""

from __future__ import annotations

import copy
import html
import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import duckdb

import engine.store.opening
from engine.errors import DamagedRelease, StoreError, TimedOut
from engine.schema import MEMORY, ColumnSet, column_set, quoted
from engine.store import (
    ATTACHED,
    GeneratorCard,
    ReleaseRecord,
    Signature,
    read_signature,
    table_name,
)
from engine.texts import html_table
from queries.sql.answering import Answering
from queries.sql.budget import Budget, Oversight, megabytes_of, watched
from queries.sql.catalogue import facts_of, values_of
from queries.sql.refusals import unknown_column
from queries.sql.result import Result
from queries.sql.router import Routing, no_such_table
from queries.sql.views import Variants

TIMEOUT_S = 60.0
"""Default time limit of a statement in seconds."""


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
        self.signature = signature
        self.is_overseen = oversight is not None
        self.timeout_s = timeout_s
        self._con: duckdb.DuckDBPyConnection | None = con
        facts = facts_of(con)
        self.title, self.logical_name, self.vintage = facts.title, facts.logical_name, facts.vintage
        self.mode, self.key_id = facts.mode, facts.key_id
        self.engine_version, self.content_hash = facts.engine_version, facts.content_hash
        self.tables: tuple[ColumnSet, ...] = tuple(facts.cells)
        self.columns: dict[str, str] = facts.columns
        self.labels: dict[str, str] = facts.labels
        self.notes: tuple[str, ...] = facts.notes
        self.unit, self.entity, self.is_reviewed = facts.unit, facts.entity, facts.is_reviewed
        self.unreviewed: dict[str, tuple[str, ...]] = facts.unreviewed
        self.weight: str | None = facts.weight
        self.models: dict[Any, Any] = {}
        self._is_stopped: Callable[[], bool] | None = None
        self._lock = threading.Lock()
        self._cards: dict[ColumnSet, GeneratorCard] = {}
        self._facts = facts
        self._answering = Answering(
            facts,
            path,
            connect=self._new_cursor,
            card=lambda table: self.card(*table),
            timeout_s=lambda: self.timeout_s,
            memory_mb=_memory_mb(con),
            oversight=oversight,
        )

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        verify: Literal["size", "hash"] = "size",
        threads: int = 2,
        memory: str = MEMORY,
        timeout_s: float = TIMEOUT_S,
        oversight: Oversight | None = None,
        trust: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Open a release for queries.

        Parameters
        ----------
        path : path-like
            The release file; its manifest must be next to it.
        verify : str
            "size" checks only the size of files of 64 MB or more; "hash" reads all of every file.
        threads : int
            Threads shared by all statements of this handle.
        memory : str
            Memory limit of all statements, and of one answer as Python objects; nothing is spilled to disk.
        timeout_s : float
            Time limit of a statement in seconds.
        oversight : Oversight or None
            Restrictions on statements of untrusted users.
        trust : path-like or None
            File with a public key: a release that is not signed with it is refused.

        Returns
        -------
        Session
            A context manager; close it when done.

        Raises
        ------
        StoreError
            There is no such release.
        DamagedRelease
            It does not match its manifest, or contains anything that tablepack does not write.
        UntrustedRelease
            It is not signed with the trusted key.
        """
        con, record = engine.store.opening.open_release(
            path, verify=verify, threads=threads, memory=memory, trust=trust
        )
        try:
            signature = read_signature(Path(path))
            if signature is not None:
                signature = replace(signature, is_checked=trust is not None)
            return cls(
                Path(path),
                con,
                record=record,
                verify="hash" if trust is not None else verify,
                timeout_s=timeout_s,
                oversight=oversight,
                signature=signature,
            )
        except BaseException:
            con.close()
            raise

    def until(self, is_stopped: Callable[[], bool]) -> Self:
        """Return a handle for one task, which is cancelled soon after `is_stopped` returns true.

        It shares everything else with this handle, which remains the one to close.

        Parameters
        ----------
        is_stopped : callable
            Returns whether the task should stop, for example because its client has disconnected.

        Returns
        -------
        Session
            The handle for the task.
        """
        other = copy.copy(self)
        other._is_stopped = is_stopped
        other._answering = self._answering.until(is_stopped)
        return other

    def check_cancelled(self) -> None:
        """Raise if the task was cancelled; for long work between queries.

        Raises
        ------
        TimedOut
            The task was cancelled: see `until`.
        """
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
        _ = self._connection  # refuses if the handle is closed
        return self._answering.answer(text, tables)

    def on_variants(
        self,
        text: str,
        table: ColumnSet,
        variants: Callable[[], Variants],
        n_variants: int,
        *,
        tables: Mapping[str, Any] | None = None,
        seconds: float = TIMEOUT_S,
        is_one_statement: bool = False,
        is_kept: bool = True,
    ) -> list[list[tuple[Any, ...]]]:
        """Run a statement that was answered before on variants of the table that answered it.

        Parameters
        ----------
        text : str
            The statement.
        table : ColumnSet
            The released table that answered it.
        variants : callable
            Gives what stands in its place; called once, as all is kept for the next statement.
        n_variants : int
            How many there are.
        tables : mapping of str to frame or path, or None
            As in `sql`.
        seconds : float
            Time limit for all variants together.
        is_one_statement : bool
            The statement reads all variants at once, and its last column is `variant_column`.
        is_kept : bool
            Another statement on the same table may ask for these variants, too.

        Returns
        -------
        list of list of tuple
            The rows of each variant's answer.

        Raises
        ------
        TimedOut, TooLarge, QueryRefused
            As `sql`.
        """
        _ = self._connection  # refuses if the handle is closed
        return self._answering.on_variants(
            text,
            table,
            variants,
            n_variants,
            tables=tables,
            seconds=seconds,
            is_one_statement=is_one_statement,
            is_kept=is_kept,
        )

    @property
    def variant_column(self) -> str:
        """Column of the logical table that tells variants apart; see `on_variants`."""
        return self._answering.variant_column

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
        _ = self._connection  # refuses if the handle is closed
        reads, table = self._answering.routing(text, tables)
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
        if column not in self.columns:
            raise unknown_column(column, tuple(self.columns))
        with self.cursor() as con:
            return values_of(con, column, self.columns[column])

    def route(self, columns: Collection[str]) -> ColumnSet:
        """Return the table that answers questions over some columns.

        Parameters
        ----------
        columns : collection of str
            Names of the columns.

        Returns
        -------
        ColumnSet
            The smallest released table that covers them.

        Raises
        ------
        NotAnswerable
            No released table covers them.
        """
        return self._answering.route(columns)

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
        return self._answering.run(f"SELECT {listed} FROM main.{view}", columns)

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

    def _table_of(self, names: tuple[str, ...]) -> ColumnSet:
        """Return the released table of some columns."""
        unknown = [n for n in names if n not in self.columns]
        if unknown:
            raise unknown_column(unknown[0], tuple(self.columns))
        columns = column_set(names)
        if columns not in self._facts.cells:
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

        Parameters
        ----------
        folder : Path or None
            A folder that the connection may read and write.

        Returns
        -------
        DuckDBPyConnection
            A locked-down connection.

        Raises
        ------
        StoreError
            The file was replaced since it was opened: size, SHA-256 or another field of its record differs.
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
            self._answering.close()
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
                (", ".join(t), f"{self._facts.cells[t]:,}", f"{self._facts.noise[t][0]:.2f}")
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
