"""Counts of one column and of combinations, and records that cannot be: by hand, by oracle, on odd input."""

from __future__ import annotations

from itertools import combinations

import duckdb
import numpy as np
import pandas as pd
import pytest
from fixtures.utility import (
    BARE,
    assert_in_catalogue,
    collapsed,
    of_marginals,
    one_table,
    people,
    replace_bins,
    side_by_side,
    table,
)

from engine.errors import SpecError
from engine.evaluation.data.paired import Binning, distinct, pair
from engine.evaluation.figures import figures_of
from engine.evaluation.utility import Inconsistencies, Marginals, Rule, Univariate
from engine.evaluation.utility import rules as rules_module
from engine.evaluation.utility.counts import univariate
from engine.evaluation.utility.marginals import k_marginals
from engine.evaluation.utility.rules import inconsistencies
from engine.schema import column_set

RNG = np.random.default_rng
NO_SHARES = Marginals(width=2, leave_out=("income",), shares=())


# One column.


def test_univariate_errors_by_hand():
    got = side_by_side(
        {"a": [1] * 200 + [2] * 4 + [None] * 2},
        table([203, 3, 1], a=[1.0, 2.0, 9.0]),
    )
    score = univariate(got, Univariate())
    shown = score.breakdown.set_index("key")
    assert shown["label"].tolist() == ["1", "2", "9", "blank"]
    assert shown["absolute_error"].tolist() == [3, 1, 1, 2]
    assert shown["composite_error"].tolist() == [1.5, 1, 1, 2], "9 is not in the original: absolute"
    assert score.values["median_composite_error"] == 1.25
    assert score.values["largest_absolute_error"] == 3
    assert score.values["n"] == 4
    known = univariate(got, Univariate(known=("a",)))
    assert known.values["n"] == 2
    assert_in_catalogue(score, figures_of("univariate"))


def test_scaled_errors_are_those_of_a_table_as_large_as_the_original():
    got = one_table({"a": [1] * 90 + [2] * 10}, {"a": [1] * 40 + [2] * 10})
    score = univariate(got, Univariate())
    assert score.values["median_composite_error"] == pytest.approx((50 + 0) / 2)
    assert score.breakdown["scaled_absolute_error"].tolist() == [10, 10]
    assert score.values["scaled_median_composite_error"] == pytest.approx(
        (10 + 100 / 9) / 2 - 5 / 9
    )
    twice = one_table({"a": [1] * 90 + [2] * 10}, {"a": [1] * 180 + [2] * 20})
    assert univariate(twice, Univariate()).values["scaled_largest_absolute_error"] == 0
    frame, other = people(70, 1), people(70, 2)
    same_size = univariate(one_table(frame, other), Univariate()).values
    assert same_size["scaled_median_composite_error"] == pytest.approx(
        same_size["median_composite_error"]
    )


def test_groups_are_labelled_by_their_ends():
    study = replace_bins(a=Binning(ranks=2))
    got = one_table(
        {"a": [1, 2, 3, 4, None], "b": ["x", "y", None, "x", "x"]}, {"a": [7], "b": ["z"]}, study
    )
    shown = univariate(got, Univariate()).breakdown
    assert shown["label"].tolist() == ["1", "2 to 7", "blank", "x", "y", "z", "blank"]
    days = pd.to_datetime(["2020-01-01", "2021-02-03"])
    got = one_table({"d": days}, {"d": days[:1]})
    assert univariate(got, Univariate()).breakdown["label"].tolist() == ["2020-01-01", "2021-02-03"]


def test_a_column_without_a_table_is_left_out_and_said_to_be():
    got = side_by_side({"a": [1, 2], "b": [1, 2]}, table([], a=[]), table([2], b=[1]))
    score = univariate(got, Univariate(known=("z",)))
    assert set(score.breakdown["column"]) == {"b"}
    assert score.notes == ("a is left out: the table of a has no rows", "no table has z")


# Combinations.


def test_marginals_of_the_same_rows_score_1000_and_of_disjoint_ones_0():
    frame = people()
    same = of_marginals(frame, frame, ["age", "sex"], ["age", "education"])
    score = k_marginals(same, NO_SHARES)
    assert score.values == {"score": 1000.0, "score_unbinned": 1000.0, "n": 2.0}
    assert set(score.why_not) == {"sampling_equivalent", "sampling_equivalent_unbinned"}
    assert score.notes == ("1 combinations are left out, as no table has their columns",)
    apart = of_marginals(frame, frame.assign(age=frame["age"] + 1000), ["age", "sex"])
    assert k_marginals(apart, NO_SHARES).values["score"] == pytest.approx(0, abs=1e-9)


