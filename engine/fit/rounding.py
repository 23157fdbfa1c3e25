"""Controlled rounding: fitted cells to whole numbers whose margins are the published ones.

Cells that share all columns but one are a fibre, and fibres are neighbours' runs. Each fibre is rounded by running
sums from a keyed start: its total is exact and every run of neighbours is within 1. Then units are moved within
fibres, many at a time, wherever that lowers the penalty of the other margins. The penalty is convex: what cannot be
met is spread out by ones. In a first phase every published count is asked for; in a second each may be off by one, to
clear what is off by more, as far as moves of single units do. A weak penalty keeps released boxes at their fitted rows.
Seeded by the sampling key; what decides an integer is a whole number. Cox 1987, doi:10.1080/01621459.1987.10478456.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.fit.candidates import MarginBounds
from engine.schema import BoolArray, FloatArray, Int64Array
from engine.sticky_prf import siphash

FIRST_ROUNDS, ALL_ROUNDS = 24, 90
"""Most rounds of moves in the first phase, and in both."""
NARROWER, BOX, ONE_WAY_FIRST, ONE_WAY_LAST = 4, 1, 1, 4
"""Weights of the penalties: narrower tables, boxes, the last column's one-way table in either phase.

The last column's count of rows passes through many moves that undo each other: asked for in earnest from the start it
would forbid most of them."""
STEEP, WORST = 4, 4
"""A sum's k-th unit off costs 1 + STEEP (k - 1); from the WORST on no more."""
_EXACT, _BY_ONE, _EITHER = 0, 1, 2  # targets: this number; one off is free; this number or the next
_REACH = 6  # sums further off than this count as so far off
_WIDTH = 2 * _REACH + 2
_FIXED = 20  # bits behind the point
# A move's rank, from the lowest bit: place of the cell (32 bits), lot (16), ahead of its fit (1), cost.
_PLACE, _LOT = 32, 48
_SLOTS = 8  # most moves that one sum takes in one round


def _penalties() -> tuple[Int64Array, Int64Array]:
    """What it costs a sum off by -_REACH .. _REACH + 1 to lose, or to gain, a unit; by kind of target."""
    off = np.arange(-_REACH - 1, _REACH + 3)
    lost, gained = [], []
    for kind in (_EXACT, _BY_ONE, _EITHER):
        far = np.where(off > 0, off - (kind == _EITHER), -off)
        units = 1 + STEEP * (np.minimum(np.arange(1, _REACH + 3), WORST) - 1)
        units[0] = 0 if kind == _BY_ONE else 1
        penalty = np.concatenate([[0], np.cumsum(units)])[far]
        lost.append(penalty[:-2] - penalty[1:-1])
        gained.append(penalty[2:] - penalty[1:-1])
    return np.concatenate(lost) << (_LOT + 1), np.concatenate(gained) << (_LOT + 1)


_LOST, _GAINED = _penalties()


class _Sums:
    """The sums of one margin while units move.

    Parameters
    ----------
    of : ndarray of int64, shape (n_cells,)
    target : ndarray of int64, shape (n_parts,)
    kind : ndarray of int64, shape (n_parts,)
    n : ndarray of int64, shape (n_cells,)
    """

    def __init__(self, of: Int64Array, target: Int64Array, kind: Int64Array, n: Int64Array) -> None:
        self.of = of
        self._target = target
        self._kind = kind * _WIDTH
        self._have = np.bincount(of, weights=n, minlength=len(target)).astype(np.int64)

    def allow_one_off(self) -> None:
        """From now on a sum may be off by one."""
        self._kind[:] = _BY_ONE * _WIDTH

    def costs(self, weight: int) -> tuple[Int64Array, Int64Array]:
        """Cost of taking a unit out of each part and of putting one in, as the leading bits of a rank."""
        off = np.minimum(np.maximum(self._have - self._target, -_REACH), _REACH + 1)
        at = off + (_REACH + self._kind)
        return _LOST[at] * weight, _GAINED[at] * weight

    def slot(self, cells: Int64Array, sign: int, lot: Int64Array) -> Int64Array:
        """The slot each move takes at its part, which has as many as it is off, at least one."""
        part = self.of[cells]
        slots = np.minimum(np.maximum(sign * (self._have - self._target)[part], 1), _SLOTS)
        slot: Int64Array = part * _SLOTS + lot % slots
        return slot

    def move(self, source: Int64Array, target: Int64Array) -> None:
        """Book one unit a move."""
        np.subtract.at(self._have, self.of[source], 1)
        np.add.at(self._have, self.of[target], 1)

    @property
    def n_slots(self) -> int:
        """Number of slots."""
        return _SLOTS * len(self._target)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Runs:
    """Cells among which units may move: runs of neighbours, by the run of each cell and the first cell of each run."""

    of: Int64Array
    heads: Int64Array


