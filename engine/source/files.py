"""Files beside the key (journal, ledger, measured counts): locked, read, replaced in one step and synced to disk.

One of them is kept here: the tally of a build, so that what was measured once need not be measured again to say
what all tables tell. One a key, of the build that wrote it last. It bears a keyed digest: a build takes over what
a build with this key counted of the same recipe, or nothing. It holds noisy counts of passing buckets.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

from engine.errors import StoreError
from engine.keys import MasterKey, pack_strings

_HEAD = b"tablepack tally 1\n"
_DIGEST = 32
MOST_OF_TALLY = 256 << 20
"""A larger tally is not kept: to read it would not be much faster than to measure."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file beside the key, so that two builds write it one after the other."""
    lock = path.with_name(path.name + ".lock")
    try:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StoreError(f"cannot write beside the key, {lock}: {error.strerror}") from None
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


def replace_file(path: Path, data: bytes, what: str, *more: bytes | memoryview) -> None:
    """Replace a file in one step, mode 0600, synced to disk together with its folder."""
    fresh = path.with_name(path.name + ".new")
    try:
        fresh.unlink(missing_ok=True)  # a left-over would lend its mode
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            for part in (data, *more):
                file.write(part)
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


def tally_path(key_path: Path) -> Path:
    """The tally beside a key file."""
    return key_path.with_name(key_path.name + ".tally")


def keep_tally(key_path: Path, key: MasterKey, recipe: str, raw: bytes | memoryview) -> None:
    """Keep a tally in the place of the one before; nothing is done where another file has its name.

    Nor where it cannot be written: it saves work, and no build fails for want of it.

    recipe: Keyed digest of all that decides its counts, whichever tables there are.
    """
    path = tally_path(key_path)
    if len(raw) > MOST_OF_TALLY:
        return
    with contextlib.suppress(StoreError), locked(path):
        if not path.exists() or _read(path, len(_HEAD)) == _HEAD:
            replace_file(path, _HEAD, "the tally", _digest(key, recipe, raw), raw)


def kept_tally(key_path: Path, key: MasterKey, recipe: str) -> bytes | None:
    """The tally that was kept last; None if there is none of this recipe, or it is not as it was written."""
    start = len(_HEAD) + _DIGEST
    held = _read(tally_path(key_path), start + MOST_OF_TALLY)
    raw = held[start:]
    return raw if held[:start] == _HEAD + _digest(key, recipe, raw) else None


def _read(path: Path, most: int) -> bytes:
    """The first bytes of a file; none where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(most)
    except OSError:
        return b""


def _digest(key: MasterKey, recipe: str, raw: bytes | memoryview) -> bytes:
    """Keyed digest of a tally and what it is of."""
    secret = key.derive("tally", "")
    state = blake2b(pack_strings([recipe]), key=secret, digest_size=_DIGEST)
    state.update(raw)
    return state.digest()