def test_marginals_by_hand_and_unbinned():
    study = replace_bins(a=Binning(edges=(0, 2, 4)))
    got = side_by_side({"a": [1, 2, 3, 4]}, table([2, 1, 1], a=[2, 3, 4]), study=study)
    score = k_marginals(got, Marginals(width=1, unbinned=("a",), shares=()))
    assert score.values["score"] == 1000
    assert score.values["score_unbinned"] == 500 * (2 - 0.5)


def test_distances_are_those_of_pandas_for_every_group():
    frame, other = people(90, 1), people(130, 2)
    told = Marginals(width=1, group=("sex",), leave_out=("income",), shares=())
    score = k_marginals(of_marginals(frame, other, ["age", "education", "sex"]), told)
    capped = {"f": [], "m": []}
    for name, shown in zip(("age", "education"), score.breakdown["distance"], strict=True):
        densities = [f.groupby(["sex", name], dropna=False).size() / len(f) for f in (frame, other)]
        off = densities[0].subtract(densities[1], fill_value=0).abs()
        assert shown == pytest.approx(off.sum())
        for sex in capped:
            own = off.groupby("sex").sum()[sex] / densities[0].groupby("sex").sum()[sex]
            capped[sex].append(min(own, 1))
    by_group = score.more["by_group"].set_index("sex")
    assert by_group["n"].to_dict() == frame["sex"].value_counts().to_dict()
    for sex, own in capped.items():
        assert by_group["distance"][sex] == pytest.approx(np.mean(own))
        assert by_group["score"][sex] == pytest.approx(1000 * (1 - np.mean(own)))


def test_of_very_many_rows_fewer_combinations_are_drawn(monkeypatch):
    frame = pd.DataFrame(RNG(3).integers(0, 4, (60, 7)), columns=list("abcdefg"))
    got = one_table(frame, frame)
    assert k_marginals(got, NO_SHARES).values["n"] == 21
    monkeypatch.setattr("engine.evaluation.utility.marginals.MOST_ROWS", 10 * 120)
    monkeypatch.setattr("engine.evaluation.utility.marginals._FEWEST", 4)
    score = k_marginals(got, NO_SHARES)
    assert score.values == {"score": 1000, "score_unbinned": 1000, "n": 10}
    assert score.notes == ("10 of 21 combinations were drawn at random",)


def test_a_grouping_column_that_no_table_has_is_left_out():
    frame, other = people(300, 1)[["age", "education"]], people(200, 2)[["age", "education"]]
    grouped = one_table(people(300, 1), other)
    told = Marginals(width=2, group=("sex",), shares=(50,))
    score = k_marginals(grouped, told, np.random.default_rng(1))
    alone = k_marginals(
        one_table(frame, other), told.model_copy(update={"group": ()}), np.random.default_rng(1)
    )
    assert score.values == alone.values
    densities = [
        f.groupby(["age", "education"], dropna=False).size() / len(f) for f in (frame, other)
    ]
    off = densities[0].subtract(densities[1], fill_value=0).abs().sum()
    assert score.values["score"] == pytest.approx(500 * (2 - off))
    assert "no table has the grouping column sex" in score.notes[-1]
    assert_in_catalogue(score, figures_of("marginals"))


@pytest.mark.parametrize("percent", [5, 20, 60])
def test_a_sample_is_equivalent_to_a_sample_of_its_size(percent):
    frame = pd.DataFrame({f"c{i}": RNG(i).integers(0, 30, 4_000) for i in range(6)})
    sample = frame.iloc[RNG(8).permutation(4_000)[: 40 * percent]]
    told = Marginals(width=2, unbinned=("c0",))
    study = replace_bins(c0=Binning(ranks=5))
    score = k_marginals(one_table(frame, sample, study), told, RNG(2))
    assert score.values["sampling_equivalent"] == percent
    assert score.values["sampling_equivalent_unbinned"] == percent
    curve = score.more["shares"]
    assert curve["share"].tolist() == list(told.shares)
    assert (curve["score"].diff().dropna() > 0).all(), "larger samples score higher"
    assert (curve["score_unbinned"] < curve["score"])[:-1].all()
    assert curve.iloc[-1, 1:].tolist() == [1000, 1000], "the last one is all of the original"
    assert_in_catalogue(score, figures_of("marginals"))


