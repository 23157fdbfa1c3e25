"""What a release is good enough for, and its largest distortions: by hand."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
from fixtures.report import CATALOGUE, evaluation, result

from engine.evaluation.findings import Finding
from engine.evaluation.report.pictures import Names, distortions, uses
from engine.evaluation.report.verdicts import lines

NAMES = Names(labels={"a": "Area"}, value_labels={"a": {"1": "north"}})


def found(**scores: pd.DataFrame):
    given = {name: Finding(measure=name, breakdown=frame) for name, frame in scores.items()}
    return distortions(replace(result("r", 0.3), scores=given), NAMES)


def test_distortions_are_ranked_by_the_share_that_is_off():
    counts = pd.DataFrame(
        {
            "column": ["a", "a", "b", "b", "c"],
            "label": ["1", "2", "x", "y", "z"],
            "original": [60, 40, 50, 50, 100],
            "synthetic": [40, 60, 52, 48, 100],
        }
    )
    pairs = pd.DataFrame({"first": ["a"], "second": ["b"], "original": [0.5], "synthetic": [0.4]})
    estimates = pd.DataFrame(
        {"name": ["mean of b"], "original": [10.0], "synthetic": [11.0], "se_original": [0.5]}
    )
    told = found(univariate=counts, correlations=pairs, estimates=estimates)
    assert [(round(one.size, 9), one.words) for one in told] == [
        (0.2, "a: Area: 20 % of the rows are in a wrong value; furthest off: 1 north, shown 40, true 60."),
        (0.1, "mean of b: shown 11, true 10, 2.0 standard errors apart."),
        (0.05, "a: Area and b: rank correlation (Kendall's tau) shown 0.400, true 0.500."),
        (0.02, "b: 2 % of the rows are in a wrong value; furthest off: x, shown 52, true 50."),
    ]  # fmt: skip
    assert found() == []


def test_the_worst_headline_decides_on_a_use():
    whole = evaluation(result("r", 0.3))
    told = {use.what: use for use in uses(lines(whole, CATALOGUE))}
    assert told["counting values of one column"].verdict == "good"
    assert "0.300 (good ≤ 0.5, poor > 2)" in told["counting values of one column"].why
    worse = evaluation(result("r", 5.0))
    assert uses(lines(worse, CATALOGUE))[0].verdict == "poor"
