"""Limits on the time and memory of a statement; DuckDB does not count the memory of rows fetched into Python.

A statement that exceeds its limits is interrupted and refused. Planning, running and fetching share one time budget.
A process that runs statements of untrusted users checks what each binds, and whether anybody still waits for it.
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
from engine.signals import SignalWatcher, is_main_thread
from queries.sql.refusals import is_ctrl_c

LOOK_S = 0.02
"""Seconds between two checks of the memory in use."""
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?(MB|GB|TB|MiB|GiB|TiB)", re.IGNORECASE)
_UNITS = {"MB": 1, "GB": 1000, "TB": 10**6, "MIB": 1, "GIB": 1024, "TIB": 1024**2}
_STATM = Path("/proc/self/statm")
_MIB = 2**20


Plan = list[dict[str, Any]]
"""The bound statement, as DuckDB's EXPLAIN gives it in JSON."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Oversight:
    """Oversight of untrusted users' statements, which then share no state with each other."""

    # Checks each plan before any rows are returned, and raises QueryRefused if it must not run.
    look: Callable[[Plan], None]
    is_stopped: Callable[[], bool]  # Whether the running statement should stop


class Budget:
    """Time budget of one statement, spent by all work for it, but not by its user in between.

    seconds: The initial budget.
    left: What is left of it; never below 0.
    is_stopped: Whether the statement should stop at once.
    """

    def __init__(self, seconds: float, is_stopped: Callable[[], bool] | None = None) -> None:
        self.seconds = seconds
        self.left = seconds
        self.is_stopped = is_stopped

    def again(self) -> Budget:
        """Return a full budget for another run."""
        return Budget(self.seconds, self.is_stopped)

    def spend(self, seconds: float) -> None:
        """Subtract seconds."""
        self.left = max(self.left - seconds, 0.0)


@contextmanager
def watched(
    con: duckdb.DuckDBPyConnection, budget: Budget, memory_mb: int | None = None
) -> Iterator[None]:
    """Interrupt a connection when its time is up, or when this process has grown by more than `memory_mb` since.

    Memory is watched on Linux only, and only if it is limited.
    """
    start = time.monotonic()
    watch = _Watch(con, budget, memory_mb)
    end = _checked(watch)
    try:
        yield
    except duckdb.InterruptException:
        if watch.is_asked:
            raise KeyboardInterrupt from None
        if watch.is_full:
            raise TooLarge(
                f"The answer needs more than {memory_mb:,} MB: aggregate or LIMIT it, fetch its first rows "
                "with .head(n), or open the release with more memory"
            ) from None
        raise TimedOut(f"The statement was stopped after {budget.seconds:g} seconds") from None
    except RuntimeError as error:
        if is_ctrl_c(error):
            raise KeyboardInterrupt from None
        raise
    finally:
        end()  # or it would interrupt the next statement on the connection
        budget.spend(time.monotonic() - start)


class _Watch:
    """Work on a connection that is checked periodically, and interrupted if it should end."""

    def __init__(
        self, con: duckdb.DuckDBPyConnection, budget: Budget, memory_mb: int | None
    ) -> None:
        self._con, self._is_stopped = con, budget.is_stopped
        self._until = time.monotonic() + budget.left
        self._most = None if memory_mb is None else resident_mb() + memory_mb
        self.is_full = self.is_asked = False

    def look(self) -> None:
        """Interrupt it if it is too large, late or abandoned; repeated, since one between statements is lost."""
        if self._most is not None and resident_mb() > self._most:
            self.is_full = True
        is_left = self.is_asked or (self._is_stopped is not None and self._is_stopped())
        if self.is_full or is_left or time.monotonic() >= self._until:
            with suppress(duckdb.Error):  # it has just been closed
                self._con.interrupt()


class _Watcher:
    """One thread that checks all work of this process: starting one each time costs as much as a short statement."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._watches: set[_Watch] = set()
        self._thread: threading.Thread | None = None
        self._is_asleep = False

    def begin(self, watch: _Watch) -> None:
        """Start checking."""
        with self._lock:
            self._watches.add(watch)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()
            elif self._is_asleep:
                self._lock.notify()

    def end(self, watch: _Watch) -> None:
        """Stop checking."""
        with self._lock:
            self._watches.discard(watch)

    def _run(self) -> None:
        with self._lock:
            while True:
                self._is_asleep = not self._watches
                self._lock.wait(None if self._is_asleep else LOOK_S)
                self._look()

    def _look(self) -> None:
        """Check each once; in a function, so that no variable keeps a connection alive while the thread sleeps."""
        for watch in self._watches:
            with suppress(duckdb.Error):  # an error of one must not affect the others
                watch.look()


_ALL = _Watcher()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_ALL.__init__)  # type: ignore[misc]  # the thread is the parent's


def _checked(watch: _Watch) -> Callable[[], None]:
    """Check work until the returned function is called; in the main thread, a signal triggers a check at once."""

    def look(is_asked: bool) -> None:
        watch.is_asked = watch.is_asked or is_asked
        watch.look()

    if is_main_thread():
        # A sandboxed process cannot open the pipe this needs; its parent enforces the limits.
        with suppress(OSError, RuntimeError):
            return SignalWatcher(look, LOOK_S).close
    _ALL.begin(watch)
    return lambda: _ALL.end(watch)


def resident_mb() -> int:
    """Return the resident memory of this process in MB; 0 if the system does not report it."""
    try:
        pages = int(_STATM.read_text("ascii").split()[1])
    except OSError:
        return 0
    return pages * _page_size() // _MIB


def _page_size() -> int:
    import resource

    return resource.getpagesize()


def megabytes_of(size: str) -> int | None:
    """Return a size such as 500MB or 1.8 GiB in megabytes; None if it is not a size."""
    match = _SIZE.fullmatch(size.strip())
    return int(float(match[1]) * _UNITS[match[2].upper()]) if match else None
