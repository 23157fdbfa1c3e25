"""Settling: what is left far off a narrower table is spread out by ones, by exchanges that keep every column's counts.

Measured tables can contradict each other: no child has an income, yet the noisy number of blanks in a district is not
the sum of its noisy numbers of children. Rounding meets one of the tables exactly, so that another is off by all of
it. Here two rows anywhere in the table exchange their codes of a column where that brings a sum nearer that is far
off; the other tables give way by ones. No row is added or lost, no column's counts change, and no row comes to where
a narrower table has none. Seeded by the sampling key; whole numbers decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import numpy as np

from engine.cell_keys import KEY_LIMIT, comparable_keys
from engine.fit.candidates import Candidates, Codes, Narrower, position_in
from engine.fit.coarse import Coarse
from engine.fit.compiled.loops import SETTLING, SUMS, compiled
from engine.fit.whole.sums import FILLED, MEASURED, REACH, STEPS, Sums, shared
from engine.fit.whole.walks import unshared
from engine.schema import Int64Array
from engine.sticky_prf import siphash

FAR = 2
"""What is off by so much is settled."""
AT_ONCE, TRIES = 256, 64
"""Most sums that a round looks at, and exchanges that are tried for each."""
ROUNDS, PATIENCE = 120, 2
"""Most rounds, and turns of all margins and columns that may settle nothing."""
_BITS = 21  # a random number is drawn from so many bits


@dataclass(frozen=True, kw_only=True, slots=True)
class _Cells:
    """All cells that may hold rows, in lexicographic order."""

    codes: Int64Array  # shape (n_cells, n_columns)
    key: Int64Array  # shape (n_cells,): Ascending; a code more of a column adds always the same
    n: Int64Array  # shape (n_cells,): Changed in place
    # Entry j: the narrower table without column j; behind them the tables of coarser columns.
    sums: tuple[Sums, ...]
    columns: tuple[Sums, ...]  # Cells by their code of each column

    def find(self, key: Int64Array) -> Int64Array:
        """Cells by their keys, -1 where there is none."""
        at = np.minimum(np.searchsorted(self.key, key), len(self.key) - 1)
        return np.where(self.key[at] == key, at, -1)

    def move(self, source: Int64Array, target: Int64Array) -> None:
        """Book one unit a move."""
        np.subtract.at(self.n, source, 1)
        np.add.at(self.n, target, 1)
        for margin in self.sums:
            margin.move(source, target)


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
    cells = _all_cells(codes, n, candidates, (*without, *coarse), sizes)
    loops, sums = compiled(SETTLING), compiled(SUMS)
    exchange = (
        _compiled_exchange(cells, loops, sums) if loops and sums else partial(_exchange, cells)
    )
    turns = [(m, j) for m in range(len(cells.sums)) for j in range(len(sizes)) if m != j]
    idle = 0
    for number in range(ROUNDS):
        if idle >= PATIENCE * len(turns):
            break
        margin, column = turns[number % len(turns)]
        far = _farthest(cells.sums[margin])
        tries = np.arange(len(far) * TRIES, dtype=np.uint64)
        bits = siphash(key, [tries, np.full_like(tries, number)]) >> np.uint64(1)
        made = exchange(margin, column, far, bits.astype(np.int64)) if len(far) else 0
        idle = 0 if made else idle + 1
    occupied = np.flatnonzero(cells.n)
    return cells.codes[occupied].astype(np.int32), cells.n[occupied]


def _all_cells(
    codes: Codes,
    n: Int64Array,
    candidates: Candidates,
    locked_to: Sequence[Narrower | Coarse],
    sizes: tuple[int, ...],
) -> _Cells:
    """Candidates, and cells that hold rows though a narrower table rules them out, each with its sums."""
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
    sums = []
    for j, table in enumerate(locked_to):
        if isinstance(table, Coarse):
            sums.append(_sums(table.positions(whole)[order], whole[order], table.table, rows))
            continue
        margin = np.delete(outside, j, axis=1)
        both = np.concatenate([table.codes, margin]).max(axis=0, initial=0)
        at = position_in(table, margin, tuple(int(size) + 1 for size in both))
        at = np.concatenate([candidates.at[j], at])[order]
        sums.append(_sums(at, np.delete(sorted_codes, j, axis=1), table, rows))
    columns = []
    for j, size in enumerate(sizes):
        none = np.zeros(size, dtype=np.int64)
        columns.append(Sums(sorted_codes[:, j].copy(), none, none, rows))
    return _Cells(codes=sorted_codes, key=key, n=rows, sums=tuple(sums), columns=tuple(columns))


def _sums(at: Int64Array, codes: Codes, table: Narrower, rows: Int64Array) -> Sums:
    """Sums by the cells of a table; what it does not have (at -1) should be 0."""
    missing = at < 0
    fresh, number = np.unique(codes[missing], axis=0, return_inverse=True)
    of = at.copy()
    of[missing] = len(table.n) + number.ravel()
    target = np.concatenate([table.n, np.zeros(len(fresh), dtype=np.int64)])
    kind = np.where(table.measured, MEASURED, FILLED)
    return Sums(of, target, np.concatenate([kind, np.full(len(fresh), MEASURED)]), rows)


def _farthest(sums: Sums) -> Int64Array:
    """The sums that are far off, the farthest first."""
    far = np.flatnonzero(np.abs(sums.off) >= FAR)
    return far[np.argsort(-np.abs(sums.off[far]), kind="stable")][:AT_ONCE]


def _compiled_exchange(
    cells: _Cells, loops: SimpleNamespace, sums: SimpleNamespace
) -> Callable[..., int]:
    """`_exchange` on the arrays of these cells, compiled."""
    of, codes = np.stack([one.of for one in cells.sums]), np.ascontiguousarray(cells.codes.T)
    base = np.cumsum([0, *(len(one) for one in cells.sums)])
    off, kind = shared(cells.sums)
    order, first = sums.by_part(of, base)
    held = [
        sums.by_part(codes[j : j + 1], np.array([0, len(one)]))
        for j, one in enumerate(cells.columns)
    ]

    def exchange(margin: int, column: int, far: Int64Array, bits: Int64Array) -> int:
        by, starts = held[column]
        found = loops.exchange(
            margin, column, far, bits, TRIES, _BITS, cells.key, cells.n, of, base, order, first,
            codes[column], by[0], starts, off, kind, STEPS, REACH,
        )  # fmt: skip
        return int(found)

    return exchange


def _exchange(cells: _Cells, margin: int, column: int, far: Int64Array, bits: Int64Array) -> int:
    """Pairs of rows exchange their codes of a column where sums of a margin are far off. Returns how many did."""
    units = np.flatnonzero(cells.n)
    tried, one, to_one = _first_rows(cells, margin, column, far, units, bits)
    late = bits[tried] >> 2 * _BITS
    other, to_other = _second_rows(cells, column, one, to_one, units, late)
    usable = (other >= 0) & (to_other >= 0) & (one != to_one)
    tried = tried[usable]
    four = [rows[usable] for rows in (one, other, to_one, to_other)]
    cost = np.zeros(len(tried), dtype=np.int64)
    for sums in cells.sums:
        for source, target in ((four[0], four[3]), (four[1], four[2])):
            change = sums.lost(source) + sums.gained(target)
            cost += np.where(sums.of[source] == sums.of[target], 0, change)
    order = np.lexsort((cost, tried // TRIES))
    best = order[np.flatnonzero(np.diff(tried[order] // TRIES, prepend=-1))]
    best = best[cost[best] < 0]
    kept = best[unshared([four[0][best], four[1][best]], best, len(cells.n))]
    for sums in cells.sums:
        kept = kept[unshared([sums.of[rows[kept]] for rows in four], kept, len(sums))]
    one, other, to_one, to_other = (rows[kept] for rows in four)
    cells.move(np.concatenate([one, other]), np.concatenate([to_one, to_other]))
    return len(kept)


def _first_rows(
    cells: _Cells,
    margin: int,
    column: int,
    far: Int64Array,
    units: Int64Array,
    bits: Int64Array,
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Rows that leave a sum that is too large, or come to one that is too small, by another code of the column.

    Returns the number of each try, the row's cell, and where it goes.
    """
    sums, along = cells.sums[margin], cells.sums[column]
    wanted = np.repeat(far, TRIES)
    low, high = bits & ((1 << _BITS) - 1), (bits >> _BITS) & ((1 << _BITS) - 1)
    over = np.flatnonzero(sums.off[wanted] > 0)
    leaves = _drawn(sums.of[units], wanted[over], low[over])
    over, leaves = over[leaves >= 0], units[leaves[leaves >= 0]]
    goes = along.draw(along.of[leaves], high[over])
    short = np.flatnonzero(sums.off[wanted] < 0)
    comes = sums.draw(wanted[short], low[short])
    short, comes = short[comes >= 0], comes[comes >= 0]
    before = _drawn(along.of[units], along.of[comes], high[short])
    short, comes, before = short[before >= 0], comes[before >= 0], units[before[before >= 0]]
    return (
        np.concatenate([over, short]),
        np.concatenate([leaves, before]),
        np.concatenate([goes, comes]),
    )


