"""Measures that compare what models find: rank correlations, a classifier that tells the sides apart, regressions.

Takes a `Comparison` and a section of a study; gives a `Score`. Definitions as in `utility_counts`; the propensity
score is Snoke, Raab, Nowok, Dibben and Slavkovic, "General and specific utility measures for synthetic data", 2018.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.errors import StoreError
from engine.study import Correlations, Propensity, Regression, RegressionGroup
from engine.utility import Coded, Comparison, Numbers, Score, covering, n_codes

Floats = NDArray[np.float64]
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


def propensity(
    comparison: Comparison, told: Propensity, *, report: Callable[[int, int], None] | None = None
) -> Score:
    """Mean squared distance of a tree's guess "this row is synthetic" from the share of synthetic rows.

    A decision tree is grown on the rows of the original and of one table; 0 if it cannot tell them apart.

    Parameters
    ----------
    comparison : Comparison
    told : Propensity
    report : callable, optional
        Called with how many of how many tables are done.

    Returns
    -------
    Score
        `pmse` (mean over the tables), `largest`, `n`; broken down by table.

    Raises
    ------
    StoreError
        scikit-learn is not installed.
    """
    try:
        from sklearn.tree import DecisionTreeClassifier
    except ImportError:
        raise StoreError("scores need scikit-learn: pip install 'tablepack[evaluate]'") from None
    rows = []
    for done, (columns, table) in enumerate(comparison.tables.items()):
        features, is_synthetic, n = _stacked(comparison, table, told)
        tree = DecisionTreeClassifier(max_depth=told.depth, random_state=0)
        guess = tree.fit(features, is_synthetic, sample_weight=n).predict_proba(features)[:, 1]
        share = table.total / n.sum()
        rows.append((", ".join(columns), float(np.average((guess - share) ** 2, weights=n))))
        if report is not None:
            report(done + 1, len(comparison.tables))
    whole = pd.DataFrame(rows, columns=["table", "pmse"])
    values = {
        "pmse": float(whole["pmse"].mean()),
        "largest": float(whole["pmse"].max()),
        "n": float(len(whole)),
    }
    return Score(measure="propensity", values=values, breakdown=whole)


def _stacked(
    comparison: Comparison, table: Coded, told: Propensity
) -> tuple[NDArray[np.float32], NDArray[np.int8], Floats]:
    """Distinct rows of both sides under each other, which side each is of, and how often it is there."""
    sides = []
    for side in (comparison.original, table):
        ranks = np.empty((len(side.n), len(table.columns)), np.float32)
        for i, name in enumerate(table.columns):
            code = side.codes[name]
            rank = np.where(code == len(comparison.values[name]), -1, code)
            if name in told.blanks_last:
                rank = code
            if name in told.binned and name in comparison.groupings:
                rank = comparison.groupings[name].group[code]
            ranks[:, i] = rank
        sides.append(ranks)
    original, n = _collapsed(comparison, table, sides[0])
    is_synthetic = np.repeat(np.array([0, 1], np.int8), [len(original), len(sides[1])])
    return np.concatenate([original, sides[1]]), is_synthetic, np.concatenate([n, table.n])


def _collapsed(
    comparison: Comparison, table: Coded, ranks: NDArray[np.float32]
) -> tuple[NDArray[np.float32], Floats]:
    """Distinct rows of the original and how often each is there: the tree sees the same, only sooner."""
    key = np.zeros(len(ranks), np.float64)
    for i, name in enumerate(table.columns):
        key = key * (n_codes(comparison, name) + 1) + ranks[:, i] + 1
        if key.max(initial=0) >= 2**52:  # no longer exact
            return ranks, np.ones(len(ranks))
    _, first, n = np.unique(key, return_index=True, return_counts=True)
    return ranks[first], n.astype(np.float64)


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
