"""Testers of dp mode's guarantee that can only refute: what a mechanism gave in many runs in, a verdict out.

Passing proves nothing; failing does, up to the stated chance of error. Three testers: two neighbours' outputs against
the claimed epsilon and delta; whether the output from one count could have come from its neighbour; whether a sampler
has the distribution it should have. Needs scipy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.errors import InternalError, StoreError
from engine.params import Noise
from engine.schema import BoolArray, FloatArray, Int64Array

N_THRESHOLDS = 400  # of the score, among which the event is chosen
FINEST = 64  # values of one coordinate that the score tells apart
RARE = 10.0  # cells expected less often are pooled
SURE = 3.0  # standard errors by which a bin must differ to count in the score; found by power, valid at any value
UNIT = 2.0**-53
"""Step of the uniform numbers that textbook samplers start from."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What two neighbours' outputs say of a claimed epsilon and delta.

    Attributes
    ----------
    epsilon, delta : float
        As claimed.
    bound : float
        Lower confidence bound of the delta that holds at this epsilon; may be negative.
    alpha : float
        Chance that the bound is above the true delta.
    share_first, share_second : float
        How often the chosen event happened in the runs of the first and of the second neighbour that judged it.
    """

    epsilon: float
    delta: float
    bound: float
    alpha: float
    share_first: float
    share_second: float

    @property
    def is_refuted(self) -> bool:
        """No mechanism with this epsilon and delta gives such outputs, save with a chance of `alpha`."""
        return self.bound > self.delta


def judged(
    first: Int64Array,
    second: Int64Array,
    *,
    epsilon: float,
    delta: float = 0.0,
    alpha: float = 1e-6,
) -> Verdict:
    """Look for an event that is too much likelier from one of two neighbours than from the other.

    One half of the runs chooses the event, the other half counts it, so that the choice costs nothing (Ding et al.
    2018, arXiv 1805.10559). Events are the runs whose score is above a threshold; the score is the likelihood ratio
    learnt coordinate by coordinate (the best there is where coordinates are independent, as noise is; Bichsel et al.
    2021 learn it with a classifier). Bounds are Clopper and Pearson's; both directions are judged, each at half
    of `alpha`.

    Parameters
    ----------
    first, second : ndarray of int64, shape (n_runs, n_outputs) or (n_runs,)
        Outputs, one row a run; numbers or labels. Runs must be independent. What a run did not release is a number
        of its own.
    epsilon, delta : float
        As claimed.
    alpha : float
        Chance of refuting a true claim. Who judges many pairs divides it by their number.

    Raises
    ------
    InternalError
        If there are fewer than four runs, or the neighbours' runs differ in shape.
    StoreError
        If scipy is not installed.
    """
    one, two = first.reshape(len(first), -1), second.reshape(len(second), -1)
    if one.shape != two.shape or len(one) < 4:
        raise InternalError("the testers need as many runs of both neighbours, and four or more")
    half = len(one) // 2
    score_one, score_two = _scores(one, two, half)
    bound, share_one, share_two = _direction(score_one, score_two, half, epsilon, alpha / 2)
    other, share_b, share_a = _direction(-score_two, -score_one, half, epsilon, alpha / 2)
    if other > bound:
        bound, share_one, share_two = other, share_a, share_b
    return Verdict(
        epsilon=epsilon,
        delta=delta,
        bound=bound,
        alpha=alpha,
        share_first=share_one,
        share_second=share_two,
    )


def _scores(one: Int64Array, two: Int64Array, half: int) -> tuple[FloatArray, FloatArray]:
    """Sum over coordinates of log likelihood ratios, learnt on the first half of the runs."""
    scores = np.zeros(len(one)), np.zeros(len(two))
    for a, b in zip(one.T, two.T, strict=True):
        cuts = _cuts(np.concatenate((a[:half], b[:half])))
        bin_a, bin_b = np.searchsorted(cuts, a, "right"), np.searchsorted(cuts, b, "right")
        n_bins = len(cuts) + 1
        n_a = np.bincount(bin_a[:half], minlength=n_bins) + 0.5
        n_b = np.bincount(bin_b[:half], minlength=n_bins) + 0.5
        ratio = np.log(n_a / n_b)
        # Of many coordinates most do not differ: what may be chance in their bins must not drown those that do.
        ratio *= np.abs(n_a - n_b) > SURE * np.sqrt(n_a + n_b)
        scores[0][:] += ratio[bin_a]
        scores[1][:] += ratio[bin_b]
    return scores


def _cuts(values: Int64Array) -> Int64Array:
    """Borders between values: every value by itself where there are few, else quantiles."""
    distinct = np.unique(values)
    if len(distinct) > FINEST:
        places = (np.arange(1, FINEST) * len(values)) // FINEST
        distinct = np.unique(np.sort(values)[places])
    return distinct


def _direction(
    high: FloatArray, low: FloatArray, half: int, epsilon: float, alpha: float
) -> tuple[float, float, float]:
    """Lower bound of P(high in event) - exp(epsilon) P(low in event), and both shares."""
    beta = _scipy().beta
    grid = np.unique(np.concatenate((high[:half], low[:half])))
    if len(grid) > N_THRESHOLDS:
        grid = grid[(np.arange(N_THRESHOLDS) * len(grid)) // N_THRESHOLDS]
    above = _n_from(high[:half], grid), _n_from(low[:half], grid)
    n = half
    # Chosen by the bound itself, not by the difference: an event too rare to be shown is no use.
    hoped = _lower(beta, above[0], n, alpha / 2) - np.exp(epsilon) * _upper(
        beta, above[1], n, alpha / 2
    )
    threshold = grid[int(np.argmax(hoped))]
    n = len(high) - half
    n_high = np.array([(high[half:] >= threshold).sum()])
    n_low = np.array([(low[half:] >= threshold).sum()])
    bound = _lower(beta, n_high, n, alpha / 2) - np.exp(epsilon) * _upper(beta, n_low, n, alpha / 2)
    return float(bound[0]), float(n_high[0] / n), float(n_low[0] / n)


def _n_from(scores: FloatArray, grid: FloatArray) -> Int64Array:
    """How many scores reach each threshold."""
    return len(scores) - np.searchsorted(np.sort(scores), grid, "left").astype(np.int64)


def _lower(beta: Any, hits: Int64Array, n: int, alpha: float) -> FloatArray:
    """Clopper and Pearson's one-sided lower bound of a share."""
    return np.where(hits > 0, beta.ppf(alpha, np.maximum(hits, 1), n - hits + 1), 0.0)


