"""Synthesis by trees, regressions and a joint model: what is known of each, a planted mixture, structural zeros."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest

from engine.errors import SpecError
from engine.evaluation.baselines.baseline import Schema, impossible
from engine.evaluation.baselines.cart import cart, leaf_draws
from engine.evaluation.baselines.dpmpm import _drawn, dpmpm, fitted
from engine.evaluation.baselines.parametric import parametric
from engine.params import ZeroPart, ZeroRule

pytest.importorskip("sklearn")


def households(n: int = 900, seed: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    region = rng.choice(["north", "south", "west"], n, p=[0.5, 0.3, 0.2])
    age = rng.integers(0, 80, n).astype(float)
    income = np.where(age < 16, np.nan, 1000 + 40 * age + rng.normal(0, 50, n).round())
    job = np.where(age < 16, None, np.where(region == "north", "fisher", "miner"))
    return pd.DataFrame(
        {
            "region": pd.Categorical(region, categories=["west", "south", "north", "nowhere"]),
            "age": age,
            "income": income,
            "job": job,
        }
    )


SCHEMA = Schema(numbers=frozenset({"age", "income"}))


def test_rows_have_the_same_columns_types_and_number():
    frame = households()
    out = cart(frame, SCHEMA, np.random.default_rng(1))
    assert list(out.columns) == list(frame.columns)
    assert len(out) == len(frame)
    assert list(out.dtypes) == list(frame.dtypes)
    again = cart(frame, SCHEMA, np.random.default_rng(1))
    pd.testing.assert_frame_equal(out, again)
    assert not out.equals(cart(frame, SCHEMA, np.random.default_rng(2)))


def test_what_columns_tell_of_each_other_is_kept():
    out = cart(households(3000), SCHEMA, np.random.default_rng(1))
    adults = out[out["age"] >= 16]
    assert out.loc[out["age"] < 16, "income"].isna().all()
    assert out.loc[out["age"] < 16, "job"].isna().all()
    assert adults["income"].notna().all()
    right = np.where(adults["region"] == "north", "fisher", "miner")
    assert (adults["job"] == right).all()
    slope = np.polyfit(adults["age"], adults["income"], 1)[0]
    assert slope == pytest.approx(40, abs=0.5)


def test_a_leaf_gives_the_rows_that_lie_in_it_and_all_of_them_alike():
    rng = np.random.default_rng(5)
    learned = rng.integers(0, 40, 500) * 7
    wanted = rng.choice(np.unique(learned), 20_000)
    rows = leaf_draws(learned, wanted, rng)
    assert (learned[rows] == wanted).all()
    one = learned[0]
    inside = np.flatnonzero(learned == one)
    drawn = rows[wanted == one]
    assert set(drawn.tolist()) == set(inside.tolist())
    counts = np.array([(drawn == row).sum() for row in inside])
    expected = len(drawn) / len(inside)
    assert ((counts - expected) ** 2 / expected).sum() < 3 * len(inside)


def test_values_are_those_of_the_leaf():
    # Two groups far apart: a leaf never mixes them, whatever is drawn.
    rng = np.random.default_rng(7)
    group = rng.integers(0, 2, 400)
    y = np.where(group == 1, 1000.0, 0.0) + rng.integers(0, 50, 400) * 2
    frame = pd.DataFrame({"group": group, "y": y})
    schema = Schema(numbers=frozenset({"y"}))
    out = cart(frame, schema, rng)
    for g in (0, 1):
        own, drawn = set(y[group == g]), set(out.loc[out["group"] == g, "y"])
        assert drawn <= own


def test_names_that_are_not_there_are_refused():
    with pytest.raises(SpecError, match="names nowhere, which the data lacks"):
        cart(households(50), Schema(kept=("nowhere",)), np.random.default_rng(1))
    with pytest.raises(SpecError, match="nothing is left"):
        cart(households(50)[["age"]], Schema(kept=("age",)), np.random.default_rng(1))


def people(n: int = 1500, seed: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(16, 80, n).astype(float)
    sex = rng.choice(["f", "m"], n)
    income = 100 + 5 * age + np.where(sex == "m", 40, 0) + rng.normal(0, 20, n)
    works = rng.random(n) < 1 / (1 + np.exp((age - 50) / 8))
    children = rng.poisson(np.exp(0.2 + 0.8 * (sex == "f"))).astype(float)
    job = np.where(works, rng.choice(["a", "b", "c"], n), None)
    income[~works] = np.nan
    return pd.DataFrame(
        {
            "sex": pd.Categorical(sex),
            "age": age,
            "job": job,
            "income": income,
            "children": children,
        }
    )


NUMBERS = frozenset({"age", "income", "children"})
OF_NUMBERS = Schema(numbers=NUMBERS)


@pytest.mark.ci
@pytest.mark.parametrize("baseline", [parametric, partial(dpmpm, sweeps=20)])
def test_types_number_generator_and_kept_columns(baseline):
    frame = people(300)
    out = baseline(frame, OF_NUMBERS, np.random.default_rng(1))
    assert list(out.columns) == list(frame.columns)
    assert list(out.dtypes) == list(frame.dtypes)
    assert len(out) == len(frame)
    pd.testing.assert_frame_equal(out, baseline(frame, OF_NUMBERS, np.random.default_rng(1)))
    assert not out.equals(baseline(frame, OF_NUMBERS, np.random.default_rng(2)))
    kept = Schema(numbers=NUMBERS, kept=("age", "job"))
    partly = baseline(frame, kept, np.random.default_rng(1))
    pd.testing.assert_frame_equal(partly[["age", "job"]], frame[["age", "job"]])
    assert not partly["income"].equals(frame["income"])


def test_regressions_keep_slopes_chances_and_rates():
    frame = people(6000)
    out = parametric(frame, OF_NUMBERS, np.random.default_rng(1))
    working = out[out["income"].notna()]
    assert (working["job"].notna()).mean() > 0.97
    slope, _ = np.polyfit(working["age"], working["income"], 1)
    assert slope == pytest.approx(5, abs=0.25)
    gap = working.groupby("sex", observed=True)["income"].mean()
    assert gap["m"] - gap["f"] == pytest.approx(40, abs=10)
    for low, high in ((16, 40), (60, 80)):
        one, other = (
            f.loc[f["age"].between(low, high), "job"].notna().mean() for f in (frame, out)
        )
        assert one == pytest.approx(other, abs=0.06)
    rates = out.groupby("sex", observed=True)["children"].mean()
    assert rates["f"] / rates["m"] == pytest.approx(np.exp(0.8), rel=0.12)
    assert (out["children"] == out["children"].round()).all()
    assert out.loc[out["sex"] == "m", "children"].var() == pytest.approx(rates["m"], rel=0.25)


# --- DPMPM


def planted(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two classes, 0.7 and 0.3, that differ in all of four columns of 2, 3, 4 and 5 levels."""
    classes = (rng.random(n) < 0.3).astype(int)
    columns = []
    for size in (2, 3, 4, 5):
        chances = np.full((2, size), 0.1 / (size - 1))
        chances[0, 0] = chances[1, size - 1] = 0.9
        columns.append(_drawn(chances, classes, rng))
    return np.column_stack(columns), classes


