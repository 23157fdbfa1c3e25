"""Partial synthesis, and several syntheses: any baseline applied to named columns only, or m times.

Little, "Statistical analysis of masked data", Journal of Official Statistics 9 (1993), 407-426; Reiter, "Inference for
partially synthetic, public use microdata sets", Survey Methodology 29 (2003), 181-188. Estimates of m tables are
combined by `engine.evaluation.measures.analyses`. Invariant: columns that are not named come out as they went in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from engine.errors import SpecError
from engine.evaluation.baselines.baseline import Baseline, Schema, require_columns

MOST = 100
"""Syntheses of one baseline, at most."""
WARNING = (
    "Rows are those of people and all other columns are true: confidential until it is evaluated."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Partial:
    """A baseline that changes some columns only."""

    baseline: Baseline
    columns: tuple[str, ...]  # Those that are synthesised

    def __post_init__(self) -> None:
        if not self.columns:
            raise SpecError(f"{self.baseline.name}: partial synthesis wants columns")

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.baseline.name}:{'+'.join(self.columns)}"

    @property
    def promise(self) -> str:
        """What it promises."""
        return f"Partial synthesis of {', '.join(self.columns)}. {WARNING} Of those columns: {self.baseline.promise}"

    @property
    def origin(self) -> str:
        """Whose code it is."""
        return self.baseline.origin

    def synthesize(
        self, frame: pd.DataFrame, schema: Schema, rng: np.random.Generator
    ) -> pd.DataFrame:
        """Return the rows with those columns synthesised; see `Baseline`."""
        names = [str(c) for c in frame.columns]
        require_columns(names, self.columns, self.name)
        kept = tuple(c for c in names if c not in self.columns)
        return self.baseline.synthesize(frame, replace(schema, kept=kept), rng)


def syntheses(
    baseline: Baseline, frame: pd.DataFrame, schema: Schema, m: int, rng: np.random.Generator
) -> list[pd.DataFrame]:
    """Return m synthetic tables of one baseline, each with a generator of its own."""
    if not 1 <= m <= MOST:
        raise SpecError(f"m: wants 1 to {MOST} syntheses, not {m}")
    return [baseline.synthesize(frame, schema, own) for own in rng.spawn(m)]
