"""Principal components of the widest table, compared by the Kolmogorov-Smirnov distance.

Takes a `Comparison` and a section of a study; gives a `Score`. Definition: SDNIST and P. Francis, arXiv:2403.08463,
section 4.7: columns standardised by the original's mean and deviation, components of the original, both sides projected
on them, the distance on each, their mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.schema import ColumnSet
from engine.score import Score, not_computed
from engine.study_sections import Components
from engine.utility.comparison import Coded, Comparison, Numbers
from engine.utility.words import as_numbers, listed, nothing_to_compare

NAME = "components"
MOST_POINTS = 2_000
"""Rows of each side that `points` shows."""
_DIGITS = 9
_FURTHEST = 1e12
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Axes:
    """Components of the original: rows are projected on `loadings`, shape (n_columns, n_components)."""

    columns: tuple[str, ...]
    mean: Floats
    deviation: Floats
    loadings: Floats
    explained: Floats


def components(comparison: Comparison, told: Components) -> Score:
    """Mean Kolmogorov-Smirnov distance of the principal components of the table with most columns.

    Not computed where that has fewer than half of the columns that tables show: it is a measure of all together.
    Blanks are the numbers that the study says, texts their place in the column's order, times are days.

    Returns
    -------
    Score
        Broken down by component. `more`: `components`, the same; `loadings`, by component and column;
        `points`, a sample of the rows of each side on all components, scaled by the original's range to 0 to 1.

    Notes
    -----
    The public tool's solver draws at random, so that its figures differ by some 0.0002 from run to run; this one is
    exact. No package is needed.
    """
    if (why := nothing_to_compare(comparison)) is not None:
        return not_computed(NAME, why)
    table = _widest(comparison, told)
    columns = tuple(c for c in table.columns if c not in told.leave_out)
    n_all = len([c for c in comparison.original.columns if c not in told.leave_out])
    if 2 * len(columns) < n_all:
        why = f"the widest table has {len(columns)} of the {n_all} columns that tables show: fewer than half"
        return not_computed(NAME, why)
    axes = _axes(comparison, columns, told)
    if axes is None:
        why = "the widest table has fewer than 2 columns that vary in the original"
        return not_computed(NAME, why)
    sides = [_projected(comparison, t, axes, told) for t in (comparison.original, table)]
    n = [comparison.original.n, table.n]
    distance = np.array(
        [
            ks_distance(first, second, n[0], n[1])
            for first, second in zip(sides[0].T, sides[1].T, strict=True)
        ]
    )
    whole = pd.DataFrame(
        {"component": np.arange(1, len(distance) + 1), "ks": distance, "explained": axes.explained}
    )
    values = {
        "mean_ks": float(distance.mean()),
        "largest_ks": float(distance.max()),
        "explained": min(float(axes.explained.sum()), 1.0),
        "columns": float(len(columns)),
    }
    points = _points(comparison, (comparison.original, table), sides, told)
    more = {"components": whole, "loadings": _loadings(axes), "points": points}
    return Score(
        measure=NAME,
        values=values,
        breakdown=whole,
        more=more,
        notes=_notes(columns, axes, n_all),
        over=len(columns),
    )


def ks_distance(first: Floats, second: Floats, n_first: Numbers, n_second: Numbers) -> float:
    """Largest difference of two empirical distribution functions of weighted values, 0 to 1.

    Parameters
    ----------
    first, second : ndarray of float64
        Values; not in order.
    n_first, n_second : ndarray of int64
        How often each is there; neither sums to nought.
    """
    _, place = np.unique(np.concatenate([first, second]), return_inverse=True)
    at = place[: len(first)], place[len(first) :]
    size = int(place.max()) + 1
    steps = [
        np.cumsum(np.bincount(p, n.astype(np.float64), minlength=size)) / n.sum()
        for p, n in zip(at, (n_first, n_second), strict=True)
    ]
    return float(np.abs(steps[0] - steps[1]).max())


def _widest(comparison: Comparison, told: Components) -> Coded:
    """The table with rows that has most columns; of equally wide ones that with most rows."""
    with_rows = [t for t in comparison.tables.values() if t.total]
    left_out = set(told.leave_out)
    return max(with_rows, key=lambda t: (len(set(t.columns) - left_out), len(t.n)))


def _numbers(comparison: Comparison, column: str, told: Components) -> Floats:
    """Numbers of a column's codes, the blank last."""
    blank = told.blanks.get(column, told.blank)
    if column in told.binned and column in comparison.groupings:
        group = comparison.groupings[column].group.astype(np.float64)
        group[-1] = blank
        return group
    return np.append(as_numbers(comparison.values[column]), blank)