def test_the_curve_is_that_of_the_measure_on_samples():
    frame = people(400)
    told = Marginals(width=2, leave_out=("income",), shares=(25, 100))
    curve = k_marginals(one_table(frame, frame), told, RNG(4)).more["shares"]
    sample = frame.iloc[RNG(4).permutation(400)[:100]]
    assert curve["score"].iloc[0] == pytest.approx(
        k_marginals(one_table(frame, sample), NO_SHARES).values["score"]
    )
    assert curve["score"].iloc[1] == 1000


def test_too_many_combinations_are_drawn_once_each():
    frame = pd.DataFrame({f"c{i}": RNG(i).integers(0, 3, 40) for i in range(8)})
    got = one_table(frame, frame.iloc[::2])
    few = k_marginals(got, Marginals(width=2, most=10, shares=()), RNG(1))
    assert few.values["n"] == 10 == few.breakdown["columns"].nunique()
    assert few.notes == ("10 of 28 combinations were drawn at random",)
    assert set(few.breakdown["columns"]) <= {f"{a}, {b}" for a, b in combinations(frame, 2)}
    told = Marginals(width=2, most=28, shares=())
    first, second = (k_marginals(got, told, rng) for rng in (None, RNG(9)))
    assert first.values == second.values, "nothing is drawn where nothing must be"


# Records that cannot be.


def test_impossible_records_count_once_a_group_and_table():
    got = side_by_side(
        {"age": [5, 30], "job": ["N", "1"], "pay": [None, 2.0]},
        table([3, 4, 5], age=[5, 5, 40], job=["1", None, None], pay=[7.0, None, 1.0]),
        table([6], age=[2]),
        study=BARE,
    )
    rules = (
        Rule(
            name="child job", columns=("age", "job"), violated="age < 15 and job <> 'N'", group="x"
        ),
        Rule(
            name="child pay", columns=("age", "pay"), violated="age < 15 and pay <> 'N'", group="x"
        ),
        Rule(
            name="low", columns=("pay",), violated="pay <> 'N' and cast(pay as int) < 2", group="y"
        ),
        Rule(name="nowhere", columns=("age", "z"), violated="true"),
        Rule(name="unless", columns=("age", "job"), violated="true"),
    )
    # The original has no blank in job: there it stays a text, and the release's blanks are NULL.
    told = Inconsistencies(rules=rules, blank="N", unless={"unless": ("pay",)})
    score = inconsistencies(got, told)
    assert score.breakdown.set_index("rule")["records"].to_dict() == {
        "child job": 3, "child pay": 3, "low": 5,
    }  # fmt: skip
    assert score.values["records"] == score.values["records_of_3"] == 8
    assert score.values["rules_without_table"] == 1
    assert score.notes == (
        "rules without a table of their columns: nowhere",
        "rules that the study excepts for their table: unless",
    )
    assert_in_catalogue(score, figures_of("inconsistencies"))


def test_rules_see_types_and_null_where_no_blank_is_spelled():
    frame = pd.DataFrame(
        {
            "day": pd.to_datetime(["2020-01-01", None, "2021-01-01"]),
            "care": pd.Series([True, None, False], dtype=object),
            "n": [1.0, 2.0, None],
        }
    )
    got = pair(frame, {column_set(list(frame)): distinct(frame)}, BARE)
    rules = (
        Rule(name="late", columns=("day",), violated="day > DATE '2020-06-30'"),
        Rule(name="blank", columns=("care", "day"), violated="care IS NULL AND day IS NULL"),
        Rule(name="odd", columns=("n",), violated="n % 2 = 1"),
    )
    score = inconsistencies(got, Inconsistencies(rules=rules))
    assert score.breakdown["records"].tolist() == [1, 1, 1]
    assert score.values["records"] == 3
    for violated in ("n <", "n < (SELECT count(*) FROM glob('*'))"):
        wrong = Rule(name="wrong", columns=("n",), violated=violated)
        with pytest.raises(SpecError, match="rule wrong"):
            inconsistencies(got, Inconsistencies(rules=(wrong,)))


def test_a_session_that_a_rule_spoilt_costs_no_figure(monkeypatch):
    """DuckDB answers nothing any more after an error of its own."""
    got = one_table({"n": [1.0, 2.0, 3.0]}, {"n": [1.0, 1.0, 2.0]})
    odd, two = Rule(name="odd", columns=("n",), violated="n % 2 = 1"), "n = 2"
    section = Inconsistencies(rules=(odd, Rule(name="two", columns=("n",), violated=two)))
    whole = inconsistencies(got, section)
    real, spoilt = rules_module._run, []

    def run(con, *what):
        spoilt.append(con)
        if con is spoilt[0]:
            raise duckdb.FatalException("database has been invalidated")
        return real(con, *what)

    monkeypatch.setattr(rules_module, "_run", run)
    again = inconsistencies(got, section)
    assert len(spoilt) == 4
    assert again.values == whole.values
    assert again.breakdown.equals(whole.breakdown)


