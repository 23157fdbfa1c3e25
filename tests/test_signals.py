"""Signals are noticed at once by all listeners."""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager

import duckdb
import pytest

from engine.signals import SignalWatcher, interruptible


@contextmanager
def listening():
    """An outer listener, such as an asyncio loop; yields the pipe in which it receives signals."""
    heard, rung = os.pipe()
    os.set_blocking(heard, False)
    os.set_blocking(rung, False)
    handler = signal.signal(signal.SIGTERM, lambda *_: None)
    before = signal.set_wakeup_fd(rung)
    try:
        yield heard
    finally:
        assert signal.set_wakeup_fd(before) == rung
        signal.signal(signal.SIGTERM, handler)
        os.close(heard)
        os.close(rung)


def wait_for(condition) -> None:
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_signal_is_noticed_once_and_passed_on():
    looks = []
    with listening() as heard:
        bell = SignalWatcher(looks.append)
        os.kill(os.getpid(), signal.SIGTERM)
        wait_for(lambda: looks)
        bell.close()
        assert os.read(heard, 9) == bytes([signal.SIGTERM])
    assert looks == [True]


def test_only_the_first_signal_interrupts():
    """Clean-up after it is not disturbed."""

    class Connection:
        ended = 0

        def interrupt(self):
            self.ended += 1

    con = Connection()
    with listening() as heard, interruptible(con):
        for _ in (1, 2):
            os.kill(os.getpid(), signal.SIGTERM)
            received = b""

            def arrived() -> bool:
                nonlocal received
                try:
                    received += os.read(heard, 9)
                except BlockingIOError:
                    return False
                return True

            wait_for(arrived)
    assert con.ended == 1


def test_an_interrupted_statement_raises_keyboard_interrupt():
    with pytest.raises(KeyboardInterrupt), interruptible(duckdb.connect()):
        raise duckdb.InterruptException("Interrupted!")
