"""Time and memory of a statement in one's own process; DuckDB does not count memory once a row is Python's.

A statement that exceeds its limits is stopped and refused. Planning, running and fetching share one budget.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from engine.errors import TimedOut, TooLarge
from queries.sql.refusals import is_ctrl_c

LOOK_S = 0.02
"""Seconds between two looks at the memory taken."""
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?(MB|GB|TB|MiB|GiB|TiB)", re.IGNORECASE)
_UNITS = {"MB": 1, "GB": 1000, "TB": 10**6, "MIB": 1, "GIB": 1024, "TIB": 1024**2}
_STATM = Path("/proc/self/statm")
_MIB = 2**20


class Budget:
    """Seconds of one statement, spent by all that is done for it; what its user does in between is free.

    Attributes
    ----------
    seconds : float
        What it began with.
    left : float
        What is left of them; never below 0.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.left = seconds

    def spend(self, seconds: float) -> None:
        """Take some seconds away."""
        self.left = max(self.left - seconds, 0.0)


@contextmanager
def watched(
    con: duckdb.DuckDBPyConnection, budget: Budget, memory_mb: int | None = None
) -> Iterator[None]:
    """Stop what runs on a connection when its time is up, or when this process has grown by so much meanwhile.

    Memory is watched on Linux only, and only if it is limited.

    Raises
    ------
    TimedOut, TooLarge
        It was stopped.
    KeyboardInterrupt
        It was stopped from the keyboard.
    """
    start = time.monotonic()
    until = start + budget.left
    most = None if memory_mb is None else resident_mb() + memory_mb
    is_done, is_full = threading.Event(), threading.Event()

    def watch() -> None:
        pause = LOOK_S if most is not None else budget.left
        while not is_done.wait(min(pause, max(until - time.monotonic(), 0))):
            if most is not None and resident_mb() > most:
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
        raise TimedOut(f"The statement was stopped after {budget.seconds:g} seconds") from None
    except RuntimeError as error:
        if is_ctrl_c(error):
            raise KeyboardInterrupt from None
        raise
    finally:
        is_done.set()
        watcher.join()  # or it would stop what runs next on the connection
        budget.spend(time.monotonic() - start)


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


def megabytes_of(size: str) -> int | None:
    """Return a size such as 500MB or 1.8 GiB in megabytes; None where it is none."""
    match = _SIZE.fullmatch(size.strip())
    return int(float(match[1]) * _UNITS[match[2].upper()]) if match else None
