"""Baselines that make people alike: k-anonymity holds, groups of MDAV have k records and are those of a slow oracle."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.evaluation.baselines.baseline import Schema
from engine.evaluation.baselines.grouping import k_anonymity, mdav, mondrian

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
    out = k_anonymity(k).synthesize(frame, schema, RNG)
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
