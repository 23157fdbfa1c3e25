"""Partial synthesis, and several syntheses: any rival applied to named columns only, or m times.

Little, "Statistical analysis of masked data", Journal of Official Statistics 9 (1993), 407-426; Reiter, "Inference for
partially synthetic, public use microdata sets", Survey Methodology 29 (2003), 181-188. Estimates of m tables are
combined by `engine.evaluation.utility.estimates`. Invariant: columns that are not named come out as they went in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from engine.errors import SpecError
from engine.evaluation.rivals.rival import Rival, Schema, require_columns

MOST = 100
"""Syntheses of one rival, at most."""
WARNING = (
    "Rows are those of people and all other columns are true: confidential until it is evaluated."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Partial:
    """A rival that changes some columns only."""

    rival: Rival
    columns: tuple[str, ...]  # Those that are synthesised

    def __post_init__(self) -> None:
        if not self.columns:
            raise SpecError(f"{self.rival.name}: partial synthesis wants columns")

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.rival.name}:{'+'.join(self.columns)}"

    @property
    def promise(self) -> str:
        """What it promises."""
        return f"Partial synthesis of {', '.join(self.columns)}. {WARNING} Of those columns: {self.rival.promise}"

    @property
    def origin(self) -> str:
        """Whose code it is."""
        return self.rival.origin

    def synthesize(
        self, frame: pd.DataFrame, schema: Schema, rng: np.random.Generator
    ) -> pd.DataFrame:
        """Return the rows with those columns synthesised; see `Rival`."""
        names = [str(c) for c in frame.columns]
        require_columns(names, self.columns, self.name)
        kept = tuple(c for c in names if c not in self.columns)
        return self.rival.synthesize(frame, replace(schema, kept=kept), rng)


def syntheses(
    rival: Rival, frame: pd.DataFrame, schema: Schema, m: int, rng: np.random.Generator
) -> list[pd.DataFrame]:
    """Return m synthetic tables of one rival, each with a generator of its own."""
    if not 1 <= m <= MOST:
        raise SpecError(f"m: wants 1 to {MOST} syntheses, not {m}")
    return [rival.synthesize(frame, schema, own) for own in rng.spawn(m)]
