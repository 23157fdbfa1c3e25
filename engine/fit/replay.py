"""Replay: run the mechanism on a released table as if it were the data, in one process, in memory.

Takes rows with weights (those of a released table, or what the data may have been), what the release states of its
mechanism and a key; gives the table that a release of these rows with that key would show. The error of the replay is
distributed like that of the release: see `queries/intervals/README.md`. Everything here is public; whoever has the
release can run it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from engine.fit.borders import Universes
from engine.fit.columns import fit_columns
from engine.fit.locking import lock_table, sub_tables
from engine.fit.order import FitOrder
from engine.fit.support import found_limits
from engine.keys import MasterKey
from engine.mechanism import (
    ArrayCells,
    StickyDraws,
    measure_columns,
    measure_total,
    measure_wider,
    passing,
    row_bounds,
)
from engine.params import PrivacyParams
from engine.schema import (
    KIND_NULL,
    KIND_OTHER,
    NULL_CODE,
    OTHER_CODE,
    Column,
    ColumnSet,
    Int64Array,
    ReleaseHeader,
    Support,
    SyntheticTable,
)

VINTAGE = "replay"


@dataclass(frozen=True, kw_only=True, slots=True)
class Mechanism:
    """What a release states of how one of its tables was made.

    columns: Those of the table, and those that decide their universes; by name. Of ranked columns the domain holds the
        released values.
    limits: Smallest and largest code of the columns that declare bounds.
    """

    columns: tuple[Column, ...]
    privacy: PrivacyParams
    limits: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    universes: Universes = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightedRows:
    """Distinct rows with their numbers.

    codes: By column, int64 of shape (n_rows,): grid codes, of ranked columns positions in the domain; `NULL_CODE` and
        `OTHER_CODE` for a blank and the placeholder.
    n: shape (n_rows,).
    """

    codes: dict[str, Int64Array]
    n: Int64Array


def replay(
    rows: WeightedRows, mechanism: Mechanism, table: ColumnSet, key: bytes
) -> WeightedRows | None:
    """The table of some columns that a release of these rows would show; None where it would show nothing.

    key: 32 bytes; all that is random follows from them.
    """
    master = MasterKey(key)
    draws = StickyDraws(master, VINTAGE, mechanism.privacy)
    bounds = row_bounds(draws.max_rows, mechanism.columns)
    # People are not known one by one: those of a row are one bunch, with a random sum of tokens.
    lanes = np.random.default_rng(list(key)).integers(
        0, 2**64, size=(len(rows.n), 2), dtype=np.uint64
    )
    first = ArrayCells(rows.codes, len(rows.n), ((lanes, None),), rows.n)
    total = measure_total(first, draws, bounds)
    if not total.n_nodes:
        return None
    values: dict[str, tuple[object, ...]] = {}
    codes = dict(rows.codes)
    for column in mechanism.columns:
        if not column.is_ranked:
            continue
        ranks = np.arange(len(column.domain or ()))
        if not column.public:
            cells = first.cells((column.name,))
            shown = cells.codes[passing(cells, draws), 0]
            ranks = np.sort(shown[shown >= 0])
            codes[column.name] = _ranked(rows.codes[column.name], ranks)
        values[column.name] = tuple(ranks.tolist())
    source = ArrayCells(codes, len(rows.n), ((lanes, None),), rows.n)
    names = [column.name for column in mechanism.columns]
    measured = measure_columns(source, names, values, total, draws, bounds)
    deciders = {universe.declared.column for universe in mechanism.universes.values()}
    order = FitOrder(
        header=_header(mechanism, table),
        build_id="",
        limits=found_limits(measured.one_way, mechanism.columns, deciders) | dict(mechanism.limits),
        sampling_key=master.derive("sampling", VINTAGE),
        low_threshold=mechanism.privacy.low_threshold,
        threshold_mean=mechanism.privacy.threshold_mean,
        layer_sd=mechanism.privacy.layer_sd,
        profile=mechanism.privacy.profile,
        universes=mechanism.universes,
    )
    wider = [s for k in range(2, len(table) + 1) for s in combinations(table, k)]
    trees = {tree.columns: tree for tree in measure_wider(measured, wider, draws)}
    one_way = {name: tree for name, tree in measured.one_way.items() if name}
    n_total = max(int(total.n[0]), 0)
    fitted = fit_columns(order, one_way, n_total, int(total.scale[0]))
    tables = dict(fitted.tables)
    for columns in wider:
        tables[columns] = lock_table(
            trees[columns],
            tuple(fitted.supports[name] for name in columns),
            tuple(tables[narrower] for narrower in sub_tables(columns)),
            noisy_total=n_total,
            floor=order.low_threshold,
            layer_sd=order.layer_sd,
            key=order.sampling_key_of(columns),
            marks=tuple(fitted.marks[name] for name in columns) if len(columns) == 2 else (),
        )
    return _rows_of(tables[table], fitted.supports)


def _ranked(codes: Int64Array, ranks: Int64Array) -> Int64Array:
    """Positions of codes among those that stay; others are the placeholder's."""
    if not len(ranks):
        return np.where(codes == NULL_CODE, NULL_CODE, OTHER_CODE)
    at = np.minimum(np.searchsorted(ranks, codes), len(ranks) - 1)
    found = np.where(ranks[at] == codes, at, OTHER_CODE)
    return np.where(codes == NULL_CODE, NULL_CODE, found)


def _rows_of(table: SyntheticTable, supports: Mapping[str, Support]) -> WeightedRows:
    """The rows of a fitted table by code of the mechanism's columns."""
    codes = {}
    for j, name in enumerate(table.columns):
        support = supports[name]
        stored = support.grid
        if support.values is not None:
            ranks = np.array(support.values, dtype=np.int64)
            is_value = (support.kind != KIND_NULL) & (support.kind != KIND_OTHER)
            stored = np.where(
                is_value, ranks[np.where(is_value, stored, 0)] if len(ranks) else 0, 0
            )
        stored = np.where(support.kind == KIND_NULL, NULL_CODE, stored)
        stored = np.where(support.kind == KIND_OTHER, OTHER_CODE, stored)
        codes[name] = stored[table.codes[:, j]]
    return WeightedRows(codes=codes, n=table.n)


def _header(mechanism: Mechanism, table: ColumnSet) -> ReleaseHeader:
    return ReleaseHeader(
        title="",
        logical_name="",
        vintage=VINTAGE,
        mode="sticky",
        key_id="",
        privacy={},
        engine_version="",
        columns=mechanism.columns,
        tables=(table,),
    )
