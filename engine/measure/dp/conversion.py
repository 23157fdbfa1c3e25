"""From zCDP to (epsilon, delta), for integer Gaussian noise on integer counts: the smaller of two proven bounds.

OpenDP's conversion holds for every zCDP mechanism (Canonne, Kamath and Steinke 2020, arXiv 2004.00010, proposition 12).
Continuous Gaussian noise has an exact figure, 5 to 9 % of sd better (Balle and Wang 2018, arXiv 1805.06530), whose
compositions are one Gaussian mechanism, also fully adaptive ones (Smith and Thakurta 2022, arXiv 2210.17520). It is not
proven for integer noise, but comes near by this argument.

Let X be integer Gaussian noise of parameter s on one count, which one entity shifts by an integer v, and 0 < t < 1.
Draw Y with density proportional to w(y) exp(-y**2 / 2 (1 - t) s**2), where w(y) sums exp(-(j - y)**2 / 2 t s**2) over
all integers j; then draw X from the integers j in proportion to these terms. X is integer Gaussian of parameter s, for
the exponents add up to one in x. As w has period 1, the shifted X comes from the shifted Y in the same way. So X is
post-processed from Y, and Y is continuous Gaussian of variance (1 - t) s**2 but for the factor w, the same for both
neighbours. By Poisson's sum, w divided by its mean is at most 1 + n with n = 2 q / (1 - q) and
q = exp(-2 pi**2 t s**2). So delta is at most exp(sum of n) times that of continuous noise with mu**2 = 2 rho / (1 - t),
the sum of v**2 / (1 - t) s**2. Where v is not 0, s**2 is at least 1 / x with x = v**2 / s**2, and x adds up to at most
2 rho; exp(-a / x) is convex in x up to a / 2 and 0 at 0, so the sum of q is at most exp(-pi**2 t / rho) if rho is at
most pi**2 t / 2. Every t gives a bound.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from engine.errors import InternalError
from engine.measure.dp.noise import epsilon_by_moments

_SHARES = np.geomspace(1e-6, 0.9, 120)
"""What is tried as t; a finer grid changes sd by less than 1 in 1,000."""
_ROUNDING = 1e-12
"""Of a logarithm of the normal distribution, relative and absolute: far above the error of scipy's."""
_STEPS = 1e-11
"""Epsilon is found to this share of itself."""


@lru_cache(maxsize=4096)
def epsilon_of_rho(rho: float, delta: float) -> float:
    """Epsilon that integer Gaussian noise on integer counts, rho-zCDP in all, is proven to have at a delta.

    Returns: Never below what is proven; infinite at delta 0.
    """
    if not rho >= 0 or not 0 <= delta < 1:
        raise InternalError("rho must be 0 or more, delta at least 0 and below 1")
    high = epsilon_by_moments(rho, delta)
    if high == 0 or math.isinf(high) or delta_of(high, rho) > delta:
        return high
    low = 0.0
    while high - low > _STEPS * high:
        middle = (low + high) / 2
        if delta_of(middle, rho) <= delta:
            high = middle
        else:
            low = middle
    return high


def delta_of(epsilon: float, rho: float) -> float:
    """Delta by the argument above at the best t, rounded up; 1 where rho is too large for it."""
    from scipy.special import log_ndtr  # slow to import, and most of the package does without

    t = _SHARES[_SHARES >= 2 * rho / math.pi**2]
    if not len(t):
        return 1.0
    q = np.exp(-(math.pi**2) * t / rho)
    mu = np.sqrt(2 * rho / (1 - t))
    first = log_ndtr(mu / 2 - epsilon / mu)
    second = epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    error = _ROUNDING * (1 + abs(first) + abs(second) + epsilon)
    smooth = np.exp(first + error) * -np.expm1(np.minimum(second - first - error, 0.0))
    return float(min((smooth * np.exp(2 * q / (1 - q)) * (1 + _ROUNDING)).min(), 1.0))
