"""Estimates and their intervals: by hand, against scipy, coverage by simulation, and bad input."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from engine.evaluation.data.aligned import align, distinct
from engine.evaluation.findings import figures_of
from engine.evaluation.measures.analyses import Estimate, combine, combined_estimates, overlaps
from engine.evaluation.study import Study
from engine.schema import column_set

FIGURES = figures_of("estimates")

stats = pytest.importorskip("scipy.stats")
BARE = Study(title="")
BY_NAME = {f.name: f for f in FIGURES}
MEAN = Estimate(name="mean of a", kind="mean", column="a")
SHARE = Estimate(name="share of x", kind="share", column="t", value="x")
SLOPE = Estimate(name="slope", kind="slope", column="a", on="b")


def against(original, *frames):
    frames = [pd.DataFrame(f) for f in frames]
    return align(pd.DataFrame(original), {column_set(list(f)): distinct(f) for f in frames}, BARE)


def score(comparisons, *told):
    got = combined_estimates(comparisons, told)
    for name, value in got.values.items():
        figure = BY_NAME[f"estimates.{name}"]
        assert figure.low <= value <= figure.high
    return got


def people(n: int, seed: int) -> pd.DataFrame:
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


def test_mean_and_share_by_hand():
    original = {"a": [1, 2, 3, None], "t": ["x", "x", "y", None]}
    shown = score([against(original, original)], MEAN, SHARE).breakdown.set_index("name")
    assert shown.loc["mean of a", "original"] == 2
    assert shown.loc["mean of a", "se_original"] == pytest.approx((1 / 3) ** 0.5)
    assert shown.loc["share of x", "original"] == 0.5
    assert shown.loc["share of x", "se_original"] == pytest.approx((0.25 / 3) ** 0.5)


@pytest.mark.parametrize(("n", "m"), [(60, 45), (12, 150)])
def test_they_agree_with_scipy(n, m):
    original, synthetic = people(n, 1), people(m, 2)
    got = score([against(original, synthetic)], MEAN, SLOPE).breakdown.set_index("name")
    for side, frame in (("original", original), ("synthetic", synthetic)):
        kept = frame.dropna(subset="a")
        line = stats.linregress(kept["b"], kept["a"])
        assert got.loc["slope", side] == pytest.approx(line.slope)
        assert got.loc["slope", f"se_{side}"] == pytest.approx(line.stderr)
        assert got.loc["mean of a", side] == pytest.approx(kept["a"].mean())
        assert got.loc["mean of a", f"se_{side}"] == pytest.approx(stats.sem(kept["a"]))


def test_several_sets_are_combined():
    original = people(100, 5)
    sets = [people(80, seed) for seed in (6, 7, 8)]
    row = score([against(original, s) for s in sets], MEAN).breakdown.iloc[0]
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
    frame = people(30, 14).assign(one=1, blank=np.nan, tenth=0.1, endless=np.inf)
    frame["third"] = frame["b"] / 3
    alone = score([against(frame, frame)], told)
    assert alone.values == {}
    assert reason in alone.why_not[""]
    beside = score([against(frame, frame)], MEAN, told)
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
