"""Time and memory of a statement in one's own process; DuckDB does not count memory once a row is Python's.

A statement that exceeds its limits is stopped and refused. Planning, running and fetching share one budget. Whoever
runs statements of strangers oversees them: what each binds, and whether anybody still waits for it.
"""

from __future__ import annotations

import os
import re
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from engine.errors import TimedOut, TooLarge
from queries.sql.refusals import is_ctrl_c

LOOK_S = 0.02
"""Seconds between two looks at the memory taken."""
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?(MB|GB|TB|MiB|GiB|TiB)", re.IGNORECASE)
_UNITS = {"MB": 1, "GB": 1000, "TB": 10**6, "MIB": 1, "GIB": 1024, "TIB": 1024**2}
_STATM = Path("/proc/self/statm")
_MIB = 2**20
_DONE = 0
_STOPPING = {signal.SIGINT, signal.SIGTERM}


Plan = list[dict[str, Any]]
"""What DuckDB bound, as its EXPLAIN says it in JSON."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Oversight:
    """What is held over statements of strangers; nothing is then shared between two of them, either.

    Attributes
    ----------
    look : callable
        Sees each plan before its rows are handed out, and raises QueryRefused where it should not run.
    is_stopped : callable
        Whether the statement at work should end.
    """

    look: Callable[[Plan], None]
    is_stopped: Callable[[], bool]


class Budget:
    """Seconds of one statement, spent by all that is done for it; what its user does in between is free.

    Attributes
    ----------
    seconds : float
        What it began with.
    left : float
        What is left of them; never below 0.
    is_stopped : callable or None
        Whether it should end at once.
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
    bell = _Bell()
    is_full, is_asked = threading.Event(), threading.Event()

    def watch() -> None:
        is_looking = most is not None or budget.is_stopped is not None
        pause = LOOK_S if is_looking else budget.left
        while True:
            rung = bell.wait(pause)
            if _DONE in rung:
                return
            if _STOPPING & {*rung}:
                is_asked.set()
            if most is not None and resident_mb() > most:
                is_full.set()
            is_left = is_asked.is_set() or (budget.is_stopped is not None and budget.is_stopped())
            if is_full.is_set() or is_left or time.monotonic() >= until:
                con.interrupt()  # again, should it not have been at work
                pause = LOOK_S

    watcher = threading.Thread(target=watch, daemon=True)  # nobody waits for it at an end
    watcher.start()
    try:
        yield
    except duckdb.InterruptException:
        if is_asked.is_set():
            raise KeyboardInterrupt from None
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
        bell.ring()
        watcher.join()  # or it would stop what runs next on the connection
        bell.close()
        budget.spend(time.monotonic() - start)


class _Bell:
    """Wakes a watcher: when it is rung, and in the main thread at once when a signal comes.

    Python tells of a signal when DuckDB gives way next, which in one long scan is after many seconds. A process that
    may open no file, as those for strangers' statements, is not told: its parent ends it.
    """

    def __init__(self) -> None:
        self._rung = threading.Event()
        self._pipe: tuple[int, int] | None = None
        if threading.current_thread() is threading.main_thread():
            with suppress(OSError):
                self._pipe = os.pipe()
        if self._pipe is not None:
            os.set_blocking(self._pipe[1], False)
            self._before = signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)

    def wait(self, seconds: float) -> bytes:
        """Return what was rung: numbers of signals, or `_DONE`; nothing after so many seconds."""
        if self._pipe is None:
            return bytes([_DONE]) if self._rung.wait(seconds) else b""
        ready, _, _ = select.select([self._pipe[0]], [], [], seconds)
        return os.read(self._pipe[0], 64) if ready else b""

    def ring(self) -> None:
        """Tell the watcher that it is done."""
        self._rung.set()
        if self._pipe is not None:
            os.write(self._pipe[1], bytes([_DONE]))

    def close(self) -> None:
        """Give signals back to whoever was told of them before."""
        if self._pipe is not None:
            signal.set_wakeup_fd(self._before, warn_on_full_buffer=False)
            for end in self._pipe:
                os.close(end)


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
