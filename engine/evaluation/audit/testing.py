"""The two-sided t-test of an audit, its power, and the correction for several directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from engine.errors import SpecError
from engine.evaluation.audit.result import DirectionTest

SHARES = (0.01, 0.1, 1.0)
"""Shares copied whose power is stated."""
LIKELY = 0.8
QUANTILES = 2_000
_SAME = 1e-12
"""Relative difference that rounding makes."""


def two_sample(
    plus: Sequence[float],
    minus: Sequence[float],
    ends: tuple[float, float],
    *,
    level: float,
    put_back: int,
    smallest: int,
) -> DirectionTest:
    """Test whether two lots of runs have the same mean.

    plus, minus: As many of each, two at least.
    ends: The statistic of the two data sets that they were made of; not the same.

    Student's test with equal variances, as in Houssiau et al.; with as many runs of each it is hardly hurt where
    variances differ. Where nothing varies, p is 1 if both are the same and 0 if not.
    """
    one, other = (np.asarray(lot, dtype=np.float64) for lot in (plus, minus))
    span = ends[0] - ends[1]
    difference = float(one.mean() - other.mean())
    variance = float((one.var(ddof=1) + other.var(ddof=1)) / 2)
    error = float(np.sqrt(2 * variance / len(one)))
    scale = max(float(np.abs([*one, *other, *ends]).max()), 1e-300)
    if error <= _SAME * scale:
        is_same = abs(difference) <= _SAME * scale
        t, p, margin, error = None, float(is_same), 0.0, 0.0
    else:
        distribution = _stats().t(2 * len(one) - 2)
        t = difference / error
        p = float(2 * distribution.sf(abs(t)))
        margin = float(distribution.ppf(0.975)) * error
    copied, width = (difference / span, abs(margin / span)) if span else (0.0, 0.0)

    def power(share: float) -> float:
        return power_of(share * span, error, len(one), level)

    return DirectionTest(
        plus=tuple(map(float, one)),
        minus=tuple(map(float, other)),
        of_plus=ends[0],
        of_minus=ends[1],
        t=t,
        p=p,
        p_holm=p,
        copied=copied,
        copied_low=copied - width,
        copied_high=copied + width,
        power={share: power(share) for share in SHARES},
        found_from=_found_from(power),
        put_back=put_back,
        smallest=smallest,
    )


def power_of(difference: float, error: float, runs: int, level: float) -> float:
    """Power of the two-sided t-test for a difference of means."""
    if error == 0:
        return float(difference != 0)
    stats, freedom = _stats(), 2 * runs - 2
    limit = float(stats.t.isf(level / 2, freedom))
    away = abs(difference) / error
    # Over quantiles of the estimated error: the noncentral t distribution of scipy is nan where it is far off.
    middles = (np.arange(QUANTILES) + 0.5) / QUANTILES
    errors = np.sqrt(stats.chi2.ppf(middles, freedom) / freedom)
    found = stats.norm.sf(limit * errors - away) + stats.norm.cdf(-limit * errors - away)
    return float(found.mean())


def _found_from(power: Callable[[float], float]) -> float | None:
    """The smallest share copied that is found with probability 0.8, by halving."""
    if power(1.0) < LIKELY:
        return None
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle) >= LIKELY else (middle, high)
    return high


def holm(p: Sequence[float]) -> list[float]:
    """Correct p-values for their number: Holm 1979."""
    order = np.argsort(np.asarray(p), kind="stable")
    out, worst = [0.0] * len(p), 0.0
    for rank, at in enumerate(order):
        worst = max(worst, min(1.0, (len(p) - rank) * p[at]))
        out[at] = worst
    return out


def _stats() -> Any:
    """scipy.stats, which takes a moment to load."""
    try:
        from scipy import stats
    except ImportError:
        raise SpecError("audit: needs scipy: pip install 'tablepack[evaluate]'") from None
    return stats
