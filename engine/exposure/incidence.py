"""Who lies in which released cell: the tables that show a column, as a system of equations over people.

Takes codes of sampled rows and the measurements; gives, for each column told, groups of people whose sum each table
tells. Confidential: it is made from rows. What may leave the package are figures over many people.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.cell_keys import KEY_LIMIT, cell_keys, comparable_keys
from engine.ranges import levels_at, split_codes
from engine.schema import (
    KIND_NULL,
    KIND_OTHER,
    BoolArray,
    ColumnSet,
    FloatArray,
    Int64Array,
    Measurement,
)

Numbers = NDArray[np.unsignedinteger[Any]]
DENSE = 16
"""Combinations are looked up in place where at most so many are possible for each bucket or row."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cells:
    """Groups of people of one table: each cell's sum of a secret is told, with noise."""

    # shape (n_edges,): Who is in which cell; a person of several rows may be in several. None: each in one, in order.
    person: Int64Array | None
    cell: Int64Array  # 0: in none
    weight: FloatArray  # shape (n_edges,): Rows of the person in the cell that count
    share: FloatArray  # shape (n_edges,): What of it is news beside the narrower tables that the table is locked to
    larger: FloatArray  # shape (n_cells,): How many times as many people as were sampled
    noise: FloatArray  # shape (n_cells,): Variance of what is told of the cell's sum
    gain: float = 1.0  # Correlation of what is told with the secret
    looks: int = 1  # Tables that tell of these groups, each with noise and errors of its own


@dataclass(frozen=True, kw_only=True, slots=True)
class _Told:
    """What a table tells of one column: the finest ranges of all others in which it shows several of the column's."""

    cell: Numbers  # shape (n_rows,): Which of them each row is in, from 1; 0: none
    people: FloatArray  # shape (n_cells + 1,): Noisy number of rows in each
    # shape (n_cells + 1,): Figures whose noise is in what is told of rows that are in no finer one: its own, and
    # one for each finer one inside.
    figures: FloatArray


@dataclass(frozen=True, kw_only=True, slots=True)
class _Seen:
    """One table, as sampled rows lie in it."""

    node: Numbers  # shape (n_rows,): Finest bucket that holds each row, from 1; 0: none
    people: FloatArray  # shape (n_nodes + 1,): Noisy count of each bucket
    is_leaf: (
        BoolArray  # shape (n_nodes + 1, n_columns): No finer range of the column is released at all
    )
    told: tuple[_Told, ...]  # By column
    scale: int  # What the noise of the finest buckets is multiplied with


