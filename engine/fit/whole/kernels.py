"""Units that move between cells, and exchanges between rows, until sums are met. Whole numbers only.

`Sums` holds what several margins are off, one behind another; the kernels change it in place, and the cells with it.
`rounding` and `settling` say what the moves are for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engine.kernels import Whole, kernel, part
from engine.schema import BoolArray, FloatArray, Int64Array

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
ROUNDS, LAST_ROUNDS, EXCHANGES_FROM = 400, 8, 12
"""Most rounds; most rounds for columns and boxes at the end; the first round that may exchange."""
PROGRESS = 85
"""Rounds have helped once the penalty is at most so many hundredths of what it was."""
MOST = 1 << 15
"""About the most cells of sums that are too small that a round looks at; the others wait their turn."""
NEAR = 16
"""Most units of the other fibre that may come back in an exchange."""
TRIES, BITS = 64, 21
"""Exchanges that settling tries for a sum; a random number is drawn from so many bits."""
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


@kernel
def by_part(of: Int64Array, base: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Cells of each margin by their part, and where each part begins."""
    n_margins, n_cells = of.shape
    order = np.empty((n_margins, n_cells), dtype=np.int64)
    first = np.zeros(base[n_margins] + n_margins, dtype=np.int64)
    for margin in range(n_margins):
        begin, size = base[margin] + margin, base[margin + 1] - base[margin]
        for cell in range(n_cells):
            first[begin + of[margin, cell] + 1] += 1
        for one in range(size):
            first[begin + one + 1] += first[begin + one]
        free = first[begin : begin + size].copy()
        for cell in range(n_cells):
            one = of[margin, cell]
            order[margin, free[one]] = cell
            free[one] += 1
    return order, first


@part
def _off(sums: Sums, at: Whole) -> Whole:
    """Whole units that a sum is too large; one that may be off by one for free is not."""
    off = sums.off[at]
    if sums.kind[at] == BOXES:
        apart = off * PARTS_OF_UNIT - sums.fitted[at]
        whole = abs(apart) // PARTS_OF_UNIT
        return whole if apart > 0 else -whole
    if sums.kind[at] == LOOSE and abs(off) <= 1:
        return np.int64(0)
    return off


@part
def _change(sums: Sums, at: Whole, which: Whole) -> Whole:
    """What a unit less or more adds to the penalty of a sum; of a box the square of what it is off."""
    off = sums.off[at]
    if sums.kind[at] == BOXES:
        change = PARTS_OF_UNIT + (4 * which - 2) * (off * PARTS_OF_UNIT - sums.fitted[at])
        return min(max(change, -MOST_COST), MOST_COST)
    near: Whole = min(max(off, -REACH), REACH)
    return _PENALTY[which, sums.kind[at], near + REACH + 1]


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
        prices[0, at], prices[1, at] = _change(sums, at, _LESS), _change(sums, at, _MORE)
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
    source: Int64Array, target: Int64Array, n: Int64Array, sums: Sums, prices: Int64Array
) -> None:
    """Book one unit a move, and what the sums that change cost from then on."""
    for sign, cells in ((-1, source), (1, target)):
        for cell in cells:
            n[cell] += sign
            for margin in range(sums.of.shape[0]):
                at = sums.base[margin] + sums.of[margin, cell]
                sums.off[at] += sign
                prices[0, at] = _change(sums, at, _LESS)
                prices[1, at] = _change(sums, at, _MORE)


# Rounds: each looks at one margin, and only at the cells of its sums that are too large or too small. For every sum
# that is too large the best move to one that is too small is found; those that do not collide are made together. A move
# may cost nothing, so that faults walk through the table until they meet.


@part
def _cost(
    cell: Whole,
    which: Whole,
    sums: Sums,
    prices: Int64Array,
    judged: Int64Array,
    weights: Int64Array,
) -> Whole:
    """What a unit less or more in a cell adds to the penalties of all margins that judge."""
    cost = np.int64(0)
    for j in range(len(judged)):
        margin = judged[j]
        cost += prices[which, sums.base[margin] + sums.of[margin, cell]] * weights[j]
    return cost


