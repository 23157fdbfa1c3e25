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

from engine.fit.compiled.loops import EXCHANGES, compiled
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


@dataclass(frozen=True, kw_only=True, slots=True)
class _Copies:
    """Where the copies of the tables lie in the vector.

    A row x has its cell of a copy at x[first] * stride + x[second] * step + x[own] + start.
    """

    # own, first, second, stride, step, start, table: shape (n_copies,): `own` is the column the copy is
    # for; a table of two columns has step 0.
    own: Int64Array
    first: Int64Array
    second: Int64Array
    stride: Int64Array
    step: Int64Array
    start: Int64Array
    table: Int64Array
    is_main: BoolArray  # shape (n_copies,): One copy of each table

    def chosen(self, where: BoolArray | Int64Array) -> _Copies:
        """Some of the copies."""
        names = ("own", "first", "second", "stride", "step", "start", "table", "is_main")
        return _Copies(**{name: getattr(self, name)[where] for name in names})

    def stretches(self, x: Int64Array) -> Int64Array:
        """Where the stretch of a row's cells begins in each copy; shape (n_copies, n_rows)."""
        at: Int64Array = x[self.first] * self.stride[:, np.newaxis]
        at += x[self.second] * self.step[:, np.newaxis]
        at += self.start[:, np.newaxis]
        return at

    def cells(self, x: Int64Array) -> Int64Array:
        """Where the cell of a row lies in each copy; shape (n_copies, n_rows)."""
        return self.stretches(x) + x[self.own]


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
        self._copies, ends = _laid_out(self.sizes, targets, movable)
        self._segment = {j: slice(*ends[j]) for j in movable}
        self._cost, self._twice = _prices(rows, self._copies, targets, barred, step)
        own = self._copies
        holds = {j: (own.own == j) | (own.first == j) | (own.second == j) for j in movable}
        self._own = {j: own.chosen(own.own == j) for j in movable}
        self._touched = {j: own.chosen(holds[j]) for j in movable}
        self._crossed: dict[bytes, tuple[_Copies, _Copies]] = {}

    def has_tables(self, column: int) -> bool:
        """Whether any table has the column."""
        return len(self._own[column].own) > 0

    def gains(self, at: Int64Array, column: int, low: int, high: int) -> Int64Array:
        """What it adds to the error when a row alone takes another level of a column.

        low, high: Levels from `low` to less than `high` are asked for; the rows' own are among them.
        """
        x = self.rows[:, at]
        own, size = self._own[column], self.sizes[column]
        segment = self._segment[column]
        stretch = own.stretches(x)
        cells = stretch + x[column]
        levels = self._cost[segment].reshape(-1, size)[:, low:high]
        places = (stretch - segment.start) // size
        price: Int64Array = levels[places[0]]
        for place in places[1:]:
            price += levels[place]
        each = np.arange(len(at))
        # A row is not in its own way: what it leaves has one row fewer.
        leaving = price[each, x[column] - low] - self._twice[cells].sum(axis=0)
        price -= leaving[:, np.newaxis]
        return price

    def arrays(self, column: int) -> tuple[Int64Array, ...]:
        """What `engine.fit.compiled.matching` takes: rows, prices, copies of a column, and copies that it touches."""
        own, touched = self._own[column], self._touched[column]
        return (
            *(self.rows, self._cost, self._twice),
            *(own.first, own.second, own.stride, own.step, own.start),
            *(touched.own, touched.first, touched.second),
            *(touched.stride, touched.step, touched.start),
        )

    def exchange_level(self, one: Int64Array, other: Int64Array, column: int) -> None:
        """Let pairs of rows exchange their levels of a column; no row is in two pairs."""
        back = np.concatenate([other, one])
        self.change_level(np.concatenate([one, other]), column, self.rows[column, back])

    def change_level(self, at: Int64Array, column: int, levels: Int64Array) -> None:
        """Give rows, each once, other levels of a column."""
        old = self.rows[:, at]
        new = old.copy()
        new[column] = levels
        self._move(old, new, self._touched[column])
        self.rows[column, at] = levels

    def exchange_gains(self, one: Int64Array, other: Int64Array, block: BoolArray) -> Int64Array:
        """What it adds to the error when pairs of rows exchange a block of columns; exact for each pair alone."""
        main, _ = self._crossing(block)
        kernels = compiled(EXCHANGES)
        if kernels is not None:
            of = main.own, main.first, main.second, main.stride, main.step, main.start
            own = self.rows, self._cost, self._twice
            gains: Int64Array = kernels.exchange_gains(one, other, block, *own, *of)
            return gains
        a, b = self.rows[:, one], self.rows[:, other]
        mixed = np.where(block[:, np.newaxis], b, a), np.where(block[:, np.newaxis], a, b)
        left, right = main.cells(a), main.cells(b)
        to_left, to_right = main.cells(mixed[0]), main.cells(mixed[1])
        change: Int64Array = self._cost[to_left] + self._cost[to_right] + self._twice[left]
        change += self._twice[right] - self._cost[left] - self._cost[right]
        # Where the rows only change places in a table, nothing changes.
        change[(to_left == left) | (to_left == right)] = 0
        out: Int64Array = change.sum(axis=0)
        return out

    def exchange_block(self, one: Int64Array, other: Int64Array, block: BoolArray) -> None:
        """Let pairs of rows exchange a block of columns; no row is in two pairs."""
        _, crossed = self._crossing(block)
        both, back = np.concatenate([one, other]), np.concatenate([other, one])
        old = self.rows[:, both]
        new = np.where(block[:, np.newaxis], self.rows[:, back], old)
        self._move(old, new, crossed)
        self.rows[:, both] = new

    def _crossing(self, block: BoolArray) -> tuple[_Copies, _Copies]:
        """Copies of the tables that have columns inside a block and outside: one a table, and all."""
        if block.tobytes() not in self._crossed:
            own = self._copies
            inside = np.stack([block[own.own], block[own.first], block[own.second]])
            crosses: BoolArray = np.logical_and(inside.any(axis=0), ~inside.all(axis=0))
            self._crossed[block.tobytes()] = (
                own.chosen(crosses & own.is_main),
                own.chosen(crosses),
            )
        return self._crossed[block.tobytes()]

    def _move(self, old: Int64Array, new: Int64Array, copies: _Copies) -> None:
        """Book rows that change."""
        source, target = copies.cells(old).ravel(), copies.cells(new).ravel()
        changed = source != target
        source, target = source[changed], target[changed]
        np.subtract.at(self._cost, source, self._twice[source])
        np.add.at(self._cost, target, self._twice[target])


