"""The `Release` handle: SQL over the logical table, tables, cards; read-only, locked down.

A statement is planned on a stub (`queries.columns`), routed to one released table (`queries.router`), and its text
then run untouched over a temporary view of that table on a fresh connection. The view has every column of the
logical table, so that `*` and COLUMNS(...) mean what they meant in the plan; those the table lacks raise an error
if anything should read them.
Invariant: the file system, extensions, Python variables and settings are closed to every statement.
"""

from __future__ import annotations

import html
import os
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal

import duckdb

import engine.manifest
from engine.card import GeneratorCard
from engine.errors import NotAnswerable, QueryRefused, StoreError
from engine.schema import ColumnSet, column_set, literal, quoted
from engine.store_catalog import table_name, unused_name
from queries.columns import LOCKDOWN, Reads, StubPlanner, near_names
from queries.result import Result, Statement
from queries.router import MAX_WIDTH, nearest, route, spec_entry

TIMEOUT_S = 60.0
"""Seconds after which a statement is stopped, unless told otherwise."""
_UNPLANNED = "is not in the table that answers: "


@dataclass(frozen=True, kw_only=True, slots=True)
class Routing:
    """How a statement would be answered.

    Attributes
    ----------
    columns : ColumnSet
        Columns of the logical table that it reads.
    table : ColumnSet or None
        The released table that answers; None where it does not read the logical table.
    card : GeneratorCard or None
        That table's card.
    """

    columns: ColumnSet
    table: ColumnSet | None
    card: GeneratorCard | None

    def __str__(self) -> str:
        if self.table is None or self.card is None:
            return "Reads no column of the logical table: run as it is."
        reads = ", ".join(self.columns) or "no column (any table answers)"
        return "\n".join(
            [f"Reads {reads}.", f"Answered from {', '.join(self.table)}.", *self.card.sentences()]
        )


