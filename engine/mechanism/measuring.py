"""What is measured of columns and column sets: first the total, then every one-way table, then wider sets.

The one-way tables fix the columns' released values and top levels. Each table depends on its own columns only: which
other tables are requested, and in which order, changes no bucket.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.mechanism.bounds import RowBounds
from engine.mechanism.cells import AdditiveEntities, Cells, CellSource, PairedEntities
from engine.mechanism.draws import Draws, EntitySets
from engine.mechanism.forest import grow
from engine.mechanism.sums import has_ranges, sums_of
from engine.ranges import ROOT_LEVEL
from engine.schema import (
    KIND_NEGATIVE,
    KIND_NONNEGATIVE,
    BoolArray,
    ColumnSet,
    Int64Array,
    Measurement,
    UInt8Array,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """The source of cells once the one-way tables are known."""

    source: CellSource  # Ranked columns coded by rank among their released values
    tops: dict[str, int]  # Top level of each column
    # The one-way measurement of each column, and of the total under the empty name.
    one_way: dict[str, Measurement]
    bounds: RowBounds  # How many rows of one entity count
    summed: frozenset[str] = frozenset()  # Columns of which sums are measured


def measure_total(source: CellSource, draws: Draws, bounds: RowBounds) -> Measurement:
    """Measure the number of all rows: a measurement without columns; without nodes where nothing can be released."""
    return grow(source.cells(()), (), draws, bounds)


def passing(cells: Cells, draws: Draws) -> BoolArray:
    """Which single cells have enough entities of every kind; shape (n_cells,)."""
    passed: BoolArray = np.logical_and.reduce(
        [draws.passes(_cell_sets(entity, cells.n_rows)) for entity in cells.entities]
    )
    return passed


def _cell_sets(entity: AdditiveEntities | PairedEntities, n_rows: Int64Array) -> EntitySets:
    """Entity set of each single cell."""
    if isinstance(entity, AdditiveEntities):
        return EntitySets(size=n_rows, lanes=entity.lanes)
    lanes = np.zeros((len(n_rows), 2), dtype=np.uint64)
    np.add.at(lanes, entity.cell, entity.tokens[entity.entity])
    return EntitySets(size=np.bincount(entity.cell, minlength=len(n_rows)), lanes=lanes)


def measure_columns(
    source: CellSource,
    names: Iterable[str],
    values: Mapping[str, Mapping[int, object]],
    total: Measurement,
    draws: Draws,
    bounds: RowBounds,
    numbers: Collection[str] = (),
) -> Measured:
    """Measure every column, in the order given.

    source: Ranked columns are coded by released rank.
    values: The released values of each ranked column, by code.
    numbers: Columns of which sums are wanted. They are measured where a released range is not shown value by value:
        else counts say as much.
    """
    tops, trees, ordered, summed = {}, {"": total}, list(names), set[str]()
    for name, cells in zip(ordered, source.each([(name,) for name in ordered]), strict=True):
        tops[name], tree = one_way(cells, draws, bounds)
        trees[name] = replace(tree, values=values.get(name))
        # Of several kinds of entities with several rows, one row more may change whose rows are the fewest, and with
        # them the sum by more than noise hides.
        is_safe = bounds.most is None or len(cells.entities) == 1
        if name in numbers and is_safe and has_ranges(tree):
            summed.add(name)
            trees[name] = replace(tree, sums=(sums_of(cells, tree, name, draws),))
    return Measured(
        source=source, tops=tops, one_way=trees, bounds=bounds, summed=frozenset(summed)
    )


def one_way(cells: Cells, draws: Draws, bounds: RowBounds) -> tuple[int, Measurement]:
    """Top level and released tree of one column."""
    full = grow(cells, (ROOT_LEVEL,), draws, bounds)
    top = top_level(full)
    first = ROOT_LEVEL - top
    tree = full.kept(full.depth >= first)
    return top, replace(tree, depth=tree.depth - np.uint8(first), scale=full.scale[first:])


def top_level(tree: Measurement) -> int:
    """Push each sign's root down while one of its halves is suppressed; the larger of the two levels."""
    top = 0
    for sign in (KIND_NEGATIVE, KIND_NONNEGATIVE):
        of_sign = tree.kind[:, 0] == sign
        nodes_at = np.bincount(tree.depth[of_sign], minlength=ROOT_LEVEL + 1)
        if not nodes_at[0]:
            continue
        # One node at a depth means that its sibling is suppressed: the root moves there.
        depth = 0
        while depth < ROOT_LEVEL and nodes_at[depth + 1] == 1:
            depth += 1
        top = max(top, ROOT_LEVEL - depth)
    return top


class ReleasedRanges:
    """The released ranges of one column, looked up by arrays."""

    def __init__(self, tree: Measurement) -> None:
        self._indexes = np.unique(tree.index)
        place = np.searchsorted(self._indexes, tree.index[:, 0])
        self._known = np.unique(self._labels(tree.kind[:, 0], tree.level[:, 0], place))

    def _labels(self, kind: UInt8Array, level: UInt8Array, place: Int64Array) -> Int64Array:
        """One integer a range: kind and level take 10 bits, the place of the index less than 54."""
        label = (kind.astype(np.int64) << 8) | level
        return label * len(self._indexes) + place

    def hold(self, kind: UInt8Array, level: UInt8Array, index: Int64Array) -> BoolArray:
        """Whether each range is among them."""
        if not len(self._known):
            return np.zeros(len(index), dtype=bool)
        place = np.minimum(np.searchsorted(self._indexes, index), len(self._indexes) - 1)
        labels = self._labels(kind, level, place)
        at = np.minimum(np.searchsorted(self._known, labels), len(self._known) - 1)
        is_released: BoolArray = (self._indexes[place] == index) & (self._known[at] == labels)
        return is_released


def measure_wider(
    measured: Measured, column_sets: Iterable[ColumnSet], draws: Draws
) -> Iterator[Measurement]:
    """Measure column sets of two and more columns, one after the other."""
    released = {name: ReleasedRanges(measured.one_way[name]) for name in measured.tops}
    for cells in measured.source.each(list(column_sets)):
        tops = tuple(measured.tops[name] for name in cells.columns)
        wide = grow(cells, tops, draws, measured.bounds)
        tree = within_one_way(wide, [released[name] for name in cells.columns])
        summed = [name for name in cells.columns if name in measured.summed]
        sums = (sums_of(cells, tree, name, draws) for name in summed)
        yield replace(tree, sums=tuple(sums))


def within_one_way(wide: Measurement, released: Sequence[ReleasedRanges]) -> Measurement:
    """Leave out buckets of ranges that are suppressed on their own: not even that they exist is released.

    A few of the people of a suppressed range may pass their own threshold together with another column's range.
    """
    allowed = np.logical_and.reduce(
        [
            ranges.hold(wide.kind[:, j], wide.level[:, j], wide.index[:, j])
            for j, ranges in enumerate(released)
        ]
    )
    if allowed.all():
        return wide
    # A parent's range holds its child's: it is released wherever the child's is.
    return wide.kept(allowed)
