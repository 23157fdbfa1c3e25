"""Cells of a table: combinations that no narrower table rules out, and what their sums are locked to.

The cells of a k-column table are the join of two of its (k-1)-column tables over their common columns, kept where all
the others hold the combination too; of two columns all pairs that no universe rules out. Where one column implies a
coarser one, the table is locked to that one's tables, too. Sees published tables only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from engine.fit.tree import Codes, Values
from engine.kernels import Whole, kernel, part
from engine.relations import Relation
from engine.schema import (
    BoolArray,
    ColumnSet,
    FloatArray,
    Int64Array,
    Support,
    SyntheticTable,
)

DENSE_LIMIT = 1 << 21
"""Largest lookup table by direct position, in entries; larger ones are searched."""


class LockedTo(NamedTuple):
    """The tables that a table is locked to: entry j is the one without column j, behind them the coarser ones."""

    n: Int64Array  # Of all cells, one table's behind the other's
    measured: BoolArray  # The cell is a released bucket; else its count was filled in
    first: Int64Array  # Where each table begins, and where the last ends


def locked_to(tables: Sequence[SyntheticTable]) -> LockedTo:
    """The tables as kernels take them."""
    return LockedTo(
        np.concatenate([table.n for table in tables]),
        np.concatenate([table.measured for table in tables]),
        np.cumsum([0, *(len(table.n) for table in tables)]),
    )


@part
def _sorted(codes: Codes, columns: Int64Array) -> Int64Array:
    """Cells in the order of some columns' codes, the first column slowest: one counting sort a column."""
    n = len(codes)
    order, other = np.arange(n), np.empty(n, dtype=np.int64)
    for j in columns[::-1]:
        size = 0
        for i in range(n):
            size = max(size, codes[i, j] + 1)
        first = np.zeros(size + 1, dtype=np.int64)
        for i in range(n):
            first[codes[i, j] + 1] += 1
        for one in range(size):
            first[one + 1] += first[one]
        for at in order:
            other[first[codes[at, j]]] = at
            first[codes[at, j]] += 1
        order, other = other, order
    return order


@kernel
def lexicographic(codes: Codes) -> Int64Array:
    """The order that sorts cells by their first code, then by their second, and so on."""
    return _sorted(codes, np.arange(codes.shape[1]))


@part
def _compared(known: Codes, at: Whole, wanted: Codes, one: Whole, columns: Int64Array) -> Whole:
    """Below 0 where a known cell comes before a wanted one, above 0 where behind it."""
    for j in range(len(columns)):
        if known[at, j] != wanted[one, columns[j]]:
            return -1 if known[at, j] < wanted[one, columns[j]] else 1
    return 0


@part
def _positions(known: Codes, wanted: Codes, columns: Int64Array) -> Int64Array:
    """Position of each wanted cell, read in some columns, among known ones in lexicographic order, -1 without one."""
    width = known.shape[1]
    out = np.full(len(wanted), -1, dtype=np.int64)
    sizes, space = np.ones(width, dtype=np.int64), 1.0
    for j in range(width):
        for i in range(len(known)):
            sizes[j] = max(sizes[j], known[i, j] + 1)
        space *= sizes[j]
    if space <= DENSE_LIMIT:
        position = np.full(np.int64(space), -1, dtype=np.int64)
        for i in range(len(known)):
            key = np.int64(0)
            for j in range(width):
                key = key * sizes[j] + known[i, j]
            position[key] = i
        for i in range(len(wanted)):
            key, is_inside = np.int64(0), True
            for j in range(width):
                code = wanted[i, columns[j]]
                is_inside &= 0 <= code < sizes[j]
                key = key * sizes[j] + code
            if is_inside:
                out[i] = position[key]
        return out
    for i in range(len(wanted)):
        low, high = 0, len(known)
        while low < high:
            middle = (low + high) >> 1
            if _compared(known, middle, wanted, i, columns) < 0:
                low = middle + 1
            else:
                high = middle
        if low < len(known) and _compared(known, low, wanted, i, columns) == 0:
            out[i] = low
    return out


@kernel
def positions_in(known: Codes, wanted: Codes) -> Int64Array:
    """Position of each wanted cell among known ones in lexicographic order, -1 where it is not there."""
    return _positions(known, wanted, np.arange(known.shape[1]))


class Candidates(NamedTuple):
    """Cells that may hold rows, those that share all columns but one (`last`) next to each other."""

    codes: Codes  # shape (n_cells, n_columns)
    at: Int64Array  # shape (n_tables, n_cells): Position of each in every table that it is locked to
    last: int


