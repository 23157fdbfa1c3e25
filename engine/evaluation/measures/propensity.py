"""How well models distinguish synthetic records from original ones: a tree on every table, two models of the widest.

The propensity score is Snoke et al. 2018, doi:10.1111/rssa.12358; the tree on every table and the mean over them are
those of SDNIST and of P. Francis, arXiv:2403.08463, section 4.6; logistic regression with interactions and the tree of
the widest table: Woo et al., doi:10.29012/jpc.v1i1.568, section 3.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field

from engine.evaluation.data.aligned import (
    Aligned,
    Coded,
    Floats,
    Numbers,
    covering,
    joint_ids,
    nothing_to_compare,
    positions,
)
from engine.evaluation.findings import Finding, Section, not_computed, optional
from engine.evaluation.measures.combinations import quantile_groups, weights_of_values
from engine.schema import ColumnSet

TREES_OF_WIDEST = 4
"""Trees that are grown on the widest table, where equally good splits may be taken either way."""
LARGEST_REPEATED = 1 << 22
"""Rows times columns of a table for which several are grown, at most: in larger ones ties are rare."""
_RIDGE, _FEWEST, _LEAF, _PERMUTATIONS = 1e-4, 20, 5, 5
_MOST_PARAMETERS, _RECORDS_A_PARAMETER = 600, 10


class Propensity(Section):
    """How well a decision tree distinguishes synthetic rows from original ones."""

    depth: int = 6  # Depth of the tree
    binned: tuple[str, ...] = ()  # Columns that are binned first
    # Columns whose blanks are the highest value; elsewhere they are the lowest.
    blanks_last: tuple[str, ...] = ()


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


def propensity(aligned: Aligned, options: Propensity) -> Finding:
    """Mean squared distance of a tree's guess "this row is synthetic" from the share of synthetic rows.

    A decision tree is grown on the rows of the original and of one table; 0 if it cannot distinguish them. Where two
    splits are equally good a tree takes either: on the widest table several are grown, and the one that separates best
    counts.
    """
    if (why := nothing_to_compare(aligned)) is not None:
        return not_computed("propensity", why)
    tables = {c: t for c, t in aligned.tables.items() if t.total}
    widest = max(tables, key=lambda c: (len(c), len(tables[c].n)))
    tree_of = optional("sklearn.tree", "propensity scores").DecisionTreeClassifier
    rows: list[tuple[str, float, bool]] = []
    ranked = {}  # Rank of each code of a column, the blank's last; the lowest is -1
    for name, values_of in aligned.values.items():
        ranked[name] = np.arange(len(values_of) + 1)
        if name in options.binned and name in aligned.groupings:
            ranked[name] = aligned.groupings[name].group
        elif name not in options.blanks_last:
            ranked[name][-1] = -1
    for columns, table in tables.items():
        ranks = [ranked[name] for name in columns]
        sides = [_distinct(side, columns, ranks) for side in (aligned.original, table)]
        if not all(n.sum() for _, n in sides):
            continue
        # On the distinct rows of both sides: the same as on all rows, only sooner.
        features = np.asfortranarray(np.concatenate([own for own, _ in sides]))  # as trees read it
        is_synthetic = np.repeat(np.array([0, 1], np.int8), [len(n) for _, n in sides])
        n = np.concatenate([n for _, n in sides])
        share, pmse = float(sides[1][1].sum() / n.sum()), []
        is_several = columns == widest and features.size <= LARGEST_REPEATED
        for seed in range(TREES_OF_WIDEST if is_several else 1):
            tree = tree_of(max_depth=options.depth, random_state=seed)
            tree.fit(features, is_synthetic, sample_weight=n)
            # `predict_proba`, most of whose time are checks
            guess: Floats = tree.tree_.predict(features)[:, 1]
            pmse.append(float(np.average((guess - share) ** 2, weights=n)))
        rows.append((", ".join(columns), max(pmse), columns == widest))
    whole = pd.DataFrame(rows, columns=["table", "pmse", "is_widest"])
    absent = len(aligned.tables) - len(whole)
    return Finding(
        "propensity",
        {
            "pmse": whole["pmse"].mean(),
            "pmse_wide": whole.loc[whole["is_widest"], "pmse"].mean(),
            "largest": whole["pmse"].max(),
            "n": len(whole),
        },
        whole.drop(columns="is_widest"),
        why="all values lie outside the declared groups",
        notes=(f"{absent:,} tables are left out, as they have no rows",) if absent else (),
        over=len(widest),
    )


def _distinct(
    side: Coded, columns: ColumnSet, of_codes: list[Numbers]
) -> tuple[NDArray[np.float32], Floats]:
    present = side.n > 0
    weights = side.n[present].astype(np.float64)
    own = [ranks[side.codes[c][present]] for c, ranks in zip(columns, of_codes, strict=True)]
    each = ((one + 1, int(one.max(initial=0)) + 2) for one in own)
    ids, size = joint_ids(each, len(weights))
    first = np.zeros(size, np.int64)
    first[ids[::-1]] = np.arange(len(ids))[::-1]
    return np.column_stack(own)[first].astype(np.float32), np.bincount(ids, weights).astype(
        np.float64
    )


# Models of the widest table


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Propensities:
    """What a model predicts for groups of records."""

    guess: Floats  # shape (n_groups,): Probability that a record of the group is synthetic
    original: Floats  # original, synthetic: shape (n_groups,): Records of the group
    synthetic: Floats

    @property
    def share(self) -> float:
        return float(self.synthetic.sum() / (self.original.sum() + self.synthetic.sum()))

    @property
    def pmse(self) -> float:
        n = self.original + self.synthetic
        return float((n * (self.guess - self.share) ** 2).sum() / n.sum())

    @property
    def auc(self) -> float:
        """Chance that a synthetic record has a higher propensity than an original one; ties count half."""
        auc = optional("sklearn.metrics", "models").roc_auc_score
        truth, guess = np.repeat([0, 1], len(self.guess)), np.tile(np.round(self.guess, 12), 2)
        weights = np.concatenate([self.original, self.synthetic])
        return float(auc(truth, guess, sample_weight=weights))


def logistic(features: Floats, original: Floats, synthetic: Floats) -> tuple[Propensities, int]:
    """Fit a logistic regression with a ridge of 0.0001, which keeps separable groups finite; and its parameters."""
    n = original + synthetic
    bend = (features * n[:, None]).T @ features
    scale = np.sqrt(np.diag(bend))
    eigenvalues = np.linalg.eigvalsh(bend / np.outer(scale, scale))
    n_parameters = int((eigenvalues > 1e-9 * eigenvalues.max()).sum())  # that the records identify
    guess = np.full(len(n), float(synthetic.sum() / n.sum()))
    if features.shape[1] > 1:
        sides = [np.flatnonzero(side) for side in (original, synthetic)]
        weights = np.concatenate([original[sides[0]], synthetic[sides[1]]])
        regression = optional("sklearn.linear_model", "models").LogisticRegression
        model = regression(C=1 / _RIDGE, solver="newton-cholesky", tol=1e-9)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # separable groups: the last steps change no guess
            labels = np.repeat([0, 1], list(map(len, sides)))
            model.fit(features[np.concatenate(sides), 1:], labels, sample_weight=weights)
        guess = model.predict_proba(features[:, 1:])[:, 1]
    return Propensities(guess=guess, original=original, synthetic=synthetic), n_parameters


def expected_pmse(share: float, n: float, n_parameters: int) -> float:
    """The pMSE that a correct synthesis has on average (Snoke et al. 2018, section 3.2)."""
    return (n_parameters - 1) * (1 - share) ** 2 * share / n


def propensity_models(aligned: Aligned, options: Models, rng: np.random.Generator) -> Finding:
    """Measure how well two models distinguish synthetic from original records, on the records that they learn from.

    The logistic regression reads columns as groups (numbers at quantiles, rarer values together), and all products of
    two columns; where these are more than 600 parameters, or one for 10 records, of coarser groups. The tree reads
    columns as they are. Of larger tables both sides are sampled: at the same places where they are of one size, so
    that a copy stays a copy.
    """
    left_out = set(options.leave_out)
    columns = [c for c in options.columns if c not in left_out]
    if options.columns:
        table = covering(aligned, columns)
    else:
        table = max(
            aligned.tables.values(),
            key=lambda t: (len(set(t.columns) - left_out), len(t.n)),
            default=None,
        )
        columns = [] if table is None else [c for c in table.columns if c not in left_out]
    if table is None or not columns:
        return not_computed("models", "no table has the columns of the models")
    if min(aligned.original.total, table.total) < _FEWEST:
        return not_computed("models", f"the models need {_FEWEST} records of each side")
    original, synthetic = _samples(aligned.original, table, columns, options.rows, rng)
    figures, notes = _logistic_figures(aligned, original, synthetic, columns, options)
    ranks = []
    for c in columns:
        codes = np.concatenate([original.codes[c], synthetic.codes[c]])
        ranks.append(np.where(codes == len(aligned.values[c]), -1, codes))
    features = np.column_stack(ranks).astype(np.float32)
    truth = np.repeat(np.array([0, 1], np.int8), [len(original.n), len(synthetic.n)])
    tree_of = optional("sklearn.tree", "models").DecisionTreeClassifier

    def grown(label: NDArray[np.int8]) -> Propensities:
        tree = tree_of(max_depth=options.depth, min_samples_leaf=_LEAF, random_state=0)
        guess = tree.fit(features, label).predict_proba(features)[:, 1]
        is_synthetic = label.astype(np.float64)
        return Propensities(guess=guess, original=1 - is_synthetic, synthetic=is_synthetic)

    found = grown(truth)
    # A shuffle moves both sides; of a correct synthesis only the synthetic one varies: 1 - share of that.
    shuffled = [grown(rng.permutation(truth)).pmse for _ in range(_PERMUTATIONS)]
    chance = float(np.mean(shuffled)) * (1 - found.share)
    no_split = "trees of shuffled records do not split: chance gives 0"
    figures |= {
        "cart_pmse": found.pmse,
        "cart_auc": found.auc,
        "cart_ratio": found.pmse / chance if chance > 0 else no_split,
    }
    if table.total > options.rows or aligned.original.total > options.rows:
        notes.append(f"samples of {options.rows} records of a side are looked at")
    if len(aligned.tables) > 1:
        notes.append(f"of several tables the one of {', '.join(table.columns)} is looked at")
    rows = [(n, figures[f"{n}_pmse"], figures[f"{n}_auc"]) for n in ("logistic", "cart")]
    by_model = pd.DataFrame(rows, columns=["model", "pmse", "auc"])
    return Finding("models", figures, by_model, notes=notes, over=len(columns))


def _samples(
    original: Coded, table: Coded, columns: Sequence[str], most: int, rng: np.random.Generator
) -> tuple[Coded, Coded]:
    """Rows of both sides, one a record; drawn in the order of their values, so that the files' order is nothing."""
    places = positions(original.total, most, rng)
    others = places if table.total == original.total else positions(table.total, most, rng)
    sides = []
    for side, drawn in ((original, places), (table, others)):
        order = np.lexsort([side.codes[c] for c in columns])
        sides.append(
            side.rows(order[np.searchsorted(np.cumsum(side.n[order]), drawn, side="right")])
        )
    return sides[0], sides[1]


