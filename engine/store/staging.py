"""Writing a release: tables are staged one by one, then the whole release is put in place in one step.

`Staging` takes fitted tables and writes them to `<release>.tmp/staging.duckdb`: a fresh file that never held a
source row, that older DuckDB versions can open, and in which nothing is ever dropped. Tables that arrive in quick
succession are written in one transaction, together with their entries in `catalog.tables`, so a build killed at any
instant resumes with all but its last batch; then checkpoint, fsync, manifest, rename. The old release is served until
the new one is in its place (`engine.store.manifest`). A thread writes, so that fitting goes on meanwhile.

The staging folder belongs to one build (mode 0700, locked), and is only ever emptied if it contains our lock file. A
build refuses to replace anything but a release; sets of an earlier build are removed only if their notes identify them.

A table depends only on the recipe (data, spec, key, engine) and its columns, not on which other tables there are. So a
build may copy tables from an earlier release of the same recipe, with the same result as a complete build.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import duckdb

from engine.errors import (
    DamagedRelease,
    InternalError,
    PrivacyError,
    StoreError,
    TablepackError,
)
from engine.folders import (
    lock_folder,
    read_build_id,
    remove_folder,
    sweep_folder,
    write_build_id,
)
from engine.outputs import RELEASE, check_output, kind_of
from engine.schema import MAX_WIDTH, ColumnSet, ReleaseHeader, Support, SyntheticTable, literal
from engine.store.card import GeneratorCard
from engine.store.catalogue import (
    Entry,
    columns_of_name,
    insert_support,
    insert_tables,
    insert_views,
    open_again,
    physical_name,
    write_release,
)
from engine.store.checks import (
    check_card,
    check_header,
    check_support,
    check_total_text,
)
from engine.store.decode import Carrier, carrier
from engine.store.manifest import (
    ATTACHED,
    FORMAT_VERSION,
    Manifest,
    ReleaseRecord,
    content_hash,
    file_hash,
    manifest_path,
    read_manifest,
    release_hash,
    support_hash,
    sync_directory,
    values_hash,
    verify_release,
    write_manifest,
)
from engine.store.opening import open_release
from engine.store.schema import create_catalog
from engine.store.signature import signature_path

STORAGE = "STORAGE_VERSION 'v1.2.0', BLOCK_SIZE 16384"
"""Older DuckDB versions can open it; small blocks, because a release has hundreds of small tables."""
_WAL_LIMIT = "32MB"
"""Size of the write-ahead log (and so memory) at which DuckDB checkpoints: early checkpoints run while other tables are
fitted, the last one is waited for. Each rewrites part of the catalogue (12 MB: files 20 % larger, 32 MB: 3 %)."""
BATCH_S, BATCH_CELLS = 0.25, 200_000
"""Seconds and cells up to which tables are collected into one transaction (or while another is written): a transaction
costs several times as much as a small table in it (449 NIST tables: 5.9 ms of CPU time each alone, 2.2 in batches)."""
_MEMORY = "400MB"
"""DuckDB's memory limit while staging: without one it caches the whole file, up to most of the machine's memory."""
_SHORT_LIST = 256
"""Released values of a text column up to which its strings compress best as a dictionary."""
_FOLDER = "a staging folder"
DATABASE = "staging.duckdb"
"""The staging database inside the staging folder."""
_OTHER_ENDINGS = frozenset(
    f".{ending}"
    for ending in (
        "csv tsv txt md log sql json jsonl ndjson toml yaml yml xml html htm pdf parquet arrow feather "
        "xlsx xls ods sqlite sqlite3 key pem pub zip gz py ipynb png svg"
    ).split()
)
"""File name extensions of other kinds of files."""
# What DuckDB raises on disk errors: at once, at commit, and after a failed checkpoint.
_DISK_ERRORS = (
    duckdb.IOException,
    duckdb.TransactionException,
    duckdb.FatalException,
    duckdb.OutOfMemoryException,
)


def staging_folder(release: Path) -> Path:
    """Return the folder in which a release is staged."""
    return release.with_name(release.name + ".tmp")


def check_names(header: ReleaseHeader) -> None:
    """Refuse column names that DuckDB treats as equal."""
    names = sorted(c.name.lower() for c in header.columns)
    twice = {a for a, b in itertools.pairwise(names) if a == b}
    if twice:
        raise StoreError(f"column names that differ only in case cannot be stored: {sorted(twice)}")


def set_path(release: Path, number: int) -> Path:
    """Path of a further synthesis of a release's wide tables: a separate release in the same folder."""
    return (
        release if number == 1 else release.with_name(f"{release.stem}.set{number}{release.suffix}")
    )


