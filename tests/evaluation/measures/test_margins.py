"""What several tables of a release tell together: small cases by hand, and noise that averages away."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from fixtures.utility import (
    BARE,
    EVERY_SET,
    assert_in_catalogue,
    marginal_tables,
    one_table,
    people,
    side_by_side,
    table,
)

from engine.evaluation.data.aligned import align
from engine.evaluation.findings import figures_of
from engine.evaluation.measures.counts import (
    Ranges,
    Univariate,
    averaging,
    margin_gaps,
    one_way_from_wider,
    range_errors,
)


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


RNG = np.random.default_rng


def every_measure(aligned):
    yield margin_gaps(aligned)
    yield one_way_from_wider(aligned, Univariate())
    yield averaging(aligned)
    yield range_errors(aligned, Ranges(column="a"), RNG(0))


@pytest.mark.parametrize(
    "given",
    [
        one_table({"a": [1.0, 2.0]}, {"a": []}),
        one_table({"a": ["x", "y"]}, {"a": ["x"]}),
        one_table({"a": [None, None]}, {"a": [None]}),
        one_table({"a": [1.0]}, {"a": [1.0]}),
        one_table({"a": []}, {"a": [1.0]}),
        one_table({"a": [1.0, np.inf]}, {"a": [1e300]}),
        one_table({"a": [1.0, 3e9], "b": [1, 2]}, {"a": [7e8, -5e9], "b": [None, 1]}),
        side_by_side({"a": [1.0, 2.0]}),
    ],
    ids=["empty", "text", "blank", "one row", "no original", "endless", "far apart", "no table"],
)
def test_odd_input_gives_figures_or_reasons(given):
    for score in every_measure(given):
        assert_in_catalogue(score, figures_of(score.measure))
