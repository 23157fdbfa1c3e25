"""Where a release is put: its staging folder, the lock on it, and what may stand in the way.

Takes the path of a release; refuses to replace anything that is not one, and to build where another build is at
work. The staging folder is ours alone (mode 0700) and is only ever emptied if it bears our lock file. Sets of an
earlier build go only where they say of themselves that they are such.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import duckdb

from engine.errors import (
    DamagedRelease,
    InternalError,
    PrivacyError,
    StoreError,
    TablepackError,
)
from engine.outputs import RELEASE, check_output, kind_of
from engine.schema import ReleaseHeader
from engine.store.manifest import ReleaseRecord, file_hash, manifest_path, read_manifest
from engine.store.opening import open_release
from engine.store.signature import signature_path

DATABASE = "staging.duckdb"
"""The staging database inside the staging folder."""
_BUILD, _LOCK = "build.json", "lock"
_OTHER_ENDINGS = frozenset(
    f".{ending}"
    for ending in (
        "csv tsv txt md log sql json jsonl ndjson toml yaml yml xml html htm pdf parquet arrow feather "
        "xlsx xls ods sqlite sqlite3 key pem pub zip gz py ipynb png svg"
    ).split()
)
"""Endings of other kinds of files."""
# What DuckDB raises when the disk refuses: at once, at commit, and after a failed checkpoint.
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
    """Refuse columns that DuckDB cannot tell apart."""
    names = sorted(c.name.lower() for c in header.columns)
    twice = {a for a, b in itertools.pairwise(names) if a == b}
    if twice:
        raise StoreError(f"columns that differ by case only cannot be stored: {sorted(twice)}")


def set_path(release: Path, number: int) -> Path:
    """Where a further synthesis of a release's wide tables is: a release of its own beside it."""
    return (
        release if number == 1 else release.with_name(f"{release.stem}.set{number}{release.suffix}")
    )


def set_note(release: Path, number: int) -> str:
    """Return what a set's notes say of it."""
    return f"Set {number}: another synthesis of the wide tables of {release.name}."


def check_target(
    path: Path,
    *,
    force: bool = False,
    build_id: str | None = None,
    inputs: Iterable[str | Path] = (),
) -> bool:
    """Refuse to replace anything but a release, and a release without being told to.

    build_id: Whose build this is, where that is known: one that was interrupted may end what it was allowed
        to begin.
    """
    claimed = read_build_id(staging_folder(path))
    may = force or (claimed is not None and build_id in (None, claimed))
    check_output(path, force=True, own=RELEASE, inputs=inputs)
    if path.is_symlink():
        raise StoreError(f"{path}: is a link; name the release file itself")
    _check_manifest(path)
    if not path.exists():
        _check_ending(path)
        return may
    if kind_of(path) != RELEASE:
        raise StoreError(f"{path}: exists and is not a release; move it away, or give another -o")
    if not may:
        raise StoreError(
            f"{path}: is a release already. To build a new one in its place, say --force (in Python force=True): the "
            "old one serves until the new one is whole. Or give another -o (out)"
        )
    return may


def _check_ending(path: Path) -> None:
    """Refuse a new release under the name of another kind of file: what opens it by its name would find a database."""
    if (ending := path.suffix.lower()) in _OTHER_ENDINGS:
        raise StoreError(
            f"{path}: releases are not written as {ending}; end its name in .duckdb (or .db, or in nothing); another "
            "form of it is written by tablepack export"
        )


def _check_manifest(path: Path) -> None:
    """Refuse a place whose manifest is not one, or is of another file."""
    beside = manifest_path(path)
    if not beside.exists():
        return
    try:
        known = read_manifest(path).accepts
    except DamagedRelease:
        known = ()  # of another format or damaged: still a manifest, if it has its fields
        if kind_of(beside) == "":
            raise StoreError(f"{beside}: exists and is no manifest; move it away") from None
    if known and path.exists() and path.stat().st_size not in {r.size for r in known}:
        raise StoreError(f"{path}: exists and is not what its manifest states; move it away")


