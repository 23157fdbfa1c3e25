"""Noise intervals hold over fresh keys; the check that says so finds those that are half as wide, or far too wide."""

from __future__ import annotations

import intervals
import numpy as np
import pytest
from study import Keys

from queries.intervals import tabulation

TABLES = (("age",), ("hours",), ("age", "sex"), ("age", "region"), ("age", "region", "sex"))


def strata(folder, data, keys, tables=TABLES, seed=2021):
    return intervals.counts(data, tables, intervals.releases("census", folder, keys, tables), seed)


def census(folder, people, tables=TABLES):
    columns = sorted({c for table in tables for c in table})
    return intervals.census_data(folder / "census", people, columns, 2021)


def test_the_check_counts_what_holds_and_what_is_too_wide():
    rng = np.random.default_rng(5)
    truth = rng.integers(50, 500, 20_000).astype(float)
    value = truth + np.round(rng.normal(0, 1.4, 20_000))

    def stratum(half):
        return {(1, "single", "measured"): np.stack([truth, value, value - half, value + half])}

    assert intervals.failures(stratum(3)) == []
    assert "hold the truth" in intervals.failures(stratum(2))[0]
    assert "too wide" in intervals.failures(stratum(6))[0]
    assert 0.97 < intervals.coverage(stratum(3)[1, "single", "measured"]) < 0.99


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """Releases under three keys, always the same ones, and their data."""
    folder = tmp_path_factory.mktemp("intervals")
    data = census(folder, 3_000)
    tables = TABLES[:3]
    list(intervals.releases("census", folder, 3, tables, Keys("a few")))
    return folder, data, tables


@pytest.mark.ci
def test_intervals_hold_over_a_few_keys(few):
    folder, data, tables = few
    found = strata(folder, data, 3, tables)
    assert {key[:2] for key in found} >= {(1, "single"), (1, "range"), (2, "single"), (2, "range")}
    held = {key: got for key, got in found.items() if got.shape[1] >= 150}
    assert intervals.failures(held, slack=0.04) == []


@pytest.mark.slow
def test_half_the_noise_is_noticed(few, monkeypatch):
    folder, data, tables = few
    whole = tabulation.ends_of_figures

    def halved(figures, **more):
        low, high = whole(figures, **more)
        return (low + figures.value) / 2, (high + figures.value) / 2

    monkeypatch.setattr(tabulation, "ends_of_figures", halved)
    failed = " ".join(intervals.failures(strata(folder, data, 3, tables), slack=0.04))
    for stratum in (
        "(1, 'range', 'measured')",
        "(2, 'single', 'measured')",
        "(2, 'range', 'measured')",
    ):
        assert stratum in failed


@pytest.mark.slow
def test_intervals_of_sums_means_and_shares_hold(tmp_path):
    tables = (("income",), ("age", "sex"), ("income", "region"), ("income", "sex"))
    data, parts = census(tmp_path, 4_000, tables), {}
    each = intervals.releases("census", tmp_path, 2, tables, Keys("measures"))
    for (kind, columns, *_), got in intervals.measures(data, tables, each, 2021).items():
        parts.setdefault((kind, columns), []).append(got)
    found = {key: np.concatenate(each, axis=1) for key, each in parts.items()}
    held = {key: got for key, got in found.items() if got.shape[1] >= 60}
    assert {kind for kind, _ in held} >= {"sum", "mean", "median", "share"}
    assert intervals.failures(held, slack=0.06, widths=False) == []
