"""The time left, from the speed so far and the cost of the steps; with scripted clocks."""

from __future__ import annotations

import pytest

from engine.progress import ANY_SIZE, CELL, LOOK, TABLE, TimeLeft, work_of_build

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


def test_new_information_changes_the_estimate():
    """Tables turn out to be ten times as large as expected."""
    clock, got = Clock(), []
    progress = TimeLeft(lambda *what: got.append(what), clock)
    progress.expect({"reading": [1.0, 1.0], "tables": [2.0]})
    clock.now = 10.0
    progress.report("reading", 2, 2)
    progress.expect({"reading": [1.0, 1.0], "tables": [20.0]})
    progress.report("tables", 0, 1)
    assert [what[1:] for what in got if what[0] == "left"] == [(10, 20), (100, 110)]


def test_cells_are_bounded_by_columns_and_by_rows():
    def last(rows, sizes, tables, look=True):
        return work_of_build(rows, sizes, 0, tables, [look])["tables"][-1]

    few, many = {"a": 3, "b": 5}, {"a": 0, "b": 0}
    assert last(1e6, few, [("a", "b")]) < last(1e6, few | {"c": 7}, [("a", "b", "c")])
    assert last(1e6, many, [("a",)]) == last(1e6, {"a": ANY_SIZE}, [("a",)])
    some = {"a": 1000, "b": 1000}
    few_rows, more_rows = (last(rows, some, [("a", "b")], False) - TABLE for rows in (1e5, 1e6))
    assert few_rows < more_rows < 10 * few_rows  # more combinations than rows can fill
    assert last(1e6, few, [("a", "b")]) == pytest.approx(TABLE + LOOK + CELL * 15e-6)
    summed = last(1e6, few, [("a", "b")], False)
    assert summed == pytest.approx(TABLE + CELL * 15e-6)
    # Rows bound it too, however much the columns could hold together.
    many = {f"c{i}": 10**7 for i in range(64)}
    assert last(1e6, many, [tuple(many)]) == pytest.approx(TABLE + LOOK + CELL)


def test_a_stage_is_weighted_by_its_own_pace_as_it_proceeds():
    """The second stage takes three times as long as expected, which shows only gradually."""
    clock, got = Clock(), []
    progress = TimeLeft(lambda *what: got.append(what), clock)
    progress.expect({"reading": [4.0], "tables": [1.0] * 4, "pairs": [2.0]})
    clock.now = 4.0
    progress.report("reading", 1, 1)
    progress.report("tables", 0, 4)
    for done in (1, 2, 3, 4):
        clock.now += 3.0
        progress.report("tables", done, 4)
    lefts = [what[1] for what in got if what[0] == "left"]
    pace = [(4 + 3 * done) / (4 + done) for done in range(5)]
    in_stage = [(3 * done + pace[done] * (4 - done)) / 4 * (4 - done) for done in range(5)]
    assert lefts[1:] == [round(of + 2 * p) for of, p in zip(in_stage, pace, strict=True)]


def test_steps_that_have_begun_count_half():
    clock, got = Clock(), []
    progress = TimeLeft(lambda *what: got.append(what), clock)
    progress.expect({"tables": [1.0] * 10})
    progress.report("tables", 0, 10)
    clock.now = 30.0
    progress.report("tables", 2, 10, begun=4)
    assert got[1:] == [("tables", 2, 10), ("left", 70, 100)]
