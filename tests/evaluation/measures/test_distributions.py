"""U_m and U_a: by hand, against scipy and direct distribution functions, weights, and bad input."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from engine.evaluation.data.aligned import align, distinct
from engine.evaluation.findings import figures_of
from engine.evaluation.measures.counts import Distributions, apart, distributions
from engine.evaluation.study import Study
from engine.schema import column_set

FIGURES = figures_of("distributions")

BY_NAME = {f.name: f for f in FIGURES}


def against(original, *frames, **study):
    frames = [pd.DataFrame(f) for f in frames]
    told = Study(title="", **study)
    return align(pd.DataFrame(original), {column_set(list(f)): distinct(f) for f in frames}, told)


def score(aligned, *columns):
    got = distributions(aligned, Distributions(columns=columns))
    for name, value in got.values.items():
        figure = BY_NAME[f"distributions.{name}"]
        assert figure.low <= value <= figure.high
    return got


def test_by_hand():
    got = score(against({"a": [1, 2, 3, 4]}, {"a": [1, 1, 5]}))
    # Steps at 1, 2, 3, 4, 5: 1/4 - 2/3, 1/2 - 2/3, 3/4 - 2/3, 1 - 2/3, 0.
    squares = [3 * (5 / 12) ** 2, (1 / 6) ** 2, (1 / 12) ** 2, (1 / 3) ** 2, 0]
    assert got.values["largest_u_m"] == pytest.approx(5 / 12)
    assert got.values["largest_u_a"] == pytest.approx(sum(squares) / 7)
    assert got.values["n"] == 1


@pytest.mark.parametrize(("n", "m", "seed"), [(40, 90, 1), (200, 31, 2), (1, 7, 3)])
def test_it_agrees_with_scipy_and_with_direct_distribution_functions(n, m, seed):
    stats = pytest.importorskip("scipy.stats")
    r = np.random.default_rng(seed)
    left, right = r.normal(0, 1, n).round(1), r.normal(0.3, 2, m).round(1)
    row = score(against({"a": left}, {"a": right})).breakdown.iloc[0]
    merged = np.concatenate([left, right])
    gap = np.array([(left <= t).mean() - (right <= t).mean() for t in merged])
    assert row["u_m"] == pytest.approx(stats.ks_2samp(left, right, method="asymp").statistic)
    assert row["u_a"] == pytest.approx((gap**2).mean())


def test_a_copy_is_perfect_and_what_has_nothing_in_common_is_worst():
    frame = pd.DataFrame({"a": [1, 2, 2, None], "day": pd.date_range("2020-01-01", periods=4)})
    copy = score(against(frame, frame.iloc[::-1])).values
    assert [copy[k] for k in copy] == [0, 0, 0, 0, 2]
    later = frame.assign(a=[7, 8, None, None], day=frame["day"] + pd.Timedelta(days=9))
    worst = score(against(frame, later))
    assert worst.values["median_u_m"] == 1
    assert worst.breakdown.set_index("column").loc["a", "blanks_synthetic"] == 0.5
    assert apart(np.array([1.0, 0]), np.array([0, 1.0])) == (1, 0.5)
