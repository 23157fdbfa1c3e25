"""Sums of cells while units move: what each is off its target, what that costs, what a move would change.

Takes a partition of the cells and a target for each part; gives costs as whole numbers. The penalty is convex: what
cannot be met is spread out by ones. A measured count that is off by one costs twice what a filled one does. What a
released bucket holds is to stay near its fitted rows: it costs the square of what it is off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.fit.candidates import MarginBounds
from engine.schema import FloatArray, Int64Array

MEASURED, FILLED, LOOSE = 0, 1, 2
"""Kinds of targets: a measured count; one that was filled in; one that was filled in and may be off by one for free."""
FIRST, STEEP, WORST = 2, 8, 4
"""A sum's k-th unit off costs FIRST + STEEP (k - 1), a filled one's first unit half of FIRST; from the WORST on no
more."""
PARTS_OF_UNIT, MOST_COST = 8, 48
"""Fitted rows of boxes are told to an eighth; a unit more or less counts at most so much."""
REACH = 6  # sums further off than this count as so far off
_WIDTH = 2 * REACH + 3
SLOTS = 8  # most moves that one sum takes at once
ODD = 40503  # multiplies lots, so that they differ by round


def _penalties() -> Int64Array:
    """Penalty of a sum off by -REACH - 1 .. REACH + 1, one row a kind."""
    far = np.abs(np.arange(-REACH - 1, REACH + 2))
    rows = []
    for first in (FIRST, FIRST // 2, 0):
        units = FIRST + STEEP * (np.minimum(np.arange(1, REACH + 2), WORST) - 1)
        units[0] = first
        rows.append(np.concatenate([[0], np.cumsum(units)])[far])
    return np.stack(rows)


_PENALTY = _penalties()
_LOST = np.pad(_PENALTY[:, :-1] - _PENALTY[:, 1:], ((0, 0), (1, 0))).ravel()
_GAINED = np.pad(_PENALTY[:, 1:] - _PENALTY[:, :-1], ((0, 0), (0, 1))).ravel()
STEPS = np.stack([_LOST, _GAINED, _PENALTY.ravel()])
"""What a unit less adds to the penalty, what one more does, and the penalty, by kind and what a sum is off."""
BEYOND = FIRST + STEEP * (WORST - 1)
"""What each unit beyond REACH costs."""


class Sums:
    """The sums of one margin."""

    def __init__(self, of: Int64Array, target: Int64Array, kind: Int64Array, n: Int64Array) -> None:
        self.of = of
        self._kind = kind.copy()
        self._row = kind * _WIDTH + (REACH + 1)
        self._off = np.bincount(of, weights=n, minlength=len(target)).astype(np.int64) - target
        self._by_part: tuple[Int64Array, Int64Array] | None = None

    def __len__(self) -> int:
        return len(self._off)

    @property
    def off(self) -> Int64Array:
        """Units that each sum is too large, or too small if below 0."""
        free = (self._kind == LOOSE) & (np.abs(self._off) <= 1)
        return np.where(free, 0, self._off)

    def ask_for_filled(self, kind: int) -> None:
        """From now on filled counts are LOOSE, or FILLED."""
        self._kind[self._kind != MEASURED] = kind
        self._row = self._kind * _WIDTH + (REACH + 1)

    @property
    def n_slots(self) -> int:
        """Number of slots."""
        return SLOTS * len(self)

    def penalty(self) -> int:
        """What all sums cost together."""
        within = _within_reach(self._off)
        beyond = int(np.abs(self._off - within).sum()) * BEYOND
        return int(_PENALTY.ravel()[within + self._row].sum()) + beyond

    def lost(self, cells: Int64Array) -> Int64Array:
        """What it adds to the penalty to take a unit out of each cell."""
        part = self.of[cells]
        cost: Int64Array = _LOST[_within_reach(self._off[part]) + self._row[part]]
        return cost

    def gained(self, cells: Int64Array) -> Int64Array:
        """What it adds to the penalty to put a unit into each cell."""
        part = self.of[cells]
        cost: Int64Array = _GAINED[_within_reach(self._off[part]) + self._row[part]]
        return cost

    def move(self, source: Int64Array, target: Int64Array) -> None:
        """Book one unit a move."""
        np.subtract.at(self._off, self.of[source], 1)
        np.add.at(self._off, self.of[target], 1)

    def cells_of(self, parts: Int64Array) -> Int64Array:
        """All cells of some parts."""
        if not len(parts):
            return parts
        order, first = self._ordered()
        begin = first[parts]
        count = first[parts + 1] - begin
        step = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
        cells: Int64Array = order[np.repeat(begin, count) + step]
        return cells

    def draw(self, parts: Int64Array, bits: Int64Array) -> Int64Array:
        """A cell of each part by random bits >= 0, -1 where it has none."""
        order, first = self._ordered()
        count = first[parts + 1] - first[parts]
        at = first[parts] + bits % np.maximum(count, 1)
        return np.where(count > 0, order[np.minimum(at, len(order) - 1)], -1)

    def slots(self, cells: Int64Array, sign: int, lot: Int64Array) -> Int64Array:
        """The slot that each move takes at its part, which has as many as it is off, at least one."""
        part = self.of[cells]
        free = np.minimum(np.maximum(sign * self._off[part], 1), SLOTS)
        slot: Int64Array = part * SLOTS + lot % free
        return slot

    def _ordered(self) -> tuple[Int64Array, Int64Array]:
        """Cells by their part, and where each part begins."""
        if self._by_part is None:
            count = np.bincount(self.of, minlength=len(self))
            first = np.concatenate([[0], np.cumsum(count)])
            self._by_part = np.argsort(self.of, kind="stable"), first
        return self._by_part


def _within_reach(off: Int64Array) -> Int64Array:
    """Sums too far off count as less far: they cost as much for each unit more."""
    return np.minimum(np.maximum(off, -REACH), REACH)


class FittedSums(Sums):
    """Sums that are to stay at what was fitted: each costs the square of what it is off.

    fitted: shape (n_parts,): In parts of a unit.
    """

    def __init__(self, of: Int64Array, fitted: FloatArray, n: Int64Array) -> None:
        self.fitted = np.floor(fitted * PARTS_OF_UNIT + 0.5).astype(np.int64)
        none = np.zeros_like(self.fitted)
        super().__init__(of, none, none, n)

    @property
    def off(self) -> Int64Array:
        """Whole units that each sum is too large, or too small if below 0."""
        apart = self._off * PARTS_OF_UNIT - self.fitted
        whole: Int64Array = np.sign(apart) * (np.abs(apart) // PARTS_OF_UNIT)
        return whole

    def lost(self, cells: Int64Array) -> Int64Array:
        """What it adds to the penalty to take a unit out of each cell."""
        return self._change(cells, -1)

    def gained(self, cells: Int64Array) -> Int64Array:
        """What it adds to the penalty to put a unit into each cell."""
        return self._change(cells, 1)

    def cells_of(self, parts: Int64Array) -> Int64Array:
        """All cells of some parts, in their order: asked too seldom to sort them by part."""
        wanted = np.zeros(len(self), dtype=bool)
        wanted[parts] = True
        return np.flatnonzero(wanted[self.of])

    def _change(self, cells: Int64Array, sign: int) -> Int64Array:
        """Difference of two squares: (off + sign)^2 - off^2, in eighths."""
        part = self.of[cells]
        apart = self._off[part] * PARTS_OF_UNIT - self.fitted[part]
        change: Int64Array = PARTS_OF_UNIT + 2 * sign * apart
        return np.minimum(np.maximum(change, -MOST_COST), MOST_COST)


@dataclass(frozen=True, kw_only=True, slots=True)
class Moving:
    """Cells whose units move, and what is asked of them."""

    n: Int64Array  # shape (n_cells,): Changed in place
    x: FloatArray  # shape (n_cells,): Fitted rows
    # shape (n_cells,): Fibre of each cell, numbered from 0 in the order of the cells.
    fibre: Int64Array
    heads: Int64Array  # shape (n_fibres + 1,): First cell of each fibre, and the number of cells
    lot: Int64Array  # shape (n_cells,): 16 keyed bits
    # What the table is locked to but for columns, and for the table that fibres are the cells of.
    narrower: tuple[Sums, ...]
    one_way: Sums  # Counts of the column along the fibres
    boxes: FittedSums  # Rows of each deepest released bucket

    @property
    def asked(self) -> tuple[Sums, ...]:
        """The margins that moves are to meet: the column's counts follow from tables that have the column."""
        implied = any(_tells(margin.of, self.one_way.of) for margin in self.narrower)
        return self.narrower if implied else (*self.narrower, self.one_way)

    @property
    def margins(self) -> tuple[Sums, ...]:
        """All margins whose sums follow the units."""
        return (*self.narrower, self.one_way, self.boxes)

    def lots(self, cells: Int64Array, number: int) -> Int64Array:
        """16 bits for each cell, others in every round."""
        bits: Int64Array = (self.lot[cells] * (2 * number + 1) * ODD) & 0xFFFF
        return bits

    def move(self, source: Int64Array, target: Int64Array) -> None:
        """Book one unit a move."""
        np.subtract.at(self.n, source, 1)
        np.add.at(self.n, target, 1)
        for margin in self.margins:
            margin.move(source, target)

    def state(self) -> list[Int64Array]:
        """Where all units are, to come back to: `restore`."""
        return [self.n.copy(), *(margin._off.copy() for margin in self.margins)]

    def restore(self, state: list[Int64Array]) -> None:
        """Put all units back where they were."""
        self.n[:] = state[0]
        for margin, off in zip(self.margins, state[1:], strict=True):
            margin._off[:] = off


