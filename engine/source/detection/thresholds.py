"""Noisy thresholds: every decision that detection takes from the data compares a number of entities to one of them.

Takes a secret; gives for each decision about each column a threshold of its own. Invariant: one person more or less
changes a decision only where the number of the others is just below the threshold, which nobody knows: whatever the
data, with a chance of at most `WORST_CHANCE`.
"""

from __future__ import annotations

import secrets
from hashlib import blake2b
from typing import Literal

import numpy as np

from engine.keys import MasterKey, pack_strings
from engine.sticky_prf import integer_gaussian

MEAN, LOG2_SD, LEAST = 10, 1, 5
"""A threshold is drawn from N(10, 2), in whole numbers, and is never below 5: no value of fewer entities is written."""
WORST_CHANCE = 0.2
"""Most probable single threshold: the largest chance that one entity more or less changes a decision."""
LARGEST = MEAN + (9 << LOG2_SD)
"""No threshold is larger: draws reach nine standard deviations."""
Decision = Literal[
    "form",
    "spelling",
    "values",
    "distinct",
    "resolution",
    "rows",
    "key",
    "header",
    "determines",
]


class Thresholds:
    """The thresholds of one secret: the same decision about the same column always has the same.

    secret: Derived from a key, so that the same data gives the same spec. Without one a fresh secret is
        drawn, and forgotten.
    """

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes | None = None) -> None:
        self._secret = secrets.token_bytes(32) if secret is None else secret

    def __repr__(self) -> str:
        return "Thresholds(hidden)"

    def of(self, decision: Decision, column: str, what: str = "") -> int:
        """The number of entities that a decision asks for."""
        message = pack_strings([decision, column, what])
        digest = blake2b(message, key=self._secret, digest_size=8, person=b"threshold").digest()
        bits = np.frombuffer(digest, dtype="<u8").astype(np.uint64)
        return max(MEAN + int(integer_gaussian(bits, LOG2_SD)[0]), LEAST)


def keyed_thresholds(key: MasterKey | None, vintage: str = "1") -> Thresholds:
    """The thresholds of a key and vintage; fresh ones without a key."""
    return Thresholds(None if key is None else key.derive("detection", vintage))
