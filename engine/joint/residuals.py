"""The residual basis: margins in, their orthogonal components out, and back.

A margin falls apart into one component for each subset of its columns. Noise that is the same in every cell stays the
same in every component, so components of several margins are combined by plain weighted means: together the
least-squares estimate of all margins at once (Xiao, He, Zhang, Kifer 2023, arXiv:2305.08175).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from engine.schema import ColumnSet, FloatArray

Components = dict[ColumnSet, FloatArray]
"""Components of a margin, by the columns they vary with: sums over all other columns, centred along their own."""


def components(n: FloatArray, columns: ColumnSet) -> Components:
    """Take a margin apart into its components."""
    parts: Components = {(): n}
    for name in columns:
        split: Components = {}
        for held, part in parts.items():
            axis = len(held)
            sums = part.sum(axis=axis)
            split[held] = sums
            split[(*held, name)] = part - np.expand_dims(sums / part.shape[axis], axis)
        parts = split
    return parts


def assembled(
    parts: Mapping[ColumnSet, FloatArray], sizes: Sequence[int], columns: ColumnSet
) -> FloatArray:
    """Put a margin together from its components: the inverse of `components`."""
    built = {held: parts[held] for held in _subsets(columns)}
    for place in reversed(range(len(columns))):
        name = columns[place]
        built = {
            held: np.expand_dims(built[held] / sizes[place], len(held)) + built[(*held, name)]
            for held in _subsets(columns[:place])
        }
    return built[()]


def mean_components(
    margins: Sequence[tuple[ColumnSet, FloatArray, float]],
) -> tuple[Components, dict[ColumnSet, float]]:
    """Weighted mean of every component over the margins that have it, and the variance of its noise.

    Parameters
    ----------
    margins : sequence of (ColumnSet, ndarray of float64, float)
        Columns, counts and the variance of each count (above 0).

    Returns
    -------
    means : dict
    variances : dict
        A component's noise has this variance along each of its dimensions.
    """
    sums: Components = {}
    weights: dict[ColumnSet, float] = {}
    for columns, n, variance in margins:
        for held, part in components(n, columns).items():
            # A component of fewer columns is a sum over all others: its noise adds up.
            weight = part.size / (variance * n.size)
            sums[held] = sums.get(held, 0.0) + part * weight
            weights[held] = weights.get(held, 0.0) + weight
    return (
        {held: part / weights[held] for held, part in sums.items()},
        {held: 1.0 / weight for held, weight in weights.items()},
    )


def _subsets(columns: ColumnSet) -> list[ColumnSet]:
    """All subsets of columns, each in their order."""
    return [held for width in range(len(columns) + 1) for held in combinations(columns, width)]
