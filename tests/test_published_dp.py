"""The reproduction of the figures of Raab 2022: coded tables, measures by hand, and what dp mode reaches on them.

SD2011 and the NIST excerpt lie beside the checkout; tests that need them skip without.
"""

from __future__ import annotations

from math import isnan

import numpy as np
import pandas as pd
import pytest
from dp import (
    NIST_GOALS,
    PAPER,
    Coded,
    Loop,
    coded,
    figures,
    mean_and_error,
    mean_s_pmse,
    nist7,
    params_for,
    published,
    quintile,
    replicated_uniques,
    sd2011,
    shape,
)
from fixtures.nist import NIST, needs_nist
from fixtures.pipeline import ROOT

SYNTHPOP = ROOT.parent / "shared" / "synthpop"
TWO_WAY = "mean_two_way_S_pMSE"


def needs_sd2011(test):
    """Mark a test that reads SD2011."""
    absent = not (SYNTHPOP / "SD2011.csv").exists()
    test = pytest.mark.skipif(
        absent, reason="SD2011 is not beside the checkout (../shared/synthpop)"
    )(test)
    return pytest.mark.nist(test)


def small() -> Coded:
    """Five rows of two columns of 2 and 3 levels."""
    codes = np.array([[0, 0], [0, 0], [0, 2], [1, 1], [1, 2]])
    return Coded(columns=("a", "b"), codes=codes, sizes=(2, 3))


# --- by hand


def test_margins_by_hand():
    assert small().margin(("a",)).tolist() == [3, 2]
    assert small().margin(("a", "b")).tolist() == [[2, 0, 1], [0, 1, 1]]
    assert small().margin(("b", "a")).tolist() == [[2, 0], [0, 1], [1, 1]]


def test_shape_by_hand():
    assert shape(small()) == pytest.approx({"k": 6, "p0": 100 / 3, "p1": 60})


def test_replicated_uniques_by_hand():
    cells = np.array([[0, 0], [0, 2], [1, 1], [1, 0]])
    assert replicated_uniques(small(), cells, np.array([1, 1, 2, 1])) == pytest.approx(20)


def test_s_pmse_by_hand():
    cells, n = np.array([[0, 0], [1, 1], [1, 2]]), np.array([1, 2, 2])
    # a: 3, 2 against 1, 4: (2^2 / 2 + 2^2 / 3) / 1; b: 2, 1, 2 against 1, 2, 2: (1 / 1.5 + 1 / 1.5 + 0) / 2
    assert mean_s_pmse(small(), cells, n, 1) == pytest.approx((10 / 3 + 2 / 3) / 2)


