"""Trials of mode sticky: measure, lock and keep tables in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np

from engine.fit import FitOrder
from engine.keys import MasterKey
from engine.measure import measure_arrays
from engine.mechanism import StickyDraws, measure_wider
from engine.params import PrivacyParams
from engine.relations import Relations
from engine.release.fitter import Fitter
from engine.release.relating import chosen_for
from engine.release.trials.rows import VINTAGE, TrialRows, TrialTable, refuse_copies
from engine.schema import (
    MAX_WIDTH,
    Column,
    ColumnSet,
    ReleaseHeader,
    Support,
    SyntheticTable,
    column_set,
)
from engine.source import row_lanes
from engine.store import GeneratorCard
from engine.version import ENGINE_VERSION


class _Kept:
    """Tables stay in memory."""

    def __init__(self) -> None:
        self.tables: dict[ColumnSet, SyntheticTable] = {}
        self.supports: dict[str, Support] = {}

    def finished(self) -> frozenset[ColumnSet]:
        """Nothing: a trial is never resumed."""
        return frozenset()

    def put_support(self, support: Support) -> None:
        """Keep the values of a column."""
        self.supports[support.column.name] = support

    def put_table(self, table: SyntheticTable, card: GeneratorCard) -> None:
        """Keep a table."""
        self.tables[card.columns] = table

    def table(self, columns: ColumnSet) -> TrialTable:
        """A table by codes of the domains."""
        table = self.tables[columns]
        codes = [
            self.supports[name].grid[table.codes[:, place]] for place, name in enumerate(columns)
        ]
        return TrialTable(columns=columns, codes=np.column_stack(codes).astype(np.int64), n=table.n)


def sticky_trial(
    rows: TrialRows, tables: Sequence[ColumnSet], privacy: PrivacyParams, key: MasterKey
) -> dict[ColumnSet, TrialTable]:
    """Measure and fit tables of rows in mode sticky, as where the risk is accepted."""
    refuse_copies(rows)
    declared = rows.declared()
    values = dict(zip(rows.columns, rows.values, strict=True))
    listed: dict[str, Mapping[int, object]] = {n: dict(enumerate(of)) for n, of in values.items()}
    codes = dict(zip(rows.columns, rows.codes.T, strict=True))
    lanes = row_lanes(codes, values, key, VINTAGE)
    draws = StickyDraws(key, VINTAGE, privacy)
    measured = measure_arrays(codes, listed, lanes, declared, draws)
    wanted = tuple(sorted({column_set(t) for t in tables}, key=lambda t: (len(t), t)))
    kept = _Kept()
    trees = {tree.columns: tree for tree in measured.one_way.values()}
    wide = [columns for columns in wanted if len(columns) > MAX_WIDTH]
    chosen = dict.fromkeys(
        one for columns in wide for one in chosen_for(columns, measured, privacy)
    )
    relations = Relations(chosen=tuple(chosen))
    trees |= {t.columns: t for t in measure_wider(measured, relations.needed(wanted), draws)}
    order = _order(declared, wanted, privacy, key, relations)
    fitter = Fitter(order, kept, trees.__getitem__)
    fitter.fit()
    fitter.fit_wide()
    return {columns: kept.table(columns) for columns in wanted}


def _order(
    declared: tuple[Column, ...],
    tables: tuple[ColumnSet, ...],
    privacy: PrivacyParams,
    key: MasterKey,
    relations: Relations,
) -> FitOrder:
    """How a build would fit them."""
    return FitOrder(
        header=ReleaseHeader(
            title="",
            logical_name="data",
            vintage=VINTAGE,
            mode="sticky",
            key_id=key.id,
            privacy=asdict(privacy),
            engine_version=ENGINE_VERSION,
            columns=declared,
            tables=tables,
        ),
        build_id="",
        limits={},
        sampling_key=key.derive("sampling", VINTAGE),
        low_threshold=privacy.low_threshold,
        threshold_mean=privacy.threshold_mean,
        layer_sd=privacy.layer_sd,
        profile=privacy.profile,
        relations=relations,
    )
