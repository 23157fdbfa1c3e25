"""Regression lines by group, and trees that tell synthetic rows: against numpy and scikit-learn, on odd input."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from fixtures.utility import (
    BARE,
    assert_in_catalogue,
    collapsed,
    marginal_tables,
    of_marginals,
    one_table,
    people,
    replace_bins,
    side_by_side,
    table,
)

from engine.evaluation.data.paired import Binning, distinct, pair
from engine.evaluation.figures import figures_of
from engine.evaluation.utility import Propensity, Regression, RegressionGroup
from engine.evaluation.utility.propensity import propensity
from engine.evaluation.utility.regression import regression
from engine.schema import column_set

RNG = np.random.default_rng


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
    score = regression(pair(frame, wide, BARE), told)
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
    apart = regression(pair(frame, marginal_tables(frame, ["age"]), BARE), told)
    assert apart.why_not == {"": "no table has education, income, sex"}


def test_groups_are_found_by_number_text_or_time():
    frame = {
        "a": [0, 1, 0, 1], "b": [0, 1, 0, 2], "code": [1, 1, 2, 2], "text": ["1", "1", "2", "2"],
        "day": pd.to_datetime(["2020-01-01"] * 2 + ["2020-01-02"] * 2),
    }  # fmt: skip
    wheres = [
        {"code": [2]},
        {"code": ["2"]},
        {"text": ["2"]},
        {"text": [2]},
        {"day": ["2020-01-02"]},
    ]
    groups = tuple(RegressionGroup(name=str(i), where=w) for i, w in enumerate(wheres))
    groups += (RegressionGroup(name="never", where={"code": ["x"]}),)
    shown = regression(one_table(frame, frame), Regression(x="a", y="b", groups=groups)).breakdown
    assert shown["original"].tolist()[:5] == [2] * 5
    assert math.isnan(shown["original"].iloc[5])


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


def test_the_widest_table_has_a_figure_of_its_own():
    pytest.importorskip("sklearn.tree")
    frame, other = people(400, 1), people(300, 2).assign(sex="f")
    score = propensity(of_marginals(frame, other, ["age"], ["age", "sex"]), Propensity(depth=3))
    narrow, wide = score.breakdown["pmse"]
    assert score.values["pmse_wide"] == score.values["largest"] == wide > narrow
    assert score.values["pmse"] == pytest.approx((narrow + wide) / 2)


@pytest.mark.parametrize(
    "changed",
    [
        {"_LARGEST_KEY": 1, "_DENSE": 0},
        {"_LARGEST_KEY": 700, "_DENSE": 0},
        {"_DENSE": 0},
        {"_DENSE": 1 << 20},
    ],
)
def test_rows_are_put_together_alike_however_many_combinations_there_are(changed, monkeypatch):
    pytest.importorskip("sklearn.tree")
    frame, other = people(300, 1), people(250, 2)
    got = one_table(frame, other[["age", "education", "income", "sex"]])
    told = Propensity(depth=4, blanks_last=("income",))
    expected = propensity(got, told).values
    for name, value in changed.items():
        monkeypatch.setattr(f"engine.evaluation.utility.propensity.{name}", value)
    assert propensity(got, told).values == pytest.approx(expected)
    assert 0 < expected["pmse"] < 0.25


# Both.


def both(paired):
    told = Regression(x="a", y="b", groups=(RegressionGroup(name="all", where={"a": [1, 2, "x"]}),))
    yield regression(paired, told), figures_of("regression")
    yield propensity(paired, Propensity(binned=("a",))), figures_of("propensity")


FAR = replace_bins(a=Binning(edges=(0, 1)))
ODD = {
    "empty": one_table({"a": [1, 2], "b": ["x", None]}, {"a": [], "b": []}),
    "blank": one_table({"a": [None] * 3, "b": [None] * 3}, {"a": [None], "b": [None]}),
    "constant": one_table({"a": [1, 1], "b": [2, 2]}, {"a": [1], "b": [2]}),
    "one row": one_table({"a": [1], "b": ["x"]}, {"a": [5], "b": ["y"]}),
    "missing": one_table({"a": [1, 2], "b": ["x", "y"]}, {"b": ["x"]}),
    "no original": one_table({"a": [], "b": []}, {"a": [1], "b": [1]}),
    "endless": one_table(
        {"a": [1, 2, 1], "b": [1e300, -1e300, np.inf]}, {"a": [1, 2], "b": [3, 1e308]}
    ),
    "some empty": side_by_side(
        {"a": [1, 2], "b": [1, 2]}, table([], a=[]), table([1], a=[1], b=[2])
    ),
    "no numbers": side_by_side({"a": [1, 2], "b": [1, 2]}, table([0, 0], a=[1, 2], b=[1, 2])),
    "outside": one_table({"a": [7, 8], "b": [1, 2]}, {"a": [9], "b": [1]}, FAR),
    "no table": side_by_side({"a": [1, 2]}),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_input_gives_figures_or_reasons(name):
    pytest.importorskip("sklearn.tree")
    for score, catalogue in both(ODD[name]):
        assert_in_catalogue(score, catalogue)


def test_repeated_rows_are_rows_with_numbers():
    pytest.importorskip("sklearn.tree")
    frame, other = people(200, 1), people(150, 2)[["age", "education", "income"]]
    columns = column_set(list(other))
    told = Regression(x="age", y="income", digits=8, groups=(RegressionGroup(name="all"),))
    for measure in (lambda c: regression(c, told), lambda c: propensity(c, Propensity(depth=3))):
        first, second = (
            measure(pair(frame, {columns: t}, BARE)).values
            for t in (distinct(other), collapsed(other))
        )
        assert first == pytest.approx(second, abs=1e-7)
