"""Noise intervals of sums, means, quantiles and shares hold over fresh keys, and half the noise is noticed."""

from __future__ import annotations

import intervals
import intervals_measures as measures
import pytest

from queries.intervals import estimates
from queries.intervals.model import NoiseModel

pytestmark = pytest.mark.slow
TABLES = (("income",), ("age", "sex"), ("income", "region"), ("income", "sex"))


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """Releases under two keys, and their data."""
    folder = tmp_path_factory.mktemp("measures")
    columns = sorted({c for table in TABLES for c in table})
    data = intervals.census_data(folder / "census", people=4_000, columns=columns)
    list(intervals.releases("census", folder, 2, TABLES))
    return folder, data


def strata(few, keys=2):
    folder, data = few
    return measures.collect(data, TABLES, intervals.releases("census", folder, keys, TABLES))


def enough(found, least):
    return {key: got for key, got in found.items() if got.all().shape[1] >= least}


def test_intervals_of_measures_hold_over_two_keys(few):
    found = strata(few)
    held = enough(found, 60)
    assert {kind.partition(" of ")[0] for kind, _ in held} >= {"sum", "mean", "median", "share"}
    assert measures.failures(held, slack=0.06) == []
    assert measures.markdown(found).count("\n") == len(found) + 1


def test_half_the_noise_is_noticed(few, monkeypatch):
    whole = NoiseModel._of_noise
    monkeypatch.setattr(NoiseModel, "_of_noise", lambda *given: whole(*given) / 4)
    monkeypatch.setattr(estimates, "sparse_variance", lambda *given: 0.0)
    failed = measures.failures(enough(strata(few), 60), slack=0.06)
    said = " ".join(failed)
    assert "('share', 2)" in said
    assert "('ratio', 2)" in said


def test_intervals_of_measures_hold_over_8_keys(tmp_path):
    columns = sorted({c for table in TABLES for c in table})
    data = intervals.census_data(tmp_path / "census", people=8_000, columns=columns)
    found = strata((tmp_path, data), keys=8)
    assert measures.failures(enough(found, 300), slack=0.02) == []
