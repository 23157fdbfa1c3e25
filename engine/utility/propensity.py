"""How well a decision tree tells synthetic rows from original ones: pMSE over the tables.

Takes a `Comparison` and a section of a study; gives a `Score`. Definitions as in `engine.utility.counts`; the
propensity score is Snoke et al., "General and specific utility measures for synthetic data", 2018.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.errors import StoreError
from engine.score import Score
from engine.study_sections import Propensity
from engine.utility.comparison import Coded, Comparison, n_codes

Floats = NDArray[np.float64]


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
