"""Baselines that keep the rows or make people alike: margins, PRAM, swapping, k-anonymity and MDAV by slow oracles."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.evaluation.baselines.baseline import Schema
from engine.evaluation.baselines.catalogue import baseline_of
from engine.evaluation.baselines.perturbation import (
    k_anonymity,
    mdav,
    mondrian,
    partners,
    perturbed,
    swapping,
)


def residents(n: int = 600, seed: int = 1) -> pd.DataFrame:
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


ALL = [baseline_of(name) for name in ("margins", "sample", "bootstrap150", "pram", "swap40")]
SCHEMA = Schema(numbers=frozenset({"age"}), areas=("area", "county"))


@pytest.mark.parametrize("baseline", ALL, ids=lambda r: r.name)
def test_rows_have_the_types_and_the_values_of_the_data_and_follow_the_generator(baseline):
    frame = residents()
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
    frame = residents().assign(sex=np.random.default_rng(9).choice(["f", "m"], 600))
    schema = Schema(areas=("area", "county"), alike=("sex",))
    out = swapping(frame, schema, np.random.default_rng(1), rate=0.5)
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


RNG = np.random.default_rng(1)


def people(n: int = 700) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    age = rng.integers(0, 90, n).astype(float)
    return pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.05, np.nan, age),
            "sex": rng.choice(["f", "m"], n),
            "region": pd.Categorical(rng.choice(list("abcdefgh"), n)),
            "born": pd.to_datetime("2020-01-01") - pd.to_timedelta(age * 365, "D"),
            "income": np.where(age < 16, np.nan, rng.normal(2000, 500, n).round()),
        }
    )


NUMBERS = frozenset({"age", "born", "income"})


@pytest.mark.parametrize("k", [2, 5, 40])
def test_everybody_shares_the_quasi_identifiers_with_k_minus_one_others(k):
    frame, known = people(), ["age", "sex", "region", "born"]
    assert frame.groupby(known, dropna=False, observed=True).size().min() == 1
    schema = Schema(numbers=NUMBERS, known=tuple(known))
    out = k_anonymity(frame, schema, RNG, k=k)
    assert out.groupby(known, dropna=False, observed=True).size().min() >= k
    pd.testing.assert_series_equal(out["income"], frame["income"])
    assert list(out.dtypes) == list(frame.dtypes)
    for name in known:
        assert out[name].isin(frame[name]).all()


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2)), min_size=2, max_size=60),
    st.integers(2, 4),
)
def test_classes_have_k_records_are_boxes_and_none_could_be_cut_again(points, k):
    codes = np.array(points, np.int64)
    if len(codes) < k:
        return
    classes = mondrian(codes, k)
    assert np.bincount(classes).min() >= k
    for one in range(classes.max() + 1):
        mine = codes[classes == one]
        for column in mine.T:
            for cut in np.unique(column)[:-1]:
                left = int((column <= cut).sum())
                assert min(left, len(column) - left) < k


# --- microaggregation


def slow_mdav(points: list[tuple[float, ...]], k: int) -> list[set[int]]:
    """MDAV as the paper tells it, one point at a time."""

    def apart(a, b):
        return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))

    left, groups = list(range(len(points))), []

    def centre():
        return tuple(sum(points[i][d] for i in left) / len(left) for d in range(len(points[0])))

    def take(at):
        near = sorted(left, key=lambda i: apart(points[i], at))[:k]
        groups.append(set(near))
        for i in near:
            left.remove(i)

    while len(left) >= 3 * k:
        middle = centre()
        one = points[max(left, key=lambda i: apart(points[i], middle))]
        other = points[max(left, key=lambda i: apart(points[i], one))]
        take(one)
        take(other)
    if len(left) >= 2 * k:
        middle = centre()
        take(points[max(left, key=lambda i: apart(points[i], middle))])
    groups.append(set(left))
    return groups


@pytest.mark.parametrize(("n", "k"), [(4, 4), (7, 4), (8, 4), (9, 3), (40, 3), (61, 5), (200, 7)])
def test_groups_are_those_of_a_slow_oracle_and_have_k_to_2k_records(n, k):
    points = np.random.default_rng(n).normal(size=(n, 3))
    groups = mdav(points, k)
    mine = [set(np.flatnonzero(groups == g).tolist()) for g in range(groups.max() + 1)]
    assert mine == slow_mdav([tuple(p) for p in points], k)
    sizes = np.bincount(groups)
    assert sizes.min() >= k
    assert sizes.max() < 2 * k