class Incidence:
    """Sampled rows in the cells of all tables.

    Measurements come narrower before wider, single columns first.

    codes: Of sampled rows, by column, as they are counted.
    person: Which person each row is of, numbered from 0; None: each is one.
    share: Share of people that was sampled.
    layer_sd: Standard deviation of each of two noise layers.
    """

    def __init__(
        self,
        codes: Mapping[str, Int64Array],
        person: Int64Array | None,
        share: float,
        layer_sd: int,
    ) -> None:
        self._codes = codes
        self._n_rows = len(next(iter(codes.values()), np.zeros(0)))
        self._person = person
        self.n_people = self._n_rows if person is None else int(person.max(initial=-1)) + 1
        self.share = share
        self.layer_sd = layer_sd
        self._ranges: dict[str, _Ranges] = {}
        self._seen: dict[ColumnSet, _Seen] = {}

    @property
    def tables(self) -> tuple[ColumnSet, ...]:
        """What was added."""
        return tuple(self._seen)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that tables show."""
        return tuple(self._ranges)

    def add(self, tree: Measurement) -> None:
        """See a further table."""
        if not tree.columns:
            return
        for name in tree.columns:
            if name not in self._ranges:
                self._ranges[name] = _Ranges(tree, self._codes[name])
        ranges = [self._ranges[name] for name in tree.columns]
        numbers = [one.of(tree, j) for j, one in enumerate(ranges)]
        node, _ = _finest(ranges, numbers, tree.depth, self._n_rows)
        leaves = [one.is_leaf[n] for one, n in zip(ranges, numbers, strict=True)]
        self._seen[tree.columns] = _Seen(
            node=_small(node),
            people=np.append(0.0, np.maximum(tree.n, 0)),
            is_leaf=np.vstack([np.zeros(len(ranges), dtype=bool), np.column_stack(leaves)]),
            told=tuple(
                _told(tree, _without(ranges, j), _without(numbers, j), self._n_rows)
                for j in range(len(ranges))
            ),
            scale=int(tree.scale[-1]),
        )

    def leaf(self, name: str) -> Int64Array:
        """Number of the finest range of each row in a column, from 1; 0 for blanks and rare values, and for none."""
        return np.where(self._ranges[name].is_special, 0, self._seen[name,].node)

    def cells(
        self,
        table: ColumnSet,
        told: str,
        split: Split | None = None,
        times: int = 1,
        louder: int = 1,
    ) -> Cells | None:
        """Cells of all other columns of a table, in which it tells of one column; None: there are none.

        times: How often it was measured with noise of its own. Each counts as if it were of other groups, for nobody
            knows what changed between two states of the data: of the same groups several tell a little less.
        louder: How many times the noise.
        """
        seen = self._seen[table]
        j = table.index(told)
        of = seen.told[j]
        cell = of.cell.astype(np.int64)
        size, figures = of.people[cell], of.figures[cell]
        gain = 1.0
        if split is not None:
            gain = split.gain
            if split.rest is not None:
                part = _split(np.where(seen.is_leaf[seen.node, j], cell, 0), split.rest, split.bit)
                size *= np.bincount(part)[part] / np.bincount(cell)[cell]
                cell, figures = part, np.ones(len(part))
        if not cell.any():
            return None
        share = self._news(table, told, size)
        share[cell == 0] = 0.0
        share *= times
        person, weight = None, np.ones(len(cell))
        if self._person is not None:
            # Rows of one person in one cell are one: together they are worth as many as count.
            keys, one, n = np.unique(
                cell * self.n_people + self._person, return_index=True, return_counts=True
            )
            cell, person = np.divmod(keys, self.n_people)
            weight = np.minimum(n, seen.scale).astype(np.float64)
            share, size, figures = share[one], size[one], figures[one]
        n_cells = int(cell.max()) + 1
        noise, people = np.ones(n_cells), np.zeros(n_cells)
        noise[cell] = 4 * (louder * self.layer_sd * seen.scale) ** 2 * figures
        people[cell] = size
        sampled = np.bincount(cell, weights=weight)
        larger = (
            np.maximum(people / np.maximum(sampled, 1.0), 1.0)
            if self.share < 1
            else np.ones(n_cells)
        )
        return Cells(
            person=person,
            cell=cell,
            weight=weight,
            share=share,
            larger=larger,
            noise=noise,
            gain=gain,
        )

    def _news(self, table: ColumnSet, told: str, size: FloatArray) -> FloatArray:
        """Share of what a cell tells that the cells of narrower tables, which it adds up to, do not."""
        out = np.ones(len(size))
        for other in table:
            narrower = tuple(name for name in table if name != other)
            if other == told or narrower not in self._seen:
                continue
            of = self._seen[narrower].told[narrower.index(told)]
            around = of.people[of.cell]
            out *= np.clip(1 - size / np.where(around > 0, around, np.inf), 0.0, 1.0)
        return out

    def news(self, table: ColumnSet) -> float:
        """Share of a typical row that a table tells and narrower ones do not."""
        seen = self._seen[table]
        held = np.flatnonzero(seen.node)
        size = seen.people[seen.node[held]]
        out = np.ones(len(held))
        for other in table:
            narrower = tuple(name for name in table if name != other)
            around = np.full(len(held), self._n_rows / self.share)
            if narrower in self._seen:
                within = self._seen[narrower]
                around = within.people[within.node[held]]
            out *= np.clip(1 - size / np.maximum(around, 1.0), 0.0, 1.0)
        return float(out.sum() / max(self._n_rows, 1))

    def scale(self, table: ColumnSet) -> int:
        """What the noise of a table's finest buckets is multiplied with."""
        return self._seen[table].scale


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """One secret inside the values of a column, as the rows lie in it.

    bit: shape (n_rows,): Which side of the secret each row's value is on.
    rest: shape (n_rows,): Which pair of values, one of each side, it is of: known to an attacker; -1: its value has no
        other half. None: nothing of the value is known.
    """

    bit: BoolArray
    rest: Int64Array | None
    gain: float


