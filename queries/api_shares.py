"""Shares and ratios of groups that were tabulated one by one: counts over the totals they belong to.

Takes tabulations of counts; gives shares, and ratios of shares, whose intervals hold whatever the two figures have in
common: they are the widest that the two allow.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from engine.schema import FloatArray
from queries.estimates import Status, Tabulation


def shares_of(counts: Tabulation, totals: Tabulation) -> Tabulation:
    """Return counts over the totals they belong to; intervals are the widest that the two allow."""
    places = [counts.columns.index(c) for c in totals.columns]
    of = {key: i for i, key in enumerate(totals.keys)}
    at = np.array([of[tuple(key[j] for j in places)] for key in counts.keys], dtype=np.int64)
    whole, least, most = totals.value[at], totals.low[at], totals.high[at]
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.where(whole > 0, counts.value / whole, np.nan)
        low: FloatArray = np.where(most <= 0, 0.0, counts.low / most)
        high: FloatArray = np.where(least <= 0, 1.0, counts.high / least)
    status: tuple[Status, ...] = tuple(
        "not released" if np.isnan(v) and s != "structural zero" else s
        for v, s in zip(value, counts.status, strict=True)
    )
    return replace(
        counts,
        measure="share",
        value=value,
        low=np.clip(low, 0, 1),
        high=np.clip(high, 0, 1),
        status=status,
    )


def ratios_of(shares: Tabulation) -> Tabulation:
    """Return shares as ratios to the rest of the same total."""
    with np.errstate(divide="ignore", invalid="ignore"):
        value, low, high = (x / (1 - x) for x in (shares.value, shares.low, shares.high))
    is_bare = shares.value >= 1  # nothing else is in its total
    status: tuple[Status, ...] = tuple(
        "not released" if bare else s for bare, s in zip(is_bare, shares.status, strict=True)
    )
    value = np.where(is_bare, np.nan, value)
    return replace(shares, measure="ratio", value=value, low=low, high=high, status=status)
