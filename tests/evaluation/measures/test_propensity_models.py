"""Propensity scores by models: by hand, against scikit-learn, their expectation, samples, and bad input."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest

from engine.errors import StoreError
from engine.evaluation.data.aligned import Distinct, align, distinct
from engine.evaluation.findings import figures_of
from engine.evaluation.measures.propensity import Models, expected_pmse, logistic, propensity_models
from engine.evaluation.study import Study
from engine.schema import column_set

FIGURES = figures_of("models")

pytest.importorskip("sklearn")
BARE = Study(title="")
BY_NAME = {f.name: f for f in FIGURES}


def rng(seed: int = 5) -> np.random.Generator:
    return np.random.default_rng(seed)


def against(original, *frames):
    frames = [pd.DataFrame(f) for f in frames]
    return align(pd.DataFrame(original), {column_set(list(f)): distinct(f) for f in frames}, BARE)


def score(original, *frames, seed=5, **told):
    got = propensity_models(against(original, *frames), Models(**told), rng(seed))
    for name, value in got.values.items():
        figure = BY_NAME[f"models.{name}"]
        assert figure.low <= value <= figure.high
    assert not set(got.values) & set(got.why_not)
    return got


def people(n: int, seed: int) -> pd.DataFrame:
    r = rng(seed)
    age = r.integers(0, 90, n)
    income = np.where(age < 16, np.nan, np.round(age * 20 + r.gamma(2, 300, n), -2))
    region = np.where(r.random(n) < 0.1, None, r.choice(list("abcd"), n, p=[0.4, 0.3, 0.2, 0.1]))
    return pd.DataFrame({"age": age, "income": income, "region": region, "sex": r.choice(2, n)})


def shuffled(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.apply(lambda c: rng(len(c.name)).permutation(c))


# The regression.


def test_one_column_of_two_values_by_hand():
    features = np.array([[1.0, 0], [1, 1]])
    got, n_parameters = logistic(features, np.array([30.0, 10]), np.array([10.0, 30]))
    assert got.guess == pytest.approx([0.25, 0.75], abs=1e-4)
    assert got.pmse == pytest.approx(1 / 16, abs=1e-4)
    assert got.auc == pytest.approx(0.75 * 0.75 + (0.75 * 0.25 * 2) / 2)
    assert n_parameters == 2
    assert expected_pmse(0.5, 80, 2) == 1 / 640


@pytest.mark.parametrize(("n_rows", "n_features", "seed"), [(40, 3, 1), (90, 7, 2), (25, 5, 3)])
def test_it_agrees_with_scikit_learn(n_rows, n_features, seed):
    from sklearn.linear_model import LogisticRegression

    r = rng(seed)
    features = np.column_stack([np.ones(n_rows), r.normal(size=(n_rows, n_features))])
    original, synthetic = r.integers(1, 9, (2, n_rows)).astype(float)
    got, n_parameters = logistic(features, original, synthetic)
    model = LogisticRegression(C=1e4, tol=1e-10, max_iter=2_000)
    model.fit(
        np.tile(features[:, 1:], (2, 1)),
        np.repeat([0, 1], n_rows),
        sample_weight=np.concatenate([original, synthetic]),
    )
    assert got.guess == pytest.approx(model.predict_proba(features[:, 1:])[:, 1], abs=1e-5)
    assert n_parameters == n_features + 1


# The measure.


def test_with_pairs_of_two_columns_it_is_the_closed_form():
    from engine.evaluation.measures.combinations import fit

    r = rng(4)
    cells = pd.MultiIndex.from_product([range(3), range(4)], names=["a", "b"]).to_frame(index=False)
    y, s = r.integers(3, 40, (2, 12))
    original = cells.loc[cells.index.repeat(y)]
    counted = {("a", "b"): Distinct(frame=cells, n=s)}
    got = propensity_models(align(original, counted, BARE), Models(), rng()).values
    closed = fit(y.astype(float), s.astype(float))
    assert got["logistic_parameters"] == 12
    assert got["logistic_pmse"] == pytest.approx(closed.pmse, rel=1e-4)
    assert got["logistic_s_pmse"] == pytest.approx(closed.s_pmse, rel=1e-4)


@pytest.mark.ci
def test_chance_gives_about_one_and_shuffled_columns_are_noticed():
    frame = people(3_000, 1)
    chance = [score(frame, frame.sample(frac=1, replace=True, random_state=i)) for i in range(4)]
    assert np.mean([s.values["logistic_s_pmse"] for s in chance]) == pytest.approx(1, abs=0.25)
    worst = score(frame, shuffled(frame))
    for name in ("logistic_s_pmse", "cart_ratio"):
        assert worst.values[name] > 5 > 2.5 > max(s.values[name] for s in chance)
    alone = score(frame, shuffled(frame), interactions=False)
    assert alone.values["logistic_pmse"] < 0.01 * worst.values["logistic_pmse"]
    assert worst.values["cart_auc"] > 0.6


def test_bad_input_is_answered_with_reasons():
    frame = people(50, 7)
    assert "no table" in score(frame).why_not[""]
    assert "no table" in score(frame, frame[["age"]], columns=("age", "sex")).why_not[""]
    for left, right in ((frame, frame[:0]), (frame[:0], frame), (frame, frame[:1])):
        assert "20 records" in score(left, right).why_not[""]
    blank = pd.DataFrame({"a": [None] * 30}, dtype=object)
    for constant in (pd.DataFrame({"a": [1] * 30}), blank):
        got = score(constant, constant)
        assert set(got.why_not) == {"logistic_s_pmse", "cart_ratio"}
        assert got.values["logistic_pmse"] == pytest.approx(0)


def test_without_scikit_learn_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.tree", None)
    frame = people(50, 8)
    with pytest.raises(StoreError, match="pip install"):
        score(frame, frame)
