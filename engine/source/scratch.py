"""The one place on disk for confidential working data, and the connection that uses it.

Takes nothing; gives a directory that only we can open, and a DuckDB connection whose spills and
(for big sources) whose tables lie in it. Invariant: nothing confidential touches the disk anywhere
else; the directory is gone when the context ends, and what a kill -9 left behind is swept at the
next start: a directory belongs to a live process exactly while that process holds the lock on the
file `lock` inside it. Files are encrypted, where this DuckDB can, with a random key that exists in
memory only. DuckDB does so offline with its built-in cipher, which it calls unsafe because of its
random numbers: it keeps a left-over file from a casual reader, no more. The mode 0700 and the sweep
are what protects.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb

from engine.errors import StoreError
from engine.schema import literal
from engine.source.files import locked

_CIPHER = "CTR"
"""AES in a mode that hides and does not seal: by DuckDB's own code it takes half the time of GCM, which reads 100 MB a
second of one core. A block that is damaged is found all the same, by the checksum inside it."""
_TRIES, _PAUSE_S = 20, 0.05
"""How often a directory is removed again."""
_open: set[Path] = set()
"""Directories of this process, from before they are made until after they are removed: wherever a signal strikes, the
end of the process removes them."""
os.register_at_fork(after_in_child=_open.clear)


@contextlib.contextmanager
def scratch_directory() -> Iterator[Path]:
    """Give an empty directory of our own; remove it at the end, and left-overs of killed processes before."""
    base = _base_directory()
    own = base / f"{os.getpid()}-{secrets.token_hex(8)}"
    _open.add(own)
    lock = None
    try:
        try:
            with locked(base / "sweep"):
                _sweep(base)
                own.mkdir(mode=0o700)
                lock = os.open(own / "lock", os.O_CREAT | os.O_RDWR, 0o600)
                fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError as error:
            raise StoreError(
                f"scratch folder {base}: cannot be written ({error.strerror})"
            ) from None
        yield own
    finally:
        try:
            _remove(own)
        finally:
            _remove(own)  # a signal that struck in the middle of the first one
        _open.discard(own)
        if lock is not None:
            os.close(lock)


@atexit.register
def _remove_open() -> None:
    """Remove what a signal kept from being removed."""
    for own in tuple(_open):
        _remove(own)
        _open.discard(own)


def _remove(own: Path) -> None:
    """Remove a directory, again where a process that is just ending wrote into it meanwhile."""
    for _ in range(_TRIES):
        shutil.rmtree(own, ignore_errors=True)
        if not own.exists():
            return
        time.sleep(_PAUSE_S)


def _base_directory() -> Path:
    """The folder of this user's scratch directories, made if needed; refused unless it is ours alone."""
    base = Path(tempfile.gettempdir()) / f"tablepack-{os.getuid()}"
    try:
        with contextlib.suppress(FileExistsError):
            base.mkdir(mode=0o700)
        info = base.lstat()
    except OSError as error:
        raise StoreError(f"scratch folder {base}: cannot be made ({error.strerror})") from None
    if not stat.S_ISDIR(info.st_mode):
        raise StoreError(f"scratch folder {base}: is not a directory; remove it or set TMPDIR")
    if info.st_uid != os.getuid():
        raise StoreError(
            f"scratch folder {base}: belongs to another user; set TMPDIR to a folder of yours"
        )
    if info.st_mode & 0o077:
        raise StoreError(
            f"scratch folder {base}: others can open it; allow its owner only: chmod 700 {base}"
        )
    return base


def _sweep(base: Path) -> None:
    """Remove directories whose lock nobody holds. The caller holds the sweep lock, so none is half-made."""
    for left in base.iterdir():
        if left.is_symlink() or not left.is_dir():
            continue
        try:
            handle = os.open(left / "lock", os.O_RDWR)
        except OSError:
            shutil.rmtree(left, ignore_errors=True)
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left, ignore_errors=True)
        except BlockingIOError:
            pass
        finally:
            os.close(handle)


def memory_connection() -> duckdb.DuckDBPyConnection:
    """Return a connection that works in memory alone: it spills nothing to disk, and fails rather than do so."""
    con = duckdb.connect(":memory:", config={"temp_directory": ""})
    _without_progress_bar(con)
    return con


def confidential_connection(
    scratch: Path,
    *,
    on_disk: bool = False,
    threads: int | None = None,
    memory_limit: str | None = None,
) -> duckdb.DuckDBPyConnection:
    """Open the connection that holds source rows and true counts.

    on_disk: Tables live in a DuckDB file in the scratch directory, not in memory: for sources larger than
        memory.

    Returns: Loads no extension, reads no Python variable, shows no progress; its time zone is UTC.
    """
    config: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "python_enable_replacements": "false",
        "temp_directory": str(scratch / "spill"),
        "preserve_insertion_order": "false" if on_disk else "true",
    }
    if threads is not None:
        config["threads"] = str(threads)
    if memory_limit is not None:
        config["memory_limit"] = memory_limit
    try:
        con = duckdb.connect(":memory:", config=config)
    except duckdb.Error:
        con = None
    if con is None:
        raise StoreError(
            "the working database cannot be opened: check the limits of threads and memory"
        )
    _without_progress_bar(con)
    con.execute("SET TimeZone = 'UTC'")
    is_encrypted = _encrypt_spills(con)
    if on_disk:
        secret = secrets.token_hex(32) if is_encrypted else ""
        _attach_scratch(con, scratch / "confidential.duckdb", secret)
    return con


def _without_progress_bar(con: duckdb.DuckDBPyConnection) -> None:
    """Keep DuckDB's own progress bar away.

    In a notebook that has no ipywidgets DuckDB draws no bar, and refuses the setting (its issue 7590).
    """
    with contextlib.suppress(duckdb.InvalidInputException):
        con.execute("SET enable_progress_bar = false")


def scratch_of(con: duckdb.DuckDBPyConnection) -> str | None:
    """Return the scratch folder of a confidential connection; None, the system's, for one in memory alone."""
    spill = con.execute("SELECT current_setting('temp_directory')").fetchall()[0][0]
    return str(Path(spill).parent) if spill and Path(spill).parent.is_dir() else None


def _encrypt_spills(con: duckdb.DuckDBPyConnection) -> bool:
    """Switch on the encryption of temporary files, where this DuckDB can do it without an extension."""
    try:
        con.execute("SET force_mbedtls_unsafe = 'true'")
        con.execute("SET temp_file_encryption = true")
    except duckdb.Error:
        return False
    return True


def working_file(con: duckdb.DuckDBPyConnection) -> Path | None:
    """Return the file in which a confidential connection has its tables; None: it has them in memory."""
    found = con.execute(
        "SELECT path FROM duckdb_databases() WHERE database_name = current_database()"
    ).fetchall()
    return Path(found[0][0]) if found and found[0][0] else None


def _attach_scratch(con: duckdb.DuckDBPyConnection, path: Path, secret: str) -> None:
    """Open or make the file and let new tables go there; its key is never kept on our side."""
    option = f" (ENCRYPTION_KEY '{secret}', ENCRYPTION_CIPHER '{_CIPHER}')" if secret else ""
    try:
        con.execute(f"ATTACH {literal(str(path))} AS scratch{option}")
        con.execute("USE scratch")
        path.chmod(0o600)
        is_open = True
    except (duckdb.Error, OSError):
        is_open = False
    if not is_open:
        con.close()
        raise StoreError(f"scratch folder {path.parent}: the working database cannot be made there")