class Release:
    """An open release; a context manager. Make one with `open_release`.

    Attributes
    ----------
    path : Path
    title, logical_name, vintage, mode, key_id, engine_version, content_hash : str
        As in `catalog.release`.
    tables : tuple of ColumnSet
        The released tables, narrow ones first.
    columns : dict of str to str
        Columns of the logical table in the source's order, with their SQL types.
    notes : tuple of str
        How to read the release.
    """

    def __init__(self, path: Path, con: duckdb.DuckDBPyConnection, *, timeout_s: float) -> None:
        self.path = path
        self.timeout_s = timeout_s
        self._con: duckdb.DuckDBPyConnection | None = con
        row = con.execute(
            "SELECT title, logical_name, vintage, mode, key_id, engine_version, content_hash "
            "FROM catalog.release"
        ).fetchall()[0]
        self.title, self.logical_name, self.vintage, self.mode, self.key_id = row[:5]
        self.engine_version, self.content_hash = row[5:]
        listed = con.execute(
            "SELECT columns, cells, noise_sd, suppressed_share FROM catalog.tables ORDER BY table_id"
        ).fetchall()
        self._cells = {tuple(columns): cells for columns, cells, *_ in listed}
        self._noise = {tuple(columns): (sd, share) for columns, _, sd, share in listed}
        self.tables: tuple[ColumnSet, ...] = tuple(self._cells)
        self.columns: dict[str, str] = dict(
            con.execute("SELECT name, sql_type FROM catalog.columns ORDER BY position").fetchall()
        )
        self.notes = tuple(
            note
            for (note,) in con.execute(
                "SELECT note FROM catalog.notes ORDER BY position"
            ).fetchall()
        )
        self._lock = threading.Lock()
        self._planner = StubPlanner(self.columns, self.logical_name, release=path)

    def sql(self, text: str) -> Result:
        """Answer one SELECT-like statement.

        Over the logical table it is answered from the smallest released table that covers its columns; the
        views of the tables and the catalogue can be read by name.

        Raises
        ------
        QueryRefused
            Not one SELECT-like statement, wrong SQL, outside the release, too long or too large.
        NotAnswerable
            An unknown column, or no released table covers the columns.
        """
        reads = self._read(text)
        columns = set(reads.columns)
        while True:
            table = self._route(columns) if reads.is_logical else None
            try:
                return self._run(text, table, view=self._view_sql(table))
            except QueryRefused as error:
                # A PIVOT reads its values before its plan is made: what it lacked is added, once a column.
                _, found, missing = str(error).partition(_UNPLANNED)
                if not (found and reads.is_logical) or missing in columns:
                    raise
                columns.add(missing)

    def explain(self, text: str) -> Routing:
        """Tell how a statement would be answered, without running it; see `sql` for what it raises."""
        reads = self._read(text)
        table = self._route(reads.columns) if reads.is_logical else None
        card = self.card(*table) if table is not None else None
        return Routing(columns=reads.columns, table=table, card=card)

    def _route(self, columns: Collection[str]) -> ColumnSet:
        """The table that answers; in mode dp tables have any width."""
        return route(columns, self._cells, max_width=None if self.mode == "dp" else MAX_WIDTH)

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
        return self._run(f"SELECT {listed} FROM main.{view}", columns, view="SELECT 1")

    def card(self, *names: str) -> GeneratorCard:
        """Return the generator card of the table of exactly these columns; see `table`."""
        columns = self._table_of(names)
        with self._cursor() as con:
            rows = con.execute(
                "SELECT card FROM catalog.tables WHERE name = ?", [table_name(columns)]
            ).fetchall()
        return GeneratorCard.from_json(rows[0][0])

    def _table_of(self, names: tuple[str, ...]) -> ColumnSet:
        """Return the released table of some columns."""
        unknown = [n for n in names if n not in self.columns]
        if unknown:
            near = ", ".join(near_names(unknown[0], tuple(self.columns))) or "none"
            raise NotAnswerable(
                f"The release has no column {unknown[0]!r}. Near: {near}.", missing=tuple(unknown)
            )
        columns = column_set(names)
        if columns not in self._cells:
            near_tables = nearest(columns, self.tables)
            raise NotAnswerable(
                f"There is no table of {', '.join(columns) or 'no column'}. Nearest: "
                f"{'; '.join(', '.join(t) for t in near_tables) or 'none'}.\n{spec_entry(columns)}",
                nearest=near_tables,
            )
        return columns

    def _read(self, text: str) -> Reads:
        """Plan a statement on the stub."""
        _ = self._connection  # refuses where the handle is closed
        return self._planner.read(text, timeout_s=self.timeout_s)

    def _run(self, text: str, table: ColumnSet | None, *, view: str) -> Result:
        """Run a text on a fresh connection, after the statement that makes its view."""
        con = self._new_cursor()
        con.execute(f"USE {engine.manifest.ATTACHED}; {view}")
        statement = Statement(con, text, tuple(self.columns), self.timeout_s)
        columns, types = statement.start()
        return Result(
            columns=columns,
            types=types,
            table=table,
            noise_sd=None if table is None else self._noise[table][0],
            filled_share=None if table is None else self._noise[table][1],
            dp=self.card(*table).dp if table is not None and self.mode == "dp" else None,
            fetch=statement.fetch,
        )

    def _view_sql(self, table: ColumnSet | None) -> str:
        """Return the statement that puts the logical table over a released one, or over none.

        What a missing column raises depends on a row: it is raised when read, not when planned.
        """
        held = table or ()
        poison = quoted(unused_name("missing", self.columns))
        made = [
            quoted(c)
            if c in held
            else f"CAST(error({poison} || {literal(c)}) AS {type_}) AS {quoted(c)}"
            for c, type_ in self.columns.items()
        ]
        row = f"CAST({quoted(table[0])} AS VARCHAR)" if table else "CAST(i AS VARCHAR)"
        source = (
            f"{engine.manifest.ATTACHED}.main.{quoted(table_name(held))}"
            if table
            else "range(1) AS one(i)"
        )
        return (
            f"CREATE TEMP VIEW {quoted(self.logical_name)} AS SELECT {', '.join(made) or 'NULL'} FROM "
            f"(SELECT *, concat({literal(_UNPLANNED)}, left({row}, 0)) AS {poison} FROM {source})"
        )

    @contextmanager
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Lend a fresh connection with the release in use."""
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
            self._planner.close()
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
        rows = "".join(
            f"<tr><td>{html.escape(', '.join(t))}</td><td>{self._cells[t]:,}</td>"
            f"<td>{self._noise[t][0]:.2f}</td></tr>"
            for t in self.tables[:30]
        )
        more = len(self.tables) - 30
        return (
            f"<p><b>{html.escape(self.title)}</b>, vintage {html.escape(self.vintage)}: "
            f"{len(self.tables)} tables; ask with <code>.sql()</code> over "
            f"<code>{html.escape(self.logical_name)}</code></p><table><thead><tr><th>table</th>"
            f"<th>distinct rows</th><th>noise sd</th></tr></thead><tbody>{rows}</tbody></table>"
            + (f"<p>... and {more:,} more tables</p>" if more > 0 else "")
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
        Their memory limit; nothing is spilled to disk.
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
