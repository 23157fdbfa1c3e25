"""A wide table as all tables are: rows with their number, of which nothing was measured as such."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from engine.fit.wide.fitting import Report, WideFit, fit_wide
from engine.fit.wide.levels import Telling
from engine.schema import CellGroups, ColumnSet, Support, SyntheticTable


def used_by(wide: ColumnSet, columns: ColumnSet) -> bool:
    """Whether a locked table goes into a wide one."""
    return len(columns) in (2, 3) and set(columns) <= set(wide)


def wide_table(
    columns: ColumnSet,
    supports: Mapping[str, Support],
    tables: Mapping[ColumnSet, SyntheticTable],
    *,
    key: bytes,
    told: Telling,
    report: Report,
    target: str | None = None,
) -> tuple[SyntheticTable, WideFit]:
    """Fit a wide table to all locked tables of two and three of its columns; parameters as of `fit_wide`."""
    inside = [table for names, table in tables.items() if used_by(columns, names)]
    fit = fit_wide(columns, supports, inside, key=key, told=told, report=report, target=target)
    table = SyntheticTable(
        columns=columns,
        codes=fit.codes,
        n=fit.n,
        measured=np.zeros(len(fit.n), dtype=bool),
        groups=_no_groups(len(columns)),
    )
    return table, fit


def _no_groups(width: int) -> CellGroups:
    """Nothing was measured of the table as such."""
    none = np.empty((0, width), dtype=np.int64)
    return CellGroups(
        kind=none.astype(np.uint8),
        low=none,
        high=none,
        n=np.empty(0, dtype=np.int64),
        noise_sd=np.empty(0, dtype=np.float64),
        measured=np.empty(0, dtype=bool),
        depth=np.empty(0, dtype=np.int8),
    )
