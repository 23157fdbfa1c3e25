"""Counts into how many noisy figures released tables split the people of every group.

A group is the people of a bucket that a released one- or two-way table shows. A table that holds the group's columns
and more splits it: each of its finest buckets inside the group is one noisy figure about these people, with noise of
its own; unless a column is constant there, for then the bucket is locked to one of a narrower table. Everything is
reckoned from measurements, so from noisy counts of passing buckets alone: a tally may be shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from engine.cell_keys import cell_keys
from engine.errors import InternalError
from engine.schema import BoolArray, ColumnSet, FloatArray, Int64Array, Measurement

Int32Array = NDArray[np.int32]

WIDEST_GROUP = 2
"""Groups are singled out by buckets of so many columns at most."""
DENSE = 16
"""Combinations are counted in place where at most so many are possible for each bucket."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """How one table splits the groups of one narrower table."""

    columns: ColumnSet  # The wider table
    # shape (n,): Buckets of the narrower table that are the finest to hold some finest bucket of the wider
    # one: their places in the measurement, ascending.
    node: Int32Array
    cells: Int32Array  # shape (n,): How many each holds
    told: tuple[str, ...]  # The columns of the wider table that the group's lacks
    # shape (n_told, n): How many of them tell news of each of these columns: in every other one, some
    # bucket differs in it alone.
    news: Int32Array


@dataclass(frozen=True, kw_only=True, slots=True)
class Counted:
    """A table of a tally."""

    columns: ColumnSet
    scale: int  # What the noise of its finest buckets was multiplied with
    news: float  # The share of a typical person that it tells and narrower ones do not
    tree: Measurement | None = None  # None: it was counted by an earlier build, or forgotten


class Tally:
    """The figures of all tables measured so far, group by group.

    Measurements come narrower before wider, as a build measures them.

    floor: Mean threshold of a released bucket, in entities: a group that a table splits into k buckets has
        about k times as many people, whatever its own noisy count says.

    tables: All but the total.
    groups: Tables that single groups out.
    splits: By these, how each table splits them.
    """

    def __init__(self, floor: int) -> None:
        self.floor = floor
        self._ranges: dict[str, _Ranges] = {}
        self.groups: dict[ColumnSet, Measurement] = {}
        self._boxes: dict[ColumnSet, _Boxes] = {}
        self.splits: dict[ColumnSet, list[Split]] = {}
        self.tables: list[Counted] = []
        self._forgotten: frozenset[ColumnSet] = frozenset()

    def add(self, measurement: Measurement) -> None:
        """Count what a further table splits."""
        columns = measurement.columns
        if not columns:
            return
        if len(columns) == 1 and columns[0] not in self._ranges:
            self._ranges[columns[0]] = _Ranges(measurement)
        if missing := [name for name in columns if name not in self._ranges]:
            raise InternalError(f"{', '.join(missing)}: measured after a table that holds it")
        places = [self._ranges[name].places(measurement, j) for j, name in enumerate(columns)]
        if len(columns) <= WIDEST_GROUP:
            self._begin_group(measurement)
        cells = finest(measurement)
        counts = alike(measurement, places)
        is_alone = counts == 1
        self.tables.append(
            Counted(
                columns=columns,
                scale=int(measurement.scale[-1]),
                news=_news(measurement, cells, counts),
                tree=measurement,
            )
        )
        for at in grouped(len(columns)):
            narrower = tuple(columns[j] for j in at)
            node = self._boxes_of(narrower).holding([places[j] for j in at], measurement.parent)
            inside = cells & (node >= 0)
            others = [j for j in range(len(columns)) if j not in at]
            alone = is_alone[inside[cells]][:, others]
            # All but the column told: where one of them is constant, a narrower table tells the same.
            is_news = (alone.sum(axis=1, keepdims=True) - alone) == 0
            self.splits[narrower].append(
                _split(columns, node[inside], tuple(columns[j] for j in others), is_news)
            )
        if columns in self._forgotten:
            self._let_go(len(self.tables) - 1)

    def recall(self, counted: Counted, tree: Measurement | None, splits: Sequence[Split]) -> None:
        """Take over what an earlier tally counted of a table of two and more columns."""
        if tree is not None:
            self._begin_group(tree)
        self.tables.append(counted)
        for at, split in zip(grouped(len(counted.columns)), splits, strict=True):
            self.splits[tuple(counted.columns[j] for j in at)].append(split)

    def forget(self, tables: Collection[ColumnSet]) -> None:
        """Keep of some tables, which no further one splits, no more than what was counted, to save memory.

        Those of them that come later are let go as they were counted: once is enough.
        """
        new = frozenset(tables) - self._forgotten
        self._forgotten |= new
        for place, table in enumerate(self.tables):
            if table.columns in new and table.tree is not None:
                self._let_go(place)

    def _let_go(self, place: int) -> None:
        """Hold no bucket of a table any more."""
        table = self.tables[place]
        self.tables[place] = replace(table, tree=None)
        self.groups.pop(table.columns, None)

    def _begin_group(self, tree: Measurement) -> None:
        self.groups[tree.columns] = tree
        self.splits[tree.columns] = []

    def _boxes_of(self, group: ColumnSet) -> _Boxes:
        """The buckets of a group's table, made once a wider one asks: no other needs the memory."""
        if group not in self._boxes:
            if group not in self.groups:
                raise InternalError(f"{', '.join(group)}: measured after a table it locks")
            tree = self.groups[group]
            places = [self._ranges[name].places(tree, j) for j, name in enumerate(group)]
            self._boxes[group] = _Boxes(places, [self._ranges[name].size for name in group])
        return self._boxes[group]

    def raised(self, threshold: int) -> Tally:
        """The tally of the same tables under a higher mean threshold, roughly: as noisy counts have it."""
        out = Tally(threshold)
        out._ranges = self._ranges
        for table in self.tables:
            if table.tree is None:
                raise InternalError(f"{', '.join(table.columns)}: counted, but not measured here")
            out.add(pruned(table.tree, threshold))
        return out

    def people(self, group: ColumnSet, counted: Int32Array | None = None) -> FloatArray:
        """People of every bucket of a group's table, as far as noisy counts tell."""
        noisy = self.groups[group].n.astype(np.float64)
        least = np.full_like(noisy, 2) if counted is None else np.maximum(counted, 2.0)
        return np.maximum(noisy, self.floor * least)

    def figures(self, group: ColumnSet) -> tuple[Int32Array, list[tuple[int, str]], Int32Array]:
        """What each table of `splits` has inside every bucket of a group's table.

        Returns: cells: Finest buckets of each; of: Place of the table in `splits`, and a column told;
        figures: Those of them that tell news of it.
        """
        tree, splits = self.groups[group], self.splits[group]
        of = [(at, name) for at, split in enumerate(splits) for name in split.told]
        out = np.zeros((tree.n_nodes, len(splits) + len(of)), dtype=np.int32)
        place = len(splits)
        for at, split in enumerate(splits):
            out[split.node, at] = split.cells
            out[split.node, place : place + len(split.told)] = split.news.T
            place += len(split.told)
        out = summed_up(tree, out)  # all at once: what it has to sort is the same for all
        return out[:, : len(splits)], of, out[:, len(splits) :]


