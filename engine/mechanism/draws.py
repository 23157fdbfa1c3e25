"""The keyed draws of the sticky mode: thresholds and two noise layers.

An entity set is named by the sums (mod 2**64) of its members' token lanes and its size; a bucket by the kind,
level and index of its range in each column, in canonical column order. Draws of different purposes use different
keys, so they are independent; draws of one purpose over one entity set are the same in every table.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from engine.keys import MasterKey
from engine.params import PrivacyParams
from engine.ranges import chosen_places
from engine.schema import BoolArray, ColumnSet, Int64Array, UInt8Array, UInt64Array
from engine.sticky_prf import integer_gaussian, passes_threshold, siphash


@dataclass(frozen=True, kw_only=True, slots=True)
class EntitySets:
    """Sets of entities, one an entry."""

    size: Int64Array  # shape (n,): Distinct entities
    lanes: UInt64Array  # shape (n, 2): Sums of the members' token lanes, mod 2**64

    def take(self, where: BoolArray | Int64Array) -> EntitySets:
        """The chosen sets."""
        at = chosen_places(where)
        return EntitySets(size=self.size.take(at), lanes=self.lanes.take(at, axis=0))

    @property
    def words(self) -> list[UInt64Array]:
        """The message that names a set."""
        return [self.lanes[:, 0], self.lanes[:, 1], self.size.astype(np.uint64)]


def combined(sets: Sequence[EntitySets]) -> EntitySets:
    """Entity sets of several kinds as one per node, which changes with every entity that comes or goes."""
    first, *others = sets
    size, lanes = first.size, first.lanes
    for other in others:  # lanes wrap, mod 2**64
        size, lanes = size + other.size, lanes + other.lanes
    return EntitySets(size=size, lanes=lanes)


class Draws(Protocol):
    """The randomness of a measurement; tests put a noiseless twin in its place."""

    @property
    def smallest(self) -> int:
        """Fewest entities that can pass, whatever is drawn."""

    @property
    def max_rows(self) -> int | None:
        """Most rows of one entity that count in a bucket, by which the noise grows; None: each has one."""

    def passes(self, sets: EntitySets) -> BoolArray:
        """Whether each set has enough entities."""

    def set_noise(self, sets: EntitySets, log2_scale: int) -> Int64Array:
        """Noise layer keyed by the entity set."""

    def label_noise(
        self,
        columns: ColumnSet,
        kind: UInt8Array,
        level: UInt8Array,
        index: Int64Array,
        log2_scale: int,
    ) -> Int64Array:
        """Noise layer keyed by column set and ranges."""

    def of_sums(self, name: str) -> Draws:
        """The draws of sums of a column, independent of all others."""


class StickyDraws:
    """The keyed draws of one vintage."""

    def __init__(self, key: MasterKey, vintage: str, params: PrivacyParams) -> None:
        self._key = key
        self._vintage = vintage
        self._params = params
        self._log2_sd = params.layer_sd.bit_length() - 1
        self._suppression = key.derive("suppression", vintage)
        self._entity_set = key.derive("entity-set", vintage)
        self._summed: str | None = None  # The column whose sums these are the draws of

    @property
    def smallest(self) -> int:
        """The low threshold."""
        return self._params.low_threshold

    @property
    def max_rows(self) -> int | None:
        """As declared."""
        return self._params.max_rows

    def passes(self, sets: EntitySets) -> BoolArray:
        """At least the low threshold, and at least N(mean, 1) drawn from the set."""
        passed: BoolArray = sets.size >= self._params.low_threshold
        unsure = np.flatnonzero(passed & (sets.size < self._params.threshold_mean + 9))
        if len(unsure):
            few = sets.take(unsure)
            bits = siphash(self._suppression, few.words)
            passed[unsure] = passes_threshold(few.size, bits, self._params.threshold_mean)
        return passed

    def set_noise(self, sets: EntitySets, log2_scale: int) -> Int64Array:
        """Integer Gaussian of sd layer_sd * 2**log2_scale, fixed by the set and the scale.

        The scale is part of the message: one draw at two scales would cancel.
        """
        words = [*sets.words, np.full(len(sets.size), log2_scale, dtype=np.uint64)]
        return integer_gaussian(siphash(self._entity_set, words), self._log2_sd + log2_scale)

    def label_noise(
        self,
        columns: ColumnSet,
        kind: UInt8Array,
        level: UInt8Array,
        index: Int64Array,
        log2_scale: int,
    ) -> Int64Array:
        """Integer Gaussian of sd layer_sd * 2**log2_scale, fixed by the bucket's label and the scale."""
        key = (
            self._key.derive("label", self._vintage, columns)
            if self._summed is None
            else self._key.derive("sum-label", self._vintage, (*columns, self._summed))
        )
        words = [*label_words(kind, level, index), np.full(len(kind), log2_scale, dtype=np.uint64)]
        return integer_gaussian(siphash(key, words), self._log2_sd + log2_scale)

    def of_sums(self, name: str) -> StickyDraws:
        """Keys of their own for both layers of the sums of a column."""
        out = copy(self)
        out._summed = name
        out._entity_set = self._key.derive("sum-entity-set", self._vintage, (name,))
        return out


def label_words(kind: UInt8Array, level: UInt8Array, index: Int64Array) -> list[UInt64Array]:
    """Words that name buckets injectively: two words a column, kind and level in one, the index in the other."""
    words: list[UInt64Array] = []
    for column in range(kind.shape[1]):
        words.append((kind[:, column].astype(np.uint64) << np.uint64(8)) | level[:, column])
        words.append(np.ascontiguousarray(index[:, column]).view(np.uint64))
    return words
