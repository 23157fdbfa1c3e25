"""How near the distributions of single ordered columns are: empirical distribution functions, U_m and U_a.

Takes a `Paired` and a section of a study; gives a `Score`. Definition: Woo et al., "Global measures of data utility
for microdata masked for disclosure limitation", doi:10.29012/jpc.v1i1.568, section 3.3.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.evaluation.data.paired import Coded, Paired, covering
from engine.evaluation.score import Score, Section, not_computed

Floats = NDArray[np.float64]
NAME = "distributions"
_BREAKDOWN = ["column", "u_m", "u_a", "blanks_original", "blanks_synthetic"]


class Distributions(Section):
    """Empirical distribution functions of ordered columns; none named: all numbers and times."""

    columns: tuple[str, ...] = ()


def distributions(paired: Paired, section: Distributions) -> Score:
    """Compare the distribution functions of ordered columns, each from the smallest table that has it.

    Blanks have no place in an order: they are left out of both functions, and their shares are in the breakdown.

    Returns: `median_u_m`, `largest_u_m`, `median_u_a`, `largest_u_a`, `n`; broken down by column.
    """
    ordered = [c for c, v in paired.values.items() if v.dtype != object]
    rows, notes = [], []
    for column in dict.fromkeys(section.columns or ordered):
        table = None if column not in paired.values else covering(paired, [column])
        if table is None:
            notes.append(f"{column}: no table has it")
            continue
        size = len(paired.values[column]) + 1
        original, synthetic = (_counted(side, column, size) for side in (paired.original, table))
        if not original[:-1].sum() or not synthetic[:-1].sum():
            notes.append(f"{column}: one side has no value of it")
            continue
        blanks = (float(n[-1] / n.sum()) for n in (original, synthetic))
        rows.append((column, *apart(original[:-1], synthetic[:-1]), *blanks))
    if not rows:
        why = "no ordered column has values on both sides" + "".join(f"; {n}" for n in notes)
        return not_computed(NAME, why)
    whole = pd.DataFrame(rows, columns=_BREAKDOWN)
    values = {
        "median_u_m": float(whole["u_m"].median()),
        "largest_u_m": float(whole["u_m"].max()),
        "median_u_a": float(whole["u_a"].median()),
        "largest_u_a": float(whole["u_a"].max()),
        "n": float(len(whole)),
    }
    return Score(measure=NAME, values=values, breakdown=whole, notes=tuple(notes))


def apart(original: Floats, synthetic: Floats) -> tuple[float, float]:
    """Return U_m and U_a: the largest, and the mean squared, difference of two distribution functions.

    original, synthetic: Records of each value, in their order; each has at least one.

    The mean is over the records of both sides, as in the paper. U_m is the statistic of Kolmogorov and Smirnov.
    """
    difference = np.cumsum(original) / original.sum() - np.cumsum(synthetic) / synthetic.sum()
    both = original + synthetic
    largest = float(np.abs(difference).max())
    return largest, float((both * difference**2).sum() / both.sum())


def _counted(side: Coded, column: str, size: int) -> Floats:
    """Records of each value, and last of the blank."""
    return np.bincount(side.codes[column], side.n.astype(np.float64), size).astype(np.float64)
