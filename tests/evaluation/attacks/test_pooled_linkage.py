"""Linkage by tables of two columns only: by hand, on tables that tell and that do not, controls, bad input."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from fixtures.risk import against, checked, rng, told

from engine.evaluation.attacks.linkage import linkage

KNOWN = ("a", "b", "c")


def people(n: int, seed: int, *, values: int = 6) -> pd.DataFrame:
    """Three known columns, a secret independent of them, and one that is `a` for most."""
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame({name: draw.integers(0, values, n) for name in KNOWN})
    frame["s"] = draw.integers(0, 3, n)
    frame["t"] = np.where(draw.random(n) < 0.8, frame["a"] % 3, draw.integers(0, 3, n))
    return frame


def two_way(frame: pd.DataFrame, *secrets: str) -> list[pd.DataFrame]:
    """Every pair of a known column and a secret, as they are."""
    return [frame[[k, s]] for k in KNOWN for s in secrets]


def test_by_hand_each_table_with_one_known_column_has_its_weight():
    """P(s | a) is .9 for 1 of a 0; b tells nothing; nobody is alike in two columns of one table."""
    rows = pd.DataFrame({"a": [0] * 10 + [1] * 10, "b": [0, 1] * 10, "s": [1] * 9 + [0] * 10 + [1]})
    asked = rows.iloc[[0, 9, 10]]
    found = checked(
        linkage(against(asked, rows[["a", "s"]], rows[["b", "s"]]), told("a", "b"), rng())
    )
    assert found.values["correct_all"] == pytest.approx(
        2 / 3
    )  # the 2nd is the one of a 0 without it
    assert found.values["linked"] == 1
    assert found.breakdown[["column", "right", "baseline"]].to_numpy().tolist() == [
        ["s", pytest.approx(2 / 3), pytest.approx(0.5)]
    ]
    assert "no pairs" in found.why_not["pairs"]


def test_people_of_the_data_are_told_from_strangers_where_tables_give_them_away():
    """A planted leak: known columns that single out everybody, in tables as they are."""
    data, others = people(400, 1, values=100_000), people(400, 2, values=100_000)
    found = checked(
        linkage(against(data, *two_way(data, "s"), control=others), told(*KNOWN), rng())
    )
    assert found.values["correct"] > 0.95
    assert found.control is not None
    assert found.control.value < 0.5
    assert found.values["excess_over_control"] > 0.4


def test_what_strangers_show_too_is_no_excess():
    data, others = people(3_000, 1), people(3_000, 2)
    for control in (others, None):
        aligned = against(data, *two_way(data, "t"), control=control)
        found = checked(linkage(aligned, told(*KNOWN), rng()))
        assert 0.75 < found.values["correct"] < 0.95
        assert found.baseline is not None
        assert found.baseline.value < 0.45
        assert abs(found.values["excess_over_control"]) < 0.05
