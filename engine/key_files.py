"""Key files: 32 random bytes, mode 0600, never overwritten. Only this module reads and writes them."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from engine.errors import SpecError, StoreError
from engine.keys import KEY_BYTES, MasterKey
from engine.outputs import OF_KEYS


def check_key_file(path: Path) -> list[str]:
    """Say what is wrong with a key file.

    Returns: Problems as sentences; empty if there are none.
    """
    try:
        info = path.lstat()
    except FileNotFoundError:
        return [f"key file {path} does not exist; {_way_out(path)}"]
    except OSError:
        return [f"key file {path} cannot be accessed"]
    if stat.S_ISLNK(info.st_mode) or not stat.S_ISREG(info.st_mode):
        return [f"key file {path} is not a regular file"]
    problems = []
    if info.st_mode & 0o077:
        problems.append(
            f"key file {path} can be read by others; restrict it to its owner: chmod 600 {path}"
        )
    if info.st_uid != os.getuid():
        problems.append(f"key file {path} belongs to another user")
    if info.st_size != KEY_BYTES:
        problems.append(f"key file {path} does not have exactly {KEY_BYTES} bytes")
    return problems


def _way_out(path: Path) -> str:
    """What to do about a missing key: make a new one only if no key of this name was used before."""
    for ending in OF_KEYS:
        beside = path.with_name(path.name + ending)
        if os.path.lexists(beside):
            return (
                f"{beside.name} shows that it was used before, so it was moved or lost: restore it. A new key would "
                "draw fresh noise for the same people, which protects them less"
            )
    return f"make one with: tablepack key new {path} (in Python: new_key({str(path)!r}))"


def read_key(path: Path) -> MasterKey:
    """Read a key file."""
    problems = check_key_file(path)
    if problems:
        raise SpecError(problems)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError as error:
        raise SpecError(f"key file {path} cannot be read: {error.strerror}") from None
    with os.fdopen(handle, "rb") as file:
        return MasterKey(file.read(KEY_BYTES + 1))


def new_key(path: Path) -> str:
    """Make a key file of mode 0600 and return the key's public id."""
    secret = secrets.token_bytes(KEY_BYTES)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise StoreError(f"{path} exists; a key is never overwritten") from None
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}") from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secret)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        path.unlink(missing_ok=True)
        raise StoreError(f"cannot write {path}: {error.strerror}") from None
    return MasterKey(secret).id
