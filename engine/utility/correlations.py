"""Differences of the correlations of pairs of columns.

Takes a `Comparison` and a section of a study; gives a `Score`. Definitions as in `engine.utility.counts`.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pandas as pd

from engine.score import Score
from engine.study_sections import Correlations
from engine.utility.comparison import Coded, Comparison, Numbers, covering

LARGEST_GRID = 1 << 25
"""Most pairs of values that `tau_b` counts in an array."""


def tau_b(first: Numbers, second: Numbers, n: Numbers) -> float:
    """Kendall's tau-b of weighted pairs, exact: concordant less discordant pairs over those without ties.

    Parameters
    ----------
    first, second : ndarray of int64
        Ranks from 0.
    n : ndarray of int64
        How often each pair of ranks is there; the total below 2 ** 31.

    Returns
    -------
    float
        NaN where one of the two is constant, or the grid of ranks is larger than `LARGEST_GRID`.
    """
    _, first = np.unique(first[n > 0], return_inverse=True)
    _, second = np.unique(second[n > 0], return_inverse=True)
    shape = (int(first.max(initial=-1)) + 1, int(second.max(initial=-1)) + 1)
    if not 0 < shape[0] * shape[1] <= LARGEST_GRID:
        return float("nan")
    weights = n[n > 0].astype(np.float64)
    flat = np.bincount(first * shape[1] + second, weights, minlength=shape[0] * shape[1])
    grid = flat.astype(np.int64).reshape(shape)
    below = np.cumsum(grid, axis=0)[:-1]  # rows before each row
    left = np.cumsum(below, axis=1)
    concordant = np.sum(grid[1:, 1:] * left[:, :-1])
    discordant = np.sum(grid[1:, :-1] * (left[:, -1:] - left[:, :-1]))
    untied = [_pairs(grid.sum()) - _pairs(grid.sum(axis=axis)).sum() for axis in (1, 0)]
    if not all(untied):
        return float("nan")
    return int(concordant - discordant) / math.sqrt(int(untied[0]) * int(untied[1]))


def _pairs(n: Numbers) -> Numbers:
    """Number of pairs among n."""
    return n * (n - 1) // 2


def correlations(comparison: Comparison, told: Correlations) -> Score:
    """Differences of Kendall's tau of every pair of columns, each from the smallest table that has both.

    Returns
    -------
    Score
        `median_difference`, `largest_difference`, `n`, `pairs_without_table`; broken down by pair.
    """
    columns = [c for c in told.columns if c in comparison.values]
    rows, missing = [], 0
    for pair in combinations(columns, 2):
        table = covering(comparison, pair)
        if table is None:
            missing += 1
            continue
        truth, shown = (_tau(comparison, t, pair, told) for t in (comparison.original, table))
        rows.append((*pair, truth, shown, abs(shown - truth)))
    if told.diagonal:
        rows += [(c, c, 1.0, 1.0, 0.0) for c in columns]
    whole = pd.DataFrame(rows, columns=["first", "second", "original", "synthetic", "difference"])
    values = {
        "median_difference": float(whole["difference"].median()),
        "largest_difference": float(whole["difference"].max()),
        "n": float(whole["difference"].notna().sum()),
        "pairs_without_table": float(missing),
    }
    return Score(measure="correlations", values=values, breakdown=whole)


def _tau(comparison: Comparison, table: Coded, pair: tuple[str, str], told: Correlations) -> float:
    """Tau of two columns of a table."""
    ranks, kept = [], np.ones(len(table.n), np.bool_)
    for name in pair:
        code = table.codes[name].astype(np.int64)
        is_blank = code == len(comparison.values[name])
        if name in told.binned and name in comparison.groupings:
            code = comparison.groupings[name].group[code]
            kept &= code >= 0
        if told.blanks == "lowest":
            code = np.where(is_blank, -1, code)
        else:
            kept &= ~is_blank
        ranks.append(code)
    return tau_b(ranks[0][kept], ranks[1][kept], table.n[kept])
