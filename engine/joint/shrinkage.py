"""Shrinkage: components of margins in, the same with less of what is only noise out."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from engine.joint.residuals import Components
from engine.schema import ColumnSet, FloatArray

DIRECTIONS_FIRST = 1.3
"""How much more error than of shrinking as a whole is put up with: the expected one is on the safe side (measured)."""


def shrunk(
    parts: Components, variances: Mapping[ColumnSet, float], kept: Collection[ColumnSet] = ()
) -> Components:
    """Shrink every component but the total by as much of it as is noise, toward what fewer columns make likely.

    A single column is shrunk toward evenness; several columns toward what they would be if they were independent. As a
    whole (positive-part James-Stein), or, of pairs, singular value by singular value where that is expected to leave
    less error: associations of two columns are mostly a few strong directions.

    Parameters
    ----------
    parts : dict
    variances : mapping
        Of the noise along each dimension of a component.
    kept : collection of ColumnSet
        Components that stay as they are.
    """
    rows = max(float(parts.get((), np.array(0.0))), 1.0)
    out: Components = {}
    for held in sorted(parts, key=len):
        likely = _independent(out, held, rows)
        beyond = parts[held] - likely
        if held and held not in kept:
            beyond = _less_noise(beyond, variances[held])
        out[held] = likely + beyond
    return out


def _independent(parts: Components, held: ColumnSet, rows: float) -> FloatArray:
    """A component as it would be if its columns were independent; nothing for a single column."""
    if len(held) < 2 or any((name,) not in parts for name in held):
        return np.array(0.0)
    likely = parts[held[:1]]
    for name in held[1:]:
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

    Parameters
    ----------
    part : ndarray of float64
        Anything but a matrix of two coordinates and more each way comes back as it is, with infinite error.
    variance : float
    signal : float
        Estimate of the squared sum of what is not noise.

    Returns
    -------
    ndarray of float64, float
        The matrix, and its expected squared error.

    References
    ----------
    Gavish and Donoho (2017), "Optimal shrinkage of singular values", DOI 10.1109/TIT.2017.2653801, sections I-B and
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
