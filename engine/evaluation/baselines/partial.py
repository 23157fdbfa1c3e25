"""Partial synthesis, and several syntheses: any baseline applied to named columns only, or m times.

Little, "Statistical analysis of masked data", Journal of Official Statistics 9 (1993), 407-426; Reiter, "Inference for
partially synthetic, public use microdata sets", Survey Methodology 29 (2003), 181-188. Estimates of m tables are
combined by `engine.evaluation.measures.analyses`. Invariant: columns that are not named come out as they went in.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from engine.errors import SpecError
from engine.evaluation.baselines.baseline import Baseline, Schema, require_columns

MOST = 100
"""Syntheses of one baseline, at most."""
WARNING = (
    "Rows are those of people and all other columns are true: confidential until it is evaluated."
)


def partial_synthesis(baseline: Baseline, columns: tuple[str, ...]) -> Baseline:
    """A baseline that changes some columns only."""
    if not columns:
        raise SpecError(f"{baseline.name}: partial synthesis wants columns")
    name = f"{baseline.name}:{'+'.join(columns)}"

    def synthesize(frame: pd.DataFrame, schema: Schema, rng: np.random.Generator) -> pd.DataFrame:
        names = [str(c) for c in frame.columns]
        require_columns(names, columns, name)
        kept = tuple(c for c in names if c not in columns)
        return baseline.synthesize(frame, replace(schema, kept=kept), rng)

    promise = (
        f"Partial synthesis of {', '.join(columns)}. {WARNING} Of those columns: {baseline.promise}"
    )
    return Baseline(name=name, promise=promise, origin=baseline.origin, synthesize=synthesize)


def syntheses(
    baseline: Baseline, frame: pd.DataFrame, schema: Schema, m: int, rng: np.random.Generator
) -> list[pd.DataFrame]:
    """Return m synthetic tables of one baseline, each with a generator of its own."""
    if not 1 <= m <= MOST:
        raise SpecError(f"m: wants 1 to {MOST} syntheses, not {m}")
    return [baseline.synthesize(frame, schema, own) for own in rng.spawn(m)]
