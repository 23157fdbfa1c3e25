"""Extremal data: two data sets that agree in every safe margin and lie as far apart as can be along a direction.

Linear programs (HiGHS) find them as fractions. Whole rows come from these by rounding down; what is then missing of a
margin is put back in combinations that have the commonest value in all columns but those of one safe column set, which
is always possible, by inclusion and exclusion. Both margins are compared at the end: they are the same integers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import DataError, InternalError
from engine.evaluation.audit.directions import Direction
from engine.evaluation.audit.domain import Cells, cells_of
from engine.evaluation.audit.safe import Axes, SafeStatistics, margin_of
from engine.evaluation.findings import optional
from engine.schema import BoolArray, Int64Array

MOST_CELLS = 20_000
"""Of a larger domain, those of the data and others like them are looked at."""
MOST_MULTIPLES = 12
"""Tries to find a number of copies that makes all rows whole."""
_WHOLE = 1e-6


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """The data that extremal data keeps the margins of."""

    cells: Cells
    repeats: int  # Each row stands for at least so many rows of the extremal data
    # Share of the data's rows in safe margins' cells of too few, which were left out.
    left_out: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Extremal:
    """Two data sets with the same safe margins."""

    plus: Cells
    minus: Cells
    # Rows that rounding had taken from the margins of either and that were put back elsewhere.
    put_back: int
    smallest: int  # Smallest count above 0 in a safe margin


def start_of(
    codes: Int64Array,
    safe: SafeStatistics,
    *,
    rows: int,
    least: int,
    rng: np.random.Generator,
) -> Start:
    """Return data whose safe counts are all large enough, and about so many rows once repeated.

    rows: Of a larger data set a sample is taken; rows of a smaller one are repeated.
    """
    if len(codes) > rows:
        codes = codes[np.sort(rng.choice(len(codes), size=rows, replace=False))]
    repeats = max(1, -(-rows // max(len(codes), 1)))
    kept, n_before = codes, len(codes)
    while len(kept):
        few = _in_few(kept, safe, -(-least // repeats))
        if not few.any():
            break
        kept = kept[~few]
    if not len(kept):
        raise DataError(
            f"no row lies in safe counts of {least} rows and more: audit coarser columns, or more rows (--rows)"
        )
    return Start(
        cells=cells_of(kept, safe.domain.sizes),
        repeats=repeats,
        left_out=1 - len(kept) / n_before,
    )


def _in_few(codes: Int64Array, safe: SafeStatistics, least: int) -> BoolArray:
    """Rows in a cell of a safe margin with fewer rows."""
    out = np.zeros(len(codes), dtype=bool)
    rows = Cells(codes=codes, n=np.ones(len(codes), dtype=np.int64))
    for axes in safe.axes:
        n = margin_of(rows, axes, safe.domain.sizes)
        out |= n[tuple(codes[:, axis] for axis in axes)] < least
    return out


def candidates_of(start: Start, safe: SafeStatistics, rng: np.random.Generator) -> Int64Array:
    """Combinations that extremal data may have: no safe margin is 0 there. All of them, or of a large domain some."""
    sizes = safe.domain.sizes
    if safe.domain.n_cells <= MOST_CELLS:
        every = np.array(list(product(*map(range, sizes))), dtype=np.int64).reshape(-1, len(sizes))
        return every[_allowed(every, start, safe)]
    held = start.cells.codes
    mixed = held[rng.integers(len(held), size=MOST_CELLS)].copy()
    at = np.arange(len(mixed))
    for _ in range(2):  # in each row two columns have another row's value
        axis = rng.integers(len(sizes), size=len(mixed))
        mixed[at, axis] = held[rng.integers(len(held), size=len(mixed)), axis]
    mixed = mixed[_allowed(mixed, start, safe)]
    return cells_of(np.concatenate([held, mixed]), sizes).codes


def _allowed(codes: Int64Array, start: Start, safe: SafeStatistics) -> BoolArray:
    """Whether every safe margin has rows there."""
    out = np.ones(len(codes), dtype=bool)
    for axes, n in zip(safe.axes, safe.counts(start.cells), strict=True):
        out &= n[tuple(codes[:, axis] for axis in axes)] > 0
    return out


def extremal_data(
    start: Start, safe: SafeStatistics, direction: Direction, candidates: Int64Array
) -> Extremal | None:
    """Find two data sets with the margins of the start, farthest apart along a direction.

    Returns: None: the margins leave no room along this direction.
    """
    weights = direction.of(candidates)
    ends = [_solved(start, safe, candidates, sign * weights) for sign in (-1.0, 1.0)]
    if float(weights @ (ends[0] - ends[1])) <= _WHOLE * max(float(np.abs(weights).max()), _WHOLE):
        return None
    repeats = _repeats(start.repeats, ends)
    floors = [np.floor(end * repeats + _WHOLE).astype(np.int64) for end in ends]
    wanted = Cells(codes=start.cells.codes, n=start.cells.n * repeats)
    lacks = [_lacking(safe, wanted, Cells(codes=candidates, n=floor)) for floor in floors]
    plus, minus, put_back = _whole(safe, candidates, floors, lacks)
    counts = safe.counts(plus)
    for one, other in zip(counts, safe.counts(minus), strict=True):
        if not np.array_equal(one, other):
            raise InternalError("the safe margins of extremal data are not the same")
    smallest = min(int(n[n > 0].min()) for n in counts)
    return Extremal(plus=plus, minus=minus, put_back=put_back, smallest=smallest)


def _solved(
    start: Start, safe: SafeStatistics, candidates: Int64Array, costs: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The cheapest data with the margins of the start, as fractions of its rows."""
    linprog = optional("scipy.optimize", "audits").linprog
    sparse = optional("scipy.sparse", "audits")
    blocks, wanted = [], []
    for axes, n in zip(safe.axes, safe.counts(start.cells), strict=True):
        place = np.ravel_multi_index(tuple(candidates[:, axis] for axis in axes), n.shape)
        held = np.flatnonzero(n.ravel())
        row = np.searchsorted(held, place)
        at = np.arange(len(candidates))
        blocks.append(sparse.csr_array((np.ones(len(at)), (row, at)), shape=(len(held), len(at))))
        wanted.append(n.ravel()[held].astype(np.float64))
    scale = max(float(np.abs(costs).max()), 1e-300)
    found = linprog(
        costs / scale,
        A_eq=sparse.vstack(blocks, format="csr"),
        b_eq=np.concatenate(wanted),
        bounds=(0, None),
        method="highs",
    )
    if found.x is None or found.status != 0:
        raise InternalError(
            f"the linear program of an audit was not solved (status {found.status})"
        )
    return np.maximum(np.asarray(found.x, dtype=np.float64), 0.0)


