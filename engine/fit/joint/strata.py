"""Strata: margins that hold the strata's columns in, what lies within one stratum out.

The noise of a margin is the same within every stratum. How many rows a stratum has is not measured by itself: it is the
best mean of what the margins within it say, and the strata are brought to add up to the total, all by variance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from engine.errors import InternalError
from engine.fit.joint.reconcile import on_simplex
from engine.levels import Margin, StructuralZero
from engine.schema import BoolArray, ColumnSet, FloatArray

Part = TypeVar("Part", Margin, StructuralZero)


def without_strata(part: Part, strata: ColumnSet, place: tuple[int, ...]) -> Part:
    """What a margin, or a rule, is within one stratum."""
    at = dict(zip(strata, place, strict=True))
    cut = tuple(at.get(name, slice(None)) for name in part.columns)
    columns = tuple(name for name in part.columns if name not in at)
    if isinstance(part, StructuralZero):
        return StructuralZero(columns=columns, cells=np.asarray(part.cells[cut]), why=part.why)
    return Margin(
        columns=columns,
        n=np.asarray(part.n[cut]),
        variance=part.variance,
        branching=part.branching,
        tree=tuple(np.asarray(nodes[cut]) for nodes in part.tree),
    )


def within(
    margins: Sequence[Margin],
    total: Margin,
    strata: ColumnSet,
    zeros: Sequence[StructuralZero],
    sizes: Mapping[str, int],
) -> tuple[Margin, ...]:
    """The total of every stratum, in C order of the strata's levels; without strata the total itself.

    zeros: A rule that leaves nothing of a stratum possible leaves it without rows.

    Returns: With strata: whole numbers, never negative, taken as given (variance 0).
    """
    if not strata:
        return (total,)
    shape = tuple(sizes[name] for name in strata)
    possible = np.ones(shape, dtype=bool)
    for zero in zeros:
        others = tuple(k for k, name in enumerate(zero.columns) if name not in strata)
        wide = tuple(sizes[name] if name in zero.columns else 1 for name in strata)
        possible &= ~zero.cells.all(axis=others).reshape(wide)
    estimate, variance = _means(margins, strata)
    return tuple(
        Margin(columns=(), n=np.asarray(n), variance=0.0)
        for n in _shared(estimate, variance, total, possible)
    )


def _means(margins: Sequence[Margin], strata: ColumnSet) -> tuple[FloatArray, float]:
    """Rows of each stratum, by all margins and all depths of trees; and their variance, the same for all."""
    weights = 0.0
    estimate: FloatArray | float = 0.0
    for margin in margins:
        if not set(strata) <= set(margin.columns):
            raise InternalError("with strata every margin must hold the columns of the strata")
        others = tuple(k for k, name in enumerate(margin.columns) if name not in strata)
        for n in (*margin.tree, margin.n):
            added = n.sum(axis=others, dtype=np.float64)
            weight = added.size / n.size / max(margin.variance, 1e-9)
            estimate = estimate + weight * added
            weights += weight
    return np.asarray(estimate / weights, dtype=np.float64), 1.0 / weights


def _shared(
    estimate: FloatArray, variance: float, total: Margin, possible: BoolArray
) -> list[np.int64]:
    """Bring the strata to the best estimate of the total, then to whole numbers that add up to it."""
    rows = np.where(possible, estimate, 0.0)
    several = max(int(possible.sum()), 1)
    missing = float(total.n) - float(rows.sum())
    share = variance / (several * variance + max(total.variance, 0.0))
    best = float(rows.sum()) + several * missing * share
    # Raising negative ones to 0 by itself would add rows: the more strata, the more of them.
    rows = on_simplex(rows, possible, max(best, 0.0))
    reached = np.floor(np.cumsum(rows) + 0.5)
    return list(np.diff(reached, prepend=0.0).astype(np.int64))
