"""Differences of the slopes of a linear regression, in several groups of rows.

Takes a `Comparison` and a section of a study; gives a `Score`. Definitions as in `engine.utility.counts`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.score import Score
from engine.study_sections import Regression, RegressionGroup
from engine.utility.comparison import Coded, Comparison, covering

Floats = NDArray[np.float64]


def regression(comparison: Comparison, told: Regression) -> Score:
    """Differences of the slopes of one column on another, in several groups of rows.

    Returns
    -------
    Score
        `median_error`, `largest_error`, `n`; broken down by group. NaN where no table has the columns.
    """
    needed = {told.x, told.y, *(c for group in told.groups for c in group.where)}
    table = covering(comparison, needed)
    rows = []
    for group in told.groups if table is not None else ():
        slopes = [
            _slope(comparison, t, told, group)
            for t in (comparison.original, table)
            if t is not None
        ]
        truth, shown = (round(s, told.digits) for s in slopes)
        rows.append((group.name, truth, shown, abs(shown - truth)))
    whole = pd.DataFrame(rows, columns=["group", "original", "synthetic", "error"])
    error = whole["error"].astype("float64").round(told.digits)
    values = {
        "median_error": float(error.median()),
        "largest_error": float(error.max()),
        "n": float(len(whole)),
    }
    return Score(measure="regression", values=values, breakdown=whole)


def _slope(comparison: Comparison, table: Coded, told: Regression, group: RegressionGroup) -> float:
    """Least-squares slope over the rows of a group where both columns are present."""
    kept = np.ones(len(table.n), np.bool_)
    for name, allowed in group.where.items():
        is_allowed = np.append(np.isin(comparison.values[name], np.array(allowed)), False)
        kept &= is_allowed[table.codes[name]]
    sides = []
    for name in (told.x, told.y):
        code = table.codes[name]
        kept &= code < len(comparison.values[name])
        sides.append(np.append(_numbers(comparison.values[name]), np.nan)[code])
    x, y, n = sides[0][kept], sides[1][kept], table.n[kept]
    if not n.sum():
        return float("nan")
    from_mean = x - np.average(x, weights=n)
    spread = float(np.sum(n * from_mean**2))
    return float(np.sum(n * from_mean * y)) / spread if spread else float("nan")


def _numbers(values: NDArray[np.generic]) -> Floats:
    """Values as numbers; texts by their place in the column's order."""
    if values.dtype == object:
        return np.arange(len(values), dtype=np.float64)
    return values.astype(np.float64)