def set_note(release: Path, number: int) -> str:
    """Return the note that identifies a set; `remove_sets` looks for it."""
    return f"Set {number}: another synthesis of the wide tables of {release.name}."


def check_target(
    path: Path,
    *,
    force: bool = False,
    build_id: str | None = None,
    inputs: Iterable[str | Path] = (),
) -> bool:
    """Refuse to replace anything but a release, and to replace a release without `force`.

    build_id: The build, if known: an interrupted build may finish what it was allowed to begin.

    Returns: Whether a release may be replaced.
    """
    claimed = read_build_id(staging_folder(path))
    may = force or (claimed is not None and build_id in (None, claimed))
    check_output(path, force=True, own=RELEASE, inputs=inputs)
    if path.is_symlink():
        raise StoreError(f"{path}: is a symbolic link; name the release file itself")
    _check_manifest(path)
    if not path.exists():
        _check_ending(path)
        return may
    if kind_of(path) != RELEASE:
        raise StoreError(
            f"{path}: exists and is not a release; move it away, or choose another output path (-o)"
        )
    if not may:
        raise StoreError(
            f"{path}: is already a release. Use --force (in Python force=True) to replace it, or another output path "
            "(-o, out); the old release is served until the new one is complete"
        )
    return may


def _check_ending(path: Path) -> None:
    """Refuse a new release with the extension of another file type, which other programs would try to open as such."""
    if (ending := path.suffix.lower()) in _OTHER_ENDINGS:
        raise StoreError(
            f"{path}: a release is a DuckDB file, not {ending}; use the extension .duckdb, .db or none. Other formats "
            "are written by tablepack export"
        )


def _check_manifest(path: Path) -> None:
    """Refuse a path whose manifest is not a manifest, or belongs to another file."""
    beside = manifest_path(path)
    if not beside.exists():
        return
    try:
        known = read_manifest(path).accepts
    except DamagedRelease:
        known = ()  # another format version, or damaged: still a manifest if it has the fields of one
        if kind_of(beside) == "":
            raise StoreError(f"{beside}: exists and is not a manifest; move it away") from None
    if known and path.exists() and path.stat().st_size not in {r.size for r in known}:
        raise StoreError(f"{path}: exists and does not match its manifest; move it away")


def accepted_now(path: Path) -> tuple[ReleaseRecord, ...]:
    """Return the manifest's records of the file that is about to be replaced; none if it is damaged."""
    try:
        size = path.stat().st_size
        digest = file_hash(path)
        known = read_manifest(path).accepts
    except (OSError, StoreError):
        return ()
    return tuple(r for r in known if (r.size, r.sha256) == (size, digest))


@contextlib.contextmanager
def removed_if_refused(path: Path) -> Iterator[None]:
    """Remove the staging folder of a release that is refused for privacy, so that nothing of it stays on disk."""
    try:
        yield
    except PrivacyError:
        with contextlib.suppress(OSError, StoreError):  # the refusal matters more
            lock = lock_folder(staging_folder(path), _FOLDER)
            try:
                remove_folder(staging_folder(path))
            finally:
                os.close(lock)
        raise


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn errors of the disk or DuckDB into ours, without their text, which may quote values."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"{path}: cannot be written ({_reason(error)})") from None
    except _DISK_ERRORS as error:
        full = "no space left" in str(error).lower() or "disk" in str(error).lower()
        why = os.strerror(errno.ENOSPC) if full else "disk full, quota reached or folder read-only"
        raise StoreError(f"{path}: cannot be written ({why})") from None
    except duckdb.Error as error:
        raise InternalError(f"{path}: staging failed ({type(error).__name__})") from None


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__