def accepted_now(path: Path) -> tuple[ReleaseRecord, ...]:
    """Return the records of the file that is about to be replaced; none where it is damaged."""
    try:
        size = path.stat().st_size
        digest = file_hash(path)
        known = read_manifest(path).accepts
    except (OSError, StoreError):
        return ()
    return tuple(r for r in known if (r.size, r.sha256) == (size, digest))


def _holds_strange_files(folder: Path) -> bool:
    """Whether a folder holds files but not our lock; looked at once, for another build may just be making it."""
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return bool(names) and _LOCK not in names


def lock_folder(folder: Path) -> int:
    """Make the staging folder and hold its lock; the descriptor frees it when closed."""
    while True:
        if folder.is_symlink() or _holds_strange_files(folder):
            raise StoreError(f"{folder}: exists and is not a staging folder; move it away")
        folder.mkdir(mode=0o700, exist_ok=True)
        folder.chmod(0o700)
        try:
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            continue  # a build that finished just now took the folder away
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.stat(folder / _LOCK).st_ino == os.fstat(lock).st_ino:
                return lock
        except FileNotFoundError:
            pass
        except BlockingIOError:
            os.close(lock)
            raise StoreError(f"{folder}: another build of this release is at work") from None
        os.close(lock)


def read_build_id(folder: Path) -> str | None:
    """Return whose staging lies in a folder; None where there is none, or it is torn."""
    try:
        claim = json.loads((folder / _BUILD).read_text(encoding="utf-8"))
        return str(claim["build_id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def sweep_folder(folder: Path) -> None:
    """Empty a staging folder, but for the lock; the build id first, so that a kill leaves no claim."""
    (folder / _BUILD).unlink(missing_ok=True)
    for entry in folder.iterdir():
        if entry.name == _LOCK:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def write_build_id(folder: Path, build_id: str) -> None:
    """Say whose staging lies in a folder, in one step."""
    part = folder / (_BUILD + ".part")
    part.write_text(json.dumps({"build_id": build_id}), encoding="utf-8")
    part.replace(folder / _BUILD)


def remove_folder(folder: Path) -> None:
    """Remove a staging folder; the lock file last, so that a kill leaves it known as ours."""
    sweep_folder(folder)
    (folder / _LOCK).unlink()
    folder.rmdir()


@contextlib.contextmanager
def removed_if_refused(path: Path) -> Iterator[None]:
    """Remove the staging of a release that is refused for privacy: nothing of it stays on disk."""
    try:
        yield
    except PrivacyError:
        with contextlib.suppress(OSError, StoreError):  # why it was refused matters more
            lock = lock_folder(staging_folder(path))
            try:
                remove_folder(staging_folder(path))
            finally:
                os.close(lock)
        raise


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the disk or DuckDB refuses into one of our errors, without their wording of values."""
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
    """Remove the sets of a release beyond some number, which an earlier build left, with all that lies beside them."""
    named = re.compile(rf"{re.escape(release.stem)}\.set([1-9]\d*){re.escape(release.suffix)}")
    removed: list[Path] = []
    with contextlib.suppress(OSError):  # the release is there: what stays beside it does no harm
        for path in sorted(release.parent.iterdir()):
            found = named.fullmatch(path.name)
            if found is None or path.is_symlink() or int(found[1]) <= last:
                continue
            if _says(path, set_note(release, int(found[1]))):
                for file in (path, signature_path(path), manifest_path(path)):
                    file.unlink(missing_ok=True)
                removed.append(path)
    return removed


def _says(path: Path, note: str) -> bool:
    """Whether a whole release says this of itself."""
    with contextlib.suppress(TablepackError, duckdb.Error, OSError):
        con, _ = open_release(path)
        with con:
            asked = "SELECT count(*) FROM catalog.notes WHERE topic = 'release' AND note = ?"
            rows = con.execute(asked, [note]).fetchall()
            return bool(rows[0][0])
    return False
