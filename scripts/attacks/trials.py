"""Trials: measure and fit in one process, so that an attack can be scored on both sides of the wall.

For observers only. Takes rows that are made up for the trial (whole-number columns, one row a person) or an opened
source; gives what would be published, what was measured and what is true. The measuring and fitting code is the
engine's own: the same draws, the same trees, the same `Fitter`; only files and processes are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import cast

import numpy as np

from engine.errors import PrivacyError
from engine.fit import FitOrder
from engine.keys import MasterKey
from engine.mechanism import (
    ArrayCells,
    Cells,
    CellSource,
    Draws,
    Measured,
    StickyDraws,
    measure_total,
    measure_wider,
    row_bounds,
)
from engine.mechanism.measuring import measure_columns as measure_numbers
from engine.params import PROFILES
from engine.progress import silent
from engine.relations import NO_RELATIONS
from engine.release import Fitter, fit_order, measure_columns
from engine.schema import (
    Column,
    ColumnSet,
    Int64Array,
    Measurement,
    ReleaseHeader,
    Support,
    SyntheticTable,
)
from engine.source import open_rows
from engine.spec import ReleaseSpec
from engine.store import GeneratorCard
from engine.version import ENGINE_VERSION

VINTAGE = "trial"


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """One release, seen from both sides."""

    truth: dict[ColumnSet, Cells]  # True counts of the cells of every column set measured
    measurements: dict[ColumnSet, Measurement]  # Of released buckets; the total under no columns
    tables: dict[ColumnSet, SyntheticTable]  # As published
    cards: dict[ColumnSet, GeneratorCard]
    supports: dict[str, Support]  # Codes of each column


class _Kept:
    """A source that keeps what it counted."""

    def __init__(self, source: CellSource) -> None:
        self._source = source
        self.counted: dict[ColumnSet, Cells] = {}

    def cells(self, columns: ColumnSet) -> Cells:
        """Count a column set, once."""
        if columns not in self.counted:
            self.counted[columns] = self._source.cells(columns)
        return self.counted[columns]

    def each(self, column_sets: Sequence[ColumnSet]) -> Iterator[Cells]:
        """Count column sets, in their order."""
        yield from map(self.cells, column_sets)


@dataclass(kw_only=True, slots=True)
class _Shelf:
    """Takes the tables in the place of the staging store."""

    supports: dict[str, Support] = field(default_factory=dict)
    tables: dict[ColumnSet, SyntheticTable] = field(default_factory=dict)
    cards: dict[ColumnSet, GeneratorCard] = field(default_factory=dict)

    def finished(self) -> frozenset[ColumnSet]:
        """Nothing: every trial starts anew."""
        return frozenset()

    def put_support(self, support: Support) -> None:
        self.supports[support.column.name] = support

    def put_table(self, table: SyntheticTable, card: GeneratorCard) -> None:
        self.tables[table.columns], self.cards[table.columns] = table, card


def key_of(number: int) -> MasterKey:
    """One of many keys for trials; no release may be made with it."""
    return MasterKey(number.to_bytes(32, "little"))


def trial_of_rows(
    codes: Mapping[str, Int64Array],
    tables: Sequence[ColumnSet],
    number: int,
    *,
    draws: Draws | None = None,
) -> Trial:
    """Measure and fit made-up whole-number columns, one row a person.

    The number names the key and the persons' tokens: another one is another world. Draws: others than the keyed ones of
    the standard profile; tests switch the noise off with them.
    """
    n_rows = len(next(iter(codes.values())))
    tokens = np.random.default_rng([number, 1]).integers(0, 1 << 64, (n_rows, 2), dtype=np.uint64)
    names = tuple(sorted(codes))
    key = key_of(number)
    draws = draws or StickyDraws(key, VINTAGE, PROFILES["standard"])
    source = ArrayCells(dict(codes), n_rows, ((tokens, None),))
    measured = _one_way(_Kept(source), names, draws)
    header = ReleaseHeader(
        title="trial",
        logical_name="data",
        vintage=VINTAGE,
        mode="sticky",
        key_id=key.id,
        engine_version=ENGINE_VERSION,
        columns=tuple(Column(name=c, kind="integer", value_type="integer") for c in names),
        tables=tuple(tables),
    )
    privacy = PROFILES["standard"]
    order = FitOrder(
        header=header,
        build_id="",
        limits={},
        sampling_key=key.derive("sampling", VINTAGE),
        low_threshold=privacy.low_threshold,
        threshold_mean=privacy.threshold_mean,
        layer_sd=privacy.layer_sd,
        profile=privacy.profile,
    )
    return _fitted(measured, order, draws)


def trial_of_spec(spec: ReleaseSpec, *, apart: bool = False) -> Trial:
    """Measure and fit the source of a spec; the vintage is not pinned, for nothing is released.

    apart: measure columns that determine each other as if they did not, a control.
    """
    with open_rows(spec, None, silent) as opened:
        draws = StickyDraws(opened.key, spec.vintage, spec.privacy)
        columns = measure_columns(spec, opened, draws)
        if apart:
            columns = replace(columns, relations=NO_RELATIONS)
        order = fit_order(spec, opened, columns)
        found = columns.measured
        return _fitted(replace(found, source=_Kept(found.source)), order, draws)


def _one_way(source: CellSource, names: tuple[str, ...], draws: Draws) -> Measured:
    """The total and every single column, as `measure_one_way` measures them in DuckDB."""
    bounds = row_bounds(draws.max_rows, ())
    total = measure_total(source, draws, bounds)
    if not total.n_nodes:
        raise PrivacyError("the trial has too few people: nothing can be released")
    return measure_numbers(source, names, {}, total, draws, bounds, names)


def _fitted(measured: Measured, order: FitOrder, draws: Draws) -> Trial:
    """Measure the wider tables and fit all, in the order of a build."""
    shelf, source = _Shelf(), cast(_Kept, measured.source)
    wider = measure_wider(measured, order.relations.needed(order.header.tables), draws)
    measurements = {one.columns: one for one in chain(measured.one_way.values(), wider)}
    Fitter(order, shelf, measurements.__getitem__).fit()
    for columns in measurements:
        source.cells(columns)  # one-way tables of a file were counted before they could be kept
    return Trial(
        truth=source.counted,
        measurements=measurements,
        tables=shelf.tables,
        cards=shelf.cards,
        supports=shelf.supports,
    )