def remove_sets(release: Path, last: int) -> list[Path]:
    """Remove sets of a release beyond a number, left by an earlier build, with their manifests and signatures."""
    named = re.compile(rf"{re.escape(release.stem)}\.set([1-9]\d*){re.escape(release.suffix)}")
    removed: list[Path] = []
    with contextlib.suppress(OSError):  # the release is in place: leftover sets do no harm
        for path in sorted(release.parent.iterdir()):
            found = named.fullmatch(path.name)
            if found is None or path.is_symlink() or int(found[1]) <= last:
                continue
            if _has_note(path, set_note(release, int(found[1]))):
                for file in (path, signature_path(path), manifest_path(path)):
                    file.unlink(missing_ok=True)
                removed.append(path)
    return removed


def _has_note(path: Path, note: str) -> bool:
    """Whether a file is an intact release with this note."""
    with contextlib.suppress(TablepackError, duckdb.Error, OSError):
        con, _ = open_release(path)
        with con:
            asked = "SELECT count(*) FROM catalog.notes WHERE topic = 'release' AND note = ?"
            rows = con.execute(asked, [note]).fetchall()
            return bool(rows[0][0])
    return False


def _numbered(tables: Sequence[ColumnSet], stored: Mapping[ColumnSet, int]) -> dict[ColumnSet, int]:
    """Numbers of tables: stored ones keep theirs, others get their position, or the next free number if it is taken."""
    numbers, taken, counter = dict(stored), {*stored.values()}, itertools.count(1)
    for place, columns in enumerate(tables, 1):
        if columns not in numbers:
            is_free = place not in taken
            number = place if is_free else next(n for n in counter if n not in taken)
            numbers[columns] = number
            taken.add(number)
    return {columns: numbers[columns] for columns in tables}


