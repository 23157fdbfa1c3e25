"""How well models tell synthetic records from original ones: logistic regression with interactions, and a tree.

Takes a `Comparison` and a section of a study; gives a `Score`. Definitions: Woo et al., "Global measures of data
utility for microdata masked for disclosure limitation", doi:10.29012/jpc.v1i1.568, section 3; the ratio to what chance
gives: Snoke et al., doi:10.1111/rssa.12358, section 3, and synthpop's `utility.gen`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.errors import StoreError
from engine.score import Score, not_computed
from engine.study_sections import Models
from engine.utility.comparison import Coded, Comparison, Numbers, covering
from engine.utility.logistic import Propensities, expected_pmse, logistic
from engine.utility.sampling import positions, rows_of
from engine.utility.tables import quantile_groups, weights_of_values

Floats = NDArray[np.float64]
NAME = "models"
_FEWEST = 20
_LEAF = 5
_PERMUTATIONS = 5
_MOST_PARAMETERS = 600
_RECORDS_A_PARAMETER = 10


def propensity_models(comparison: Comparison, told: Models, rng: np.random.Generator) -> Score:
    """Measure how well two models tell synthetic records from original ones, on the records that they learn from.

    The logistic regression reads columns as groups (numbers at quantiles, rarer values together), and all products of
    two columns; where these are more than 600 parameters, or one for 10 records, of coarser groups. The tree reads
    columns as they are. Of larger tables both sides are sampled: at the same places where they are of one size, so
    that a copy stays a copy.

    Parameters
    ----------
    comparison : Comparison
    told : Models
    rng : numpy Generator
        Draws the samples and shuffles.

    Returns
    -------
    Score
        `logistic_pmse`, `logistic_s_pmse`, `logistic_auc`, `logistic_parameters`, `cart_pmse`, `cart_ratio`,
        `cart_auc`; broken down by model.

    Raises
    ------
    StoreError
        scikit-learn is not installed.
    """
    table, columns = _table(comparison, told)
    if table is None or not columns:
        return not_computed(NAME, "no table has the columns of the models")
    if min(comparison.original.total, table.total) < _FEWEST:
        return not_computed(NAME, f"the models need {_FEWEST} records of each side")
    original, synthetic = _samples(comparison.original, table, columns, told.rows, rng)
    values, notes, why_not = _logistic_values(comparison, original, synthetic, columns, told)
    tree = _tree_values(comparison, original, synthetic, columns, told, rng)
    if "cart_ratio" not in tree:
        why_not["cart_ratio"] = "trees of shuffled records do not split: chance gives 0"
    values |= tree
    if table.total > told.rows or comparison.original.total > told.rows:
        notes.append(f"samples of {told.rows} records of a side are looked at")
    if len(comparison.tables) > 1:
        notes.append(f"of several tables the one of {', '.join(table.columns)} is looked at")
    rows = [(n, values[f"{n}_pmse"], values[f"{n}_auc"]) for n in ("logistic", "cart")]
    return Score(
        measure=NAME,
        values=values,
        breakdown=pd.DataFrame(rows, columns=["model", "pmse", "auc"]),
        why_not=why_not,
        notes=tuple(notes),
        over=len(columns),
    )


def _table(comparison: Comparison, told: Models) -> tuple[Coded | None, list[str]]:
    """The table that the models look at, and which of its columns."""
    columns = [c for c in told.columns if c not in told.leave_out]
    if told.columns:
        return covering(comparison, columns), columns
    widest = max(
        comparison.tables.values(),
        key=lambda t: (len(set(t.columns) - set(told.leave_out)), len(t.n)),
        default=None,
    )
    return widest, [] if widest is None else [c for c in widest.columns if c not in told.leave_out]


def _samples(
    original: Coded, table: Coded, columns: Sequence[str], most: int, rng: np.random.Generator
) -> tuple[Coded, Coded]:
    """Rows of both sides, one a record; drawn in the order of their values, so that the files' order is nothing."""
    places = positions(original.total, most, rng)
    others = places if table.total == original.total else positions(table.total, most, rng)
    sides = []
    for side, drawn in ((original, places), (table, others)):
        order = np.lexsort([side.codes[c] for c in columns])
        at = np.searchsorted(np.cumsum(side.n[order]), drawn, side="right")
        sides.append(rows_of(side, order[at]))
    return sides[0], sides[1]


def _logistic_values(
    comparison: Comparison, original: Coded, synthetic: Coded, columns: Sequence[str], told: Models
) -> tuple[dict[str, float], list[str], dict[str, str]]:
    """Figures of the regression, notes, and what could not be computed."""
    levels = [_levels(comparison, c, told) for c in columns]
    most = (len(original.n) + len(synthetic.n)) // _RECORDS_A_PARAMETER
    finest, coarse = _sizes(levels, told, min(most, _MOST_PARAMETERS))
    levels = [np.minimum(group, finest - 1) for group in levels]
    notes = _of_sizes(told, max(int(g.max()) + 1 for g in levels), finest, coarse)
    sides = [
        np.column_stack([g[s.codes[c]] for c, g in zip(columns, levels, strict=True)])
        for s in (original, synthetic)
    ]
    rows, at = np.unique(np.concatenate(sides), axis=0, return_inverse=True)
    n_original = len(sides[0])
    counted = [
        np.bincount(where.ravel(), minlength=len(rows)).astype(np.float64)
        for where in (at[:n_original], at[n_original:])
    ]
    features = _design(rows, coarse)
    found, rank = logistic(features, counted[0], counted[1])
    values = {
        "logistic_pmse": found.pmse,
        "logistic_auc": found.auc,
        "logistic_parameters": float(rank),
    }
    if rank < 2:
        return values, notes, {"logistic_s_pmse": "all columns are constant"}
    expected = expected_pmse(found.share, float(len(at)), rank)
    return {**values, "logistic_s_pmse": found.pmse / expected}, notes, {}


