"""Steps of a walk: moves found and booked, in numpy or compiled, the same bit for bit.

Takes the cells whose units move; gives rounds of moves to `engine.fit.whole.rounding`. Compiled, the sums of all
margins lie in one array behind another, which the margins then share.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np

from engine.fit.compiled.loops import PAIRS, SINGLE, SUMS, compiled
from engine.fit.whole import sums as told
from engine.fit.whole import walks
from engine.fit.whole.sums import Moving, Sums
from engine.fit.whole.walks import CellIndex, Judged, Moves
from engine.schema import Int64Array


class Steps:
    """Rounds in numpy.

    Parameters
    ----------
    moving : Moving
        Changed in place.
    """

    def __init__(self, moving: Moving) -> None:
        self.moving = moving
        self._index: CellIndex | None = None

    @property
    def index(self) -> CellIndex:
        """Where the codes of each fibre are; made once it is asked for."""
        self._index = self._index or CellIndex(self.moving)
        return self._index

    def single(self, asked: Sums, judged: Judged, most: int, number: int) -> Moves:
        """See `walks.single_moves`."""
        return walks.single_moves(self.moving, asked, judged, most, number)

    def paired(self, asked: Sums, kept: Sums, judged: Judged, most: int, number: int) -> Moves:
        """See `walks.exchanges`."""
        return walks.exchanges(self.moving, asked, kept, judged, self.index, most, number)

    def move(self, source: Int64Array, target: Int64Array) -> None:
        """Book one unit a move."""
        self.moving.move(source, target)

    def penalty(self, margins: tuple[Sums, ...]) -> int:
        """What the margins cost together."""
        return sum(margin.penalty() for margin in margins)


class CompiledSteps(Steps):
    """The same rounds by compiled loops.

    Parameters
    ----------
    sums, single, pairs : module
        Of `engine.fit.compiled`.
    """

    def __init__(
        self, moving: Moving, sums: ModuleType, single: ModuleType, pairs: ModuleType
    ) -> None:
        super().__init__(moving)
        margins = (*moving.narrower, moving.one_way, moving.boxes)
        self._sums, self._single, self._pairs = sums, single, pairs
        self._number = {id(margin): i for i, margin in enumerate(margins)}
        self._of = np.stack([margin.of for margin in margins])
        self._base = np.cumsum([0, *(len(margin) for margin in margins)])
        self._off, self._kind = told.shared(margins)
        self._fitted = np.zeros_like(self._off)
        self._fitted[self._base[-2] :] = moving.boxes.fitted
        self._order, self._first = sums.by_part(self._of, self._base)

    def single(self, asked: Sums, judged: Judged, most: int, number: int) -> Moves:
        """See `walks.single_moves`."""
        one, moving = self._number[id(asked)], self.moving
        found: Moves = self._single.single_moves(
            one, *self._judged(judged), most, number, moving.n, moving.x, moving.fibre, moving.lot,
            self._of, self._base, self._order, self._first, self._off, self._kind, self._fitted, told.STEPS, _LIMITS,
        )  # fmt: skip
        return found

    def paired(self, asked: Sums, kept: Sums, judged: Judged, most: int, number: int) -> Moves:
        """See `walks.exchanges`."""
        both, moving, index = (self._number[id(m)] for m in (asked, kept)), self.moving, self.index
        found: Moves = self._pairs.exchanges(
            *both, *self._judged(judged), most, number, moving.n, moving.fibre, moving.heads, moving.lot,
            moving.one_way.of, self._of, self._base, self._order, self._first, self._off, self._kind, self._fitted,
            index.key, index.order, index.width, told.STEPS, _LIMITS,
        )  # fmt: skip
        return found

    def move(self, source: Int64Array, target: Int64Array) -> None:
        """Book one unit a move."""
        self._sums.move(source, target, self.moving.n, self._of, self._base, self._off)

    def penalty(self, margins: tuple[Sums, ...]) -> int:
        """What the margins cost together."""
        numbers = np.array([self._number[id(margin)] for margin in margins])
        beyond = told.BEYOND
        return int(
            self._sums.penalty(
                numbers, self._base, self._off, self._kind, told.STEPS, _LIMITS, beyond
            )
        )

    def _judged(self, judged: Judged) -> tuple[Int64Array, Int64Array]:
        """Numbers of the margins that judge, and their weights."""
        numbers = [self._number[id(margin)] for margin, _ in judged]
        return np.array(numbers, dtype=np.int64), np.array([w for _, w in judged], dtype=np.int64)


_LIMITS = np.array([
    walks.MOST, walks.NEAR, told.SLOTS, walks.MIDDLE, told.REACH, told.ODD, told.PARTS_OF_UNIT, told.MOST_COST,
    told.LOOSE,
])  # fmt: skip
"""Constants in the order in which the compiled loops count them."""


def steps_of(moving: Moving) -> Steps:
    """Return compiled steps where they are at hand, those of numpy otherwise."""
    sums, single, pairs = (compiled(module) for module in (SUMS, SINGLE, PAIRS))
    if sums is None or single is None or pairs is None:
        return Steps(moving)
    return CompiledSteps(moving, sums, single, pairs)
