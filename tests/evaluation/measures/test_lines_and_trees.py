"""Regression lines by group, and trees that tell synthetic rows: against numpy and scikit-learn, on odd input."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from fixtures.utility import (
    BARE,
    assert_in_catalogue,
    marginal_tables,
    of_marginals,
    people,
)

from engine.evaluation.data.aligned import align, distinct
from engine.evaluation.findings import figures_of
from engine.evaluation.measures.analyses import Regression, RegressionGroup, regression
from engine.evaluation.measures.propensity import Propensity, propensity
from engine.schema import column_set

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
    assert_in_catalogue(score, figures_of("regression"))
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
    assert_in_catalogue(score, figures_of("propensity"))


def test_propensity_is_nought_for_the_same_rows_and_a_quarter_for_others():
    pytest.importorskip("sklearn.tree")
    frame = people()
    same = of_marginals(frame, frame, ["age", "sex"], ["age", "education", "income", "sex"])
    values = propensity(same, Propensity()).values
    assert values["pmse"] == pytest.approx(0, abs=1e-12)
    assert values["pmse_wide"] == pytest.approx(0, abs=1e-12)
    other = of_marginals(frame, frame.assign(age=999), ["age", "sex"])
    assert propensity(other, Propensity()).values["pmse"] == pytest.approx(0.25)
