"""Sequential CART: each column drawn from the leaves of a tree that was grown on the columns before it.

The method of Reiter, "Using CART to generate partially synthetic, public use microdata", Journal of Official
Statistics 21 (2005), 441-462, with the settings of R's synthpop (Nowok, Raab and Dibben 2016,
doi:10.18637/jss.v074.i11): leaves of at least 5 rows, splits of at least 15, complexity 1e-8. Trees are scikit-learn's.
Invariant: a synthetic value is that of a row of its leaf.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from engine.evaluation.baselines.baseline import (
    Codes,
    Flags,
    Floats,
    Levels,
    Schema,
    floats_of,
    levels_of,
    sequentially,
    taken,
)
from engine.evaluation.findings import optional

LEAF, SPLIT, DEPTH = 5, 15, 30
"""Fewest rows of a leaf, and of a node that is split; depth of a tree at most."""
COMPLEXITY = 1e-8
"""Share of the impurity of the whole that a split must take away."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Predictor:
    """A column that later ones are grown on: levels, or numbers with a mark for blanks; original and synthetic."""

    levels: tuple[Codes, Codes] | None = None
    numbers: tuple[Floats, Floats] | None = None


def cart(frame: pd.DataFrame, schema: Schema, rng: np.random.Generator) -> pd.DataFrame:

    def drawn(column: pd.Series, grown: list[_Predictor], is_number: bool) -> pd.Series:
        n = len(column)
        if not grown:
            rows = rng.integers(n, size=n)
        elif is_number:
            rows = _of_numbers(floats_of(column), grown, rng)
        else:
            everyone = np.ones(n, np.bool_)
            rows = _donors(levels_of(column), grown, everyone, everyone, rng)
        return taken(column, rows)

    return sequentially(frame, schema, _predictor, drawn)


def _of_numbers(y: Floats, grown: list[_Predictor], rng: np.random.Generator) -> Codes:
    """Rows that give their number: first whether it is a blank, then which of the others."""
    n = len(y)
    blank = np.isnan(y)
    everyone = np.ones(n, np.bool_)
    rows = np.zeros(n, np.int64)
    drawn = everyone
    if blank.any():
        marks = levels_of(pd.Series(blank))
        rows = _donors(marks, grown, everyone, everyone, rng)
        drawn = ~blank[rows]
    if drawn.any():
        rows[drawn] = _donors(y, grown, ~blank, drawn, rng)
    return rows


def _donors(
    y: Levels | Floats,
    grown: list[_Predictor],
    learned: Flags,
    drawn: Flags,
    rng: np.random.Generator,
) -> Codes:
    """Grow a tree on some rows; for some synthetic ones draw a row of their leaf each."""
    there = np.flatnonzero(learned)
    target: Floats | Codes
    if isinstance(y, Levels):
        target, n_classes = y.codes[there], y.n
    else:  # numbers of which the squares can be summed
        target, n_classes = y[there] / max(float(np.abs(y[there]).max()), 1e-300), 0
    if (target == target[0]).all():
        return rng.choice(there, size=int(drawn.sum()))
    encoded = [_encoded(p, target, n_classes, there) for p in grown]
    learn = np.column_stack([columns for own, _ in encoded for columns in own])
    apply = np.column_stack([columns[drawn] for _, other in encoded for columns in other])
    tree = _tree(target, n_classes, rng).fit(learn, target)
    return there[leaf_draws(tree.apply(learn), tree.apply(apply), rng)]


def _tree(target: Floats | Codes, n_classes: int, rng: np.random.Generator) -> Any:
    trees = optional("sklearn.tree", "synthetic rows by CART")
    if n_classes:
        shares = np.bincount(target.astype(np.int64), minlength=n_classes) / len(target)
        kind, impurity = trees.DecisionTreeClassifier, 1 - float(shares @ shares)
    else:
        kind, impurity = trees.DecisionTreeRegressor, float(np.var(target))
    return kind(
        min_samples_leaf=LEAF,
        min_samples_split=SPLIT,
        max_depth=DEPTH,
        min_impurity_decrease=COMPLEXITY * impurity,
        random_state=int(rng.integers(2**31)),
    )


def leaf_draws(learned: Codes, wanted: Codes, rng: np.random.Generator) -> Codes:
    """For each leaf wanted return the position of one of the rows that were learned from and lie in it, all alike."""
    order = np.argsort(learned, kind="stable")
    leaves, start, size = np.unique(learned[order], return_index=True, return_counts=True)
    at = np.searchsorted(leaves, wanted)
    return np.asarray(order[start[at] + rng.integers(size[at])], np.int64)


def _predictor(column: pd.Series, synthetic: pd.Series, is_number: bool) -> _Predictor:
    if is_number:
        return _Predictor(numbers=(floats_of(column), floats_of(synthetic)))
    both = levels_of(pd.concat([column, synthetic], ignore_index=True)).codes
    return _Predictor(levels=(both[: len(column)], both[len(column) :]))


def _encoded(
    predictor: _Predictor, target: Floats | Codes, n_classes: int, there: Codes
) -> tuple[list[Floats], list[Floats]]:
    """A predictor as numbers that a tree can split, for the rows learned from and for synthetic ones.

    Levels are ordered by the mean of a number, or along the first principal component of the shares of classes
    (Coppersmith, Hong and Hosking 1999, doi:10.1023/A:1009869804967): for two classes and numbers no split is lost.
    """
    if predictor.levels is not None:
        codes, drawn = predictor.levels
        on_line = _places(codes[there], target, n_classes, int(max(codes.max(), drawn.max())) + 1)
        return [on_line[codes[there]]], [on_line[drawn]]
    if predictor.numbers is None:
        return [], []
    own, synthetic = predictor.numbers[0][there], predictor.numbers[1]
    blanks = np.isnan(own), np.isnan(synthetic)
    # Places among the values: a tree splits them alike, and it holds numbers with 24 bits only.
    values = np.unique(own[~blanks[0]])
    places = np.arange(len(values), dtype=np.float64)
    filled = [
        np.where(b, 0.0, np.interp(np.where(b, 0.0, x), values, places)) if len(values) else 0.0 * b
        for b, x in zip(blanks, (own, synthetic), strict=True)
    ]
    if not (blanks[0].any() or blanks[1].any()):
        return [filled[0]], [filled[1]]
    return [filled[0], blanks[0].astype(np.float64)], [filled[1], blanks[1].astype(np.float64)]


def _places(codes: Codes, target: Floats | Codes, n_classes: int, n_levels: int) -> Floats:
    """Where each level lies on a line; those that no row has, at the mean."""
    counts = np.bincount(codes, minlength=n_levels).astype(np.float64)
    seen = counts > 0
    if not n_classes:
        sums = np.bincount(codes, target, minlength=n_levels)
        return np.where(seen, sums / np.maximum(counts, 1), float(np.mean(target)))
    cells = np.bincount(codes * n_classes + target.astype(np.int64), minlength=n_levels * n_classes)
    shares = cells.reshape(n_levels, n_classes) / np.maximum(counts, 1)[:, None]
    middle = np.bincount(target.astype(np.int64), minlength=n_classes) / len(target)
    apart = np.where(seen[:, None], shares - middle, 0.0)
    spread = (apart * counts[:, None]).T @ apart
    axis = np.linalg.eigh(spread)[1][:, -1]
    return np.asarray(apart @ axis, np.float64)
