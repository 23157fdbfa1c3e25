"""Progress of long jobs (builds, evaluations, comparisons, packs), and the time that a build still needs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

Progress = Callable[[str, int, int], None]
"""Called with the stage, the work done and the total. Stage "left": seconds remaining, and seconds in all."""
EARLIEST = 0.02
"""Share of the work below which the speed is not known yet."""
# Seconds of two cores per million rows, measured on builds of 0.1 to 100 million (`./scripts/bench scale`); only their
# ratios matter.
LIST, CODE, TOKEN, DIGEST, PAIRS = 0.03, 0.036, 1.65, 0.029, 0.55
FIRST_LOOK = 0.4
"""To find functional dependencies, however few rows there are."""
LOOK = 0.06
"""To count the cells of a table that is not summed from others."""
CELL, TABLE = 1.0, 0.02
"""To fit, round and store: per million cells, and per table."""
A_CELL_HOLDS = 20
"""Rows per released cell, if far more cells are possible."""
ANY_SIZE = 10_000
"""Values assumed for a column whose number of values is unknown."""


def silent(_stage: str, _done: int, _total: int) -> None:
    """Report nothing."""


def stages_only(report: Progress) -> Progress:
    """Report each stage once, as it begins: how many steps it has, and how long they are, depends on the rows."""
    seen = set[str]()

    def begun(stage: str, _done: int, _total: int) -> None:
        if stage not in seen:
            seen.add(stage)
            report(stage, 0, 0)

    return begun


def work_of_build(
    n_rows: float,
    sizes: Mapping[str, int],
    lists: int,
    tables: Sequence[Sequence[str]],
    looks: Sequence[bool],
) -> dict[str, list[float]]:
    """What the steps of a build cost, by stage in order.

    sizes: Number of values of each column; 0: unknown.
    looks: Which tables are counted from the rows; the others are summed from finer cells.
    """
    millions, n = n_rows / 1e6, len(sizes)
    could_be = [
        math.prod(((sizes.get(name) or ANY_SIZE) for name in columns), start=1.0)
        for columns in tables
    ]
    # A table with many uneven cells releases a number between these two bounds.
    cells = [min(n, math.sqrt(n * n_rows / A_CELL_HOLDS), n_rows) / 1e6 for n in could_be]
    return {
        "reading": [LIST * millions] * (lists + 1) + [CODE * n * millions],
        "tokens": [TOKEN * millions / 100] * 100,
        "digests": [DIGEST * n * millions],
        "pairs": [FIRST_LOOK + PAIRS * millions],
        "tables": [
            TABLE + LOOK * is_look * millions + CELL * of_table
            for of_table, is_look in zip(cells, looks, strict=True)
        ],
    }


class TimeLeft:
    """Passes progress on, and estimates the time left after each report.

    The rest of the current stage is estimated at the pace of that stage, weighted by how much of it is done; everything
    else at the overall pace.
    """

    def __init__(self, report: Progress, clock: Callable[[], float] = time.monotonic) -> None:
        self._report, self._clock, self._start = report, clock, clock()
        self._work: dict[str, list[float]] = {}
        self._stage, self._since = "", 0.0

    def expect(self, work: Mapping[str, Sequence[float]]) -> None:
        """Expect this work from now on: cost of each step, by stage in order."""
        self._work = {stage: list(accumulate(steps, initial=0.0)) for stage, steps in work.items()}

    def report(self, stage: str, done: int, total: int, begun: int | None = None) -> None:
        """Report a finished step; of a stage with overlapping steps also how many have begun, which count half."""
        self._report(stage, done, total)
        if stage not in self._work:
            return
        passed = self._clock() - self._start
        if stage != self._stage:
            self._stage, self._since = stage, passed
        steps = self._work[stage]
        inside = (_after(steps, done, total) + _after(steps, begun or done, total)) / 2
        left = self._left(steps[-1], inside, passed)
        if left is not None:
            self._report("left", round(left), round(passed + left))

    def _left(self, whole: float, inside: float, passed: float) -> float | None:
        """Seconds left, given the work done of the current stage; None: too early to say."""
        ends = [steps[-1] for steps in self._work.values()]
        before = sum(ends[: list(self._work).index(self._stage)])
        if before + inside < EARLIEST * sum(ends) or not passed:
            return None
        pace = own = passed / (before + inside)
        if inside:
            own = (passed - self._since) / inside
        share = inside / whole if whole else 0.0
        in_stage = share * own + (1 - share) * pace
        return in_stage * (whole - inside) + pace * (sum(ends) - before - whole)


def _after(steps: Sequence[float], done: int, total: int) -> float:
    """Work of the first `done` steps of `total`."""
    return steps[round(min(done / total, 1.0) * (len(steps) - 1))] if total else 0.0