def controlled_rounding(
    x: FloatArray,
    fibres: MarginBounds,
    others: Sequence[MarginBounds],
    one_way: MarginBounds,
    boxes: Int64Array,
    key: bytes,
) -> Int64Array:
    """Round cells to whole numbers.

    Parameters
    ----------
    x : ndarray of float64, shape (n_cells,)
        All >= 0, the cells of each fibre next to each other.
    fibres : MarginBounds
        The narrower table without the column in which neighbours differ; its sums are exact.
    others : sequence of MarginBounds
        The other narrower tables, bounds 0 or +-1 about the published counts; none for tables of two columns.
    one_way : MarginBounds
        Counts of the column in which neighbours differ.
    boxes : ndarray of int64, shape (n_cells,)
        Deepest released bucket of each cell.
    key : bytes
        Sampling key of the table.

    Returns
    -------
    ndarray of int64, shape (n_cells,)
        All >= 0. Sums over fibres are as asked for; all others as nearly as the moves allow.
    """
    if not len(x):
        return np.zeros(0, dtype=np.int64)
    fibre = _numbered(fibres.of)
    order = np.lexsort((boxes, fibre))
    x, fibre, box = x[order], fibre[order], boxes[order]
    heads = np.flatnonzero(np.diff(fibre, prepend=-1))
    name = fibres.of[order[heads]]
    n = _by_running_sums(x, fibres.low[name], heads, name, key)
    sums = [_Sums(m.of[order], *_target(m), n) for m in (*others, one_way)]
    sums.append(_Sums(box, *_box_target(x, box), n))
    run = np.cumsum((np.diff(fibre, prepend=-1) != 0) | (np.diff(box, prepend=-1) != 0)) - 1
    runs = [_Runs(of=of, heads=np.flatnonzero(np.diff(of, prepend=-1))) for of in (fibre, run)]
    lot = (siphash(key, [np.arange(len(x), dtype=np.uint64)]) >> np.uint64(48)).astype(np.int64)
    _move_units(n, x, sums, runs, (lot << _PLACE) | np.arange(len(x)))
    out = np.empty_like(n)
    out[order] = n
    return out


def _numbered(of: Int64Array) -> Int64Array:
    """Runs of equal neighbours, numbered from 0."""
    return np.cumsum(np.diff(of, prepend=-1) != 0) - 1


def _target(margin: MarginBounds) -> tuple[Int64Array, Int64Array]:
    """Target of each sum, and whether one off is free."""
    return (margin.low + margin.high) // 2, np.where(margin.high > margin.low, _BY_ONE, _EXACT)


