"""Finished answers, kept by question: the same question gets the same bytes without asking again.

Keys hold the release's content hash, so that another release never answers from here. Bounded by bytes; the least
recently asked go first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """One finished answer.

    Attributes
    ----------
    body : bytes
    media_type : str
    rows : bytes
        Rows of a statement's answer, a line of JSON each, to be cut into pages; empty for others.
    n_rows : int
    name : str
        Of such an answer: the same rows in the same order have the same.
    """

    body: bytes = b""
    media_type: str = "application/json"
    rows: bytes = b""
    n_rows: int = 0
    name: str = ""

    @property
    def size(self) -> int:
        """Bytes it takes, about; two objects, whatever the number of rows."""
        return len(self.body) + len(self.rows) + 600


class Cache:
    """The answers themselves; safe from several threads.

    Parameters
    ----------
    most_bytes : int
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._held: OrderedDict[str, Kept] = OrderedDict()
        self._lock = threading.Lock()
        self.bytes = 0
        self.hits = 0

    def get(self, key: str) -> Kept | None:
        """Return an answer, or None."""
        with self._lock:
            found = self._held.get(key)
            if found is not None:
                self._held.move_to_end(key)
                self.hits += 1
            return found

    def put(self, key: str, kept: Kept) -> None:
        """Keep an answer; one that would fill half of the room is not kept."""
        size = kept.size + 2 * len(key)
        if size * 2 > self._most:
            return
        with self._lock:
            old = self._held.pop(key, None)
            self.bytes += size - (old.size + 2 * len(key) if old else 0)
            self._held[key] = kept
            while self.bytes > self._most:
                oldest, gone = self._held.popitem(last=False)
                self.bytes -= gone.size + 2 * len(oldest)

    def __len__(self) -> int:
        return len(self._held)
