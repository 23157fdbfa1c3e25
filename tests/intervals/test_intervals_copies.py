"""Intervals by copies hold over keys that are always the same; the check that says so sees planted faults."""

from __future__ import annotations

from itertools import count

import intervals
import intervals_copies
import numpy as np
import pytest
from intervals_measures import coverage

from engine.source import begin_charges
from queries.intervals.copies import replicates as module
from queries.intervals.copies import spread
from queries.intervals.statement import spreads as copies

pytestmark = pytest.mark.slow
TABLES = (("age",), ("sex",), ("income",), ("age", "sex"), ("income", "sex"))
STATEMENTS = {
    "moving mean": "SELECT age, avg(count(*)) OVER (ORDER BY age ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING) FROM data "
    "WHERE age BETWEEN 10 AND 70 GROUP BY age",
    "stddev": "SELECT sex, stddev_samp(age) FROM data GROUP BY sex",
    "difference": "SELECT age, count(*) - lag(count(*)) OVER (ORDER BY age) FROM data WHERE age BETWEEN 10 AND 70 "
    "GROUP BY age",
    "mad": "SELECT sex, mad(age) FROM data GROUP BY sex",
}
OF_INCOME = {"stddev of income": "SELECT sex, stddev_samp(income) FROM data GROUP BY sex"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with releases under three keys, and their data."""
    folder = tmp_path_factory.mktemp("copies")
    columns = sorted({c for table in TABLES for c in table})
    data = intervals.census_data(folder / "census", people=6_000, columns=columns)
    numbers = count(1)

    def known_key(path):
        path.touch(mode=0o600)
        path.write_bytes(next(numbers).to_bytes(32, "little"))
        begin_charges(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intervals.engine, "new_key", known_key)
        list(intervals.releases("census", folder, 3, TABLES))
    return folder, data


def found(made, statements):
    folder, data = made
    each = intervals.releases("census", folder, 3, TABLES)
    return intervals_copies.collect(data, each, statements)


def share(kept):
    """Share of all intervals that hold, over statements."""
    every = [one.all() for one in kept.values() if one.parts]
    return float(coverage(np.concatenate(every, axis=1)))


def test_intervals_hold(made):
    kept = found(made, STATEMENTS)
    assert sum(one.all().shape[1] for one in kept.values()) > 300
    assert share(kept) >= 0.94
    text = intervals_copies.markdown(kept)
    assert text.count("\n") == 3 + len(STATEMENTS)
    kinds = {one.kind for one in kept.values()}
    assert kinds == {"windows", "second moments", "quantiles and modes"}
    assert intervals_copies.strata(kept).count("\n") == 1 + len(kinds)


def without_tails(monkeypatch):
    """What no noise tells of would cover some of the fault."""
    monkeypatch.setattr(spread, "_by_tails", lambda *given: (0.0, 0.0))


def test_noise_twice_as_large_as_the_release_says_is_seen(made, monkeypatch):
    errors, scores = module.errors_of_buckets, module._scores
    halved = lambda *given, **named: errors(*given, **named) / 2  # noqa: E731
    monkeypatch.setattr(module, "errors_of_buckets", halved)
    monkeypatch.setattr(module, "_scores", lambda rng: scores(rng) / 2)
    without_tails(monkeypatch)
    monkeypatch.setattr(spread, "_by_steps", lambda *given, **named: 0.0)
    assert share(found(made, STATEMENTS)) < 0.85


def test_fill_that_is_taken_for_measured_is_seen(made, monkeypatch):
    kept = found(made, OF_INCOME)["stddev of income"]
    assert (kept.without, kept.all().shape[1]) == (6, 0)
    without_tails(monkeypatch)
    monkeypatch.setattr(copies, "MEASURED", 0.0)
    monkeypatch.setattr(copies, "TABLE_MEASURED", 0.0)
    assert share(found(made, OF_INCOME)) < 0.7
