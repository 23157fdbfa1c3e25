"""Attacks on made-up people beside what the closed forms of exposure predict of them.

For observers only: the attacker is told the rows. The engine's own measuring and fitting makes the tables.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from attacks.trials import Trial, trial_of_rows
from engine.exposure import ColumnExposure, Estimator, Incidence, auc_of, tables_mu2, total_mu2
from engine.params import PrivacyParams

LEAST_SHOWN = 10
"""People of a cell of whom both values are likely shown."""


def seen(trial: Trial, codes: dict[str, np.ndarray]) -> Incidence:
    people = Incidence(codes, None, 1.0, PrivacyParams())
    for columns in sorted(trial.measurements, key=len):
        people.add(trial.measurements[columns])
    return people


def told_of(trial: Trial, codes: dict[str, np.ndarray], column: str) -> ColumnExposure:
    cells = seen(trial, codes)
    return Estimator(cells, tuple(codes)).exposure(column, dict.fromkeys(cells.tables, 1))


def membership(
    columns: int, levels: int, width: int, seed: int, people: int = 1_500
) -> tuple[float, float]:
    """AUC of who knows everybody else and sums what a person shifts; and the predicted one."""
    rng = np.random.default_rng([columns, levels, width, seed])
    names = [f"q{j}" for j in range(columns)]
    inside, outside = ({c: rng.integers(0, levels, people) for c in names} for _ in range(2))
    tables = [t for k in range(1, width + 1) for t in combinations(names, k)]
    trial = trial_of_rows(inside, tables, 100 * seed + columns)
    scores = np.zeros((2, people))
    for t in tables:
        side = 1 << (levels - 1).bit_length()  # values drawn inside a range may lie beyond
        shape = (side,) * len(t)
        table = trial.tables[t]
        at = tuple(trial.supports[c].grid[table.codes[:, j]] for j, c in enumerate(t))
        off = np.zeros(shape)
        np.add.at(off, at, table.n.astype(np.float64))
        np.subtract.at(off, tuple(inside[c] for c in t), 1.0)
        scores[0] += off[tuple(inside[c] for c in t)] + 1  # the person is among those counted
        scores[1] += off[tuple(outside[c] for c in t)]
    mu2 = total_mu2(trial.measurements[()], 1)
    cells = seen(trial, inside)
    mu2 += tables_mu2(cells, cells.tables, 1)
    ranks = scores.ravel().argsort().argsort() + 1
    auc = (ranks[:people].sum() - people * (people + 1) / 2) / people**2
    return float(auc), auc_of(math.sqrt(mu2))


def attacked(trial: Trial, codes: dict[str, np.ndarray], told: str) -> np.ndarray:
    """Whether each person's even bit is got right by least squares on all published tables that show it."""
    from scipy.sparse import csr_matrix, vstack
    from scipy.sparse.linalg import lsqr

    people = len(codes[told])
    known, figures = [], []
    for columns, table in trial.tables.items():
        if told not in columns or len(columns) < 2:
            continue
        values = {c: trial.supports[c].grid[table.codes[:, j]] for j, c in enumerate(columns)}
        rest = [c for c in columns if c != told]
        cells = np.column_stack([np.concatenate([values[c], codes[c]]) for c in rest])
        _, cell = np.unique(cells, axis=0, return_inverse=True)
        shown, mine = cell[: len(table.n)], cell[len(table.n) :]
        n = int(cell.max()) + 1
        counts = np.bincount(shown, weights=table.n * (2.0 * values[told] - 1), minlength=n)
        kept = np.flatnonzero(np.bincount(mine, minlength=n) >= LEAST_SHOWN)
        system = csr_matrix((np.ones(people), (mine, np.arange(people))), shape=(n, people))
        known.append(system[kept])
        figures.append(counts[kept])
    noise = 2.0
    guess = lsqr(vstack(known).tocsr() / noise, np.concatenate(figures) / noise, damp=1.0)[0]
    return (guess > 0) == (codes[told] == 1)
