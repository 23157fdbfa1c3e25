"""Signals are noticed at once, by all who listen; and who listened before does so again."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import contextmanager

import duckdb
import pytest

from engine.signals import Bell, interruptible


@contextmanager
def listening():
    """An outer listener, as a loop of asyncio is: what it heard, once all is over."""
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


def test_a_signal_is_looked_at_once_and_passed_on():
    looks = []
    with listening() as heard:
        bell = Bell(looks.append)
        os.kill(os.getpid(), signal.SIGTERM)
        wait_for(lambda: looks)
        bell.close()
        assert os.read(heard, 9) == bytes([signal.SIGTERM])
    assert looks == [True]


def test_a_signal_that_comes_with_the_end_is_passed_on():
    with listening() as heard:
        bell = Bell(lambda _: None)
        os.write(bell._rung, bytes([signal.SIGTERM, 0]))
        bell.close()
        assert os.read(heard, 9) == bytes([signal.SIGTERM])


def test_it_looks_now_and_then_where_no_signal_comes():
    looks = []
    bell = Bell(looks.append, 0.01)
    wait_for(lambda: len(looks) > 3)
    bell.close()
    assert set(looks) == {False}
    n_threads = threading.active_count()
    assert bell._thread.is_alive() is False
    assert threading.active_count() == n_threads


def test_who_listened_before_does_so_again_where_no_thread_can_be_had(monkeypatch):
    def none(_):
        raise RuntimeError("can't start new thread")

    with listening():
        monkeypatch.setattr(threading.Thread, "start", none)
        with pytest.raises(RuntimeError):
            Bell(lambda _: None)
        with interruptible(duckdb.connect()):
            pass


def test_only_the_first_signal_ends_what_runs():
    """What cleans up after it is not disturbed."""

    class Connection:
        ended = 0

        def interrupt(self):
            self.ended += 1

    con = Connection()
    with listening() as heard, interruptible(con):
        for n in (1, 2):
            os.kill(os.getpid(), signal.SIGTERM)
            told = b""

            def all_told() -> bool:
                nonlocal told
                try:
                    told += os.read(heard, 9)
                except BlockingIOError:
                    return False
                return True

            wait_for(all_told)
            assert n
    assert con.ended == 1


def test_a_statement_that_was_ended_is_a_keyboard_interrupt():
    with pytest.raises(KeyboardInterrupt), interruptible(duckdb.connect()):
        raise duckdb.InterruptException("Interrupted!")
