"""The residual basis: margins in, their orthogonal components out, and back.

A margin falls apart into one component for each subset of its columns. Noise that is the same in every cell stays the
same in every component, so components of several margins are combined by plain weighted means: together the
least-squares estimate of all margins at once (Xiao, He, Zhang, Kifer 2023, arXiv:2305.08175).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import prod

import numpy as np

from engine.schema import ColumnSet, FloatArray

Components = dict[ColumnSet, FloatArray]
"""Components of a margin, by the columns they vary with.

Each is the sum over all other columns, in orthonormal coordinates that leave out the mean along each column of its own:
one coordinate fewer than the column has levels. So all components of a margin together are as large as the margin.
"""


def components(n: FloatArray, columns: ColumnSet) -> Components:
    """Take a margin apart into its components.

    Parameters
    ----------
    n : ndarray of float64
        One axis a column, each of at least one level.
    columns : ColumnSet

    Returns
    -------
    dict
        2**n_columns components.
    """
    parts: Components = {(): n}
    for name in columns:
        split: Components = {}
        for held, part in parts.items():
            axis = len(held)
            split[held] = part.sum(axis=axis)
            split[(*held, name)] = _contrasts(part, axis)
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
            held: _joined(built[held] / sizes[place], built[(*held, name)], len(held))
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
        size = dict(zip(columns, n.shape, strict=True))
        for held, part in components(n, columns).items():
            # A component of fewer columns is a sum over all others: its noise adds up.
            weight = prod(size[name] for name in held) / (variance * n.size)
            sums[held] = sums.get(held, 0.0) + part * weight
            weights[held] = weights.get(held, 0.0) + weight
    return (
        {held: part / weights[held] for held, part in sums.items()},
        {held: 1.0 / weight for held, weight in weights.items()},
    )


def _contrasts(part: FloatArray, axis: int) -> FloatArray:
    """Coordinates of what varies along an axis: each level against the mean of those before it (Helmert)."""
    rank, length = _helmert(part.shape[axis], part.ndim - axis)
    before = np.cumsum(part, axis=axis)
    out: FloatArray = (before[_but_last(axis)] - rank * part[_but_first(axis)]) / length
    return out


def _joined(mean: FloatArray, contrasts: FloatArray, axis: int) -> FloatArray:
    """Put a mean and the coordinates along an axis that it lacks together: the inverse of `_contrasts`."""
    levels = contrasts.shape[axis] + 1
    rank, length = _helmert(levels, contrasts.ndim - axis)
    scaled = contrasts / length
    out = np.repeat(np.expand_dims(mean, axis), levels, axis=axis)
    out[_but_last(axis)] += np.flip(np.cumsum(np.flip(scaled, axis), axis=axis), axis)
    out[_but_first(axis)] -= rank * scaled
    return out


def _helmert(size: int, n_axes: int) -> tuple[FloatArray, FloatArray]:
    """Rank and length of each contrast of so many levels, along the first of some axes."""
    rank = np.arange(1.0, size).reshape(-1, *(1,) * (n_axes - 1))
    return rank, np.sqrt(rank * (rank + 1))


def _but_last(axis: int) -> tuple[slice, ...]:
    return (*(slice(None),) * axis, slice(-1))


def _but_first(axis: int) -> tuple[slice, ...]:
    return (*(slice(None),) * axis, slice(1, None))


def _subsets(columns: ColumnSet) -> list[ColumnSet]:
    """All subsets of columns, each in their order."""
    return [held for width in range(len(columns) + 1) for held in combinations(columns, width)]
