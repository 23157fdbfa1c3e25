"""A release with a column of times of day: bounds, SQL with intervals, the page's bands, mode dp, evaluation."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import ACCEPTED, write_spec

from engine.api.reading import read
from engine.evaluation.data.aligned import Reading
from engine.evaluation.data.reading import read_original, read_subject, released_columns
from engine.release import build
from queries.release import open_release
from queries.serve.question import question_of, sql_of
from queries.serve.values import variables_of

pytestmark = pytest.mark.ci
N = 2000
COLUMNS = {"clock": {"kind": "time"}, "ward": {"kind": "category"}}
TABLES = [("clock",), ("ward",), ("clock", "ward")]


@pytest.fixture(scope="module")
def admissions():
    """Seconds since midnight, uniform over the day, and wards."""
    rng = np.random.default_rng(1)
    return rng.integers(0, 86_400, N), rng.choice(list("AB"), N)


def written(folder, admissions, columns=COLUMNS, **more):
    """A spec over a CSV of them."""
    seconds, wards = admissions
    clocks = [f"{s // 3600:02}:{s // 60 % 60:02}:{s % 60:02}" for s in seconds.tolist()]
    pd.DataFrame({"clock": clocks, "ward": wards}).to_csv(folder / "a.csv", index=False)
    return write_spec(folder, "a.csv", columns, TABLES, entities=(), privacy=ACCEPTED, **more)


@pytest.fixture(scope="module")
def spec(tmp_path_factory, admissions):
    return written(tmp_path_factory.mktemp("times"), admissions)


@pytest.fixture(scope="module")
def release(spec):
    build(read(spec), spec.with_name("r.duckdb"), jobs=1)
    with open_release(spec.with_name("r.duckdb")) as made:
        yield made


@pytest.mark.parametrize(
    ("condition", "inside"),
    [
        ("clock < '12:00:00'", lambda s: s < 43_200),
        ("clock >= TIME '18:00'", lambda s: s >= 64_800),
        ("clock BETWEEN '06:00' AND '09:59:59'", lambda s: (s >= 21_600) & (s < 36_000)),
        ("hour(clock) IN (22, 23, 0)", lambda s: np.isin(s // 3600, [22, 23, 0])),
        ("date_part('hour', clock) < 6", lambda s: s < 21_600),
    ],
)
def test_conditions_on_times_have_intervals_around_the_truth(
    release, admissions, condition, inside
):
    answer = release.sql(f"SELECT count(*) AS n FROM data WHERE {condition}", intervals=True)
    ((n, low, high, status),) = answer.rows
    assert status == "reliable"
    assert high - low < 100
    # Wider than the interval by half: one of 20 may lie outside.
    assert low - 20 <= int(inside(admissions[0]).sum()) <= high + 20
    assert low <= n <= high


def test_the_page_and_its_sql_have_the_same_bands(release):
    variables = variables_of(release)
    question = question_of([("rows", "clock"), ("band.clock", "180")])
    rows = release.sql(sql_of(question, variables, "data")).rows
    assert [minute for minute, _ in rows] == list(range(0, 1440, 180))
    assert sum(n for _, n in rows) == release.sql("SELECT count(*) FROM data").rows[0][0]


def test_mode_dp_counts_declared_times(tmp_path, admissions):
    domain = {"min": "00:00", "max": "23:59:59"}
    columns = {
        "clock": {
            "kind": "time",
            "domain": domain,
            "public": True,
            "breaks": ["06:00", "12:00", "18:00"],
        },
        "ward": {"kind": "category", "domain": ["A", "B"], "public": True},
    }
    spec = tmp_path / "release.toml"
    written(tmp_path, admissions, columns, release={"mode": "dp"})
    text = spec.read_text().replace('accept_risk = "made-up people"\n', "")
    spec.write_text(text + "[dp]\nepsilon = 4.0\neach_row_is_one_entity = true\n")
    build(read(spec), tmp_path / "dp.duckdb", jobs=1)
    with open_release(tmp_path / "dp.duckdb") as made:
        rows = made.sql(
            "SELECT hour(clock) // 6 AS q, count(*) FROM data WHERE clock IS NOT NULL GROUP BY 1 ORDER BY 1"
        ).rows
    true = np.bincount(admissions[0] // 21_600, minlength=4)
    assert [q for q, _ in rows] == [0, 1, 2, 3]
    assert np.abs(np.array([n for _, n in rows]) - true).max() < 40


def test_evaluations_read_times_as_moments_of_one_day(release, spec, admissions):
    made, rows = spec.with_name("r.duckdb"), spec.with_name("a.csv")
    for like in (released_columns(made), None):
        original = read_original(rows, Reading(), like=like)["clock"]
        assert ((original - pd.Timestamp("1970-01-01")).dt.total_seconds() == admissions[0]).all()
    subject = read_subject(made, read_original(rows, Reading()), Reading(), "r")
    assert ("clock", "ward") in subject.tables
    assert subject.tables["clock",].frame["clock"].dt.date.unique().tolist() == [
        dt.date(1970, 1, 1)
    ]