def test_a_rule_that_does_not_fit_the_synthetic_values_is_said_not_to():
    """Texts in the place of numbers: that rule is not computed; one that is wrong for the original too is a mistake."""
    got = one_table(
        {"age": [10, 40], "job": ["x", "y"]}, {"age": ["old", "young"], "job": ["x", "x"]}
    )
    rules = (
        Rule(name="young", columns=("age", "job"), violated="age * 2 < 30 and job = 'x'"),
        Rule(name="job", columns=("job",), violated="job = 'x'"),
    )
    score = inconsistencies(got, Inconsistencies(rules=rules))
    assert score.breakdown["rule"].tolist() == ["job"]
    assert score.values["records"] == 2
    assert score.values["rules_not_computed"] == 1
    assert "young" in score.notes[0]
    only = inconsistencies(got, Inconsistencies(rules=rules[:1]))
    assert not only.values
    assert "other types" in only.why_not[""]
    wrong = (Rule(name="off", columns=("job",), violated="nothing = 1"),)
    with pytest.raises(SpecError, match="rule off"):
        inconsistencies(got, Inconsistencies(rules=wrong))


def test_no_rules_are_no_nought():
    got = one_table({"a": [1]}, {"a": [1]})
    assert inconsistencies(got, Inconsistencies()).why_not == {"": "the study declares no rules"}
    nowhere = Inconsistencies(rules=(Rule(name="r", columns=("z",), violated="z > 0"),))
    assert "no table has z" in inconsistencies(got, nowhere).why_not[""]


# All of them.


def every_measure(paired):
    yield univariate(paired, Univariate()), figures_of("univariate")
    yield k_marginals(paired, Marginals(width=1)), figures_of("marginals")
    yield k_marginals(paired, Marginals(width=2, group=("a",))), figures_of("marginals")
    rules = (Rule(name="r", columns=("a", "b"), violated="a IS NULL AND b IS NOT NULL"),)
    yield inconsistencies(paired, Inconsistencies(rules=rules)), figures_of("inconsistencies")


ODD = {
    "empty": one_table({"a": [1, 2], "b": ["x", None]}, {"a": [], "b": []}),
    "blank": one_table({"a": [None] * 3, "b": [None] * 3}, {"a": [None], "b": [None]}),
    "constant": one_table({"a": [1, 1], "b": [2, 2]}, {"a": [1], "b": [2]}),
    "one row": one_table({"a": [1], "b": ["x"]}, {"a": [5], "b": ["y"]}),
    "missing": one_table({"a": [1, 2], "b": ["x", "y"]}, {"b": ["x"]}),
    "no original": one_table({"a": [], "b": []}, {"a": [1], "b": [1]}),
    "other types": one_table({"a": [1, 2], "b": [3, 4]}, {"a": ["x"], "b": [None]}),
    "no table": side_by_side({"a": [1, 2]}),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_input_gives_figures_or_reasons(name):
    for score, catalogue in every_measure(ODD[name]):
        assert_in_catalogue(score, catalogue)


def test_repeated_rows_are_rows_with_numbers():
    frame, other = people(200, 1), people(150, 2)[["age", "education", "sex"]]
    study = replace_bins(age=Binning(ranks=6))
    columns = column_set(list(other))
    both = [pair(frame, {columns: t}, study) for t in (distinct(other), collapsed(other))]
    rules = (Rule(name="r", columns=("age", "sex"), violated="age < 30 and sex = 'f'"),)
    for measure in (
        lambda c: univariate(c, Univariate()),
        lambda c: k_marginals(c, Marginals(width=2, group=("sex",), unbinned=("age",))),
        lambda c: inconsistencies(c, Inconsistencies(rules=rules)),
    ):
        first, second = (measure(c).values for c in both)
        assert first == pytest.approx(second)


def test_the_original_itself_is_perfect_and_independent_columns_are_not():
    frame = people(500)
    own = one_table(frame, frame)
    assert univariate(own, Univariate()).values["largest_absolute_error"] == 0
    told = Marginals(width=2, shares=(10, 90))
    assert k_marginals(own, told).values["score"] == 1000
    mixed = pd.DataFrame({c: RNG(i).permutation(frame[c]) for i, c in enumerate(frame)})
    apart = one_table(frame, mixed)
    assert univariate(apart, Univariate()).values["largest_absolute_error"] == 0
    assert k_marginals(apart, told).values["score"] < 700
