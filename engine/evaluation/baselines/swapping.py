"""Record swapping: some records exchange the values of some columns, as a rule where they live, with others alike.

After Dalenius and Reiss, "Data-swapping: a technique for disclosure control", Journal of Statistical Planning and
Inference 6 (1982), 73-85: records are drawn at random, partners within the same group. The release's own swapping,
keyed and aimed at rare records, is `engine.source.swapping`. Invariant: how often any values of the exchanged columns
stand together, and stand beside any of the group, stays as it was.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from engine.errors import SpecError
from engine.evaluation.baselines.baseline import Baseline, Schema, assembled
from engine.evaluation.baselines.levels import Codes, levels_of, taken


def swapping(rate: float = 0.05) -> Baseline:
    """Exchange of the columns `Schema.areas` between records that agree in `Schema.alike`.

    rate: Share of the records that are exchanged.
    """
    if not 0 < rate <= 1:
        raise SpecError("swap: wants a share of the records above 0 and at most 100 (swap5: 5 %)")
    name = f"swap{100 * rate:g}"

    def synthesize(frame: pd.DataFrame, schema: Schema, rng: np.random.Generator) -> pd.DataFrame:
        changed = schema.changed(frame)
        exchanged = [c for c in schema.areas if c in changed]
        if not exchanged:
            raise SpecError(
                f"{name}: exchanges areas, and none is named that it may change: name columns (--areas region), or "
                "declare swapping in the spec's section [privacy]"
            )
        rows = partners(_groups(frame, schema.alike), rate, rng)
        return assembled(frame, {c: taken(frame[c], rows) for c in exchanged})

    return Baseline(
        name=name,
        promise=(
            "Some people stand in another area than theirs, and nobody knows who; everybody else is shown as they are. "
            "No guarantee."
        ),
        synthesize=synthesize,
    )


def partners(group: Codes, rate: float, rng: np.random.Generator) -> Codes:
    """Return for each record the one whose values it gets: its own, or that of its partner.

    group: Partners are of one group; of an odd number drawn in a group one stays.
    """
    n = len(group)
    drawn = rng.permutation(n)[: round(rate * n)]
    drawn = drawn[np.argsort(group[drawn], kind="stable")]
    own = group[drawn]
    starts = np.flatnonzero(np.r_[True, own[1:] != own[:-1]]) if len(own) else np.zeros(0, int)
    sizes = np.diff(np.r_[starts, len(own)])
    at = np.arange(len(own)) - np.repeat(starts, sizes)
    first = np.flatnonzero((at % 2 == 0) & (at + 1 < np.repeat(sizes, sizes)))
    rows = np.arange(n)
    rows[drawn[first]], rows[drawn[first + 1]] = drawn[first + 1], drawn[first]
    return rows


def _groups(frame: pd.DataFrame, columns: tuple[str, ...]) -> Codes:
    """The group of each record: those that agree in some columns."""
    if not columns:
        return np.zeros(len(frame), np.int64)
    codes = np.column_stack([levels_of(frame[c]).codes for c in columns])
    return np.asarray(np.unique(codes, axis=0, return_inverse=True)[1].ravel(), np.int64)
