"""Whole numbers: controlled rounding of fitted cells to published margins, and what settles contradictions.

Rounding. Cells that share all columns but one are a fibre. At the start fibres have their totals, and runs of
neighbours are near their fitted rows: in a fibre, and of two columns along both. Then units are moved, at first within
fibres and then also in pairs between two of them, from sums of the other margins that are too large to ones that are
too small. Released boxes stay near their fitted rows; more of that is given up only where it brings every margin to
its published counts. Cox 1987, doi:10.1080/01621459.1987.10478456.

Settling. Measured tables can contradict each other: no child has an income, yet the noisy number of blanks in a
district is not the sum of its noisy numbers of children. Rounding meets one of the tables exactly, so that another is
off by all of it. There two rows anywhere in the table exchange their codes of a column where that brings a sum nearer
that is far off; the other tables give way by ones. No row is added or lost, no column's counts change, and no row comes
to where a narrower table has none.

The penalty of what sums are off is convex: what cannot be met is spread out by ones. A measured count that is off by
one costs twice what a filled one does. What a released bucket holds is to stay near its fitted rows: it costs the
square of what it is off. Seeded by the sampling key; what decides an integer is a whole number, or made of + - * / in a
fixed order.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from engine.cell_keys import KEY_LIMIT, cell_keys, has_runs
from engine.fit.budget import BUDGET, SearchBudget
from engine.fit.cells import LockedTo, Margins
from engine.fit.tree import Codes
from engine.kernels import Whole, kernel, part
from engine.schema import BoolArray, FloatArray, Int64Array, UInt64Array
from engine.sticky_prf import siphash

NARROWER, BOX, STIFF = 4, 1, 1 << 8
"""Weights of penalties: of the margins that are asked for; of boxes; of margins that moves for boxes must not cost."""
CAREFUL, BOLD, ANY = -12, (36, 52), 1 << 10
"""Most that a move may cost: where it is to gain enough, where it may cost boxes, and where it is made at any cost."""
FAR = 2
"""What is off by so much is settled."""
BOXES, MEASURED, FILLED, LOOSE = -1, 0, 1, 2
"""Kinds of targets: fitted rows of a box; a measured count; one that was filled in; one that was filled in and may be
off by one for free."""
FIRST, STEEP, WORST = 2, 8, 4
"""A sum's k-th unit off costs FIRST + STEEP (k - 1), a filled one's first unit half of FIRST; from the WORST on no
more."""
PARTS_OF_UNIT, MOST_COST = 8, 48
"""Fitted rows of boxes are told to an eighth; a unit more or less counts at most so much."""
REACH = 6  # sums further off than this count as so far off
SLOTS = 8  # most moves that one sum takes at once
EXCHANGES_FROM = (
    12  # the first round that may exchange: single moves are cheaper, and most faults need no more
)
PROGRESS = 85
"""Rounds have helped once the penalty is at most so many hundredths of what it was."""
BITS = 21  # from which a random number is drawn
_FIXED = 20  # bits behind the point
_NOTHING = 1e-200  # fitted rows too few to be divided by
_STRETCH = 4.0  # loose rows of a stretch of fibres, in which a half is brought to its fitted rows
_BEYOND = FIRST + STEEP * (WORST - 1)  # what each unit beyond REACH costs
_ODD = 40503  # multiplies lots, so that they differ by round
_MIDDLE = 1 << 19  # in a rank: cost, and whether it leads away from the fit, from -_MIDDLE
_FAR = np.int64(1 << 62)
_SHORT = np.int64(1 << 40)
_FEW = 24  # neighbours that are sorted one by one
_LESS, _MORE = (
    np.int64(0),
    np.int64(1),
)  # a unit; numba would compile for each plain number that it sees


class Sums(NamedTuple):
    """The sums of several margins, one behind another, and what each is off."""

    of: Int64Array  # shape (n_margins, n_cells): Part of each cell
    base: Int64Array  # shape (n_margins + 1,): Where the sums of each margin begin
    order: Int64Array  # shape (n_margins, n_cells): Cells by their part
    first: Int64Array  # shape (n_sums + n_margins,): Where the cells of a part begin, and where the last end
    off: Int64Array  # shape (n_sums,): Units that each is too large
    kind: Int64Array  # shape (n_sums,): Of its target
    fitted: Int64Array  # shape (n_sums,): Of boxes, in parts of a unit


class Units(NamedTuple):
    """Cells whose units move within and between fibres."""

    n: Int64Array  # shape (n_cells,): Changed in place
    x: FloatArray  # shape (n_cells,): Fitted rows
    fibre: Int64Array  # shape (n_cells,): Numbered from 0 in the order of the cells
    heads: Int64Array  # shape (n_fibres + 1,): First cell of each fibre, and the number of cells
    lot: Int64Array  # shape (n_cells,): 16 keyed bits
    code: Int64Array  # shape (n_cells,): Of the column along the fibres


class _Index(NamedTuple):
    """Finds the cell of a fibre that has a code of the column along it."""

    key: Int64Array  # shape (n_cells,): fibre * width + code, ascending
    cell: Int64Array
    width: int


def _penalties() -> Int64Array:
    """What a unit less adds to the penalty of a sum off by -REACH - 1 .. REACH + 1, one more, and the penalty; by
    kind."""
    far = np.abs(np.arange(-REACH - 1, REACH + 2))
    rows = []
    for first in (FIRST, FIRST // 2, 0):
        units = FIRST + STEEP * (np.minimum(np.arange(1, REACH + 2), WORST) - 1)
        units[0] = first
        rows.append(np.concatenate([[0], np.cumsum(units)])[far])
    penalty = np.stack(rows)
    lost, gained = np.zeros_like(penalty), np.zeros_like(penalty)
    lost[:, 1:] = penalty[:, :-1] - penalty[:, 1:]
    gained[:, :-1] = penalty[:, 1:] - penalty[:, :-1]
    return np.stack([lost, gained, penalty]).astype(np.int64)


_PENALTY = _penalties()


# Sums: what they are off, what that costs, what a move would change.


@part
def _where(values: Int64Array | BoolArray) -> Int64Array:
    """Places of what is not 0."""
    places = np.empty(len(values), dtype=np.int64)
    size = 0
    for i in range(len(values)):
        if values[i]:
            places[size] = i
            size += 1
    return places[:size].copy()


@part
def _grouped(cells: Int64Array, of: Int64Array, size: Whole) -> tuple[Int64Array, Int64Array]:
    """Cells by their part, in each as they came, and where each part begins."""
    first = np.zeros(size + 1, dtype=np.int64)
    for cell in cells:
        first[of[cell] + 1] += 1
    for one in range(size):
        first[one + 1] += first[one]
    free, grouped = first[:-1].copy(), np.empty(len(cells), dtype=np.int64)
    for cell in cells:
        grouped[free[of[cell]]] = cell
        free[of[cell]] += 1
    return grouped, first


@kernel
def by_part(of: Int64Array, base: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Cells of each margin by their part, and where each part begins."""
    n_margins, n_cells = of.shape
    order, cells = np.empty((n_margins, n_cells), dtype=np.int64), np.arange(n_cells)
    first = np.empty(base[n_margins] + n_margins, dtype=np.int64)
    for margin in range(n_margins):
        begin, end = base[margin] + margin, base[margin + 1] + margin + 1
        order[margin], first[begin:end] = _grouped(
            cells, of[margin], base[margin + 1] - base[margin]
        )
    return order, first


