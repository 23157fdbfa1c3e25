"""Shrinkage: components of margins in, the same with less of what is only noise out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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

    n: One axis a column, each of at least one level.
    """
    parts: Components = {(): n}
    for name in columns:
        split: Components = {}
        for subset, part in parts.items():
            axis = len(subset)
            split[subset] = part.sum(axis=axis)
            split[(*subset, name)] = _contrasts(part, axis)
        parts = split
    return parts


def assembled(
    parts: Mapping[ColumnSet, FloatArray], sizes: Sequence[int], columns: ColumnSet
) -> FloatArray:
    """Put a margin together from its components: the inverse of `components`."""
    built = {subset: parts[subset] for subset in _subsets(columns)}
    for place in reversed(range(len(columns))):
        name = columns[place]
        built = {
            subset: _joined(built[subset] / sizes[place], built[(*subset, name)], len(subset))
            for subset in _subsets(columns[:place])
        }
    return built[()]


def mean_components(
    margins: Sequence[tuple[ColumnSet, FloatArray, float]],
) -> tuple[Components, dict[ColumnSet, float]]:
    """Weighted mean of every component over the margins that have it, and the variance of its noise."""
    sums: Components = {}
    weights: dict[ColumnSet, float] = {}
    for columns, n, variance in margins:
        size = dict(zip(columns, n.shape, strict=True))
        for subset, part in components(n, columns).items():
            # A component of fewer columns is a sum over all others: its noise adds up.
            weight = prod(size[name] for name in subset) / (variance * n.size)
            sums[subset] = sums.get(subset, 0.0) + part * weight
            weights[subset] = weights.get(subset, 0.0) + weight
    return (
        {subset: part / weights[subset] for subset, part in sums.items()},
        {subset: 1.0 / weight for subset, weight in weights.items()},
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
    return [subset for width in range(len(columns) + 1) for subset in combinations(columns, width)]


DIRECTIONS_FIRST = 1.3
"""How much more error than of shrinking as a whole is put up with: the expected one is on the safe side (measured)."""


def shrunk(
    parts: Components, variances: Mapping[ColumnSet, float], fixed: Collection[ColumnSet] = ()
) -> Components:
    """Shrink every component but the total by as much of it as is noise, toward what fewer columns make likely.

    A single column is shrunk toward evenness; several columns toward what they would be if they were independent. As a
    whole (positive-part James-Stein), or, of pairs, singular value by singular value where that is expected to leave
    less error: associations of two columns are mostly a few strong directions.
    """
    rows = max(float(parts.get((), np.array(0.0))), 1.0)
    out: Components = {}
    for subset in sorted(parts, key=len):
        likely = _independent(out, subset, rows)
        beyond = parts[subset] - likely
        if subset and subset not in fixed:
            beyond = _less_noise(beyond, variances[subset])
        out[subset] = likely + beyond
    return out


def _independent(parts: Components, subset: ColumnSet, rows: float) -> FloatArray:
    """A component as it would be if its columns were independent; nothing for a single column."""
    if len(subset) < 2 or any((name,) not in parts for name in subset):
        return np.array(0.0)
    likely = parts[subset[:1]]
    for name in subset[1:]:
        likely = np.multiply.outer(likely, parts[(name,)]) / rows
    return likely


def _less_noise(part: FloatArray, variance: float) -> FloatArray:
    """Shrink a component toward 0, by whichever way leaves less error."""
    dimensions = part.size
    energy = float((part * part).sum())
    if dimensions <= 2 or energy <= 0:
        return part
    signal = max(energy - dimensions * variance, 0.0)
    share = max(0.0, 1.0 - (dimensions - 2) * variance / energy)
    pair, left = of_low_rank(part, variance, signal)
    return pair if left < DIRECTIONS_FIRST * signal * (1.0 - signal / energy) else part * share


def of_low_rank(part: FloatArray, variance: float, signal: float) -> tuple[FloatArray, float]:
    """Shrink the singular values of a matrix by what noise adds to them.

    part: Anything but a matrix of two coordinates and more each way comes back as it is, with infinite error.
    signal: Estimate of the squared sum of what is not noise.

    Source: Gavish and Donoho (2017), "Optimal shrinkage of singular values", DOI 10.1109/TIT.2017.2653801,
    sections I-B and
    III (Frobenius loss: what is not reached of each singular value's square).
    """
    if part.ndim != 2 or min(part.shape) < 2:
        return part, np.inf
    rows, columns = sorted(part.shape)
    ratio, unit = rows / columns, columns * variance
    left, values, right = np.linalg.svd(part, full_matrices=False)
    squares = values**2 / unit
    seen = squares > (1 + np.sqrt(ratio)) ** 2
    above = np.where(seen, squares - ratio - 1, 0.0)
    root = np.sqrt(np.maximum(above**2 - 4 * ratio, 0.0)) * seen
    reached = root**2 / np.where(seen, squares, 1.0)
    true = (above + root) / 2
    error = max(signal, unit * float(true.sum())) - unit * float(reached.sum())
    out: FloatArray = (left * np.sqrt(unit * reached)) @ right
    return out, error