def _axes(comparison: Comparison, columns: tuple[str, ...], told: Components) -> _Axes | None:
    """Components of some columns of the original; None where fewer than two vary."""
    original = comparison.original
    total = original.total
    mean, deviation = np.empty(len(columns)), np.empty(len(columns))
    for i, name in enumerate(columns):
        n = np.bincount(original.codes[name], original.n) / total
        # Only the original's own values: others may be endless.
        own = _numbers(comparison, name, told)[: len(n)][n > 0]
        with np.errstate(over="ignore", invalid="ignore"):
            mean[i] = n[n > 0] @ own
            deviation[i] = np.sqrt(n[n > 0] @ (own - mean[i]) ** 2)
    varies = np.isfinite(deviation) & (deviation > np.abs(mean) * 1e-12)
    if varies.sum() < 2:
        return None
    kept = tuple(c for c, v in zip(columns, varies, strict=True) if v)
    plain = _Axes(
        columns=kept,
        mean=mean[varies],
        deviation=deviation[varies],
        loadings=np.eye(len(kept)),
        explained=np.empty(0),
    )
    rows = _standardised(comparison, original, plain, told)
    covariance = rows.T @ (rows * original.n[:, np.newaxis]) / total
    variance, vectors = np.linalg.eigh(covariance)
    order = np.argsort(variance, kind="stable")[::-1][: min(told.n, len(kept))]
    loadings = vectors[:, order]
    # A component's sign says nothing: its largest loading is made positive, so that pictures agree.
    loadings = loadings * np.sign(loadings[np.argmax(np.abs(loadings), axis=0), range(len(order))])
    explained = np.maximum(variance[order], 0) / variance.sum()
    return _Axes(
        columns=kept,
        mean=plain.mean,
        deviation=plain.deviation,
        loadings=loadings,
        explained=explained,
    )


def _standardised(comparison: Comparison, table: Coded, axes: _Axes, told: Components) -> Floats:
    """Rows of a table, by the original's mean and deviation; shape (n_rows, n_columns)."""
    out = np.empty((len(table.n), len(axes.columns)))
    for i, name in enumerate(axes.columns):
        with np.errstate(over="ignore"):
            scaled = (_numbers(comparison, name, told) - axes.mean[i]) / axes.deviation[i]
        out[:, i] = np.clip(scaled, -_FURTHEST, _FURTHEST)[table.codes[name]]
    return out


def _projected(comparison: Comparison, table: Coded, axes: _Axes, told: Components) -> Floats:
    """Rows of a table on the components, shape (n_rows, n_components); rounded, so that equal rows stay equal."""
    return np.round(_standardised(comparison, table, axes, told) @ axes.loadings, _DIGITS)


def _loadings(axes: _Axes) -> pd.DataFrame:
    """How much each column counts in each component."""
    width = axes.loadings.shape[1]
    return pd.DataFrame(
        {
            "component": np.repeat(np.arange(1, width + 1), len(axes.columns)),
            "column": list(axes.columns) * width,
            "loading": axes.loadings.T.ravel(),
        }
    )


def _points(
    comparison: Comparison, tables: tuple[Coded, Coded], sides: list[Floats], told: Components
) -> pd.DataFrame:
    """Rows of both sides, evenly taken, on all components."""
    low = sides[0].min(axis=0)
    span = sides[0].max(axis=0) - low
    parts = []
    for name, table, rows in zip(("original", "synthetic"), tables, sides, strict=True):
        at = _evenly(table.n, MOST_POINTS)
        scaled = (rows[at] - low) / np.where(span > 0, span, 1)
        frame = pd.DataFrame(scaled, columns=[f"c{i + 1}" for i in range(rows.shape[1])])
        marked = np.zeros(len(at), np.bool_)
        if told.highlight is not None and told.highlight in table.codes:
            marked = table.codes[told.highlight][at] == len(comparison.values[told.highlight])
        parts.append(frame.assign(side=name, highlight=marked))
    return pd.concat(parts, ignore_index=True)


def _evenly(n: Numbers, most: int) -> Numbers:
    """Positions of at most so many rows, evenly spread over all rows, repeated ones counted."""
    total = int(n.sum())
    taken = min(most, total)
    wanted = (2 * np.arange(taken) + 1) * total // (2 * taken)
    return np.searchsorted(np.cumsum(n), wanted, side="right")


def _notes(columns: ColumnSet, axes: _Axes, n_all: int) -> tuple[str, ...]:
    """What a reader must know of the columns."""
    notes = []
    if len(columns) < n_all:
        notes.append(f"components of {len(columns)} of {n_all} columns, as no table is wider")
    constant = [c for c in columns if c not in axes.columns]
    if constant:
        notes.append(
            f"constant in the original, or not finite, so in no component: {listed(constant)}"
        )
    return tuple(notes)
