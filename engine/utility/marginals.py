"""How near the densities of combinations of columns are, and the sample of the original that is as near.

Takes a `Comparison` and a section of a study; gives a `Score`. Definitions: the k-marginal score of SDNIST and P.
Francis, arXiv:2403.08463, section 4.4.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.score import Score, not_computed
from engine.study_sections import Marginals
from engine.utility.comparison import (
    DENSE,
    Comparison,
    Numbers,
    counts,
    covering,
    key_of,
    n_codes,
)
from engine.utility.words import finite, labels, lacking, listed, nothing_to_compare

NAME = "marginals"
MOST_OF_CURVE = 300
"""Combinations that the sampling equivalent looks at, at most."""
MOST_ROWS = 400_000_000
"""Rows that all combinations together read, about, at most: of larger tables fewer combinations are drawn."""
_FEWEST = 100
_LISTED = 500_000
Floats = NDArray[np.float64]
Combination = tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Distance:
    """Sum of the absolute differences of densities, 0 to 2; and by value of the grouping columns."""

    whole: float
    groups: Numbers
    by_group: Floats


def k_marginals(
    comparison: Comparison, told: Marginals, rng: np.random.Generator | None = None
) -> Score:
    """How near the densities of combinations of columns are: 500 x (2 - mean absolute difference), at best 1000.

    A grouping column that no table has is left out of all combinations, which then are narrower.

    Parameters
    ----------
    comparison : Comparison
    told : Marginals
    rng : numpy Generator, optional
        Draws combinations where there are too many, and the samples of the original; by default one of seed 0.

    Returns
    -------
    Score
        Broken down by combination. `more`: `by_group`, for each value of the grouping columns the mean
        distance there as a share of its people, at most 1, and the score of SDNIST's map, 1000 x (1 - mean);
        `shares`, the scores of samples of the original.
    """
    if (why := nothing_to_compare(comparison)) is not None:
        return not_computed(NAME, why)
    missing = [c for c in told.group if c not in comparison.values]
    if missing:  # combinations are of the other columns then, as in SDNIST's reports
        told = told.model_copy(update={"group": tuple(c for c in told.group if c not in missing)})
    rng = np.random.default_rng(0) if rng is None else rng
    chosen, n_all, n_without = _chosen(comparison, told, _most(comparison, told), rng)
    if not chosen:
        return not_computed(NAME, f"no table has {told.width + len(told.group)} columns to combine")
    found = [_measured(comparison, told, columns) for columns in chosen]
    whole = pd.DataFrame(
        {
            "columns": [", ".join(columns) for columns in chosen],
            "distance": [ranked.whole for ranked, _ in found],
            "distance_unbinned": [fine.whole for _, fine in found],
        }
    )
    shares = _shares(comparison, told, chosen, rng)
    figures = {
        "score": 500 * (2 - float(whole["distance"].mean())),
        "score_unbinned": 500 * (2 - float(whole["distance_unbinned"].mean())),
        "n": float(len(whole)),
        **_equivalents(whole, shares),
    }
    values, why_not = finite(figures, "the study declares no shares to sample")
    more = {"by_group": _by_group(comparison, told, [r for r, _ in found]), "shares": shares}
    notes = _notes(told, len(chosen), n_all, n_without)
    if missing:
        notes += (f"no table has the grouping column {listed(missing)}: combined without it",)
    return Score(
        measure=NAME, values=values, breakdown=whole, more=more, why_not=why_not, notes=notes
    )


def _most(comparison: Comparison, told: Marginals) -> int:
    """Most combinations: fewer than the study allows where tables have very many rows."""
    n_rows = len(comparison.original.n) + max(len(t.n) for t in comparison.tables.values())
    return min(told.most, max(MOST_ROWS // max(n_rows, 1), _FEWEST))


def _chosen(
    comparison: Comparison, told: Marginals, most: int, rng: np.random.Generator
) -> tuple[list[Combination], int, int]:
    """Combinations that are measured, how many could be, and how many have no table."""
    free = [c for c in sorted(comparison.values) if c not in (*told.group, *told.leave_out)]
    n_all = comb(len(free), told.width)
    if n_all > _LISTED:
        drawn = {
            tuple(sorted(rng.choice(len(free), told.width, replace=False).tolist()))
            for _ in range(20 * most)
        }
        every = [tuple(free[i] for i in at) for at in sorted(drawn)]
    else:
        every = list(combinations(free, told.width))
    fitting = [
        (*told.group, *columns)
        for columns in every
        if lacking(comparison, (*told.group, *columns)) is None
    ]
    if len(fitting) <= most:
        return fitting, n_all, len(every) - len(fitting)
    at = np.sort(rng.choice(len(fitting), most, replace=False)).tolist()
    return [fitting[i] for i in at], n_all, len(every) - len(fitting)


def _notes(told: Marginals, n: int, n_all: int, n_without: int) -> tuple[str, ...]:
    """What a reader must know of the combinations."""
    notes = []
    if n_without:
        notes.append(f"{n_without:,} combinations are left out, as no table has their columns")
    if n < n_all - n_without:
        notes.append(f"{n:,} of {n_all:,} combinations were drawn at random")
    if told.shares and n > MOST_OF_CURVE:
        notes.append(f"the sampling equivalent is read from the first {MOST_OF_CURVE} of them")
    return tuple(notes)


def _fine(columns: Sequence[str], told: Marginals) -> list[str]:
    """Columns that are binned in the second score."""
    return [c for c in columns if c not in told.unbinned]


def _measured(
    comparison: Comparison, told: Marginals, columns: Combination
) -> tuple[_Distance, _Distance]:
    """Distances of a combination, binned and with some columns unbinned."""
    ranked = _distance(comparison, told, columns, columns)
    fine = _fine(columns, told)
    if len(fine) == len(columns):
        return ranked, ranked
    return ranked, _distance(comparison, told, columns, fine)


def _distance(
    comparison: Comparison, told: Marginals, columns: Combination, binned: Collection[str]
) -> _Distance:
    """Distance of the densities of a combination; the grouping columns come first in it."""
    table = covering(comparison, columns)
    original = comparison.original
    if table is None:  # left out before
        return _Distance(whole=float("nan"), groups=np.empty(0, np.int64), by_group=np.empty(0))
    found = counts(comparison, original, table, columns, binned=binned)
    off = np.abs(found.left / original.total - found.right / table.total)
    free = 1
    for name in columns[len(told.group) :]:
        free *= n_codes(comparison, name, binned=binned)
    groups, place = np.unique(found.keys // free, return_inverse=True)
    # Of nothing, bincount is of whole numbers, whatever the weights.
    own = np.bincount(place, found.left / original.total, minlength=len(groups)).astype(np.float64)
    apart = np.bincount(place, off, minlength=len(groups)).astype(np.float64)
    share = np.divide(apart, own, out=np.ones_like(own), where=own > 0)
    return _Distance(whole=float(off.sum()), groups=groups, by_group=np.minimum(share, 1.0))


def _by_group(comparison: Comparison, told: Marginals, found: list[_Distance]) -> pd.DataFrame:
    """Mean distance at each value of the grouping columns, over all combinations."""
    if not told.group:
        return pd.DataFrame(columns=["n", "distance", "score"])
    keys, place = np.unique(np.concatenate([d.groups for d in found]), return_inverse=True)
    total = np.bincount(place, np.concatenate([d.by_group for d in found]), minlength=len(keys))
    distance = total / len(found)
    rest, parts = keys, {}
    for name in reversed(told.group):
        size = n_codes(comparison, name, binned=told.group)
        names = labels(comparison, name, binned=told.group)
        parts[name] = [names[i] for i in (rest % size).tolist()]
        rest = rest // size
    here = counts(
        comparison, comparison.original, comparison.original, told.group, binned=told.group
    )
    n = pd.Series(here.left, index=here.keys).reindex(keys, fill_value=0).to_numpy()
    out = {name: parts[name] for name in told.group}
    return pd.DataFrame({**out, "n": n, "distance": distance, "score": 1000 * (1 - distance)})


def _shares(
    comparison: Comparison,
    told: Marginals,
    chosen: Sequence[Combination],
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Scores of samples of the original, drawn without replacement, each within the next larger one."""
    shares = np.array(sorted(told.shares), dtype=np.float64)
    n_rows = len(comparison.original.n)
    sizes = np.maximum(np.round(shares / 100 * n_rows).astype(np.int64), 1)
    sample = np.empty(n_rows, np.int64)  # the smallest sample that a row is in
    sample[rng.permutation(n_rows)] = np.searchsorted(sizes, np.arange(n_rows), side="right")
    total = np.zeros((2, len(shares)))
    few = chosen[:MOST_OF_CURVE] if len(shares) else ()
    for columns in few:
        fine = _fine(columns, told)
        ranked = _sample_distances(comparison, columns, columns, sample, sizes)
        total[0] += ranked
        total[1] += (
            ranked
            if len(fine) == len(columns)
            else _sample_distances(comparison, columns, fine, sample, sizes)
        )
    scores = 500 * (2 - total / max(len(few), 1))
    return pd.DataFrame({"share": shares, "score": scores[0], "score_unbinned": scores[1]})


