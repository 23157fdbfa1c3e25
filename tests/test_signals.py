"""Signals are noticed at once by all listeners; the time left, from the speed so far."""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager

import duckdb
import pytest

from engine.progress import TimeLeft, work_of_build
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


SIZES = {"age": 106, "sex": 2, "income": 0}
TABLES = [(), ("age",), ("sex",), ("income",), ("age", "sex"), ("age", "income")]
LOOKS = [False] * 4 + [True] * 2


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def run(work: dict[str, list[float]], speed: float):
    """Run all steps of a build on a machine of some speed; reported and true times left."""
    clock, got = Clock(), []
    progress = TimeLeft(lambda *what: got.append((clock.now, *what)), clock)
    progress.expect(work)
    for stage, steps in work.items():
        for done, seconds in enumerate(steps):
            progress.report(stage, done, len(steps))
            clock.now += seconds / speed
        progress.report(stage, len(steps), len(steps))
    return [(at, left, clock.now - at) for at, stage, left, _ in got if stage == "left"], clock.now


@pytest.mark.parametrize("speed", [0.03, 0.5])
def test_at_constant_speed_the_estimate_is_right(speed):
    reported, whole = run(work_of_build(2e6, SIZES, 1, TABLES, LOOKS), speed)
    assert len(reported) >= 8
    for at, left, true in reported:
        assert left == pytest.approx(true, abs=1), at
    assert reported[0][0] <= 0.1 * whole


def test_there_is_no_estimate_before_anything_is_known():
    got = []
    progress = TimeLeft(lambda *what: got.append(what), Clock())
    progress.report("reading", 0, 1)
    progress.expect(work_of_build(0, SIZES, 1, TABLES, LOOKS))
    progress.report("reading", 1, 3)
    progress.report("columns", 1, 3)
    assert got == [("reading", 0, 1), ("reading", 1, 3), ("columns", 1, 3)]
