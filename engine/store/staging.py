"""The store: a release is staged table by table, then put in place in one step.

`Staging` takes fitted tables and writes them to `<release>.tmp/staging.duckdb`: a fresh file that never held a
source row, that older DuckDB versions open, and in which nothing is ever dropped. Tables that come in quick
succession go in by one transaction, with their ledger rows, so a build killed at any instant resumes with all but
those of its last moment; then checkpoint, fsync, manifest, rename. The old release is served until the new one is in
its place (`engine.store.manifest`). A thread writes, so that whoever fits the tables goes on meanwhile.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from types import TracebackType
from typing import Any

import duckdb

from engine.errors import InternalError
from engine.schema import ColumnSet, ReleaseHeader, Support, SyntheticTable, literal
from engine.store.card import GeneratorCard
from engine.store.catalogue import (
    Entry,
    insert_support,
    insert_tables,
    insert_views,
    open_again,
    write_release,
)
from engine.store.decode import Carrier, carrier
from engine.store.manifest import (
    ATTACHED,
    FORMAT_VERSION,
    Manifest,
    ReleaseRecord,
    content_hash,
    file_hash,
    release_hash,
    support_hash,
    sync_directory,
    values_hash,
    write_manifest,
)
from engine.store.room import check_card, check_header, check_room, check_support
from engine.store.schema import create_catalog
from engine.store.sharing import can_grow, check_unchanged, copy_file, copy_tables
from engine.store.signature import signature_path
from engine.store.target import (
    DATABASE,
    accepted_now,
    check_names,
    check_target,
    lock_folder,
    read_build_id,
    remove_folder,
    staging_folder,
    sweep_folder,
    write_build_id,
    writing,
)

STORAGE = "STORAGE_VERSION 'v1.2.0', BLOCK_SIZE 16384"
"""Older DuckDB versions open it; small blocks, for a release is hundreds of small tables."""
_WAL_LIMIT = "32MB"
"""What the log keeps, and memory with it, before DuckDB brings it into the file: on the way while others are fitted,
at the end everybody waits. Each time some of the catalogue is written anew (12 MB: files 20 % larger, 32 MB: 3 %)."""
BATCH_S, BATCH_CELLS = 0.25, 200_000
"""Tables wait for each other so long, or while others are written, and up to so many cells: a transaction costs several
times what a small table in it does (of 449 of NIST's, 5.9 ms of processor time each by themselves, 2.2 in batches)."""
_MEMORY = "400MB"
"""What DuckDB keeps of the file in memory: without a limit all of it, up to most of the machine's."""
_SHORT_LIST = 256
"""Released values of a column of text up to which its strings pack best as a dictionary."""


def _numbered(tables: Sequence[ColumnSet], stored: Mapping[ColumnSet, int]) -> dict[ColumnSet, int]:
    """Numbers of tables: their places, but for those that have others; those come next that lost theirs to these."""
    numbers, taken, counter = dict(stored), {*stored.values()}, itertools.count(1)
    for place, columns in enumerate(tables, 1):
        if columns not in numbers:
            is_free = place not in taken
            number = place if is_free else next(n for n in counter if n not in taken)
            numbers[columns] = number
            taken.add(number)
    return {columns: numbers[columns] for columns in tables}


class Staging:
    """A release while it is built; a context manager. Leaving it unfinished keeps what is finished.

    path: Where the release will be.
    """

    def __init__(self, path: Path, header: ReleaseHeader, lock: int, *, may_replace: bool) -> None:
        self.path = path
        self._may_replace = may_replace
        self._folder = staging_folder(path)
        self._header = header
        self._lock = lock
        self._ids = _numbered(header.tables, {})
        self._positions = {c.name: i for i, c in enumerate(header.columns, 1)}
        self._supports: dict[str, Support] = {}
        self._carriers: dict[str, Carrier] = {}
        self._lists: dict[str, bytes] = {}
        self._done: set[ColumnSet] = set()
        self._waiting: dict[ColumnSet, Entry] = {}
        self._under_way: frozenset[ColumnSet] = frozenset()
        self._writer = ThreadPoolExecutor(max_workers=1)
        self._writing: Future[None] | None = None
        self._written = time.monotonic()
        self._con: duckdb.DuckDBPyConnection | None = None

    @classmethod
    def open(
        cls,
        release_path: Path,
        header: ReleaseHeader,
        *,
        build_id: str,
        force: bool = False,
        earlier: tuple[Path, str] | None = None,
    ) -> Staging:
        """Begin a build, or resume the one that was interrupted.

        build_id: Keyed fingerprint of all that decides the release; staging of another build is thrown away.
        earlier: A release of the same recipe (`engine.store.sharing.check_shared`): the tables that both have
            are finished.
        """
        path = Path(release_path)
        check_names(header)
        check_header(header)
        with writing(path):
            may_replace = check_target(path, force=force, build_id=build_id)
            lock = lock_folder(staging_folder(path))
        staging = cls(path, header, lock, may_replace=may_replace)
        try:
            with writing(path):
                staging._begin(build_id, earlier)
        except BaseException:
            staging.close()
            raise
        return staging

    def _begin(self, build_id: str, earlier: tuple[Path, str] | None) -> None:
        """Attach the staging database of this build, or a fresh one with what an earlier release has of it."""
        if read_build_id(self._folder) == build_id:
            if earlier is not None:
                check_unchanged(earlier)
            with contextlib.suppress(duckdb.Error):
                self._attach()
                self._take_stored()
                return
        self._disconnect()
        sweep_folder(self._folder)
        if earlier is None or not self._grown(earlier):
            self._attach()
            width = max((len(t) for t in self._header.tables), default=1)
            create_catalog(self._connection, width=width)
            if earlier is not None:
                copy_tables(self._connection, earlier, ids=self._ids, positions=self._positions)
        self._take_stored()
        write_build_id(self._folder, build_id)

    def _grown(self, earlier: tuple[Path, str]) -> bool:
        """Begin with a copy of an earlier release, if tables need only be added to it."""
        copy_file(earlier, self._folder / DATABASE)
        self._attach()
        if can_grow(self._connection, {*self._header.tables}, self._positions):
            open_again(self._connection)
            return True
        self._disconnect()
        sweep_folder(self._folder)
        return False

    def _attach(self) -> None:
        """Open an in-memory session with the staging database attached and in use."""
        self._con = con = duckdb.connect(
            config={
                "threads": 1,
                "temp_directory": str(self._folder / "spill"),
                "memory_limit": _MEMORY,
            }
        )
        con.execute(f"ATTACH {literal(str(self._folder / DATABASE))} AS {ATTACHED} ({STORAGE})")
        con.execute(f"USE {ATTACHED}")
        con.execute(
            f"SET checkpoint_threshold = '{_WAL_LIMIT}'; SET pandas_analyze_sample = 0; "
            "SET enable_optimizer = false"  # every statement is short, and planned for one run
        )

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        """The open connection, once the thread that writes has done with it."""
        self._settle()
        if self._con is None:
            raise InternalError("the staging store is closed")
        return self._con

    def _execute(self, sql: str) -> list[Any]:
        """Run a statement on the staging database."""
        return self._connection.execute(sql).fetchall()

    def finished(self) -> frozenset[ColumnSet]:
        """Return the tables that are safely stored; waits for those that are being written."""
        self._settle()
        return frozenset(self._done)

    def _take_stored(self) -> None:
        """Read which tables are stored, under which numbers; fails where the staging database is torn."""
        for name in ("release", "cell_ranges", "codes", "columns", "universes", "notes"):
            self._execute(f"SELECT count(*) FROM catalog.{name}")
        listed = self._execute("SELECT columns, table_id FROM catalog.tables")
        stored = {tuple(columns): number for columns, number in listed}
        self._ids = _numbered(self._header.tables, stored)
        self._done = {*stored}

    def put_support(self, support: Support) -> None:
        """Store the released values of a column; again on resume, where it is only remembered."""
        name = support.column.name
        if name not in self._positions:
            raise InternalError(f"column {name!r} is not in the header of the release")
        if self._con is not None and self._supports.get(name) is support:
            if self._is_idle:
                self._settle()  # tells what went wrong before the next table is fitted
            return
        con = self._connection
        check_support(support)
        carried, digest = carrier(support), support_hash(support)
        stored = dict(self._execute("SELECT name, content_hash FROM catalog.columns"))
        if name not in stored:
            place = self._positions[name]
            with writing(self.path), _transaction(con):
                insert_support(con, support, carried, position=place, content_hash=digest)
        elif stored[name] != digest:
            raise InternalError(f"column {name!r} was stored with other released values")
        self._supports[name] = support
        self._carriers[name] = carried
        self._lists[name] = values_hash(support)

    def put_table(self, table: SyntheticTable, card: GeneratorCard) -> None:
        """Store one table with its card; tables that come within `BATCH_S` of each other are written together.

        They are written while others are fitted, so the error may be that of an earlier table; this one is kept then.
        """
        columns = table.columns
        check_card(card)
        if columns not in self._ids:
            raise InternalError(f"table {columns} is not in the header of the release")
        missing = [c for c in columns if c not in self._supports]
        if missing:
            raise InternalError(f"table {columns}: no support of {missing} was stored")
        if any(columns in some for some in (self._done, self._waiting, self._under_way)):
            raise InternalError(f"table {columns} is stored already")
        self._waiting[columns] = Entry(
            table=table,
            card=card,
            table_id=self._ids[columns],
            content_hash=content_hash(table, self._supports, lists=self._lists),
        )
        n_cells = sum(len(entry.table.n) for entry in self._waiting.values())
        is_due = self._is_idle and time.monotonic() - self._written >= BATCH_S
        if is_due or n_cells > BATCH_CELLS:
            self._hand_over()

    @property
    def _is_idle(self) -> bool:
        """Whether the thread that writes has nothing to do."""
        return self._writing is None or self._writing.done()

    def write(self) -> None:
        """Write the tables that wait, in one transaction: all of them or none."""
        self._hand_over()
        self._settle()

    def _hand_over(self) -> None:
        """Have the thread write the tables that wait, once it has done with those before them."""
        con = self._connection
        entries, self._waiting = self._waiting, {}
        if entries:
            self._under_way = frozenset(entries)  # not the tables: they go once they are written
            self._writing = self._writer.submit(self._write_all, con, entries)
        self._written = time.monotonic()

    def _write_all(
        self, con: duckdb.DuckDBPyConnection, entries: Mapping[ColumnSet, Entry]
    ) -> None:
        """Write tables in one transaction, with a connection that nobody else uses meanwhile."""
        with writing(self.path):
            self._choose_packing(con)
            with _transaction(con):
                insert_tables(con, list(entries.values()), self._carriers)
                insert_views(con, self._header, {c: e.table_id for c, e in entries.items()})

    def _settle(self) -> None:
        """Wait for the tables that are being written; raise what went wrong with them."""
        if self._writing is None:
            return
        wait([self._writing])  # whoever is interrupted here finds it under way
        written, self._writing = self._writing, None
        tables, self._under_way = self._under_way, frozenset()
        written.result()
        self._done.update(tables)

    def finish(
        self,
        ledger: Sequence[Mapping[str, Any]] = (),
        exposure: Mapping[str, Any] | None = None,
        placing: Callable[[ReleaseRecord], None] | None = None,
    ) -> ReleaseRecord:
        """Close the catalogue and put the release in place; the staging folder goes.

        exposure: Mode sticky: what the release tells of small groups, in plain values and sentences.
        placing: Called with what the manifest will say once the file is whole, before it is put in place.
        """
        self.write()
        missing = set(self._header.tables) - self.finished()
        if missing:
            raise InternalError(f"{len(missing)} tables of the header were not stored")
        tables = dict(self._execute("SELECT name, content_hash FROM catalog.tables"))
        listed = "SELECT name, content_hash FROM catalog.columns WHERE content_hash IS NOT NULL"
        digest = release_hash(tables, dict(self._execute(listed)))
        with writing(self.path):
            if not self._execute("SELECT 1 FROM catalog.release"):  # a resume may find it closed
                write_release(
                    self._connection,
                    self._header,
                    format_version=FORMAT_VERSION,
                    content_hash=digest,
                    done=self._ids,
                    ledger=ledger,
                    exposure=exposure,
                )
            self._pack()
            check_room(self._connection, self.path, (self._folder / DATABASE).stat().st_size)
            self._disconnect()
            record = self._record(digest, tables)
        if placing is not None:
            placing(record)
        with writing(self.path):
            self._publish(record)
        self.close()
        return record

    def _choose_packing(self, con: duckdb.DuckDBPyConnection) -> None:
        """Say how what is written from now on may be compressed."""
        of_text = (c for c in self._carriers.values() if c.sql_type == "VARCHAR")
        longest = max((len(carried.array) for carried in of_text), default=0)
        # The method that costs most to try; short lists pack better as dictionaries.
        needless = "fsst" if longest <= _SHORT_LIST else ""
        con.execute(f"SET disabled_compression_methods = '{needless}'")

    def _pack(self) -> None:
        """Bring what the log holds into the file, compressed."""
        self._choose_packing(self._connection)
        self._execute(f"CHECKPOINT {ATTACHED}")

    def _record(self, digest: str, tables: dict[str, str]) -> ReleaseRecord:
        """Flush the staged file and describe it."""
        staged = self._folder / DATABASE
        if staged.with_name(DATABASE + ".wal").exists():
            raise InternalError("a write-ahead log is left after the checkpoint")
        with staged.open("rb") as file:
            os.fsync(file.fileno())
        return ReleaseRecord(
            size=staged.stat().st_size,
            sha256=file_hash(staged),
            content_hash=digest,
            tables=tables,
            key_id=self._header.key_id,
            vintage=self._header.vintage,
            engine_version=self._header.engine_version,
        )

    def _publish(self, record: ReleaseRecord) -> None:
        """Put the staged file in place; at every instant the pair on disk is accepted."""
        check_target(self.path, force=self._may_replace, build_id="")
        old = accepted_now(self.path)
        both = Manifest(format_version=FORMAT_VERSION, accepts=(record, *old))
        only = Manifest(format_version=FORMAT_VERSION, accepts=(record,))
        write_manifest(self.path, both, scratch=self._folder)
        (self._folder / DATABASE).replace(self.path)
        sync_directory(self.path.parent)
        write_manifest(self.path, only, scratch=self._folder)
        if record not in old:  # what another file was signed with says nothing of this one
            signature_path(self.path).unlink(missing_ok=True)
        remove_folder(self._folder)

    def _disconnect(self) -> None:
        if self._con is not None:
            self._con.close()
            self._con = None

    def close(self) -> None:
        """Leave the build: finished tables stay in staging for a resume, and those that waited where they can."""
        for step in (self._settle, self.write) if self._con is not None else ():
            # What came first is told, and what is held is let go.
            with contextlib.suppress(Exception):
                step()
        self._writer.shutdown()
        self._disconnect()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> Staging:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


@contextlib.contextmanager
def _transaction(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Run a block in one transaction: all of it or nothing."""
    con.execute("BEGIN")
    try:
        yield
        con.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(duckdb.Error):  # DuckDB may have left it already
            con.execute("ROLLBACK")
        raise
