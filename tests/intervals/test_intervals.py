"""Noise intervals hold over fresh keys; the check that says so finds those that are half as wide, or far too wide."""

from __future__ import annotations

from itertools import count

import intervals
import numpy as np
import pytest

from engine.source import begin_charges
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


def know_keys(patch):
    """Make the keys of releases always the same ones, so that a test does not depend on luck."""
    numbers = count(1)

    def known_key(path):
        path.touch(mode=0o600)
        path.write_bytes(next(numbers).to_bytes(32, "little"))
        begin_charges(path)

    patch.setattr(intervals.engine, "new_key", known_key)


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """Releases under three keys, always the same ones, and their data."""
    folder = tmp_path_factory.mktemp("intervals")
    data = census(folder, 3_000)
    tables = TABLES[:3]
    with pytest.MonkeyPatch.context() as patch:
        know_keys(patch)
        list(intervals.releases("census", folder, 3, tables))
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
def test_intervals_hold_over_25_keys(tmp_path, monkeypatch):
    know_keys(monkeypatch)
    data = census(tmp_path, 10_000)
    found = strata(tmp_path, data, 25)
    assert len(found) >= 8
    assert intervals.failures(found, slack=0.02) == []
