"""How well a decision tree tells synthetic rows from original ones: pMSE over the tables.

Takes a `Comparison` and a section of a study; gives a `Score`. The propensity score is Snoke et al., "General and
specific utility measures for synthetic data", 2018, doi:10.1111/rssa.12358; the tree and the mean over the tables are
those of SDNIST and of P. Francis, arXiv:2403.08463, section 4.6.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.errors import StoreError
from engine.schema import ColumnSet
from engine.score import Score, not_computed
from engine.study_sections import Propensity
from engine.utility.comparison import DENSE, Coded, Comparison, Numbers
from engine.utility.words import finite, nothing_to_compare

NAME = "propensity"
TREES_OF_WIDEST = 4
"""Trees that are grown on the widest table, where equally good splits may be taken either way."""
LARGEST_REPEATED = 1 << 22
"""Rows times columns of a table for which several are grown, at most: in larger ones ties are rare."""
_BINS = 100
_LARGEST_KEY = 1 << 62
Floats = NDArray[np.float64]
Ranks = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Stacked:
    """Distinct rows of both sides under each other."""

    ranks: Ranks
    is_synthetic: NDArray[np.int8]
    n: Floats


def propensity(
    comparison: Comparison, told: Propensity, *, report: Callable[[int, int], None] | None = None
) -> Score:
    """Mean squared distance of a tree's guess "this row is synthetic" from the share of synthetic rows.

    A decision tree is grown on the rows of the original and of one table; 0 if it cannot tell them apart. Where two
    splits are equally good a tree takes either: on the widest table several are grown, and the one that tells most
    counts.

    Parameters
    ----------
    comparison : Comparison
    told : Propensity
    report : callable, optional
        Called with how many of how many tables are done.

    Returns
    -------
    Score
        Broken down by table. `more`: `distribution`, rows by the guess in the widest table.

    Raises
    ------
    StoreError
        scikit-learn is not installed.
    """
    if (why := nothing_to_compare(comparison)) is not None:
        return not_computed(NAME, why)
    tables = {c: t for c, t in comparison.tables.items() if t.total}
    widest = max(tables, key=lambda c: (len(c), len(tables[c].n)))
    rows, distribution = [], pd.DataFrame()
    for done, (columns, table) in enumerate(tables.items()):
        stacked = _stacked(comparison, table, told)
        found = None if stacked is None else _grown(stacked, told.depth, columns == widest)
        if stacked is not None and found is not None:
            rows.append((", ".join(columns), found[0], columns == widest))
            if columns == widest:
                distribution = _distribution(stacked, found[1])
        if report is not None:
            report(done + 1, len(tables))
    whole = pd.DataFrame(rows, columns=["table", "pmse", "is_widest"])
    figures = {
        "pmse": float(whole["pmse"].mean()),
        "pmse_wide": float(whole.loc[whole["is_widest"], "pmse"].mean()),
        "largest": float(whole["pmse"].max()),
        "n": float(len(whole)),
    }
    values, why_not = finite(figures, "all values lie outside the declared groups")
    return Score(
        measure=NAME,
        values=values,
        breakdown=whole.drop(columns="is_widest"),
        more={"distribution": distribution},
        why_not=why_not,
        notes=_notes(comparison, len(whole)),
        over=len(widest),
    )


def _notes(comparison: Comparison, n: int) -> tuple[str, ...]:
    """What a reader must know of the tables."""
    absent = len(comparison.tables) - n
    return (f"{absent:,} tables are left out, as they have no rows",) if absent else ()


def _grown(stacked: _Stacked, depth: int, is_widest: bool) -> tuple[float, Floats]:
    """The largest pMSE of some trees, and that tree's guesses."""
    try:
        from sklearn.tree import DecisionTreeClassifier
    except ImportError:
        raise StoreError("scores need scikit-learn: pip install 'tablepack[evaluate]'") from None
    share = float(stacked.n[stacked.is_synthetic == 1].sum() / stacked.n.sum())
    best: tuple[float, Floats] | None = None
    is_small = stacked.ranks.size <= LARGEST_REPEATED
    for seed in range(TREES_OF_WIDEST if is_widest and is_small else 1):
        tree = DecisionTreeClassifier(max_depth=depth, random_state=seed)
        tree.fit(stacked.ranks, stacked.is_synthetic, sample_weight=stacked.n)
        guess: Floats = tree.predict_proba(stacked.ranks)[:, 1]
        pmse = float(np.average((guess - share) ** 2, weights=stacked.n))
        if best is None or pmse > best[0]:
            best = pmse, guess
    return best if best is not None else (float("nan"), np.empty(0))