def test_a_limit_belongs_to_the_group_below():
    assert quintile(np.arange(1.0, 12.0)).tolist() == [0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_a_value_that_a_list_lacks_is_refused():
    with pytest.raises(ValueError, match="not in its list"):
        coded(pd.DataFrame({"a": ["x", "y"]}), {"a": ["x"]})


def test_means_and_their_errors():
    assert mean_and_error([1.0, 3.0]) == pytest.approx((2.0, 1.0))
    assert isnan(mean_and_error([1.0])[1])


# --- the loop takes the real path


def test_without_noise_the_loop_gives_back_what_its_margins_fix():
    loop = Loop(small())
    made = loop.synthesis(params_for(loop.table, epsilon=None), np.random.default_rng(1))
    got = np.zeros((2, 3), int)
    got[tuple(made.cells.T)] = made.n
    assert got.tolist() == small().margin(("a", "b")).tolist()
    assert made.converged


def test_noise_is_that_of_the_accounting():
    rng = np.random.default_rng(5)
    codes = np.column_stack([rng.integers(0, s, 4_000) for s in (4, 50, 30)])
    loop = Loop(Coded(columns=("a", "b", "c"), codes=codes, sizes=(4, 50, 30)))
    total, margins = loop.measured(params_for(loop.table, epsilon=1.0))
    # Three margins share 0.98 of epsilon as the cube roots of their cells. Whole-number Laplace noise: P(k) ~ a^|k|.
    roots = {m.columns: m.n.size ** (1 / 3) for m in margins}
    assert sorted(m.n.size for m in margins) == [120, 200, 1500]
    for margin in margins:
        off = margin.n - loop.counted(margin.columns)
        part = 0.98 * roots[margin.columns] / sum(roots.values())
        a = np.exp(-part)
        assert margin.variance == pytest.approx(2 * a / (1 - a) ** 2, rel=1e-3)
        assert float((off**2).mean()) == pytest.approx(
            margin.variance, rel=6 * (5 / off.size) ** 0.5
        )
    assert total.variance == pytest.approx(2 * 50**2, rel=0.01)


# --- SD2011


@needs_sd2011
def test_sd2011_has_the_published_cells():
    whole = sd2011(SYNTHPOP)
    for k, cells, uniques in ((3, 60, 0.0), (5, 2160, 5.98), (7, 77760, 34.18)):
        found = shape(whole.first(k))
        assert found["k"] == cells == published(SYNTHPOP, "original", "k_cells", f"S{k}")
        assert found["p1"] == pytest.approx(uniques, abs=0.005)
    assert isnan(published(SYNTHPOP, "catall", TWO_WAY, "S3", 0.5))


@needs_sd2011
@pytest.mark.parametrize(
    ("k", "repeats"), [(3, 40), *(pytest.param(k, 10, marks=pytest.mark.slow) for k in (5, 7))]
)
@pytest.mark.parametrize(("method", "of_paper"), [("catall", "catall"), ("ipf", "ipf_two_way")])
def test_without_noise_the_published_figures_are_met(k, repeats, method, of_paper):
    loop = Loop(sd2011(SYNTHPOP).first(k))
    found = figures(loop, repeats, **{**PAPER, "epsilon": None, "method": method})
    for width, measure in ((2, TWO_WAY), (3, "mean_three_way_S_pMSE")):
        told = published(SYNTHPOP, of_paper, measure, f"S{k}")
        mean, error = found[f"s_pmse_{width}"]
        of_ten = error * (repeats / 10) ** 0.5  # theirs is a mean of ten, rounded to 0.01
        assert abs(mean - told) < 4 * (error**2 + of_ten**2) ** 0.5 + 0.01


@needs_sd2011
@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_the_paper_is_met_on_s3(epsilon):
    loop = Loop(sd2011(SYNTHPOP).first(3))
    mean, error = figures(loop, 150, **PAPER, epsilon=epsilon)["s_pmse_2"]
    told = published(SYNTHPOP, "dp_ipf_two_way", TWO_WAY, "S3", epsilon)
    assert abs(mean / told - 1) < 0.25 + 2 * error / told


@pytest.mark.ci
@needs_sd2011
@pytest.mark.parametrize(
    ("k", "epsilon"),
    [
        (3, 1.0),
        *(
            pytest.param(k, epsilon, marks=pytest.mark.slow)
            for k, epsilon in ((3, 0.5), (5, 1.0), (7, 0.5), (7, 2.0))
        ),
    ],
)
def test_the_default_is_a_fifth_better_than_the_paper(k, epsilon):
    loop = Loop(sd2011(SYNTHPOP).first(k))
    ours, theirs = (
        figures(loop, 8, **told, epsilon=epsilon)["s_pmse_2"][0] for told in ({}, PAPER)
    )
    assert ours < 0.8 * theirs


# --- NIST, seven columns


@needs_nist
@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 10.0])
def test_the_goals_of_seven_columns_are_met(epsilon):
    mean, _ = figures(Loop(nist7(NIST)), 8, epsilon=epsilon)["s_pmse_2"]
    assert mean < NIST_GOALS[epsilon]


@needs_nist
def test_seven_columns_have_their_cells():
    assert shape(nist7(NIST))["k"] == 122_850