def _logistic_figures(
    aligned: Aligned, original: Coded, synthetic: Coded, columns: Sequence[str], options: Models
) -> tuple[dict[str, Any], list[str]]:
    """Figures of the regression, and notes."""
    levels = [_levels(aligned, c, options) for c in columns]
    n_levels = [int(group.max()) + 1 for group in levels]
    most = min((len(original.n) + len(synthetic.n)) // _RECORDS_A_PARAMETER, _MOST_PARAMETERS)
    finest, coarse = options.most_levels, options.most_levels if options.interactions else 1
    while coarse > 1 and _n_parameters(n_levels, finest, coarse) > most:
        coarse -= 1
    while finest > 2 and _n_parameters(n_levels, finest, coarse) > most:
        finest -= 1
    notes = []
    n_levels = [min(n, finest) for n in n_levels]
    if finest < options.most_levels:
        notes.append(f"columns are read as their {finest} largest groups, the rest together")
    if options.interactions and coarse == 1:
        notes.append("too many columns for so few records: no products of two columns")
    elif options.interactions and coarse < min(max(n_levels), options.most_levels):
        notes.append(f"products are of {coarse} groups a column, the last of all rarer ones")
    levels = [np.minimum(group, finest - 1) for group in levels]
    sides = [
        np.column_stack([g[s.codes[c]] for c, g in zip(columns, levels, strict=True)])
        for s in (original, synthetic)
    ]
    rows, at = np.unique(np.concatenate(sides), axis=0, return_inverse=True)
    counted = [
        np.bincount(where, minlength=len(rows)).astype(np.float64)
        for where in np.split(at.ravel(), [len(sides[0])])
    ]
    found, rank = logistic(_design(rows, coarse), counted[0], counted[1])
    expected = expected_pmse(found.share, float(len(at)), rank)
    return {
        "logistic_pmse": found.pmse,
        "logistic_auc": found.auc,
        "logistic_parameters": rank,
        "logistic_s_pmse": found.pmse / expected if rank > 1 else "all columns are constant",
    }, notes


def _levels(aligned: Aligned, column: str, options: Models) -> Numbers:
    """Level of each code of a column, the most frequent first; rarer ones are the last together."""
    grouping = quantile_groups(aligned, column, options.groups)
    weights = weights_of_values(aligned, column)
    n = np.bincount(grouping.group, weights, minlength=grouping.n_groups)
    rank = np.empty(grouping.n_groups, np.int64)
    rank[np.argsort(-n, kind="stable")] = np.arange(grouping.n_groups)
    return np.asarray(np.minimum(rank, options.most_levels - 1)[grouping.group])


def _n_parameters(n_levels: Sequence[int], finest: int, coarse: int) -> int:
    """How many indicators and products of two there are, with the intercept."""
    free = [min(n, coarse) - 1 for n in n_levels]
    main = sum(min(n, finest) - 1 for n in n_levels)
    return 1 + main + (sum(free) ** 2 - sum(f * f for f in free)) // 2


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
