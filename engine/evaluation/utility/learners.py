"""Learners that are trained on one table and tested on another: samples, features, models, and their marks.

Takes codes as a `Paired` holds them; gives class probabilities. Invariant: rows are put into one order and equal
ones together before anything is drawn or fitted, so that a table of distinct rows with their number learns the same as
the rows themselves. Features are made from the training rows alone, as an analyst would who has no others.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.errors import InternalError
from engine.evaluation.data.paired import Codes, Numbers
from engine.evaluation.score import optional
from engine.evaluation.utility.forests import Features, grow

Floats = NDArray[np.float64]
Predict = Callable[[Mapping[str, Codes]], Floats]
"""Gives the probability of each class for rows, shape (n_rows, n_classes)."""
FEW = 20
"""Numbers of at most so many values are read as levels."""
MOST_LEVELS = 50
"""So many of the commonest levels of a column are a feature each."""
LEARNERS = ("logistic", "forest")
LEAF = 5
"""Fewest rows in a leaf of the forest: smaller ones give no useful probabilities."""
_TESTED, _REPEATS = 2_000, 3
_AT_ONCE = 20_000
"""Rows that are predicted at a time: a model spreads each over as many columns as there are values."""
_LARGEST = 1e100
"""Numbers beyond are infinite when squared and summed."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Sample:
    """Distinct rows with a class and their number, in one order."""

    codes: Mapping[str, Codes]  # shape (n_rows,)
    classes: Numbers  # shape (n_rows,)
    n: Numbers  # shape (n_rows,)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Feature:
    """How a column is turned into numbers: by `levels`, or standardised with a mark for blanks."""

    name: str
    levels: Codes
    numbers: Floats | None
    mean: float
    spread: float


def sample_of(
    codes: Mapping[str, Codes], classes: Numbers, n: Numbers, most: int, rng: np.random.Generator
) -> Sample:
    """Put equal rows together, and draw some where there are more.

    most: Largest number of rows, repeated ones counted; drawn without replacement where there are more.
    """
    there = np.flatnonzero(n > 0)
    stack = np.stack([classes[there], *(c[there].astype(np.int64) for c in codes.values())])
    order = np.lexsort(stack)
    stack, counts = stack[:, order], n[there][order]
    first = np.ones(len(order), np.bool_)
    first[1:] = (stack[:, 1:] != stack[:, :-1]).any(axis=0)
    starts = np.flatnonzero(first)
    counts = np.add.reduceat(counts, starts) if len(starts) else counts
    stack = stack[:, starts]
    if (total := int(counts.sum())) > most:
        drawn = rng.choice(total, most, replace=False)
        places = np.searchsorted(np.cumsum(counts), drawn, side="right")
        counts = np.bincount(places, minlength=len(counts)).astype(np.int64)
        stack, counts = stack[:, counts > 0], counts[counts > 0]
    columns = {name: stack[i + 1].astype(np.int32) for i, name in enumerate(codes)}
    return Sample(codes=columns, classes=stack[0], n=counts)


def train(
    learner: str,
    values: Mapping[str, NDArray[np.generic]],
    sample: Sample,
    n_classes: int,
    *,
    trees: int,
    seed: int,
) -> Predict:
    """Fit a model; where there is one class only, or nothing to learn from, it tells the shares of the classes.

    learner: One of `LEARNERS`: logistic regression (ridge penalty, C = 1), or a random forest (Breiman 2001).
    """
    features = [_feature(name, values[name], sample) for name in sample.codes]
    shares = np.bincount(sample.classes, sample.n, minlength=n_classes) / sample.n.sum()
    table = _matrix(features, sample.codes)
    if np.count_nonzero(shares) < 2 or not table.shape[1]:
        return lambda codes: np.tile(shares, (len(next(iter(codes.values()))), 1))
    known, shares_of = _fitted(learner, table, sample, trees, seed)

    def predict(codes: Mapping[str, Codes]) -> Floats:
        table = _matrix(features, codes)
        probabilities = np.zeros((len(table), n_classes))
        # OpenBLAS may flag a product of finite numbers as invalid (numpy's issue 24067).
        with np.errstate(invalid="ignore"):
            probabilities[:, known] = shares_of(table)
        if not np.isfinite(probabilities).all():
            raise InternalError(f"a {learner} gave a share that is no number")
        return probabilities

    return predict