def counted(rows: Int64Array, target: Target) -> Int64Array:
    """Counts of the rows by the columns of a target; of its shape."""
    key = np.ravel_multi_index(tuple(rows[axis] for axis in target.axes), target.n.shape)
    return np.bincount(key, minlength=target.n.size).reshape(target.n.shape)


def _laid_out(
    sizes: tuple[int, ...], targets: Sequence[Target], movable: Collection[int]
) -> tuple[_Copies, dict[int, tuple[int, int]]]:
    """Places of all copies, and where those of each column begin and end."""
    listed, ends, end, seen = [], {}, 0, set()
    for column in movable:
        begin = end
        for number, target in enumerate(targets):
            if column not in target.axes:
                continue
            first, *rest = (axis for axis in target.axes if axis != column)
            second = rest[0] if rest else first
            step = sizes[column] if rest else 0
            stride = sizes[column] * (sizes[second] if rest else 1)
            listed.append((column, first, second, stride, step, end, number, number not in seen))
            seen.add(number)
            end += prod(sizes[axis] for axis in target.axes)
        ends[column] = begin, end
    table = np.array(listed, dtype=np.int64).reshape(-1, 8).T
    own, first, second, stride, step, start, number = table[:7]
    copies = _Copies(
        own=own, first=first, second=second, stride=stride, step=step, start=start, table=number,
        is_main=table[7] > 0,
    )  # fmt: skip
    return copies, ends


def _prices(
    rows: Int64Array,
    copies: _Copies,
    targets: Sequence[Target],
    barred: int,
    step: int,
) -> tuple[Int64Array, Int64Array]:
    """What one more row in each cell adds to the error, and how much more that is with every row in it.

    With rows that count `step` times both are those of one of the times.
    """
    cost: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
    twice: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
    known: dict[int, tuple[Int64Array, Int64Array]] = {}
    for own, number in zip(copies.own.tolist(), copies.table.tolist(), strict=True):
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
    return np.concatenate(cost), np.concatenate(twice)
