"""Differences of the slopes of a linear regression, in several groups of rows.

Takes a `Paired` and a section of a study; gives a `Score`. Definition: P. Francis, arXiv:2403.08463, section 4.5.
Invariant: a group without a line on either side is named, never counted as equal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from pydantic import Field

from engine.evaluation.data.paired import Coded, Paired, covering
from engine.evaluation.data.words import as_numbers, finite, lacking, listed, matching
from engine.evaluation.score import Score, Section, not_computed

NAME = "regression"


class RegressionGroup(Section):
    """Rows of one regression: those with one of the listed values in every column of `where`."""

    name: str
    where: dict[str, list[float | str]] = Field(default_factory=dict)


class Regression(Section):
    """Slopes of `y` on `x` by least squares, one for each group, rounded to `digits`."""

    x: str
    y: str
    digits: int = 2
    groups: tuple[RegressionGroup, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class FittedLine:
    """A line of least squares over `n` rows; NaN where there is none."""

    slope: float
    intercept: float
    n: int


def regression(paired: Paired, section: Regression) -> Score:
    """Differences of the slopes of one column on another, in several groups of rows.

    Rows where one of the two is blank do not count. Texts count by their place in the column's order.
    """
    needed = list(
        dict.fromkeys((section.x, section.y, *(c for g in section.groups for c in g.where)))
    )
    if (why := lacking(paired, needed)) is not None:
        return not_computed(NAME, why)
    table = covering(paired, needed)
    if table is None:  # `lacking` ruled this out
        return not_computed(NAME, "no table has the columns")
    fitted = {
        g.name: [_fitted(paired, t, section, g) for t in (paired.original, table)]
        for g in section.groups
    }
    rows = [_row(name, truth, shown, section.digits) for name, (truth, shown) in fitted.items()]
    whole = pd.DataFrame(rows)
    error = whole["error"].astype("float64").round(section.digits)
    without = [g for g, off in zip(whole["group"], error, strict=True) if np.isnan(off)]
    figures = {
        "median_error": float(error.median()),
        "largest_error": float(error.max()),
        "n": float(error.notna().sum()),
    }
    why = "no group has rows with two values of x on both sides"
    values, why_not = finite(figures, why)
    notes = (f"no line in these groups, on a side: {listed(without)}",) if without else ()
    return Score(measure=NAME, values=values, breakdown=whole, why_not=why_not, notes=notes)


def _row(name: str, truth: FittedLine, shown: FittedLine, digits: int) -> dict[str, str | float]:
    """Figures of a group."""
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


def _fitted(
    paired: Paired, table: Coded, section: Regression, group: RegressionGroup
) -> FittedLine:
    """Least squares over the rows of a group where both columns are present."""
    chosen = np.ones(len(table.n), np.bool_)
    for name, allowed in group.where.items():
        chosen &= matching(paired.values[name], allowed)[table.codes[name]]
    sides = []
    for name in (section.x, section.y):
        code = table.codes[name]
        chosen &= code < len(paired.values[name])
        sides.append(np.append(as_numbers(paired.values[name]), np.nan)[code])
    x, y, n = sides[0][chosen], sides[1][chosen], table.n[chosen]
    nan, total = float("nan"), int(n.sum())
    if not total or not np.isfinite(x).all() or not np.isfinite(y).all():
        return FittedLine(slope=nan, intercept=nan, n=total)
    x, y, n = x[n > 0], y[n > 0], n[n > 0]
    low, high = float(x.min()), float(x.max())
    middle = [float(np.average(side, weights=n)) for side in (x, y)]
    if low == high:
        return FittedLine(slope=nan, intercept=nan, n=total)
    reach = max(middle[0] - low, high - middle[0])  # scaled, squares neither overflow nor vanish
    apart = (x - middle[0]) / reach
    slope = float(np.sum(n * apart * (y - middle[1]))) / float(np.sum(n * apart**2)) / reach
    return FittedLine(slope=slope, intercept=middle[1] - slope * middle[0], n=total)
