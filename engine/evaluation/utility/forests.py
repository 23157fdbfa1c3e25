"""Random forests (Breiman 2001) on distinct rows with their number, which cost less than the rows themselves.

Takes numbers, classes and how often each row is there; gives a forest. Invariant: its trees are, bit for bit, those
that scikit-learn's `RandomForestClassifier` of the same seed grows on the rows themselves. A tree asks only whether a
node has drawn rows enough for one leaf, or for two, each counted once; so that as many copies of a distinct row as two
leaves want, with the weight of all that were drawn of it, tell it as much. Weights are whole numbers, whose sums are
exact in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.evaluation.data.paired import Numbers
from engine.evaluation.score import optional
from engine.evaluation.threads import in_threads

Features = NDArray[np.floating[Any]]
Floats = NDArray[np.float64]
_SEEDS = np.iinfo(np.int32).max


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Forest:
    """A forest."""

    classes: Numbers  # shape (n_classes,): Those that it has seen, in order
    trees: tuple[Any, ...]  # Fitted trees of scikit-learn

    def shares(self, table: Features) -> Floats:
        """Return the mean of what its trees say of rows, shape (n_rows, n_classes), added up in their order."""
        rows = np.ascontiguousarray(table, np.float32)
        total = np.zeros((len(rows), len(self.classes)))
        for tree in self.trees:
            # As `predict_proba`, without its checks.
            total += tree.tree_.predict(rows)[:, : len(self.classes)]
        return total / len(self.trees)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Rows:
    """What every tree is grown on."""

    features: NDArray[np.float32]  # shape (n_features, n_rows)
    code: NDArray[np.int8] | Numbers  # shape (n_rows,): Place of each row's class
    starts: Numbers  # shape (n_rows,): First of each among all rows
    total: int  # All rows, repeated ones counted
    of_class: Numbers  # shape (n_classes,): A row of each class


def grow(
    table: Features, classes: Numbers, n: Numbers, *, trees: int, leaf: int, seed: int
) -> Forest:
    """Grow a forest.

    classes, n: Class of each, and how often it is there: at least once.
    """
    known, first, code = np.unique(classes, return_index=True, return_inverse=True)
    rows = _Rows(
        features=np.ascontiguousarray(table.T, np.float32),
        code=code.astype(np.int8) if len(known) < 1 << 7 else code,
        starts=np.cumsum(n) - n,
        total=int(n.sum()),
        of_class=first.astype(np.int64),
    )
    seeds = np.random.RandomState(seed).randint(_SEEDS, size=trees)
    grown = in_threads(lambda one: _tree(rows, leaf, int(one)), seeds)
    return Forest(classes=known, trees=tuple(grown))


def _tree(rows: _Rows, leaf: int, seed: int) -> Any:
    """A tree on as many rows as there are, drawn with replacement."""
    drawn = np.bincount(
        np.random.RandomState(seed).randint(0, rows.total, rows.total), minlength=rows.total
    )
    weight = np.add.reduceat(drawn, rows.starts)
    copies = np.minimum(np.add.reduceat((drawn > 0).astype(np.int64), rows.starts), 2 * leaf)
    # A row of no weight of each class before them: trees name the classes that they see.
    place = np.concatenate([rows.of_class, np.repeat(np.arange(len(copies)), copies)])
    weights = np.ones(len(place))
    weights[: len(rows.of_class)] = 0
    is_there = copies > 0
    last = len(rows.of_class) + np.cumsum(copies)[is_there] - 1
    weights[last] = weight[is_there] - copies[is_there] + 1
    tree = optional("sklearn.tree", "learners").DecisionTreeClassifier(
        min_samples_leaf=leaf, max_features="sqrt", random_state=seed
    )
    # Column by column, as trees read it; nothing is left to check.
    features = rows.features.take(place, axis=1).T
    return tree.fit(features, rows.code[place], sample_weight=weights, check_input=False)
