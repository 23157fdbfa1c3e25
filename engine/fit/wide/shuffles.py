"""Keyed shuffles: the only chance in the fit of a wide table, the same on every machine."""

from __future__ import annotations

import numpy as np

from engine.schema import Int64Array
from engine.sticky_prf import siphash


class Shuffles:
    """Gives a fresh shuffle at every call; equal keys give equal series."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._drawn = 0

    def order(self, n: int) -> Int64Array:
        """Numbers from 0 to less than `n` in random order."""
        order: Int64Array = self.orders(1, n)[0]
        return order

    def orders(self, count: int, n: int) -> Int64Array:
        """Several such orders; shape (count, n)."""
        place = np.arange(count * n, dtype=np.uint64)
        bits = siphash(self._key, [place, np.full_like(place, self._drawn)])
        self._drawn += 1
        return np.argsort(bits.reshape(count, n), axis=1, kind="stable")

    def grouped(self, of: Int64Array) -> Int64Array:
        """Places in order of their group, within it in random order."""
        order = self.order(len(of))
        out: Int64Array = order[np.argsort(of[order], kind="stable")]
        return out
