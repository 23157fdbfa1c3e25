"""Files beside the key (journal, ledger, measured counts): locked, read, replaced in one step and synced to disk."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.errors import StoreError


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file, so that two builds write it one after the other."""
    lock = path.with_name(path.name + ".lock")
    try:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StoreError(f"{lock}: cannot be written ({error.strerror})") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def read_json(path: Path) -> Any:
    """What a file of JSON holds; None if it cannot be read."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError):
        return None


def replace_file(path: Path, data: bytes, what: str) -> None:
    """Replace a file in one step, mode 0600, synced to disk together with its folder."""
    fresh = path.with_name(path.name + ".new")
    try:
        fresh.unlink(missing_ok=True)  # a left-over would lend its mode
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise StoreError(f"cannot write {what} {path}: {error.strerror}") from None


def sync_folder(folder: Path) -> None:
    """Sync a folder to disk: what was made or replaced in it is there to stay."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