@part
def _off(off: Whole, kind: Whole, fitted: Whole) -> Whole:
    """Whole units that a sum is too large; one that may be off by one for free is not."""
    if kind == BOXES:
        apart = off * PARTS_OF_UNIT - fitted
        whole = abs(apart) // PARTS_OF_UNIT
        return whole if apart > 0 else -whole
    if kind == LOOSE and abs(off) <= 1:
        return np.int64(0)
    return off


@part
def _change(off: Whole, kind: Whole, fitted: Whole, which: Whole) -> Whole:
    """What a unit less or more adds to the penalty of a sum; of a box the square of what it is off."""
    if kind == BOXES:
        change = PARTS_OF_UNIT + (4 * which - 2) * (off * PARTS_OF_UNIT - fitted)
        return min(max(change, -MOST_COST), MOST_COST)
    near: Whole = min(max(off, -REACH), REACH)
    return _PENALTY[which, kind, near + REACH + 1]


@part
def _penalty(margins: Int64Array, sums: Sums) -> Whole:
    """What all sums of some margins cost together."""
    total = np.int64(0)
    for margin in margins:
        for at in range(sums.base[margin], sums.base[margin + 1]):
            near = min(max(sums.off[at], -REACH), REACH)
            total += _PENALTY[2, sums.kind[at], near + REACH + 1]
            total += abs(sums.off[at] - near) * _BEYOND
    return total


@part
def _priced(sums: Sums) -> Int64Array:
    """What a unit less (row 0) and one more (row 1) adds to the penalty of each sum."""
    prices = np.empty((2, len(sums.off)), dtype=np.int64)
    for at in range(len(sums.off)):
        off, kind, fitted = sums.off[at], sums.kind[at], sums.fitted[at]
        prices[0, at] = _change(off, kind, fitted, _LESS)
        prices[1, at] = _change(off, kind, fitted, _MORE)
    return prices


@part
def _move(source: Int64Array, target: Int64Array, n: Int64Array, sums: Sums) -> None:
    """Book one unit a move."""
    for i in range(len(source)):
        one, other = source[i], target[i]
        n[one] -= 1
        n[other] += 1
        for margin in range(sums.of.shape[0]):
            sums.off[sums.base[margin] + sums.of[margin, one]] -= 1
            sums.off[sums.base[margin] + sums.of[margin, other]] += 1


@part
def _move_priced(
    source: Int64Array,
    target: Int64Array,
    n_asked: Whole,
    n: Int64Array,
    sums: Sums,
    prices: Int64Array,
) -> Whole:
    """Book one unit a move, and what the sums that change cost from then on.

    Returns: What it adds to the penalty of the first margins.
    """
    added = np.int64(0)
    for which in (_LESS, _MORE):
        for cell in target if which else source:
            n[cell] += 2 * which - 1
            for margin in range(sums.of.shape[0]):
                at = sums.base[margin] + sums.of[margin, cell]
                if margin < n_asked:
                    added += prices[which, at]
                sums.off[at] += 2 * which - 1
                off, kind, fitted = sums.off[at], sums.kind[at], sums.fitted[at]
                prices[0, at] = _change(off, kind, fitted, _LESS)
                prices[1, at] = _change(off, kind, fitted, _MORE)
    return added


# Rounds: each looks at one margin, and only at the cells of its sums that are too large or too small. For every sum
# that is too large the best move to one that is too small is found; those that do not collide are made together. A move
# may cost nothing, so that faults walk through the table until they meet.


@part
def _lot(lot: Whole, number: Whole) -> Whole:
    """16 bits of a cell, others in every round."""
    return (lot * (2 * number + 1) * _ODD) & 0xFFFF


@part
def _affordable(best: Int64Array, cost: Int64Array, most: Whole) -> Int64Array:
    """Of the best of each group those that cost no more than `most`: their places, which are the low bits of a rank."""
    places = np.empty(len(best), dtype=np.int64)
    size = 0
    for rank in best:
        if rank < _FAR and cost[rank & 0xFFFFFFFF] <= most:
            places[size] = rank & 0xFFFFFFFF
            size += 1
    return places[:size]


@part
def _cells_of(parts: Int64Array, margin: Whole, sums: Sums) -> Int64Array:
    """All cells of some parts: part by part, or in their own order for boxes."""
    n_cells, base = sums.of.shape[1], sums.base
    size = 0
    if sums.kind[base[margin]] == BOXES:
        wanted = np.zeros(base[margin + 1] - base[margin], dtype=np.bool_)
        wanted[parts] = True
        for cell in range(n_cells):
            size += wanted[sums.of[margin, cell]]
        cells = np.empty(size, dtype=np.int64)
        size = 0
        for cell in range(n_cells):
            if wanted[sums.of[margin, cell]]:
                cells[size] = cell
                size += 1
        return cells
    first = sums.first[base[margin] + margin :]
    for one in parts:
        size += first[one + 1] - first[one]
    cells = np.empty(size, dtype=np.int64)
    size = 0
    for one in parts:
        for at in range(first[one], first[one + 1]):
            cells[size] = sums.order[margin, at]
            size += 1
    return cells