def grouped(width: int) -> list[tuple[int, ...]]:
    """Places of the columns that single groups out, of a table of so many, in the order in which they are counted."""
    widths = range(1, min(width, WIDEST_GROUP + 1))
    return [at for narrow in widths for at in combinations(range(width), narrow)]


def _split(
    columns: ColumnSet, node: Int64Array, told: tuple[str, ...], is_news: BoolArray
) -> Split:
    """Count finest buckets by the bucket of the group that holds them."""
    cells = np.bincount(node)
    holding = np.flatnonzero(cells)
    news = np.zeros((len(told), len(holding)), dtype=np.int32)
    for j in range(len(told)):
        news[j] = np.bincount(node[is_news[:, j]], minlength=len(cells))[holding]
    return Split(
        columns=columns,
        node=holding.astype(np.int32),
        cells=cells[holding].astype(np.int32),
        told=told,
        news=news,
    )


def pruned(tree: Measurement, threshold: int) -> Measurement:
    """A measurement without the buckets whose noisy count is below a threshold, and all inside them."""
    passes = tree.n >= threshold
    for start, stop in _depths(tree):
        passes[start:stop] &= passes[tree.parent[start:stop]]
    return tree.kept(passes)


def alike(tree: Measurement, ranges: Sequence[Int64Array]) -> Int64Array:
    """For each finest bucket and column, how many buckets lie where it lies in all other columns, itself included.

    Neighbours that were split further count by the bucket that holds their parts, and so do those that were not split
    as far: a bucket is alone only where its column is constant.
    """
    is_finest, k = finest(tree), len(tree.columns)
    codes = [tree.depth.astype(np.int64), *ranges]
    sizes = [int(code.max(initial=0)) + 1 for code in codes]
    ends = np.searchsorted(tree.depth, np.arange(sizes[0] + 1)).tolist()
    out = np.zeros((tree.n_nodes, k), dtype=np.int64)
    for j in range(k):
        others = [place for place in range(k + 1) if place != j + 1]  # of the same depth, too
        which, counts = _numbered([codes[i] for i in others], [sizes[i] for i in others])
        stopped = np.bincount(which, weights=is_finest, minlength=len(counts)).astype(np.int64)
        # Finest ones of lesser depth that reach there.
        larger = stopped[which]
        for start, stop in pairwise(ends):
            parent = tree.parent[start:stop]
            above = np.where(parent >= 0, larger[parent], 0)
            out[start:stop, j] = above
            larger[start:stop] += above
        out[:, j] += counts[which]
    return out[is_finest]


