"""How to fit, sent before any measurement. All of it is public but the sampling key."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

from engine.fit.borders import Universes
from engine.keys import pack_strings
from engine.relations import NO_RELATIONS, Relations
from engine.schema import ColumnSet, ReleaseHeader


@dataclass(frozen=True, kw_only=True, slots=True)
class FitOrder:
    """What the fit process is told."""

    header: ReleaseHeader
    release_path: Path  # File to be made
    # Keyed digest of all that decides the release; tells whether a staging area can be resumed.
    build_id: str
    # Smallest and largest code of the columns that declare bounds, or whose released ranges end there.
    limits: dict[str, tuple[int, int]]
    sampling_key: bytes
    # low_threshold, threshold_mean, layer_sd: Public privacy parameters; see `PrivacyParams`.
    low_threshold: int
    threshold_mean: int
    layer_sd: int
    profile: str
    # Processes that lock tables for the one that stores them; 0: it does so itself.
    workers: int = 0
    # Declared universes, by the column that has one.
    universes: Universes = field(default_factory=dict)
    relations: Relations = NO_RELATIONS  # Columns that determine each other
    force: bool = False  # A release that is there may be replaced
    # Of wide tables that models are to be trained on: the column that is to be predicted.
    targets: dict[ColumnSet, str] = field(default_factory=dict)
    # Of wide tables that are made more than once: how often.
    sets: dict[ColumnSet, int] = field(default_factory=dict)
    # File and SHA-256 of a release of the same recipe, whose tables are taken where this one has them too.
    earlier: tuple[Path, str] | None = None

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
