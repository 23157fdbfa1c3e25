"""Propensity scores by logistic regression, and what they say: pMSE, its expectation, and the area under the curve.

Takes plain arrays of features and records; knows of no table. Definitions: Snoke et al., "General and specific utility
measures for synthetic data", doi:10.1111/rssa.12358, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_RIDGE = 1e-4
_STEPS = 50
_SMALLEST_STEP = 1e-6
_ENOUGH = 1e-8
_TINY = 1e-10
_SLOW = 1.5


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Propensities:
    """What a model thinks of groups of records.

    Attributes
    ----------
    guess : ndarray of float64, shape (n_groups,)
        Propensity: probability that a record of the group is synthetic.
    original, synthetic : ndarray of float64, shape (n_groups,)
        Records of the group.
    """

    guess: Floats
    original: Floats
    synthetic: Floats

    @property
    def share(self) -> float:
        """Share of synthetic records, c."""
        return float(self.synthetic.sum() / (self.original.sum() + self.synthetic.sum()))

    @property
    def pmse(self) -> float:
        """Mean squared distance of the propensities from the share."""
        n = self.original + self.synthetic
        return float((n * (self.guess - self.share) ** 2).sum() / n.sum())

    @property
    def auc(self) -> float:
        """Chance that a synthetic record has a higher propensity than an original one; ties count half."""
        _, at = np.unique(np.round(self.guess, 12), return_inverse=True)
        original, synthetic = (np.bincount(at, n) for n in (self.original, self.synthetic))
        below = np.cumsum(original) - original / 2
        return float((below * synthetic).sum() / (original.sum() * synthetic.sum()))


def logistic(features: Floats, original: Floats, synthetic: Floats) -> tuple[Propensities, int]:
    """Fit a logistic regression by Newton steps, with a ridge of 0.0001 that keeps separable groups finite.

    The matrix of second derivatives is made anew only where a step gained little: it is by far the dearest part.

    Parameters
    ----------
    features : ndarray of float64, shape (n_groups, n_parameters)
        The first column is the intercept, which the ridge leaves alone.
    original, synthetic : ndarray of float64, shape (n_groups,)
        Records of each group.

    Returns
    -------
    propensities : Propensities
    n_parameters : int
        How many parameters the records identify.
    """
    n = original + synthetic
    share = float(synthetic.sum() / n.sum())
    ridge = np.full(features.shape[1], _RIDGE)
    ridge[0] = 0
    weights: Floats = np.zeros(features.shape[1])
    weights[0] = float(np.log(share / (1 - share)))
    bend = _bend(features, n * (share * (1 - share)))
    n_parameters = _rank(bend)
    loss = _loss(features @ weights, n, synthetic, ridge, weights)
    gained, is_stale = np.inf, False
    for _ in range(_STEPS):
        guess = _probability(features @ weights)
        if is_stale:
            bend = _bend(features, np.maximum(n * guess * (1 - guess), _TINY))
        slope = features.T @ (synthetic - n * guess) - ridge * weights
        step = np.asarray(np.linalg.solve(bend + np.diag(ridge + _TINY), slope), np.float64)
        if float(slope @ step) < _ENOUGH:
            break
        weights, gain = _stepped(features, n, synthetic, ridge, weights, step, loss)
        if gain == 0 and is_stale:
            break
        is_stale = gain == 0 or gain > gained / _SLOW
        loss, gained = loss - gain, gain
    guess = _probability(features @ weights)
    return Propensities(guess=guess, original=original, synthetic=synthetic), n_parameters


def _stepped(
    features: Floats,
    n: Floats,
    synthetic: Floats,
    ridge: Floats,
    weights: Floats,
    step: Floats,
    loss: float,
) -> tuple[Floats, float]:
    """New weights and by how much the loss fell; a full step may overshoot."""
    size = 1.0
    while size > _SMALLEST_STEP:
        tried = weights + size * step
        new = _loss(features @ tried, n, synthetic, ridge, tried)
        if new <= loss:
            return tried, loss - new
        size /= 2
    return weights, 0.0


def expected_pmse(share: float, n: float, n_parameters: int) -> float:
    """Return the pMSE that a correct synthesis has on average (Snoke et al. 2018, section 3.2).

    Parameters
    ----------
    share : float
        Share of synthetic records.
    n : float
        Records of both sides.
    n_parameters : int
        Of the regression, with the intercept.
    """
    return (n_parameters - 1) * (1 - share) ** 2 * share / n


def _bend(features: Floats, spread: Floats) -> Floats:
    """Matrix of second derivatives, without the ridge."""
    return (features * spread[:, None]).T @ features


def _rank(bend: Floats) -> int:
    """Number of parameters that the records identify."""
    scale = np.sqrt(np.diag(bend))
    found = np.linalg.eigvalsh(bend / np.outer(scale, scale))
    return int((found > 1e-9 * found.max()).sum())


def _probability(score: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(score, -500, 500))))


def _loss(score: Floats, n: Floats, synthetic: Floats, ridge: Floats, weights: Floats) -> float:
    """Negative log-likelihood with the ridge."""
    fit = float((n * np.logaddexp(0, score)).sum() - synthetic @ score)
    return fit + float((ridge * weights) @ weights) / 2
