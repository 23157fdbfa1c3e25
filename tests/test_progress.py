"""The time left, from the speed so far and the cost of the steps; with scripted clocks."""

from __future__ import annotations

import pytest

from engine.progress import TimeLeft, work_of_build

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
