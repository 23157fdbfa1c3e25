"""Expectation maximisation for the model of Fellegi and Sunter: how matches and other pairs agree.

Takes how many pairs have each pattern of agreement; gives for each column the probability of each level of agreement
among matches (m) and among other pairs (u), and the share of matches. Pure numbers, no data. Sources: Fellegi and
Sunter, "A theory for record linkage", JASA 64, 1969 (doi:10.1080/01621459.1969.10501049); Winkler, "Using the EM
algorithm for weight computation in the Fellegi-Sunter model of record linkage", US Census Bureau, 2000.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Levels = NDArray[np.int64]
_STEPS = 1_000
_CLOSE = 1e-7
_SMALLEST = 1e-7
_RAREST = 1e-4  # no value is known so well that it never differs
_FIRST_SHARE = 0.1
_FIRST_M = 0.9


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Estimate:
    """The fitted model of pairs."""

    # m, u: shape (n_columns, n_levels): Probability of each level of agreement among matches, and among
    # other pairs; rows sum to 1.
    m: Floats
    u: Floats
    share: float  # Share of matches among the pairs
    n_steps: int
    converged: bool


def estimate(
    levels: Levels,
    n: Floats,
    n_levels: Levels,
    *,
    u: Floats | None = None,
    most: float = 1.0,
) -> Estimate:
    """Estimate m, u and the share of matches from patterns, columns agreeing independently within a kind of pair.

    levels: Level of agreement of each column, 0 for none; the highest is full agreement.
    u: If given, u is not estimated.
    most: Largest share of matches that there can be. People of a kind agree in much; without a bound, EM may
        take pairs of a kind for matches where real ones are few.
    """
    seen = _seen(levels, n_levels)
    current_u = _normed(_sums(seen, n)) if u is None else u
    most = min(max(most, _SMALLEST), 1 - _SMALLEST)
    current_m, share = _first(n_levels, seen.shape[2]), min(_FIRST_SHARE, most)
    converged, step = False, 0
    while step < _STEPS and not converged:
        step += 1
        match = posterior(weights(levels, current_m, current_u), share)
        new_m = _normed(_sums(seen, n * match))
        new_u = _normed(_sums(seen, n * (1 - match))) if u is None else current_u
        new_share = float(np.clip((n * match).sum() / n.sum(), _SMALLEST, most))
        moved = max(np.abs(new_m - current_m).max(), np.abs(new_u - current_u).max())
        converged = bool(max(moved, abs(new_share - share)) < _CLOSE)
        current_m, current_u, share = new_m, new_u, new_share
    return Estimate(m=current_m, u=current_u, share=share, n_steps=step, converged=converged)


def weights(levels: Levels, m: Floats, u: Floats) -> Floats:
    """Return the match weight of patterns, log2 of m / u summed over the columns."""
    ratio = np.log2(np.maximum(m, _RAREST)) - np.log2(np.maximum(u, _SMALLEST))
    return np.asarray(ratio[np.arange(levels.shape[1]), levels].sum(axis=1), np.float64)


def posterior(weight: Floats, share: float) -> Floats:
    """Return the probability that pairs of a weight match, where a share of all pairs do."""
    odds = np.log2(share / (1 - share)) + weight
    return np.asarray(1 / (1 + np.exp2(-np.clip(odds, -500, 500))), np.float64)


def _seen(levels: Levels, n_levels: Levels) -> NDArray[np.bool_]:
    """Whether a pattern has a level in a column: shape (n_patterns, n_columns, n_levels)."""
    every = np.arange(int(n_levels.max(initial=2)))
    return np.asarray(levels[:, :, None] == every, np.bool_)


def _sums(seen: NDArray[np.bool_], n: Floats) -> Floats:
    """Pairs by column and level."""
    return np.asarray(np.tensordot(n, seen, axes=(0, 0)), np.float64)


def _normed(count: Floats) -> Floats:
    """Shares by row; nearly 0 where there is nothing."""
    return np.asarray(count / np.maximum(count.sum(axis=1, keepdims=True), 1e-300), np.float64)


def _first(n_levels: Levels, width: int) -> Floats:
    """Where m starts: full agreement is likely, the other levels share the rest."""
    out = np.zeros((len(n_levels), width))
    for column, n in enumerate(n_levels):
        out[column, : n - 1] = (1 - _FIRST_M) / (n - 1)
        out[column, n - 1] = _FIRST_M
    return out
