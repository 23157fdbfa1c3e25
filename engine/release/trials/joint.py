"""Trials of mode dp: measure margins with fresh noise, fit and draw rows in memory. The ledger is not asked."""

from __future__ import annotations

from functools import partial

import numpy as np

from engine.errors import SpecError
from engine.fit.joint import expected_counts, synthesise
from engine.keys import MasterKey
from engine.levels import n_cells
from engine.measure.dp import counted, drawn, levels_of, shares
from engine.params import DPParams
from engine.progress import silent
from engine.release.joint_fitter import generator
from engine.release.trials.rows import VINTAGE, TrialRows, TrialTable
from engine.schema import ColumnSet, Int64Array


def joint_trial(rows: TrialRows, params: DPParams, key: MasterKey) -> TrialTable:
    """Measure margins of rows in mode dp, fit and draw: the table of all columns, of which tables are projections.

    params: Its columns are those of the rows. The ledger is not asked.
    """
    if params.columns != rows.columns:
        raise SpecError("dp: the parameters are about other columns than the rows")
    levels = {column.name: levels_of(column) for column in rows.declared()}
    sizes = {name: len(of_column) for name, of_column in levels.items()}
    planned = shares(params, sizes)

    def count(wanted: ColumnSet, _: str) -> Int64Array:  # no column is a number
        shape = tuple(sizes[name] for name in wanted)
        if not wanted:
            return np.array(len(rows.codes), dtype=np.int64)
        places = [rows.codes[:, rows.columns.index(name)] for name in wanted]
        n = np.bincount(np.ravel_multi_index(places, shape), minlength=n_cells(shape))
        return n.astype(np.int64).reshape(shape)

    exact = counted(count, planned, params, len(rows.codes), silent)
    expected = partial(expected_counts, params=params, sizes=sizes, zeros=())
    total, *margins = (
        exact if params.epsilon is None else drawn(exact, params, sizes, expected, silent)
    )
    made = synthesise(
        margins,
        total,
        params=params,
        levels=levels,
        zeros=(),
        rng=generator(key.derive("sampling", VINTAGE)),
    )
    return TrialTable(columns=made.columns, codes=made.cells.astype(np.int64), n=made.n)