def _second_rows(
    cells: _Cells,
    column: int,
    one: Int64Array,
    to_one: Int64Array,
    units: Int64Array,
    bits: Int64Array,
) -> tuple[Int64Array, Int64Array]:
    """Rows that give the code which the first ones take and take theirs, -1 where none was drawn; where they go.

    Half are drawn by what they are, half by what they become: of the rows with a common code few can take a rare one.
    """
    code = cells.codes[:, column]
    shift = cells.key[to_one] - cells.key[one]
    other, to_other = np.full_like(one, -1), np.full_like(one, -1)
    now, later = np.flatnonzero(bits % 2 == 0), np.flatnonzero(bits % 2)
    drawn = _drawn(code[units], code[to_one[now]], bits[now] >> 1)
    now, drawn = now[drawn >= 0], drawn[drawn >= 0]
    other[now] = units[drawn]
    to_other[now] = cells.find(cells.key[other[now]] - shift[now])
    to_other[later] = cells.columns[column].draw(code[one[later]], bits[later] >> 1)
    found = cells.find(cells.key[to_other[later]] + shift[later])
    other[later] = np.where((found >= 0) & (cells.n[found] > 0), found, -1)
    return other, to_other


def _drawn(keys: Int64Array, wanted: Int64Array, bits: Int64Array) -> Int64Array:
    """For each wanted key one of the places that have it, by random bits; -1 if none has."""
    held = np.flatnonzero(np.isin(keys, wanted))
    order = held[np.argsort(keys[held], kind="stable")]
    if not len(order):
        return np.full(len(wanted), -1, dtype=np.int64)
    begin = np.searchsorted(keys[order], wanted)
    count = np.searchsorted(keys[order], wanted, side="right") - begin
    at = np.minimum(begin + bits % np.maximum(count, 1), len(order) - 1)
    return np.where(count > 0, order[at], -1)