@kernel
def allowed_cells(
    classes: Int64Array, first: Int64Array, allowed: BoolArray, last: int
) -> tuple[Codes, Int64Array]:
    """Pairs of values that universes allow to meet.

    classes: Of each value of both columns, one column's behind the other's; `first` as of `Values`.
    allowed: Which of them may meet.

    Returns: Codes, and positions in the tables of the columns, as of `Candidates`.
    """
    previous = 1 - last
    counted = np.zeros((2, max(allowed.shape[0], allowed.shape[1])), dtype=np.int64)
    for j in range(2):
        for one in range(first[j], first[j + 1]):
            counted[j, classes[one]] += 1
    size: Whole = np.int64(0)
    for i in range(allowed.shape[0]):
        for j in range(allowed.shape[1]):
            size += counted[0, i] * counted[1, j] * allowed[i, j]
    codes, at = np.empty((size, 2), dtype=np.int32), np.empty((2, size), dtype=np.int64)
    size = 0
    for one in range(first[previous + 1] - first[previous]):
        for other in range(first[last + 1] - first[last]):
            a, b = (one, other) if previous == 0 else (other, one)
            if allowed[classes[first[0] + a], classes[first[1] + b]]:
                codes[size, 0], codes[size, 1] = a, b
                at[0, size], at[1, size] = b, a  # entry j: without column j
                size += 1
    return codes, at


@kernel
def joined(codes: Codes, tables: LockedTo, sizes: Int64Array) -> tuple[Codes, Int64Array, int]:
    """Join the narrower tables of three columns and more; `codes` are those of their cells.

    Cells that differ only in the column without which most is measured are next to each other: what is met exactly is
    then best known.

    Returns: Fields of `Candidates`.
    """
    k = len(sizes)
    last, most = 0, np.int64(-1)
    for j in range(k):
        known = np.int64(0)
        for cell in range(tables.first[j], tables.first[j + 1]):
            known += tables.n[cell] * tables.measured[cell]
        if known >= most:
            last, most = j, known
    previous = -1
    for j in range(k):  # the longer columns split most
        if j != last and (previous < 0 or sizes[j] <= sizes[previous]):
            previous = j
    prefix = np.array([j for j in range(k) if j != last and j != previous])
    one = codes[tables.first[last] : tables.first[last + 1]]
    other = codes[tables.first[previous] : tables.first[previous + 1]]
    # Where the columns stand in a table that lacks one.
    of_one = np.array([j - (j > last) for j in prefix] + [previous - (previous > last)])
    of_other = np.array([j - (j > previous) for j in prefix] + [last - (last > previous)])
    in_one, in_other = _sorted(one, of_one), _sorted(other, of_other)
    begin, end = _met(one, in_one, of_one[:-1], other, in_other, of_other[:-1])
    size: Whole = np.int64(0)
    for i in range(len(begin)):
        size += end[i] - begin[i]
    found, at = np.empty((size, k), dtype=np.int32), np.empty((k, size), dtype=np.int64)
    size = 0
    for i in range(len(in_one)):
        for group in range(begin[i], end[i]):
            for j in range(k - 2):
                found[size, prefix[j]] = one[in_one[i], of_one[j]]
            found[size, previous] = one[in_one[i], of_one[k - 2]]
            found[size, last] = other[in_other[group], of_other[k - 2]]
            at[last, size], at[previous, size] = in_one[i], in_other[group]
            size += 1
    for dropped in prefix:  # keep the cells that the table without this column has
        table = codes[tables.first[dropped] : tables.first[dropped + 1]]
        columns = np.array([j for j in range(k) if j != dropped])
        places = _positions(table, found[:size], columns)
        size = 0
        for i in range(len(places)):
            if places[i] >= 0:
                found[size], at[:, size] = found[i], at[:, i]
                at[dropped, size] = places[i]
                size += 1
    return found[:size].copy(), at[:, :size].copy(), last


@part
def _met(
    one: Codes,
    in_one: Int64Array,
    of_one: Int64Array,
    other: Codes,
    in_other: Int64Array,
    of_other: Int64Array,
) -> tuple[Int64Array, Int64Array]:
    """Of each cell of a table the run of cells of another that agree in some columns; both are sorted by these."""
    begin, end = np.zeros(len(in_one), dtype=np.int64), np.zeros(len(in_one), dtype=np.int64)
    low = high = 0
    for i in range(len(in_one)):
        if i > 0:
            is_same = True
            for j in of_one:
                is_same &= one[in_one[i], j] == one[in_one[i - 1], j]
            if is_same:
                begin[i], end[i] = low, high
                continue
        low = high
        while (
            low < len(in_other)
            and _order(one, in_one[i], of_one, other, in_other[low], of_other) > 0
        ):
            low += 1
        high = low
        while (
            high < len(in_other)
            and _order(one, in_one[i], of_one, other, in_other[high], of_other) == 0
        ):
            high += 1
        begin[i], end[i] = low, high
    return begin, end


@part
def _order(
    one: Codes, i: Whole, of_one: Int64Array, other: Codes, at: Whole, of_other: Int64Array
) -> Whole:
    """Above 0 where a cell of a table comes behind one of another, by some columns of each."""
    for j in range(len(of_one)):
        a, b = one[i, of_one[j]], other[at, of_other[j]]
        if a != b:
            return 1 if a > b else -1
    return 0


