"""Cached replies by query, limited in bytes; the least recently used are dropped first."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass

from cachetools import LRUCache

_PLACE_BYTES = 120  # two numbers and their objects


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """One finished reply."""

    body: bytes = b""
    media_type: str = "application/json"
    # Rows of a statement's result, one line of JSON each, to be split into pages; otherwise empty.
    rows: bytes = b""
    n_rows: int = 0
    name: str = ""  # Identifies such a result: the hash of its rows
    # Row and column of each figure in it that is not released.
    hidden: tuple[tuple[int, int], ...] = ()
    formulas: str = ""  # Of a CSV file: how text that looks like a formula was treated

    @property
    def size(self) -> int:
        """Approximate bytes with the key."""
        return len(self.body) + len(self.rows) + _PLACE_BYTES * len(self.hidden) + 700


class ReplyCache:
    """Replies of one release; thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        self._replies: LRUCache[bytes, Reply] = LRUCache(max_bytes, getsizeof=lambda r: r.size)
        self._lock = threading.Lock()

    def get(self, question: str) -> Reply | None:
        """Return the cached reply to a query, or None."""
        with self._lock:
            return self._replies.get(_key(question))

    def put(self, question: str, reply: Reply) -> None:
        """Store a reply unless it would fill half the cache."""
        with self._lock:
            if reply.size * 2 <= self._replies.maxsize:
                self._replies[_key(question)] = reply


def _key(question: str) -> bytes:
    """A fixed-size key for a query of any length."""
    return hashlib.blake2b(question.encode(), digest_size=32).digest()
