"""Manifests and content hashes: how a reader knows that a release is complete and unchanged.

Next to `r.duckdb` is `r.duckdb.manifest.json`: format version, and the records of the files it accepts
(size, SHA-256, content hashes, key id, vintage, engine version). File and manifest cannot be renamed in one
step, so a manifest that accepts the old and the new file is written first, then the file is renamed, then the
final manifest: at every instant, file and manifest on disk match.
A content hash is xxh3-128 over canonical little-endian bytes of released values and counts; it does not depend on
platform, DuckDB version, date, timing or raking diagnostics. The SHA-256 protects the bytes.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np
import xxhash

from engine.errors import DamagedRelease, StoreError
from engine.schema import ColumnSet, Prefix, Support, SyntheticTable

FORMAT_VERSION = 4
"""Version of the release format: catalogue, manifest and content hash together."""
SMALL_RELEASE = 64 * 2**20
"""Releases below this many bytes are hashed at every opening."""
ATTACHED = "release"
"""Name under which a release is attached."""
HASH, _SHA256 = re.compile("[0-9a-f]{32}"), re.compile("[0-9a-f]{64}")
"""A content hash, and the hash of a file."""
MOST_NAME = 10_000
"""Bytes of a name (column, vintage, key id)."""
MOST_BYTES = 64 * 2**20
"""Largest size of a manifest."""
_MOST_ACCEPTED = 4
_MAGIC = b"DUCK"  # bytes 8 to 11 of every DuckDB file


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseRecord:
    """One file that a manifest accepts."""

    size: int  # Bytes
    sha256: str  # Of the whole file, hex
    content_hash: str  # Of all tables and supports: see `release_hash`
    tables: dict[str, str]  # Content hash of every table, by name
    key_id: str
    vintage: str
    engine_version: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """The format version and the files it accepts: one, or two while one replaces the other."""

    format_version: int
    accepts: tuple[ReleaseRecord, ...]

    def to_json(self) -> str:
        """Return the manifest as JSON, keys sorted."""
        return json.dumps(asdict(self), sort_keys=True, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """Read back what `to_json` wrote."""
        try:
            raw = json.loads(text)
        except RecursionError:
            raise ValueError("nested too deeply") from None
        if not isinstance(raw, dict) or not _is_whole(raw.get("format_version")):
            raise ValueError("not a manifest")
        version = raw["format_version"]
        if version != FORMAT_VERSION:  # the rest may have another layout
            return cls(format_version=version, accepts=())
        accepts = raw.get("accepts")
        if not isinstance(accepts, list) or not 1 <= len(accepts) <= _MOST_ACCEPTED:
            raise ValueError("lists no file, or too many")
        return cls(format_version=version, accepts=tuple(map(_record_of, accepts)))


def _record_of(raw: Any) -> ReleaseRecord:
    """Return a record of a manifest, every field of it checked."""
    names = [f.name for f in fields(ReleaseRecord)]
    if not isinstance(raw, dict) or set(raw) != set(names):
        raise ValueError("the record of a file has missing or unknown fields")
    checks = {
        "size": _is_whole(raw["size"]) and 0 <= raw["size"] < 2**63,
        "sha256": _is_hash(raw["sha256"], _SHA256),
        "content_hash": _is_hash(raw["content_hash"], HASH),
        "tables": isinstance(raw["tables"], dict)
        and all(_is_hash(h, HASH) for h in raw["tables"].values()),
        **{
            k: isinstance(raw[k], str) and len(raw[k]) <= MOST_NAME
            for k in ("key_id", "vintage", "engine_version")
        },
    }
    wrong = [name for name, fits in checks.items() if not fits]
    if wrong:
        raise ValueError(f"{wrong[0]} in the record of a file is invalid")
    return ReleaseRecord(**raw)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_hash(value: Any, form: re.Pattern[str]) -> bool:
    return isinstance(value, str) and form.fullmatch(value) is not None


def read_plain(path: Path, most: int) -> bytes:
    """Return the first bytes of a regular file; do not block on a pipe or device in its place."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return file.read(most)


def manifest_path(release: Path) -> Path:
    """Return the path of the manifest of a release."""
    return release.with_name(release.name + ".manifest.json")


def read_manifest(release: Path) -> Manifest:
    """Read the manifest of a release."""
    path = manifest_path(release)
    if not path.exists() and not release.exists():
        raise StoreError(f"{release}: no such release")
    if release.is_dir():
        raise StoreError(f"{release}: is a directory, not a release")
    try:
        text = read_plain(path, MOST_BYTES + 1)
        if len(text) > MOST_BYTES:
            raise DamagedRelease(f"{release}: its manifest {path.name} is too large")
        manifest = Manifest.from_json(text.decode("utf-8"))
    except FileNotFoundError:
        raise DamagedRelease(
            f"{release}: not a release, or its manifest {path.name} is missing. To make a release from data, use "
            "tablepack init, then tablepack build (in Python: build)"
        ) from None
    except (UnicodeError, OSError):
        raise DamagedRelease(f"{release}: its manifest {path.name} cannot be read") from None
    except ValueError as error:
        raise DamagedRelease(
            f"{release}: its manifest {path.name} cannot be read: {error}"
        ) from None
    if manifest.format_version != FORMAT_VERSION:
        remedy = (
            "rebuild it from its spec and key: tablepack build SPEC"
            if manifest.format_version < FORMAT_VERSION
            else "it was built by a newer version of tablepack: use that version"
        )
        raise DamagedRelease(
            f"{release}: has format {manifest.format_version}, this version reads {FORMAT_VERSION}; {remedy}"
        )
    return manifest


