"""Load the kernels of the exposure computation, and compile those that never were: `python -m engine.exposure.warm`.

Of four made-up people, through what calls the kernels in a build, so that they are compiled for the same types.
"""

from __future__ import annotations

import numpy as np

from engine.exposure.estimator import Estimator
from engine.exposure.incidence import Incidence
from engine.kernels import report_compiling
from engine.params import PrivacyParams
from engine.progress import Progress, silent
from engine.schema import KIND_NONNEGATIVE, ColumnSet, Measurement


def warm(report: Progress = silent) -> None:
    """Load the kernels of the exposure computation."""
    report_compiling(_assess, report)


def _assess() -> None:
    codes = {"a": np.array([0, 0, 1, 1]), "b": np.array([0, 1, 0, 1])}
    people = Incidence(codes, None, 1.0, PrivacyParams())
    columns: tuple[ColumnSet, ...] = (("a",), ("b",), ("a", "b"))
    trees = [_tree(one) for one in columns]
    for tree in trees[:2]:
        people.add(tree)
    estimator = Estimator(people, codes)
    estimator.add(trees[2])
    estimator.exposures(dict.fromkeys(columns, 1), most_right=0.0)


def _tree(columns: ColumnSet) -> Measurement:
    """All values of some columns of two, and all of them together."""
    values = np.stack(np.meshgrid(*[[0, 1]] * len(columns)), axis=-1).reshape(-1, len(columns))
    index = np.vstack([np.zeros_like(values[:1]), values]).astype(np.int64)
    depth = np.minimum(np.arange(len(index)), 1).astype(np.uint8)
    return Measurement(
        columns=columns,
        depth=depth,
        kind=np.full(index.shape, KIND_NONNEGATIVE, dtype=np.uint8),
        level=np.repeat(1 - depth[:, None], len(columns), axis=1).astype(np.uint8),
        index=index,
        parent=depth.astype(np.int64) - 1,
        n=np.where(depth == 0, 4, 4 // len(values)),
        scale=np.ones(2, dtype=np.int64),
    )


if __name__ == "__main__":
    warm()