@part
def _lot(units: Units, cell: Whole, number: Whole) -> Whole:
    """16 bits of a cell, others in every round."""
    return (units.lot[cell] * (2 * number + 1) * _ODD) & 0xFFFF


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
    asked: Whole, number: Whole, n: Int64Array, sums: Sums
) -> tuple[Int64Array, Int64Array]:
    """Cells with units in sums that are too large, and cells of sums that are too small."""
    size = sums.base[asked + 1] - sums.base[asked]
    over, short = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    n_over = n_short = 0
    for one in range(size):
        off = _off(sums, sums.base[asked] + one)
        if off > 0:
            over[n_over] = one
            n_over += 1
        elif off < 0:
            short[n_short] = one
            n_short += 1
    turns = 1 + len(n) // max(size, 1) * n_short // MOST
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
def _by_fibre(cells: Int64Array, fibre: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Cells by fibre, in each as they came, and where each fibre begins."""
    first = np.zeros(fibre[-1] + 2, dtype=np.int64)
    for cell in cells:
        first[fibre[cell] + 1] += 1
    for one in range(len(first) - 1):
        first[one + 1] += first[one]
    free, grouped = first[:-1].copy(), np.empty_like(cells)
    for cell in cells:
        grouped[free[fibre[cell]]] = cell
        free[fibre[cell]] += 1
    return grouped, first


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
    cells, first = _by_fibre(cells, units.fibre)
    cost = np.empty(len(cells), dtype=np.int64)
    rank = np.empty(len(cells), dtype=np.int64)
    for i in range(len(cells)):
        cell = cells[i]
        cost[i] = _cost(cell, which, sums, prices, judged, weights)
        late = (units.n[cell] > units.x[cell]) == (which == _MORE)
        rank[i] = ((cost[i] * 2 + late + _MIDDLE) << 16) | _lot(units, cell, number)
    for one in range(len(first) - 1):
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
            rank = (cost[pairs] << 48) | (_lot(units, source[i], number) << 32) | pairs
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
                slot[i] = of * SLOTS + _lot(units, source[move], number) % free
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
) -> tuple[Int64Array, Int64Array]:
    """Units to move within their fibres, from sums of one margin that are too large to ones that are too small."""
    source, target = _faulty(asked, number, units.n, sums)
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
def _find(index: _Index, fibre: Whole, code: Whole) -> Whole:
    """A cell by its fibre and code, -1 if there is none."""
    wanted = fibre * index.width + code
    at = np.searchsorted(index.key, wanted)
    if at < len(index.key) and index.key[at] == wanted:
        return index.cell[at]
    return np.int64(-1)


@part
def _across(
    asked: Whole, kept: Whole, number: Whole, units: Units, sums: Sums
) -> tuple[Int64Array, Int64Array]:
    """A unit of each sum that is too large, and where it is wanted: in another fibre, in the same sum of `kept`."""
    source, target = _faulty(asked, number, units.n, sums)
    none = np.empty(0, dtype=np.int64)
    if not len(source) or not len(target):
        return none, none
    of, base = sums.of, sums.base
    best = np.full(base[kept + 1] - base[kept], _FAR)
    for cell in target:
        one = of[kept, cell]
        best[one] = min(best[one], (_lot(units, cell, number) << 32) | cell)
    given = np.full(base[asked + 1] - base[asked], _FAR)
    size = 0
    for cell in source:
        if best[of[kept, cell]] < _FAR:
            one = of[asked, cell]
            given[one] = min(given[one], (_lot(units, cell, number) << 32) | size)
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
def _unshared(one: Int64Array, other: Int64Array, size: Whole) -> Int64Array:
    """Which pairs share none of their cells with one of a larger number."""
    taken = np.full(size, -1)
    for i in range(len(one)):
        taken[one[i]] = max(taken[one[i]], i)
        taken[other[i]] = max(taken[other[i]], i)
    keep = np.empty(len(one), dtype=np.bool_)
    for i in range(len(one)):
        keep[i] = taken[one[i]] == i and taken[other[i]] == i
    return _where(keep)


@part
def _apart(
    chosen: Int64Array,
    given: Int64Array,
    wanted: Int64Array,
    pair: Int64Array,
    back: Int64Array,
    place: Int64Array,
    kept: Whole,
    judged: Int64Array,
    sums: Sums,
) -> tuple[Int64Array, Int64Array]:
    """Of the exchanges that share a sum of a margin those of the largest number; their four cells."""
    for margin in judged:
        if margin == kept or sums.kind[sums.base[margin]] == BOXES:
            continue
        taken = np.full(sums.base[margin + 1] - sums.base[margin], -1)
        for number in range(len(chosen)):
            i = chosen[number]
            for cell in (given[pair[i]], wanted[pair[i]], back[i], place[i]):
                of = sums.of[margin, cell]
                taken[of] = max(taken[of], number)
        size = 0
        for number in range(len(chosen)):
            i = chosen[number]
            is_free = True
            for cell in (given[pair[i]], wanted[pair[i]], back[i], place[i]):
                is_free = is_free and taken[sums.of[margin, cell]] == number
            if is_free:
                chosen[size] = i
                size += 1
        chosen = chosen[:size]
    one, other = given[pair[chosen]], wanted[pair[chosen]]
    return np.concatenate((one, back[chosen])), np.concatenate((place[chosen], other))


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
) -> tuple[Int64Array, Int64Array]:
    """Moves in pairs for the faults of one margin, which leave another (`kept`) as it is."""
    given, wanted = _across(asked, kept, number, units, sums)
    fibre, code = units.fibre, units.code
    full = _where(units.n)
    pair = np.empty(len(given) * NEAR, dtype=np.int64)
    back, place, cost = np.empty_like(pair), np.empty_like(pair), np.empty_like(pair)
    best = np.full(len(given), _FAR)
    found = 0
    for i in range(len(given)):
        begin = np.searchsorted(full, units.heads[fibre[wanted[i]]])
        size = np.searchsorted(full, units.heads[fibre[wanted[i]] + 1]) - begin
        own = _cost_of_two(given[i], wanted[i], kept, sums, prices, judged, weights)
        for step in range(min(size, NEAR)):
            cell = full[begin + (step + _lot(units, given[i], number)) % size]
            goes = _find(index, fibre[given[i]], code[cell])
            if goes < 0 or code[cell] == code[given[i]]:
                continue
            total = own + _cost_of_two(cell, goes, kept, sums, prices, judged, weights)
            pair[found], back[found], place[found], cost[found] = i, cell, goes, total
            rank = (total << 48) | (_lot(units, cell, number) << 32) | found
            best[i] = min(best[i], rank)
            found += 1
    chosen = _affordable(best, cost, most)
    chosen = chosen[_unshared(given[pair[chosen]], back[chosen], len(units.n))]
    return _apart(chosen, given, wanted, pair, back, place, kept, judged, sums)


@part
def _longer(one: Int64Array, size: Whole, more: Whole) -> Int64Array:
    """An array with room for more entries behind the first ones."""
    if size + more <= len(one):
        return one
    out = np.empty(2 * (size + more), dtype=np.int64)
    for i in range(size):
        out[i] = one[i]
    return out


@kernel
def go_on(
    asked: Int64Array,
    judged: Int64Array,
    weights: Int64Array,
    most: int,
    number: int,
    patience: int,
    units: Units,
    sums: Sums,
) -> tuple[int, int]:
    """Make rounds for one margin after the other, as long as it helps; what came after the best one is undone.

    Moves are judged by what they add to the penalties of margins, with weights, and cost at most so much.

    Returns: Number of the next round; the penalty of the margins that are asked for, where it ends.
    """
    mark = least = _penalty(asked, sums)
    if not least:
        return number, least
    prices = _priced(sums)
    left, came = np.empty(1024, dtype=np.int64), np.empty(1024, dtype=np.int64)
    made, idle, n_asked = 0, 0, len(asked)
    index, is_indexed = _Index(left[:0], left[:0], 0), False
    for _ in range(ROUNDS):
        if not least or idle > patience:
            break
        turn, at = number // n_asked, number % n_asked
        if n_asked == 1 or number < EXCHANGES_FROM or turn % 2 == 0:
            source, target = _single_moves(
                asked[at], judged, weights, most, number, units, sums, prices
            )
        else:
            if not is_indexed:
                index, is_indexed = _indexed(units), True
            kept = asked[(at + 1 + turn // 2 % (n_asked - 1)) % n_asked]
            source, target = _exchanges(
                asked[at], kept, judged, weights, most, number, units, sums, prices, index
            )
        number += 1
        _move_priced(source, target, units.n, sums, prices)
        left, came = _longer(left, made, len(source)), _longer(came, made, len(source))
        for i in range(len(source)):
            left[made + i], came[made + i] = source[i], target[i]
        made += len(source)
        now = _penalty(asked, sums)
        if now < least:
            least, made = now, 0
        idle += 1
        if 100 * now < PROGRESS * mark:
            mark, idle = now, 0
    _move_priced(came[:made], left[:made], units.n, sums, prices)
    return number, least


@kernel
def until_idle(
    asked: int, judged: Int64Array, weights: Int64Array, most: int, units: Units, sums: Sums
) -> None:
    """Single moves for one margin until a round finds none."""
    prices = _priced(sums)
    for number in range(LAST_ROUNDS):
        source, target = _single_moves(asked, judged, weights, most, number, units, sums, prices)
        if not len(source):
            return
        _move_priced(source, target, units.n, sums, prices)


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
def _rows_by(of: Int64Array, held: Int64Array, size: Whole) -> tuple[Int64Array, Int64Array]:
    """Cells that hold rows by their part, and where each part begins."""
    first = np.zeros(size + 1, dtype=np.int64)
    for cell in held:
        first[of[cell] + 1] += 1
    for one in range(size):
        first[one + 1] += first[one]
    free, grouped = first[:-1].copy(), np.empty(len(held), dtype=np.int64)
    for cell in held:
        grouped[free[of[cell]]] = cell
        free[of[cell]] += 1
    return grouped, first


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
def _cell_of(key: Int64Array, wanted: Whole) -> Whole:
    """A cell by its key, -1 if there is none."""
    at = np.searchsorted(key, wanted)
    return at if at < len(key) and key[at] == wanted else np.int64(-1)


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
                cost += _change(sums, base[margin] + of[margin, source], _LESS)
                cost += _change(sums, base[margin] + of[margin, target], _MORE)
    return cost


@part
def _exchanges_apart(
    four: Int64Array, number: Int64Array, n_cells: Whole, sums: Sums
) -> Int64Array:
    """Exchanges that share no cell that gives, and no sum, with one of a larger number."""
    kept, of, base = np.arange(len(number)), sums.of, sums.base
    for margin in range(-1, of.shape[0]):
        taken = np.full(n_cells if margin < 0 else base[margin + 1] - base[margin], -1)
        n_parts = 2 if margin < 0 else 4
        for i in kept:
            for j in range(n_parts):
                one = four[j, i] if margin < 0 else of[margin, four[j, i]]
                taken[one] = max(taken[one], number[i])
        size = 0
        for i in kept:
            is_free = True
            for j in range(n_parts):
                one = four[j, i] if margin < 0 else of[margin, four[j, i]]
                is_free = is_free and taken[one] == number[i]
            if is_free:
                kept[size] = i
                size += 1
        kept = kept[:size]
    return kept


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

    bits: `TRIES` random numbers for each of these sums. Margin `column` is the table without the column.
    """
    n, base = cells.n, sums.base
    held = _where(n)
    own = _rows_by(sums.of[margin], held, base[margin + 1] - base[margin])
    others = _rows_by(sums.of[column], held, base[column + 1] - base[column])
    alike = _rows_by(along.code, held, len(along.first) - 1)
    four = np.empty((4, len(far)), dtype=np.int64)
    number = np.empty(len(far), dtype=np.int64)
    found = 0
    for i in range(len(far)):
        least, best = 0, -1
        is_over = sums.off[base[margin] + far[i]] > 0
        for step in range(TRIES):
            at = i * TRIES + step
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
    kept = _exchanges_apart(four[:, :found], number[:found], len(n), sums)
    for i in kept:
        source = np.array([four[0, i], four[1, i]])
        target = np.array([four[2, i], four[3, i]])
        _move(source, target, n, sums)
    return len(kept)
