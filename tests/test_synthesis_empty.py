"""Strata without rows, and tables in which nothing is possible."""

from __future__ import annotations

import numpy as np
import pytest
from test_synthesis import COLUMNS, made, margin_of, table_of, total_of, truth_of

from engine.errors import SpecError
from engine.joint.strata import within
from engine.levels import Margin, StructuralZero


def test_many_strata_that_are_nearly_empty_add_no_rows():
    rng = np.random.default_rng(5)
    true = np.zeros(200, dtype=np.int64)
    true[::20] = 500
    noisy = [Margin(columns=("area",), n=true + rng.integers(-60, 61, 200), variance=1220.0)]
    got = within(noisy, total_of(5010, 2.0), ("area",), (), {"area": 200})
    assert abs(sum(int(m.n) for m in got) - 5010) <= 1


def test_a_stratum_that_a_wider_rule_empties_gets_no_rows():
    cells = np.zeros((4, 2), dtype=bool)
    cells[:, 1] = True
    rule = StructuralZero(columns=("age", "sex"), cells=cells, why="planted")
    table = truth_of()
    noisy = [margin_of(table, ("age", "edu", "sex"), 9.0)]
    got = made(table, noisy, strata=("sex",), zeros=[rule], total=total_of(5000, 2.0))
    assert table_of(got)[..., 1, :].sum() == 0
    assert len(got.reports) == 1


@pytest.mark.parametrize("post", ["wls", "paper", "synthpop"])
def test_one_margin_of_everything_where_nothing_is_possible(post):
    nothing = StructuralZero(columns=("sex",), cells=np.ones(2, dtype=bool), why="planted")
    with pytest.raises(SpecError, match="no possible combination"):
        made(truth_of(), [COLUMNS], zeros=[nothing], post=post)
