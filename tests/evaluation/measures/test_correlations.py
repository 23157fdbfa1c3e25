"""Correlations: coefficients against scipy and pandas, differences of pairs, constant columns, odd input."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from fixtures.utility import (
    one_table,
    people,
    side_by_side,
    table,
)

from engine.evaluation.measures import association
from engine.evaluation.measures.association import (
    Correlations,
    correlations,
    cramers_v,
    pearson,
    spearman,
    tau_b,
)

RNG = np.random.default_rng


def drawn(seed: int, size: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = RNG(seed)
    first, second = rng.integers(0, 3 + 4 * seed, size), rng.integers(0, 5, size)
    return first, np.where(rng.random(size) < 0.5, first, second), rng.integers(0, 4, size)


@pytest.mark.parametrize("largest_grid", [1 << 22, 1], ids=["grid", "sorting"])
@pytest.mark.parametrize("seed", range(2))
def test_tau_is_scipys(seed, largest_grid, monkeypatch):
    scipy_stats = pytest.importorskip("scipy.stats")
    monkeypatch.setattr(association, "LARGEST_GRID", largest_grid)
    first, second, n = drawn(seed)
    expected = scipy_stats.kendalltau(np.repeat(first, n), np.repeat(second, n)).statistic
    assert tau_b(first, second, n) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(2))
def test_pearson_and_spearman_are_scipys(seed):
    scipy_stats = pytest.importorskip("scipy.stats")
    first, second, n = drawn(seed)
    rows = np.repeat(first, n) * 1.5e3, np.repeat(second, n) - 7.25
    expected = scipy_stats.pearsonr(*rows).statistic
    assert pearson(first * 1.5e3, second - 7.25, n) == pytest.approx(expected, abs=1e-12)
    expected = scipy_stats.spearmanr(*rows).statistic
    assert spearman(first, second, n) == pytest.approx(expected, abs=1e-12)
    assert expected == pytest.approx(pd.Series(rows[0]).corr(pd.Series(rows[1]), method="spearman"))


@pytest.mark.parametrize("seed", range(2))
def test_cramers_v_is_scipys(seed):
    contingency = pytest.importorskip("scipy.stats.contingency")
    first, second, n = drawn(seed)
    grid = pd.crosstab(np.repeat(first, n), np.repeat(second, n)).to_numpy()
    expected = contingency.association(grid, method="cramer", correction=False)
    assert cramers_v(first, second, n) == pytest.approx(expected, abs=1e-12)


def test_coefficients_by_hand():
    up = np.array([0, 1, 2, 3])
    one = np.ones(4, np.int64)
    down = up[::-1].copy()
    assert tau_b(up, down, one) == spearman(up, down, one) == -1
    assert pearson(up * 1.0, down * 1.0, one) == pytest.approx(-1)
    assert cramers_v(up, down, one) == pytest.approx(1)
    square = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    for coefficient in (tau_b, spearman, cramers_v):
        assert coefficient(*square, one) == pytest.approx(0, abs=1e-12)
        assert coefficient(*square, np.array([1, 0, 0, 5])) == pytest.approx(1)


def test_correlations_leave_blanks_out_or_take_them_as_lowest():
    original = {"a": [1, 2, 3, None], "b": [1, 2, 3, 4]}
    got = side_by_side(original, table([1] * 4, a=[1, 2, 3, None], b=[4, 2, 1, 3]))
    out = correlations(got, Correlations(columns=("a", "b"))).breakdown
    assert out[["original", "synthetic"]].to_numpy().tolist() == [[1, -1]]
    low = correlations(got, Correlations(columns=("a", "b"), blanks="lowest", diagonal=True))
    assert low.breakdown["original"].tolist() == [0, 1, 1]
    assert low.values["n"] == 3
    assert low.values["median_difference"] == 0


@pytest.mark.parametrize("blanks", ["lowest", "left out"])
def test_differences_are_those_of_pandas(blanks):
    pytest.importorskip("scipy.stats")
    frame, other = people(150, 1), people(110, 2)
    told = Correlations(columns=("age", "education", "income"), blanks=blanks, most_values=10)
    shown = correlations(one_table(frame, other), told).breakdown.set_index(["first", "second"])
    for side, rows in (("original", frame), ("synthetic", other)):
        numbers = rows.drop(columns="sex")
        ranked = numbers.fillna(numbers.min() - 1) if blanks == "lowest" else numbers
        for kind, prefix, given in (
            ("kendall", "", ranked), ("spearman", "spearman_", ranked), ("pearson", "pearson_", numbers),
        ):  # fmt: skip
            for first, second in (("age", "education"), ("age", "income"), ("education", "income")):
                pair = given[[first, second]].dropna()
                expected = pair[first].corr(pair[second], method=kind)
                assert shown.loc[(first, second), f"{prefix}{side}"] == pytest.approx(expected)
    assert shown["cramers_v_original"].notna().sum() == 1, "education and sex have few values"
    assert (
        shown.loc[("education", "sex"), "original"] != shown.loc[("education", "sex"), "original"]
    )


def test_a_constant_column_drops_its_pairs_and_its_diagonal():
    """As in the archived report of a peer with two constant columns: 153 of 190 differences are left."""
    rows = {f"c{i:02}": RNG(i).integers(0, 4, 40) for i in range(19)}
    other = rows | {"c03": [1] * 40, "c11": [2] * 40}
    told = Correlations(columns=tuple(rows), diagonal=True)
    whole, less = (correlations(one_table(rows, o), told) for o in (rows, other))
    assert whole.values["n"] == 190
    assert less.values["n"] == 153
    assert "37 pairs" not in less.notes[0]
    assert "35 pairs" in less.notes[0]
    assert "c03, c11" in less.notes[0]
    assert not whole.notes


def test_perfect_of_itself_and_bad_of_independent_columns():
    frame = people(400)
    told = Correlations(columns=("age", "education", "income"))
    own = correlations(one_table(frame, frame), told).values
    assert all(
        own[f"{k}largest{d}"] == 0
        for k, d in (("", "_difference"), ("pearson_", ""), ("cramers_v_", ""))
    )
    mixed = pd.DataFrame({c: RNG(i).permutation(frame[c]) for i, c in enumerate(frame)})
    apart = correlations(one_table(frame, mixed), told).values
    assert apart["median_difference"] > 0.3
    assert apart["spearman_median"] > 0.3