def _upper(beta: Any, hits: Int64Array, n: int, alpha: float) -> FloatArray:
    """Clopper and Pearson's one-sided upper bound of a share."""
    return np.where(hits < n, beta.ppf(1 - alpha, hits + 1, np.maximum(n - hits, 1)), 1.0)


def reachable_by_integers(outputs: Int64Array, count: int, drawn: Int64Array) -> BoolArray:
    """Which outputs a whole-number sampler could have given for a count, as far as its own draws show.

    An output is reachable if the noise that it needs was drawn, or lies further out than draws are common. Where each
    value is expected 40 times and more no gap is forgiven; beyond, none could be seen.

    Parameters
    ----------
    outputs : ndarray of int64, shape (n,)
        Released for a neighbouring count.
    count : int
        The count that they are tried for.
    drawn : ndarray of int64, shape (n_drawn,)
        Noise that the same sampler drew, from other runs.

    Returns
    -------
    ndarray of bool, shape (n,)

    Raises
    ------
    InternalError
        If outputs or draws are not whole numbers, or the draws are too few for the width of the noise.
    """
    if outputs.dtype != np.int64 or drawn.dtype != np.int64:
        raise InternalError("whole-number noise gives int64, nothing else")
    needed = outputs - count
    ordered = np.sort(drawn)
    # A tail that falls as fast as Laplace's, or faster, holds at least its own weight / scale at its border.
    tail = int(max(len(drawn) * 1e-3, 40 * np.abs(drawn - np.median(drawn)).mean()))
    if tail >= len(drawn) // 2:
        raise InternalError("too few draws to see gaps in noise as wide as this")
    low, high = ordered[tail], ordered[-1 - tail]
    reached: BoolArray = np.isin(needed, ordered) | (needed < low) | (needed > high)
    return reached