def test_a_planted_mixture_is_recovered():
    rng = np.random.default_rng(5)
    codes, classes = planted(3000, rng)
    found = fitted(codes, [], 8, 120, rng)
    # A planted class may be told by several of the model that are alike: they are put together.
    of = np.column_stack([c.argmax(axis=1) for c in found.chances])
    big = found.weights > 0.01
    second = of[:, 0] == 1
    assert found.weights[second].sum() == pytest.approx(0.3, abs=0.03)
    assert (of[big & ~second] == 0).all()
    assert (of[big & second] == [1, 2, 3, 4]).all()
    for j, size in enumerate((2, 3, 4, 5)):
        for side, level in ((~second, 0), (second, size - 1)):
            share = found.weights[side] @ found.chances[j][side, level] / found.weights[side].sum()
            assert share == pytest.approx(0.9, abs=0.03)
    assert (second[found.classes] == (classes == 1)).mean() > 0.93


def zeros(*parts: ZeroPart) -> ZeroRule:
    return ZeroRule(parts=parts)


@pytest.mark.parametrize("kept", [(), ("age",)])
def test_structural_zeros_are_respected_and_columns_stay_as_common(kept):
    rng = np.random.default_rng(4)
    age = rng.integers(0, 60, 2500).astype(float)
    married = np.where(age < 16, None, rng.choice(["no", "yes"], 2500))
    frame = pd.DataFrame({"age": age, "married": married})
    rules = (
        zeros(ZeroPart(column="age", high=15), ZeroPart(column="married", values=("no", "yes"))),
        zeros(ZeroPart(column="age", low=16), ZeroPart(column="married", values=(None,))),
    )
    schema = Schema(numbers=frozenset({"age"}), kept=kept, zeros=rules)
    out = dpmpm(frame, schema, rng, classes=12, sweeps=60)
    assert not impossible(frame, rules).any()
    assert not impossible(out, rules).any()
    assert out["married"].isna().mean() == pytest.approx(frame["married"].isna().mean(), abs=0.04)
    free = dpmpm(frame, Schema(numbers=frozenset({"age"})), rng, classes=2, sweeps=10)
    assert impossible(free, rules).any()
