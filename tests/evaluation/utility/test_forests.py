"""Forests on distinct rows: the trees of scikit-learn's own forest on the rows themselves, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from engine.evaluation.utility.forests import grow

PARTS = ("children_left", "children_right", "feature", "threshold", "value", "impurity")


def rows_of(seed, n_rows, n_features, n_classes, most):
    """Distinct rows of few values and of one that has many, their classes, and how often each is there."""
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 3, (n_rows, n_features)).astype(np.float64)
    table[:, 0] = rng.normal(size=n_rows).round(1)
    classes = np.minimum(rng.poisson(abs(table[:, -1]) + 0.5), n_classes - 1) * 3
    return table, classes, rng.integers(1, most + 1, n_rows)


@pytest.mark.parametrize("leaf", [1, 5])
@pytest.mark.parametrize(
    ("n_rows", "n_features", "n_classes", "most"),
    [(60, 9, 3, 40), (7, 2, 2, 3)],
)
def test_trees_are_those_of_a_forest_on_the_rows(n_rows, n_features, n_classes, most, leaf):
    table, classes, n = rows_of(leaf, n_rows, n_features, n_classes, most)
    theirs = RandomForestClassifier(25, min_samples_leaf=leaf, random_state=7)
    theirs.fit(np.repeat(table, n, axis=0), np.repeat(classes, n))
    ours = grow(table, classes, n, trees=25, leaf=leaf, seed=7)
    assert ours.classes.tolist() == theirs.classes_.tolist()
    for one, other in zip(ours.trees, theirs.estimators_, strict=True):
        for part in PARTS:
            assert np.array_equal(getattr(one.tree_, part), getattr(other.tree_, part)), part
    asked = np.concatenate([table, table[::-1] + 0.05])
    assert np.array_equal(ours.shares(asked), theirs.predict_proba(asked))


def test_a_class_that_is_drawn_by_few_trees_has_its_place_in_all():
    table, n = np.arange(12.0).reshape(-1, 1), np.array([*[50] * 11, 1])
    classes = np.array([*[0, 4] * 5, 0, 9])
    forest = grow(table, classes, n, trees=30, leaf=1, seed=1)
    assert forest.classes.tolist() == [0, 4, 9]
    assert forest.shares(table).shape == (12, 3)
    assert 0 < forest.shares(table)[-1, 2] < 1
