"""The time left: by the speed so far and what the steps cost; with clocks that are scripted."""

from __future__ import annotations

import pytest

from engine.progress import ANY_SIZE, READ, TABLE, TimeLeft, work_of_build

SIZES = {"age": 106, "sex": 2, "income": 0}
TABLES = [(), ("age",), ("sex",), ("income",), ("age", "sex"), ("age", "income")]


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def run(work: dict[str, list[float]], speed: float, *, skipped: bool = False):
    """Go through all steps of a build on a machine of some speed; the times left that were told, with the true ones."""
    clock, said = Clock(), []
    progress = TimeLeft(lambda *what: said.append((clock.now, *what)), clock)
    progress.expect(work)
    if skipped:
        progress.report("taking up", 0, 1)
        progress.expect(work)  # once more, as when more is known
    for stage, steps in work.items():
        if skipped and stage in READ:
            continue
        for done, seconds in enumerate(steps):
            progress.report(stage, done, len(steps))
            clock.now += seconds / speed
        progress.report(stage, len(steps), len(steps))
    return [(at, left, clock.now - at) for at, stage, left, _ in said if stage == "left"], clock.now


@pytest.mark.parametrize("speed", [0.03, 0.5])
@pytest.mark.parametrize("skipped", [False, True])
def test_a_machine_of_one_speed_is_told_right(speed, skipped):
    told, whole = run(work_of_build(2e7, SIZES, 1, TABLES), speed, skipped=skipped)
    assert len(told) >= 8
    for at, left, true in told:
        assert left == pytest.approx(true, abs=1), at
    assert told[0][0] <= 0.1 * whole


def test_nothing_is_told_before_anything_is_known():
    said = []
    progress = TimeLeft(lambda *what: said.append(what), Clock())
    progress.report("reading", 0, 1)
    progress.expect(work_of_build(0, SIZES, 1, TABLES))
    progress.report("reading", 1, 3)
    progress.report("columns", 1, 3)
    assert said == [("reading", 0, 1), ("reading", 1, 3), ("columns", 1, 3)]


def test_what_is_learnt_on_the_way_moves_the_end():
    """Tables turn out to be ten times as large as was thought."""
    clock, said = Clock(), []
    progress = TimeLeft(lambda *what: said.append(what), clock)
    progress.expect({"reading": [1.0, 1.0], "tables": [2.0]})
    clock.now = 10.0
    progress.report("reading", 2, 2)
    progress.expect({"reading": [1.0, 1.0], "tables": [20.0]})
    progress.report("tables", 0, 1)
    assert [what[1:] for what in said if what[0] == "left"] == [(10, 20), (100, 110)]


def test_cells_are_bounded_by_columns_and_by_rows():
    def last(rows, sizes, tables):
        return work_of_build(rows, sizes, 0, tables)["tables"][-1]

    few, many = {"a": 3, "b": 5}, {"a": 0, "b": 0}
    assert last(1e6, few, [("a", "b")]) < last(1e6, few | {"c": 7}, [("a", "b", "c")])
    assert last(1e6, many, [("a",)]) == last(1e6, {"a": ANY_SIZE}, [("a",)])
    per_row = [(last(rows, many, [("a", "b")]) - TABLE) / rows for rows in (1e5, 1e6)]
    assert per_row[0] == pytest.approx(per_row[1])  # more combinations than rows can fill
