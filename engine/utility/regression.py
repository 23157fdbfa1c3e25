"""Differences of the slopes of a linear regression, in several groups of rows.

Takes a `Comparison` and a section of a study; gives a `Score`. Definition: P. Francis, arXiv:2403.08463, section 4.5.
Invariant: a group without a line on either side is named, never counted as equal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from engine.score import Score, not_computed
from engine.study_sections import Regression, RegressionGroup
from engine.utility.comparison import Coded, Comparison, covering
from engine.utility.words import as_numbers, finite, lacking, listed, matching

NAME = "regression"


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """A line of least squares; all NaN but `n` where there is none.

    Attributes
    ----------
    slope, intercept : float
    low, high : float
        Least and largest x.
    n : int
        Rows.
    """

    slope: float
    intercept: float
    low: float
    high: float
    n: int

    def at(self, x: float) -> float:
        """Return y at x."""
        return self.intercept + self.slope * x


def regression(comparison: Comparison, told: Regression) -> Score:
    """Differences of the slopes of one column on another, in several groups of rows.

    Rows where one of the two is blank do not count. Texts count by their place in the column's order.

    Returns
    -------
    Score
        Broken down by group. `more`: `lines`, both lines of each group over the original's range of x.
    """
    needed = list(dict.fromkeys((told.x, told.y, *(c for g in told.groups for c in g.where))))
    if (why := lacking(comparison, needed)) is not None:
        return not_computed(NAME, why)
    table = covering(comparison, needed)
    if table is None:  # said before
        return not_computed(NAME, "no table has the columns")
    fitted = {
        g.name: [_fitted(comparison, t, told, g) for t in (comparison.original, table)]
        for g in told.groups
    }
    rows = [_row(name, truth, shown, told.digits) for name, (truth, shown) in fitted.items()]
    whole = pd.DataFrame(rows)
    error = whole["error"].astype("float64").round(told.digits)
    without = [g for g, off in zip(whole["group"], error, strict=True) if np.isnan(off)]
    figures = {
        "median_error": float(error.median()),
        "largest_error": float(error.max()),
        "n": float(error.notna().sum()),
    }
    why = "no group has rows with two values of x on both sides"
    values, why_not = finite(figures, why)
    notes = (f"no line in these groups, on a side: {listed(without)}",) if without else ()
    more = {"lines": _lines(fitted)}
    return Score(
        measure=NAME, values=values, breakdown=whole, more=more, why_not=why_not, notes=notes
    )


def _row(name: str, truth: Line, shown: Line, digits: int) -> dict[str, str | float]:
    """What is found about a group."""
    slopes = round(truth.slope, digits), round(shown.slope, digits)
    return {
        "group": name,
        "original": slopes[0],
        "synthetic": slopes[1],
        "error": abs(slopes[1] - slopes[0]),
        "original_intercept": truth.intercept,
        "synthetic_intercept": shown.intercept,
        "original_rows": truth.n,
        "synthetic_rows": shown.n,
    }


def _lines(fitted: dict[str, list[Line]]) -> pd.DataFrame:
    """Ends of the lines of each group."""
    rows = [
        {
            "group": name,
            "x_low": truth.low,
            "x_high": truth.high,
            **{
                f"{side}_{end}": line.at(truth.low if end == "low" else truth.high)
                for side, line in (("original", truth), ("synthetic", shown))
                for end in ("low", "high")
            },
        }
        for name, (truth, shown) in fitted.items()
    ]
    return pd.DataFrame(rows)


def _fitted(comparison: Comparison, table: Coded, told: Regression, group: RegressionGroup) -> Line:
    """Least squares over the rows of a group where both columns are present."""
    kept = np.ones(len(table.n), np.bool_)
    for name, allowed in group.where.items():
        kept &= matching(comparison.values[name], allowed)[table.codes[name]]
    sides = []
    for name in (told.x, told.y):
        code = table.codes[name]
        kept &= code < len(comparison.values[name])
        sides.append(np.append(as_numbers(comparison.values[name]), np.nan)[code])
    x, y, n = sides[0][kept], sides[1][kept], table.n[kept]
    nan, total = float("nan"), int(n.sum())
    if not total or not np.isfinite(x).all() or not np.isfinite(y).all():
        return Line(slope=nan, intercept=nan, low=nan, high=nan, n=total)
    x, y, n = x[n > 0], y[n > 0], n[n > 0]
    low, high = float(x.min()), float(x.max())
    middle = [float(np.average(side, weights=n)) for side in (x, y)]
    if low == high:
        return Line(slope=nan, intercept=nan, low=low, high=high, n=total)
    reach = max(middle[0] - low, high - middle[0])  # scaled, squares neither overflow nor vanish
    apart = (x - middle[0]) / reach
    slope = float(np.sum(n * apart * (y - middle[1]))) / float(np.sum(n * apart**2)) / reach
    return Line(slope=slope, intercept=middle[1] - slope * middle[0], low=low, high=high, n=total)
