"""What attackers get: closed forms against the attacks themselves, on the engine's own noise."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from attacks.trials import Trial, trial_of_rows
from fixtures.measure import Noiseless

from engine.exposure import (
    Figures,
    Tally,
    Worst,
    all_worst,
    auc_of,
    caught,
    guessed_right,
    table_mu2,
    total_mu2,
)


def test_nothing_told_is_chance_and_more_told_is_never_less():
    none = np.zeros(1)
    assert guessed_right(100, none, np.ones(1), 1) == 0.5
    assert guessed_right(0, np.ones(1), np.ones(1), 1) == 0.5
    more = [guessed_right(100, np.full(k, 7.0), np.full(k, 8.0), 1) for k in range(1, 30)]
    assert more == sorted(more)
    assert 0.5 < more[0] < 0.7 < 0.95 < more[-1] < 1
    assert guessed_right(100, np.full(9, 7.0), np.full(9, 8.0), 2) < more[8]


def test_one_figure_about_one_cell_by_hand():
    """One sum over n bits with the variance of one layer: the error solves 1/v = 1 + s / (4 + s v) / n, s = n."""
    n = 20.0
    v = 1.0
    for _ in range(1000):
        v = 1 / (1 + 1 / (4 + n * v))
    right = 0.5 * (1 + math.erf(math.sqrt((1 - v) / v) / math.sqrt(2)))
    assert guessed_right(n, np.ones(1), np.ones(1), 1) == pytest.approx(right, abs=1e-9)


def test_curves_of_two_normals():
    assert auc_of(0) == 0.5
    assert caught(0) == pytest.approx(0.01)
    assert auc_of(math.sqrt(2)) == pytest.approx(0.8413, abs=1e-4)
    assert caught(2.3263479) == pytest.approx(0.5, abs=1e-6)


def group_of(people: int, tables: int, seed: int, total: int = 6_000) -> dict[str, np.ndarray]:
    """People with a public flag, an even bit and columns of 8 values."""
    rng = np.random.default_rng([people, tables, seed])
    codes = {"flag": (np.arange(total) < people).astype(np.int64), "bit": rng.integers(0, 2, total)}
    return codes | {f"c{i:02d}": rng.integers(0, 8, total) for i in range(tables)}


def solved(trial: Trial, codes: dict[str, np.ndarray], people: int, ridge: float = 4.0) -> float:
    """Share of bits of the flagged that regularised least squares on all tables gets right."""
    rows, figures = [], []
    for name in sorted(codes):
        if not name.startswith("c"):
            continue
        table = trial.tables["bit", name, "flag"]
        bit, c, flag = (
            trial.supports[x].grid[table.codes[:, j]] for j, x in enumerate(table.columns)
        )
        for value in range(8):
            row = (codes[name][:people] == value).astype(np.float64)
            ones, zeros = (table.n[(flag == 1) & (c == value) & (bit == b)].sum() for b in (1, 0))
            rows.append(row)
            figures.append((row.sum() + ones - zeros) / 2)
    a = np.array(rows)
    off = np.array(figures) - a.sum(axis=1) / 2
    guess = np.linalg.solve(a.T @ a + ridge * np.eye(people), a.T @ off) > 0
    return float((guess == (codes["bit"][:people] == 1)).mean())


def worst_of(trial: Trial, group, told) -> Worst:
    tally = Tally(5)
    for measurement in trial.measurements.values():
        tally.add(measurement)
    return next(w for w in all_worst(Figures(tally)) if (w.group, w.told) == (group, told))


@pytest.mark.parametrize(("people", "tables"), [(150, 3), (150, 20), (50, 5), (1_000, 12)])
def test_reconstruction_gets_as_far_as_predicted(people, tables):
    found, predicted = [], []
    for seed in range(4):
        codes = group_of(people, tables, seed)
        trial = trial_of_rows(codes, [("bit", c, "flag") for c in codes if c[0] == "c"], 1 + seed)
        found.append(solved(trial, codes, people))
        predicted.append(worst_of(trial, ("flag",), "bit").guessed(1))
    assert np.mean(found) == pytest.approx(np.mean(predicted), abs=0.05)


def test_without_noise_it_gets_further_than_predicted():
    """The comparison can fail: an engine that draws no noise at all tells more than the closed form says."""
    codes = group_of(150, 20, 0)
    tables = [("bit", c, "flag") for c in codes if c[0] == "c"]
    trial = trial_of_rows(codes, tables, 1, draws=Noiseless(5))
    assert (
        solved(trial, codes, 150, ridge=1e-6) > worst_of(trial, ("flag",), "bit").guessed(1) + 0.05
    )


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
        shape = (levels,) * len(t)
        table = trial.tables[t]
        at = tuple(trial.supports[c].grid[table.codes[:, j]] for j, c in enumerate(t))
        off = np.zeros(shape)
        np.add.at(off, at, table.n.astype(np.float64))
        np.subtract.at(off, tuple(inside[c] for c in t), 1.0)
        scores[0] += off[tuple(inside[c] for c in t)] + 1  # the person is among those counted
        scores[1] += off[tuple(outside[c] for c in t)]
    mu2 = total_mu2(trial.measurements[()], 1)
    mu2 += sum(table_mu2(m, 1) for c, m in trial.measurements.items() if c)
    ranks = scores.ravel().argsort().argsort() + 1
    auc = (ranks[:people].sum() - people * (people + 1) / 2) / people**2
    return float(auc), auc_of(math.sqrt(mu2))


@pytest.mark.parametrize("shape", [(5, 4, 2), (6, 6, 2), (4, 8, 2), (5, 4, 3)])
def test_membership_is_as_predicted(shape):
    found, predicted = zip(*[membership(*shape, seed) for seed in range(6)], strict=True)
    assert np.mean(found) == pytest.approx(np.mean(predicted), abs=0.02)
