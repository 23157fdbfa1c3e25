"""The secret, derived keys and entity tokens. Key files are read in `engine.key_files`.

Takes 32 random bytes; gives keys derived per vintage and purpose, and 128-bit entity tokens. Everything is keyed
BLAKE2b (RFC 7693) over injective, length-prefixed bytes: no two different inputs share a message. Nothing here is ever
logged or shown.

Keys for entity tokens, entity-set noise and suppression depend on (vintage, purpose) alone, so that the same people
get the same draw in every table; label and sampling keys depend on the column set as well.
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Iterable
from hashlib import blake2b
from typing import Literal

import numpy as np

from engine.errors import DataError, SpecError
from engine.schema import ColumnSet, Entity, Int64Array, UInt64Array, columns_of

KEY_BYTES = 32
Purpose = Literal[
    "entity",
    "entity-set",
    "suppression",
    "label",
    "sum-entity-set",
    "sum-label",
    "sampling",
    "fingerprint",
    "detection",
    "sketch",
    "swapping",
    "rows",
    "recipe",
    "ledger",
]
_COMMON_LENGTH = 64
_TOKEN, _PERSON = 16, b"tablepack"
EntityId = int | str | float | bool | bytes | datetime.date | datetime.time


class MasterKey:
    """The secret of a key file, or of a replay; readable only in this module."""

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
