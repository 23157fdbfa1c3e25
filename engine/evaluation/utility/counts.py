"""Errors of the counts of one column.

Takes a `Paired` and a section of a study; gives a `Score`. Definitions: SDNIST (NIST Collaborative Research Cycle)
and P. Francis, "A Comparison of SynDiffix Multi-table versus Single-table Synthetic Data", arXiv:2403.08463, section 4.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from engine.evaluation.data.paired import Coded, Counts, Paired, counts, covering
from engine.evaluation.data.words import finite, labels, lacking, listed
from engine.evaluation.score import Score, Section, not_computed

NAME = "univariate"


class Univariate(Section):
    """Counts of one column."""

    leave_out: tuple[str, ...] = ()  # Columns that are not counted
    known: tuple[str, ...] = ()  # Columns of which only values of the original count, blanks not


def one_way(paired: Paired, table: Coded, column: str, *, is_known: bool = False) -> Counts:
    """Count one column in the original and a table, in the study's groups where it has any.

    is_known: Only values that the original has, blanks not.
    """
    both = counts(paired, paired.original, table, [column], binned=[column])
    if not is_known:
        return both
    is_known_value = (both.left > 0) & (both.keys < len(paired.values[column]))
    return Counts(
        keys=both.keys[is_known_value],
        left=both.left[is_known_value],
        right=both.right[is_known_value],
    )


def univariate(paired: Paired, section: Univariate) -> Score:
    """Errors of the counts of every column, each from its own table, or the smallest that has it.

    The composite error of a count is the smaller of the absolute error and the percentage it is of the true count.
    For tables of another size than the original there is a second reading, with the synthetic counts scaled to the
    original's number of rows (the cited paper's 2.5 for a 40 % sample).
    """
    columns = [c for c in paired.values if c not in section.leave_out]
    reasons = {c: why for c in columns if (why := lacking(paired, [c])) is not None}
    parts = [_errors(paired, section, c) for c in columns if c not in reasons]
    whole = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    notes = tuple(f"{column} is left out: {why}" for column, why in list(reasons.items())[:12])
    if not len(whole):
        why = next(iter(reasons.values()), "no table has a column that is counted")
        return not_computed(NAME, why)
    unknown = [c for c in section.known if c not in paired.values]
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


def _errors(paired: Paired, section: Univariate, column: str) -> pd.DataFrame:
    """Counts of one column and their errors."""
    table = covering(paired, [column])
    if table is None:  # left out before
        return pd.DataFrame()
    both = one_way(paired, table, column, is_known=column in section.known)
    names = labels(paired, column, binned=[column])
    out = {
        "column": column,
        "key": both.keys,
        "label": [names[key] for key in both.keys.tolist()],
        "original": both.left,
        "synthetic": both.right,
    }
    scale, has = paired.original.total / table.total, both.left > 0
    for prefix, shown in (("", both.right), ("scaled_", both.right * scale)):
        error = np.abs(shown - both.left)
        percent = np.full(len(error), np.inf)
        percent[has] = 100 * error[has] / both.left[has]
        out[f"{prefix}absolute_error"] = error
        out[f"{prefix}composite_error"] = np.minimum(error, percent)
    return pd.DataFrame(out)
