"""What a fetch may take in one's own process: time, and memory, which DuckDB does not count once a row is Python's.

A connection and limits in; what runs over them is stopped and refused.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from engine.errors import TimedOut, TooLarge

LOOK_S = 0.02
"""Seconds between two looks at the memory taken."""
_STATM = Path("/proc/self/statm")
_MIB = 2**20


@contextmanager
def watched(con: duckdb.DuckDBPyConnection, timeout_s: float, memory_mb: int) -> Iterator[None]:
    """Stop what runs on a connection when its time is up, or when this process has grown by so much meanwhile.

    The memory is looked at where the system tells it (Linux).

    Raises
    ------
    TimedOut, TooLarge
        It was stopped.
    """
    until, most = time.monotonic() + timeout_s, resident_mb() + memory_mb
    is_done, is_full = threading.Event(), threading.Event()

    def watch() -> None:
        while not is_done.wait(min(LOOK_S, max(until - time.monotonic(), 0))):
            if resident_mb() > most:
                is_full.set()
            if is_full.is_set() or time.monotonic() >= until:
                con.interrupt()  # again, should it not have been at work
                time.sleep(LOOK_S)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    except duckdb.InterruptException:
        if is_full.is_set():
            raise TooLarge(
                f"The answer takes more than {memory_mb:,} MB: aggregate or LIMIT it, take its first rows "
                "with .head(n), or open the release with more memory"
            ) from None
        raise TimedOut(f"The statement was stopped after {timeout_s:g} seconds") from None
    finally:
        is_done.set()
        watcher.join()  # or it would stop what runs next on the connection


def resident_mb() -> int:
    """Return the memory that this process has in use; 0 where the system does not tell."""
    try:
        pages = int(_STATM.read_text("ascii").split()[1])
    except OSError:
        return 0
    return pages * _page_size() // _MIB


def _page_size() -> int:
    import resource

    return resource.getpagesize()
