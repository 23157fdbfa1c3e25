"""Parametric and joint synthesis: what is known of regressions, a planted mixture, structural zeros."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from engine.evaluation.baselines import Schema
from engine.evaluation.baselines.baseline import impossible
from engine.evaluation.baselines.dpmpm import _drawn, dpmpm, fitted
from engine.evaluation.baselines.parametric import parametric
from engine.params import ZeroPart, ZeroRule

pytest.importorskip("sklearn")


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
SCHEMA = Schema(numbers=NUMBERS)


@pytest.mark.ci
@pytest.mark.parametrize("baseline", [parametric(), dpmpm(sweeps=20)])
def test_types_number_generator_and_kept_columns(baseline):
    frame = people(300)
    out = baseline.synthesize(frame, SCHEMA, np.random.default_rng(1))
    assert list(out.columns) == list(frame.columns)
    assert list(out.dtypes) == list(frame.dtypes)
    assert len(out) == len(frame)
    pd.testing.assert_frame_equal(out, baseline.synthesize(frame, SCHEMA, np.random.default_rng(1)))
    assert not out.equals(baseline.synthesize(frame, SCHEMA, np.random.default_rng(2)))
    kept = Schema(numbers=NUMBERS, kept=("age", "job"))
    partly = baseline.synthesize(frame, kept, np.random.default_rng(1))
    pd.testing.assert_frame_equal(partly[["age", "job"]], frame[["age", "job"]])
    assert not partly["income"].equals(frame["income"])


def test_regressions_keep_slopes_chances_and_rates():
    frame = people(6000)
    out = parametric().synthesize(frame, SCHEMA, np.random.default_rng(1))
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
    out = dpmpm(classes=12, sweeps=60).synthesize(frame, schema, rng)
    assert not impossible(frame, rules).any()
    assert not impossible(out, rules).any()
    assert out["married"].isna().mean() == pytest.approx(frame["married"].isna().mean(), abs=0.04)
    free = dpmpm(classes=2, sweeps=10).synthesize(frame, Schema(numbers=frozenset({"age"})), rng)
    assert impossible(free, rules).any()
