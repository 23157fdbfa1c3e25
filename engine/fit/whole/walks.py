"""Moves of units that start where a sum is off: single ones within a fibre, and exchanges between two fibres.

Each round looks at one margin, and only at the cells of its sums that are too large or too small. For every sum that
is too large the best move to one that is too small is found; those that do not collide are made together. A move may
cost nothing, so that faults walk through the table until they meet. Whole numbers decide, and lots by the key.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.fit.whole.sums import Moving, Sums
from engine.schema import BoolArray, Int64Array

MOST = 1 << 15
"""About the most cells of sums that are too small that a round looks at; the others wait their turn."""
NEAR = 16
"""Most units of the other fibre that may come back in an exchange."""
_FAR = np.int64(1 << 62)
_PLACE, _COST = 32, 48  # a rank, from the lowest bit: place (32 bits), lot (16), cost
_PLACES = (1 << _PLACE) - 1
# A rank within fibres: lot (16 bits), cost and whether it leads away from the fit (20 bits, from -MIDDLE), fibre.
_LOT, _FIBRE, MIDDLE = 16, 36, 1 << 19

Moves = tuple[Int64Array, Int64Array]
"""Cells that give a unit, and cells that take it."""
Judged = Sequence[tuple[Sums, int]]
"""Margins that moves are judged by, with weights."""


def single_moves(moving: Moving, asked: Sums, judged: Judged, most: int, number: int) -> Moves:
    """Units to move within their fibres, from sums of one margin that are too large to ones that are too small."""
    source, target = _faulty(moving, asked, number)
    fibre, n_fibres = moving.fibre, len(moving.heads)
    if not len(source) or not len(target):
        return source[:0], target[:0]
    reached = np.zeros(n_fibres, dtype=bool)
    reached[fibre[source]] = True
    target = target[reached[fibre[target]]]
    late = moving.n[target] > moving.x[target]
    target, gain = _in_fibres(moving, target, _gained(judged, target), late, number)
    late = moving.n[source] <= moving.x[source]
    source, loss = _in_fibres(moving, source, _lost(judged, source), late, number)
    # In every fibre the best source goes with the best target, the second with the second, and so on.
    count = np.bincount(fibre[target], minlength=n_fibres)
    of = fibre[source]
    place = np.arange(len(source)) - np.searchsorted(of, of)
    paired = place < count[of]
    place = (np.cumsum(count) - count)[of[paired]] + place[paired]
    source, target, cost = source[paired], target[place], loss[paired] + gain[place]
    best = _best(asked.of[source], cost, moving.lots(source, number), len(asked))
    best = best[cost[best] <= most]
    margins = [asked, *(margin for margin, _ in judged if margin is not asked)]
    return _without_collisions(moving, margins, source[best], target[best], number)


def _faulty(moving: Moving, asked: Sums, number: int) -> Moves:
    """Cells with units in sums that are too large, and cells of sums that are too small."""
    off = asked.off
    source = asked.cells_of(np.flatnonzero(off > 0))
    short = np.flatnonzero(off < 0)
    turns = 1 + len(moving.n) // max(len(off), 1) * len(short) // MOST
    return source[moving.n[source] > 0], asked.cells_of(short[number % turns :: turns])


def _lost(judged: Judged, cells: Int64Array) -> Int64Array:
    """What taking a unit out of each cell adds to the penalties."""
    cost = np.zeros(len(cells), dtype=np.int64)
    for margin, weight in judged:
        cost += margin.lost(cells) * weight
    return cost


def _gained(judged: Judged, cells: Int64Array) -> Int64Array:
    """What putting a unit into each cell adds to the penalties."""
    cost = np.zeros(len(cells), dtype=np.int64)
    for margin, weight in judged:
        cost += margin.gained(cells) * weight
    return cost


def _in_fibres(
    moving: Moving, cells: Int64Array, cost: Int64Array, late: BoolArray, number: int
) -> tuple[Int64Array, Int64Array]:
    """Cells and their costs by fibre, the cheapest first; among equals those back towards the fit, then by lot."""
    rank = (moving.fibre[cells] << _FIBRE) | ((cost * 2 + late + MIDDLE) << _LOT)
    order = np.argsort(rank | moving.lots(cells, number), kind="stable")
    return cells[order], cost[order]


def _best(group: Int64Array, cost: Int64Array, lot: Int64Array, n_groups: int) -> Int64Array:
    """Where the cheapest of each group is; among equals by lot."""
    best = np.full(n_groups, _FAR)
    np.minimum.at(best, group, (cost << _COST) | (lot << _PLACE) | np.arange(len(group)))
    places: Int64Array = best[best < _FAR] & _PLACES
    return places


def _without_collisions(
    moving: Moving, margins: Sequence[Sums], source: Int64Array, target: Int64Array, number: int
) -> Moves:
    """Of the moves that want the same slot of a margin keep one."""
    lot = moving.lots(source, number)
    kept = np.arange(len(source))
    for margin in margins:
        if margin is moving.boxes:
            continue
        taken = np.empty(margin.n_slots, dtype=np.int64)
        for cells, sign in ((source, 1), (target, -1)):
            slot = margin.slots(cells[kept], sign, lot[kept])
            taken[slot] = kept
            kept = kept[taken[slot] == kept]
    return source[kept], target[kept]


class CellIndex:
    """Finds the cell of a fibre that has a code of the column along it.

    width: Codes that a fibre can have.
    order, key: shape (n_cells,): Cells by fibre and code; fibre * width + code of each, ascending.
    """

    def __init__(self, moving: Moving) -> None:
        code = moving.one_way.of
        self.width = int(code.max(initial=0)) + 1
        key = moving.fibre * self.width + code
        self.order = np.argsort(key)
        self.key = key[self.order]

    def find(self, fibre: Int64Array, code: Int64Array) -> Int64Array:
        """Cells, -1 where there is none."""
        wanted = fibre * self.width + code
        at = np.minimum(np.searchsorted(self.key, wanted), len(self.key) - 1)
        return np.where(self.key[at] == wanted, self.order[at], -1)


def exchanges(
    moving: Moving,
    asked: Sums,
    kept: Sums,
    judged: Judged,
    index: CellIndex,
    most: int,
    number: int,
) -> Moves:
    """Moves in pairs: two fibres exchange two codes, which leaves the sums of one margin as they are.

    A single move cannot put a sum right if no fibre has both codes. Here the code that is too often in one place and
    too seldom in another goes there, and another code comes back.

    asked, kept: The margin whose faults are looked at, and the one that stays as it is.
    """
    given, wanted = _pairs_across(moving, asked, kept, number)
    if not len(given):
        return given, wanted
    pair, back, place = _ways_back(moving, given, wanted, index, number)
    weighed = [(margin, weight) for margin, weight in judged if margin is not kept]
    cost = _lost(weighed, back) + _gained(weighed, place)
    cost += (_lost(weighed, given) + _gained(weighed, wanted))[pair]
    best = _best(pair, cost, moving.lots(back, number), len(given))
    best = best[cost[best] <= most]
    four = [given[pair[best]], wanted[pair[best]], back[best], place[best]]
    unique = np.flatnonzero(unshared([four[0], four[2]], np.arange(len(best)), len(moving.n)))
    for margin, _ in weighed:
        if margin is not moving.boxes:
            parts = [margin.of[cells[unique]] for cells in four]
            unique = unique[unshared(parts, unique, len(margin))]
    given, wanted, back, place = (cells[unique] for cells in four)
    return np.concatenate([given, back]), np.concatenate([place, wanted])


def _pairs_across(moving: Moving, asked: Sums, kept: Sums, number: int) -> Moves:
    """A unit of each sum that is too large, and where it is wanted: in another fibre, in the same sum of `kept`."""
    source, target = _faulty(moving, asked, number)
    if not len(source) or not len(target):
        return source[:0], target[:0]
    best = np.full(len(kept), _FAR)
    rank = (moving.lots(target, number) << _PLACE) | target
    np.minimum.at(best, kept.of[target], rank)
    found = best[kept.of[source]]
    source, found = source[found < _FAR], found[found < _FAR]
    free = np.zeros(len(source), dtype=np.int64)
    first = _best(asked.of[source], free, moving.lots(source, number), len(asked))
    return source[first], found[first] & _PLACES


def _ways_back(
    moving: Moving, given: Int64Array, wanted: Int64Array, index: CellIndex, number: int
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Units of the other fibre that may come back, some of them by lot: number of the pair, unit, where it goes."""
    full = np.flatnonzero(moving.n)
    begin = np.searchsorted(full, moving.heads[moving.fibre[wanted]])
    size = np.searchsorted(full, moving.heads[moving.fibre[wanted] + 1]) - begin
    count = np.minimum(size, NEAR)
    pair = np.repeat(np.arange(len(given)), count)
    step = np.arange(len(pair)) - np.repeat(np.cumsum(count) - count, count)
    back = full[begin[pair] + (step + moving.lots(given, number)[pair]) % size[pair]]
    code = moving.one_way.of
    place = index.find(moving.fibre[given][pair], code[back])
    usable = (place >= 0) & (code[back] != code[given][pair])
    return pair[usable], back[usable], place[usable]


def unshared(parts: Sequence[Int64Array], number: Int64Array, size: int) -> BoolArray:
    """Which moves share none of their parts with one of a larger number."""
    taken = np.full(size, -1)
    for one in parts:
        np.maximum.at(taken, one, number)
    keep = np.ones(len(number), dtype=bool)
    for one in parts:
        keep &= taken[one] == number
    return keep