def _fitted(
    learner: str, table: Features, sample: Sample, trees: int, seed: int
) -> tuple[Numbers, Callable[[Features], Floats]]:
    """The classes that a model knows, and what tells their shares for rows."""
    if learner == "forest":
        forest = grow(table, sample.classes, sample.n, trees=trees, leaf=LEAF, seed=seed)
        return forest.classes, forest.shares
    model = optional("sklearn.linear_model", "learners").LogisticRegression(max_iter=300, tol=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fit that is not quite finished predicts as well
        model.fit(table, sample.classes, sample_weight=sample.n)
    return model.classes_, lambda rows: np.asarray(model.predict_proba(rows), np.float64)


def _feature(name: str, values: NDArray[np.generic], sample: Sample) -> _Feature:
    """How a column is turned into numbers, by what the training rows have."""
    code = sample.codes[name]
    size = np.bincount(code, sample.n, minlength=len(values) + 1)
    if values.dtype == object or len(values) <= FEW:
        commonest = np.argsort(-size, kind="stable")[:MOST_LEVELS]
        levels = np.sort(commonest[size[commonest] > 0]).astype(np.int32)
        only = levels if len(levels) > 1 else levels[:0]
        return _Feature(name=name, levels=only, numbers=None, mean=0.0, spread=1.0)
    numbers = np.clip(values.astype(np.float64), -_LARGEST, _LARGEST)
    n = size[:-1]
    mean = float(np.average(numbers, weights=n)) if n.any() else 0.0
    spread = float(np.sqrt(np.average((numbers - mean) ** 2, weights=n))) if n.any() else 0.0
    both = size[-1] > 0 and n.any()
    blank = np.array([len(values)] if both else [], np.int32)
    return _Feature(name=name, levels=blank, numbers=numbers, mean=mean, spread=spread)


def _matrix(features: list[_Feature], codes: Mapping[str, Codes]) -> NDArray[np.float32]:
    """Rows as numbers, shape (n_rows, n_features)."""
    parts = []
    for feature in features:
        code = codes[feature.name]
        parts.append((code[:, None] == feature.levels).astype(np.float32))
        if feature.numbers is not None and feature.spread > 0:
            scaled = (feature.numbers - feature.mean) / feature.spread
            parts.append(np.append(scaled, 0.0)[code].astype(np.float32)[:, None])
    return np.concatenate(parts, axis=1)


def marks(probabilities: Floats, tested: Sample) -> dict[str, float]:
    """How good class probabilities are for rows whose class is known.

    Returns: `accuracy`; `balanced_accuracy` (mean over the classes that are there of the share found); `auc`
    (mean over the classes of the area under the curve of this class against the rest); NaN where only one
    class is there.
    """
    right = probabilities.argmax(axis=1) == tested.classes
    n = tested.n.astype(np.float64)
    size = np.bincount(tested.classes, n)
    hits = np.bincount(tested.classes, n * right)
    there = np.flatnonzero(size)
    areas = [_area(probabilities[:, c], tested.classes == c, n) for c in there]
    return {
        "accuracy": float(hits.sum() / size.sum()),
        "balanced_accuracy": float((hits[there] / size[there]).mean()),
        "auc": float(np.mean(areas)) if len(there) > 1 else float("nan"),
    }


def _area(score: Floats, is_class: NDArray[np.bool_], n: Floats) -> float:
    """Probability that a row of the class scores higher than another row, ties counted half."""
    _, place = np.unique(score, return_inverse=True)
    inside, outside = np.bincount(place, n * is_class), np.bincount(place, n * ~is_class)
    below = np.cumsum(outside) - outside / 2
    return float((inside * below).sum() / max(inside.sum() * outside.sum(), 1.0))


def importances(predict: Predict, tested: Sample, seed: int) -> Floats:
    """Return how much is lost on known rows when a column's values are shuffled (Breiman 2001, section 10).

    What is lost is probability of the true class, mean of 3 shuffles over at most 2,000 rows: the order of the columns
    by lost accuracy, which moves in steps, is mostly noise where columns matter little.

    seed: Draws the rows and shuffles; the same for models that are compared.
    """
    rng = np.random.default_rng(seed)
    some = sample_of(tested.codes, tested.classes, tested.n, _TESTED, rng)
    codes = np.stack([np.repeat(code, some.n) for code in some.codes.values()])
    classes = np.repeat(some.classes, some.n)
    shuffled = np.tile(codes, (1 + len(codes) * _REPEATS, 1, 1))
    for i in range(1, len(shuffled)):
        column = (i - 1) // _REPEATS
        shuffled[i, column] = rng.permutation(codes[column])
    guessed = _of_distinct(predict, list(some.codes), np.concatenate(shuffled, axis=1))
    sure = guessed[np.arange(len(guessed)), np.tile(classes, len(shuffled))]
    means = np.array([part.mean() for part in np.split(sure, len(shuffled))])
    lost = means[0] - means[1:].reshape(len(codes), _REPEATS)
    mean: Floats = lost.mean(axis=1)
    return mean


def _of_distinct(predict: Predict, names: list[str], codes: NDArray[np.int32]) -> Floats:
    """Predictions for rows of which many are equal: each row is predicted by itself, so that equal ones need one."""
    order = np.lexsort(codes)
    ordered = codes[:, order]
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
    place = np.empty(len(order), np.int64)
    place[order] = np.cumsum(is_first) - 1
    rows = ordered[:, is_first]
    parts = [
        predict(dict(zip(names, rows[:, first : first + _AT_ONCE], strict=True)))
        for first in range(0, rows.shape[1], _AT_ONCE)
    ]
    return np.concatenate(parts)[place]


def agreement(first: Floats, second: Floats) -> float:
    """Return Spearman's correlation of two lists of importances; NaN of less than 3, or where one is constant."""
    if len(first) < 3:
        return float("nan")
    ranks = [pd.Series(side).round(12).rank().to_numpy(np.float64) for side in (first, second)]
    one, other = (r - r.mean() for r in ranks)
    spread = float(np.sqrt((one @ one) * (other @ other)))
    return float(np.clip(one @ other / spread, -1.0, 1.0)) if spread else float("nan")