def _sample_distances(
    comparison: Comparison,
    columns: Combination,
    binned: Collection[str],
    sample: Numbers,
    sizes: Numbers,
) -> Floats:
    """Distance of each sample of the original from all of it, for one combination; shape (n_samples,)."""
    key = key_of(comparison, comparison.original, columns, binned=binned)
    kept = key >= 0
    n_cells = 1
    for name in columns:
        n_cells *= n_codes(comparison, name, binned=binned)
    if n_cells * (len(sizes) + 1) <= DENSE:
        place = key[kept]
    else:
        used, place = np.unique(key[kept], return_inverse=True)
        n_cells = len(used)
    n = np.bincount(sample[kept] * n_cells + place, minlength=n_cells * (len(sizes) + 1))
    grid = n.reshape(len(sizes) + 1, n_cells)
    shown = np.cumsum(grid, axis=0)
    apart = shown[:-1] / sizes[:, np.newaxis] - shown[-1] / len(sample)
    distances: Floats = np.abs(apart).sum(axis=1)
    return distances


def _equivalents(whole: pd.DataFrame, shares: pd.DataFrame) -> dict[str, float]:
    """Shares of the original whose samples score nearest; of equally near ones the smallest."""
    few = whole.iloc[:MOST_OF_CURVE]
    out = {}
    for name, distance in (("", "distance"), ("_unbinned", "distance_unbinned")):
        found = float("nan")
        if len(shares):
            own = 500 * (2 - float(few[distance].mean()))
            off = np.abs(shares[f"score{name}"].to_numpy() - own)
            found = float(shares["share"].iloc[int(np.argmin(off))])
        out[f"sampling_equivalent{name}"] = found
    return out
