"""Time and memory of a statement in one's own process; DuckDB does not count memory once a row is Python's.

A statement that exceeds its limits is stopped and refused. Planning, running and fetching share one budget. Whoever
runs statements of strangers oversees them: what each binds, and whether anybody still waits for it.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from engine.errors import TimedOut, TooLarge
from engine.signals import Bell, is_main_thread
from queries.sql.refusals import is_ctrl_c

LOOK_S = 0.02
"""Seconds between two looks at the memory taken."""
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?(MB|GB|TB|MiB|GiB|TiB)", re.IGNORECASE)
_UNITS = {"MB": 1, "GB": 1000, "TB": 10**6, "MIB": 1, "GIB": 1024, "TIB": 1024**2}
_STATM = Path("/proc/self/statm")
_MIB = 2**20


Plan = list[dict[str, Any]]
"""What DuckDB bound, as its EXPLAIN says it in JSON."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Oversight:
    """What is held over statements of strangers; nothing is then shared between two of them, either."""

    # Sees each plan before its rows are handed out, and raises QueryRefused where it should not run.
    look: Callable[[Plan], None]
    is_stopped: Callable[[], bool]  # Whether the statement at work should end


class Budget:
    """Seconds of one statement, spent by all that is done for it; what its user does in between is free.

    seconds: What it began with.
    left: What is left of them; never below 0.
    is_stopped: Whether it should end at once.
    """

    def __init__(self, seconds: float, is_stopped: Callable[[], bool] | None = None) -> None:
        self.seconds = seconds
        self.left = seconds
        self.is_stopped = is_stopped

    def again(self) -> Budget:
        """Return one for a further run."""
        return Budget(self.seconds, self.is_stopped)

    def spend(self, seconds: float) -> None:
        """Take some seconds away."""
        self.left = max(self.left - seconds, 0.0)


@contextmanager
def watched(
    con: duckdb.DuckDBPyConnection, budget: Budget, memory_mb: int | None = None
) -> Iterator[None]:
    """Stop what runs on a connection when its time is up, or when this process has grown by so much meanwhile.

    Memory is watched on Linux only, and only if it is limited.
    """
    start = time.monotonic()
    watch = _Watch(con, budget, memory_mb)
    end = _looked_at(watch)
    try:
        yield
    except duckdb.InterruptException:
        if watch.is_asked:
            raise KeyboardInterrupt from None
        if watch.is_full:
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
        end()  # or it would stop what runs next on the connection
        budget.spend(time.monotonic() - start)


class _Watch:
    """One piece of work that is looked at now and then, and interrupted where it should end."""

    def __init__(
        self, con: duckdb.DuckDBPyConnection, budget: Budget, memory_mb: int | None
    ) -> None:
        self._con, self._is_stopped = con, budget.is_stopped
        self._until = time.monotonic() + budget.left
        self._most = None if memory_mb is None else resident_mb() + memory_mb
        self.is_full = self.is_asked = False

    def look(self) -> None:
        """Interrupt it where it is too large, late, or waited for by nobody; again, should it not have been at work."""
        if self._most is not None and resident_mb() > self._most:
            self.is_full = True
        is_left = self.is_asked or (self._is_stopped is not None and self._is_stopped())
        if self.is_full or is_left or time.monotonic() >= self._until:
            self._con.interrupt()


class _Watcher:
    """One thread that looks at all work of this process: to start one for each costs as much as many a statement."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._watches: set[_Watch] = set()
        self._thread: threading.Thread | None = None
        self._is_asleep = False

    def begin(self, watch: _Watch) -> None:
        """Look at one more."""
        with self._lock:
            self._watches.add(watch)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()
            elif self._is_asleep:
                self._lock.notify()

    def end(self, watch: _Watch) -> None:
        """Look at it no more, from now on."""
        with self._lock:
            self._watches.discard(watch)

    def _run(self) -> None:
        with self._lock:
            while True:
                self._is_asleep = not self._watches
                self._lock.wait(None if self._is_asleep else LOOK_S)
                self._look()

    def _look(self) -> None:
        """Look at each once; here, so that no name holds the last connection while the thread sleeps."""
        for watch in self._watches:
            with suppress(
                duckdb.Error
            ):  # of one piece of work: the others are looked at all the same
                watch.look()


_ALL = _Watcher()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_ALL.__init__)  # type: ignore[misc]  # the thread is the parent's


def _looked_at(watch: _Watch) -> Callable[[], None]:
    """Look at a piece of work until what is returned is called; in the main thread a signal wakes who looks at once."""

    def look(is_asked: bool) -> None:
        watch.is_asked = watch.is_asked or is_asked
        watch.look()

    if is_main_thread():
        with suppress(
            OSError, RuntimeError
        ):  # a process for strangers may open no pipe: its parent ends it
            return Bell(look, LOOK_S).close
    _ALL.begin(watch)
    return lambda: _ALL.end(watch)


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
