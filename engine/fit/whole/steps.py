"""Rounds of moves, in numpy or compiled, the same bit for bit.

Takes the cells whose units move, and what moves are judged by; moves them. Compiled, the sums of all margins lie in
one array behind another, which the margins then share.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from engine.fit.compiled.loops import SUMS, WALKING, compiled
from engine.fit.whole import sums as told
from engine.fit.whole import walks
from engine.fit.whole.sums import Moving, Sums
from engine.fit.whole.walks import CellIndex, Judged, Moves
from engine.schema import Int64Array

ROUNDS, LAST_ROUNDS, EXCHANGES_FROM = 400, 8, 12
"""Most rounds; most rounds for columns and boxes at the end; the first round that may exchange."""
PROGRESS = 85
"""Rounds have helped once the penalty is at most so many hundredths of what it was."""
PATIENCE, LEAST_PATIENCE, WORK = 10, 6, 1 << 18
"""Rounds that may go by without: in small tables, in large ones, and in between so many as look at WORK cells."""


class Steps:
    """Rounds in numpy.

    asked: The margins that moves are to meet.
    """

    def __init__(self, moving: Moving) -> None:
        self.moving, self.asked = moving, moving.asked
        self._index: CellIndex | None = None
        self._patience = min(max(WORK // len(moving.n), LEAST_PATIENCE), PATIENCE)

    @property
    def index(self) -> CellIndex:
        """Where the codes of each fibre are; made once it is asked for."""
        self._index = self._index or CellIndex(self.moving)
        return self._index

    def go_on(self, judged: Judged, most: int, number: int) -> tuple[int, int]:
        """Make rounds for one margin after the other, as long as it helps; what came after the best one is undone.

        Returns: Of the next round; the penalty of the margins that are asked for, where it ends.
        """
        mark = least = self.penalty()
        made: list[Moves] = []
        idle = 0
        for _ in range(ROUNDS):
            if not least or idle > self._patience:
                break
            moves = self._round(judged, most, number)
            number += 1
            self.moving.move(*moves)
            made.append(moves)
            penalty = self.penalty()
            if penalty < least:
                least, made = penalty, []
            idle += 1
            if 100 * penalty < PROGRESS * mark:
                mark, idle = penalty, 0
        for source, target in made:
            self.moving.move(target, source)
        return number, least

    def until_idle(self, asked: Sums, judged: Judged, most: int) -> None:
        """Single moves for one margin until a round finds none."""
        for number in range(LAST_ROUNDS):
            source, target = walks.single_moves(self.moving, asked, judged, most, number)
            if not len(source):
                return
            self.moving.move(source, target)

    def penalty(self) -> int:
        """What the margins that are asked for cost together."""
        return sum(margin.penalty() for margin in self.asked)

    def _round(self, judged: Judged, most: int, number: int) -> Moves:
        """Moves for one margin: single ones, and every second time exchanges."""
        asked = self.asked
        turn, at = divmod(number, len(asked))
        if len(asked) == 1 or number < EXCHANGES_FROM or turn % 2 == 0:
            return walks.single_moves(self.moving, asked[at], judged, most, number)
        kept = asked[(at + 1 + turn // 2 % (len(asked) - 1)) % len(asked)]
        return walks.exchanges(self.moving, asked[at], kept, judged, self.index, most, number)


class CompiledSteps(Steps):
    """The same rounds by compiled loops."""

    def __init__(self, moving: Moving, sums: SimpleNamespace, walking: SimpleNamespace) -> None:
        super().__init__(moving)
        margins = moving.margins
        self._walking = walking
        self._number = {id(margin): i for i, margin in enumerate(margins)}
        of = np.stack([margin.of for margin in margins])
        base = np.cumsum([0, *(len(margin) for margin in margins)])
        off, kind = told.shared(margins)
        fitted = np.zeros_like(off)
        fitted[base[-2] :] = moving.boxes.fitted
        self._sums = of, base, *sums.by_part(of, base), off, kind, fitted, told.STEPS, _LIMITS

    def go_on(self, judged: Judged, most: int, number: int) -> tuple[int, int]:
        """See `Steps.go_on`."""
        if not self.penalty():
            return number, 0
        none = np.empty(0, dtype=np.int64)
        index: tuple[Any, ...] = none, none, 0
        if len(self.asked) > 1:  # else nothing is exchanged
            index = self.index.key, self.index.order, self.index.width
        moving = self.moving
        number, least = self._walking.go_on(
            self._numbers(self.asked), *self._judged(judged), most, number, self._patience, moving.n, moving.x,
            moving.fibre, moving.heads, moving.lot, moving.one_way.of, *index, *self._sums,
        )  # fmt: skip
        return number, least

    def until_idle(self, asked: Sums, judged: Judged, most: int) -> None:
        """See `Steps.until_idle`."""
        moving = self.moving
        self._walking.until_idle(
            self._number[id(asked)], *self._judged(judged), most, moving.n, moving.x, moving.fibre, moving.lot,
            *self._sums,
        )  # fmt: skip

    def _judged(self, judged: Judged) -> tuple[Int64Array, Int64Array]:
        """Numbers of the margins that judge, and their weights."""
        return self._numbers([margin for margin, _ in judged]), np.array(
            [weight for _, weight in judged], dtype=np.int64
        )

    def _numbers(self, margins: Sequence[Sums]) -> Int64Array:
        """The places of margins behind one another."""
        return np.array([self._number[id(margin)] for margin in margins], dtype=np.int64)


_LIMITS = np.array([
    walks.MOST, walks.NEAR, told.SLOTS, walks.MIDDLE, told.REACH, told.ODD, told.PARTS_OF_UNIT, told.MOST_COST,
    told.LOOSE, told.BEYOND, ROUNDS, EXCHANGES_FROM, PROGRESS, LAST_ROUNDS,
])  # fmt: skip
"""Constants in the order in which the compiled loops count them."""


def steps_of(moving: Moving) -> Steps:
    """Return compiled steps where they are at hand, those of numpy otherwise."""
    sums, walking = (compiled(module) for module in (SUMS, WALKING))
    if sums is None or walking is None:
        return Steps(moving)
    return CompiledSteps(moving, sums, walking)