def _split(cell: Int64Array, rest: Int64Array, bit: BoolArray) -> Int64Array:
    """Cells of rows by pair of values, from 1, where rows of both sides lie; 0 elsewhere."""
    keys = np.where((cell > 0) & (rest >= 0), cell * (int(rest.max(initial=0)) + 1) + rest, -1)
    _, number = np.unique(keys, return_inverse=True)
    n = int(number.max(initial=-1)) + 1
    both = np.logical_and.reduce(
        [np.bincount(number[bit == side], minlength=n) > 0 for side in (0, 1)]
    )
    return np.where((keys >= 0) & both[number], number + 1, 0)


def _told(
    tree: Measurement, others: list[_Ranges], numbers: list[Int64Array], n_rows: int
) -> _Told:
    """Cells of all columns but one."""
    keys, n_keys = cell_keys(numbers, [one.size + 1 for one in others], n=tree.n_nodes)
    depths = int(tree.depth.max(initial=0)) + 1
    if n_keys * depths > DENSE * max(tree.n_nodes, 1):
        _, keys = np.unique(keys, return_inverse=True)
    # Buckets of one depth do not overlap: two of them tell which of the column's ranges a row is in.
    deep = keys * depths + tree.depth
    several = np.flatnonzero(np.bincount(deep)[deep] > 1)
    people = np.bincount(deep, weights=np.maximum(tree.n, 0))
    # Beyond the finest ranges of the others a depth tells more of the column alone.
    depth = np.minimum(
        tree.depth[several].astype(np.int64), max((one.top for one in others), default=0)
    )
    _, first = np.unique(depth * (int(keys.max(initial=0)) + 1) + keys[several], return_index=True)
    at = several[first]
    cell, above = _finest(others, [n[at] for n in numbers], depth[first], n_rows)
    return _Told(
        cell=_small(cell),
        people=np.append(0.0, people[deep[at]]),
        figures=1.0 + np.append(0, np.bincount(above, minlength=len(at) + 1)[1:]),
    )


def _finest(
    ranges: list[_Ranges], numbers: list[Int64Array], depth: NDArray[Any], n_rows: int
) -> tuple[Int64Array, Int64Array]:
    """The finest bucket, of several sorted by depth, that holds each row, and the next one around each, from 1.

    0: none. No bucket has a range of number 0, so rows outside of all ranges find none.
    """
    node, above = np.zeros(n_rows, dtype=np.int64), np.zeros(len(depth) + 1, dtype=np.int64)
    sizes = [one.size + 1 for one in ranges]
    n_keys, is_one_key = math.prod(sizes), math.prod(sizes) <= KEY_LIMIT
    is_dense = n_keys <= DENSE * (n_rows + len(depth))
    at_key = np.zeros(n_keys if is_dense else 0, dtype=np.int64)
    tops = tuple(one.top for one in ranges)
    for level, start, stop in _runs(depth):
        of_rows = [one.at(at) for one, at in zip(ranges, levels_at(tops, level), strict=True)]
        held = [one[start:stop] for one in numbers]
        if is_one_key:
            wanted, own = _keys(of_rows, sizes, n_rows), _keys(held, sizes, stop - start)
        else:
            wanted, own, _ = comparable_keys(np.array(of_rows).T, np.array(held).T, sizes)
        if is_dense:
            at_key[own] = np.arange(start, stop) + 1
            found = at_key[wanted]
            at_key[own] = 0
        else:
            order = np.argsort(own)
            place = order[np.minimum(np.searchsorted(own, wanted, sorter=order), len(own) - 1)]
            found = np.where(own[place] == wanted, start + place + 1, 0)
        above[found] = node
        node = np.where(found > 0, found, node)
    return node, above[1:]


