"""React to SIGINT and SIGTERM at once while the main thread is inside a C library.

Python runs a signal handler only when the library returns control. DuckDB does so between two of its own steps, but
then waits for work that its other threads have started, which for one long scan takes minutes: only `interrupt` ends
it. So a thread watches the signals meanwhile.
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


class SignalWatcher:
    """A thread that calls a function when a signal arrives, and at intervals.

    It does not raise: Python's handlers do, as soon as the C call returns.

    look: Called with whether SIGINT or SIGTERM has arrived since the last call.
    every: Seconds between two calls; by default only after a signal.
    """

    def __init__(self, look: Callable[[bool], None], every: float | None = None) -> None:
        self._look, self._every = look, every
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._write_end, False)
        self._before = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._run, daemon=True)
        try:
            self._thread.start()
        except BaseException:
            self._restore()
            raise

    def _run(self) -> None:
        while True:
            ready, _, _ = select.select([self._read_end], [], [], self._every)
            received = os.read(self._read_end, 64) if ready else b""
            signals = received.replace(_DONE, b"")
            if signals and self._before >= 0:
                with suppress(OSError):
                    os.write(self._before, signals)  # pass it on to the previous listener
            if _DONE in received:
                return
            self._look(bool(_STOPPING & {*signals}))

    def close(self) -> None:
        """Stop watching; signals go to the previous listener again."""
        try:
            os.write(self._write_end, _DONE)
            self._thread.join()
        finally:  # a handler may raise meanwhile
            self._restore()

    def _restore(self) -> None:
        """Restore the previous listener; close the pipe once nobody reads it."""
        signal.set_wakeup_fd(self._before, warn_on_full_buffer=False)
        if not self._thread.is_alive():
            os.close(self._read_end)
            os.close(self._write_end)


def is_main_thread() -> bool:
    """Whether this is the thread in which signal handlers run."""
    return threading.current_thread() is threading.main_thread()


@contextmanager
def interruptible(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Let a signal to the main thread interrupt a DuckDB connection at once."""
    is_ended = False

    def look(is_asked: bool) -> None:
        nonlocal is_ended
        if is_asked and not is_ended:  # clean-up after the first signal runs to its end
            con.interrupt()
            is_ended = True

    watcher = None
    if is_main_thread():
        with suppress(OSError, RuntimeError):  # no pipe or thread available
            watcher = SignalWatcher(look)
    try:
        yield
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    finally:
        if watcher is not None:
            watcher.close()
