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

_DONE = b"\0"
_STOPPING = {signal.SIGINT, signal.SIGTERM}


class Bell:
    """A thread that looks after something when SIGINT or SIGTERM comes, and now and then.

    It does not raise: handlers of Python do, as soon as the call of C ends.

    look: Told whether one of these signals came since the last look.
    every: Seconds between two looks; only after a signal by default.
    """

    def __init__(self, look: Callable[[bool], None], every: float | None = None) -> None:
        self._look, self._every = look, every
        self._heard, self._rung = os.pipe()
        os.set_blocking(self._rung, False)
        self._before = signal.set_wakeup_fd(self._rung, warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._run, daemon=True)
        try:
            self._thread.start()
        except BaseException:
            self._let_go()
            raise

    def _run(self) -> None:
        while True:
            ready, _, _ = select.select([self._heard], [], [], self._every)
            rung = os.read(self._heard, 64) if ready else b""
            signals = rung.replace(_DONE, b"")
            if signals and self._before >= 0:
                with suppress(OSError):
                    os.write(self._before, signals)  # whoever listened before hears it, too
            if _DONE in rung:
                return
            self._look(bool(_STOPPING & {*signals}))

    def close(self) -> None:
        """Look no more; signals go to whoever was told of them before."""
        try:
            os.write(self._rung, _DONE)
            self._thread.join()
        finally:  # a handler may raise meanwhile
            self._let_go()

    def _let_go(self) -> None:
        """Whoever listened before does so again; the pipe is closed once nobody reads it."""
        signal.set_wakeup_fd(self._before, warn_on_full_buffer=False)
        if not self._thread.is_alive():
            os.close(self._heard)
            os.close(self._rung)


def is_main_thread() -> bool:
    """Whether this is the thread in which handlers of signals run."""
    return threading.current_thread() is threading.main_thread()


@contextmanager
def interruptible(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Let a signal to the main thread end at once what runs on a connection."""
    is_ended = False

    def look(is_asked: bool) -> None:
        nonlocal is_ended
        if is_asked and not is_ended:  # what cleans up after the first signal runs to its end
            con.interrupt()
            is_ended = True

    bell = None
    if is_main_thread():
        with suppress(OSError, RuntimeError):  # no pipe, or no thread, may be had
            bell = Bell(look)
    try:
        yield
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    finally:
        if bell is not None:
            bell.close()
