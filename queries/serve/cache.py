"""Finished replies by question: the same question gets the same bytes without asking again.

Bounded by bytes; the least recently asked go first.
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass

from cachetools import LRUCache

_PLACE_BYTES = 120  # two numbers and what holds them


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """One finished reply."""

    body: bytes = b""
    media_type: str = "application/json"
    # Rows of a statement's answer, a line of JSON each, to be cut into pages; empty for others.
    rows: bytes = b""
    n_rows: int = 0
    name: str = ""  # Of such an answer: the same rows in the same order have the same
    # Row and column of each of its figures that is not released, row by row.
    hidden: tuple[tuple[int, int], ...] = ()
    formulas: str = ""  # Of a CSV file: what was done to text that a spreadsheet would run

    @property
    def size(self) -> int:
        """Bytes it takes, about, with its key; whatever the number of rows."""
        return len(self.body) + len(self.rows) + _PLACE_BYTES * len(self.hidden) + 700


class ReplyCache:
    """The replies themselves, all of one release; safe from several threads."""

    def __init__(self, max_bytes: int) -> None:
        self._replies: LRUCache[bytes, Reply] = LRUCache(max_bytes, getsizeof=lambda r: r.size)
        self._lock = threading.Lock()

    def get(self, question: str) -> Reply | None:
        """Return the reply to a question, or None."""
        with self._lock:
            return self._replies.get(_key(question))

    def put(self, question: str, reply: Reply) -> None:
        """Store a reply; one that would fill half of the room is not stored."""
        with self._lock:
            if reply.size * 2 <= self._replies.maxsize:
                self._replies[_key(question)] = reply


def _key(question: str) -> bytes:
    """A question of any length as a few bytes."""
    return hashlib.blake2b(question.encode(), digest_size=32).digest()
