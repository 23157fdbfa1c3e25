"""Noise intervals of sums, means, quantiles and shares hold over fresh keys, and half the noise is noticed."""

from __future__ import annotations

import intervals
import numpy as np
import pytest

pytestmark = pytest.mark.slow
TABLES = (("income",), ("age", "sex"), ("income", "region"), ("income", "sex"))


def census(folder, people):
    columns = sorted({c for table in TABLES for c in table})
    return intervals.census_data(folder / "census", people, columns, 2021)


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """Releases under two keys, and their data."""
    folder = tmp_path_factory.mktemp("measures")
    data = census(folder, 4_000)
    list(intervals.releases("census", folder, 2, TABLES))
    return folder, data


def strata(few, keys, least):
    """By kind of figure and columns of the table."""
    folder, data = few
    parts: dict = {}
    each = intervals.releases("census", folder, keys, TABLES)
    for (kind, columns, *_), got in intervals.measures(data, TABLES, each, 2021).items():
        parts.setdefault((kind, columns), []).append(got)
    found = {key: np.concatenate(each, axis=1) for key, each in parts.items()}
    return {key: got for key, got in found.items() if got.shape[1] >= least}


def failures(found, slack):
    return intervals.failures(found, slack=slack, widths=False)


def test_intervals_of_measures_hold_over_two_keys(few):
    held = strata(few, 2, 60)
    assert {kind for kind, _ in held} >= {"sum", "mean", "median", "share"}
    assert failures(held, 0.06) == []


def test_intervals_of_measures_hold_over_8_keys(tmp_path):
    found = strata((tmp_path, census(tmp_path, 8_000)), 8, 300)
    assert failures(found, 0.02) == []
