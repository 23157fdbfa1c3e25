"""Rows and values of the data drawn at random: samples, the scale of every measure of utility, and independent margins.

A sample protects nobody who is shown; independent margins lose all association of columns.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from engine.errors import SpecError
from engine.evaluation.baselines.baseline import Baseline, Schema, assembled
from engine.evaluation.baselines.levels import taken


def sample(share: float = 0.4, *, replace: bool = False) -> Baseline:
    """Some of the rows, in a random order, each at most once, as NIST's 40 % sample, or (`replace`) several times."""
    name = f"{'bootstrap' if replace else 'sample'}{100 * share:g}"
    most = 10.0 if replace else 1.0
    if not 0 < share <= most:
        raise SpecError(f"{name}: wants a share of the rows above 0 and at most {most:.0%}")

    def synthesize(frame: pd.DataFrame, schema: Schema, rng: np.random.Generator) -> pd.DataFrame:
        changed, n = schema.changed(frame), len(frame)
        rows = rng.choice(n, size=max(round(share * n), 1), replace=replace)
        if schema.kept:  # a row for each of theirs, the others from a row of the sample
            rows = rng.choice(rows, size=n)
        return assembled(frame, {c: taken(frame[c], rows) for c in changed})

    return Baseline(
        name=name,
        promise=(
            f"Every row is that of a person; {share:.0%} of the people, drawn {'with' if replace else 'without'} "
            "replacement, are shown as they are. Protects nobody who is shown."
        ),
        synthesize=synthesize,
    )


def bootstrap(share: float = 1.0) -> Baseline:
    return sample(share, replace=True)


def margins() -> Baseline:
    """Each column is a sample, with replacement, of its own values."""

    def synthesize(frame: pd.DataFrame, schema: Schema, rng: np.random.Generator) -> pd.DataFrame:
        n = len(frame)
        drawn = {c: taken(frame[c], rng.integers(n, size=n)) for c in schema.changed(frame)}
        return assembled(frame, drawn)

    return Baseline(
        name="margins",
        promise=(
            "A row says nothing about a person, but rare values of single columns are shown as they are. No "
            "guarantee. The floor of utility: columns are independent."
        ),
        synthesize=synthesize,
    )
