"""Is the largest contributor of a group in the data? Asked of released counts and sums by who knows everybody else.

For observers only. The engine's own measuring and fitting makes the tables, once with that person and once without.
"""

from __future__ import annotations

import math

import numpy as np

from attacks.predicted import seen
from attacks.trials import Trial, trial_of_rows
from engine.exposure import auc_of, tables_mu2, total_mu2

TABLES = [("g",), ("x",), ("g", "x")]


def contributor(
    groups: int, sigma: float, seed: int, people: int = 1_500
) -> tuple[float, float, float]:
    """Score of the attack where the largest contributor of group 0 is in and where not; and the AUC that is stated.

    sigma: Of the logarithm of what people contribute.
    """
    rng = np.random.default_rng([groups, seed])
    g = rng.integers(0, groups, people)
    x = np.round(np.exp(rng.normal(7, sigma, people))).astype(np.int64)
    person = int(np.argmax(np.where(g == 0, x, -1)))
    others = np.arange(people) != person
    scores = []
    for number, kept in enumerate((np.full(people, True), others)):
        codes = {"g": g[kept], "x": x[kept]}
        trial = trial_of_rows(codes, TABLES, 1_000 * seed + 2 * groups + number)
        scores.append(_score(trial, g[others], x[others], int(x[person])))
        if number == 0:
            cells = seen(trial, codes)
            mu2 = total_mu2(trial.measurements[()], 1) + tables_mu2(cells, cells.tables, 1)
    return scores[0], scores[1], auc_of(math.sqrt(mu2))


def _score(trial: Trial, g: np.ndarray, x: np.ndarray, value: int) -> float:
    """Log-likelihood ratio, up to a constant: by how much counts and sums exceed the others', over their noise.

    g, x: Of everybody else; value: of the person who is looked for.
    """
    counts = [(trial.tables["g", "x"].n_rows - len(g), 1.0)]
    table = trial.tables["g", "x"]
    own = trial.supports["g"].grid[table.codes[:, 0]] == 0
    values = trial.supports["x"].grid[table.codes[:, 1]]
    counts.append((table.n[own].sum() - (g == 0).sum(), 1.0))
    for columns, shown, known, at in (
        (("x",), trial.tables["x",], x, slice(None)),
        (("g", "x"), table, x[g == 0], own),
    ):
        for sums in trial.measurements[columns].sums:
            tree = trial.measurements[columns]
            found = (
                np.arange(len(sums.n))
                if len(columns) == 1
                else np.flatnonzero(tree.index[sums.node, 0] == 0)
            )
            if not len(found):
                continue
            low, high = int(sums.low[found[0]]), int(sums.high[found[0]])
            middle, scale = int(sums.middle[found[0]]), float(sums.scale[found[0]])
            of_rows = values if len(columns) == 2 else trial.supports["x"].grid[shown.codes[:, 0]]
            sum_shown = (shown.n[at] * (np.clip(of_rows[at], low, high) - middle)).sum()
            sum_known = (np.clip(known, low, high) - middle).sum()
            moved = (min(max(value, low), high) - middle) / scale
            counts.append(((sum_shown - sum_known) / scale, moved))
    # Fitted figures have the noise of measured ones at most: two layers of sd 1.
    return float(sum(moved * (off - moved / 2) / 2 for off, moved in counts))


def auc(inside: np.ndarray, outside: np.ndarray) -> float:
    """How often a score with the person is above one without."""
    return float((inside[:, None] > outside[None, :]).mean())