def _keys(columns: list[Int64Array], sizes: list[int], n: int) -> Int64Array:
    """One integer a combination."""
    if not columns:
        return np.zeros(n, dtype=np.int64)
    keys = columns[0]
    for codes, size in zip(columns[1:], sizes[1:], strict=True):
        keys = keys * size + codes
    return keys


def _runs(depth: NDArray[Any]) -> Iterator[tuple[int, int, int]]:
    """Each depth, and where its buckets begin and end."""
    levels, start = np.unique(depth, return_index=True)
    stops = np.append(start, len(depth))[1:]
    return zip(levels.tolist(), start.tolist(), stops.tolist(), strict=True)


def _without(items: list[Any], j: int) -> list[Any]:
    """All but one."""
    return [*items[:j], *items[j + 1 :]]


def _small(numbers: Int64Array) -> Numbers:
    """The same in as few bytes as hold them."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


class _Ranges:
    """The released ranges of one column, numbered, and the number of each row's range at every level."""

    def __init__(self, tree: Measurement, codes: Int64Array) -> None:
        self._indexes = np.unique(tree.index)
        self._labels = np.unique(
            self._label(tree.kind[:, 0], tree.level[:, 0], tree.index[:, 0])[0]
        )
        self.size = len(self._labels)
        self.top = int(tree.level.max(initial=0))
        self._kind, self._magnitude = split_codes(codes)
        self.is_special = (self._kind == KIND_NULL) | (self._kind == KIND_OTHER)
        self._at: dict[int, Int64Array] = {}
        finest = np.ones(tree.n_nodes, dtype=bool)
        finest[tree.parent[tree.parent >= 0]] = False
        self.is_leaf = np.zeros(self.size + 1, dtype=bool)
        self.is_leaf[self.of(tree, 0)[finest]] = True

    def _label(
        self, kind: NDArray[np.uint8], level: NDArray[np.uint8], index: Int64Array
    ) -> tuple[Int64Array, BoolArray]:
        """One integer a range; and whether its index is known."""
        place = np.minimum(np.searchsorted(self._indexes, index), max(len(self._indexes) - 1, 0))
        label = (kind.astype(np.int64) << 8) | level
        return label * len(self._indexes) + place, self._indexes[place] == index

    def _number(
        self, kind: NDArray[np.uint8], level: NDArray[np.uint8], index: Int64Array
    ) -> Int64Array:
        """Numbers of ranges, from 1; 0 for those that are not released."""
        if not self.size:
            return np.zeros(len(index), dtype=np.int64)
        label, known = self._label(kind, level, index)
        at = np.minimum(np.searchsorted(self._labels, label), self.size - 1)
        return np.where(known & (self._labels[at] == label), at + 1, 0)

    def of(self, tree: Measurement, j: int) -> Int64Array:
        """Number of the range of each bucket in its column j."""
        return self._number(tree.kind[:, j], tree.level[:, j], tree.index[:, j])

    def at(self, level: int) -> Int64Array:
        """Number of the range of each row at a level."""
        if level not in self._at:
            levels = np.where(self.is_special, 0, level).astype(np.uint8)
            self._at[level] = self._number(self._kind, levels, self._magnitude >> levels)
        return self._at[level]
