"""Correlations, components, regression lines and estimates: against scipy, scikit-learn, numpy and pandas, by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from fixtures.utility import (
    checked,
    people,
    replace_bins,
    side_by_side,
    table,
)

from engine.evaluation.data.aligned import Binning
from engine.evaluation.findings import figures_of
from engine.evaluation.measures import association
from engine.evaluation.measures.analyses import (
    Components,
    Estimate,
    combine,
    combined_estimates,
    components,
    ks_distance,
    overlaps,
)
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
    shown = correlations(side_by_side(frame, other), told).breakdown.set_index(["first", "second"])
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
    whole, less = (correlations(side_by_side(rows, o), told) for o in (rows, other))
    assert whole.values["n"] == 190
    assert less.values["n"] == 153
    assert "37 pairs" not in less.notes[0]
    assert "35 pairs" in less.notes[0]
    assert "c03, c11" in less.notes[0]
    assert not whole.notes


FIGURES = figures_of("components")


def plain(frame: pd.DataFrame, blank: float = -1) -> np.ndarray:
    """Numbers of people, columns by name."""
    return (
        frame.assign(sex=(frame["sex"] == "m") * 1.0).fillna(blank)[sorted(frame)].to_numpy(float)
    )


@pytest.mark.parametrize("seed", range(2))
def test_ks_is_scipys(seed):
    scipy_stats = pytest.importorskip("scipy.stats")
    rng = RNG(seed)
    first, second = rng.integers(0, 9, 40 + seed) / 3, rng.integers(0, 8, 25) / 3
    n = rng.integers(0, 4, 40 + seed), rng.integers(0, 3, 25)
    expected = scipy_stats.ks_2samp(np.repeat(first, n[0]), np.repeat(second, n[1])).statistic
    assert ks_distance(first, second, *n) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("n", [1, 4])
def test_components_are_scikit_learns(n):
    decomposition = pytest.importorskip("sklearn.decomposition")
    scipy_stats = pytest.importorskip("scipy.stats")
    frame, other = people(300, 1), people(220, 2)
    score = components(side_by_side(frame, other), Components(n=n, blank=-7))
    left, right = plain(frame, -7), plain(other, -7)
    mean, deviation = left.mean(axis=0), left.std(axis=0)
    model = decomposition.PCA(n_components=n, svd_solver="full").fit((left - mean) / deviation)
    rows = [np.round((x - mean) / deviation @ model.components_.T, 9) for x in (left, right)]
    expected = [
        scipy_stats.ks_2samp(a, b).statistic for a, b in zip(rows[0].T, rows[1].T, strict=True)
    ]
    assert score.breakdown["ks"].tolist() == pytest.approx(expected, abs=1e-12)
    assert score.breakdown["explained"].tolist() == pytest.approx(model.explained_variance_ratio_)
    assert score.values["mean_ks"] == pytest.approx(np.mean(expected))
    checked(score)


def test_blanks_groups_and_columns_are_as_told():
    frame = pd.DataFrame({"a": [1.0, 2, 3, np.nan], "b": [1.0, 5, 9, 9], "c": ["x", "y", "x", "y"]})
    study = replace_bins(b=Binning(edges=(0, 4, 10)))
    other = frame.assign(b=[2.0, 6, 7, 8])
    told = Components(n=2, binned=("b",), blanks={"a": 50}, leave_out=("c",))
    score = components(side_by_side(frame, other, study=study), told)
    assert score.values["mean_ks"] == 0, "other values of the same groups"
    assert score.values["columns"] == 2
    assert components(side_by_side(frame, other), told).values["mean_ks"] > 0


def test_constant_columns_are_in_no_component():
    frame = people(100).assign(same=1, never=None, endless=np.inf)
    score = components(side_by_side(frame, frame), Components(n=9))
    assert len(score.breakdown) == 4
    assert "endless, never, same" in score.notes[0]


stats = pytest.importorskip("scipy.stats")
MEAN = Estimate(name="mean of a", kind="mean", column="a")
SHARE = Estimate(name="share of x", kind="share", column="t", value="x")
SLOPE = Estimate(name="slope", kind="slope", column="a", on="b")


def score(comparisons, *told):
    got = combined_estimates(comparisons, told)
    return checked(got)


def pairs_of_numbers(n: int, seed: int) -> pd.DataFrame:
    r = np.random.default_rng(seed)
    b = r.integers(0, 20, n)
    a = np.where(r.random(n) < 0.1, np.nan, b * 0.5 + r.normal(0, 3, n).round(1))
    return pd.DataFrame({"a": a, "b": b, "t": r.choice(["x", "y", None], n)})


# Combining and overlap.


def test_combining_rules_by_hand():
    got = combine([1, 2, 6], [1, 1, 4])
    assert (got.q, got.between, got.within) == (3, 7, 2)
    assert got.variance == pytest.approx(7 / 3 + 2)
    assert got.df == pytest.approx(2 * (1 + 2 / (7 / 3)) ** 2)
    half = stats.t.ppf(0.975, got.df) * (7 / 3 + 2) ** 0.5
    assert got.interval == pytest.approx((3 - half, 3 + half))


def test_overlap_by_hand_in_both_definitions():
    assert overlaps((0, 4), (0, 4)) == (1, 1)
    assert overlaps((0, 4), (2, 4)) == pytest.approx(((2 / 4 + 2 / 2) / 2,) * 2)
    assert overlaps((0, 4), (5, 7)) == pytest.approx((0, (-1 / 4 - 1 / 2) / 2))
    assert overlaps((0, 4), (9, 11))[1] < overlaps((0, 4), (5, 7))[1]


@pytest.mark.slow
def test_intervals_of_partly_synthetic_data_cover_as_often_as_they_say():
    """Values of a normal variable are drawn anew from its model: 95 % of the intervals hold the true mean."""
    r, n, m, hits = np.random.default_rng(1), 200, 5, 0
    for _ in range(1_000):
        y = r.normal(10, 2, n)
        mean, sd = y.mean(), y.std(ddof=1)
        z = r.normal(mean, sd, (m, n))
        got = combine(list(z.mean(1)), list(z.var(1, ddof=1) / n))
        # Reiter 2003: the variance of q_bar around the truth is that of the original and that of the drawing.
        hits += got.low <= 10 <= got.high
    assert 0.93 < hits / 1_000 < 0.97


# Estimates.


@pytest.mark.parametrize(("n", "m"), [(60, 45), (12, 150)])
def test_they_agree_with_scipy(n, m):
    original, synthetic = pairs_of_numbers(n, 1), pairs_of_numbers(m, 2)
    got = score([side_by_side(original, synthetic)], MEAN, SLOPE).breakdown.set_index("name")
    for side, frame in (("original", original), ("synthetic", synthetic)):
        kept = frame.dropna(subset="a")
        line = stats.linregress(kept["b"], kept["a"])
        assert got.loc["slope", side] == pytest.approx(line.slope)
        assert got.loc["slope", f"se_{side}"] == pytest.approx(line.stderr)
        assert got.loc["mean of a", side] == pytest.approx(kept["a"].mean())
        assert got.loc["mean of a", f"se_{side}"] == pytest.approx(stats.sem(kept["a"]))


def test_several_sets_are_combined():
    original = pairs_of_numbers(100, 5)
    sets = [pairs_of_numbers(80, seed) for seed in (6, 7, 8)]
    row = score([side_by_side(original, s) for s in sets], MEAN).breakdown.iloc[0]
    q = [s["a"].mean() for s in sets]
    v = [stats.sem(s["a"].dropna()) ** 2 for s in sets]
    assert row["synthetic"] == pytest.approx(np.mean(q))
    assert row["se_synthetic"] ** 2 == pytest.approx(np.var(q, ddof=1) / 3 + np.mean(v))
    assert row["df"] < np.inf


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        (Estimate(name="e", kind="mean", column="zzz"), "no table has zzz"),
        (Estimate(name="e", kind="mean", column="t"), "t is no number"),
        (Estimate(name="e", kind="slope", column="a"), "a slope needs `on`"),
        (Estimate(name="e", kind="slope", column="a", on="one"), "constant"),
        (Estimate(name="e", kind="share", column="t"), "a share needs `value`"),
        (Estimate(name="e", kind="share", column="t", value="zzz"), "does not vary"),
        (Estimate(name="e", kind="mean", column="tenth"), "does not vary"),
        (Estimate(name="e", kind="mean", column="endless"), "too large to be squared"),
        (Estimate(name="e", kind="mean", column="blank"), "fewer than 2 records"),
        (Estimate(name="e", kind="mean", column="a", where={"t": ["q"]}), "fewer than 2 records"),
    ],
)
def test_what_cannot_be_had_is_said_and_counted(told, reason):
    frame = pairs_of_numbers(30, 14).assign(one=1, blank=np.nan, tenth=0.1, endless=np.inf)
    frame["third"] = frame["b"] / 3
    alone = score([side_by_side(frame, frame)], told)
    assert alone.values == {}
    assert reason in alone.why_not[""]
    beside = score([side_by_side(frame, frame)], MEAN, told)
    assert (beside.values["n"], beside.values["missing"]) == (1, 1)
    assert reason in beside.notes[0]


def test_sets_of_synthetic_populations_are_combined_by_their_own_rule():
    # By hand: mean 12, b = 4 (of 10, 12, 14), v_bar = 1; T_f = (4/3) 4 - 1, df = 2 (1 - 1 / (16/3))^2.
    found = combine([10.0, 12.0, 14.0], [0.5, 1.0, 1.5], rule="full")
    assert (found.q, found.between, found.within) == (12.0, 4.0, 1.0)
    assert found.variance == pytest.approx(16 / 3 - 1)
    assert found.df == pytest.approx(2 * (1 - 3 / 16) ** 2)
    assert found.high - found.q == pytest.approx(found.q - found.low)
    partial = combine([10.0, 12.0, 14.0], [0.5, 1.0, 1.5])
    assert partial.variance == pytest.approx(4 / 3 + 1)
    assert partial.df == pytest.approx(2 * (1 + 1 / (4 / 3)) ** 2)


def test_a_variance_that_would_be_negative_is_adjusted():
    found = combine([10.0, 10.1], [3.0, 5.0], rule="full")
    assert (found.variance, found.df) == (4.0, float("inf"))
    assert found.high - found.q == pytest.approx(1.959963984540054 * 2)
    alone = combine([10.0], [4.0], rule="full")
    assert alone == combine([10.0], [4.0])
