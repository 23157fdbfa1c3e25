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
    """What the fit process is told.

    Attributes
    ----------
    release_path : Path
        File to be made.
    build_id : str
        Keyed digest of all that decides the release; tells whether a staging area can be resumed.
    limits : dict
        Smallest and largest code of the columns that declare bounds, or whose released ranges end there.
    sampling_key : bytes
    low_threshold, threshold_mean, layer_sd : int
        Public privacy parameters; see `PrivacyParams`.
    workers : int
        Processes that lock tables for the one that stores them; 0: it does so itself.
    universes : dict
        Declared universes, by the column that has one.
    relations : Relations
        Columns that determine each other.
    force : bool
        A release that is there may be replaced.
    targets : dict of ColumnSet to str
        Of wide tables that models are to be trained on: the column that is to be predicted.
    sets : dict of ColumnSet to int
        Of wide tables that are made more than once: how often.
    earlier : (Path, str) or None
        File and SHA-256 of a release of the same recipe, whose tables are taken where this one has them too.
    """

    header: ReleaseHeader
    release_path: Path
    build_id: str
    limits: dict[str, tuple[int, int]]
    sampling_key: bytes
    low_threshold: int
    threshold_mean: int
    layer_sd: int
    profile: str
    workers: int = 0
    universes: Universes = field(default_factory=dict)
    relations: Relations = NO_RELATIONS
    force: bool = False
    targets: dict[ColumnSet, str] = field(default_factory=dict)
    sets: dict[ColumnSet, int] = field(default_factory=dict)
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
