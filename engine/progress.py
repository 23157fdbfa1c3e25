"""How long jobs report progress: builds, evaluations, comparisons, packs; and how long a build will take still."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

Progress = Callable[[str, int, int], None]
"""Called with the stage, and how much of how much is done. Stage "left": seconds still to go, of all seconds."""
READ = frozenset(("reading", "tokens"))
"""Stages that a build does not go through which goes on from an encoded source."""
EARLIEST = 0.02
"""Less than this share of the work says nothing of the speed."""
# Seconds that two cores take for a million rows, as measured on builds of 0.1 to 100 million (`./scripts/bench scale`);
# only their ratios count.
LIST, CODE, TOKEN, DIGEST, PAIRS = 0.03, 0.036, 1.65, 0.029, 0.55
FIRST_LOOK = 0.4
"""To find columns that determine each other, of however few rows."""
LOOK = 0.06
"""To count the cells of a table, of which others may be summed."""
CELL, TABLE = 1.0, 0.02
"""To fit, round and store: a million cells; a table, however small."""
A_CELL_HOLDS = 20
"""Rows, of cells that are released where there could be far more."""
ANY_SIZE = 10_000
"""Values of a column that does not say how many it has."""


def silent(_stage: str, _done: int, _total: int) -> None:
    """Report nothing."""


def work_of_build(
    n_rows: float,
    sizes: Mapping[str, int],
    lists: int,
    tables: Sequence[Sequence[str]],
    looks: Sequence[bool],
) -> dict[str, list[float]]:
    """What the steps of a build cost, in the order of its stages.

    sizes: Values of each column; 0: not known.
    looks: For which of them the rows are looked at; all others are summed from finer cells.
    """
    millions, n = n_rows / 1e6, len(sizes)
    could_be = [
        math.prod(((sizes.get(name) or ANY_SIZE) for name in columns), start=1.0)
        for columns in tables
    ]
    # Between the two bounds lies what is released of a table whose cells are many and uneven.
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
    """Passes reports on, and says after each how long it will take still.

    What is left of a stage is reckoned by the pace of that stage, the more of it is done the more so; all else by the
    pace so far.
    """

    def __init__(self, report: Progress, clock: Callable[[], float] = time.monotonic) -> None:
        self._report, self._clock, self._start = report, clock, clock()
        self._work: dict[str, list[float]] = {}
        self._skipped: frozenset[str] = frozenset()
        self._stage, self._since = "", 0.0

    def expect(self, work: Mapping[str, Sequence[float]]) -> None:
        """Reckon with this work from now on: by stage, in their order, of each step."""
        self._work = {
            stage: list(accumulate(steps, initial=0.0))
            for stage, steps in work.items()
            if stage not in self._skipped
        }

    def report(self, stage: str, done: int, total: int, begun: int | None = None) -> None:
        """A step was done; of a stage whose steps overlap also how many are begun, which are half done."""
        self._report(stage, done, total)
        if stage == "taking up":
            self._skipped = READ
            self._work = {s: steps for s, steps in self._work.items() if s not in READ}
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
        """Seconds to go, where so much of the work of the stage under way is done; None: too early to tell."""
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
    """Work of the first steps, of so many in all."""
    return steps[round(min(done / total, 1.0) * (len(steps) - 1))] if total else 0.0
