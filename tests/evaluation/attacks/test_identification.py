"""Identification by matching: by hand, a slow twin, controls that must be noticed, bad input."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from fixtures.risk import against, checked, rng, told

from engine.evaluation.attacks.protocol import DECLARED
from engine.evaluation.attacks.records import identification
from engine.evaluation.findings import WHOLE

PEOPLE = pd.DataFrame({"a": [1, 1, 1, 2, 3], "b": ["x", "x", "y", "y", "z"], "s": [7, 8, 7, 9, 7]})


def test_by_hand_for_rows_of_nobody():
    """c: 2, 2, 1, 1, 0; the own record is there for the 1st and 4th."""
    rows = pd.DataFrame(
        {"a": [1, 1, 1, 2, 4], "b": ["x", "x", "y", "y", "z"], "s": [7, 7, 8, 9, 7]}
    )
    found = checked(identification(against(PEOPLE, rows), told("a", "b"), rng()))
    assert found.values["expected_match_risk"] == 1.5
    assert found.values["expected_match_share"] == 0.3
    assert found.values["true_match_rate"] == 0.2
    assert found.values["false_match_rate"] == 0.5
    assert found.values["uniquely_matched"] == 0.4
    assert found.values["matched"] == 0.8
    assert found.rate.value == 0.2
    assert found.rate.n == 5
    # Records equal to each: 2, 0, 0, 1, 0 of 5.
    assert found.baseline.value == pytest.approx(3 / 25)
    assert found.breakdown["people"].tolist() == [1, 2, 2, 0, 0, 0]
    assert found.breakdown["own_among_them"].tolist() == [0, 1, 1, 0, 0, 0]


def test_by_hand_for_rows_of_known_people():
    """Row i is of person i: s is changed, b of the 2nd and 3rd swapped."""
    rows = pd.DataFrame(
        {"a": [1, 1, 1, 2, 3], "b": ["x", "y", "x", "y", "z"], "s": [0, 0, 0, 0, 0]}
    )
    found = checked(identification(against(PEOPLE, rows), told("a", "b", aligned=True), rng()))
    # c: 2, 2, 1, 1, 1; own among them: 1st, 4th, 5th.
    assert found.values["expected_match_risk"] == 2.5
    assert found.values["true_match_rate"] == 0.4
    assert found.values["false_match_rate"] == pytest.approx(1 / 3)
    assert found.baseline.value == pytest.approx(1 / 5)
    assert found.control is None
    assert "blind draw" in found.control_note
    assert found.values["excess_over_control"] == 0  # 2 of 5 and 1 of 5: chance may explain it


def test_a_slow_twin_agrees():
    source = rng()
    for n_people, n_rows in ((37, 23), (23, 61)):
        original, rows = (
            pd.DataFrame({c: source.integers(0, 4, n) for c in "abcd"}) for n in (n_people, n_rows)
        )
        found = checked(identification(against(original, rows), told("d", "b"), rng())).values
        risk, unique, true = 0.0, 0, 0
        for person in original.itertuples():
            agreeing = rows[(rows["b"] == person.b) & (rows["d"] == person.d)]
            own = ((agreeing["a"] == person.a) & (agreeing["c"] == person.c)).any()
            risk += own / len(agreeing) if len(agreeing) else 0
            unique += len(agreeing) == 1
            true += own and len(agreeing) == 1
        assert found["expected_match_risk"] == pytest.approx(risk)
        assert found["true_match_rate"] == pytest.approx(true / n_people)
        assert found["uniquely_matched"] == pytest.approx(unique / n_people)
        assert found["false_match_rate"] == pytest.approx(1 - true / unique)


def crowd(n: int, seed: int) -> pd.DataFrame:
    source = np.random.default_rng(seed)
    return pd.DataFrame({c: source.integers(0, 12, n) for c in "abcst"})


def test_the_original_loses_and_other_people_do_not():
    original, others = crowd(800, 1), crowd(800, 2)
    lost = checked(identification(against(original, original), told("a", "b", "c"), rng()))
    safe = checked(identification(against(original, others), told("a", "b", "c"), rng()))
    assert lost.values["true_match_rate"] > 0.5
    assert lost.values["false_match_rate"] == 0
    assert lost.values["excess_over_control"] > 0.3  # half the people against half of the records
    assert safe.values["true_match_rate"] < 0.01
    assert safe.values["excess_over_control"] < 0.02


def test_control_rows_are_attacked_where_given():
    original, others = crowd(400, 1), crowd(300, 2)
    found = identification(against(original, original, control=others), told("a", "b", "c"), rng())
    assert found.control.n == 300
    assert DECLARED in found.control_note
    lacking = identification(
        against(original, original, control=others[["a"]]), told("a", "b", "c"), rng()
    )
    assert checked(lacking).control is None
    assert "b" in lacking.why_not["excess_over_control"]


@pytest.mark.parametrize(
    ("original", "rows", "known", "why"),
    [
        (PEOPLE, PEOPLE[["s"]], ("a",), "no table has"),
        (PEOPLE, PEOPLE[["a"]], ("a",), "no table has"),
        (PEOPLE, PEOPLE[:0], ("a",), "synthetic table has no rows"),
        (PEOPLE[:0], PEOPLE, ("a",), "original has no rows"),
    ],
)
def test_what_cannot_be_attacked_says_why(original, rows, known, why):
    found = checked(identification(against(original, rows), told(*known), rng()))
    assert why in found.why_not[WHOLE]
    assert found.rate is None
    assert not found.values
