"""Linear: as much is got right as exposure predicts, of the column itself as of secrets of its own; non_members lose
nothing.
"""

from __future__ import annotations

import numpy as np
import pytest
from attacks.predicted import told_of
from attacks.trials import trial_of_rows
from fixtures.attacks import checked, held_of, rng

from engine.evaluation.attacks.protocol import Assumptions
from engine.evaluation.attacks.strong import linear
from engine.evaluation.findings import WHOLE

PEOPLE = 1_500
BIT = Assumptions(secrets=("bit",))


def columns_of(seed: int, k: int = 8) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    known = {f"c{i}": draw.integers(0, 30, PEOPLE) for i in range(k)}
    return known | {"bit": draw.integers(0, 2, PEOPLE)}


@pytest.fixture(scope="module")
def told():
    columns = columns_of(1)
    tables = [("bit", c) for c in columns if c != "bit"]
    return columns, trial_of_rows(columns, tables, 3)


def test_as_much_is_right_as_is_predicted(told):
    columns, trial = told
    found = checked(linear(held_of(columns, trial, non_members=columns_of(2)), BIT, rng()))
    predicted = told_of(trial, columns, "bit").of_all
    assert found.values["right"] == pytest.approx(predicted, abs=0.03)
    (row,) = found.breakdown.to_dict("records")
    assert row["real"] == pytest.approx(predicted, abs=0.04)
    assert row["non_members"] == pytest.approx(0.5, abs=0.04)
    assert found.values["gain"] > 0.05


def test_without_strangers_no_gain_is_told(told):
    columns, trial = told
    found = checked(linear(held_of(columns, trial), BIT, rng()))
    assert "gain" in found.why_not
    assert found.values["surest"] > found.values["right"]


def test_single_columns_give_no_system():
    columns = columns_of(1)
    found = checked(linear(held_of(columns, trial_of_rows(columns, [("bit",)], 1)), BIT, rng()))
    assert WHOLE in found.why_not