class Staging:
    """A release being built; a context manager. Leaving it early keeps the tables that are finished.

    path: Where the release will be.
    """

    def __init__(self, path: Path, header: ReleaseHeader, lock: int, *, may_replace: bool) -> None:
        self.path = path
        self.may_replace = may_replace
        self._folder = staging_folder(path)
        self._header = header
        self._lock = lock
        self._ids = _numbered(header.tables, {})
        self._positions = {c.name: i for i, c in enumerate(header.columns, 1)}
        self._supports: dict[str, Support] = {}
        self._carriers: dict[str, Carrier] = {}
        self._lists: dict[str, bytes] = {}
        self._done: set[ColumnSet] = set()
        self._pending: dict[ColumnSet, Entry] = {}
        self._being_written: frozenset[ColumnSet] = frozenset()
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

        build_id: Keyed fingerprint of everything that determines the release; staging of another build is
            discarded.
        earlier: A release of the same recipe (`engine.store.staging.check_shared`), from which shared tables
            are taken.
        """
        path = Path(release_path)
        check_names(header)
        check_header(header)
        with writing(path):
            may_replace = check_target(path, force=force, build_id=build_id)
            lock = lock_folder(staging_folder(path), _FOLDER)
        staging = cls(path, header, lock, may_replace=may_replace)
        try:
            with writing(path):
                staging._begin(build_id, earlier)
        except BaseException:
            staging.close()
            raise
        return staging

    def _begin(self, build_id: str, earlier: tuple[Path, str] | None) -> None:
        """Attach the staging database of this build, or a fresh one with the tables that an earlier release has."""
        if read_build_id(self._folder) == build_id:
            if earlier is not None:
                check_unchanged(earlier)
            with contextlib.suppress(duckdb.Error):
                self._attach()
                self._take_stored()
                return
        self._disconnect()
        sweep_folder(self._folder)
        if earlier is None or not self._grow(earlier):
            self._attach()
            width = max((len(t) for t in self._header.tables), default=1)
            create_catalog(self._connection, width=width)
            if earlier is not None:
                copy_tables(self._connection, earlier, ids=self._ids, positions=self._positions)
        self._take_stored()
        write_build_id(self._folder, build_id)

    def _grow(self, earlier: tuple[Path, str]) -> bool:
        """Begin with a copy of an earlier release, if tables only need to be added to it."""
        copy_file(earlier, self._folder / DATABASE)
        self._attach()
        if can_grow(self._connection, {*self._header.tables}, self._positions):
            open_again(self._connection)
            return True
        self._disconnect()
        sweep_folder(self._folder)
        return False

    def _attach(self) -> None:
        """Open an in-memory connection with the staging database attached as default."""
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
            "SET enable_optimizer = false"  # every statement is short and runs once
        )

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        """The open connection, once the writing thread has finished with it."""
        self._drain()
        if self._con is None:
            raise InternalError("the staging store is closed")
        return self._con

    def _execute(self, sql: str) -> list[Any]:
        """Run a statement on the staging database."""
        return self._connection.execute(sql).fetchall()

    def finished(self) -> frozenset[ColumnSet]:
        """Return the tables that are stored; waits for those being written."""
        self._drain()
        return frozenset(self._done)

    def _take_stored(self) -> None:
        """Read which tables are stored, under which numbers; fails if the staging database is corrupt."""
        for name in ("release", "cell_ranges", "codes", "columns", "universes", "notes"):
            self._execute(f"SELECT count(*) FROM catalog.{name}")
        listed = self._execute("SELECT columns, table_id FROM catalog.tables")
        stored = {tuple(columns): number for columns, number in listed}
        self._ids = _numbered(self._header.tables, stored)
        self._done = {*stored}

    def put_support(self, support: Support) -> None:
        """Store the released values of a column; on resume, check that they are the stored ones."""
        name = support.column.name
        if name not in self._positions:
            raise InternalError(f"column {name!r} is not in the release header")
        if self._con is not None and self._supports.get(name) is support:
            if self._is_idle:
                self._drain()  # raises a writing error before the next table is fitted
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
        """Store one table with its card; tables that arrive within `BATCH_S` of each other are written together.

        Writing happens while other tables are fitted, so an error may concern an earlier table; this one is then kept.
        """
        columns = table.columns
        check_card(card)
        if columns not in self._ids:
            raise InternalError(f"table {columns} is not in the release header")
        missing = [c for c in columns if c not in self._supports]
        if missing:
            raise InternalError(f"table {columns}: no support was stored for {missing}")
        if any(columns in some for some in (self._done, self._pending, self._being_written)):
            raise InternalError(f"table {columns} is already stored")
        self._pending[columns] = Entry(
            table=table,
            card=card,
            table_id=self._ids[columns],
            content_hash=content_hash(table, self._supports, lists=self._lists),
        )
        n_cells = sum(len(entry.table.n) for entry in self._pending.values())
        is_due = self._is_idle and time.monotonic() - self._written >= BATCH_S
        if is_due or n_cells > BATCH_CELLS:
            self._hand_over()

    @property
    def _is_idle(self) -> bool:
        """Whether the writing thread is idle."""
        return self._writing is None or self._writing.done()

    def write(self) -> None:
        """Write the pending tables in one transaction: all of them or none."""
        self._hand_over()
        self._drain()

    def _hand_over(self) -> None:
        """Hand the pending tables to the writing thread, once it has finished the previous ones."""
        con = self._connection
        entries, self._pending = self._pending, {}
        if entries:
            self._being_written = frozenset(
                entries
            )  # not the tables: their memory is freed once written
            self._writing = self._writer.submit(self._write_all, con, entries)
        self._written = time.monotonic()

    def _write_all(
        self, con: duckdb.DuckDBPyConnection, entries: Mapping[ColumnSet, Entry]
    ) -> None:
        """Write tables in one transaction; nothing else uses the connection meanwhile."""
        with writing(self.path):
            self._choose_compression(con)
            with _transaction(con):
                insert_tables(con, list(entries.values()), self._carriers)
                insert_views(con, self._header, {c: e.table_id for c, e in entries.items()})

    def _drain(self) -> None:
        """Wait for the tables being written; raise the error if writing failed."""
        if self._writing is None:
            return
        wait([self._writing])  # an interrupt here leaves the write under way
        written, self._writing = self._writing, None
        tables, self._being_written = self._being_written, frozenset()
        written.result()
        self._done.update(tables)

    def finish(
        self,
        ledger: Sequence[Mapping[str, Any]] = (),
        exposure: Mapping[str, Any] | None = None,
    ) -> ReleaseRecord:
        """Complete the file, put the release in place and remove the staging folder."""
        record = self.complete(ledger, exposure)
        with writing(self.path):
            _publish(self.path, record, may_replace=self.may_replace)
        self.close()
        return record

    def complete(
        self,
        ledger: Sequence[Mapping[str, Any]] = (),
        exposure: Mapping[str, Any] | None = None,
    ) -> ReleaseRecord:
        """Close the catalogue of the staged file, which `place` puts in place.

        exposure: Mode sticky: exposure of small groups, as plain values and sentences.
        """
        self.write()
        missing = set(self._header.tables) - self.finished()
        if missing:
            raise InternalError(f"tables of the header that were not stored: {len(missing)}")
        tables = dict(self._execute("SELECT name, content_hash FROM catalog.tables"))
        listed = "SELECT name, content_hash FROM catalog.columns WHERE content_hash IS NOT NULL"
        digest = release_hash(tables, dict(self._execute(listed)))
        with writing(self.path):
            if not self._execute(
                "SELECT 1 FROM catalog.release"
            ):  # a resumed build may have closed it already
                write_release(
                    self._connection,
                    self._header,
                    format_version=FORMAT_VERSION,
                    content_hash=digest,
                    done=self._ids,
                    ledger=ledger,
                    exposure=exposure,
                )
            self._checkpoint()
            check_total_text(self._connection, self.path, (self._folder / DATABASE).stat().st_size)
            self._disconnect()
            return self._record(digest, tables)

    def _choose_compression(self, con: duckdb.DuckDBPyConnection) -> None:
        """Choose the compression methods for what is written from now on."""
        of_text = (c for c in self._carriers.values() if c.sql_type == "VARCHAR")
        longest = max((len(carried.array) for carried in of_text), default=0)
        # FSST is the most expensive method to try; short lists compress better as dictionaries.
        disabled = "fsst" if longest <= _SHORT_LIST else ""
        con.execute(f"SET disabled_compression_methods = '{disabled}'")

    def _checkpoint(self) -> None:
        """Checkpoint: move the log into the file, compressed."""
        self._choose_compression(self._connection)
        self._execute(f"CHECKPOINT {ATTACHED}")

    def _record(self, digest: str, tables: dict[str, str]) -> ReleaseRecord:
        """Flush the staged file and describe it."""
        staged = self._folder / DATABASE
        if staged.with_name(DATABASE + ".wal").exists():
            raise InternalError("a write-ahead log remains after the checkpoint")
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

    def _disconnect(self) -> None:
        if self._con is not None:
            self._con.close()
            self._con = None

    def close(self) -> None:
        """Leave the build: finished tables stay in staging for a resume, and pending ones are written if possible."""
        for step in (self._drain, self.write) if self._con is not None else ():
            # The first error is the one reported; everything is released regardless.
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


def place(path: Path, record: ReleaseRecord, *, build_id: str, may_replace: bool) -> None:
    """Put the release in place that the fit has staged and ended with.

    record, may_replace: What the fit says of the staged file, and of the one that is there.
    """
    folder = staging_folder(path)
    with writing(path):
        lock = lock_folder(folder, _FOLDER)
        try:
            staged = folder / DATABASE
            is_ours = read_build_id(folder) == build_id and staged.exists()
            if not is_ours or staged.stat().st_size != record.size:
                raise StoreError(
                    f"{path}: another build of this release has run in the meantime; run this one again"
                )
            _publish(path, record, may_replace=may_replace)
        finally:
            os.close(lock)


def _publish(path: Path, record: ReleaseRecord, *, may_replace: bool) -> None:
    """Put the staged file in place; at every instant, file and manifest on disk match."""
    folder = staging_folder(path)
    check_target(path, force=may_replace, build_id="")
    old = accepted_now(path)
    both = Manifest(format_version=FORMAT_VERSION, accepts=(record, *old))
    only = Manifest(format_version=FORMAT_VERSION, accepts=(record,))
    write_manifest(path, both, scratch=folder)
    (folder / DATABASE).replace(path)
    sync_directory(path.parent)
    write_manifest(path, only, scratch=folder)
    if record not in old:  # the signature of another file does not cover this one
        signature_path(path).unlink(missing_ok=True)
    remove_folder(folder)


@contextlib.contextmanager
def _transaction(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Run a block in one transaction: all of it or nothing."""
    con.execute("BEGIN")
    try:
        yield
        con.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(duckdb.Error):  # DuckDB may have rolled back already
            con.execute("ROLLBACK")
        raise


