"""Privacy parameters: public, frozen, named by profile.

The profile `standard` is SynDiffix's: at least 3 entities, a noisy threshold of mean 5 and sd 1, and two noise
layers of sd 1 each. Parameters are never weaker than it; a spec may only strengthen them.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

from engine.errors import SpecError

FLOORS = {"low_threshold": 3, "threshold_mean": 5, "layer_sd": 1}
"""The weakest value each parameter may take."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PrivacyParams:
    """What decides suppression and noise.

    Parameters
    ----------
    profile : str
        Name of the profile the values started from.
    low_threshold : int
        A bucket of fewer entities is never released.
    threshold_mean : int
        Mean of the noisy threshold, in entities; its sd is 1.
    layer_sd : int
        Standard deviation of each of the two noise layers in rows, for entities of one row; a power of two.
    outliers : tuple of int
        Smallest and largest number of heaviest entities that are flattened.
    top_group : tuple of int
        Smallest and largest number of next-heaviest entities whose mean they are flattened to.
    """

    profile: str = "standard"
    low_threshold: int = 3
    threshold_mean: int = 5
    layer_sd: int = 1
    outliers: tuple[int, int] = (2, 5)
    top_group: tuple[int, int] = (2, 5)

    def __post_init__(self) -> None:
        problems = [
            f"privacy.{name}: {getattr(self, name)} is below the floor of {floor}"
            for name, floor in FLOORS.items()
            if getattr(self, name) < floor
        ]
        if self.threshold_mean < self.low_threshold:
            problems.append("privacy.threshold_mean: must not be below privacy.low_threshold")
        if self.layer_sd & (self.layer_sd - 1):
            problems.append("privacy.layer_sd: must be a power of two")
        for name in ("outliers", "top_group"):
            low, high = getattr(self, name)
            if not 1 <= low <= high:
                problems.append(f"privacy.{name}: wants two numbers, 1 <= smallest <= largest")
        if self.top_group[0] < 2:
            problems.append("privacy.top_group: a group has at least 2 entities")
        if problems:
            raise SpecError(problems)

    def fingerprint(self) -> str:
        """Hex digest of the values: equal exactly where every parameter is."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


PROFILES = {
    "standard": PrivacyParams(),
    "strict": PrivacyParams(
        profile="strict", threshold_mean=6, layer_sd=2, outliers=(3, 6), top_group=(3, 6)
    ),
}
"""Named starting points: `strict` raises the threshold by one and doubles the noise."""
