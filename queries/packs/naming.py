"""Files of a pack: the folder that they are written to, and what is told of each.

Takes a target folder; gives a folder beside it that gets its name when all is written. Invariant: the target is there
whole or not at all.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.errors import StoreError


@dataclass(frozen=True, kw_only=True, slots=True)
class FileRecord:
    """Size in bytes and SHA-256 of a file."""

    size: int
    sha256: str


def ending(language: str, place: int) -> str:
    """Return what the name of a file in a further language ends on; nothing for the first."""
    return f"~{language}" if place else ""


def record_of(path: Path) -> FileRecord:
    """Return size and hash of a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return FileRecord(size=path.stat().st_size, sha256=digest)


@contextlib.contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Lend a folder to write to, which becomes the target when all went well.

    Raises
    ------
    StoreError
        The target is not empty, or cannot be written.
    """
    try:
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise StoreError(f"{target}: is not an empty directory; a pack needs one of its own")
        target.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise StoreError(f"{target}: cannot be written ({error.strerror or 'failed'})") from None
    try:
        yield part
        part.chmod(0o777 & ~_umask())
        part.replace(target)
    except OSError as error:
        raise StoreError(f"{target}: cannot be written ({error.strerror or 'failed'})") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _umask() -> int:
    """Return the process's file creation mask (it can only be read by setting it)."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
