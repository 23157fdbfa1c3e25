"""Intervals by replays hold over keys that are always the same; the check that says so sees planted faults."""

from __future__ import annotations

from dataclasses import replace

import duckdb
import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import ACCEPTED, CENSUS, make_census, write_spec

import engine
from queries.intervals import cache
from queries.intervals.statement import aggregates
from queries.release import open_release

pytestmark = pytest.mark.slow
KEYS = 4
TABLES = (("age",), ("sex",), ("income",), ("age", "sex"), ("income", "sex"))
STATEMENTS = [
    "SELECT age, avg(count(*)) OVER (ORDER BY age ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING) FROM data "
    "WHERE age BETWEEN 10 AND 70 GROUP BY age",
    "SELECT age, count(*) - lag(count(*)) OVER (ORDER BY age) FROM data WHERE age BETWEEN 10 AND 70 GROUP BY age",
    "SELECT sex, stddev_samp(age) FROM data GROUP BY sex",
    "SELECT sex, mad(age) FROM data GROUP BY sex",
]
OF_INCOME = [
    f"SELECT sex, stddev_samp(income) FROM data WHERE income BETWEEN {low} AND {low + 20_000} GROUP BY sex"
    for low in range(20_000, 80_000, 5_000)
]

OF_TAIL = [
    f"SELECT sex, stddev_samp(income) FROM data WHERE income > {low} GROUP BY sex"
    for low in range(0, 100_000, 10_000)
]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Releases under several keys, and their data."""
    folder = tmp_path_factory.mktemp("coverage")
    people = make_census(folder / "census", people=6_000) / "people.parquet"
    paths = []
    for number in range(KEYS):
        own = folder / str(number)
        own.mkdir()
        columns = {name: CENSUS[name] for name in ("person_id", "age", "sex", "income")}
        spec = write_spec(own, people, columns, TABLES, privacy=ACCEPTED, vintage=str(number))
        engine.build(spec, out=own / "r.duckdb", jobs=1).close()
        paths.append(own / "r.duckdb")
    return paths, pd.read_parquet(people)


def share(made, statements) -> float:
    """Share of intervals that hold the figure of the data."""
    paths, data = made
    held = []
    con = duckdb.connect()
    con.register("data", data)
    for text in statements:
        truth = dict(con.execute(text).fetchall())
        for path in paths:
            with open_release(path) as release:
                for key, _, low, high, _ in release.sql(text, intervals=True).rows:
                    if low is not None and truth.get(key) is not None:
                        held.append(low <= truth[key] <= high)
    assert len(held) > 60
    return float(np.mean(held))


def test_intervals_hold(made):
    assert share(made, STATEMENTS) >= 0.92
    assert share(made, OF_INCOME) >= 0.9


def test_noise_twice_as_large_as_the_release_says_is_seen(made, monkeypatch):
    whole = aggregates.ends_of_figures

    def halved(figures, **more):
        near = figures.imagined + (figures.replayed - figures.imagined) / 2
        return whole(replace(figures, replayed=near, doublings=0.0), **more)

    monkeypatch.setattr(aggregates, "ends_of_figures", halved)
    assert share(made, STATEMENTS) < 0.85


def test_fill_that_is_taken_for_measured_is_seen(made, monkeypatch):
    """Nothing is imagined, nor drawn at the most that is imagined, and what hiding moves is left out."""
    whole = aggregates.ends_of_figures
    monkeypatch.setattr(cache, "read", lambda *given: None)
    monkeypatch.setattr(cache, "write", lambda *given: None)
    monkeypatch.setattr("engine.fit.replay.imagine", lambda rows, *_: rows)
    monkeypatch.setattr(
        aggregates,
        "ends_of_figures",
        lambda figures, **more: whole(
            replace(figures, doublings=0.0, extreme=figures.extreme[:, :0]), **more
        ),
    )
    assert share(made, OF_TAIL) < 0.8
