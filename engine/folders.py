"""Folders that belong to one build at a time: of mode 0700, locked while it works, emptied only if they hold our lock.

What such a folder holds belongs to the build whose id it records; another build empties it first.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from pathlib import Path

from engine.errors import StoreError

_BUILD, _LOCK = "build.json", "lock"


def _has_foreign_files(folder: Path) -> bool:
    """Whether a folder contains files but not our lock; listed only once, since another build may be creating it."""
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return bool(names) and _LOCK not in names


def lock_folder(folder: Path, what: str) -> int:
    """Create a folder of a build and take its lock; closing the returned descriptor releases it.

    what: What it is called: "a staging folder".
    """
    while True:
        if folder.is_symlink() or _has_foreign_files(folder):
            raise StoreError(f"{folder}: exists and is not {what}; move it away")
        folder.mkdir(mode=0o700, exist_ok=True)
        folder.chmod(0o700)
        try:
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            continue  # a build that has just finished removed the folder
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.stat(folder / _LOCK).st_ino == os.fstat(lock).st_ino:
                return lock
        except FileNotFoundError:
            pass
        except BlockingIOError:
            os.close(lock)
            raise StoreError(f"{folder}: another build of this release is running") from None
        os.close(lock)


def read_build_id(folder: Path) -> str | None:
    """Return the id of the build that a folder belongs to; None if there is none, or it is unreadable."""
    try:
        claim = json.loads((folder / _BUILD).read_text(encoding="utf-8"))
        return str(claim["build_id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def sweep_folder(folder: Path) -> None:
    """Empty a folder except for the lock; the build id first, so that a kill leaves no claim on the rest."""
    (folder / _BUILD).unlink(missing_ok=True)
    for entry in folder.iterdir():
        if entry.name == _LOCK:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def write_build_id(folder: Path, build_id: str) -> None:
    """Record the build that a folder belongs to, atomically."""
    part = folder / (_BUILD + ".part")
    part.touch(mode=0o600)
    part.write_text(json.dumps({"build_id": build_id}), encoding="utf-8")
    part.replace(folder / _BUILD)


def remove_folder(folder: Path) -> None:
    """Remove a folder; the lock file last, so that a kill leaves it recognisable as ours."""
    sweep_folder(folder)
    (folder / _LOCK).unlink()
    folder.rmdir()