def _box_target(x: FloatArray, box: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Fitted rows of each box, rounded down; the next number is as good where they are not whole."""
    fitted = np.bincount(box, weights=x)
    whole = np.floor(fitted + 1e-6).astype(np.int64)
    return whole, np.where(fitted - whole > 1e-5, _EITHER, _EXACT)


def _by_running_sums(
    x: FloatArray, target: Int64Array, heads: Int64Array, name: Int64Array, key: bytes
) -> Int64Array:
    """Round each fibre by differences of floors of its running sum, from a keyed start in [0, 1)."""
    sizes = np.diff(np.append(heads, len(x)))
    have = np.add.reduceat(x, heads)
    scale = np.divide(target, have, out=np.zeros(len(have)), where=have > 1e-200)
    running = np.cumsum(x)
    base = np.repeat(running[heads] - x[heads], sizes)
    start = (siphash(key, [name.view(np.uint64)]) >> np.uint64(64 - _FIXED)).astype(np.int64)
    inside = ((running - base) * np.repeat(scale, sizes) * (1 << _FIXED)).astype(np.int64)
    upto = (inside + np.repeat(start, sizes)) >> _FIXED
    upto = np.minimum(np.maximum(upto, 0), np.repeat(target, sizes))
    ends = np.append(heads[1:], len(x)) - 1
    upto[ends] = target  # the last running sum is the target, whatever floats made of it
    before = np.roll(upto, 1)
    before[heads] = 0
    out: Int64Array = upto - before
    return out


def _move_units(
    n: Int64Array, x: FloatArray, sums: list[_Sums], runs: list[_Runs], lots: Int64Array
) -> None:
    """Move units within fibres while that helps, in turns anywhere in a fibre and within one box of it.

    Changes `n` in place. Moves inside a box leave it as it is, which the penalties of single parts cannot see.
    """
    several = len(sums) > 2
    weights = [NARROWER] * len(sums)
    weights[-2:] = [ONE_WAY_FIRST if several else NARROWER, BOX]
    positive = n > 0
    first_phase, idle = several, 0
    for number in range(ALL_ROUNDS):
        if first_phase and (idle == 2 or number == FIRST_ROUNDS):
            first_phase, idle = False, 0
            weights[-2] = ONE_WAY_LAST
            for narrower in sums[:-2]:
                narrower.allow_one_off()
        elif idle == 2:
            break
        inside = number % 2
        turned = lots ^ ((number * 40503 & 0xFFFF) << _PLACE)  # other lots in every round
        judged = list(zip(sums[: len(sums) - inside], weights, strict=False))
        source, target = _best_moves(n, positive, x, judged, runs[inside], turned)
        n[source] -= 1
        n[target] += 1
        positive[source], positive[target] = n[source] > 0, True
        for margin in sums:
            margin.move(source, target)
        idle = 0 if len(source) else idle + 1


def _best_moves(
    n: Int64Array,
    positive: BoolArray,
    x: FloatArray,
    judged: list[tuple[_Sums, int]],
    runs: _Runs,
    lots: Int64Array,
) -> tuple[Int64Array, Int64Array]:
    """In each run the cell best to take a unit from and the one best to give it to, where that lowers the penalty."""
    full = np.flatnonzero(positive)
    give, take = lots[full], lots.copy()
    for margin, weight in judged:
        lost, gained = margin.costs(weight)
        give += lost.take(margin.of.take(full))
        take += gained.take(margin.of)
    ahead = (n[full] > x[full]).astype(np.int64) << _LOT  # among equals, back towards the fit
    take[full] += ahead
    give += (1 << _LOT) - ahead
    run = runs.of[full]
    first = np.flatnonzero(np.diff(run, prepend=-1))
    source = np.minimum.reduceat(give, first)
    target = np.minimum.reduceat(take, runs.heads)[run[first]]
    better = (source >> (_LOT + 1)) + (target >> (_LOT + 1)) < 0
    place = (1 << _PLACE) - 1
    return _without_collisions(source[better] & place, target[better] & place, judged, lots)


def _without_collisions(
    source: Int64Array, target: Int64Array, judged: list[tuple[_Sums, int]], lots: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Of the moves that want the same slot of a margin keep one."""
    number = np.arange(len(source))
    keep = np.ones(len(source), dtype=bool)
    lot = lots[source] >> _PLACE
    for margin, weight in judged:
        if weight < NARROWER:
            continue
        taken = np.empty(margin.n_slots, dtype=np.int64)
        for cells, sign in ((source, 1), (target, -1)):
            slot = margin.slot(cells, sign, lot)
            taken[slot] = number
            keep &= taken[slot] == number
    return source[keep], target[keep]