def _levels(comparison: Comparison, column: str, told: Models) -> Numbers:
    """Level of each code of a column, the most frequent first; rarer ones are the last together."""
    grouping = quantile_groups(comparison, column, told.groups)
    n = np.bincount(
        grouping.group, weights_of_values(comparison, column), minlength=grouping.n_groups
    )
    rank = np.empty(grouping.n_groups, np.int64)
    rank[np.argsort(-n, kind="stable")] = np.arange(grouping.n_groups)
    return np.asarray(np.minimum(rank, told.most_levels - 1)[grouping.group])


def _sizes(levels: Sequence[Numbers], told: Models, most: int) -> tuple[int, int]:
    """Most levels of a column, and of one in products, that keep the parameters few; 1: no products."""
    n_levels = [int(group.max()) + 1 for group in levels]
    finest = told.most_levels
    coarse = told.most_levels if told.interactions else 1
    while coarse > 1 and _n_parameters(n_levels, finest, coarse) > most:
        coarse -= 1
    while finest > 2 and _n_parameters(n_levels, finest, coarse) > most:
        finest -= 1
    return finest, coarse


def _n_parameters(n_levels: Sequence[int], finest: int, coarse: int) -> int:
    """How many indicators and products of two there are, with the intercept."""
    main = sum(min(n, finest) - 1 for n in n_levels)
    free = [min(n, coarse) - 1 for n in n_levels]
    return 1 + main + (sum(free) ** 2 - sum(f * f for f in free)) // 2


def _of_sizes(told: Models, largest: int, finest: int, coarse: int) -> list[str]:
    """What the regression leaves out, in words."""
    notes = []
    if finest < told.most_levels:
        notes.append(f"columns are read as their {finest} largest groups, the rest together")
    if told.interactions and coarse == 1:
        notes.append("too many columns for so few records: no products of two columns")
    elif told.interactions and coarse < min(largest, told.most_levels):
        notes.append(f"products are of {coarse} groups a column, the last of all rarer ones")
    return notes


def _design(rows: Numbers, coarse: int) -> Floats:
    """Intercept, an indicator of each level but the most frequent, and products; empty ones are left out."""
    main, parts = [], []
    for level in rows.T:
        main.append(level[:, None] == np.arange(1, level.max(initial=0) + 1))
        top = np.minimum(level, coarse - 1)
        parts.append(top[:, None] == np.arange(1, top.max(initial=0) + 1))
    products = [
        (a[:, :, None] & b[:, None, :]).reshape(len(rows), -1) for a, b in combinations(parts, 2)
    ]
    whole = np.concatenate([np.ones((len(rows), 1), np.bool_), *main, *products], axis=1)
    return whole[:, whole.any(axis=0)].astype(np.float64)


def _tree_values(
    comparison: Comparison,
    original: Coded,
    synthetic: Coded,
    columns: Sequence[str],
    told: Models,
    rng: np.random.Generator,
) -> dict[str, float]:
    """Figures of the tree; no ratio where chance gives 0."""
    try:
        from sklearn.tree import DecisionTreeClassifier
    except ImportError:
        raise StoreError("models need scikit-learn: pip install 'tablepack[evaluate]'") from None
    sides = (original, synthetic)
    blank = {c: len(comparison.values[c]) for c in columns}
    codes = [np.concatenate([side.codes[c] for side in sides]) for c in columns]
    ranks = [np.where(k == blank[c], -1, k) for c, k in zip(columns, codes, strict=True)]
    features = np.column_stack(ranks).astype(np.float32)
    truth = np.repeat(np.array([0, 1], np.int8), [len(side.n) for side in sides])

    def grown(label: NDArray[np.int8]) -> Propensities:
        tree = DecisionTreeClassifier(max_depth=told.depth, min_samples_leaf=_LEAF, random_state=0)
        guess = tree.fit(features, label).predict_proba(features)[:, 1]
        is_synthetic = label.astype(np.float64)
        return Propensities(guess=guess, original=1 - is_synthetic, synthetic=is_synthetic)

    found = grown(truth)
    values = {"cart_pmse": found.pmse, "cart_auc": found.auc}
    # A shuffle moves both sides; of a correct synthesis only the synthetic one varies: 1 - share of that.
    chance = np.mean([grown(rng.permutation(truth)).pmse for _ in range(_PERMUTATIONS)])
    chance *= 1 - found.share
    return {**values, "cart_ratio": found.pmse / float(chance)} if chance > 0 else values
