"""Propensity scores by models and trees: against scikit-learn, a closed form and their expectation."""

from __future__ import annotations

import math
import sys

import numpy as np
import pandas as pd
import pytest
from fixtures.utility import (
    BARE,
    checked,
    marginal_tables,
    of_marginals,
    people,
    side_by_side,
)

from engine.errors import StoreError
from engine.evaluation.data.aligned import Distinct, align, distinct
from engine.evaluation.measures.analyses import Regression, RegressionGroup, regression
from engine.evaluation.measures.propensity import (
    Models,
    Propensity,
    expected_pmse,
    logistic,
    propensity,
    propensity_models,
)
from engine.schema import column_set

pytest.importorskip("sklearn")


def rng(seed: int = 5) -> np.random.Generator:
    return np.random.default_rng(seed)


def score(original, *frames, seed=5, **told):
    got = propensity_models(side_by_side(original, *frames), Models(**told), rng(seed))
    return checked(got)


def households(n: int, seed: int) -> pd.DataFrame:
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
    got = propensity_models(
        side_by_side(original, Distinct(frame=cells, n=s)), Models(), rng()
    ).values
    closed = fit(y.astype(float), s.astype(float))
    assert got["logistic_parameters"] == 12
    assert got["logistic_pmse"] == pytest.approx(closed.pmse, rel=1e-4)
    assert got["logistic_s_pmse"] == pytest.approx(closed.s_pmse, rel=1e-4)


@pytest.mark.ci
def test_chance_gives_about_one_and_shuffled_columns_are_noticed():
    frame = households(3_000, 1)
    chance = [score(frame, frame.sample(frac=1, replace=True, random_state=i)) for i in range(4)]
    assert np.mean([s.values["logistic_s_pmse"] for s in chance]) == pytest.approx(1, abs=0.25)
    worst = score(frame, shuffled(frame))
    for name in ("logistic_s_pmse", "cart_ratio"):
        assert worst.values[name] > 5 > 2.5 > max(s.values[name] for s in chance)
    alone = score(frame, shuffled(frame), interactions=False)
    assert alone.values["logistic_pmse"] < 0.01 * worst.values["logistic_pmse"]
    assert worst.values["cart_auc"] > 0.6


def test_without_scikit_learn_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.tree", None)
    frame = households(50, 8)
    with pytest.raises(StoreError, match="pip install"):
        score(frame, frame)


# Lines.


def test_slopes_are_those_of_least_squares():
    frame, other = people(900, 1), people(700, 2)
    wide = {column_set(list(other)): distinct(other)}
    told = Regression(
        x="education",
        y="income",
        digits=6,
        groups=(
            RegressionGroup(name="all"),
            RegressionGroup(name="women", where={"sex": ["f"]}),
            RegressionGroup(name="none", where={"sex": ["?"]}),
        ),
    )
    score = regression(align(frame, wide, BARE), told)
    for side, rows in (("original", frame), ("synthetic", other)):
        shown = score.breakdown.set_index("group")[side]
        for name, chosen in (("all", rows), ("women", rows[rows["sex"] == "f"])):
            full = chosen.dropna()
            assert shown[name] == pytest.approx(np.polyfit(full["education"], full["income"], 1)[0])
            shift = score.breakdown.set_index("group")[f"{side}_intercept"]
            assert shift[name] == pytest.approx(np.polyfit(full["education"], full["income"], 1)[1])
        assert math.isnan(shown["none"])
    assert score.values["n"] == 2
    assert score.notes == ("no line in these groups, on a side: none",)
    checked(score)
    apart = regression(align(frame, marginal_tables(frame, ["age"]), BARE), told)
    assert apart.why_not == {"": "no table has education, income, sex"}


# Trees.


def test_propensity_is_that_of_a_tree_on_all_rows():
    tree = pytest.importorskip("sklearn.tree")
    frame, other = people(900, 1), people(700, 2)
    got = of_marginals(frame, other, ["age", "education"], ["age", "sex"])
    score = propensity(got, Propensity(depth=4))
    rows = pd.concat([frame, other])
    truth = np.repeat([0, 1], [len(frame), len(other)])
    for columns, shown in zip(got.tables, score.breakdown["pmse"], strict=True):
        x = rows[list(columns)].fillna(-1).replace({"f": 0, "m": 1}).astype(float)
        guess = tree.DecisionTreeClassifier(max_depth=4, random_state=0).fit(x, truth)
        expected = np.mean((guess.predict_proba(x)[:, 1] - truth.mean()) ** 2)
        assert shown == pytest.approx(expected, rel=1e-3)
    checked(score)
