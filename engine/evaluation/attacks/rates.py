"""Rates of attackers who rank people: area under the curve, and who is caught at few false alarms.

Takes scores; gives `HitRate`s with 95 % intervals. Invariant: ties count half.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from engine.evaluation.score import HitRate, optional, wilson

Floats = NDArray[np.float64]
FALSE_ALARMS = 0.01
"""Share of strangers whom an attacker may take for people of the data."""
FEWEST_STRANGERS = 100
"""Strangers, below which one false alarm in a hundred cannot be told."""
_Z = 1.959963984540054


def area_under_curve(score: NDArray[np.generic], positive: NDArray[np.bool_]) -> float:
    """Return the chance that a positive scores above a negative, ties counting half (Mann and Whitney)."""
    high, low = np.sort(score[positive]), np.sort(score[~positive])
    return float(_below(high, low).sum() / max(len(high), 1) / max(len(low), 1))


def auc(positive: Floats, negative: Floats) -> HitRate | None:
    """Return the area under the curve with its interval; None where a side is empty.

    Source: DeLong, DeLong and Clarke-Pearson 1988, doi:10.2307/2531595; on the logit, so that it stays inside 0 and 1.
    """
    n, m = len(positive), len(negative)
    if not n or not m:
        return None
    above = _below(positive, np.sort(negative)) / m
    area = float(above.mean())
    if n < 2 or m < 2:
        return HitRate(value=area, low=0.0, high=1.0, n=n + m)
    beneath = 1 - _below(negative, np.sort(positive)) / n
    # Half a person on each side keeps the interval of a clear win, or none, from having no width.
    sd = math.sqrt(float(above.var(ddof=1)) / n + float(beneath.var(ddof=1)) / m)
    inside = min(max(area, 0.5 / (n * m)), 1 - 0.5 / (n * m))
    half = _Z * max(sd, 0.5 / min(n, m) * math.sqrt(inside * (1 - inside)))
    half /= inside * (1 - inside)
    logit = math.log(inside / (1 - inside))
    low, high = (1 / (1 + math.exp(-v)) for v in (logit - half, logit + half))
    return HitRate(value=area, low=min(low, area), high=max(high, area), n=n + m)


def caught(members: Floats, strangers: Floats) -> tuple[HitRate, HitRate] | None:
    """Return the share of members, and of strangers, above the score that few strangers exceed.

    Returns: None: there are too few strangers to tell one false alarm in a hundred, or no members.
    """
    if len(strangers) < FEWEST_STRANGERS or not len(members):
        return None
    bar = np.sort(strangers)[::-1][int(FALSE_ALARMS * len(strangers))]
    both = [wilson(float((side > bar).sum()), len(side)) for side in (members, strangers)]
    return None if both[0] is None or both[1] is None else (both[0], both[1])


def gaussian_auc(mu: Floats) -> float:
    """Return the mean area under the curve of the best attacker of mu-Gaussian differential privacy.

    Source: Dong, Roth and Su 2022, doi:10.1111/rssb.12454.
    """
    return float(_cumulated(mu / math.sqrt(2)).mean())


def gaussian_caught(mu: Floats) -> float:
    """Return the mean share that this attacker catches at `FALSE_ALARMS`."""
    return float(_cumulated(mu - NormalDist().inv_cdf(1 - FALSE_ALARMS)).mean())


def _cumulated(x: Floats) -> Floats:
    """Distribution function of the standard normal."""
    return np.asarray(optional("scipy.special", "attacks").ndtr(x), np.float64)


def _below(scores: NDArray[np.generic], ordered: NDArray[np.generic]) -> Floats:
    """How many of an ordered side lie below each score, equal ones counting half."""
    left = np.searchsorted(ordered, scores, side="left")
    right = np.searchsorted(ordered, scores, side="right")
    return np.asarray((left + right) / 2, np.float64)