_EARLIER = "earlier"


@dataclass(frozen=True, kw_only=True, slots=True)
class EarlierRelease:
    """A release whose tables are reused."""

    path: Path
    # The manifest's record, which the bytes of the file matched; the file may be replaced later.
    record: ReleaseRecord
    tables: frozenset[ColumnSet]

    @property
    def file(self) -> tuple[Path, str]:
        """What the fit process is given: the file and its SHA-256."""
        return self.path, self.record.sha256


def earlier_release(path: Path, noted: Collection[str] = ()) -> EarlierRelease:
    """Check a release whose tables are to be reused.

    noted: SHA-256 of releases that were built here; these need not be opened, their manifest lists their tables.
    """
    record = verify_release(path, verify="hash")
    if record.sha256 not in noted:
        # An opened release has a manifest that agrees with its catalogue.
        con, record = open_release(path, verify="hash")
        con.close()
    return EarlierRelease(
        path=Path(os.path.abspath(path)),
        record=record,
        tables=frozenset(map(columns_of_name, record.tables)),
    )


def check_shared(
    earlier: EarlierRelease,
    *,
    recipe: str,
    noted: Mapping[str, str],
    key_id: str,
    vintage: str,
    engine_version: str,
) -> None:
    """Refuse a release whose tables are not what a build by this recipe would make.

    This concerns the file as it was checked; `check_unchanged` makes sure that the file copied from is the same.

    noted: Recipes of the releases in the journal next to the key, by their SHA-256.
    """
    path, record = earlier.path, earlier.record
    if record.key_id != key_id:
        why = f"it was built with key {record.key_id}, but the spec's key is {key_id}"
    elif record.vintage != vintage:
        why = f"its vintage is {record.vintage!r}, but the spec's vintage is {vintage!r}"
    elif record.engine_version != engine_version:
        why = f"it was built by tablepack {record.engine_version}, but this is {engine_version}"
    elif record.sha256 not in noted:
        why = "the journal next to the key does not list this file: it was changed, or built elsewhere"
    elif noted[record.sha256] != recipe:
        why = "the spec has changed in more than its tables, title and notes since it was built"
    else:
        return
    raise StoreError(
        f"{path}: {why}, so its tables cannot be reused; rebuild it: tablepack build SPEC -o {path} --force"
    )


