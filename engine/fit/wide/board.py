"""Rows and what a change of them would cost: all tables of a wide table's fit in one vector.

Rows of level numbers and target tables in; prices of levels, and of exchanges between rows, out. The error is the
weighted sum of squared differences between the rows' tables and the targets. All numbers are whole, so that sums are
the same in any order. A table is held once for each of its columns that may change, with this column last: what a row
would cost with each level of a column is then the sum of a few stretches.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from engine.fit.wide import kernels
from engine.fit.wide.kernels import Copies, Prices
from engine.fit.wide.start import mutual_information
from engine.schema import BoolArray, Int64Array

WEIGHT_ONE = 1 << 16
"""A weight of 1, in whole numbers."""
SOFT = 2.0
"""Added to a count before it is weighed: cells of none and few count alike."""
EXPECTED = 3
"""A pair of values is impossible if its locked table has none, where independence would give so many rows."""
IMPOSSIBLE, MOST = 16, 64
"""What is against an impossible pair, for each row that was to be expected, up to so many."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """What one table of the rows should be."""

    axes: tuple[int, ...]  # Places of its two or three columns, ascending
    n: Int64Array  # Counts, one axis a column
    is_strict: bool = False  # Cells of none are barred
    emphasis: int = 1  # What is against a difference counts so many times

    @property
    def barred(self) -> Int64Array:
        """How much is against each cell of none: `IMPOSSIBLE` and more where more rows than a few were to be expected.

        Locked pairs may contradict each other by a few rows; then it is better that two rare values stand together
        where chance may have left none, than a child with a spouse. Of rare values those are kept apart first whose
        columns have most to do with each other.
        """
        expected = self.n.sum(axis=1)[:, np.newaxis] * self.n.sum(axis=0) // max(self.n.sum(), 1)
        rare = 1 + min(int(mutual_information(self.n) * IMPOSSIBLE), IMPOSSIBLE - 2)
        against = np.where(expected >= EXPECTED, IMPOSSIBLE * np.minimum(expected, MOST), rare)
        out: Int64Array = np.where(self.n == 0, against, 0)
        return out

    @property
    def weight(self) -> Int64Array:
        """Weight of each squared difference: (n + 2) ** -0.75, by square roots, which are the same everywhere."""
        root = np.sqrt(self.n + SOFT)
        weight = np.rint(WEIGHT_ONE / (root * np.sqrt(root)))
        out: Int64Array = np.maximum(weight, 1).astype(np.int64) * self.emphasis
        return out


class Board:
    """Rows, targets and prices; exchanges change all three together."""

    def __init__(
        self,
        rows: Int64Array,
        sizes: Sequence[int],
        targets: Sequence[Target],
        *,
        barred: int,
        movable: Collection[int] | None = None,
        step: int = 1,
    ) -> None:
        self.rows, self.sizes = rows, tuple(sizes)
        movable = range(len(sizes)) if movable is None else movable
        copies, table = _laid_out(self.sizes, targets, movable)
        self._copies, self._is_main = copies, np.zeros(len(table), dtype=bool)
        self._is_main[np.unique(table, return_index=True)[1]] = True
        self._prices = _prices(rows, copies, table, targets, barred, step)
        holds = {j: (copies.own == j) | (copies.first == j) | (copies.second == j) for j in movable}
        self._own = {j: _chosen(copies, copies.own == j) for j in movable}
        self._touched = {j: _chosen(copies, holds[j]) for j in movable}
        self._crossed: dict[bytes, tuple[Copies, Copies]] = {}

    def has_tables(self, column: int) -> bool:
        """Whether any table has the column."""
        return len(self._own[column].own) > 0

    def gains(self, at: Int64Array, column: int) -> Int64Array:
        """What it adds to the error when a row alone takes another level of a column."""
        x, size = self.rows.take(at, axis=1), self.sizes[column]
        return kernels.gains(x, column, 0, size, self._own[column], self._prices)

    def exchange(
        self, batch: Int64Array, column: int, low: int = 0, high: int | None = None
    ) -> int:
        """Exchange levels of a column between the halves of a batch where that lowers the error; return how often.

        low, high: Levels from `low` to less than `high` are exchanged; the rows' own are among them.
        """
        high = self.sizes[column] if high is None else high
        own, touched = self._own[column], self._touched[column]
        return kernels.exchange(batch, column, low, high, self.rows, own, touched, self._prices)

    def change_level(self, at: Int64Array, column: int, levels: Int64Array) -> None:
        """Give rows, each once, other levels of a column."""
        kernels.change_level(self.rows, at, column, levels, self._touched[column], self._prices)

    def exchange_gains(self, one: Int64Array, other: Int64Array, block: BoolArray) -> Int64Array:
        """What it adds to the error when pairs of rows exchange a block of columns; exact for each pair alone."""
        main, _ = self._crossing(block)
        return kernels.exchange_gains(one, other, block, self.rows, main, self._prices)

    def exchange_block(self, one: Int64Array, other: Int64Array, block: BoolArray) -> None:
        """Let pairs of rows exchange a block of columns; no row is in two pairs."""
        _, crossed = self._crossing(block)
        kernels.exchange_block(one, other, block, self.rows, crossed, self._prices)

    def _crossing(self, block: BoolArray) -> tuple[Copies, Copies]:
        """Copies of the tables that have columns inside a block and outside: one a table, and all."""
        if block.tobytes() not in self._crossed:
            own = self._copies
            inside = np.stack([block[own.own], block[own.first], block[own.second]])
            crosses: BoolArray = np.logical_and(inside.any(axis=0), ~inside.all(axis=0))
            self._crossed[block.tobytes()] = (
                _chosen(own, crosses & self._is_main),
                _chosen(own, crosses),
            )
        return self._crossed[block.tobytes()]


def counted(rows: Int64Array, target: Target) -> Int64Array:
    """Counts of the rows by the columns of a target; of its shape."""
    key = np.ravel_multi_index(tuple(rows[axis] for axis in target.axes), target.n.shape)
    return np.bincount(key, minlength=target.n.size).reshape(target.n.shape)


def _chosen(copies: Copies, where: BoolArray) -> Copies:
    """Some of the copies."""
    return Copies(*(one[where] for one in copies))


def _laid_out(
    sizes: tuple[int, ...], targets: Sequence[Target], movable: Collection[int]
) -> tuple[Copies, Int64Array]:
    """Places of all copies, and the number of each one's table."""
    listed, numbers, end = [], [], 0
    for column in movable:
        for number, target in enumerate(targets):
            if column not in target.axes:
                continue
            first, *rest = (axis for axis in target.axes if axis != column)
            second = rest[0] if rest else first
            step = sizes[column] if rest else 0
            stride = sizes[column] * (sizes[second] if rest else 1)
            listed.append((column, first, second, stride, step, end))
            numbers.append(number)
            end += prod(sizes[axis] for axis in target.axes)
    places = np.array(listed, dtype=np.int64).reshape(-1, len(Copies._fields)).T
    return Copies(*places), np.array(numbers, dtype=np.int64)


def _prices(
    rows: Int64Array,
    copies: Copies,
    table: Int64Array,
    targets: Sequence[Target],
    barred: int,
    step: int,
) -> Prices:
    """What one more row in each cell adds to the error, and how much more that is with every row in it.

    With rows that count `step` times both are those of one of the times.
    """
    cost: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
    twice: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
    known: dict[int, tuple[Int64Array, Int64Array]] = {}
    for own, number in zip(copies.own.tolist(), table.tolist(), strict=True):
        target = targets[number]
        if number not in known:
            weight = target.weight
            price = weight * (2 * (step * counted(rows, target) - target.n) + step)
            if target.is_strict:
                price += barred * target.barred
            known[number] = price, 2 * step * weight
        place = target.axes.index(own)
        for parts, values in zip((cost, twice), known[number], strict=True):
            parts.append(np.moveaxis(values, place, -1).ravel())
    return Prices(np.concatenate(cost), np.concatenate(twice))