def write_manifest(release: Path, manifest: Manifest, *, scratch: Path) -> None:
    """Write the manifest of a release atomically.

    scratch: A directory on the same file system, for the temporary file.
    """
    part = scratch / "manifest.part"
    with part.open("w", encoding="utf-8") as file:
        file.write(manifest.to_json())
        file.flush()
        os.fsync(file.fileno())
    part.replace(manifest_path(release))
    sync_directory(release.parent)


def sync_directory(directory: Path) -> None:
    """Flush a directory, so that a rename in it survives a power failure."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file, hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify_release(
    path: str | os.PathLike[str], *, verify: Literal["size", "hash"] = "size"
) -> ReleaseRecord:
    """Check a release against its manifest; return the record that it matches.

    verify: "size" checks only the size of a file of 64 MB or more; "hash" always reads all of it.
    """
    release = Path(path)
    manifest = read_manifest(release)
    try:
        size = release.stat().st_size
        head = read_plain(release, 12)
    except OSError as error:
        raise DamagedRelease(f"{release}: cannot be read ({error.strerror})") from None
    if any(Path(f"{p}.wal").exists() for p in (release, os.path.realpath(release))):
        raise DamagedRelease(
            f"{release}: there is a write-ahead log next to it; a release has none"
        )
    if head[8:12] != _MAGIC:
        raise DamagedRelease(f"{release}: is not a DuckDB file")
    fitting = [r for r in manifest.accepts if r.size == size]
    if not fitting:
        raise DamagedRelease(f"{release}: its size does not match its manifest")
    if verify == "hash" or size < SMALL_RELEASE or len(fitting) > 1:
        digest = file_hash(release)
        fitting = [r for r in fitting if r.sha256 == digest]
    if not fitting:
        raise DamagedRelease(f"{release}: its bytes do not match its manifest")
    return fitting[0]


def content_hash(
    table: SyntheticTable,
    supports: Mapping[str, Support],
    *,
    lists: Mapping[str, bytes] | None = None,
) -> str:
    """Return the content hash of one table: its columns, decoded codes and counts.

    Returns: 32 hex digits; equal if and only if columns, values and counts are (apart from collisions).
    """
    return rows_hash(table.columns, table.codes, table.n, supports, lists=lists)


def rows_hash(
    columns: ColumnSet,
    codes: np.ndarray[Any, Any],
    n: np.ndarray[Any, Any],
    supports: Mapping[str, Support],
    *,
    lists: Mapping[str, bytes] | None = None,
) -> str:
    """Return the content hash of a table's rows; see `content_hash`."""
    digest = xxhash.xxh3_128(b"tablepack table 1")
    for j, name in enumerate(columns):
        support = supports[name]
        of_column = codes[:, j]
        _feed(digest, name.encode())
        digest.update(values_hash(support) if lists is None else lists[name])
        _feed(digest, _int64_bytes(support.kind[of_column]))
        _feed(digest, _int64_bytes(support.grid[of_column]))
    _feed(digest, _int64_bytes(n))
    return digest.hexdigest()


def values_hash(support: Support) -> bytes:
    """Return the digest of a ranked column's values: their type, then every value, length-prefixed."""
    digest = xxhash.xxh3_128(b"tablepack values 1")
    _feed(digest, support.column.value_type.encode())
    for value in (support.values or {}).values():
        text = f"\0{value.text}" if isinstance(value, Prefix) else str(value)
        _feed(digest, text.encode("utf-8", "surrogatepass"))
    return digest.digest()


def support_hash(support: Support) -> str:
    """Return the content hash of one column: declaration, released values, fitted counts."""
    digest = xxhash.xxh3_128(b"tablepack alphabet 1")
    column = support.column
    head: list[str | int | None] = [column.name, column.kind, column.value_type, column.placeholder]
    head += column.resolution.parts if column.resolution else []
    _feed(digest, json.dumps(head).encode())
    digest.update(values_hash(support))
    for array in (support.kind, support.grid, support.n, support.measured):
        _feed(digest, _int64_bytes(array))
    return digest.hexdigest()


def release_hash(tables: Mapping[str, str], supports: Mapping[str, str]) -> str:
    """Return the content hash of a release, made from those of its tables and columns by name."""
    digest = xxhash.xxh3_128(b"tablepack release 1")
    for part in (tables, supports):
        _feed(digest, json.dumps(sorted(part.items())).encode())
    return digest.hexdigest()


def _int64_bytes(array: np.ndarray[Any, Any]) -> bytes:
    """Return an array as little-endian int64."""
    return np.ascontiguousarray(array, dtype="<i8").tobytes()


def _feed(digest: xxhash.xxh3_128, data: bytes) -> None:
    """Feed a part after its length, so that parts cannot run into each other."""
    digest.update(len(data).to_bytes(8, "little"))
    digest.update(data)
