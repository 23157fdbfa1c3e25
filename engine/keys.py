"""The secret: key files, derived keys and entity tokens.

Takes a key file of 32 random bytes (mode 0600); gives keys derived per vintage and purpose, and 128-bit entity
tokens. Everything is keyed BLAKE2b (RFC 7693) over injective, length-prefixed bytes: no two different inputs
share a message. Only this module reads the secret; nothing here is ever logged or shown.

Keys for entity tokens, entity-set noise and suppression depend on (vintage, purpose) alone, so that the same people
get the same draw in every table; label and sampling keys depend on the column set as well.
"""

from __future__ import annotations

import datetime
import os
import secrets
import stat
import struct
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Literal

import numpy as np

from engine.errors import DataError, SpecError, StoreError
from engine.outputs import OF_KEYS
from engine.schema import ColumnSet, Entity, Int64Array, UInt64Array, columns_of

KEY_BYTES = 32
Purpose = Literal[
    "entity",
    "entity-set",
    "suppression",
    "label",
    "sampling",
    "fingerprint",
    "detection",
    "sketch",
    "swapping",
    "rows",
    "recipe",
    "kept",
    "ledger",
]
_COMMON_LENGTH = 64
_TOKEN, _PERSON = 16, b"tablepack"
EntityId = int | str | float | bool | bytes | datetime.date | datetime.time


class MasterKey:
    """The secret of a key file, readable only in this module."""

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        if len(secret) != KEY_BYTES:
            raise SpecError(
                f"a key has exactly {KEY_BYTES} bytes; make one with: tablepack key new FILE"
            )
        self._secret = secret

    def __repr__(self) -> str:
        return "MasterKey(hidden)"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a key is never pickled")

    @property
    def id(self) -> str:
        """Public name of the key: 16 hex digits that identify it and reveal nothing about it."""
        return blake2b(b"key id", key=self._secret, person=b"tablepack", digest_size=8).hexdigest()

    def derive(self, purpose: Purpose, vintage: str, columns: ColumnSet | None = None) -> bytes:
        """Derive the key of one purpose.

        columns: Given for label and sampling keys only.
        """
        parts = [purpose, vintage] if columns is None else [purpose, vintage, *columns]
        message = struct.pack("<B", columns is not None) + pack_strings(parts)
        return blake2b(message, key=self._secret, person=b"tablepack", digest_size=32).digest()


def pack_strings(parts: Iterable[str]) -> bytes:
    """Concatenate strings injectively: each as its length in bytes (uint64, little-endian) and its UTF-8."""
    chunks = []
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        chunks.append(struct.pack("<Q", len(raw)) + raw)
    return b"".join(chunks)


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


def typed_id(value: EntityId) -> bytes:
    """Bytes of an entity id, injectively: a type tag, then its bytes.

    0, "", False, 1, "1" and 1.0 are all different ids.
    """
    if isinstance(value, bool):
        return b"b" + bytes([value])
    if isinstance(value, int):
        return b"i" + str(value).encode()
    if isinstance(value, float):
        if value != value:
            raise DataError("an entity id is null; every row must identify its entity")
        return b"f" + struct.pack("<d", value + 0.0)
    if isinstance(value, str):
        return b"s" + value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return b"x" + value
    if isinstance(value, datetime.datetime):
        return b"t" + value.isoformat().encode()
    if isinstance(value, datetime.date):
        return b"d" + value.isoformat().encode()
    if isinstance(value, datetime.time):
        return b"c" + value.isoformat().encode()
    if value is None:
        raise DataError("an entity id is null; every row must identify its entity")
    raise DataError("an entity id is not a number, text, boolean, bytes, date or time")


def entity_tokens(
    key: bytes, ids: Iterable[EntityId] | Int64Array, *, entity_column: Entity
) -> UInt64Array:
    """Token of each entity: keyed 128-bit BLAKE2b of its typed, length-prefixed id.

    entity_column: Name of the column, or of the columns, a part of the message: person 1 and household 1 are
        different entities.
    """
    head = pack_strings(columns_of(entity_column))
    state = blake2b(key=key, digest_size=_TOKEN, person=_PERSON)
    state.update(head)
    # A call per id costs more than its hash, so there are as few calls as possible.
    sizes = [n.to_bytes(8, "little") for n in range(_COMMON_LENGTH)]
    copied, digests = state.copy, []
    typed: Iterable[bytes] = (
        (b"i%d" % n for n in ids.tolist()) if isinstance(ids, np.ndarray) else map(typed_id, ids)
    )
    for raw in typed:
        n = len(raw)
        one = copied()
        one.update((sizes[n] if n < _COMMON_LENGTH else n.to_bytes(8, "little")) + raw)
        digests.append(one.digest())
    return np.frombuffer(b"".join(digests), dtype="<u8").reshape(-1, 2).astype(np.uint64)


def row_tokens(key: bytes, fingerprints: UInt64Array, occurrence: UInt64Array) -> UInt64Array:
    """Token of each row if no column identifies the entity.

    occurrence: Number of the row among those with the same fingerprint.
    """
    records = np.column_stack([fingerprints, occurrence]).astype("<u8").tobytes()
    state = blake2b(key=key, digest_size=16, person=b"tablepack")
    state.update(pack_strings(["row"]))
    digests = []
    for start in range(0, len(records), 24):
        one = state.copy()
        one.update(records[start : start + 24])
        digests.append(one.digest())
    return np.frombuffer(b"".join(digests), dtype="<u8").reshape(-1, 2).astype(np.uint64)
