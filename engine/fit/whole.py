"""Whole numbers: controlled rounding of fitted cells to published margins, and what settles contradictions.

Rounding (Cox 1987, doi:10.1080/01621459.1987.10478456). Cells that share all columns but one are a fibre; its total is
always met. Fibre by fibre cells are rounded down, and the units that are left go where sums over other fibres have
fallen short of the fit so far (error diffusion). Then units move within fibres by stochastic local search: a sum that
is off is drawn, and of the moves that bring it nearer the cheapest is made, even if it costs something elsewhere; so
a deviation moves through the table until it cancels out (WalkSAT; Selman, Kautz and Cohen 1994). The best state
that was met counts.

Settling. Measured tables can contradict each other: no child has an income, yet the noisy number of blanks in a
district is not the sum of its noisy numbers of children. Rounding meets one of the tables exactly, so that another is
off by all of it. There two rows anywhere in the table exchange their codes of a column where that brings a sum nearer
that is far off; the other tables give way by ones. No row is added or lost, no column's counts change, and no row comes
to where a narrower table has none.

The penalty is the weighted sum of squares of what sums are off their targets, so that what cannot be met is spread
out by ones. Seeded by the sampling key; what decides an integer is a whole number, or made of + - * / in a fixed order.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from engine.cell_keys import KEY_LIMIT, cell_keys
from engine.fit.budget import BUDGET, SearchBudget
from engine.fit.cells import Candidates, LockedTo
from engine.fit.tree import Codes, Values
from engine.kernels import Whole, kernel, part
from engine.schema import FloatArray, Int32Array, Int64Array, UInt64Array
from engine.sticky_prf import siphash

UNIT = 8
"""Deviations are counted in eighths of a row, for the fitted rows of boxes are no whole numbers."""
MEASURED, FILLED, BOX = 8, 4, 1
"""Weights of squares: of a measured count, of one that was filled in, of the fitted rows of a released box."""
HARD = 1 << 12
"""Weight of the counts of the column along the fibres in the last search, which is for them alone."""
FAR = 2
"""A sum that is off by so many rows is settled."""
_NOTHING = 1e-200  # fitted rows too few to be divided by


class MarginSums(NamedTuple):
    """The sums of several margins, one behind another, and what each is off its target."""

    of: Int32Array  # shape (n_cells, n_margins): The sum of each margin that a cell is part of
    base: Int64Array  # shape (n_margins + 1,): Where the sums of each margin begin
    order: Int32Array  # shape (n_margins * n_cells,): Cells by the sum that they are part of
    first: Int64Array  # shape (n_sums + 1,): Where the cells of each sum begin
    off: Int64Array  # shape (n_sums,): Eighths of a row that each is too large; changed in place
    weight: Int64Array  # shape (n_sums,): Of the square of what it is off
    price: Int64Array  # shape (2, n_sums): What a row less, and one more, adds to the penalty


@part
def _grouped(of: Whole, size: Whole, each: Whole) -> tuple[Int32Array, Int64Array]:
    """Entries in the order of the group that each is in, divided by `each`; and where each group begins."""
    first, order = np.zeros(size + 1, dtype=np.int64), np.empty(len(of), dtype=np.int32)
    for one in of:
        first[one + 1] += 1
    for one in range(size):
        first[one + 1] += first[one]
    free = first[:-1].copy()
    for entry in range(len(of)):
        order[free[of[entry]]] = entry // each
        free[of[entry]] += 1
    return order, first


@part
def _penalty(at: Whole, more: Whole, sums: MarginSums) -> Whole:
    """What a sum with so many eighths more is off costs: nothing up to half a row, beyond it the square."""
    beyond: Whole = max(abs(sums.off[at] + more) - UNIT // 2, 0)
    return sums.weight[at] * beyond * beyond


@part
def _set_price(at: Whole, sums: MarginSums) -> None:
    """Note what a row less and one more cost from now on."""
    now = _penalty(at, 0, sums)
    sums.price[0, at] = _penalty(at, -UNIT, sums) - now
    sums.price[1, at] = _penalty(at, UNIT, sums) - now


@part
def _sums_of(
    of: Int32Array, base: Int64Array, target: Int64Array, weight: Int64Array, n: Int64Array
) -> MarginSums:
    """What cells are off their targets."""
    off = -target
    for cell in range(len(n)):
        for m in range(of.shape[1]):
            off[of[cell, m]] += UNIT * n[cell]
    order, first = _grouped(of.ravel(), base[-1], of.shape[1])
    sums = MarginSums(of, base, order, first, off, weight, np.empty((2, len(off)), dtype=np.int64))
    for at in range(len(off)):
        _set_price(at, sums)
    return sums


@kernel
def locked_sums(at: Int64Array, n: Int64Array, tables: LockedTo) -> MarginSums:
    """What cells are off the tables that they are locked to."""
    of = np.empty((len(n), len(at)), dtype=np.int32)
    for m in range(len(at)):
        for cell in range(len(n)):
            of[cell, m] = tables.first[m] + at[m, cell]
    weight = np.where(tables.measured, MEASURED, FILLED)
    return _sums_of(of, tables.first, UNIT * tables.n, weight, n)


@part
def _price(source: Whole, target: Whole, sums: MarginSums) -> Whole:
    """What a row that moves from one cell to another adds to the penalty."""
    price = np.int64(0)
    for m in range(sums.of.shape[1]):
        here, there = sums.of[source, m], sums.of[target, m]
        if here != there:
            price += sums.price[0, here] + sums.price[1, there]
    return price


@part
def _move(source: Whole, target: Whole, n: Int64Array, sums: MarginSums) -> None:
    """Move a row, and update what sums are off."""
    n[source] -= 1
    n[target] += 1
    for m in range(sums.of.shape[1]):
        here, there = sums.of[source, m], sums.of[target, m]
        sums.off[here] -= UNIT
        sums.off[there] += UNIT
        _set_price(here, sums)
        _set_price(there, sums)


_GOLDEN, _FIRST, _SECOND = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)


@part
def _drawn(state: UInt64Array, below: Whole) -> Whole:
    """A random whole number below another (SplitMix64)."""
    state[0] += _GOLDEN
    bits = state[0]
    bits = (bits ^ (bits >> np.uint64(30))) * _FIRST
    bits = (bits ^ (bits >> np.uint64(27))) * _SECOND
    bits ^= bits >> np.uint64(31)
    return np.int64(((bits >> np.uint64(32)) * np.uint64(below)) >> np.uint64(32))


# Controlled rounding.


def controlled_rounding(
    x: FloatArray,
    cells: Candidates,
    tables: LockedTo,
    values: Values,
    box: Int64Array,
    key: bytes,
    budget: SearchBudget = BUDGET,
) -> tuple[Int64Array, bool]:
    """Round cells to whole numbers.

    x: Fitted rows. tables: What the cells are locked to. box: Of each cell.

    Returns: n: All >= 0. Sums over fibres are met, all others as nearly as the search finds; is_met: So are the counts
    of all columns.
    """
    if not len(x):
        return np.zeros(0, dtype=np.int64), False
    seed = siphash(key, [np.zeros(1, dtype=np.uint64)])
    return rounded(x, cells, tables, values, box, seed, budget)


@kernel
def rounded(
    x: FloatArray,
    cells: Candidates,
    tables: LockedTo,
    values: Values,
    box: Int64Array,
    state: UInt64Array,
    budget: SearchBudget,
) -> tuple[Int64Array, bool]:
    """Round cells; `controlled_rounding` says what is returned. Fibres are the cells of the table without `last`."""
    fibre_of, begin = cells.at[cells.last], tables.first[cells.last]
    heads, fibre, number = np.full(len(x) + 1, len(x)), np.empty(len(x), dtype=np.int64), -1
    for i in range(len(x)):
        if i == 0 or fibre_of[i] != fibre_of[i - 1]:
            number += 1
            heads[number] = i
        fibre[i] = number
    heads = heads[: number + 2]
    of, base, target, weight = _targets(x, cells, tables, values, box)
    total = tables.n[begin + fibre_of[heads[:-1]]]
    n = _diffused(x, heads, total, of, base)
    sums = _sums_of(of, base, target, weight, n)
    _search(base[-1], MEASURED, n, fibre, heads, sums, state, budget)
    if len(x) <= budget.bold_cells:
        _search(base[-1], FILLED, n, fibre, heads, sums, state, budget)
    is_met = n.sum() == values.n[: values.first[1]].sum()
    if (sums.off[: base[1]] != 0).any():
        sums.weight[: base[1]] = HARD
        for at in range(base[1]):
            _set_price(at, sums)
        _search(base[1], HARD, n, fibre, heads, sums, state, budget)
        is_met &= (sums.off[: base[1]] == 0).all()
    return n, is_met


@part
def _targets(
    x: FloatArray, cells: Candidates, tables: LockedTo, values: Values, box: Int64Array
) -> tuple[Int32Array, Int64Array, Int64Array, Int64Array]:
    """What cells are rounded to: the column along the fibres, the other tables, boxes. As of `MarginSums`."""
    n_columns, last = cells.codes.shape[1], cells.last
    n_boxes = np.int64(0)
    for one in box:
        n_boxes = max(n_boxes, one + 1)
    # Of two columns the table of the column along the fibres is one of the narrower tables.
    others = np.array([t for t in range(len(cells.at)) if t != last and (n_columns > 2 or t > 1)])
    n_margins = len(others) + 2
    of = np.empty((len(x), n_margins), dtype=np.int32)
    base = np.zeros(n_margins + 1, dtype=np.int64)
    base[1] = values.first[last + 1] - values.first[last]
    for m in range(len(others)):
        base[m + 2] = base[m + 1] + tables.first[others[m] + 1] - tables.first[others[m]]
    base[n_margins] = base[n_margins - 1] + n_boxes
    target, weight = np.empty(base[-1], dtype=np.int64), np.full(base[-1], MEASURED)
    for i in range(len(x)):
        of[i, 0] = cells.codes[i, last]
    target[: base[1]] = UNIT * values.n[values.first[last] : values.first[last + 1]]
    for m in range(len(others)):
        for i in range(len(x)):
            of[i, m + 1] = base[m + 1] + cells.at[others[m], i]
        for one in range(base[m + 2] - base[m + 1]):
            at = tables.first[others[m]] + one
            target[base[m + 1] + one] = UNIT * tables.n[at]
            weight[base[m + 1] + one] = MEASURED if tables.measured[at] else FILLED
    held = np.zeros(n_boxes)
    for i in range(len(x)):
        of[i, n_margins - 1] = base[n_margins - 1] + box[i]
        held[box[i]] += x[i]
    for one in range(n_boxes):
        target[base[n_margins - 1] + one] = np.int64(np.floor(held[one] * UNIT + 0.5))
        weight[base[n_margins - 1] + one] = BOX
    return of, base, target, weight


@part
def _diffused(
    x: FloatArray,
    heads: Int64Array,
    total: Int64Array,
    of: Int32Array,
    base: Int64Array,
) -> Int64Array:
    """Round fibre by fibre: what is left goes to the cells whose sums over the fibres so far fell short most.

    Not of boxes, nor of the cells themselves: published cells nearer to the noisy counts would let one person show more
    (a cloning attack was right in 64 instead of 61 of 100 cases).
    """
    n, short, n_margins = np.empty(len(x), dtype=np.int64), np.zeros(base[-2]), of.shape[1] - 1
    for one in range(len(total)):
        begin, end = heads[one], heads[one + 1]
        have = 0.0
        for i in range(begin, end):
            have += x[i]
        left = total[one]
        for i in range(begin, end):
            wanted = x[i] * (total[one] / have) if have > _NOTHING else total[one] / (end - begin)
            n[i] = np.int64(wanted)
            left -= n[i]
            for m in range(n_margins):
                short[of[i, m]] += wanted - n[i]
        for _ in range(left):
            best, most = begin, -np.inf
            for i in range(begin, end):
                score = 0.0
                for m in range(n_margins):
                    score += short[of[i, m]]
                if score > most:
                    best, most = i, score
            n[best] += 1
            for m in range(n_margins):
                short[of[best, m]] -= 1.0
    return n


@part
def _is_fault(at: Whole, least: Whole, sums: MarginSums) -> bool:
    """Whether a sum is off by as much as one of such a weight by a row."""
    is_fault: bool = 4 * _penalty(at, 0, sums) >= least * UNIT * UNIT
    return is_fault


@part
def _search(
    n_asked: Whole,
    least_fault: Whole,
    n: Int64Array,
    fibre: Int64Array,
    heads: Int64Array,
    sums: MarginSums,
    state: UInt64Array,
    budget: SearchBudget,
) -> None:
    """Move units within fibres until the first sums are met, or the penalty has long not become smaller."""
    faults, place = np.empty(n_asked, dtype=np.int64), np.full(n_asked, -1)
    size = 0
    for at in range(n_asked):
        if _is_fault(at, least_fault, sums):
            faults[size], place[at] = at, size
            size += 1
    most = budget.steps * (size + 20) if size else 0
    left, came = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    now = least = np.int64(0)
    made = idle = 0
    for _ in range(most):
        if not size or idle > budget.patience * (size + 20):
            break
        fault = faults[_drawn(state, size)]
        source, target = _best_move(fault, n, fibre, heads, sums, state, budget.tries)
        idle += 1
        if source < 0:
            continue
        now += _price(source, target, sums)
        _move(source, target, n, sums)
        left[made], came[made] = source, target
        made += 1
        if now < least:
            least, made, idle = now, 0, 0
        for m in range(sums.of.shape[1]):
            for cell in (source, target):
                one = sums.of[cell, m]
                if one >= n_asked:
                    continue
                is_fault = _is_fault(one, least_fault, sums)
                if is_fault and place[one] < 0:
                    faults[size], place[one] = one, size
                    size += 1
                elif not is_fault and place[one] >= 0:
                    size -= 1
                    faults[place[one]] = faults[size]
                    place[faults[size]] = place[one]
                    place[one] = -1
    for i in range(made - 1, -1, -1):
        _move(came[i], left[i], n, sums)


@part
def _best_move(
    at: Whole,
    n: Int64Array,
    fibre: Int64Array,
    heads: Int64Array,
    sums: MarginSums,
    state: UInt64Array,
    tries: Whole,
) -> tuple[Whole, Whole]:
    """The cheapest of some moves that bring a sum nearer to its target; -1 if there is none."""
    is_over = sums.off[at] > 0
    margin, first, last = np.int64(0), sums.first[at], sums.first[at + 1]
    while sums.base[margin + 1] <= at:
        margin += 1
    source, target = np.int64(-1), np.int64(-1)
    if last == first:
        return source, target
    start, least, tried = _drawn(state, last - first), np.int64(0), 0
    gives, gets = (0, 1) if is_over else (1, 0)  # a row less, or one more
    for step in range(last - first):
        cell = sums.order[first + (start + step) % (last - first)]
        if is_over and n[cell] == 0:
            continue
        own = np.int64(0)
        for m in range(sums.of.shape[1]):
            own += sums.price[gives, sums.of[cell, m]]
        begin, end = heads[fibre[cell]], heads[fibre[cell] + 1]
        shift = _drawn(state, end - begin)
        for i in range(end - begin):
            other = begin + (shift + i) % (end - begin)
            if sums.of[other, margin] == at or (not is_over and n[other] == 0):
                continue
            # Chance decides between moves that are about as good: else the search would cycle.
            price = own + _drawn(state, UNIT * 2)
            for m in range(sums.of.shape[1]):
                there = sums.of[other, m]
                if there == sums.of[cell, m]:
                    price -= sums.price[gives, there]
                else:
                    price += sums.price[gets, there]
            if source < 0 or price < least:
                least = price
                source, target = (cell, other) if is_over else (other, cell)
            tried += 1
            if tried >= tries:
                return source, target
    return source, target


# Settling: two rows anywhere in the table exchange their codes of a column.


class Along(NamedTuple):
    """Cells by their codes of the column that is exchanged."""

    code: Int64Array  # shape (n_cells,)
    order: Int32Array  # shape (n_cells,): Cells by code
    first: Int64Array  # shape (n_codes + 1,): Where each code begins


@part
def _cell_of(key: Int64Array, wanted: Whole) -> Whole:
    """A cell by its key, -1 if there is none."""
    at = np.searchsorted(key, wanted)
    return at if at < len(key) and key[at] == wanted else np.int64(-1)


@part
def _any(
    order: Int32Array, begin: Whole, end: Whole, n: Int64Array, least: Whole, state: UInt64Array
) -> Whole:
    """One of some cells by chance, with so many rows at least; -1 if there is none."""
    if end == begin:
        return np.int64(-1)
    start = _drawn(state, end - begin)
    for step in range(end - begin):
        cell = order[begin + (start + step) % (end - begin)]
        if n[cell] >= least:
            return cell
    return np.int64(-1)


@part
def _two_rows(
    margin: Whole,
    column: Whole,
    wanted: Whole,
    key: Int64Array,
    n: Int64Array,
    along: Along,
    sums: MarginSums,
    state: UInt64Array,
) -> tuple[Whole, Whole, Whole, Whole]:
    """Two rows that may exchange a column's codes, so that a sum comes nearer: where they are, and where they go.

    The second one is drawn by what it is or by what it becomes: of the rows with a common code few can take a rare one.
    """
    at = sums.base[margin] + wanted
    is_over = sums.off[at] > 0
    one = _any(sums.order, sums.first[at], sums.first[at + 1], n, int(is_over), state)
    none = np.int64(-1)
    if one < 0:
        return none, none, none, none
    at = sums.of[one, column]
    to_one = _any(sums.order, sums.first[at], sums.first[at + 1], n, int(not is_over), state)
    if to_one < 0 or to_one == one:
        return none, none, none, none
    if not is_over:
        one, to_one = to_one, one
    shift = key[to_one] - key[one]
    if _drawn(state, 2):
        own = along.code[to_one]
        other = _any(along.order, along.first[own], along.first[own + 1], n, 1, state)
        to_other = _cell_of(key, key[other] - shift) if other >= 0 else none
    else:
        own = along.code[one]
        to_other = _any(along.order, along.first[own], along.first[own + 1], n, 0, state)
        other = _cell_of(key, key[to_other] + shift)
        if other >= 0 and n[other] == 0:
            other = none
    if to_other < 0:
        other = none
    return one, to_one, other, to_other


@kernel
def exchange_codes(
    margin: int,
    column: int,
    far: Int64Array,
    tries: int,
    key: Int64Array,
    n: Int64Array,
    along: Along,
    sums: MarginSums,
    state: UInt64Array,
) -> int:
    """Pairs of rows exchange their codes of a column where sums of a margin are far off. Returns how many did.

    key: Of each cell, ascending; a code more of a column adds always the same. Margin `column` is the table without it.
    """
    made = 0
    for wanted in far:
        least, four = np.int64(0), (np.int64(0), np.int64(0), np.int64(0), np.int64(0))
        for _ in range(tries):
            found = _two_rows(margin, column, wanted, key, n, along, sums, state)
            one, to_one, other, to_other = found
            if other < 0:
                continue
            # The tables without the column see rows that stay; the others, that a row of each code goes elsewhere.
            price = _price(one, to_other, sums) + _price(other, to_one, sums)
            if price < least:
                least, four = price, found
        if least < 0:
            _move(four[0], four[1], n, sums)
            _move(four[2], four[3], n, sums)
            made += 1
    return made


@kernel
def along_of(code: Int64Array, size: int) -> Along:
    """Cells by their codes of a column."""
    order, first = _grouped(code, size, 1)
    return Along(code, order, first)


def settle(
    codes: Codes,
    n: Int64Array,
    at: Int64Array,
    tables: LockedTo,
    key: bytes,
    budget: SearchBudget = BUDGET,
) -> tuple[Int64Array, int]:
    """Bring sums that are far off a narrower table nearer to it; in tables of two columns none is.

    codes: Of all cells that may hold rows, in lexicographic order.
    at, tables: Position of each cell in every table that they are locked to.

    Returns: Rows of each cell; the largest difference that is left.
    """
    n = n.copy()
    sums = locked_sums(at, n, tables)
    sizes = [int(code) + 1 for code in codes.max(axis=0, initial=0)]
    turns = [(m, j) for m in range(len(at)) for j in range(len(sizes)) if m != j]
    gap = int(np.abs(sums.off).max(initial=0)) // UNIT
    if gap < FAR or len(sizes) == 2 or math.prod(sizes) > KEY_LIMIT:
        return n, gap
    number = cell_keys(codes.T, sizes, n=len(n))[0]
    columns = [along_of(codes[:, j].astype(np.int64), size) for j, size in enumerate(sizes)]
    state = siphash(key, [np.ones(1, dtype=np.uint64)])
    idle = 0
    for turn in range(budget.settlings):
        if idle >= budget.idle_turns * len(turns):
            break
        margin, column = turns[turn % len(turns)]
        off = np.abs(sums.off[sums.base[margin] : sums.base[margin + 1]])
        far = np.flatnonzero(off >= FAR * UNIT)
        far = far[np.argsort(-off[far], kind="stable")][: budget.settled_at_once]
        along = columns[column]
        made = exchange_codes(margin, column, far, budget.tries, number, n, along, sums, state)
        idle = 0 if made else idle + 1
    return n, int(np.abs(sums.off).max(initial=0)) // UNIT
