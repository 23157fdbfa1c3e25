"""How well a decision tree tells synthetic rows from original ones: pMSE over the tables.

Takes a `Paired` and a section of a study; gives a `Score`. The propensity score is Snoke et al., "General and
specific utility measures for synthetic data", 2018, doi:10.1111/rssa.12358; the tree and the mean over the tables are
those of SDNIST and of P. Francis, arXiv:2403.08463, section 4.6.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.evaluation.data.paired import Coded, Numbers, Paired
from engine.evaluation.data.words import finite, nothing_to_compare
from engine.evaluation.score import Score, Section, not_computed, optional
from engine.evaluation.threads import in_threads
from engine.schema import ColumnSet

NAME = "propensity"
TREES_OF_WIDEST = 4
"""Trees that are grown on the widest table, where equally good splits may be taken either way."""
LARGEST_REPEATED = 1 << 22
"""Rows times columns of a table for which several are grown, at most: in larger ones ties are rare."""
_LARGEST_KEY = 1 << 62
_DENSE = 16
"""Rows are counted in an array of all that could be, where it has at most so many cells a row."""
Floats = NDArray[np.float64]
Ranks = NDArray[np.float32]


class Propensity(Section):
    """How well a decision tree tells synthetic rows from original ones."""

    depth: int = 6  # Depth of the tree
    binned: tuple[str, ...] = ()  # Columns that are binned first
    # Columns whose blanks are the highest value; elsewhere they are the lowest.
    blanks_last: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Stacked:
    """Distinct rows of both sides under each other."""

    ranks: Ranks
    is_synthetic: NDArray[np.int8]
    n: Floats


def propensity(
    paired: Paired, section: Propensity, *, report: Callable[[int, int], None] | None = None
) -> Score:
    """Mean squared distance of a tree's guess "this row is synthetic" from the share of synthetic rows.

    A decision tree is grown on the rows of the original and of one table; 0 if it cannot tell them apart. Where two
    splits are equally good a tree takes either: on the widest table several are grown, and the one that tells most
    counts.
    """
    if (why := nothing_to_compare(paired)) is not None:
        return not_computed(NAME, why)
    tables = {c: t for c, t in paired.tables.items() if t.total}
    widest = max(tables, key=lambda c: (len(c), len(tables[c].n)))
    rows = []

    def told_apart(columns: ColumnSet) -> float | None:
        stacked = _stacked(paired, tables[columns], section)
        return None if stacked is None else _grown(stacked, section.depth, columns == widest)

    for done, (columns, pmse) in enumerate(
        zip(tables, in_threads(told_apart, tables), strict=True)
    ):
        if pmse is not None:
            rows.append((", ".join(columns), pmse, columns == widest))
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
        why_not=why_not,
        notes=_notes(paired, len(whole)),
        over=len(widest),
    )


def _notes(paired: Paired, n: int) -> tuple[str, ...]:
    """What a reader must know of the tables."""
    absent = len(paired.tables) - n
    return (f"{absent:,} tables are left out, as they have no rows",) if absent else ()


def _grown(stacked: _Stacked, depth: int, is_widest: bool) -> float:
    """The largest pMSE of some trees."""
    DecisionTreeClassifier = optional("sklearn.tree", "propensity scores").DecisionTreeClassifier
    share = float(stacked.n[stacked.is_synthetic == 1].sum() / stacked.n.sum())
    is_small = stacked.ranks.size <= LARGEST_REPEATED
    pmse = []
    for seed in range(TREES_OF_WIDEST if is_widest and is_small else 1):
        tree = DecisionTreeClassifier(max_depth=depth, random_state=seed)
        tree.fit(stacked.ranks, stacked.is_synthetic, sample_weight=stacked.n)
        # As `predict_proba`, most of whose time are checks.
        guess: Floats = tree.tree_.predict(stacked.ranks)[:, 1]
        pmse.append(float(np.average((guess - share) ** 2, weights=stacked.n)))
    return max(pmse)


def _stacked(paired: Paired, table: Coded, section: Propensity) -> _Stacked | None:
    """Distinct rows of both sides; the tree sees the same as of all rows, only sooner. None where a side has none."""
    of_codes = [_ranks_of_codes(paired, name, section) for name in table.columns]
    sides = [_distinct(side, table.columns, of_codes) for side in (paired.original, table)]
    if not all(n.sum() for _, n in sides):
        return None
    return _Stacked(
        # Column by column, as trees read it.
        ranks=np.asfortranarray(np.concatenate([ranks for ranks, _ in sides])),
        is_synthetic=np.repeat(np.array([0, 1], np.int8), [len(n) for _, n in sides]),
        n=np.concatenate([n for _, n in sides]),
    )


def _ranks_of_codes(paired: Paired, name: str, section: Propensity) -> Numbers:
    """Rank of each code of a column, the blank's last; the lowest is -1."""
    if name in section.binned and name in paired.groupings:
        return paired.groupings[name].group
    ranks = np.arange(len(paired.values[name]) + 1)
    if name not in section.blanks_last:
        ranks[-1] = -1
    return ranks


def _distinct(side: Coded, columns: ColumnSet, of_codes: list[Numbers]) -> tuple[Ranks, Floats]:
    """Distinct rows of ranks and how often each is there; columns are numbered together one by one."""
    present = side.n > 0
    weights = side.n[present].astype(np.float64)
    widths = [int(one.max()) + 2 for one in of_codes]
    if prod(widths) <= _DENSE * len(weights):
        return _counted(side, columns, of_codes, widths, present)
    ranks = np.empty((len(weights), len(columns)), np.float32)
    key, size = np.zeros(len(ranks), np.int64), 1
    for i, name in enumerate(columns):
        own = of_codes[i][side.codes[name][present]]
        if size * widths[i] > _LARGEST_KEY:
            distinct_keys, key = np.unique(key, return_inverse=True)
            size = len(distinct_keys)
        key, size = key * widths[i] + own + 1, size * widths[i]
        ranks[:, i] = own
    _, first, place = np.unique(key, return_index=True, return_inverse=True)
    each: Floats = np.bincount(place, weights, minlength=len(first)).astype(np.float64)
    return ranks[first], each


def _counted(
    side: Coded,
    columns: ColumnSet,
    of_codes: list[Numbers],
    widths: list[int],
    present: NDArray[np.bool_],
) -> tuple[Ranks, Floats]:
    """The same, in the same order, counted in an array of all rows that could be: nothing is sorted."""
    key = np.zeros(int(present.sum()), np.int64)
    for name, ranks_of, width in zip(columns, of_codes, widths, strict=True):
        key = key * width + (ranks_of[side.codes[name][present]] + 1)
    there = np.flatnonzero(np.bincount(key))
    each: Floats = np.bincount(key, side.n[present].astype(np.float64))[there].astype(np.float64)
    ranks = np.empty((len(there), len(columns)), np.float32)
    for i in reversed(range(len(columns))):
        there, ranks[:, i] = there // widths[i], there % widths[i] - 1
    return ranks, each
