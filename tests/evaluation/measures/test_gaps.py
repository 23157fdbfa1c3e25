"""Group gaps and densities: by hand, against a slow twin, properties, and bad input."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest

from engine.evaluation.data.aligned import Distinct, align, distinct
from engine.evaluation.findings import figures_of
from engine.evaluation.measures.combinations import Gap, Tables, density_rmse, gaps
from engine.evaluation.study import Study
from engine.schema import column_set

BARE = Study(title="")
CATALOGUE = {figure.name: figure for figure in figures_of("gaps", "density_rmse")}
BY_JOB = Gap(group="sex", values=("f", "m"), by=("job",))


def side_by_side(original, *given, study=BARE):
    tables = [g if isinstance(g, Distinct) else distinct(pd.DataFrame(g)) for g in given]
    return align(
        pd.DataFrame(original), {column_set(list(t.frame.columns)): t for t in tables}, study
    )


def checked(score):
    for name, value in score.values.items():
        figure = CATALOGUE[f"{score.measure}.{name}"]
        assert figure.low <= value <= figure.high, name
    return score


def gap(original, *given, told=(BY_JOB,)):
    return checked(gaps(side_by_side(original, *given), told))


def density(original, *given, told=None, study=BARE, seed=0):
    aligned = side_by_side(original, *given, study=study)
    return checked(density_rmse(aligned, told or Tables(), np.random.default_rng(seed)))


def people(n=400, seed=2):
    rng = np.random.default_rng(seed)
    job = rng.choice(["a", "b", "c", None], n)
    sex = np.where(rng.random(n) < np.where(job == "a", 0.8, 0.4), "f", "m")
    age = rng.integers(0, 7, n).astype(float)
    age[rng.random(n) < 0.1] = np.nan
    return pd.DataFrame({"job": job, "sex": sex, "age": age})


ORIGINAL = {"sex": ["f", "f", "f", "m", "f", "m", "x"], "job": ["a", "a", "a", "a", "b", "b", "b"]}


def test_a_gap_by_hand():
    # Original: a (3 - 1) / 4 = 0.5, b 0. Synthetic: a (1 - 1) / 2 = 0, b -1.
    score = gap(ORIGINAL, {"sex": ["f", "m", "m", "x"], "job": ["a", "a", "b", "c"]})
    told = score.breakdown.set_index("cell")
    assert told["original"].to_dict() == {"a": 0.5, "b": 0.0}
    assert told["synthetic"].to_dict() == {"a": 0.0, "b": -1.0}
    assert told["n_original"].to_dict() == {"a": 4, "b": 2}
    assert score.values["rmse"] == pytest.approx(np.sqrt((0.25 + 1) / 2))
    assert score.values["weighted_rmse"] == pytest.approx(np.sqrt((4 * 0.25 + 2 * 1) / 6))
    assert score.values["largest"] == 1
    assert score.values["n"] == 2


def test_the_marginal_by_hand():
    score = gap({"sex": ["f", "m"], "job": ["a", "b"]}, {"sex": ["f", "f"], "job": ["a", "b"]})
    # 4 cells: (f, a) 1/2 both; (m, b) 1/2 against 0; (f, b) 0 against 1/2; (m, a) 0 both.
    assert score.values["marginal_rmse"] == pytest.approx(np.sqrt((0.25 + 0.25) / 4))


def test_the_original_is_perfect_and_independent_columns_are_not():
    frame = people(2000)
    itself = gap(frame, frame)
    assert {k: v for k, v in itself.values.items() if k != "n"} == {
        "rmse": 0,
        "weighted_rmse": 0,
        "largest": 0,
        "marginal_rmse": 0,
    }
    rng = np.random.default_rng(0)
    mixed = pd.DataFrame({c: rng.permutation(frame[c].to_numpy()) for c in frame})
    fresh = people(2000, seed=9)
    assert gap(frame, mixed).values["rmse"] > 3 * gap(frame, fresh).values["rmse"]
    ours, theirs = (density(frame, f).values for f in (fresh, mixed))
    assert theirs["rmse_1"] == 0
    assert theirs["rmse_2"] > 2 * ours["rmse_2"]


# Densities of marginals.


def slow_rmse(original: pd.DataFrame, synthetic: pd.DataFrame, columns) -> float:
    sides = [
        f[[*columns]].astype(object).where(f.notna(), "-").astype(str)
        for f in (original, synthetic)
    ]
    levels = [sorted({*sides[0][c], *sides[1][c]}) for c in columns]
    squares = []
    for cell in product(*levels):
        shares = [(s == list(cell)).all(axis=1).mean() for s in sides]
        squares.append((shares[0] - shares[1]) ** 2)
    return float(np.sqrt(np.mean(squares)))


def test_densities_equal_a_slow_twin():
    frame, other = people(60), people(45, seed=5)
    other.loc[0, "job"] = "only here"
    score = density(frame, other)
    for width in (1, 2, 3):
        slow = [slow_rmse(frame, other, c) for c in combinations(sorted(frame), width)]
        assert score.values[f"rmse_{width}"] == pytest.approx(np.mean(slow))
    assert score.values["n"] == 7
    assert len(score.breakdown) == 7