@kernel
def prior_weights(codes: Codes, at: Int64Array, tables: LockedTo, values: Values) -> FloatArray:
    """Weight of each cell from the narrower tables: their product, each code counted once.

    A code stands in k - 1 of the narrower tables, so k - 2 of its one-way counts are divided out: n_A n_B for
    two columns, n_AB n_AC n_BC / (n_A n_B n_C) for three.
    """
    n_cells, k = codes.shape
    weight = np.ones(n_cells)
    for i in range(n_cells):
        for j in range(k - 1, -1, -1):
            weight[i] *= tables.n[tables.first[j] + at[j, i]]
        for j in range(k):
            once = values.n[values.first[j] + codes[i, j]]
            for _ in range(k - 2):
                weight[i] /= once
    return weight


class Margins(NamedTuple):
    """What a table's cells are raked and rounded to: partitions of the cells, with bounds for the sum of each part.

    The columns, the other narrower tables, the coarser tables, the fibres: the narrower table without the column in
    which neighbours differ; of two columns that is a column, which stands among them once more only behind others.
    """

    of: Int64Array  # shape (n_margins, n_cells)
    base: Int64Array  # shape (n_margins + 1,): Where the parts of each margin begin
    low: Int64Array
    high: Int64Array


@kernel
def lock_margins(
    codes: Codes, at: Int64Array, last: int, tables: LockedTo, values: Values
) -> Margins:
    """What a table is locked to.

    In the fibres and the columns every count is met. In the other tables a measured count is met and one that was
    filled in blindly may be off by one: whether it came out 0 or 1 was random, and raking to the random counts of three
    tables would distort what was measured. Rounding meets them where all can be met.
    """
    n_cells, k = codes.shape
    n_tables = len(at)
    loose = np.array([t for t in range(n_tables) if t >= k or (k > 2 and t != last)] + [last])
    if len(loose) == 1:
        loose = loose[:0]
    n_margins = k + len(loose)
    of, base = (
        np.empty((n_margins, n_cells), dtype=np.int64),
        np.zeros(n_margins + 1, dtype=np.int64),
    )
    for j in range(k):
        base[j + 1] = base[j] + values.first[j + 1] - values.first[j]
    for i in range(len(loose)):
        base[k + i + 1] = base[k + i] + tables.first[loose[i] + 1] - tables.first[loose[i]]
    low, high = np.empty(base[-1], dtype=np.int64), np.empty(base[-1], dtype=np.int64)
    for j in range(k):
        for i in range(n_cells):
            of[j, i] = codes[i, j]
    low[: base[k]], high[: base[k]] = values.n[: base[k]], values.n[: base[k]]
    for i in range(len(loose)):
        table, begin = loose[i], base[k + i]
        of[k + i] = at[table]
        for one in range(tables.first[table], tables.first[table + 1]):
            slack = 0 if table == last or tables.measured[one] else 1
            low[begin] = max(tables.n[one] - slack, 0)
            high[begin] = tables.n[one] + slack
            begin += 1
    return Margins(of, base, low, high)


# Coarser tables: a column replaced by one that it implies.


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Coarse:
    """A coarser table, and how cells of the finer one are read in it."""

    table: SyntheticTable
    # For each column of the coarser table, the finer table's column that says its code.
    at: tuple[int, ...]
    replaced: int  # Which of them is the coarser column
    implied: Int64Array  # shape (n_values,): Code of the coarser column by that of the finer one

    def read(self, codes: Codes) -> Codes:
        """Codes of cells in the columns of the coarser table."""
        read = np.ascontiguousarray(codes[:, self.at])
        read[:, self.replaced] = self.implied[read[:, self.replaced]]
        return read

    def positions(self, codes: Codes) -> Int64Array:
        """Position of each cell in the coarser table, -1 where it has none."""
        return positions_in(self.table.codes, self.read(codes))

    def sharpened(
        self, weight: FloatArray, codes: Codes, supports: tuple[Support, ...], at: Int64Array
    ) -> FloatArray:
        """Weights of pairs, n_A n_B, made n_A n_CB / n_C where A implies C: maximum entropy given the coarser table."""
        finer = self.at[self.replaced]
        of_class = np.bincount(self.implied, weights=supports[finer].n, minlength=1)
        once = supports[1 - finer].n[codes[:, 1 - finer]]
        sharper: FloatArray = (
            weight * self.table.n[at] / (of_class[self.implied[codes[:, finer]]] * once)
        )
        return sharper


def coarse_of(
    relation: Relation, columns: ColumnSet, implied: Int64Array, table: SyntheticTable
) -> Coarse:
    """How a table of some columns is read in one where a relation's finer column is replaced."""
    names = [relation.finer if c == relation.coarser else c for c in table.columns]
    return Coarse(
        table=table,
        at=tuple(columns.index(name) for name in names),
        replaced=names.index(relation.finer),
        implied=implied,
    )