def reachable_by_float_laplace(outputs: FloatArray, count: float, scale: float) -> BoolArray:
    """Which outputs the textbook sampler, count + scale * (+-)ln(u) in floats, can give for a count: exactly.

    Every u that could give an output is tried (Mironov 2012, doi 10.1145/2382196.2382264): the multiples of 2**-53
    near the inverse, on both sides of it.

    Parameters
    ----------
    outputs : ndarray of float64, shape (n,)
    count : float
    scale : float

    Returns
    -------
    ndarray of bool, shape (n,)

    Raises
    ------
    InternalError
        If an output is so near or far that more values of u would have to be tried than are.
    """
    noise = outputs - count
    sign, size = np.where(noise < 0, -1.0, 1.0), np.abs(noise)
    center = np.rint(np.exp(-size / scale) / UNIT)
    # A step of one in the output moves u / UNIT by so much; exp and log are off by less than 4 steps of their own.
    moved = 2 * center * (np.spacing(np.maximum(np.abs(outputs), abs(count))) / scale)
    moved += 4 * center * np.spacing(size / scale) + 4
    widest = int(moved.max(initial=0.0))
    if widest > 1 << 16:
        raise InternalError("too many uniform numbers to try for one output: take a wider scale")
    found = np.zeros(len(outputs), dtype=np.bool_)
    for step in range(-widest, widest + 1):
        tried = np.clip(center + step, 1, 1 / UNIT) * UNIT
        found |= count + sign * (-scale * np.log(tried)) == outputs
    return found


def sampler_p_value(drawn: Int64Array, noise: Noise, scale: float) -> float:
    """Chance of draws this far from integer Laplace (the two-sided geometric) or integer Gaussian.

    Parameters
    ----------
    drawn : ndarray of int64, shape (n,)
        Noise alone.
    noise : str
        "laplace" or "gaussian".
    scale : float

    Returns
    -------
    float
        Of a chi-square test over values (groups of values where noise is wide) that are expected RARE times and more,
        and an exact test of how many draws lie outside them; the smaller of both, times two.

    Raises
    ------
    StoreError
        If scipy is not installed.
    """
    stats = _scipy()
    reach = int(np.ceil(scale * (60 if noise == "laplace" else 14))) + 1
    k = np.arange(-reach, reach + 1)
    log_p = -np.abs(k) / scale if noise == "laplace" else -((k / scale) ** 2) / 2
    p = np.exp(log_p)
    p /= p.sum()
    width = max(1, int(scale) // 8)
    group = np.floor_divide(k + width // 2, width)
    group -= group[0]
    expected = np.bincount(group, weights=p) * len(drawn)
    if (np.abs(drawn) > reach).any():
        return 0.0  # less likely than exp(-60) a draw
    seen = np.bincount(group[drawn + reach], minlength=len(expected))
    common = expected >= RARE
    outside, n_outside = float(expected[~common].sum()), int(seen[~common].sum())
    ends = stats.poisson.cdf(n_outside, outside), stats.poisson.sf(n_outside - 1, outside)
    p_rare = min(1.0, 2 * float(min(ends)))
    if common.sum() < 2:
        return p_rare
    # Given how many lie inside: the chi-square then knows nothing of the rare ones.
    within = expected[common] / expected[common].sum() * seen[common].sum()
    p_common = float(stats.chisquare(seen[common], within).pvalue)
    return min(1.0, 2 * min(p_rare, p_common))


def _scipy() -> Any:
    """Distributions of scipy."""
    try:
        from scipy import stats
    except ImportError:
        raise StoreError("testers need scipy: pip install 'tablepack[evaluate]'") from None
    return stats
