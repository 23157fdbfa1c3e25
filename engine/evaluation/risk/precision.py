"""What claims of an attacker are worth: precision against how many are made, improvement on a baseline, anonymity loss.

Takes for each person attacked how sure the attacker is and how right; gives rates. Invariant: people on whom nothing is
claimed count in the prediction rate, not in the precision; claims of equal confidence are made together or, where a
share cuts through them, in proportion.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.evaluation.score import HitRate, wilson

Floats = NDArray[np.float64]
SHARES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
"""Prediction rates that are looked at."""
FEWEST = 20
"""Claims, below which a precision is an accident."""
_LOWEST_RATE = 4.0  # - log10 of the prediction rate at which a claim counts for nothing
_BENT = 3.0


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Claims:
    """What an attacker claims about people."""

    confidence: Floats  # shape (n_claims,): Any scale; higher is surer
    # shape (n_claims,): 0 or 1, or the chance of being right where the attacker draws among equals.
    right: Floats
    n_people: int  # People attacked, those without a claim among them


def at_share(claims: Claims, share: float) -> HitRate | None:
    """Precision of the most confident claims, as many as make up a share of the people attacked.

    Returns: None: there is no claim.
    """
    n = min(max(round(share * claims.n_people), 1), len(claims.right))
    if n == 0:
        return None
    worth, first, last = _ranked(claims)
    total = np.concatenate([[0.0], np.cumsum(worth)])
    start, end = first[n - 1], last[n - 1] + 1
    cut = (total[end] - total[start]) * (n - start) / (end - start)
    return wilson(min(float(total[start] + cut), float(n)), int(n))


def best(claims: Claims) -> tuple[HitRate, float] | None:
    """Precision at the threshold of confidence that serves the attacker best, and its prediction rate.

    Best is the highest lower end of the Wilson interval, so that few lucky claims do not win.

    Returns: None: there is no claim.
    """
    if not len(claims.right):
        return None
    worth, _, last = _ranked(claims)
    ends = np.unique(last) + 1
    ends = ends[(ends >= FEWEST) | (ends == len(worth))]
    hits = np.cumsum(worth)[ends - 1]
    rates = [wilson(min(float(h), float(n)), int(n)) for h, n in zip(hits, ends, strict=True)]
    chosen = max((r for r in rates if r is not None), key=lambda rate: (rate.low, rate.n))
    return chosen, chosen.n / claims.n_people


def improvement(precision: float, baseline: float) -> float | None:
    """Precision improvement (P - P_base) / (1 - P_base); None where the baseline leaves nothing to gain.

    Source: Francis, arXiv:2403.08463, section 4.1.
    """
    return None if baseline >= 1 else (precision - baseline) / (1 - baseline)


def beyond_chance(attack: HitRate | None, baseline: HitRate | None) -> bool:
    """Return whether a precision lies above another by more than their intervals."""
    return attack is not None and baseline is not None and attack.low > baseline.high


def coefficient(precision: float, rate: float) -> float:
    """Precision and prediction rate in one figure (PRC): P (1 - (log10 R / -4)^3); R where R <= 0.0001.

    Source: Francis et al., arXiv:2507.01710.
    """
    if rate <= 10**-_LOWEST_RATE:
        return rate
    return float(precision * (1 - (np.log10(rate) / -_LOWEST_RATE) ** _BENT))


def anonymity_loss(attack: Claims, baseline: Claims) -> tuple[float, bool] | None:
    """Anonymity loss coefficient: (PRC_attack - PRC_base) / (1 - PRC_base), each at its best prediction rate.

    Returns: The coefficient, and whether the attack gains more than chance explains. None: nothing is
    claimed, or the baseline leaves nothing to gain. Source: arXiv:2507.01710; 0.5 and less is "conservatively
    safe".
    """
    best_attack, best_guess = _best_rate(attack), _best_rate(baseline)
    if best_attack is None or best_guess is None:
        return None
    (gained, share), (guessed, share_of_base) = best_attack, best_guess
    loss = improvement(coefficient(gained.value, share), coefficient(guessed.value, share_of_base))
    beyond = coefficient(gained.low, share) > coefficient(guessed.high, share_of_base)
    return None if loss is None else (float(loss), bool(beyond))


def pooled(several: Collection[Claims]) -> Claims:
    """Put the claims of several attacks together."""
    return Claims(
        confidence=np.concatenate([np.empty(0), *(c.confidence for c in several)]),
        right=np.concatenate([np.empty(0), *(c.right for c in several)]),
        n_people=sum(c.n_people for c in several),
    )


def _ranked(claims: Claims) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64]]:
    """Rightness from the surest claim on, and where the claims of equal confidence begin and end."""
    order = np.argsort(-claims.confidence, kind="stable")
    confidence = claims.confidence[order]
    begins = np.concatenate([[True], confidence[1:] != confidence[:-1]])
    group = np.cumsum(begins) - 1
    starts = np.flatnonzero(begins)
    ends = np.concatenate([starts[1:], [len(order)]]) - 1
    return claims.right[order], starts[group], ends[group]


def _best_rate(claims: Claims) -> tuple[HitRate, float] | None:
    """Precision, and prediction rate, at that rate which serves the attacker best, judged by the lower ends of PRC."""
    all_rates = [at_share(claims, share) for share in SHARES]
    rates = [rate for rate in all_rates if rate is not None]
    enough = [rate for rate in rates if rate.n >= FEWEST] or rates[:1]
    if not enough:
        return None
    chosen = max(enough, key=lambda rate: coefficient(rate.low, rate.n / claims.n_people))
    return chosen, chosen.n / claims.n_people
