"""How near the densities of combinations of columns are, and the sample of the original that is as near.

Takes a `Paired` and a section of a study; gives a `Score`. Definitions: the k-marginal score of SDNIST and P.
Francis, arXiv:2403.08463, section 4.4.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import comb

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field

from engine.evaluation.data.paired import (
    DENSE,
    Numbers,
    Paired,
    counts,
    covering,
    key_of,
    n_codes,
)
from engine.evaluation.data.sampling import column_sets
from engine.evaluation.data.words import finite, labels, listed, nothing_to_compare
from engine.evaluation.score import Score, Section, not_computed

NAME = "marginals"
MOST_OF_CURVE = 300
"""Combinations that the sampling equivalent looks at, at most."""
MOST_ROWS = 400_000_000
"""Rows that all combinations together read, about, at most: of larger tables fewer combinations are drawn."""
_FEWEST = 100
Floats = NDArray[np.float64]
Combination = tuple[str, ...]


class Marginals(Section):
    """Densities of combinations of columns."""

    width: int = Field(default=2, ge=1)  # Number of columns combined, beside `group`
    group: tuple[str, ...] = ()  # Columns that are in every combination
    leave_out: tuple[str, ...] = ()  # Columns in none
    unbinned: tuple[str, ...] = ()  # Columns that a second score leaves unbinned
    # If there are more combinations, so many are drawn, each at most once.
    most: int = Field(default=2_000, ge=1)
    # Percentages of the original that are sampled for the sampling equivalent.
    shares: tuple[float, ...] = (1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Distance:
    """Sum of the absolute differences of densities, 0 to 2; and by value of the grouping columns."""

    whole: float
    groups: Numbers
    by_group: Floats


def k_marginals(
    paired: Paired, section: Marginals, rng: np.random.Generator | None = None
) -> Score:
    """How near the densities of combinations of columns are: 500 x (2 - mean absolute difference), at best 1000.

    A grouping column that no table has is left out of all combinations, which then are narrower.

    rng: Draws combinations where there are too many, and the samples of the original; by default one of seed
        0.

    Returns: Broken down by combination. `more`: `by_group`, for each value of the grouping columns the mean
    distance there as a share of its people, at most 1, and the score of SDNIST's map, 1000 x (1 - mean);
    `shares`, the scores of samples of the original.
    """
    if (why := nothing_to_compare(paired)) is not None:
        return not_computed(NAME, why)
    missing = [c for c in section.group if c not in paired.values]
    if missing:  # combinations are of the other columns then, as in SDNIST's reports
        section = section.model_copy(
            update={"group": tuple(c for c in section.group if c not in missing)}
        )
    rng = np.random.default_rng(0) if rng is None else rng
    chosen, n_all, n_without = _chosen(paired, section, _most(paired, section), rng)
    if not chosen:
        return not_computed(
            NAME, f"no table has {section.width + len(section.group)} columns to combine"
        )
    distances = [_measured(paired, section, columns) for columns in chosen]
    whole = pd.DataFrame(
        {
            "columns": [", ".join(columns) for columns in chosen],
            "distance": [ranked.whole for ranked, _ in distances],
            "distance_unbinned": [fine.whole for _, fine in distances],
        }
    )
    shares = _shares(paired, section, chosen, rng)
    figures = {
        "score": 500 * (2 - float(whole["distance"].mean())),
        "score_unbinned": 500 * (2 - float(whole["distance_unbinned"].mean())),
        "n": float(len(whole)),
        **_equivalents(whole, shares),
    }
    values, why_not = finite(figures, "the study declares no shares to sample")
    more = {"by_group": _by_group(paired, section, [r for r, _ in distances]), "shares": shares}
    notes = _notes(section, len(chosen), n_all, n_without)
    if missing:
        notes += (f"no table has the grouping column {listed(missing)}: combined without it",)
    return Score(
        measure=NAME, values=values, breakdown=whole, more=more, why_not=why_not, notes=notes
    )


def _most(paired: Paired, section: Marginals) -> int:
    """Most combinations: fewer than the study allows where tables have very many rows."""
    n_rows = len(paired.original.n) + max(len(t.n) for t in paired.tables.values())
    return min(section.most, max(MOST_ROWS // max(n_rows, 1), _FEWEST))


def _chosen(
    paired: Paired, section: Marginals, most: int, rng: np.random.Generator
) -> tuple[list[Combination], int, int]:
    """Combinations that are measured, how many could be, and how many have no table."""
    free = [c for c in paired.values if c not in (*section.group, *section.leave_out)]
    n_all = comb(len(free), section.width)
    filled = replace(paired, tables={c: t for c, t in paired.tables.items() if t.total})
    sets, n_sets = column_sets(filled, free, section.width, most, rng, beside=section.group)
    return [(*section.group, *columns) for columns in sets], n_all, max(n_all - n_sets, 0)


def _notes(section: Marginals, n: int, n_all: int, n_without: int) -> tuple[str, ...]:
    """What a reader must know of the combinations."""
    notes = []
    if n_without:
        notes.append(f"{n_without:,} combinations are left out, as no table has their columns")
    if n < n_all - n_without:
        notes.append(f"{n:,} of {n_all:,} combinations were drawn at random")
    if section.shares and n > MOST_OF_CURVE:
        notes.append(f"the sampling equivalent is read from the first {MOST_OF_CURVE} of them")
    return tuple(notes)


def _fine(columns: Sequence[str], section: Marginals) -> list[str]:
    """Columns that are binned in the second score."""
    return [c for c in columns if c not in section.unbinned]


def _measured(
    paired: Paired, section: Marginals, columns: Combination
) -> tuple[_Distance, _Distance]:
    """Distances of a combination, binned and with some columns unbinned."""
    ranked = _distance(paired, section, columns, columns)
    fine = _fine(columns, section)
    if len(fine) == len(columns):
        return ranked, ranked
    return ranked, _distance(paired, section, columns, fine)


def _distance(
    paired: Paired, section: Marginals, columns: Combination, binned: Collection[str]
) -> _Distance:
    """Distance of the densities of a combination; the grouping columns come first in it."""
    table = covering(paired, columns)
    original = paired.original
    if table is None:  # left out before
        return _Distance(whole=float("nan"), groups=np.empty(0, np.int64), by_group=np.empty(0))
    both = counts(paired, original, table, columns, binned=binned)
    off = np.abs(both.left / original.total - both.right / table.total)
    free = 1
    for name in columns[len(section.group) :]:
        free *= n_codes(paired, name, binned=binned)
    groups, place = np.unique(both.keys // free, return_inverse=True)
    # Of nothing, bincount is of whole numbers, whatever the weights.
    own = np.bincount(place, both.left / original.total, minlength=len(groups)).astype(np.float64)
    apart = np.bincount(place, off, minlength=len(groups)).astype(np.float64)
    share = np.divide(apart, own, out=np.ones_like(own), where=own > 0)
    return _Distance(whole=float(off.sum()), groups=groups, by_group=np.minimum(share, 1.0))


def _by_group(paired: Paired, section: Marginals, distances: list[_Distance]) -> pd.DataFrame:
    """Mean distance at each value of the grouping columns, over all combinations."""
    if not section.group:
        return pd.DataFrame(columns=["n", "distance", "score"])
    keys, place = np.unique(np.concatenate([d.groups for d in distances]), return_inverse=True)
    total = np.bincount(place, np.concatenate([d.by_group for d in distances]), minlength=len(keys))
    distance = total / len(distances)
    rest, parts = keys, {}
    for name in reversed(section.group):
        size = n_codes(paired, name, binned=section.group)
        names = labels(paired, name, binned=section.group)
        parts[name] = [names[i] for i in (rest % size).tolist()]
        rest = rest // size
    here = counts(paired, paired.original, paired.original, section.group, binned=section.group)
    n = pd.Series(here.left, index=here.keys).reindex(keys, fill_value=0).to_numpy()
    out = {name: parts[name] for name in section.group}
    return pd.DataFrame({**out, "n": n, "distance": distance, "score": 1000 * (1 - distance)})


def _shares(
    paired: Paired,
    section: Marginals,
    chosen: Sequence[Combination],
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Scores of samples of the original, drawn without replacement, each within the next larger one."""
    shares = np.array(sorted(section.shares), dtype=np.float64)
    n_rows = len(paired.original.n)
    sizes = np.maximum(np.round(shares / 100 * n_rows).astype(np.int64), 1)
    sample = np.empty(n_rows, np.int64)  # the smallest sample that a row is in
    sample[rng.permutation(n_rows)] = np.searchsorted(sizes, np.arange(n_rows), side="right")
    total = np.zeros((2, len(shares)))
    few = chosen[:MOST_OF_CURVE] if len(shares) else ()
    for columns in few:
        fine = _fine(columns, section)
        ranked = _sample_distances(paired, columns, columns, sample, sizes)
        total[0] += ranked
        total[1] += (
            ranked
            if len(fine) == len(columns)
            else _sample_distances(paired, columns, fine, sample, sizes)
        )
    scores = 500 * (2 - total / max(len(few), 1))
    return pd.DataFrame({"share": shares, "score": scores[0], "score_unbinned": scores[1]})


def _sample_distances(
    paired: Paired,
    columns: Combination,
    binned: Collection[str],
    sample: Numbers,
    sizes: Numbers,
) -> Floats:
    """Distance of each sample of the original from all of it, for one combination; shape (n_samples,)."""
    key = key_of(paired, paired.original, columns, binned=binned)
    in_groups = key >= 0
    n_cells = 1
    for name in columns:
        n_cells *= n_codes(paired, name, binned=binned)
    if n_cells * (len(sizes) + 1) <= DENSE:
        place = key[in_groups]
    else:
        used, place = np.unique(key[in_groups], return_inverse=True)
        n_cells = len(used)
    n = np.bincount(sample[in_groups] * n_cells + place, minlength=n_cells * (len(sizes) + 1))
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
        nearest = float("nan")
        if len(shares):
            own = 500 * (2 - float(few[distance].mean()))
            off = np.abs(shares[f"score{name}"].to_numpy() - own)
            nearest = float(shares["share"].iloc[int(np.argmin(off))])
        out[f"sampling_equivalent{name}"] = nearest
    return out
