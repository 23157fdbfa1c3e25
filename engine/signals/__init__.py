"""Signals noticed at once, where the main thread waits for a library of C.

Takes what to do when SIGINT or SIGTERM comes, or a connection of DuckDB.
Gives contexts in which that is done, from a thread.
May import DuckDB only.

Python runs a handler when that library gives way. DuckDB does so between two of its own steps, but then waits for what
its other threads have begun, which in one long scan is minutes: only `interrupt` ends these.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import duckdb

_DONE = 0
_STOPPING = {signal.SIGINT, signal.SIGTERM}


class Bell:
    """A thread that looks after something when SIGINT or SIGTERM comes, and now and then.

    It does not raise: handlers of Python do, as soon as the call of C ends.

    Parameters
    ----------
    look : callable
        Told whether one of these signals came since the last look.
    every : float, optional
        Seconds between two looks; only after a signal by default.

    Raises
    ------
    OSError
        No pipe may be opened.
    """

    def __init__(self, look: Callable[[bool], None], every: float | None = None) -> None:
        self._look, self._every = look, every
        self._heard, self._rung = os.pipe()
        os.set_blocking(self._rung, False)
        self._before = signal.set_wakeup_fd(self._rung, warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            ready, _, _ = select.select([self._heard], [], [], self._every)
            rung = os.read(self._heard, 64) if ready else b""
            if _DONE in rung:
                return
            if rung and self._before >= 0:
                with suppress(OSError):
                    os.write(self._before, rung)  # whoever listened before hears it, too
            self._look(bool(_STOPPING & {*rung}))

    def close(self) -> None:
        """Look no more; signals go to whoever was told of them before."""
        os.write(self._rung, bytes([_DONE]))
        self._thread.join()
        signal.set_wakeup_fd(self._before, warn_on_full_buffer=False)
        os.close(self._heard)
        os.close(self._rung)


def is_main_thread() -> bool:
    """Whether this is the thread in which handlers of signals run."""
    return threading.current_thread() is threading.main_thread()


@contextmanager
def interruptible(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Let a signal to the main thread end at once what runs on a connection.

    Raises
    ------
    KeyboardInterrupt
        A statement was ended so, and no handler raised anything.
    """

    def look(is_asked: bool) -> None:
        if is_asked:
            con.interrupt()

    bell = None
    if is_main_thread():
        with suppress(OSError):
            bell = Bell(look)
    try:
        yield
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    finally:
        if bell is not None:
            bell.close()