def check_unchanged(earlier: tuple[Path, str], sha256: str | None = None) -> None:
    """Refuse a release that has been replaced since it was checked."""
    path, known = earlier
    try:
        now = sha256 or file_hash(path)
    except OSError:
        now = ""
    if now != known:
        raise StoreError(
            f"{path}: changed in the meantime; nothing was done, please run the command again"
        )


def copy_file(earlier: tuple[Path, str], to: Path) -> None:
    """Copy an earlier release, so that tables can be added to it."""
    shutil.copyfile(earlier[0], to)
    check_unchanged(earlier, file_hash(to))  # checks the copy, whatever the path contains now


def can_grow(
    con: duckdb.DuckDBPyConnection, tables: Collection[ColumnSet], positions: Mapping[str, int]
) -> bool:
    """Whether adding tables to a release and completing its catalogue again gives the release to be built."""
    widest = max(map(len, tables))
    there = con.execute("SELECT columns FROM catalog.tables").fetchall()
    places = con.execute("SELECT name, position FROM catalog.columns").fetchall()
    ends = con.execute(
        "SELECT count(*) FROM duckdb_columns() WHERE database_name = current_database() "
        "AND schema_name = 'catalog' AND table_name = 'cell_ranges' AND starts_with(column_name, 'low_')"
    ).fetchall()
    # Wider tables are modelled: they depend on which other tables there are.
    return (
        dict(places) == dict(positions)
        and ends == [(widest,)]
        and all(tuple(c) in tables and len(c) <= MAX_WIDTH for (c,) in there)
    )


