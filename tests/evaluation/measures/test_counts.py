"""Counts of one column and of combinations, and records that cannot be: by hand, by oracle, on odd input."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from fixtures.utility import (
    BARE,
    assert_in_catalogue,
    of_marginals,
    one_table,
    people,
    replace_bins,
    side_by_side,
    table,
)

from engine.evaluation.data.aligned import Binning
from engine.evaluation.findings import figures_of
from engine.evaluation.measures.combinations import Marginals, k_marginals
from engine.evaluation.measures.counts import Univariate, univariate
from engine.evaluation.measures.rules import Inconsistencies, Rule, inconsistencies

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


@pytest.mark.parametrize("percent", [20])
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


# All of them.


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
