"""Noise intervals of sums, means, quantiles and shares hold over fresh keys, and half the noise is noticed."""

from __future__ import annotations

import intervals
import intervals_measures as measures
import numpy as np
import pytest

from queries.intervals import estimates
from queries.intervals.extrapolation import beyond, stretched
from queries.intervals.model import NoiseModel
from queries.intervals.sums import Z

TABLES = (("income",), ("age", "sex"), ("income", "region"), ("income", "sex"))


def test_what_lies_beyond_is_as_far_as_the_outermost_rows_reach():
    numbers = np.concatenate([np.zeros(100), np.arange(1000.0, 1040.0, 2.0), [1100.0]])
    group = np.repeat([0, 1], [100, 21])
    more, less = beyond(2, group, numbers, np.ones(121), n_beyond=5)
    assert more[0] == 0  # no row of the first group is among the outermost
    assert 0 < more[1] <= 5 * 1.5 * 2048
    assert (less == 0).all()  # many zeros at the lower end: there the scale ends


def test_nothing_is_beyond_few_rows_or_a_pile():
    few = beyond(1, np.zeros(30, dtype=int), np.arange(30.0), np.ones(30), n_beyond=5)
    assert few[0][0] == few[1][0] == 0
    pile = np.append(np.arange(50.0), 90.0)
    n = np.append(np.ones(50), 40.0)
    assert beyond(1, np.zeros(51, dtype=int), pile, n, n_beyond=5)[0][0] == 0


def test_a_noisy_divisor_lengthens_and_one_near_nothing_has_no_end():
    sd, of = np.array([0.0, 1.0, 1.0]), np.array([10.0, 4.0, 1.0])
    got = stretched(sd * 2.0 / Z, of)
    assert got[:2] == pytest.approx([1.0, 4 / 3])
    assert np.isnan(got[2])


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


@pytest.mark.slow
def test_intervals_of_measures_hold_over_8_keys(tmp_path):
    columns = sorted({c for table in TABLES for c in table})
    data = intervals.census_data(tmp_path / "census", people=8_000, columns=columns)
    found = strata((tmp_path, data), keys=8)
    assert measures.failures(enough(found, 300), slack=0.02) == []
