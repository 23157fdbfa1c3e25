"""Independent margins: every column drawn by itself; nothing that columns tell of each other is left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from engine.evaluation.baselines.baseline import Schema, assembled
from engine.evaluation.baselines.levels import taken


@dataclass(frozen=True, kw_only=True, slots=True)
class Margins:
    """Each column is a sample, with replacement, of its own values."""

    name: ClassVar[str] = "margins"
    origin: ClassVar[str] = "ours"
    promise: ClassVar[str] = (
        "A row says nothing about a person, but rare values of single columns are shown as they are. No guarantee. "
        "The floor of utility: columns are independent."
    )

    def synthesize(
        self, frame: pd.DataFrame, schema: Schema, rng: np.random.Generator
    ) -> pd.DataFrame:
        """Return synthetic rows, as many; see `Baseline`."""
        n = len(frame)
        drawn = {c: taken(frame[c], rng.integers(n, size=n)) for c in schema.changed(frame)}
        return assembled(frame, drawn)
