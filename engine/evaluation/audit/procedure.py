"""The procedure of an audit (Houssiau et al., section 3.3.1), on one screen.

Random direction -> extremal data -> K synthetic data sets of each -> the direction in which they differ most ->
extremal data along it -> K fresh ones of each -> two-sided t-test. For each of several random directions alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from engine.errors import SpecError
from engine.evaluation.audit.directions import Direction, Subspace, subspace_of
from engine.evaluation.audit.domain import Cells
from engine.evaluation.audit.extremal import (
    Extremal,
    Start,
    candidates_of,
    extremal_data,
    start_of,
)
from engine.evaluation.audit.generators import Generator
from engine.evaluation.audit.result import Audit, DirectionTest, holm, two_sample
from engine.evaluation.audit.safe import SafeStatistics
from engine.progress import Progress, silent
from engine.schema import Int64Array

Draw = Callable[[Cells], Cells]
SPANNED = "the safe margins say all there is to say of these columns"
NO_ROOM = "no other data has these safe margins, in whole rows and without new combinations"
MOST_RUNS, MOST_DIRECTIONS = 1_000, 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """How an audit is made.

    runs: K: runs of each extremal data set, to choose a direction and again to test it.
    seed: Fixes what the audit draws; not what a generator draws by itself.
    """

    runs: int = 10
    directions: int = 1
    rows: int = 10_000
    least: int = 1
    level: float = 0.01
    seed: int = 2021

    def __post_init__(self) -> None:
        problems = []
        if not 2 <= self.runs <= MOST_RUNS:
            problems.append(f"runs: wants 2 to {MOST_RUNS:,}, not {self.runs}")
        if not 1 <= self.directions <= MOST_DIRECTIONS:
            problems.append(f"directions: wants 1 to {MOST_DIRECTIONS}, not {self.directions}")
        if not 0 < self.level < 1:
            problems.append("level: wants a probability above 0 and below 1")
        if self.rows < 1:
            problems.append("rows: wants at least 1")
        if problems:
            raise SpecError(problems)


def run_audit(
    codes: Int64Array,
    safe: SafeStatistics,
    generator: Generator,
    settings: Settings,
    *,
    title: str = "",
    notes: tuple[str, ...] = (),
    progress: Progress | None = None,
) -> Audit:
    """Audit a generator."""
    begun = time.perf_counter()
    found = Audit(
        title=title,
        generator=generator.words,
        columns=dict(zip(safe.domain.names, safe.domain.sizes, strict=True)),
        margins=safe.margins,
        dimension=safe.dimension(),
        looked_at=0,
        rows=0,
        left_out=0.0,
        runs=settings.runs,
        level=settings.level,
        seed=settings.seed,
        tests=(),
        why_nothing=SPANNED,
        notes=notes,
    )
    if not found.dimension:
        return found
    rng = np.random.default_rng(settings.seed)
    start = start_of(codes, safe, rows=settings.rows, least=settings.least, rng=rng)
    space = subspace_of(safe, rng)
    lot = _Lot(generator, rng, settings, progress or silent)
    tests = []
    rows = 0
    for _ in range(settings.directions):
        test = _one_test(start, safe, space, lot)
        if test is None:
            found = replace(found, why_nothing=NO_ROOM)
            continue
        tests.append(test[0])
        rows = max(rows, int(test[1].plus.n.sum()))
    corrected = holm([test.p for test in tests])
    return replace(
        found,
        looked_at=space.dimension,
        rows=rows,
        left_out=start.left_out,
        tests=tuple(replace(t, p_holm=p) for t, p in zip(tests, corrected, strict=True)),
        why_nothing="" if tests else found.why_nothing,
        notes=(*notes, *_notes(start, tests, settings)),
        seconds=time.perf_counter() - begun,
    )


class _Lot:
    """Runs the generator, and says how far it is."""

    def __init__(
        self,
        generator: Generator,
        rng: np.random.Generator,
        settings: Settings,
        report: Progress,
    ) -> None:
        self.rng, self.settings = rng, settings
        self._generator, self._report = generator, report
        self._done, self._of = 0, 4 * settings.runs * settings.directions

    def draw(self, ends: Extremal) -> tuple[list[Cells], list[Cells]]:
        """Make as many synthetic data sets of each of two, in turns."""
        out: tuple[list[Cells], list[Cells]] = ([], [])
        for _ in range(self.settings.runs):
            for lot, data in zip(out, (ends.plus, ends.minus), strict=True):
                self._report("running the generator", self._done, self._of)
                lot.append(self._generator.draw(data, self.rng))
                self._done += 1
        return out


def _one_test(
    start: Start, safe: SafeStatistics, space: Subspace, lot: _Lot
) -> tuple[DirectionTest, Extremal] | None:
    """Steps (i) to (vi) for one random direction; None: the margins leave no room."""
    candidates = candidates_of(start, safe, lot.rng)
    first = space.random(lot.rng)
    ends = extremal_data(start, safe, first, candidates)
    if ends is None:
        return None
    critical = space.critical(*lot.draw(ends)) or first
    again = extremal_data(start, safe, critical, candidates)
    if again is None:  # the runs differ where data cannot: look along the random direction
        critical, again = first, ends
    plus, minus = lot.draw(again)
    return _test_of(critical, again, plus, minus, lot.settings), again


def _test_of(
    direction: Direction, ends: Extremal, plus: list[Cells], minus: list[Cells], settings: Settings
) -> DirectionTest:
    """The t-test of fresh runs."""
    return two_sample(
        [direction.mean(cells) for cells in plus],
        [direction.mean(cells) for cells in minus],
        (direction.mean(ends.plus), direction.mean(ends.minus)),
        level=settings.level,
        put_back=ends.put_back,
        smallest=ends.smallest,
    )


def _notes(start: Start, tests: list[DirectionTest], settings: Settings) -> tuple[str, ...]:
    """What a reader must know of how the data sets were made."""
    notes = []
    if start.left_out:
        notes.append(
            f"{100 * start.left_out:.2g} % of the rows lie in safe counts of too few, and were left out: suppression "
            "depends on who they are, which no margin tells."
        )
    smallest = min((test.smallest for test in tests), default=settings.least)
    if smallest < settings.least:
        notes.append(f"The smallest safe count is {smallest}, where {settings.least} were wanted.")
    if tests and all(test.t is None for test in tests):
        notes.append("All runs of the same data gave the same: the generator draws nothing anew.")
    return tuple(notes)
