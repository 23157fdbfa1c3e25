"""The `Release` handle: SQL over the logical table, tables, cards; read-only, locked down.

A statement is planned on a stub (`queries.columns`), routed to one released table (`queries.router`), and its text
then run untouched over a view of that table on a fresh connection (`queries.answering`).
Invariant: the file system, extensions, Python variables and settings are closed to every statement.
"""

from __future__ import annotations

import html
import importlib
import os
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import duckdb

import engine.manifest
from engine.card import GeneratorCard
from engine.errors import QueryRefused, StoreError
from engine.schema import ColumnSet, column_set, literal, quoted
from engine.store_catalog import table_name
from queries.answering import Answering
from queries.catalogue import facts_of, values_of
from queries.columns import LOCKDOWN
from queries.refusals import unknown_column
from queries.result import Result
from queries.router import Routing, no_such_table
from queries.sandbox import megabytes_of
from queries.shown import html_table

__all__ = ["TIMEOUT_S", "Release", "Routing", "open_release"]

TIMEOUT_S = 60.0
"""Seconds after which a statement is stopped, unless told otherwise."""
_MEMORY_MB = 2000


class Release:
    """An open release; a context manager. Make one with `open_release`.

    Attributes
    ----------
    path : Path
    timeout_s : float
        Seconds that a statement may take, from its plan to its rows.
    title, logical_name, vintage, mode, key_id, engine_version, content_hash : str
        As in `catalog.release`.
    tables : tuple of ColumnSet
        The released tables, narrow ones first.
    columns : dict of str to str
        Columns of the logical table in the source's order, with their SQL types.
    labels : dict of str to str
        Their labels, for people; the name where there is none.
    notes : tuple of str
        How to read the release.
    kept : dict
        What was made of tables for earlier questions; see `queries.noise_model`.
    """

    def __init__(self, path: Path, con: duckdb.DuckDBPyConnection, *, timeout_s: float) -> None:
        self.path = path
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
        self.kept: dict[Any, Any] = {}
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
        )

    def sql(
        self, text: str, *, tables: Mapping[str, Any] | None = None, intervals: bool = False
    ) -> Result:
        """Answer one SELECT-like statement.

        Over the logical table it is answered from the smallest released table that covers its columns; the
        views of the tables and the catalogue can be read by name.

        Parameters
        ----------
        text : str
        tables : mapping of str to frame or path, or None
            Public tables of one's own to join: DataFrames, Arrow tables, or CSV, Parquet and JSON files. They are
            copied, for this statement alone.
        intervals : bool
            Add columns that say how sure the figures are: see `queries.uncertainty.annotated`.

        Raises
        ------
        QueryRefused
            Not one SELECT-like statement, wrong SQL, outside the release, too long or too large.
        NotAnswerable
            An unknown column, or no released table covers the columns.
        StoreError
            A file of one's own cannot be read.
        """
        if intervals:
            if tables:
                raise QueryRefused(
                    "intervals are not known for tables of one's own: "
                    "ask without them, grouped by the column that you join on"
                )
            # Imported by name: that module is made of this one.
            uncertainty = importlib.import_module("queries.uncertainty")
            annotated: Result = uncertainty.annotated(self, text)
            return annotated
        _ = self._connection  # refuses where the handle is closed
        return self._answering.answer(text, tables)

    def explain(self, text: str, *, tables: Mapping[str, Any] | None = None) -> Routing:
        """Tell how a statement would be answered, without running it; see `sql` for what it raises.

        One that tells what it reads only as it runs (a PIVOT whose values it names) is run.
        """
        _ = self._connection  # refuses where the handle is closed
        reads, table = self._answering.routing(text, tables)
        card = self.card(*table) if table is not None else None
        return Routing(
            columns=reads.columns, table=table, card=card, warnings=reads.advice.foreseen
        )

    def values(self, column: str) -> list[tuple[Any, str | None, int]]:
        """Return a column's released values in order: value, label (None where it has none), fitted rows.

        A blank of the source is the value None.

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

        Raises
        ------
        NotAnswerable
            No released table covers them.
        """
        return self._answering.route(columns)

    def table(self, *names: str) -> Result:
        """Return one released table, a row a synthetic person, columns in the source's order.

        Raises
        ------
        NotAnswerable
            There is no table of exactly these columns.
        """
        columns = self._table_of(names)
        listed = ", ".join(quoted(c) for c in self.columns if c in columns)
        view = quoted(table_name(columns))
        return self._answering.run(f"SELECT {listed} FROM main.{view}", columns)

    def card(self, *names: str) -> GeneratorCard:
        """Return the generator card of the table of exactly these columns; see `table`."""
        columns = self._table_of(names)
        with self.cursor() as con:  # refuses where the handle is closed
            if columns not in self._cards:
                rows = con.execute(
                    "SELECT card FROM catalog.tables WHERE name = ?", [table_name(columns)]
                ).fetchall()
                self._cards[columns] = GeneratorCard.from_json(rows[0][0])
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
        """Lend a fresh connection with the release in use; as locked down as a statement's."""
        con = self._new_cursor()
        try:
            con.execute(f"USE {engine.manifest.ATTACHED}")
            yield con
        finally:
            con.close()

    def _new_cursor(self) -> duckdb.DuckDBPyConnection:
        """Return a fresh connection; one thread at a time, as DuckDB wants it."""
        with self._lock:
            return self._connection.cursor()

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        if self._con is None:
            raise StoreError(f"{self.path}: this handle on the release is closed")
        return self._con

    def close(self) -> None:
        """Close the handle; results it gave stay usable, and hold the file open as long as they live."""
        if self._con is not None:
            self._answering.close()
            self._con = None  # closing it would close the results' connections too

    def __enter__(self) -> Release:
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
            f"<Release {self.title!r}: {len(self.tables)} tables of {len(self.columns)} columns, "
            f"vintage {self.vintage}, {self.path}>"
        )

    def _repr_html_(self) -> str:
        more = len(self.tables) - 30
        title, name = html.escape(self.title), html.escape(self.logical_name)
        return html_table(
            ("table", "distinct rows", "noise sd"),
            [
                (", ".join(t), f"{self._facts.cells[t]:,}", f"{self._facts.noise[t][0]:.2f}")
                for t in self.tables[:30]
            ],
            above=f"<p><b>{title}</b>, vintage {html.escape(self.vintage)}: {len(self.tables)} tables; "
            f"ask with <code>.sql()</code> over <code>{name}</code></p>",
            below=[f"... and {more:,} more tables"] if more > 0 else [],
        )


