"""Replays kept on disk, so that the next process need not draw them: beside the release, or in the user's cache folder.

A file is named by a digest of all that replays follow from: the released file, the columns, and the code that draws
them. It
starts with a digest of that name and of its content, and is used only if it is a plain file of this user's that nobody
else can write. Whatever is torn, foreign or of another version is drawn anew and written over. Sessions of untrusted
users neither read nor write files.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import tempfile
import zipfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import engine.schema
from engine.schema import ColumnSet
from queries.intervals.buckets import Stack
from queries.sql import Session

MOST_BYTES = 200 * 2**20
"""What a folder may hold; what was used longest ago goes first."""
_ENDING = ".replays"
_COUNTS, _SIZES, _N, _MEASURED = "counts", "sizes", "n", "measured"


def read(release: Session, columns: ColumnSet) -> tuple[Stack, tuple[int, ...]] | None:
    """Variants that were drawn before, and how many of each kind; None where there are none that are sound."""
    path = _path(release, columns)
    if path is None:
        return None
    try:
        raw = _own_bytes(path)
        head, body = raw[:32], raw[32:]
        if head != _digest(path, body):
            return None
        with np.load(io.BytesIO(body), allow_pickle=False) as held:
            arrays = dict(held)
        found = Stack(
            index={name: arrays[f"index_{j}"] for j, name in enumerate(columns)},
            codes={name: arrays[f"codes_{j}"] for j, name in enumerate(columns)},
            n=arrays[_N].astype(np.int64),
            measured=arrays[_MEASURED],
            sizes=arrays[_SIZES],
        )
        os.utime(path)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    return found, tuple(arrays[_COUNTS].tolist())


def write(release: Session, columns: ColumnSet, drawn: Stack, counts: tuple[int, ...]) -> None:
    """Keep variants that were drawn, where that is possible."""
    path = _path(release, columns)
    if path is None:
        return
    n = drawn.n.astype(np.min_scalar_type(int(drawn.n.max(initial=0))))
    arrays: dict[str, Any] = {
        _COUNTS: np.array(counts),
        _SIZES: drawn.sizes,
        _N: n,
        _MEASURED: drawn.measured,
    }
    for j, name in enumerate(columns):
        arrays |= {f"index_{j}": drawn.index[name], f"codes_{j}": drawn.codes[name]}
    body = io.BytesIO()
    np.savez(body, **arrays)
    raw = body.getvalue()
    with suppress(OSError):  # a full disk, or a folder that others have taken away
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as out:
                out.write(_digest(path, raw) + raw)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
        _shorten(path.parent)


def _path(release: Session, columns: ColumnSet) -> Path | None:
    """Where the replays of a table are kept; None where they are not."""
    if release.is_overseen or not hasattr(os, "geteuid"):
        return None
    file = f"{release.content_hash} {release.record.sha256}"  # what it states is not in the first
    told = f"{file} {columns!r} {_code()} {np.__version__}"
    beside = release.path.with_name(release.path.name + _ENDING)
    root = os.environ.get("XDG_CACHE_HOME", "")
    users = Path(root) if os.path.isabs(root) else Path("~/.cache").expanduser()
    folder = beside if _is_ours(release.path.parent) else users / "tablepack" / "replays"
    return folder / (hashlib.sha256(told.encode()).hexdigest() + _ENDING)


def _is_ours(folder: Path) -> bool:
    """Whether this user, and nobody else, can write in a folder."""
    with suppress(OSError):
        found = folder.stat()
        is_alone = found.st_uid == os.geteuid() and not found.st_mode & 0o022
        return is_alone and os.access(folder, os.W_OK)
    return False


def _own_bytes(path: Path) -> bytes:
    """What a file holds, if it is a plain one that only this user can write."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        is_own = found.st_uid == os.geteuid() and not found.st_mode & 0o022
        if not stat.S_ISREG(found.st_mode) or not is_own or found.st_size > MOST_BYTES:
            raise OSError(f"{path}: not a file of this user's cache")
        return file.read()


def _digest(path: Path, body: bytes) -> bytes:
    return hashlib.sha256(path.name.encode() + body).digest()


@cache
def _code() -> str:
    """A digest of the code that draws replays."""
    found = hashlib.sha256()
    root = Path(engine.schema.__file__).parent
    paths = [*root.glob("*.py"), *Path(__file__).parent.glob("*.py")]
    paths += [
        path for zone in ("fit", "mechanism", "store") for path in (root / zone).rglob("*.py")
    ]
    for path in sorted(paths):
        found.update(path.read_bytes())
    return found.hexdigest()


def _shorten(folder: Path) -> None:
    """Remove the files that were used longest ago, as far as there is too much."""
    held = [(path.stat(), path) for path in folder.glob(f"*{_ENDING}")]
    held.sort(key=lambda one: one[0].st_mtime)
    total = sum(found.st_size for found, _ in held)
    for found, path in held[:-1]:
        if total <= MOST_BYTES:
            break
        path.unlink(missing_ok=True)
        total -= found.st_size
