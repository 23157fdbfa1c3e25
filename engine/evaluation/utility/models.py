"""How well models tell synthetic records from original ones: logistic regression with interactions, and a tree.

Takes a `Paired` and a section of a study; gives a `Score`. Definitions: Woo et al., "Global measures of data
utility for microdata masked for disclosure limitation", doi:10.29012/jpc.v1i1.568, section 3; the ratio to what chance
gives: Snoke et al., doi:10.1111/rssa.12358, section 3, and synthpop's `utility.gen`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field

from engine.evaluation.data.paired import Coded, Numbers, Paired, covering
from engine.evaluation.data.sampling import positions, rows_of
from engine.evaluation.score import Score, Section, not_computed, optional
from engine.evaluation.utility.tables import quantile_groups, weights_of_values

Floats = NDArray[np.float64]
NAME = "models"
_RIDGE = 1e-4
_FEWEST = 20
_LEAF = 5
_PERMUTATIONS = 5
_MOST_PARAMETERS = 600
_RECORDS_A_PARAMETER = 10


class Models(Section):
    """Propensity scores by logistic regression with interactions and by a tree (CART), over columns of one table."""

    columns: tuple[str, ...] = ()  # None: those of the widest table
    leave_out: tuple[str, ...] = ()
    groups: int = Field(default=5, ge=2)  # Numbers are cut at so many quantiles for the regression
    most_levels: int = Field(default=8, ge=2)  # Rarer levels of a column are put together
    interactions: bool = True  # Products of all pairs of columns, too
    # Rows of each side that are looked at; a sample where there are more.
    rows: int = Field(default=20_000, ge=10)
    depth: int = Field(default=8, ge=1)  # Depth of the tree


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Propensities:
    """What a model thinks of groups of records."""

    # shape (n_groups,): Propensity: probability that a record of the group is synthetic.
    guess: Floats
    # original, synthetic: shape (n_groups,): Records of the group.
    original: Floats
    synthetic: Floats

    @property
    def share(self) -> float:
        """Share of synthetic records, c."""
        return float(self.synthetic.sum() / (self.original.sum() + self.synthetic.sum()))

    @property
    def pmse(self) -> float:
        """Mean squared distance of the propensities from the share."""
        n = self.original + self.synthetic
        return float((n * (self.guess - self.share) ** 2).sum() / n.sum())

    @property
    def auc(self) -> float:
        """Chance that a synthetic record has a higher propensity than an original one; ties count half."""
        from sklearn.metrics import roc_auc_score

        truth, guess = np.repeat([0, 1], len(self.guess)), np.tile(np.round(self.guess, 12), 2)
        weights = np.concatenate([self.original, self.synthetic])
        return float(roc_auc_score(truth, guess, sample_weight=weights))


def logistic(features: Floats, original: Floats, synthetic: Floats) -> tuple[Propensities, int]:
    """Fit a logistic regression with a ridge of 0.0001, which keeps separable groups finite."""
    from sklearn.linear_model import LogisticRegression

    n = original + synthetic
    n_parameters = _rank((features * n[:, None]).T @ features)
    guess = np.full(len(n), float(synthetic.sum() / n.sum()))
    if features.shape[1] > 1:
        sides = [np.flatnonzero(side) for side in (original, synthetic)]
        rows = np.concatenate(sides)
        weights = np.concatenate([original[sides[0]], synthetic[sides[1]]])
        model = LogisticRegression(C=1 / _RIDGE, solver="newton-cholesky", tol=1e-9)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # separable groups: the last steps change no guess
            labels = np.repeat([0, 1], list(map(len, sides)))
            model.fit(features[rows, 1:], labels, sample_weight=weights)
        guess = model.predict_proba(features[:, 1:])[:, 1]
    return Propensities(guess=guess, original=original, synthetic=synthetic), n_parameters


def _rank(bend: Floats) -> int:
    """Number of parameters that the records identify."""
    scale = np.sqrt(np.diag(bend))
    eigenvalues = np.linalg.eigvalsh(bend / np.outer(scale, scale))
    return int((eigenvalues > 1e-9 * eigenvalues.max()).sum())


def expected_pmse(share: float, n: float, n_parameters: int) -> float:
    """Return the pMSE that a correct synthesis has on average (Snoke et al. 2018, section 3.2)."""
    return (n_parameters - 1) * (1 - share) ** 2 * share / n


def propensity_models(paired: Paired, section: Models, rng: np.random.Generator) -> Score:
    """Measure how well two models tell synthetic records from original ones, on the records that they learn from.

    The logistic regression reads columns as groups (numbers at quantiles, rarer values together), and all products of
    two columns; where these are more than 600 parameters, or one for 10 records, of coarser groups. The tree reads
    columns as they are. Of larger tables both sides are sampled: at the same places where they are of one size, so
    that a copy stays a copy.

    Returns: `logistic_pmse`, `logistic_s_pmse`, `logistic_auc`, `logistic_parameters`, `cart_pmse`,
    `cart_ratio`, `cart_auc`; broken down by model.
    """
    table, columns = _table(paired, section)
    if table is None or not columns:
        return not_computed(NAME, "no table has the columns of the models")
    if min(paired.original.total, table.total) < _FEWEST:
        return not_computed(NAME, f"the models need {_FEWEST} records of each side")
    original, synthetic = _samples(paired.original, table, columns, section.rows, rng)
    values, notes, why_not = _logistic_values(paired, original, synthetic, columns, section)
    tree = _tree_values(paired, original, synthetic, columns, section, rng)
    if "cart_ratio" not in tree:
        why_not["cart_ratio"] = "trees of shuffled records do not split: chance gives 0"
    values |= tree
    if table.total > section.rows or paired.original.total > section.rows:
        notes.append(f"samples of {section.rows} records of a side are looked at")
    if len(paired.tables) > 1:
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


def _table(paired: Paired, section: Models) -> tuple[Coded | None, list[str]]:
    """The table that the models look at, and which of its columns."""
    columns = [c for c in section.columns if c not in section.leave_out]
    if section.columns:
        return covering(paired, columns), columns
    widest = max(
        paired.tables.values(),
        key=lambda t: (len(set(t.columns) - set(section.leave_out)), len(t.n)),
        default=None,
    )
    return widest, [] if widest is None else [
        c for c in widest.columns if c not in section.leave_out
    ]


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
    paired: Paired, original: Coded, synthetic: Coded, columns: Sequence[str], section: Models
) -> tuple[dict[str, float], list[str], dict[str, str]]:
    """Figures of the regression, notes, and what could not be computed."""
    levels = [_levels(paired, c, section) for c in columns]
    most = (len(original.n) + len(synthetic.n)) // _RECORDS_A_PARAMETER
    finest, coarse = _sizes(levels, section, min(most, _MOST_PARAMETERS))
    levels = [np.minimum(group, finest - 1) for group in levels]
    notes = _of_sizes(section, max(int(g.max()) + 1 for g in levels), finest, coarse)
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
    fit, rank = logistic(features, counted[0], counted[1])
    values = {
        "logistic_pmse": fit.pmse,
        "logistic_auc": fit.auc,
        "logistic_parameters": float(rank),
    }
    if rank < 2:
        return values, notes, {"logistic_s_pmse": "all columns are constant"}
    expected = expected_pmse(fit.share, float(len(at)), rank)
    return {**values, "logistic_s_pmse": fit.pmse / expected}, notes, {}


def _levels(paired: Paired, column: str, section: Models) -> Numbers:
    """Level of each code of a column, the most frequent first; rarer ones are the last together."""
    grouping = quantile_groups(paired, column, section.groups)
    n = np.bincount(grouping.group, weights_of_values(paired, column), minlength=grouping.n_groups)
    rank = np.empty(grouping.n_groups, np.int64)
    rank[np.argsort(-n, kind="stable")] = np.arange(grouping.n_groups)
    return np.asarray(np.minimum(rank, section.most_levels - 1)[grouping.group])


def _sizes(levels: Sequence[Numbers], section: Models, most: int) -> tuple[int, int]:
    """Most levels of a column, and of one in products, that keep the parameters few; 1: no products."""
    n_levels = [int(group.max()) + 1 for group in levels]
    finest = section.most_levels
    coarse = section.most_levels if section.interactions else 1
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


def _of_sizes(section: Models, largest: int, finest: int, coarse: int) -> list[str]:
    """What the regression leaves out, in words."""
    notes = []
    if finest < section.most_levels:
        notes.append(f"columns are read as their {finest} largest groups, the rest together")
    if section.interactions and coarse == 1:
        notes.append("too many columns for so few records: no products of two columns")
    elif section.interactions and coarse < min(largest, section.most_levels):
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
    paired: Paired,
    original: Coded,
    synthetic: Coded,
    columns: Sequence[str],
    section: Models,
    rng: np.random.Generator,
) -> dict[str, float]:
    """Figures of the tree; no ratio where chance gives 0."""
    DecisionTreeClassifier = optional("sklearn.tree", "models").DecisionTreeClassifier
    sides = (original, synthetic)
    blank = {c: len(paired.values[c]) for c in columns}
    codes = [np.concatenate([side.codes[c] for side in sides]) for c in columns]
    ranks = [np.where(k == blank[c], -1, k) for c, k in zip(columns, codes, strict=True)]
    features = np.column_stack(ranks).astype(np.float32)
    truth = np.repeat(np.array([0, 1], np.int8), [len(side.n) for side in sides])

    def grown(label: NDArray[np.int8]) -> Propensities:
        tree = DecisionTreeClassifier(
            max_depth=section.depth, min_samples_leaf=_LEAF, random_state=0
        )
        guess = tree.fit(features, label).predict_proba(features)[:, 1]
        is_synthetic = label.astype(np.float64)
        return Propensities(guess=guess, original=1 - is_synthetic, synthetic=is_synthetic)

    propensities = grown(truth)
    values = {"cart_pmse": propensities.pmse, "cart_auc": propensities.auc}
    # A shuffle moves both sides; of a correct synthesis only the synthetic one varies: 1 - share of that.
    chance = np.mean([grown(rng.permutation(truth)).pmse for _ in range(_PERMUTATIONS)])
    chance *= 1 - propensities.share
    return {**values, "cart_ratio": propensities.pmse / float(chance)} if chance > 0 else values