def _stacked(comparison: Comparison, table: Coded, told: Propensity) -> _Stacked | None:
    """Distinct rows of both sides; the tree sees the same as of all rows, only sooner. None where a side has none."""
    of_codes = [_ranks_of_codes(comparison, name, told) for name in table.columns]
    sides = [_distinct(side, table.columns, of_codes) for side in (comparison.original, table)]
    if not all(n.sum() for _, n in sides):
        return None
    return _Stacked(
        ranks=np.concatenate([ranks for ranks, _ in sides]),
        is_synthetic=np.repeat(np.array([0, 1], np.int8), [len(n) for _, n in sides]),
        n=np.concatenate([n for _, n in sides]),
    )


def _ranks_of_codes(comparison: Comparison, name: str, told: Propensity) -> Numbers:
    """Rank of each code of a column, the blank's last; the lowest is -1."""
    if name in told.binned and name in comparison.groupings:
        return comparison.groupings[name].group
    ranks = np.arange(len(comparison.values[name]) + 1)
    if name not in told.blanks_last:
        ranks[-1] = -1
    return ranks


def _distinct(side: Coded, columns: ColumnSet, of_codes: list[Numbers]) -> tuple[Ranks, Floats]:
    """Distinct rows of ranks and how often each is there; rows that are nowhere are left out."""
    kept = side.n > 0
    key, size, widths = np.zeros(int(kept.sum()), np.int64), 1, []
    for name, ranks in zip(columns, of_codes, strict=True):
        width = int(ranks.max()) + 2
        if size * width > _LARGEST_KEY:
            return _distinct_rows(side, columns, of_codes, kept)
        key = key * width + (ranks + 1)[side.codes[name][kept]]
        size *= width
        widths.append(width)
    weights = side.n[kept].astype(np.float64)
    if size <= DENSE:
        each = np.bincount(key, weights, minlength=size).astype(np.float64)
        found = np.flatnonzero(each)
        each = each[found]
    else:
        found, place = np.unique(key, return_inverse=True)
        each = np.bincount(place, weights, minlength=len(found)).astype(np.float64)
    out = np.empty((len(found), len(columns)), np.float32)
    for i, width in reversed(list(enumerate(widths))):
        out[:, i] = found % width - 1
        found = found // width
    return out, each


def _distinct_rows(
    side: Coded, columns: ColumnSet, of_codes: list[Numbers], kept: NDArray[np.bool_]
) -> tuple[Ranks, Floats]:
    """As `_distinct` where there are too many combinations to number: columns are numbered together one by one."""
    ranks = np.empty((int(kept.sum()), len(columns)), np.float32)
    key, size = np.zeros(len(ranks), np.int64), 1
    for i, name in enumerate(columns):
        own = of_codes[i][side.codes[name][kept]]
        width = int(of_codes[i].max()) + 2
        if size * width > _LARGEST_KEY:
            found, key = np.unique(key, return_inverse=True)
            size = len(found)
        key, size = key * width + own + 1, size * width
        ranks[:, i] = own
    _, first, place = np.unique(key, return_index=True, return_inverse=True)
    weights = side.n[kept].astype(np.float64)
    each: Floats = np.bincount(place, weights, minlength=len(first)).astype(np.float64)
    return ranks[first], each


def _distribution(stacked: _Stacked, guess: Floats) -> pd.DataFrame:
    """Rows of both sides by the guess."""
    place = np.minimum((guess * _BINS).astype(np.int64), _BINS - 1)
    out: dict[str, Floats] = {"guess": np.arange(_BINS) / _BINS}
    for name, side in (("original", 0), ("synthetic", 1)):
        kept = stacked.is_synthetic == side
        out[name] = np.bincount(place[kept], stacked.n[kept], minlength=_BINS).astype(np.float64)
    return pd.DataFrame(out)
