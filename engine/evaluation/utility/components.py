"""Principal components of the widest table, compared by the Kolmogorov-Smirnov distance.

Takes a `Paired` and a section of a study; gives a `Score`. Definition: SDNIST and P. Francis, arXiv:2403.08463,
section 4.7: columns standardised by the original's mean and deviation, components of the original, both sides projected
on them, the distance on each, their mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field

from engine.evaluation.data.paired import Coded, Numbers, Paired
from engine.evaluation.data.words import as_numbers, listed, nothing_to_compare
from engine.evaluation.score import Score, Section, not_computed
from engine.schema import ColumnSet

NAME = "components"
_DIGITS = 9
_FURTHEST = 1e12
Floats = NDArray[np.float64]


class Components(Section):
    """Principal components of the widest table, compared by the Kolmogorov-Smirnov distance."""

    n: int = Field(default=5, ge=1)  # Number of components
    leave_out: tuple[str, ...] = ()
    binned: tuple[str, ...] = ()  # Columns that are binned first
    # Number that stands for a blank of a column; elsewhere `blank`.
    blanks: dict[str, float] = Field(default_factory=dict)
    blank: float = -1


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Axes:
    """Components of the original: rows are projected on `loadings`, shape (n_columns, n_components)."""

    columns: tuple[str, ...]
    mean: Floats
    deviation: Floats
    loadings: Floats
    explained: Floats


def components(paired: Paired, section: Components) -> Score:
    """Mean Kolmogorov-Smirnov distance of the principal components of the table with most columns.

    Not computed where that has fewer than half of the columns that tables show: it is a measure of all together.
    Blanks are the numbers that the study says, texts their place in the column's order, times are days.

    The public tool's solver draws at random, so that its figures differ by some 0.0002 from run to run; this one is
    exact. No package is needed.
    """
    if (why := nothing_to_compare(paired)) is not None:
        return not_computed(NAME, why)
    table = _widest(paired, section)
    columns = tuple(c for c in table.columns if c not in section.leave_out)
    n_all = len([c for c in paired.original.columns if c not in section.leave_out])
    if 2 * len(columns) < n_all:
        why = f"the widest table has {len(columns)} of the {n_all} columns that tables show: fewer than half"
        return not_computed(NAME, why)
    axes = _axes(paired, columns, section)
    if axes is None:
        why = "the widest table has fewer than 2 columns that vary in the original"
        return not_computed(NAME, why)
    sides = [_projected(paired, t, axes, section) for t in (paired.original, table)]
    n = [paired.original.n, table.n]
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
    return Score(
        measure=NAME,
        values=values,
        breakdown=whole,
        notes=_notes(columns, axes, n_all),
        over=len(columns),
    )


def ks_distance(first: Floats, second: Floats, n_first: Numbers, n_second: Numbers) -> float:
    """Largest difference of two empirical distribution functions of weighted values, 0 to 1.

    first, second: Values; not in order.
    """
    _, place = np.unique(np.concatenate([first, second]), return_inverse=True)
    at = place[: len(first)], place[len(first) :]
    size = int(place.max()) + 1
    steps = [
        np.cumsum(np.bincount(p, n.astype(np.float64), minlength=size)) / n.sum()
        for p, n in zip(at, (n_first, n_second), strict=True)
    ]
    return float(np.abs(steps[0] - steps[1]).max())


def _widest(paired: Paired, section: Components) -> Coded:
    """The table with rows that has most columns; of equally wide ones that with most rows."""
    with_rows = [t for t in paired.tables.values() if t.total]
    left_out = set(section.leave_out)
    return max(with_rows, key=lambda t: (len(set(t.columns) - left_out), len(t.n)))


def _numbers(paired: Paired, column: str, section: Components) -> Floats:
    """Numbers of a column's codes, the blank last."""
    blank = section.blanks.get(column, section.blank)
    if column in section.binned and column in paired.groupings:
        group = paired.groupings[column].group.astype(np.float64)
        group[-1] = blank
        return group
    return np.append(as_numbers(paired.values[column]), blank)


def _axes(paired: Paired, columns: tuple[str, ...], section: Components) -> _Axes | None:
    """Components of some columns of the original; None where fewer than two vary."""
    original = paired.original
    total = original.total
    mean, deviation = np.empty(len(columns)), np.empty(len(columns))
    for i, name in enumerate(columns):
        n = np.bincount(original.codes[name], original.n) / total
        # Only the original's own values: others may be endless.
        own = _numbers(paired, name, section)[: len(n)][n > 0]
        with np.errstate(over="ignore", invalid="ignore"):
            mean[i] = n[n > 0] @ own
            deviation[i] = np.sqrt(n[n > 0] @ (own - mean[i]) ** 2)
    varies = np.isfinite(deviation) & (deviation > np.abs(mean) * 1e-12)
    if varies.sum() < 2:
        return None
    varying = tuple(c for c, v in zip(columns, varies, strict=True) if v)
    plain = _Axes(
        columns=varying,
        mean=mean[varies],
        deviation=deviation[varies],
        loadings=np.eye(len(varying)),
        explained=np.empty(0),
    )
    rows = _standardised(paired, original, plain, section)
    covariance = rows.T @ (rows * original.n[:, np.newaxis]) / total
    variance, vectors = np.linalg.eigh(covariance)
    order = np.argsort(variance, kind="stable")[::-1][: min(section.n, len(varying))]
    loadings = vectors[:, order]
    # A component's sign says nothing: its largest loading is made positive, so that pictures agree.
    loadings = loadings * np.sign(loadings[np.argmax(np.abs(loadings), axis=0), range(len(order))])
    explained = np.maximum(variance[order], 0) / variance.sum()
    return _Axes(
        columns=varying,
        mean=plain.mean,
        deviation=plain.deviation,
        loadings=loadings,
        explained=explained,
    )


def _standardised(paired: Paired, table: Coded, axes: _Axes, section: Components) -> Floats:
    """Rows of a table, by the original's mean and deviation; shape (n_rows, n_columns)."""
    out = np.empty((len(table.n), len(axes.columns)))
    for i, name in enumerate(axes.columns):
        with np.errstate(over="ignore"):
            scaled = (_numbers(paired, name, section) - axes.mean[i]) / axes.deviation[i]
        out[:, i] = np.clip(scaled, -_FURTHEST, _FURTHEST)[table.codes[name]]
    return out


def _projected(paired: Paired, table: Coded, axes: _Axes, section: Components) -> Floats:
    """Rows of a table on the components, shape (n_rows, n_components); rounded, so that equal rows stay equal."""
    return np.round(_standardised(paired, table, axes, section) @ axes.loadings, _DIGITS)


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