def _repeats(least: int, ends: list[NDArray[np.float64]]) -> int:
    """A multiple of the copies wanted that makes all rows whole; the copies wanted where none is found."""
    for multiple in range(1, MOST_MULTIPLES + 1):
        scaled = [end * (least * multiple) for end in ends]
        if all(np.abs(x - np.round(x)).max(initial=0.0) < _WHOLE for x in scaled):
            return least * multiple
    return least


def _lacking(safe: SafeStatistics, wanted: Cells, held: Cells) -> dict[Axes, Int64Array]:
    """How much of every safe count is not there, for all column sets inside margins."""
    sizes = safe.domain.sizes
    return {
        axes: margin_of(wanted, axes, sizes) - margin_of(held, axes, sizes) for axes in safe.covered
    }


def _whole(
    safe: SafeStatistics,
    candidates: Int64Array,
    floors: list[Int64Array],
    lacks: list[dict[Axes, Int64Array]],
) -> tuple[Cells, Cells, int]:
    """Put back what rounding took; where that would take rows from a combination of none, both get more rows there."""
    sizes = safe.domain.sizes
    commonest = np.array(
        [
            int(margin_of(Cells(codes=candidates, n=floors[0]), (a,), sizes).argmax())
            for a in range(len(sizes))
        ]
    )
    patches = [_patch(safe, lack, commonest) for lack in lacks]
    labels = [np.ravel_multi_index(tuple(candidates.T), sizes)] * 2
    every = np.unique(np.concatenate([*labels, *(label for label, _ in patches)]))
    ends = []
    for label, floor, (of_patch, n) in zip(labels, floors, patches, strict=True):
        whole = np.zeros(len(every), dtype=np.int64)
        np.add.at(whole, np.searchsorted(every, label), floor)
        np.add.at(whole, np.searchsorted(every, of_patch), n)
        ends.append(whole)
    more = np.maximum(0, -np.minimum(*ends))
    codes = np.column_stack(np.unravel_index(every, sizes))
    plus, minus = (
        Cells(codes=codes[whole + more > 0], n=(whole + more)[whole + more > 0]) for whole in ends
    )
    put_back = max(int(np.abs(n).sum()) for _, n in patches) + int(more.sum())
    return plus, minus, put_back


def _patch(
    safe: SafeStatistics, lack: Mapping[Axes, Int64Array], commonest: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Rows, of either sign, whose margins are what is lacking: places in the raveled domain, and numbers.

    A combination whose values are commonest outside of a safe column set, and nowhere in it, counts in cells of
    just its parts: so the widest column sets come first, and what they bring is taken off their parts.
    """
    sizes = safe.domain.sizes
    found: dict[Axes, Int64Array] = {}
    labels, numbers = [], []
    for axes in safe.covered:
        inner = lack[axes]
        for at, axis in enumerate(axes):
            inner = np.delete(inner, commonest[axis], axis=at)
        for wider, n in found.items():
            if set(axes) < set(wider):
                others = tuple(at for at, axis in enumerate(wider) if axis not in axes)
                inner = inner - n.sum(axis=others)
        found[axes] = inner
        held = np.argwhere(inner)
        if len(held):
            codes = np.tile(commonest, (len(held), 1))
            for at, axis in enumerate(axes):
                codes[:, axis] = np.delete(np.arange(sizes[axis]), commonest[axis])[held[:, at]]
            labels.append(np.ravel_multi_index(tuple(codes.T), sizes))
            numbers.append(inner[inner != 0])
    none: list[Any] = [np.zeros(0, dtype=np.int64)]
    return np.concatenate(labels or none), np.concatenate(numbers or none)