def _numbered(codes: list[Int64Array], sizes: list[int]) -> tuple[Int64Array, Int64Array]:
    """A number of each combination, equal for equal ones, and by number how many there are.

    Where few more combinations are possible than there are buckets, their keys are numbers enough: nothing is sorted.
    """
    keys, n_keys = cell_keys(codes, sizes)
    if n_keys <= DENSE * len(keys):
        return keys, np.bincount(keys, minlength=1)
    _, which, counts = np.unique(keys, return_inverse=True, return_counts=True)
    return which, counts


def _news(tree: Measurement, is_finest: BoolArray, counts: Int64Array) -> float:
    """The share of a typical person that a locked table tells and narrower ones do not.

    Its margins are locked to them: of one person more only the interaction is news, a share of 1 - 1/k for each column,
    where k released buckets differ in that column alone.
    """
    rows = np.maximum(tree.n[is_finest], 0).astype(np.float64)
    total = max(float(tree.n[tree.depth == 0].clip(min=0).sum()), rows.sum(), 1.0)
    return float(((1 - 1 / counts).prod(axis=1) * rows).sum() / total)


def finest(tree: Measurement) -> BoolArray:
    """Which buckets have no released bucket inside them."""
    is_finest = np.ones(tree.n_nodes, dtype=bool)
    is_finest[tree.parent[tree.parent >= 0]] = False
    return is_finest


def summed_up(tree: Measurement, figures: Int32Array) -> Int32Array:
    """Add to every bucket what the buckets inside it have."""
    out = figures.copy()
    for start, stop in reversed(list(_depths(tree))):
        # Children of one parent need not be neighbours: sorted, one reduceat adds them.
        parent = tree.parent[start:stop]
        order = np.argsort(parent, kind="stable")
        first = np.flatnonzero(np.diff(parent[order], prepend=-2))
        out[parent[order][first]] += np.add.reduceat(out[start:stop][order], first, axis=0)
    return out


def _depths(tree: Measurement) -> Iterator[tuple[int, int]]:
    """Where the nodes of each depth but the first begin and end."""
    ends = np.searchsorted(tree.depth, np.arange(int(tree.depth.max(initial=0)) + 2))
    for depth in range(1, len(ends) - 1):
        yield int(ends[depth]), int(ends[depth + 1])


class _Ranges:
    """The released ranges of one column, numbered."""

    def __init__(self, tree: Measurement) -> None:
        self._indexes = np.unique(tree.index)
        self._labels = np.unique(self._label(tree, 0)[0])
        self.size = len(self._labels)

    def _label(self, tree: Measurement, j: int) -> tuple[Int64Array, BoolArray]:
        """One integer a range, as in `engine.measure.sticky.ReleasedRanges`; and whether its index is known."""
        index = tree.index[:, j]
        last = max(len(self._indexes) - 1, 0)
        place = np.minimum(np.searchsorted(self._indexes, index), last)
        label = (tree.kind[:, j].astype(np.int64) << 8) | tree.level[:, j]
        return label * len(self._indexes) + place, self._indexes[place] == index

    def places(self, tree: Measurement, j: int) -> Int64Array:
        """Number of the range of each bucket in its column j."""
        if not tree.n_nodes:
            return np.zeros(0, dtype=np.int64)
        label, is_known = self._label(tree, j)
        at = np.minimum(np.searchsorted(self._labels, label), self.size - 1)
        if not (is_known & (self._labels[at] == label)).all():
            raise InternalError(f"{tree.columns[j]}: a range that its own table does not release")
        return at.astype(np.int64)


class _Boxes:
    """The buckets of one table, looked up by the numbers of their ranges."""

    def __init__(self, places: list[Int64Array], sizes: list[int]) -> None:
        self._sizes = sizes
        boxes = self._numbered(places)
        # Of equal boxes, one inside the other, the finest: the last one, for nodes are sorted by depth.
        self._known, last = np.unique(boxes[::-1], return_index=True)
        self._node = len(boxes) - 1 - last

    def _numbered(self, places: list[Int64Array]) -> Int64Array:
        out = np.zeros(len(places[0]), dtype=np.int64)
        for place, size in zip(places, self._sizes, strict=True):
            out = out * size + place
        return out

    def holding(self, places: list[Int64Array], parent: Int64Array) -> Int64Array:
        """The finest bucket that holds each bucket of a wider table; -1 where none does.

        parent: Of the wider buckets: where one is not found, what holds its parent holds it too.
        """
        if not len(self._known):
            return np.full(len(parent), -1, dtype=np.int64)
        boxes = self._numbered(places)
        at = np.minimum(np.searchsorted(self._known, boxes), len(self._known) - 1)
        node = np.where(self._known[at] == boxes, self._node[at], -1)
        lost = np.flatnonzero(node < 0)
        above = parent[lost]
        while len(lost):  # parents stand before children, and depths are few
            lost, above = lost[above >= 0], above[above >= 0]
            node[lost] = node[above]
            still = node[lost] < 0
            lost, above = lost[still], parent[above[still]]
        return node
