"""Settling: what is left far off a narrower table is spread out by ones, by exchanges that keep every column's counts.

Measured tables can contradict each other: no child has an income, yet the noisy number of blanks in a district is not
the sum of its noisy numbers of children. Rounding meets one of the tables exactly, so that another is off by all of
it. Here two rows anywhere in the table exchange their codes of a column where that brings a sum nearer that is far
off; the other tables give way by ones. No row is added or lost, no column's counts change, and no row comes to where
a narrower table has none. Seeded by the sampling key; whole numbers decide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from engine.cell_keys import KEY_LIMIT, comparable_keys
from engine.fit.candidates import Candidates, Codes, Narrower, position_in
from engine.fit.coarse import Coarse
from engine.fit.whole.kernels import (
    FILLED,
    MEASURED,
    TRIES,
    Along,
    Cells,
    Sums,
    by_part,
    exchange,
)
from engine.fit.whole.sums import Margin, counted, laid_out
from engine.schema import Int64Array
from engine.sticky_prf import siphash

FAR = 2
"""What is off by so much is settled."""
AT_ONCE = 256
"""Most sums that a round looks at."""
ROUNDS, PATIENCE = 120, 2
"""Most rounds, and turns of all margins and columns that may settle nothing."""


def settle(
    codes: Codes,
    n: Int64Array,
    candidates: Candidates,
    without: Sequence[Narrower],
    key: bytes,
    coarse: Sequence[Coarse] = (),
) -> tuple[Codes, Int64Array]:
    """Bring sums that are far off a narrower table nearer to it.

    without: Entry j is the published table without column j.
    coarse: The published tables of a coarser column in the place of one that tells it.
    """
    both = np.concatenate([candidates.codes, codes]).max(axis=0, initial=0)
    sizes = tuple(int(code) + 1 for code in both)
    if math.prod(sizes) > KEY_LIMIT or not len(n):
        return codes, n
    cells, whole, sums = _all_cells(codes, n, candidates, (*without, *coarse), sizes)
    columns = []
    for j, size in enumerate(sizes):
        code = whole[:, j].copy()
        columns.append(Along(code, *by_part(code[np.newaxis], np.array([0, size]))))
    turns = [(m, j) for m in range(len(sums.of)) for j in range(len(sizes)) if m != j]
    idle = 0
    for number in range(ROUNDS):
        if idle >= PATIENCE * len(turns):
            break
        margin, column = turns[number % len(turns)]
        far = _farthest(sums.off[sums.base[margin] : sums.base[margin + 1]])
        tries = np.arange(len(far) * TRIES, dtype=np.uint64)
        bits = siphash(key, [tries, np.full_like(tries, number)]) >> np.uint64(1)
        made = 0
        if len(far):
            made = exchange(
                margin, column, far, bits.astype(np.int64), cells, columns[column], sums
            )
        idle = 0 if made else idle + 1
    occupied = np.flatnonzero(cells.n)
    return whole[occupied].astype(np.int32), cells.n[occupied]


def _all_cells(
    codes: Codes,
    n: Int64Array,
    candidates: Candidates,
    locked_to: Sequence[Narrower | Coarse],
    sizes: tuple[int, ...],
) -> tuple[Cells, Int64Array, Sums]:
    """Candidates, and cells that hold rows though a narrower table rules them out, in lexicographic order.

    Returns: The cells; their codes, shape (n_cells, n_columns); sums by the tables they are locked to.
    """
    own, filled, _ = comparable_keys(candidates.codes, codes, sizes)
    order = np.argsort(own, kind="stable")
    known = own[order]
    at = np.minimum(np.searchsorted(known, filled), max(len(known) - 1, 0))
    is_outside = known[at] != filled if len(known) else np.ones(len(codes), dtype=bool)
    outside = codes[is_outside]
    whole = np.concatenate([candidates.codes, outside])
    key = np.concatenate([own, filled[is_outside]])
    if len(outside):
        order = np.argsort(key, kind="stable")
    key, sorted_codes = key[order], whole[order].astype(np.int64)
    rows = np.zeros(len(key), dtype=np.int64)
    rows[np.searchsorted(key, filled)] = n
    margins = []
    for j, table in enumerate(locked_to):
        if isinstance(table, Coarse):
            margins.append(_margin(table.positions(whole)[order], whole[order], table.table))
            continue
        margin = np.delete(outside, j, axis=1)
        both = np.concatenate([table.codes, margin]).max(axis=0, initial=0)
        at = position_in(table, margin, tuple(int(size) + 1 for size in both))
        at = np.concatenate([candidates.at[j], at])[order]
        margins.append(_margin(at, np.delete(sorted_codes, j, axis=1), table))
    return Cells(key, rows), sorted_codes, laid_out(margins, rows)


def _margin(at: Int64Array, codes: Codes, table: Narrower) -> Margin:
    """The cells of a table; what it does not have (at -1) should be 0."""
    missing = at < 0
    fresh, number = np.unique(codes[missing], axis=0, return_inverse=True)
    of = at.copy()
    of[missing] = len(table.n) + number.ravel()
    target = np.concatenate([table.n, np.zeros(len(fresh), dtype=np.int64)])
    kind = np.where(table.measured, MEASURED, FILLED)
    return counted(of, target, np.concatenate([kind, np.full(len(fresh), MEASURED)]))


def _farthest(off: Int64Array) -> Int64Array:
    """The sums that are far off, the farthest first."""
    far = np.flatnonzero(np.abs(off) >= FAR)
    return far[np.argsort(-np.abs(off[far]), kind="stable")][:AT_ONCE]