@part
def _faulty(
    asked: Whole, number: Whole, most: Whole, n: Int64Array, sums: Sums
) -> tuple[Int64Array, Int64Array]:
    """Cells with units in sums that are too large, and cells of sums that are too small."""
    size = sums.base[asked + 1] - sums.base[asked]
    over, short = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    n_over = n_short = 0
    for one in range(size):
        at = sums.base[asked] + one
        off = _off(sums.off[at], sums.kind[at], sums.fitted[at])
        if off > 0:
            over[n_over] = one
            n_over += 1
        elif off < 0:
            short[n_short] = one
            n_short += 1
    turns = 1 + len(n) // max(size, 1) * n_short // most
    source = _cells_of(over[:n_over], asked, sums)
    kept = 0
    for cell in source:
        if n[cell] > 0:
            source[kept] = cell
            kept += 1
    wanted = short[:n_short][number % turns :: turns].copy()
    return source[:kept], _cells_of(wanted, asked, sums)


# Single moves, within fibres.


@part
def _in_common(
    source: Int64Array, target: Int64Array, fibre: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Cells in fibres that have both a source and a target; in place."""
    has = np.zeros(fibre[-1] + 1, dtype=np.uint8)
    for cell in source:
        has[fibre[cell]] = 1
    for cell in target:
        has[fibre[cell]] |= 2
    n_source = n_target = 0
    for cell in source:
        if has[fibre[cell]] == 3:
            source[n_source] = cell
            n_source += 1
    for cell in target:
        if has[fibre[cell]] == 3:
            target[n_target] = cell
            n_target += 1
    return source[:n_source], target[:n_target]


@part
def _sort(rank: Int64Array, cells: Int64Array, cost: Int64Array, begin: Whole, end: Whole) -> None:
    """Sort neighbours by rank, in place; equal ones stay as they are: short runs are sorted, then merged."""
    for low in range(begin, end, _FEW):
        for i in range(low + 1, min(low + _FEW, end)):
            one, cell, price, at = rank[i], cells[i], cost[i], i
            while at > low and rank[at - 1] > one:
                rank[at], cells[at], cost[at] = rank[at - 1], cells[at - 1], cost[at - 1]
                at -= 1
            rank[at], cells[at], cost[at] = one, cell, price
    size = _FEW
    while size < end - begin:
        for low in range(begin, end - size, 2 * size):
            middle, high = low + size, min(low + 2 * size, end)
            left = rank[low:middle].copy(), cells[low:middle].copy(), cost[low:middle].copy()
            i, at = 0, low
            while i < size:
                if middle < high and rank[middle] < left[0][i]:
                    rank[at], cells[at], cost[at] = rank[middle], cells[middle], cost[middle]
                    middle += 1
                else:
                    rank[at], cells[at], cost[at] = left[0][i], left[1][i], left[2][i]
                    i += 1
                at += 1
        size *= 2


@part
def _ranked(
    cells: Int64Array,
    which: Whole,
    number: Whole,
    units: Units,
    sums: Sums,
    prices: Int64Array,
    judged: Int64Array,
    weights: Int64Array,
) -> tuple[Int64Array, Int64Array]:
    """Cells and their costs by fibre, the cheapest first; among equals those back towards the fit, then by lot."""
    cells, first = _grouped(cells, units.fibre, units.fibre[-1] + 1)
    cost, rank = np.zeros(len(cells), dtype=np.int64), np.empty(len(cells), dtype=np.int64)
    for j in range(len(judged)):
        of, base = sums.of[judged[j]], sums.base[judged[j]]
        for i in range(len(cells)):
            cost[i] += prices[which, base + of[cells[i]]] * weights[j]
    for i in range(len(cells)):
        cell = cells[i]
        late = (units.n[cell] > units.x[cell]) == (which == _MORE)
        rank[i] = ((cost[i] * 2 + late + _MIDDLE) << 16) | _lot(units.lot[cell], number)
    for one in range(len(first) - 1):
        if first[one + 1] - first[one] > 1:
            _sort(rank, cells, cost, first[one], first[one + 1])
    return cells, cost


@part
def _pairs(
    source: Int64Array,
    target: Int64Array,
    loss: Int64Array,
    gain: Int64Array,
    asked: Whole,
    most: Whole,
    number: Whole,
    units: Units,
    sums: Sums,
) -> tuple[Int64Array, Int64Array]:
    """In every fibre the best source with the best target, and so on; of these the best for each sum."""
    best = np.full(sums.base[asked + 1] - sums.base[asked], _FAR)
    giver, taker = np.empty_like(source), np.empty_like(source)
    cost = np.empty_like(source)
    i = j = pairs = 0
    while i < len(source) and j < len(target):
        one, other = units.fibre[source[i]], units.fibre[target[j]]
        if one == other:
            giver[pairs], taker[pairs], cost[pairs] = source[i], target[j], loss[i] + gain[j]
            of = sums.of[asked, source[i]]
            rank = (cost[pairs] << 48) | (_lot(units.lot[source[i]], number) << 32) | pairs
            best[of] = min(best[of], rank)
            pairs += 1
        i += one <= other
        j += other <= one
    places = _affordable(best, cost, most)
    return giver[places], taker[places]


@part
def _without_collisions(
    source: Int64Array,
    target: Int64Array,
    asked: Whole,
    judged: Int64Array,
    number: Whole,
    units: Units,
    sums: Sums,
) -> Int64Array:
    """Which of the moves that want the same slot of a margin stay: the last of each.

    A sum has as many slots as it is off, at least one.
    """
    base, kept = sums.base, np.arange(len(source))
    for j in range(-1, len(judged)):
        margin = asked if j < 0 else judged[j]
        if (j >= 0 and margin == asked) or sums.kind[base[margin]] == BOXES:
            continue
        taken = np.empty(SLOTS * (base[margin + 1] - base[margin]), dtype=np.int64)
        slot = np.empty(len(kept), dtype=np.int64)
        for sign in (1, -1):
            for i in range(len(kept)):
                move = kept[i]
                of = sums.of[margin, source[move] if sign > 0 else target[move]]
                free = min(max(sign * sums.off[base[margin] + of], 1), SLOTS)
                slot[i] = of * SLOTS + _lot(units.lot[source[move]], number) % free
                taken[slot[i]] = move
            left = 0
            for i in range(len(kept)):
                if taken[slot[i]] == kept[i]:
                    kept[left] = kept[i]
                    left += 1
            kept = kept[:left]
    return kept


@part
def _single_moves(
    asked: Whole,
    judged: Int64Array,
    weights: Int64Array,
    most: Whole,
    number: Whole,
    units: Units,
    sums: Sums,
    prices: Int64Array,
    budget: SearchBudget,
) -> tuple[Int64Array, Int64Array]:
    """Units to move within their fibres, from sums of one margin that are too large to ones that are too small."""
    source, target = _faulty(asked, number, budget.short_cells, units.n, sums)
    if not len(source) or not len(target):
        return source[:0].copy(), target[:0].copy()
    source, target = _in_common(source, target, units.fibre)
    target, gain = _ranked(target, _MORE, number, units, sums, prices, judged, weights)
    source, loss = _ranked(source, _LESS, number, units, sums, prices, judged, weights)
    source, target = _pairs(source, target, loss, gain, asked, most, number, units, sums)
    kept = _without_collisions(source, target, asked, judged, number, units, sums)
    return source[kept], target[kept]


# Exchanges: two fibres exchange two codes, which leaves the sums of one margin as they are. A single move cannot put a
# sum right if no fibre has both codes. Here the code that is too often in one place and too seldom in another goes
# there, and another code comes back.


@part
def _indexed(units: Units) -> _Index:
    """The cells by fibre and code."""
    width, n_cells = 0, len(units.code)
    for one in units.code:
        width = max(width, one + 1)
    key, cell = np.empty(n_cells, dtype=np.int64), np.empty(n_cells, dtype=np.int64)
    first = np.zeros(width + 1, dtype=np.int64)
    for one in units.code:
        first[one + 1] += 1
    for one in range(width):
        first[one + 1] += first[one]
    by_code = np.empty(n_cells, dtype=np.int64)
    for one in range(n_cells):
        by_code[first[units.code[one]]] = one
        first[units.code[one]] += 1
    free = units.heads.copy()
    for one in by_code:
        at = free[units.fibre[one]]
        key[at], cell[at] = units.fibre[one] * width + units.code[one], one
        free[units.fibre[one]] += 1
    return _Index(key, cell, width)


@part
def _cell_of(key: Int64Array, wanted: Whole) -> Whole:
    """A cell by its key, -1 if there is none."""
    at = np.searchsorted(key, wanted)
    return at if at < len(key) and key[at] == wanted else np.int64(-1)


@part
def _find(index: _Index, fibre: Whole, code: Whole) -> Whole:
    """A cell by its fibre and code, -1 if there is none."""
    at = _cell_of(index.key, fibre * index.width + code)
    return index.cell[at] if at >= 0 else np.int64(-1)


@part
def _across(
    asked: Whole, kept: Whole, number: Whole, units: Units, sums: Sums, budget: SearchBudget
) -> tuple[Int64Array, Int64Array]:
    """A unit of each sum that is too large, and where it is wanted: in another fibre, in the same sum of `kept`."""
    source, target = _faulty(asked, number, budget.short_cells, units.n, sums)
    none = np.empty(0, dtype=np.int64)
    if not len(source) or not len(target):
        return none, none
    of, base = sums.of, sums.base
    best = np.full(base[kept + 1] - base[kept], _FAR)
    for cell in target:
        one = of[kept, cell]
        best[one] = min(best[one], (_lot(units.lot[cell], number) << 32) | cell)
    given = np.full(base[asked + 1] - base[asked], _FAR)
    size = 0
    for cell in source:
        if best[of[kept, cell]] < _FAR:
            one = of[asked, cell]
            given[one] = min(given[one], (_lot(units.lot[cell], number) << 32) | size)
            source[size] = cell
            size += 1
    found = np.empty(len(given), dtype=np.int64)
    size = 0
    for rank in given:
        if rank < _FAR:
            found[size] = source[rank & 0xFFFFFFFF]
            size += 1
    found = found[:size]
    wanted = np.empty(size, dtype=np.int64)
    for i in range(size):
        wanted[i] = best[of[kept, found[i]]] & 0xFFFFFFFF
    return found, wanted


@part
def _apart(
    four: Int64Array, number: Int64Array, n_cells: Whole, margins: Int64Array, sums: Sums
) -> Int64Array:
    """Exchanges that share no cell that gives, and no sum of some margins, with one of a larger number.

    four: shape (4, n_exchanges): The two cells that give, and the two that get.
    """
    kept, of, base = np.arange(len(number)), sums.of, sums.base
    for j in range(-1, len(margins)):
        margin = margins[j] if j >= 0 else 0
        taken = np.full(n_cells if j < 0 else base[margin + 1] - base[margin], -1)
        n_parts = 2 if j < 0 else 4
        for i in kept:
            for at in range(n_parts):
                one = four[at, i] if j < 0 else of[margin, four[at, i]]
                taken[one] = max(taken[one], number[i])
        size = 0
        for i in kept:
            is_free = True
            for at in range(n_parts):
                one = four[at, i] if j < 0 else of[margin, four[at, i]]
                is_free = is_free and taken[one] == number[i]
            if is_free:
                kept[size] = i
                size += 1
        kept = kept[:size]
    return kept


@part
def _cost_of_two(
    one: Whole,
    other: Whole,
    kept: Whole,
    sums: Sums,
    prices: Int64Array,
    judged: Int64Array,
    weights: Int64Array,
) -> Whole:
    """What a unit from one cell to another adds to the penalties, but for the margin that stays as it is."""
    cost = np.int64(0)
    for j in range(len(judged)):
        if judged[j] != kept:
            margin = judged[j]
            cost += prices[0, sums.base[margin] + sums.of[margin, one]] * weights[j]
            cost += prices[1, sums.base[margin] + sums.of[margin, other]] * weights[j]
    return cost


@part
def _exchanges(
    asked: Whole,
    kept: Whole,
    judged: Int64Array,
    weights: Int64Array,
    most: Whole,
    number: Whole,
    units: Units,
    sums: Sums,
    prices: Int64Array,
    index: _Index,
    budget: SearchBudget,
) -> tuple[Int64Array, Int64Array]:
    """Moves in pairs for the faults of one margin, which leave another (`kept`) as it is."""
    given, wanted = _across(asked, kept, number, units, sums, budget)
    fibre, code = units.fibre, units.code
    full = _where(units.n)
    pair = np.empty(len(given) * budget.partners, dtype=np.int64)
    back, place, cost = np.empty_like(pair), np.empty_like(pair), np.empty_like(pair)
    best = np.full(len(given), _FAR)
    found = 0
    for i in range(len(given)):
        begin = np.searchsorted(full, units.heads[fibre[wanted[i]]])
        size = np.searchsorted(full, units.heads[fibre[wanted[i]] + 1]) - begin
        own = _cost_of_two(given[i], wanted[i], kept, sums, prices, judged, weights)
        for step in range(min(size, budget.partners)):
            cell = full[begin + (step + _lot(units.lot[given[i]], number)) % size]
            goes = _find(index, fibre[given[i]], code[cell])
            if goes < 0 or code[cell] == code[given[i]]:
                continue
            total = own + _cost_of_two(cell, goes, kept, sums, prices, judged, weights)
            pair[found], back[found], place[found], cost[found] = i, cell, goes, total
            rank = (total << 48) | (_lot(units.lot[cell], number) << 32) | found
            best[i] = min(best[i], rank)
            found += 1
    chosen = _affordable(best, cost, most)
    four = np.empty((4, len(chosen)), dtype=np.int64)
    for i in range(len(chosen)):
        at = chosen[i]
        four[0, i], four[1, i] = given[pair[at]], back[at]
        four[2, i], four[3, i] = place[at], wanted[pair[at]]
    margins, size = np.empty_like(judged), 0
    for margin in judged:
        if margin != kept and sums.kind[sums.base[margin]] != BOXES:
            margins[size] = margin
            size += 1
    free = _apart(four, np.arange(len(chosen)), len(units.n), margins[:size], sums)
    source, target = np.empty(2 * len(free), np.int64), np.empty(2 * len(free), np.int64)
    for i in range(len(free)):
        source[i], source[len(free) + i] = four[0, free[i]], four[1, free[i]]
        target[i], target[len(free) + i] = four[2, free[i]], four[3, free[i]]
    return source, target


@part
def _longer(one: Int64Array, size: Whole, more: Whole) -> Int64Array:
    """An array with room for more entries behind the first ones."""
    if size + more <= len(one):
        return one
    out = np.empty(2 * (size + more), dtype=np.int64)
    for i in range(size):
        out[i] = one[i]
    return out


@part
def _moved(
    asked: Int64Array,
    judged: Int64Array,
    weights: Int64Array,
    most: Whole,
    number: Whole,
    patience: Whole,
    is_last: bool,
    units: Units,
    sums: Sums,
    budget: SearchBudget,
) -> tuple[Whole, Whole]:
    """Make rounds for one margin after the other, as long as it helps; what came after the best one is undone.

    asked: The first margins; any other one in a last turn.
    Moves are judged by what they add to the penalties of margins, with weights, and cost at most so much.
    is_last: As long as moves are found, a few rounds at most; nothing is undone.

    Returns: Number of the next round; the penalty of the margins that are asked for, where it ends.
    """
    mark = least = now = _penalty(asked, sums)
    if not (least or is_last):
        return number, least
    prices = _priced(sums)
    left, came = np.empty(1024, dtype=np.int64), np.empty(1024, dtype=np.int64)
    made, idle, n_asked = 0, 0, len(asked)
    index, is_indexed = _Index(left[:0], left[:0], 0), False
    for _ in range(budget.last_rounds if is_last else budget.rounds):
        if not is_last and (not least or idle > patience):
            break
        turn, at = number // n_asked, number % n_asked
        if n_asked == 1 or number < EXCHANGES_FROM or turn % 2 == 0:
            source, target = _single_moves(
                asked[at], judged, weights, most, number, units, sums, prices, budget
            )
        else:
            if not is_indexed:
                index, is_indexed = _indexed(units), True
            kept = asked[(at + 1 + turn // 2 % (n_asked - 1)) % n_asked]
            source, target = _exchanges(
                asked[at], kept, judged, weights, most, number, units, sums, prices, index, budget
            )
        number += 1
        now += _move_priced(source, target, n_asked, units.n, sums, prices)
        if is_last:
            if not len(source):
                break
            continue
        left, came = _longer(left, made, len(source)), _longer(came, made, len(source))
        for i in range(len(source)):
            left[made + i], came[made + i] = source[i], target[i]
        made += len(source)
        if now < least:
            least, made = now, 0
        idle += 1
        if 100 * now < PROGRESS * mark:
            mark, idle = now, 0
    _move_priced(came[:made], left[:made], n_asked, units.n, sums, prices)
    return number, least


# Where rounding starts: whole numbers whose sums over fibres are as asked for. What a run of neighbours in a fibre is
# off stays small, however long it is; of two columns a run along either.


@kernel
def fibres_of(fibre_of: Int64Array, box: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Put the cells of each fibre, which stand together, in the order of their boxes.

    Returns: order; fibre: Of each cell in that order, numbered from 0; heads: First cell of each.
    """
    n = len(fibre_of)
    order, fibre, heads = np.arange(n), np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    own, same = box.copy(), box.copy()
    size = 0
    for i in range(n):
        if i == 0 or fibre_of[i] != fibre_of[i - 1]:
            heads[size] = i
            size += 1
        fibre[i] = size - 1
    for one in range(size):
        begin, end = heads[one], heads[one + 1] if one + 1 < size else n
        for i in range(begin + 1, end):
            if box[i] < box[i - 1]:
                _sort(own, order, same, begin, end)
                break
    return order, fibre, heads[:size].copy()


@part
def _by_running_sums(
    x: FloatArray, have: FloatArray, target: Int64Array, heads: Int64Array, start: Int64Array
) -> Int64Array:
    """Round each fibre by differences of floors of its running sum, from a keyed start in [0, 1).

    have: What each fibre holds. start: Of each fibre, in fixed point.
    """
    n = np.empty(len(x), dtype=np.int64)
    running = 0.0
    for one in range(len(heads)):
        begin, end = heads[one], heads[one + 1] if one + 1 < len(heads) else len(x)
        scale = target[one] / have[one] if have[one] > _NOTHING else 0.0
        base, before = 0.0, np.int64(0)
        for i in range(begin, end):
            running += x[i]
            if i == begin:
                base = running - x[i]
            inside = np.int64((running - base) * scale * (1 << _FIXED))
            upto = min(max((inside + start[one]) >> _FIXED, 0), target[one])
            if i == end - 1:
                upto = target[one]  # whatever floats made of it
            n[i] = upto - before
            before = upto
    return n


@part
def _in_halves(
    x: FloatArray, fibre: Int64Array, code: Int64Array, target: Int64Array, bits: UInt64Array
) -> Int64Array:
    """Round a table of two columns so that runs along both are near their fitted rows.

    The rows of each fibre are split between the lower and the upper half of the codes, these again, and so on. What a
    half gets follows its running sum over fibres, from a keyed start: so of two codes each is within 1 of its fitted
    rows over any run of fibres. Further splits follow what their whole has got, and are a little further off.

    bits: Of each split, the widest first.

    Returns: Where a fibre has fitted rows, cells without any get none.
    """
    n_fibres, depth = len(target), 0
    while 1 << depth < len(bits) + 1:
        depth += 1
    sums, held = np.zeros(n_fibres), np.zeros(n_fibres)
    for i in range(len(x)):
        sums[fibre[i]] += x[i]
    for i in range(len(x)):
        held[fibre[i]] += 1.0 if sums[fibre[i]] <= _NOTHING else x[i]
    # Heap of splits: 1 is all codes, and the halves of one are twice its number and the next.
    width = 1 << depth
    fitted = np.zeros((2 * width, n_fibres))
    for i in range(len(x)):
        one = fibre[i]
        own = 1.0 if sums[one] <= _NOTHING else x[i]
        fitted[width + code[i], one] = own * (target[one] / held[one])
    for split in range(width - 1, 0, -1):
        fitted[split] = fitted[2 * split] + fitted[2 * split + 1]
    n = np.zeros((2 * width, n_fibres), dtype=np.int64)
    n[1] = target
    due, loose = np.empty(n_fibres), np.empty(n_fibres)
    for split in range(1, width):
        _due(n[split], fitted[2 * split], fitted[split], due, loose)
        running = np.int64(bits[split - 1] >> np.uint64(64 - _FIXED))
        before = np.int64(0)
        for one in range(n_fibres):
            running += np.int64(due[one] * (1 << _FIXED) + 0.5)
            low = (running >> _FIXED) - before
            before += low
            n[2 * split, one], n[2 * split + 1, one] = low, n[split, one] - low
    out = np.empty(len(x), dtype=np.int64)
    for i in range(len(x)):
        out[i] = n[width + code[i], fibre[i]]
    return out


@part
def _due(
    n: Int64Array, half: FloatArray, whole: FloatArray, due: FloatArray, loose: FloatArray
) -> None:
    """What a half is due of the rows of each fibre: its share, tilted so that stretches of fibres have what was fitted.

    A stretch holds so many loose rows; what is left over ends the last one.
    """
    running = 0.0
    for one in range(len(n)):
        share = half[one] / whole[one] if whole[one] > _NOTHING else 0.0
        due[one] = n[one] * share
        loose[one] = due[one] * (1.0 - share)
        running += loose[one]
    last: Whole = max(np.int64(running / _STRETCH) - 1, 0)
    running = 0.0
    begin, number = 0, np.int64(0)
    for one in range(len(n) + 1):
        now = number
        if one < len(n):
            running += loose[one]
            now = min(np.int64(running / _STRETCH), last)
        if one == 0:
            number = now
        if now != number or one == len(n):
            over = room = 0.0
            for i in range(begin, one):
                over += due[i] - half[i]
                room += loose[i]
            tilt = over / room if room > 2.0**-_FIXED else 0.0
            tilt = min(max(tilt, -1.0), 1.0)
            for i in range(begin, one):
                due[i] -= loose[i] * tilt
            begin, number = one, now


# Rounding as a whole.


def controlled_rounding(
    x: FloatArray,
    codes: Codes,
    last: int,
    margins: Margins,
    box: Int64Array,
    key: bytes,
    budget: SearchBudget = BUDGET,
) -> tuple[Int64Array, bool]:
    """Round cells to whole numbers.

    x: Fitted rows. codes, last: As of `Candidates`. box: Of each cell.

    Returns: n: All >= 0. Sums over fibres are as asked for; all others as nearly as the moves allow; is_met: So are
    those over fibres that have no cells, and those of the column along them.
    """
    if not len(x):
        return np.zeros(0, dtype=np.int64), False
    k = codes.shape[1]
    fibres = len(margins.of) - 1 if len(margins.of) > k else 1 - last
    order, fibre, heads = fibres_of(margins.of[fibres], box)
    x = x[order]
    n_fibres = int(margins.base[fibres + 1] - margins.base[fibres])
    words = siphash(key, [np.arange(max(len(x), n_fibres), dtype=np.uint64)])
    n_codes = int(margins.base[last + 1] - margins.base[last])
    is_halved = k == 2 and has_runs(len(heads), n_codes, len(x))
    depth = int(codes[:, last].max()).bit_length() if is_halved else 0
    # Widths of splits, and their levels; fibres' names are below.
    names = [np.arange(1 << i) + ((depth - i) << 32) for i in range(depth)]
    bits = siphash(key, [np.concatenate(names).astype(np.uint64)]) if names else words[:0]
    have = np.add.reduceat(x, heads)
    return rounded(
        x, order, fibre, heads, have, margins, k, fibres, last, box, words, bits, is_halved, budget
    )


@kernel
def rounded(
    x: FloatArray,
    order: Int64Array,
    fibre: Int64Array,
    heads: Int64Array,
    have: FloatArray,
    margins: Margins,
    n_columns: int,
    fibres: int,
    last: int,
    box: Int64Array,
    words: UInt64Array,
    bits: UInt64Array,
    is_halved: bool,
    budget: SearchBudget,
) -> tuple[Int64Array, bool]:
    """Round cells; `controlled_rounding` says what is returned.

    x, fibre: In the order of fibres and boxes. have: What each fibre holds. fibres: The margin that they are.
    words: 64 bits of each name of a fibre, and of each number of a cell.
    """
    n_cells, n_fibres = len(x), len(heads)
    target, start = np.empty(n_fibres, dtype=np.int64), np.empty(n_fibres, dtype=np.int64)
    for one in range(n_fibres):
        name = margins.of[fibres, order[heads[one]]]
        target[one] = margins.low[margins.base[fibres] + name]
        start[one] = np.int64(words[name] >> np.uint64(64 - _FIXED))
    code, lot = np.empty(n_cells, dtype=np.int64), np.empty(n_cells, dtype=np.int64)
    for i in range(n_cells):
        code[i] = margins.of[last, order[i]]
        lot[i] = np.int64(words[i] >> np.uint64(48))
    if is_halved:
        n = _in_halves(x, fibre, code, target, bits)
    else:
        n = _by_running_sums(x, have, target, heads, start)
    ends = np.append(heads, np.int64(n_cells))
    n_narrower = max(len(margins.of) - n_columns - 1, 0)
    sums = _asked_for(margins, n_columns, n_narrower, last, order, box, x, n)
    implied = False  # the column's counts follow from tables that have the column
    for margin in range(n_narrower):
        implied = implied or _tells(sums.of[margin], code)
    units = Units(n, x, fibre, ends, lot, code)
    # Move units until every sum that is asked for is met, or no round helps any more. First as long as no move costs
    # boxes more than it is worth. Where that leaves faults, they may cost boxes more on their way, and filled counts
    # are asked for too; if some are left even so, nothing is won, and the boxes get back what they gave. In the end
    # what repair would do blindly; then boxes, where that costs nobody else.
    column, boxes = np.int64(n_narrower), np.int64(n_narrower + 1)
    asked = np.arange(n_narrower + (not implied))
    judged, weights = np.append(asked, boxes), np.full(len(asked) + 1, NARROWER)
    weights[len(asked)] = BOX
    patience = min(max(budget.work // n_cells, budget.least_patience), budget.patience)
    is_bold = n_narrower > 0 and n_cells <= budget.bold_cells
    before, off = n, sums.off
    number, least = np.int64(0), np.int64(1)
    for step in range(6):
        is_last, most, own = step == 0 or step > 3, np.int64(-1), asked
        if step == 0:
            if n_narrower:
                continue
            own = np.arange(boxes, boxes + 1)
        elif step == 1:
            most = np.int64(CAREFUL if n_narrower else 0)
        elif step < 4:
            if not is_bold or (step == 3 and not least):
                continue
            most = np.int64(BOLD[step - 2])
            if step == 2:
                before, off = n.copy(), sums.off.copy()
                _ask_for_filled(sums, column, FILLED)
        elif step == 4:
            if is_bold and least:
                n[:], sums.off[:] = before, off
                _ask_for_filled(sums, column, LOOSE)
            own, judged, most = np.arange(column, column + 1), np.arange(n_narrower), np.int64(ANY)
            weights = np.ones(n_narrower, dtype=np.int64)
        else:
            own, judged = np.arange(boxes, boxes + 1), np.arange(boxes + 1)
            weights = np.full(boxes + 1, STIFF)
            weights[boxes] = BOX
        begin = np.int64(0) if is_last else number
        end, left = _moved(
            own, judged, weights, most, begin, patience, is_last, units, sums, budget
        )
        if not is_last:
            number, least = end, left
    out = np.empty(n_cells, dtype=np.int64)
    for i in range(n_cells):
        out[order[i]] = n[i]
    is_met = True
    for margin in (fibres, last):
        off = -margins.low[margins.base[margin] : margins.base[margin + 1]]
        for i in range(n_cells):
            off[margins.of[margin, i]] += out[i]
        for one in off:
            is_met &= one == 0
    return out, is_met


@part
def _asked_for(
    margins: Margins,
    n_columns: Whole,
    n_narrower: Whole,
    last: Whole,
    order: Int64Array,
    box: Int64Array,
    x: FloatArray,
    n: Int64Array,
) -> Sums:
    """Sums of the narrower tables, of the column along the fibres, and of boxes."""
    n_boxes = np.int64(0)
    for one in box:
        n_boxes = max(n_boxes, one + 1)
    of = np.empty((n_narrower + 2, len(x)), dtype=np.int64)
    base = np.zeros(n_narrower + 3, dtype=np.int64)
    for margin in range(n_narrower + 1):
        own = n_columns + margin if margin < n_narrower else last
        base[margin + 1] = base[margin] + margins.base[own + 1] - margins.base[own]
    base[n_narrower + 2] = base[n_narrower + 1] + n_boxes
    off, kind = np.zeros(base[-1], dtype=np.int64), np.full(base[-1], BOXES, dtype=np.int64)
    fitted, held = np.zeros(base[-1], dtype=np.int64), np.zeros(n_boxes)
    for margin in range(n_narrower + 1):
        own = n_columns + margin if margin < n_narrower else last
        begin = margins.base[own]
        for one in range(margins.base[own + 1] - begin):
            low, high = margins.low[begin + one], margins.high[begin + one]
            kind[base[margin] + one] = LOOSE if high > low else MEASURED
            off[base[margin] + one] = -((low + high) // 2)
        for i in range(len(x)):
            of[margin, i] = margins.of[own, order[i]]
    for i in range(len(x)):
        of[n_narrower + 1, i] = box[order[i]]
        held[box[order[i]]] += x[i]
    for one in range(n_boxes):
        fitted[base[n_narrower + 1] + one] = np.int64(np.floor(held[one] * PARTS_OF_UNIT + 0.5))
    for margin in range(n_narrower + 2):
        for i in range(len(x)):
            off[base[margin] + of[margin, i]] += n[i]
    cells, first = by_part(of, base)
    return Sums(of, base, cells, first, off, kind, fitted)


@part
def _tells(of: Int64Array, code: Int64Array) -> bool:
    """Whether all cells of a part have one code."""
    size = np.int64(0)
    for one in of:
        size = max(size, one + 1)
    some = np.full(size, -1)
    for i in range(len(of)):
        if some[of[i]] >= 0 and some[of[i]] != code[i]:
            return False
        some[of[i]] = code[i]
    return True


@part
def _ask_for_filled(sums: Sums, column: Whole, kind: Whole) -> None:
    """From now on ask for filled counts, or let them be off by one."""
    for at in range(sums.base[column]):
        if sums.kind[at] != MEASURED:
            sums.kind[at] = kind


# Settling: two rows anywhere in the table exchange their codes of a column.


class Cells(NamedTuple):
    """All cells that may hold rows."""

    key: Int64Array  # shape (n_cells,): Ascending; a code more of a column adds always the same
    n: Int64Array  # shape (n_cells,): Changed in place


class Along(NamedTuple):
    """Cells by their codes of the column that is exchanged."""

    code: Int64Array  # shape (n_cells,)
    order: Int64Array  # shape (1, n_cells): Cells by code
    first: Int64Array  # shape (n_codes + 1,): Where each code begins


@part
def _drawn(rows: tuple[Int64Array, Int64Array], one: Whole, bits: Whole) -> Whole:
    """One of the cells of a part by random bits, -1 if it has none."""
    held, first = rows
    count = first[one + 1] - first[one]
    return held[first[one] + bits % count] if count > 0 else np.int64(-1)


@part
def _any_cell(margin: Whole, one: Whole, bits: Whole, sums: Sums) -> Whole:
    """A cell of a part by random bits, be it empty or not; -1 if it has none."""
    at = sums.base[margin] + margin + one
    count = sums.first[at + 1] - sums.first[at]
    return sums.order[margin, sums.first[at] + bits % count] if count > 0 else np.int64(-1)


@part
def _first_row(
    margin: Whole,
    column: Whole,
    wanted: Whole,
    is_over: bool,
    bits: Whole,
    own: tuple[Int64Array, Int64Array],
    others: tuple[Int64Array, Int64Array],
    sums: Sums,
) -> tuple[Whole, Whole]:
    """A row that leaves a sum that is too large, or comes to one that is too small; its cell, and where it goes."""
    mask = (1 << BITS) - 1
    low, high = bits & mask, (bits >> BITS) & mask
    if is_over:
        leaves = _drawn(own, wanted, low)
        if leaves < 0:
            return leaves, leaves
        return leaves, _any_cell(column, sums.of[column, leaves], high, sums)
    comes = _any_cell(margin, wanted, low, sums)
    if comes < 0:
        return comes, comes
    return _drawn(others, sums.of[column, comes], high), comes


@part
def _second_row(
    one: Whole,
    to_one: Whole,
    bits: Whole,
    cells: Cells,
    along: Along,
    alike: tuple[Int64Array, Int64Array],
) -> tuple[Whole, Whole]:
    """A row that gives the code which the first one takes and takes its; its cell, and where it goes; -1 if none.

    Half are drawn by what they are, half by what they become: of the rows with a common code few can take a rare one.
    """
    shift = cells.key[to_one] - cells.key[one]
    if bits % 2 == 0:
        other = _drawn(alike, along.code[to_one], bits >> 1)
        if other < 0:
            return other, other
        return other, _cell_of(cells.key, cells.key[other] - shift)
    own = along.code[one]
    count = along.first[own + 1] - along.first[own]
    to_other = along.order[0, along.first[own] + (bits >> 1) % count]
    other = _cell_of(cells.key, cells.key[to_other] + shift)
    if other >= 0 and cells.n[other] <= 0:
        other = np.int64(-1)
    return other, to_other


@part
def _cost_of_exchange(
    one: Whole, other: Whole, to_one: Whole, to_other: Whole, sums: Sums
) -> Whole:
    """What an exchange adds to the penalties of all sums."""
    cost, of, base = np.int64(0), sums.of, sums.base
    for margin in range(of.shape[0]):
        for source, target in ((one, to_other), (other, to_one)):
            if of[margin, source] != of[margin, target]:
                at = base[margin] + of[margin, source]
                cost += _change(sums.off[at], sums.kind[at], sums.fitted[at], _LESS)
                at = base[margin] + of[margin, target]
                cost += _change(sums.off[at], sums.kind[at], sums.fitted[at], _MORE)
    return cost


@kernel
def exchange(
    margin: int,
    column: int,
    far: Int64Array,
    bits: Int64Array,
    cells: Cells,
    along: Along,
    sums: Sums,
) -> int:
    """Pairs of rows exchange their codes of a column where sums of a margin are far off. Returns how many did.

    bits: So many random numbers as are tried for each of these sums. Margin `column` is the table without the column.
    """
    n, base = cells.n, sums.base
    held = _where(n)
    own = _grouped(held, sums.of[margin], base[margin + 1] - base[margin])
    others = _grouped(held, sums.of[column], base[column + 1] - base[column])
    alike = _grouped(held, along.code, len(along.first) - 1)
    four = np.empty((4, len(far)), dtype=np.int64)
    number = np.empty(len(far), dtype=np.int64)
    found = 0
    tries = len(bits) // max(len(far), 1)
    for i in range(len(far)):
        least, best = 0, -1
        is_over = sums.off[base[margin] + far[i]] > 0
        for step in range(tries):
            at = i * tries + step
            one, to_one = _first_row(margin, column, far[i], is_over, bits[at], own, others, sums)
            if one < 0 or to_one < 0 or one == to_one:
                continue
            other, to_other = _second_row(one, to_one, bits[at] >> 2 * BITS, cells, along, alike)
            if other < 0 or to_other < 0:
                continue
            cost = _cost_of_exchange(one, other, to_one, to_other, sums)
            if cost < least:
                least, best = cost, at
                four[0, found], four[1, found] = one, other
                four[2, found], four[3, found] = to_one, to_other
        if best >= 0:
            number[found] = best + (0 if is_over else _SHORT)
            found += 1
    kept = _apart(four[:, :found].copy(), number[:found], len(n), np.arange(len(base) - 1), sums)
    for i in kept:
        source = np.array([four[0, i], four[1, i]])
        target = np.array([four[2, i], four[3, i]])
        _move(source, target, n, sums)
    return len(kept)


def settle(
    codes: Codes,
    n: Int64Array,
    at: Int64Array,
    tables: LockedTo,
    key: bytes,
    budget: SearchBudget = BUDGET,
) -> tuple[Int64Array, int]:
    """Bring sums that are far off a narrower table nearer to it.

    codes: Of all cells that may hold rows, in lexicographic order.
    at, tables: Position of each cell in every table that they are locked to.

    Returns: Rows of each cell; the largest difference that is left.
    """
    n = n.copy()
    sums = locked_sums(at, n, tables)
    sizes = [int(code) + 1 for code in codes.max(axis=0, initial=0)]
    if math.prod(sizes) > KEY_LIMIT:
        return n, int(np.abs(sums.off).max())
    cells = Cells(cell_keys(codes.T, sizes, n=len(n))[0], n)
    columns = []
    for j, size in enumerate(sizes):
        code = codes[:, j].astype(np.int64)
        columns.append(Along(code, *by_part(code[np.newaxis], np.array([0, size]))))
    turns = [(m, j) for m in range(len(at)) for j in range(len(sizes)) if m != j]
    idle = 0
    for number in range(budget.settlings):
        if idle >= budget.idle_turns * len(turns):
            break
        margin, column = turns[number % len(turns)]
        off = np.abs(sums.off[sums.base[margin] : sums.base[margin + 1]])
        far = np.flatnonzero(off >= FAR)
        made = 0
        if len(far):
            far = far[np.argsort(-off[far], kind="stable")][
                : budget.settled_at_once
            ]  # the farthest first
            tries = np.arange(len(far) * budget.tries, dtype=np.uint64)
            bits = siphash(key, [tries, np.full_like(tries, number)]) >> np.uint64(1)
            made = exchange(
                margin, column, far, bits.astype(np.int64), cells, columns[column], sums
            )
        idle = 0 if made else idle + 1
    return n, int(np.abs(sums.off).max())


@kernel
def locked_sums(at: Int64Array, n: Int64Array, tables: LockedTo) -> Sums:
    """What cells are off the tables that they are locked to."""
    kind, off = np.full(len(tables.n), FILLED), -tables.n
    for one in range(len(kind)):
        if tables.measured[one]:
            kind[one] = MEASURED
    for table in range(len(at)):
        for i in range(len(n)):
            off[tables.first[table] + at[table, i]] += n[i]
    order, first = by_part(at, tables.first)
    return Sums(at, tables.first, order, first, off, kind, np.zeros_like(off))
