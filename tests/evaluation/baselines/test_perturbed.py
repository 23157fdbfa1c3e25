"""Baselines that keep the rows: margins, samples, PRAM, swapping; each against what is known of it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.evaluation.baselines.baseline import Schema
from engine.evaluation.baselines.pram import perturbed, pram
from engine.evaluation.baselines.sampling import bootstrap, margins, sample
from engine.evaluation.baselines.swapping import partners, swapping


def people(n: int = 600, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    area = rng.choice(["a", "b", "c", "d"], n)
    return pd.DataFrame(
        {
            "area": area,
            "county": np.char.add(area, rng.integers(0, 3, n).astype(str)),
            "age": rng.integers(0, 90, n).astype(float),
            "job": np.where(rng.random(n) < 0.3, None, area),
        }
    )


ALL = [margins(), sample(), bootstrap(1.5), pram(), swapping(0.4)]
SCHEMA = Schema(numbers=frozenset({"age"}), areas=("area", "county"))


@pytest.mark.parametrize("baseline", ALL, ids=lambda r: r.name)
def test_rows_have_the_types_and_the_values_of_the_data_and_follow_the_generator(baseline):
    frame = people()
    out = baseline.synthesize(frame, SCHEMA, np.random.default_rng(1))
    assert list(out.columns) == list(frame.columns)
    assert list(out.dtypes) == list(frame.dtypes)
    assert out.index.equals(pd.RangeIndex(len(out)))
    for name in frame:
        assert out[name].isin(frame[name]).all()
    pd.testing.assert_frame_equal(out, baseline.synthesize(frame, SCHEMA, np.random.default_rng(1)))
    assert not out.equals(baseline.synthesize(frame, SCHEMA, np.random.default_rng(2)))
    assert baseline.promise
    assert baseline.origin == "ours"


# --- PRAM


def transition(shares: np.ndarray, keep: float) -> np.ndarray:
    """The matrix of invariant PRAM by its definition; row k: the chances of what level k becomes."""
    n = len(shares)
    first = np.full((n, n), (1 - keep) / (n - 1))
    np.fill_diagonal(first, keep)
    joint = shares[:, None] * first
    return first @ (joint / joint.sum(axis=0)).T


@pytest.mark.parametrize("keep", [0.0, 0.3, 0.8, 1.0])
def test_values_change_as_the_matrix_says(keep):
    rng = np.random.default_rng(4)
    codes = rng.choice(5, 200_000, p=[0.5, 0.3, 0.15, 0.04, 0.01])
    out = perturbed(codes, 5, keep, rng)
    shares = np.bincount(codes) / len(codes)
    matrix = transition(shares, keep)
    np.testing.assert_allclose(shares @ matrix, shares)  # invariant
    for level in range(5):
        mine = out[codes == level]
        seen = np.bincount(mine, minlength=5) / len(mine)
        np.testing.assert_allclose(seen, matrix[level], atol=4.5 * (0.25 / len(mine)) ** 0.5)


# --- swapping


def test_swapped_rows_exchange_areas_with_others_alike_and_nothing_else_changes():
    frame = people().assign(sex=np.random.default_rng(9).choice(["f", "m"], 600))
    schema = Schema(areas=("area", "county"), alike=("sex",))
    out = swapping(0.5).synthesize(frame, schema, np.random.default_rng(1))
    pd.testing.assert_frame_equal(out[["age", "job", "sex"]], frame[["age", "job", "sex"]])
    for columns in (["area", "county"], ["area", "county", "sex"]):
        assert Counter(map(tuple, out[columns].values)) == Counter(
            map(tuple, frame[columns].values)
        )
    moved = (out["county"] != frame["county"]).mean()
    assert 0.35 < moved <= 0.5


@given(st.lists(st.integers(0, 3), max_size=40), st.floats(0.01, 1), st.integers(0, 5))
def test_partners_are_pairs_of_one_group(group, rate, seed):
    group = np.array(group, np.int64)
    rows = partners(group, rate, np.random.default_rng(seed))
    assert sorted(rows.tolist()) == list(range(len(group)))
    assert (rows[rows] == np.arange(len(group))).all()
    assert (group[rows] == group).all()
    moved = int((rows != np.arange(len(group))).sum())
    assert moved <= round(rate * len(group))
    if rate == 1:
        sizes = np.bincount(group) if len(group) else np.zeros(1, int)
        assert moved == int((sizes - sizes % 2).sum())
