"""The only way to open a release: the connection is locked down before the file is inspected, checked and used.

A release may come from anywhere, and anyone who can write a DuckDB file can write a matching manifest. So the
connection gives up the file system, the network, extensions, Python variables and its own settings, and keeps one
read-only attachment; the contents of the file are compared with what our writer makes
(`engine.store.checks`), and its catalogue is checked for consistency (`engine.store.checks`). Nothing
in the file is used before that.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import duckdb

from engine.errors import DamagedRelease, StoreError
from engine.schema import MEMORY, literal
from engine.store.checks import (
    MOST_WIDTH,
    check_catalog,
    check_contents,
    check_counts,
    check_facts,
    check_sizes,
    check_tables,
    outline_of,
    reference,
)
from engine.store.manifest import ATTACHED, ReleaseRecord, verify_release
from engine.store.signature import Signature, checked_signature, sign_record

DRAFT_TITLE = "DRAFT, not for publication"
"""How the title of a draft begins: it is neither published nor signed."""
OPENING_S = 30.0
"""Time limit of the checks at opening; they take a fraction of a second."""
_CLOSED = (
    "SET secret_directory = ''; SET temp_directory = ''; SET max_temp_directory_size = '0B'; "
    "SET autoload_known_extensions = false; SET autoinstall_known_extensions = false; "
    "SET allow_community_extensions = false; SET python_enable_replacements = false; "
    "SET enable_external_access = false"
)
"""Disables the network, extensions, Python variables, and all files except those allowed before."""
_NO_FILES = "SET disabled_filesystems = 'LocalFileSystem'"
_LOCKED = "SET lock_configuration = true"


def locked_connection(
    path: str | os.PathLike[str] | None,
    *,
    threads: int = 2,
    memory: str = MEMORY,
    settings: str = "",
    folder: str | os.PathLike[str] | None = None,
) -> duckdb.DuckDBPyConnection:
    """Attach a file read-only, as `release`, to a connection that can access nothing else.

    The file is neither checked nor made the default database; `open_release` does both.

    path: The file; None: attach nothing.
    folder: A folder that may still be read and written.
    """
    con = duckdb.connect()
    try:
        con.execute(
            f"SET threads = {int(threads)}; SET memory_limit = {literal(memory)}; {settings}"
        )
        if path is not None:
            # DuckDB looks for a log next to the file, and for a checkpoint of it.
            place = os.path.realpath(path)  # DuckDB resolves links before it checks permissions
            own = ", ".join(literal(place + end) for end in ("", ".wal", ".wal.checkpoint"))
            con.execute(f"SET allowed_paths = [{own}]")
        if folder is not None:
            con.execute(f"SET allowed_directories = [{literal(os.path.realpath(folder))}]")
        con.execute(_CLOSED)
        if path is not None:
            with _readable(path):
                con.execute(f"ATTACH {literal(place)} AS {ATTACHED} (READ_ONLY, TYPE duckdb)")
        con.execute(_LOCKED if folder is not None else f"{_NO_FILES}; {_LOCKED}")
    except BaseException:
        con.close()
        raise
    return con


def open_release(
    path: str | os.PathLike[str],
    *,
    verify: Literal["size", "hash"] = "size",
    threads: int = 2,
    memory: str = MEMORY,
    folder: str | os.PathLike[str] | None = None,
    counts: bool = False,
    trust: str | os.PathLike[str] | None = None,
) -> tuple[duckdb.DuckDBPyConnection, ReleaseRecord]:
    """Open a release read-only, by its manifest; it is attached as `release`, the default database.

    counts: Check the counts of all tables, too: for callers that read or write all rows.
    trust: File with a public key: the release must be signed with it, and every byte is checked.

    Returns: The connection, locked down permanently, and the manifest's record of the file.
    """
    record = verify_release(path, verify="hash" if trust is not None else verify)
    if trust is not None:
        checked_signature(Path(path), record, Path(trust))
    con = locked_connection(path, threads=threads, memory=memory, folder=folder)
    try:
        with _readable(path), _within(con, OPENING_S, path):
            _check(con, Path(path), record)
            if counts:
                check_counts(con, Path(path))
            con.execute(f"USE {ATTACHED}")
    except BaseException:
        con.close()
        raise
    return con, record


def check_release(path: str | os.PathLike[str]) -> tuple[ReleaseRecord, tuple[str, ...]]:
    """Check every byte and row of a release.

    Returns: The manifest's record, and the columns that `engine.store.checks.check_contents` names.
    """
    con, record = open_release(path, verify="hash")
    with con, _readable(path):
        return record, check_contents(con, Path(path))


def sign_release(path: str | os.PathLike[str], key: str | os.PathLike[str]) -> Signature:
    """Check a release like `check_release`, and write its signature next to it; a draft is refused."""
    con, record = open_release(path, verify="hash")
    with con, _readable(path):
        check_contents(con, Path(path))
        (title,) = con.execute("SELECT title FROM catalog.release").fetchall()[0]
    if title.startswith(DRAFT_TITLE):
        raise StoreError(f"{path}: is a draft; build the release to sign it")
    return sign_record(Path(path), record, Path(key))


def verify_signature(
    path: str | os.PathLike[str], trust: str | os.PathLike[str]
) -> tuple[ReleaseRecord, Signature]:
    """Check every byte of a release and its signature by a key, without opening it."""
    record = verify_release(path, verify="hash")
    return record, checked_signature(Path(path), record, Path(trust))


def _check(con: duckdb.DuckDBPyConnection, path: Path, record: ReleaseRecord) -> None:
    """Refuse an attached file that contains anything but what tablepack writes."""
    width = max((name.count(".") + 1 for name in record.tables), default=1)
    with reference(con, min(width, MOST_WIDTH)):
        outline = outline_of(con, path)
        check_catalog(con, path, outline)
        check_sizes(con, path, outline)
        check_tables(con, path, outline, check_facts(con, path, outline, record))


@contextmanager
def _readable(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn errors of DuckDB into ours, without their text, which may quote values."""
    try:
        yield
    except (duckdb.Error, UnicodeError):
        raise DamagedRelease(f"{path}: cannot be read as a release by DuckDB") from None


@contextmanager
def _within(
    con: duckdb.DuckDBPyConnection, seconds: float, path: str | os.PathLike[str]
) -> Iterator[None]:
    """Interrupt a connection after a time limit."""
    is_late = threading.Event()

    def stop() -> None:
        is_late.set()
        con.interrupt()

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    except duckdb.InterruptException:
        if not is_late.is_set():
            raise KeyboardInterrupt from None
        raise StoreError(f"{path}: could not be opened within {seconds:g} seconds") from None
    finally:
        timer.cancel()
