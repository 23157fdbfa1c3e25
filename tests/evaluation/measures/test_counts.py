"""Counts, distributions, margins of several tables, and records that cannot be: by hand and by oracle."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from fixtures.utility import (
    BARE,
    EVERY_SET,
    checked,
    marginal_tables,
    of_marginals,
    people,
    replace_bins,
    side_by_side,
    table,
)

from engine.evaluation.data.aligned import Binning, align
from engine.evaluation.measures.combinations import Marginals, k_marginals
from engine.evaluation.measures.counts import (
    Distributions,
    Univariate,
    averaging,
    distributions,
    margin_gaps,
    univariate,
)
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
    checked(score)


def test_scaled_errors_are_those_of_a_table_as_large_as_the_original():
    got = side_by_side({"a": [1] * 90 + [2] * 10}, {"a": [1] * 40 + [2] * 10})
    score = univariate(got, Univariate())
    assert score.values["median_composite_error"] == pytest.approx((50 + 0) / 2)
    assert score.breakdown["scaled_absolute_error"].tolist() == [10, 10]
    assert score.values["scaled_median_composite_error"] == pytest.approx(
        (10 + 100 / 9) / 2 - 5 / 9
    )
    twice = side_by_side({"a": [1] * 90 + [2] * 10}, {"a": [1] * 180 + [2] * 20})
    assert univariate(twice, Univariate()).values["scaled_largest_absolute_error"] == 0
    frame, other = people(70, 1), people(70, 2)
    same_size = univariate(side_by_side(frame, other), Univariate()).values
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
    score = k_marginals(side_by_side(frame, sample, study=study), told, RNG(2))
    assert score.values["sampling_equivalent"] == percent
    assert score.values["sampling_equivalent_unbinned"] == percent
    curve = score.more["shares"]
    assert curve["share"].tolist() == list(told.shares)
    assert (curve["score"].diff().dropna() > 0).all(), "larger samples score higher"
    assert (curve["score_unbinned"] < curve["score"])[:-1].all()
    assert curve.iloc[-1, 1:].tolist() == [1000, 1000], "the last one is all of the original"
    checked(score)


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
    checked(score)


def score(aligned, *columns):
    got = distributions(aligned, Distributions(columns=columns))
    return checked(got)


def test_by_hand():
    got = score(side_by_side({"a": [1, 2, 3, 4]}, {"a": [1, 1, 5]}))
    # Steps at 1, 2, 3, 4, 5: 1/4 - 2/3, 1/2 - 2/3, 3/4 - 2/3, 1 - 2/3, 0.
    squares = [3 * (5 / 12) ** 2, (1 / 6) ** 2, (1 / 12) ** 2, (1 / 3) ** 2, 0]
    assert got.values["largest_u_m"] == pytest.approx(5 / 12)
    assert got.values["largest_u_a"] == pytest.approx(sum(squares) / 7)
    assert got.values["n"] == 1


@pytest.mark.parametrize(("n", "m", "seed"), [(40, 90, 1), (200, 31, 2), (1, 7, 3)])
def test_it_agrees_with_scipy_and_with_direct_distribution_functions(n, m, seed):
    stats = pytest.importorskip("scipy.stats")
    r = np.random.default_rng(seed)
    left, right = r.normal(0, 1, n).round(1), r.normal(0.3, 2, m).round(1)
    row = score(side_by_side({"a": left}, {"a": right})).breakdown.iloc[0]
    merged = np.concatenate([left, right])
    gap = np.array([(left <= t).mean() - (right <= t).mean() for t in merged])
    assert row["u_m"] == pytest.approx(stats.ks_2samp(left, right, method="asymp").statistic)
    assert row["u_a"] == pytest.approx((gap**2).mean())


def test_margins_of_exact_tables_agree_and_a_planted_gap_is_found():
    frame = people()
    exact = marginal_tables(frame, *EVERY_SET)
    assert set(margin_gaps(align(frame, exact, BARE)).values.values()) == {0.0, 1.0}
    wide = exact["age", "education", "sex"]
    n = wide.n.copy()
    n[4] += 3
    exact["age", "education", "sex"] = replace(wide, n=n)
    values = margin_gaps(align(frame, exact, BARE)).values
    assert values["up_to_2"] == 0
    assert values["above_2"] == values["above_2_on_1"] == values["above_2_on_2"] == 3
    assert values["share_equal_above_2"] == 0


def noisy_pairs(frame: pd.DataFrame, *, is_locked: bool) -> dict:
    """The table of one column and ten of it with another, noisy: each for itself, or all alike."""
    rng = np.random.default_rng(3)
    truth = frame["age"].value_counts().sort_index()
    first = rng.normal(0, 1.4, len(truth)).round().astype(int)
    out = {("age",): table(truth.to_numpy() + first, age=truth.index)}
    for i in range(10):
        noise = first if is_locked else rng.normal(0, 1.4, len(truth)).round().astype(int)
        other = f"c{i}"
        frame[other] = "same"
        out["age", other] = table(truth.to_numpy() + noise, age=truth.index, **{other: "same"})
    return out


def test_averaging_gains_nothing_where_margins_are_locked_and_much_where_they_are_not():
    frame = people(20_000)
    locked = averaging(align(frame, noisy_pairs(frame, is_locked=True), BARE)).values
    assert locked["ratio"] == 1
    assert locked["exact_all"] == locked["exact_alone"] < 0.5
    assert 1 < locked["sd_alone"] < 2
    free = averaging(align(frame, noisy_pairs(frame, is_locked=False), BARE)).values
    assert free["ratio"] < 0.5, "the control: eleven independent noises average away"
    assert free["exact_all"] > free["exact_alone"] + 0.2
    assert free["n"] == 90
