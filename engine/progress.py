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
# Processor seconds a million rows, as measured on builds of 1 to 10 million rows (`./scripts/bench scale`); only their
# ratios count.
LIST, CODE, TOKEN, DIGEST, PAIRS, COUNT = 0.06, 0.12, 4.0, 0.065, 1.1, 0.035
CELL, TABLE = 28.0, 0.03
"""Processor seconds to fit, round and store: a million cells; a table, however small."""
A_CELL_HOLDS = 15
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
) -> dict[str, list[float]]:
    """What the steps of a build cost, in the order of its stages.

    Parameters
    ----------
    n_rows : float
        About.
    sizes : mapping of str to int
        Values of each column; 0: not known.
    lists : int
        Columns whose values are listed before rows are coded.
    tables : sequence of sequence of str
        In the order in which they are measured.

    Returns
    -------
    dict of str to list of float
        By stage, of each of its steps.
    """
    millions, n = n_rows / 1e6, len(sizes)
    cells = [
        min(math.prod((sizes.get(name) or ANY_SIZE) for name in columns), n_rows / A_CELL_HOLDS)
        / 1e6
        for columns in tables
    ]
    return {
        "reading": [LIST * millions] * (lists + 1) + [CODE * n * millions],
        "tokens": [TOKEN * millions / 100] * 100,
        "digests": [DIGEST * n * millions],
        "pairs": [PAIRS * millions],
        "tables": [TABLE + COUNT * millions + CELL * of_table for of_table in cells],
    }


class TimeLeft:
    """Passes reports on, and says after each how long it will take still: by the speed so far.

    Parameters
    ----------
    report : Progress
    clock : callable
        Seconds.
    """

    def __init__(self, report: Progress, clock: Callable[[], float] = time.monotonic) -> None:
        self._report, self._clock, self._start = report, clock, clock()
        self._work: dict[str, list[float]] = {}
        self._at: tuple[str, float] | None = None
        self._skipped: frozenset[str] = frozenset()

    def expect(self, work: Mapping[str, Sequence[float]]) -> None:
        """Reckon with this work from now on: by stage, in their order, of each step."""
        self._work = {
            stage: list(accumulate(steps, initial=0.0))
            for stage, steps in work.items()
            if stage not in self._skipped
        }

    def report(self, stage: str, done: int, total: int) -> None:
        """A step was done."""
        self._report(stage, done, total)
        if stage == "taking up":
            self._skipped = READ
            self._work = {s: steps for s, steps in self._work.items() if s not in READ}
        if stage not in self._work:
            return
        self._at = (stage, done / total if total else 0.0)
        passed = self._clock() - self._start
        share = self.share()
        if share >= EARLIEST:
            whole = passed / share
            self._report("left", round(whole - passed), round(whole))

    def share(self) -> float:
        """Share of the work that is done."""
        done = 0.0
        for stage, steps in self._work.items():
            if self._at is not None and stage == self._at[0]:
                done += steps[round(self._at[1] * (len(steps) - 1))]
                break
            done += steps[-1]
        whole = sum(steps[-1] for steps in self._work.values())
        return done / whole if whole else 0.0
