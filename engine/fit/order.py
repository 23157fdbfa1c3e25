"""How to fit, in either mode: what goes with measurements. All of it is public but the sampling key."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from engine.fit.supports import Universes
from engine.fit.tree import Noise
from engine.keys import pack_strings
from engine.levels import Levels, Measured, StructuralZero
from engine.params import DPParams
from engine.relations import NO_RELATIONS, Relations
from engine.schema import ColumnSet, ReleaseHeader


@dataclass(frozen=True, kw_only=True, slots=True)
class FitOrder:
    """How measurements of mode sticky are to be fitted."""

    header: ReleaseHeader
    # Keyed digest of all that decides the release; decides whether a staging area can be resumed.
    build_id: str
    # Smallest and largest code of the columns that declare bounds, or whose released ranges end there.
    limits: dict[str, tuple[int, int]]
    sampling_key: bytes
    # low_threshold, threshold_mean, layer_sd: Public privacy parameters; see `PrivacyParams`.
    low_threshold: int
    threshold_mean: int
    layer_sd: int
    profile: str
    # Declared universes, by the column that has one.
    universes: Universes = field(default_factory=dict)
    relations: Relations = NO_RELATIONS  # Columns that determine each other
    # Of wide tables that models are to be trained on: the column that is to be predicted.
    targets: dict[ColumnSet, str] = field(default_factory=dict)
    # Of wide tables that are made more than once: how often.
    sets: dict[ColumnSet, int] = field(default_factory=dict)

    def noise(self, noisy_total: int) -> Noise:
        """What all noisy counts have in common."""
        return Noise(noisy_total, self.low_threshold, self.layer_sd)

    def sampling_key_of(self, columns: ColumnSet, number: int = 1) -> bytes:
        """Sampling key of one column set; of a wide table's sets each has its own."""
        salt = b"" if number == 1 else b"set %d" % number
        return blake2b(
            pack_strings(columns),
            key=self.sampling_key,
            person=b"sampling",
            salt=salt,
            digest_size=16,
        ).digest()


@dataclass(frozen=True, kw_only=True, slots=True)
class JointOrder:
    """How margins of mode dp are to be fitted."""

    header: ReleaseHeader
    # Keyed digest of all that decides the release, noisy counts among it; decides whether a staging area can
    # be resumed.
    build_id: str
    levels: dict[str, Levels]  # Of all columns of the joint distribution
    zeros: tuple[StructuralZero, ...]
    params: DPParams
    sampling_key: bytes
    # `epsilon`, `delta` and `rho` of this build, as accounted; `epsilon` None: nothing is guaranteed.
    cost: dict[str, float | None]
    promised: dict[str, Any]  # What cards say of the guarantee: see `Guarantee.of`
    margins: tuple[
        ColumnSet, ...
    ]  # All that were measured, in their order; the total, which has no columns, first
    sums: tuple[Measured, ...] = ()  # Sums that were measured, too
    ledger: tuple[dict[str, Any], ...] = ()  # Entries of the ledger in plain values