def shared(margins: Sequence[Sums]) -> tuple[Int64Array, Int64Array]:
    """Lay what all margins are off one behind another, and their kinds (-1 for boxes); the margins then share it."""
    off = np.concatenate([margin._off for margin in margins])
    kind = np.concatenate([_kind_of(margin) for margin in margins])
    end = 0
    for margin in margins:
        begin, end = end, end + len(margin)
        margin._off, margin._kind = off[begin:end], kind[begin:end]
    return off, kind


def _kind_of(margin: Sums) -> Int64Array:
    """Kinds of targets, -1 where sums are to stay at what was fitted."""
    return np.full(len(margin), -1) if isinstance(margin, FittedSums) else margin._kind


def _tells(of: Int64Array, code: Int64Array) -> bool:
    """Whether all cells of a part have one code."""
    some = np.zeros(int(of.max(initial=0)) + 1, dtype=np.int64)
    some[of] = code
    return bool((some[of] == code).all())


def asked_for(margin: MarginBounds, order: Int64Array, n: Int64Array) -> Sums:
    """The sums of a margin, its cells in another order: counts between two bounds were filled in."""
    kind = np.where(margin.high > margin.low, LOOSE, MEASURED)
    return Sums(margin.of[order], (margin.low + margin.high) // 2, kind, n)
