"""Measure: from encoded rows to what crosses the wall. The last module that sees a true count.

Takes the encoded rows, the key and the column sets wanted; gives one `Measurement` a column set: first the total,
then every one-way table (which fix the columns' released values and top levels), then the wider sets. Each depends
on its own columns only: no other table asked for, nor the order of asking, changes a bucket.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.errors import PrivacyError
from engine.measure.bounds import RowBounds, row_bounds
from engine.measure.cells import (
    AdditiveEntities,
    ArrayCells,
    Cells,
    CellSource,
    DuckDBCells,
    PairedEntities,
    SparkCells,
)
from engine.measure.coding import coded_cells
from engine.measure.draws import Draws, EntitySets
from engine.measure.forest import grow
from engine.ranges import ROOT_LEVEL
from engine.schema import (
    KIND_NEGATIVE,
    KIND_NONNEGATIVE,
    NULL_CODE,
    BoolArray,
    Column,
    ColumnSet,
    Int64Array,
    Measurement,
    UInt8Array,
    UInt64Array,
)
from engine.source import ROWS_WITH_TOKENS, EntityColumn, Ingested
from engine.spec import in_universe_order
from engine.texts import numeric_place


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """The source of cells once the one-way tables are known."""

    source: CellSource  # Ranked columns coded by rank among their released values
    tops: dict[str, int]  # Top level of each column
    # The one-way measurement of each column, and of the total under the empty name.
    one_way: dict[str, Measurement]
    bounds: RowBounds  # How many rows of one entity count


def measure_one_way(
    ingested: Ingested,
    entities: tuple[EntityColumn, ...],
    columns: tuple[Column, ...],
    draws: Draws,
) -> Measured:
    """Measure the total and every column; code ranked columns by released rank."""
    raw = encoded_cells(ingested, entities)
    bounds = row_bounds(draws.max_rows, columns)
    total = grow(raw.cells(()), (), draws, bounds)
    if not total.n_nodes:
        raise PrivacyError(
            "the source has fewer entities than privacy.threshold asks for: nothing can be released"
        )
    ranked = [column for column in columns if column.is_ranked]
    values = {c.name: c.domain for c in ranked if c.public and c.domain is not None}
    hidden = [column for column in ranked if column.name not in values]
    for column, cells in zip(hidden, raw.each([(c.name,) for c in hidden]), strict=True):
        values[column.name] = released_values(cells, ingested, column, draws)
    return _measured(
        coded_cells(ingested, columns, values, entities), total, columns, values, draws, bounds
    )


def measure_arrays(
    codes: dict[str, Int64Array],
    values: dict[str, tuple[object, ...]],
    lanes: UInt64Array,
    columns: tuple[Column, ...],
    draws: Draws,
) -> Measured:
    """Measure the total and every column of rows that lie in arrays, each row an entity."""
    source = ArrayCells(codes, len(lanes), ((EntityColumn(number=0, tokens=None), lanes),))
    bounds = row_bounds(draws.max_rows, columns)
    total = grow(source.cells(()), (), draws, bounds)
    if not total.n_nodes:
        raise PrivacyError("fewer rows than privacy.threshold asks for: nothing can be released")
    return _measured(source, total, columns, values, draws, bounds)


def _measured(
    source: CellSource,
    total: Measurement,
    columns: tuple[Column, ...],
    values: dict[str, tuple[object, ...]],
    draws: Draws,
    bounds: RowBounds,
) -> Measured:
    """Every column, once the source counts ranked columns by released rank."""
    tops, one_way = {}, {"": total}
    ordered = in_universe_order(columns)  # the order in which the fit needs them
    for column, cells in zip(
        ordered, source.each([(column.name,) for column in ordered]), strict=True
    ):
        top, tree = _one_way(cells, draws, bounds)
        tops[column.name] = top
        one_way[column.name] = replace(tree, values=values.get(column.name))
    return Measured(source=source, tops=tops, one_way=one_way, bounds=bounds)


def encoded_cells(ingested: Ingested, entities: tuple[EntityColumn, ...]) -> CellSource:
    """The source of cells of rows as they were encoded: ranked columns by positions in their lists."""
    if ingested.spark is not None:
        return SparkCells(ingested.spark, ingested.sql_names, entities)
    return DuckDBCells(ingested.con, ROWS_WITH_TOKENS, ingested.sql_names, entities)


def released_values(
    cells: Cells, ingested: Ingested, column: Column, draws: Draws
) -> tuple[object, ...]:
    """Values of a ranked column that may be shown, where no public domain says so: those with enough entities."""
    passed = np.logical_and.reduce(
        [draws.passes(_cell_sets(entity, cells.n_rows)) for entity in cells.entities]
    )
    codes = np.sort(cells.codes[passed, 0])
    passing = [ingested.dictionaries[column.name][code] for code in codes if code != NULL_CODE]
    if column.domain is None:
        shown = (value for value in passing if value != column.placeholder)
        return tuple(sorted(shown, key=numeric_place) if column.order == "numeric" else shown)
    released = set(passing)
    return tuple(value for value in column.domain if value in released)


def _cell_sets(entity: AdditiveEntities | PairedEntities, n_rows: Int64Array) -> EntitySets:
    """Entity set of each single cell."""
    if isinstance(entity, AdditiveEntities):
        return EntitySets(size=n_rows, lanes=entity.lanes)
    lanes = np.zeros((len(n_rows), 2), dtype=np.uint64)
    np.add.at(lanes, entity.cell, entity.tokens[entity.entity])
    return EntitySets(size=np.bincount(entity.cell, minlength=len(n_rows)), lanes=lanes)


def _one_way(cells: Cells, draws: Draws, bounds: RowBounds) -> tuple[int, Measurement]:
    """Top level and released tree of one column."""
    full = grow(cells, (ROOT_LEVEL,), draws, bounds)
    top = top_level(full)
    first = ROOT_LEVEL - top
    below = full.depth >= first
    return top, Measurement(
        columns=full.columns,
        depth=full.depth[below] - np.uint8(first),
        kind=full.kind[below],
        level=full.level[below],
        index=full.index[below],
        parent=np.where(
            full.depth[below] > first, full.parent[below] - np.count_nonzero(~below), -1
        ),
        n=full.n[below],
        scale=full.scale[first:],
    )


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
        yield within_one_way(wide, [released[name] for name in cells.columns])


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
