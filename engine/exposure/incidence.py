"""Who lies in which released cell: the tables that show a column, as a system of equations over people.

Takes codes of sampled rows and the measurements; gives, for each column, groups of people of whose secrets each table
reveals the sum. Confidential: it is made from rows. What may leave the package are figures over many people.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.cell_keys import cell_keys
from engine.params import PrivacyParams
from engine.ranges import levels_at, split_codes
from engine.schema import (
    KIND_NONNEGATIVE,
    KIND_NULL,
    KIND_OTHER,
    BoolArray,
    ColumnSet,
    FloatArray,
    Int64Array,
    Measurement,
    Sums,
)

SOME_ROWS = 2_000
"""Rows on which the share of news in a table is estimated."""
RARE = 1e-6
"""What happens less often to an even secret, such as many people of whom neither side is shown, is left out."""
LEAST_SPREAD = 0.2
"""Least variance of a sum of a few secrets: they are whole numbers."""
Numbers = NDArray[np.integer[Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Cells:
    """Groups of people of one table: the sum of the secrets of each cell is revealed, with noise."""

    # shape (n_edges,): Who is in which cell; a person of several rows may be in several.
    person: Int64Array
    cell: NDArray[np.int32]
    weight: FloatArray  # shape (n_edges,): Rows of the person in the cell that count
    share: FloatArray  # shape (n_edges,): What of it is news beside the narrower tables that the table is locked to
    larger: FloatArray  # shape (n_cells,): How many times as many people as were sampled
    size: Int64Array  # shape (n_cells,): People in a small cell, of which a side may be hidden; 0: both are shown
    # shape (n_cells,): Variance of the noise in the sum: of the two sides; of a small cell, that tells as much as what
    # is shown of it on average.
    noise: FloatArray
    sd: float  # Of each of two layers of noise in a count
    n_figures: int = 2  # In a cell: both sides, or a measured sum
    gain: float = 1.0  # Correlation of what the table shows with the secret


@dataclass(frozen=True, kw_only=True, slots=True)
class _Groups:
    """The finest released cells of some columns, as sampled rows lie in them."""

    cell: Numbers  # shape (n_rows,): Which cell each row is in, from 1; 0: none
    people: FloatArray  # shape (n_cells + 1,): Noisy number of rows in each
    # shape (n_cells + 1,): Figures whose noise is in what a cell reveals of rows that are in no finer one: its own, and
    # one for each finer one inside.
    figures: FloatArray
    finer: Numbers  # shape (n_rows,): Next finer cell of each row, of which less is shown, from 1; 0: none
    n_finer: FloatArray  # shape (n_finer + 1,): People in it; inf: not known


@dataclass(frozen=True, kw_only=True, slots=True)
class _Seen:
    """One table, as sampled rows lie in it."""

    buckets: _Groups  # Its own, of some rows
    others: tuple[
        _Groups, ...
    ]  # By column: of all others, where several ranges of the column are shown
    # By column and by one whose sums are measured: groups of the others for which they are, as sampled rows lie in
    # them, from 1, and the noisy number of rows in each.
    summed: Mapping[tuple[str, str], tuple[Numbers, FloatArray]]
    scale: int  # What the noise of the finest buckets is multiplied with


class Incidence:
    """Sampled rows in the cells of all tables.

    Measurements come narrower before wider, single columns first.

    codes: Of sampled rows, by column, as they are counted.
    person: Which person each row is of, numbered from 0; None: each is one.
    share: Share of people that was sampled.
    privacy: Thresholds and noise.
    """

    def __init__(
        self,
        codes: Mapping[str, Int64Array],
        person: Int64Array | None,
        share: float,
        privacy: PrivacyParams,
    ) -> None:
        self._codes = codes
        self._n_rows = len(next(iter(codes.values()), np.zeros(0)))
        self._is_single = person is None
        self._person = np.arange(self._n_rows) if person is None else person
        self._one_each = np.ones(self._n_rows)
        self.n_people = int(self._person.max(initial=-1)) + 1
        self.share = share
        self.privacy = privacy
        self._ranges: dict[str, _Ranges] = {}
        self._seen: dict[ColumnSet, _Seen] = {}
        self._combinations: dict[ColumnSet, tuple[NDArray[np.int32], NDArray[np.int32]]] = {}
        self._some = slice(None, None, max(self._n_rows // SOME_ROWS, 1))

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
        everything = list(range(len(ranges)))
        self._seen[tree.columns] = _Seen(
            buckets=self._groups(tree, numbers, everything, 1, self._some),
            others=tuple(
                self._groups(tree, numbers, [i for i in everything if i != j], 2)
                for j in everything
            ),
            summed={
                (target, one.column): self._alone(tree, numbers, target, one)
                for one in tree.sums
                for target in tree.columns
                # The sum of everybody's secrets reveals nobody's.
                if len(tree.columns) > 2 or target == one.column
            },
            scale=int(tree.scale[-1]),
        )

    def _groups(
        self,
        tree: Measurement,
        numbers: list[Int64Array],
        columns: list[int],
        least: int,
        rows: slice | None = None,
    ) -> _Groups:
        """Cells of some columns of a table that hold so many of its buckets.

        numbers: By column the number of each bucket's range.
        rows: Those that are looked at; None: all, each combination of ranges once.
        """
        from engine.exposure.loops import place

        names = tuple(tree.columns[j] for j in columns)
        chosen = [self._ranges[name] for name in names]
        depths = range(max((one.top for one in chosen), default=0) + 1)
        levels = [levels_at(tuple(one.top for one in chosen), depth) for depth in depths]
        # The ranges around those of all columns lie in one array: where those of each column and level begin.
        before = np.cumsum([0, *(one.above.size for one in chosen)])[:-1]
        first = [
            start + one.above.shape[1] * np.minimum(depths, one.top)
            for start, one in zip(before, chosen, strict=True)
        ]
        leaf, row = (
            self._distinct(names)
            if rows is None
            else (np.ascontiguousarray(self._leaves(names)[rows]), None)
        )
        cell, people, figures, finer, finer_range = place(
            _matrix([numbers[j] for j in columns], tree.n_nodes),
            tree.depth,
            tree.n,
            least,
            np.array(levels, dtype=np.int64).reshape(len(depths), len(chosen)),
            leaf,
            np.concatenate([np.zeros(0, dtype=np.int32), *(one.above.ravel() for one in chosen)]),
            np.array(first, dtype=np.int64).reshape(len(chosen), len(depths)),
        )
        cell = cell.astype(np.min_scalar_type(len(people)))
        finer = finer.astype(np.min_scalar_type(len(finer_range)))
        if row is not None:
            cell, finer = cell[row], finer[row]
        if rows is not None:
            n_finer = np.zeros(len(finer_range))
        elif self.share == 1:
            n_finer = self._n_each(finer, len(finer_range))
        elif len(chosen) == 1:  # the column's own table tells
            n_finer = chosen[0].people[finer_range]
        else:
            n_finer = np.full(len(finer_range), np.inf)
        return _Groups(cell=cell, people=people, figures=figures, finer=finer, n_finer=n_finer)

    def _alone(
        self, tree: Measurement, numbers: list[Int64Array], target: str, sums: Sums
    ) -> tuple[Numbers, FloatArray]:
        """Groups of all columns but two, for which sums of one of these are measured."""
        others = [i for i, name in enumerate(tree.columns) if name != sums.column]
        alone = (tree.level[:, others] == 0).all(axis=1)
        first = alone & ~np.where(tree.parent >= 0, alone[tree.parent], False)
        by = [i for i in others if tree.columns[i] != target]
        leaves = [self._ranges[tree.columns[i]].leaf for i in by]
        keys, _ = cell_keys(
            [np.append(numbers[i], leaf) for i, leaf in zip(by, leaves, strict=True)],
            [
                int(leaf.max(initial=0)) + int(numbers[i].max(initial=0)) + 1
                for i, leaf in zip(by, leaves, strict=True)
            ],
            n=tree.n_nodes + self._n_rows,
        )
        groups = np.unique(keys[sums.node])
        place = np.searchsorted(groups, keys)
        place = np.where(np.isin(keys, groups), place + 1, 0)
        people = np.zeros(len(groups) + 1)
        np.add.at(people, place[: tree.n_nodes][first], np.maximum(tree.n[first], 0))
        return place[tree.n_nodes :].astype(np.min_scalar_type(len(people))), people

    def _leaves(self, columns: ColumnSet) -> NDArray[np.int32]:
        """The finest range of each row in some columns."""
        return _matrix([self._ranges[name].leaf for name in columns], self._n_rows)

    def _distinct(self, columns: ColumnSet) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Their combinations, and which each row has; the tables that show a few columns share them."""
        if columns not in self._combinations:
            leaves, which = self._leaves(columns), np.zeros(self._n_rows, dtype=np.int64)
            for leaf in leaves.T:
                which = which * (int(leaf.max(initial=0)) + 1) + leaf
                _, which = np.unique(which, return_inverse=True)
            first = np.zeros(int(which.max(initial=-1)) + 1, dtype=np.int64)
            first[which] = np.arange(len(which))
            self._combinations[columns] = leaves[first], which.astype(np.int32)
        return self._combinations[columns]

    def leaf(self, name: str) -> Int64Array:
        """Number of the finest range of each row in a column, from 1; 0 for none."""
        return self._ranges[name].leaf.astype(np.int64)

    def is_kind(self, name: str, *kinds: int) -> BoolArray:
        """Whether that of each row is of one of some kinds, such as nulls."""
        of = self._ranges[name]
        return np.isin(of.kind, kinds)[of.leaf]

    def cells(
        self,
        table: ColumnSet,
        target: str,
        split: Split | None = None,
        times: int = 1,
        noise_factor: int = 1,
    ) -> Cells:
        """Cells of all other columns of a table, in which it reveals one column.

        Cells around people that are not shown as a whole count as well, where so few are in them that an even secret
        would hide a side.

        times: How often it was measured with noise of its own. Each counts as if it were of other groups, for nobody
            knows what changed between two states of the data: of the same groups several reveal a little less.
        noise_factor: How many times the noise.
        """
        seen = self._seen[table]
        j = table.index(target)
        of, gain, sd = seen.others[j], 1.0, noise_factor * self.privacy.layer_sd * seen.scale
        cell, people, figures = of.cell.astype(np.int32), of.people, of.figures
        if split is not None:
            gain = split.gain
            if split.rest is not None:
                part = _split(cell, split.rest)
                size = people[cell] * np.bincount(part)[part] / np.bincount(cell)[cell]
                people = np.zeros(int(part.max()) + 1)
                people[part] = size
                cell, figures = part.astype(np.int32), np.ones(len(people))
        share = self._news(table, target, people, cell) if cell.any() else self._one_each
        row = np.flatnonzero(cell)
        cell, share = cell[row], share[row]
        if split is None or split.rest is None:
            small, of_small = self._small(table, target)
            inside, n_inside = of.finer[small].astype(np.int32), np.zeros(len(of.n_finer))
            n_inside[inside] = of.n_finer[inside]
            cell = np.concatenate([cell, inside + np.int32(len(people))])
            share, row = np.concatenate([share, of_small]), np.concatenate([row, small])
            people = np.concatenate([people, n_inside])
            figures = np.concatenate([figures, np.ones(len(n_inside))])
        return self._cells(seen, row, cell, share * times, people, figures, sd, gain)

    def sums(
        self,
        table: ColumnSet,
        target: str,
        gain: float = 1.0,
        times: int = 1,
        noise_factor: int = 1,
    ) -> Iterator[Cells]:
        """Groups in which sums that a table shows reveal one column, besides counts.

        Of the column that is summed: a value that moves from one end to the other moves a sum by no more than what
        multiplies its noise, so it tells as much as one count. Of another column: who is in the one group or the other
        shifts both sums by no more than half of that. Parameters as of `cells`.
        """
        seen = self._seen[table]
        sd = noise_factor * self.privacy.layer_sd * seen.scale
        for (revealed, summed), (held, people) in seen.summed.items():
            if revealed != target:
                continue
            row, cell = np.flatnonzero(held), held.astype(np.int32)
            share = self._news(table, target, people, cell)[row] * times
            # In units of the noise of a difference of two counts.
            figures = np.full(len(people), 2.0 if summed == target else 4.0)
            found = self._cells(seen, row, cell[row], share, people, figures, sd, gain)
            yield replace(found, n_figures=1 if summed == target else 2)

    def n_summed(self, table: ColumnSet) -> int:
        """Of how many columns a table shows sums."""
        return len({summed for _, summed in self._seen[table].summed})

    def _small(self, table: ColumnSet, target: str) -> tuple[Int64Array, FloatArray]:
        """Rows in small cells that are not shown as a whole, and what of these is not in those of narrower tables."""
        of = self._seen[table].others[table.index(target)]
        most = 4 * self.privacy.threshold_mean
        row = np.flatnonzero(((of.n_finer > 0) & (of.n_finer < most))[of.finer] & (of.finer > 0))
        people, share = of.n_finer[of.finer[row]], np.ones(len(row))
        for narrower in self._narrower(table, target):
            finer = narrower.finer[row]
            around = np.where(
                finer > 0, narrower.n_finer[finer], narrower.people[narrower.cell[row]]
            )
            share *= np.clip(1 - people / np.maximum(around, 1.0), 0.0, 1.0)
        return row[share > 0], share[share > 0]

    def _n_each(self, cell: Numbers, n_cells: int) -> FloatArray:
        """People in each cell."""
        if not self._is_single:
            keys = cell * np.int64(self.n_people) + self._person
            cell = cell[np.unique(keys, return_index=True)[1]]
        return np.bincount(cell, minlength=n_cells).astype(np.float64)

    def _narrower(self, table: ColumnSet, target: str) -> Iterator[_Groups]:
        """The same of the narrower tables that a table is locked to and that show a column."""
        for j, other in enumerate(table):
            narrower = _without(table, j)
            if other != target and narrower in self._seen:
                yield self._seen[narrower].others[narrower.index(target)]

    def _cells(
        self,
        seen: _Seen,
        row: Int64Array,
        cell: NDArray[np.int32],
        share: FloatArray,
        people: FloatArray,
        figures: FloatArray,
        sd: float,
        gain: float,
    ) -> Cells:
        """The people of some rows in cells; people, figures: by cell."""
        person, weight = self._person[row], self._one_each[row]
        if not self._is_single:
            # Rows of one person in one cell are one: together they are worth as many as count.
            keys, one, n = np.unique(
                cell * np.int64(self.n_people) + person,
                return_index=True,
                return_counts=True,
            )
            cell, person = (keys // self.n_people).astype(np.int32), keys % self.n_people
            weight = np.minimum(n, seen.scale).astype(np.float64)
            share = share[one]
        sampled = np.bincount(cell, weights=weight, minlength=len(people))
        larger = np.ones(len(people))
        if self.share < 1:
            larger = np.maximum(people / np.maximum(sampled, 1.0), 1.0)
        size, told = np.rint(sampled * larger).astype(np.int64), self.patterns(sd)
        size[(figures != 1) | (size >= len(told.noise))] = 0
        return Cells(
            person=person,
            cell=cell,
            weight=weight,
            share=share,
            larger=larger,
            size=size,
            noise=np.where(size > 0, told.noise[size], 4.0 * sd**2 * figures),
            sd=sd,
            gain=gain,
        )

    def patterns(self, sd: float) -> Patterns:
        """What is shown of small cells."""
        return _patterns(self.privacy.low_threshold, self.privacy.threshold_mean, sd)

    def _news(
        self, table: ColumnSet, target: str, people: FloatArray, cell: NDArray[np.int32]
    ) -> FloatArray:
        """Share of what a cell reveals that the cells of narrower tables, which it adds up to, do not."""
        from engine.exposure.loops import lessen

        out = np.ones(len(cell))
        for of in self._narrower(table, target):
            lessen(out, people, cell, of.people, of.cell.astype(np.int32))
        return out

    def news(self, table: ColumnSet) -> float:
        """Share of a typical row that a table reveals and narrower ones do not."""
        size = self._counts(table)
        out = (size > 0).astype(np.float64)
        for j in range(len(table)):
            narrower = _without(table, j)
            is_seen = narrower in self._seen
            around = self._counts(narrower) if is_seen else self._n_rows / self.share
            out *= np.clip(1 - size / np.maximum(around, 1.0), 0.0, 1.0)
        return float(out.mean()) if len(out) else 0.0

    def _counts(self, table: ColumnSet) -> FloatArray:
        """Noisy count of the finest bucket around some rows."""
        of = self._seen[table].buckets
        return of.people[of.cell]

    def scale(self, table: ColumnSet) -> int:
        """What the noise of a table's finest buckets is multiplied with."""
        return self._seen[table].scale


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """One secret inside the values of a column, as the rows lie in it.

    rest: shape (n_rows,): Which pair of values, one of each side, it is of: known to an attacker; -1: its value has no
        other half. None: nothing of the value is known.
    """

    rest: Int64Array | None
    gain: float  # Correlation of what the column shows with the secret


@dataclass(frozen=True, kw_only=True, slots=True)
class Patterns:
    """What the visible sides of n people reveal about the sum of their even secrets; by n, which is small."""

    passes: FloatArray  # Whether a side of so many is shown, as a probability
    noise: FloatArray  # Variance of the noise that tells as much as all sides do on average; inf: they tell nothing
    spread: FloatArray  # shape (n, 3): Variance of the sum by how many sides are shown, before counts are looked at


@lru_cache
def _patterns(low_threshold: int, mean: int, sd: float) -> Patterns:
    """Both sides of `4 * mean` people are shown nearly always."""
    most = 4 * mean
    noise, spreads = np.full(most, np.inf), np.full((most, 3), np.inf)
    spreads[:, 2] = np.arange(most)
    passes = np.array([0.5 * math.erfc((mean - k) / math.sqrt(2)) for k in range(most)])
    passes[:low_threshold] = 0.0
    for n in range(1, most):
        on = np.arange(n + 1)
        often = np.array([math.comb(n, k) for k in on]) / 2.0**n
        here, there = passes[: n + 1], passes[n::-1]
        left = 0.0  # variance of the sum that is not known
        for shown, likely in enumerate(
            (
                often * (1 - here) * (1 - there),
                2 * often * here * (1 - there),
                often * here * there,
            )
        ):
            chance = float(likely.sum())
            if chance < RARE:
                continue
            middle = float((likely * on).sum()) / chance
            spread = max(4 * float((likely * (on - middle) ** 2).sum()) / chance, LEAST_SPREAD)
            left += chance / (1 / spread + shown / (8 * sd**2))
            if shown < 2:
                spreads[n, shown] = spread
        noise[n] = n * left / (n - left) if left < n else np.inf
    return Patterns(passes=passes, noise=noise, spread=spreads)


def _split(cell: NDArray[np.int32], rest: Int64Array) -> Int64Array:
    """Cells of rows by what of their value is known, from 1; 0: their value has no other half."""
    keys = np.where((cell > 0) & (rest >= 0), cell * (int(rest.max(initial=0)) + 1) + rest, -1)
    _, number = np.unique(np.append(keys, -1), return_inverse=True)
    return np.asarray(number[:-1], dtype=np.int64)


def _matrix(columns: list[Any], n: int) -> NDArray[np.int32]:
    """Columns of integers side by side, also none."""
    return np.column_stack([np.zeros((n, 0)), *columns]).astype(np.int32)


def _without(columns: ColumnSet, j: int) -> ColumnSet:
    """All but one."""
    return (*columns[:j], *columns[j + 1 :])


class _Ranges:
    """The released ranges of one column, numbered from 1, and the finest one around each row."""

    def __init__(self, tree: Measurement, codes: Int64Array) -> None:
        kind, level, index = tree.kind[:, 0], tree.level[:, 0], tree.index[:, 0]
        self._indexes = np.unique(index)
        self._labels, at = np.unique(self._label(kind, level, index)[0], return_index=True)
        self.top = int(level.max(initial=0))
        kind, level, index = kind[at], level[at], index[at]
        special = (kind == KIND_NULL) | (kind == KIND_OTHER)
        self.kind = np.append(np.uint8(KIND_NONNEGATIVE), kind)
        # shape (top + 1, n_ranges + 1): Number of the range around each one, itself included, by level; 0: none.
        self.above = np.zeros((self.top + 1, len(at) + 1), dtype=np.int32)
        for wanted in range(self.top + 1):
            up = np.where(special, 0, np.maximum(wanted - level.astype(np.int64), 0))
            number = self._number(kind, np.where(special, 0, wanted).astype(np.uint8), index >> up)
            self.above[wanted, 1:] = np.where((level <= wanted) | special, number, 0)
        self.leaf = self._finest(codes)
        self.people = np.zeros(len(at) + 1)  # noisy
        self.people[self.of(tree, 0)] = np.maximum(tree.n, 0)

    def _finest(self, codes: Int64Array) -> NDArray[np.int32]:
        """The finest range around each row."""
        values, row = np.unique(codes, return_inverse=True)
        kind, magnitude = split_codes(values)
        special = (kind == KIND_NULL) | (kind == KIND_OTHER)
        leaf = np.zeros(len(values), dtype=np.int32)
        for level in range(self.top, -1, -1):
            levels = np.where(special, 0, level).astype(np.uint8)
            number = self._number(kind, levels, magnitude >> levels)
            leaf = np.where(number > 0, number, leaf).astype(np.int32)
        return leaf[row]

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
        """Numbers of ranges; 0 for those that are not released."""
        if not len(self._labels):
            return np.zeros(len(index), dtype=np.int64)
        label, known = self._label(kind, level, index)
        at = np.minimum(np.searchsorted(self._labels, label), len(self._labels) - 1)
        return np.where(known & (self._labels[at] == label), at + 1, 0)

    def of(self, tree: Measurement, j: int) -> Int64Array:
        """Number of the range of each bucket in its column j."""
        return self._number(tree.kind[:, j], tree.level[:, j], tree.index[:, j])