def open_release(
    path: str | os.PathLike[str],
    *,
    verify: Literal["size", "hash"] = "size",
    threads: int = 2,
    memory: str = "2GB",
    timeout_s: float = TIMEOUT_S,
) -> Release:
    """Open a release for questions.

    Parameters
    ----------
    path : path-like
    verify : str
        "size" or "hash"; see `engine.manifest.verify_release`.
    threads : int
        Threads that all statements of this handle share.
    memory : str
        Their memory limit, and what one answer may take as Python's; nothing is spilled to disk.
    timeout_s : float
        Seconds after which a statement is stopped.

    Raises
    ------
    StoreError
        There is no such release.
    DamagedRelease
        It is not what its manifest states.
    """
    con, _ = engine.manifest.open_release(path, verify=verify)
    try:
        con.execute(
            f"SET threads = {int(threads)}; SET memory_limit = {literal(memory)}; {LOCKDOWN}"
        )
        return Release(Path(path), con, timeout_s=timeout_s)
    except BaseException:
        con.close()
        raise


def _memory_mb(con: duckdb.DuckDBPyConnection) -> int:
    """The memory limit of a connection."""
    (said,) = con.execute("SELECT current_setting('memory_limit')").fetchall()[0]
    return megabytes_of(said) or _MEMORY_MB
