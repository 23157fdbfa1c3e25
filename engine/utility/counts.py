"""Errors of the counts of one column.

Takes a `Comparison` and a section of a study; gives a `Score`. Definitions: SDNIST (NIST Collaborative Research Cycle)
and P. Francis, "A Comparison of SynDiffix Multi-table versus Single-table Synthetic Data", arXiv:2403.08463, section 4.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from engine.score import Score, not_computed
from engine.study_sections import Univariate
from engine.utility.comparison import Coded, Comparison, Counts, counts, covering
from engine.utility.words import finite, labels, lacking, listed

NAME = "univariate"


def one_way(comparison: Comparison, table: Coded, column: str, *, is_known: bool = False) -> Counts:
    """Count one column in the original and a table, in the study's groups where it has any.

    Parameters
    ----------
    comparison : Comparison
    table : Coded
    column : str
    is_known : bool
        Only values that the original has, blanks not.
    """
    found = counts(comparison, comparison.original, table, [column], binned=[column])
    if not is_known:
        return found
    kept = (found.left > 0) & (found.keys < len(comparison.values[column]))
    return Counts(keys=found.keys[kept], left=found.left[kept], right=found.right[kept])


def univariate(comparison: Comparison, told: Univariate) -> Score:
    """Errors of the counts of every column, each from its own table, or the smallest that has it.

    The composite error of a count is the smaller of the absolute error and the percentage it is of the true count.
    For tables of another size than the original there is a second reading, with the synthetic counts scaled to the
    original's number of rows (the cited paper's 2.5 for a 40 % sample).

    Returns
    -------
    Score
        Broken down by column and value.
    """
    columns = [c for c in comparison.values if c not in told.leave_out]
    reasons = {c: why for c in columns if (why := lacking(comparison, [c])) is not None}
    parts = [_errors(comparison, told, c) for c in columns if c not in reasons]
    whole = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    notes = tuple(f"{column} is left out: {why}" for column, why in list(reasons.items())[:12])
    if not len(whole):
        why = next(iter(reasons.values()), "no table has a column that is counted")
        return not_computed(NAME, why)
    unknown = [c for c in told.known if c not in comparison.values]
    if unknown:
        notes += (f"no table has {listed(unknown)}",)
    figures = {
        "median_composite_error": float(whole["composite_error"].median()),
        "largest_absolute_error": float(whole["absolute_error"].max()),
        "scaled_median_composite_error": float(whole["scaled_composite_error"].median()),
        "scaled_largest_absolute_error": float(whole["scaled_absolute_error"].max()),
        "n": float(len(whole)),
    }
    values, why_not = finite(figures, "no count could be compared")
    return Score(measure=NAME, values=values, breakdown=whole, why_not=why_not, notes=notes)


def _errors(comparison: Comparison, told: Univariate, column: str) -> pd.DataFrame:
    """Counts of one column and their errors."""
    table = covering(comparison, [column])
    if table is None:  # left out before
        return pd.DataFrame()
    found = one_way(comparison, table, column, is_known=column in told.known)
    names = labels(comparison, column, binned=[column])
    out = {
        "column": column,
        "key": found.keys,
        "label": [names[key] for key in found.keys.tolist()],
        "original": found.left,
        "synthetic": found.right,
    }
    scale, has = comparison.original.total / table.total, found.left > 0
    for prefix, shown in (("", found.right), ("scaled_", found.right * scale)):
        error = np.abs(shown - found.left)
        percent = np.full(len(error), np.inf)
        percent[has] = 100 * error[has] / found.left[has]
        out[f"{prefix}absolute_error"] = error
        out[f"{prefix}composite_error"] = np.minimum(error, percent)
    return pd.DataFrame(out)