def copy_tables(
    con: duckdb.DuckDBPyConnection,
    earlier: tuple[Path, str],
    *,
    ids: Mapping[ColumnSet, int],
    positions: Mapping[str, int],
) -> None:
    """Copy the tables that two releases share into an empty staging database, in one transaction."""
    con.execute(f"ATTACH {literal(str(earlier[0]))} AS {_EARLIER} (READ_ONLY, TYPE duckdb)")
    try:
        check_unchanged(
            earlier
        )  # it is attached: replacing the file no longer changes what is read
        rows = con.execute(f"SELECT table_id, columns FROM {_EARLIER}.catalog.tables").fetchall()
        # Wider tables are modelled: they depend on which other tables there are.
        shared = {old: ids[tuple(c)] for old, c in rows if tuple(c) in ids and len(c) <= MAX_WIDTH}
        if shared:
            width = max(len(columns) for _, columns in rows if len(columns) <= MAX_WIDTH)
            width = min(width, max(map(len, ids)))
            con.execute("; ".join(_statements(shared, positions, width)))
    finally:
        con.execute(f"DETACH {_EARLIER}")


def _statements(shared: Mapping[int, int], positions: Mapping[str, int], width: int) -> list[str]:
    """The statements that copy tables; `shared` maps old to new table numbers."""
    numbers = ", ".join(
        f"({old}, {new}, {literal(physical_name(new))})" for old, new in sorted(shared.items())
    )
    places = ", ".join(f"({literal(name)}, {place})" for name, place in positions.items())
    catalog = f"{_EARLIER}.catalog"
    ends = ", ".join(f"low_{j}, span_{j}" for j in range(1, width + 1))
    return [
        "BEGIN",
        f"CREATE TEMP TABLE shared AS SELECT * FROM (VALUES {numbers}) AS t(old, new, name)",
        f"CREATE TEMP TABLE places AS SELECT * FROM (VALUES {places}) AS t(name, place)",
        "CREATE TEMP TABLE used AS SELECT DISTINCT unnest(columns) AS name "
        f"FROM {catalog}.tables JOIN shared ON table_id = old",
        *(
            f"CREATE TABLE tables.{physical_name(new)} AS "
            f"SELECT * FROM {_EARLIER}.tables.{physical_name(old)}"
            for old, new in sorted(shared.items())
        ),
        f"INSERT INTO catalog.cell_ranges BY NAME SELECT new AS table_id, {ends}, n, noise_sd, measured, depth "
        f"FROM {catalog}.cell_ranges JOIN shared ON table_id = old",
        "INSERT INTO catalog.tables SELECT r.* REPLACE (new AS table_id, shared.name AS physical) "
        f"FROM {catalog}.tables AS r JOIN shared ON table_id = old",
        f"INSERT INTO catalog.codes SELECT * FROM {catalog}.codes "
        "WHERE column_name IN (SELECT name FROM used)",
        "INSERT INTO catalog.columns SELECT c.* REPLACE (place AS position) "
        f"FROM {catalog}.columns AS c JOIN places USING (name) WHERE name IN (SELECT name FROM used)",
        "DROP TABLE shared; DROP TABLE places; DROP TABLE used",
        "COMMIT",
    ]
