"""PRAM, the post-randomisation method: values are changed at random, so that every column's shares stay as expected.

Invariant PRAM of Gouweleeuw, Kooiman, Willenborg and de Wolf, "Post randomisation for statistical disclosure control",
Journal of Official Statistics 14 (1998), 463-478, section 4. Vectorised: no transition matrix is ever made.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from engine.errors import SpecError
from engine.evaluation.baselines.baseline import Baseline, Schema, assembled
from engine.evaluation.baselines.levels import Codes, levels_of, taken


def pram(keep: float = 0.8) -> Baseline:
    """Invariant PRAM of every column by itself, numbers by their values.

    keep: Chance that the first of two steps leaves a value as it is, 0 to 1; sdcMicro's default is 0.8.
    """
    if not 0 <= keep <= 1:
        raise SpecError("pram: wants a chance of keeping a value from 0 to 1 (pram80: 0.8)")

    def synthesize(frame: pd.DataFrame, schema: Schema, rng: np.random.Generator) -> pd.DataFrame:
        drawn = {}
        for name in schema.changed(frame):
            levels = levels_of(frame[name])
            codes = perturbed(levels.codes, levels.n, keep, rng)
            drawn[name] = taken(frame[name], levels.rows[codes])
        return assembled(frame, drawn)

    return Baseline(
        name=f"pram{100 * keep:g}",
        promise=(
            "Nobody can be sure of a value, and the expected counts of single columns are those of the data; but most "
            "values are true, row by row. A guarantee only against who knows nothing else: odds of any one value."
        ),
        synthesize=synthesize,
    )


def perturbed(codes: Codes, n_levels: int, keep: float, rng: np.random.Generator) -> Codes:
    """Change codes. The first step keeps a level or takes any other alike; the second draws from what may have been
    there before the first (its reverse, by Bayes' rule), so that the expected shares stay."""
    n = len(codes)
    if n_levels == 1:
        return codes.copy()
    moved = rng.random(n) >= keep
    other = rng.integers(n_levels - 1, size=n)
    first = np.where(moved, other + (other >= codes), codes)
    counts = np.bincount(codes, minlength=n_levels)
    share = counts[first] / n
    change = (1 - keep) / (n_levels - 1)
    stayed, came = share * keep, (1 - share) * change
    back = rng.random(n) * (stayed + came) >= stayed
    # Another level by its share: a row that does not have this one, in the order of levels.
    by_level = np.sort(codes)
    start = np.cumsum(counts) - counts
    at = np.floor(rng.random(n) * (n - counts[first])).astype(np.int64)
    at += np.where(at >= start[first], counts[first], 0)
    return np.where(back, by_level[np.minimum(at, n - 1)], first)
