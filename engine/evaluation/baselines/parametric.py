"""Parametric sequential synthesis: each column drawn from a regression on the columns before it, its parameters drawn.

The parametric methods of R's synthpop (Nowok, Raab and Dibben 2016, doi:10.18637/jss.v074.i11) with `proper = TRUE`:
numbers by normal regression of their normal scores ("normrank"), whether there is a blank and categories of two
levels by logistic regression, more levels by multinomial regression, counts by Poisson regression. Models are
scikit-learn's. Parameters are drawn from their approximate posterior: the normal one of Rubin 1987, section 5.3; for
multinomial regression by fitting a bootstrap sample of the rows.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd

from engine.evaluation.baselines.baseline import (
    Codes,
    Floats,
    Schema,
    column_of,
    floats_of,
    levels_of,
    sequentially,
    taken,
)
from engine.evaluation.baselines.cart import leaf_draws
from engine.evaluation.findings import optional

MOST_LEVELS = 50
"""So many of the commonest levels of a column are distinguished; others are one, and drawn by their shares."""
_PENALTY = 1.0
"""Precision of the normal prior of a coefficient, scikit-learn's C = 1; of a normal regression in units of its
variance. Without it, coefficients of columns that determine each other are drawn at will."""
_STEPS = 100


def parametric(frame: pd.DataFrame, schema: Schema, rng: np.random.Generator) -> pd.DataFrame:
    n = len(frame)

    def drawn(column: pd.Series, before: list[Floats], is_number: bool) -> pd.Series:
        learn = np.column_stack([np.ones(n), *(x[:n] for x in before)])
        apply = np.column_stack([np.ones(n), *(x[n:] for x in before)])
        if is_number:
            return _numbers(column, learn, apply, rng)
        return taken(column, _of_levels(levels_of(column).codes, learn, apply, rng))

    return sequentially(frame, schema, _features, drawn)


def _numbers(
    column: pd.Series, learn: Floats, apply: Floats, rng: np.random.Generator
) -> pd.Series:
    """A synthetic column of numbers: first which are blank, then counts, or values of the data by normal scores."""
    y = floats_of(column)
    blank = np.isnan(y)
    rows = _of_levels(blank.astype(np.int64), learn, apply, rng)
    filled, there = ~blank[rows], np.flatnonzero(~blank)
    if not filled.any():
        return taken(column, rows)
    own = y[there]
    is_whole = own.min() >= 0 and own.max() <= 1e6 and (own == np.round(own)).all()
    if is_whole and 0 < own.var() <= 2 * own.mean():  # counts
        values = y[rows]
        values[filled] = _poisson(own, learn[there], apply[filled], rng)
        return column_of(values, column)
    special = optional("scipy.special", "synthetic rows by regression")
    rank = pd.Series(own).rank().to_numpy(np.float64)
    drawn = _normal(special.ndtri((rank - 0.5) / len(own)), learn[there], apply[filled], rng)
    place = np.round(special.ndtr(drawn) * (len(own) + 1)).astype(np.int64) - 1
    rows[filled] = there[np.argsort(own, kind="stable")[np.clip(place, 0, len(own) - 1)]]
    return taken(column, rows)


def _features(column: pd.Series, synthetic: pd.Series, is_number: bool) -> Floats:
    """A column and its synthetic one below each other, as features: standardised numbers with a mark, or levels."""
    n = len(column)
    if not is_number:
        codes = levels_of(pd.concat([column, synthetic], ignore_index=True)).codes
        common = np.argsort(-np.bincount(codes[:n]), kind="stable")[: MOST_LEVELS + 1]
        return np.asarray(codes[:, None] == common[1:], np.float64)
    x = np.concatenate([floats_of(column), floats_of(synthetic)])
    blank = np.isnan(x)
    own = x[:n][~blank[:n]]
    scale = max(float(np.abs(own).max(initial=0.0)), 1e-300)
    own = own / scale
    middle, spread = (float(own.mean()), float(own.std())) if len(own) else (0.0, 0.0)
    scaled = np.where(blank, 0.0, (x / scale - middle) / (spread if spread > 0 else 1.0))
    return np.column_stack([scaled, *[blank][: int(blank.any())]])


def _normal(y: Floats, learn: Floats, apply: Floats, rng: np.random.Generator) -> Floats:
    """Numbers from a normal regression whose variance and coefficients are drawn (Rubin 1987, example 5.2)."""
    gram = learn.T @ learn + _PENALTY * np.eye(learn.shape[1])
    root = np.linalg.cholesky(np.linalg.inv(gram))
    coefficients = root @ (root.T @ (learn.T @ y))
    rest = float(((y - learn @ coefficients) ** 2).sum())
    sd = (rest / rng.chisquare(max(len(y) - learn.shape[1], 1))) ** 0.5
    drawn = coefficients + sd * (root @ rng.standard_normal(len(coefficients)))
    return np.asarray(apply @ drawn + sd * rng.standard_normal(len(apply)), np.float64)


def _poisson(y: Floats, learn: Floats, apply: Floats, rng: np.random.Generator) -> Floats:
    model = optional("sklearn.linear_model", "synthetic rows by regression").PoissonRegressor(
        alpha=_PENALTY / len(y), fit_intercept=False, max_iter=_STEPS
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fit that is not quite finished serves as well
        found = np.asarray(model.fit(learn, y).coef_, np.float64)
    weights = np.exp(np.clip(learn @ found, -30, 30))
    drawn = _drawn(found, learn, weights, rng)
    most = np.log(10 * y.max() + 10)
    return np.asarray(rng.poisson(np.exp(np.minimum(apply @ drawn, most))), np.float64)


def _of_levels(codes: Codes, learn: Floats, apply: Floats, rng: np.random.Generator) -> Codes:
    """Rows that give their level, from a logistic or multinomial regression on the commonest levels."""
    n_levels = int(codes.max()) + 1
    counts = np.bincount(codes, minlength=n_levels)
    common = np.argsort(-counts, kind="stable")[:MOST_LEVELS]
    classes = np.full(n_levels, len(common))
    classes[common] = np.arange(len(common))
    _, target = np.unique(classes[codes], return_inverse=True)
    drawn = np.zeros(len(apply), np.int64)
    if target.max() > 0 and learn.shape[1] > 1:
        chances = _chances(target, learn, apply, rng)
        drawn = (chances.cumsum(axis=1) < rng.random(len(apply))[:, None]).sum(axis=1)
        drawn = np.minimum(drawn, target.max())
    elif target.max() > 0:
        drawn = rng.choice(target, size=len(apply))
    # A row of the class drawn: of the merged levels each by its share.
    return leaf_draws(target, drawn, rng)


def _chances(target: Codes, learn: Floats, apply: Floats, rng: np.random.Generator) -> Floats:
    """The chance of each class for each row, with drawn parameters; shape (n_rows, n_classes)."""
    n_classes = int(target.max()) + 1
    model = optional("sklearn.linear_model", "synthetic rows by regression").LogisticRegression(
        C=1 / _PENALTY, fit_intercept=False, max_iter=_STEPS
    )
    if n_classes > 2:
        rows = rng.integers(len(target), size=len(target))
        # Each class stays: what somebody has can be drawn.
        rows = np.concatenate([rows, np.unique(target, return_index=True)[1]])
        found = _fitted(model, learn[rows], target[rows])
        return np.asarray(found.predict_proba(apply), np.float64)
    coefficients = np.asarray(_fitted(model, learn, target).coef_[0], np.float64)
    likely = _logistic(learn @ coefficients)
    drawn = _drawn(coefficients, learn, likely * (1 - likely), rng)
    one = _logistic(apply @ drawn)
    return np.column_stack([1 - one, one])


def _fitted(model: Any, learn: Floats, target: Codes) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fit that is not quite finished serves as well
        return model.fit(learn, target)


def _drawn(found: Floats, learn: Floats, weights: Floats, rng: np.random.Generator) -> Floats:
    """Coefficients from the normal approximation of their posterior: the inverse of the information is its variance."""
    information = (learn * weights[:, None]).T @ learn + _PENALTY * np.eye(len(found))
    root = np.linalg.cholesky(information)
    return np.asarray(found + np.linalg.solve(root.T, rng.standard_normal(len(found))), np.float64)


def _logistic(x: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(x, -500, 500))), np.float64)
