"""Whole numbers, dates and times made coarser: values, SQL with intervals, page, packs, mode dp, evaluation."""

from __future__ import annotations

import csv
import datetime as dt

import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import ACCEPTED, write_spec

import engine
from engine.api.reading import read
from engine.evaluation.data.aligned import Reading
from engine.evaluation.data.reading import read_original, read_subject, released_columns
from engine.release import build
from queries.release import open_release
from queries.serve.question import question_of, sql_of
from queries.serve.values import variables_of

N = 3000
COLUMNS = {
    "cents": {"kind": "integer", "resolution": 2500},
    "arrival": {"kind": "date", "resolution": "month"},
    "seen": {"kind": "timestamp", "resolution": "week"},
    "ward": {"kind": "category"},
}
TABLES = [("cents", "ward"), ("arrival", "cents"), ("seen", "ward")]


@pytest.fixture(scope="module")
def stays():
    rng = np.random.default_rng(4)
    days = pd.Timestamp("2023-11-20") + pd.to_timedelta(rng.integers(0, 300, N), unit="D")
    seen = days + pd.to_timedelta(rng.integers(0, 86_400, N), unit="s")
    cents = rng.integers(-20_000, 60_000, N)
    ward = rng.choice(["A", "B"], N)
    return pd.DataFrame({"cents": cents, "arrival": days.date, "seen": seen, "ward": ward})


@pytest.fixture(scope="module")
def spec(tmp_path_factory, stays):
    folder = tmp_path_factory.mktemp("coarse")
    stays.to_csv(folder / "s.csv", index=False)
    return write_spec(
        folder, "s.csv", COLUMNS, TABLES, entities=(), privacy=ACCEPTED, release={"title": "Stays"}
    )


@pytest.fixture(scope="module")
def release(spec):
    build(read(spec), spec.with_name("r.duckdb"), jobs=1)
    with open_release(spec.with_name("r.duckdb")) as made:
        yield made


def test_released_values_are_the_steps_and_sums_are_kept(release, stays):
    cents = [v for (v,) in release.sql("SELECT DISTINCT cents FROM data").rows]
    assert all(isinstance(v, int) and v % 2500 == 0 for v in cents)
    assert len(cents) > 25
    months = {v for (v,) in release.sql("SELECT DISTINCT arrival FROM data").rows}
    assert months == {day.replace(day=1) for day in stays["arrival"]}
    weeks = {v for (v,) in release.sql("SELECT DISTINCT seen FROM data").rows}
    assert all((v.weekday(), v.time()) == (0, dt.time()) for v in weeks)
    ((mean,),) = release.sql("SELECT avg(cents) FROM data").rows
    assert abs(mean - stays["cents"].mean()) < 300


@pytest.mark.parametrize(
    ("condition", "inside"),
    [
        ("arrival = DATE '2024-02-01'", lambda s: s.arrival.map(lambda d: (d.year, d.month)) == (2024, 2)),
        ("year(arrival) = 2023", lambda s: s.arrival.map(lambda d: d.year) == 2023),
        ("cents >= 20000", lambda s: s.cents >= 18_750),
        ("ward = 'A' AND cents < 0", lambda s: (s.ward == "A") & (s.cents < -1250)),
    ],
)  # fmt: skip
def test_conditions_have_intervals_around_the_truth_of_the_coarser_column(
    release, stays, condition, inside
):
    answer = release.sql(f"SELECT count(*) AS n FROM data WHERE {condition}", intervals=True)
    ((n, low, high, status),) = answer.rows
    assert status == "reliable"
    assert low <= n <= high
    assert low - 15 <= int(inside(stays).sum()) <= high + 15


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("cents >= 20000", None),
        ("cents BETWEEN 20000 AND 20001", "cents is released rounded to multiples of 2500, so"),
        ("0.5 < cents", "compared with 0.5"),
        ("ward = 'A' OR cents IN (5000, 2501)", "compared with 2501"),
        ("arrival >= DATE '2024-02-01'", None),
        ("arrival <> '2024-02-03'", "arrival is released by month"),
        ("seen > TIMESTAMP '2024-01-01 00:00:01'", "seen is released by week"),
        ("seen > TIMESTAMP '2024-01-01'", None),  # a Monday
        ("CAST(cents AS VARCHAR) = '1/0'", None),
        ("CAST(cents AS DOUBLE) = 1e300", None),
        ("CAST(cents / 50 AS INTEGER) = 50", None),
        ("CAST(seen AS VARCHAR) > '2020'", None),
    ],
)
def test_conditions_finer_than_a_column_are_remarked_on(release, condition, said):
    warnings = release.sql(f"SELECT count(*) FROM data WHERE {condition}").warnings
    assert [said in text for text in warnings] == ([True] if said else [])


def test_whole_numbers_with_a_coarse_step_may_be_written_with_fractions(tmp_path, stays):
    """`init` does not see that few have one, and they are rounded all the same."""
    frame = stays[["cents", "ward"]].astype({"cents": float})
    frame.loc[[5, 9], "cents"] = [3750.0, 1250.5]
    frame.to_csv(tmp_path / "s.csv", index=False)
    frame.to_parquet(tmp_path / "s.parquet")
    columns = {name: COLUMNS[name] for name in ("cents", "ward")}
    made = []
    for source in ("s.csv", "s.parquet"):
        spec = write_spec(
            tmp_path, source, columns, [("cents", "ward")], entities=(), privacy=ACCEPTED
        )
        build(read(spec), tmp_path / "r.duckdb", jobs=1, force=True)
        with open_release(tmp_path / "r.duckdb") as release:
            made.append(release.sql("SELECT cents, ward, count(*) FROM data GROUP BY ALL").rows)
    assert sorted(made[0]) == sorted(made[1])
    assert len(made[0]) > 50


def test_the_page_and_packs_name_the_periods(release, tmp_path):
    variables = variables_of(release)
    assert [v.label for v in variables["arrival"].values][:2] == ["2023-11", "2023-12"]
    assert variables["seen"].values[1].label == "2023-W48"
    assert min(variables["cents"].widths) > 2500
    engine.publish_pack(release.path, tmp_path / "pack", accept_detected=True)
    labels = {
        cell
        for path in (tmp_path / "pack").rglob("*.csv")
        for row in csv.reader(path.read_text(encoding="utf-8").splitlines())
        for cell in row
    }
    assert "2024-03" in labels


def test_evaluations_compare_with_the_coarser_data(release, spec, stays):
    made, rows = spec.with_name("r.duckdb"), spec.with_name("s.csv")
    original = read_original(rows, Reading(), like=released_columns(made))
    assert set(original["cents"] % 2500) == {0}
    assert set(original["arrival"].dt.day) == {1}
    assert set(original["seen"].dt.day_of_week) == {0}
    subject = read_subject(made, read_original(rows, Reading()), Reading(), "r")
    assert ("arrival", "cents") in subject.tables


def test_mode_dp_counts_periods(tmp_path, stays):
    stays.to_csv(tmp_path / "s.csv", index=False)
    domain = {"min": "2023-10-01", "max": "2024-09-01"}
    columns = {
        "arrival": {"kind": "date", "resolution": "quarter", "domain": domain, "public": True},
        "ward": {"kind": "category", "domain": ["A", "B"], "public": True},
    }
    path = write_spec(
        tmp_path, "s.csv", columns, [("arrival", "ward")], entities=(), release={"mode": "dp"}
    )
    text = path.read_text() + "[dp]\nepsilon = 4.0\neach_row_is_one_entity = true\n"
    path.write_text(text)
    with pytest.raises(Exception, match="not a multiple of the resolution"):
        read(path)
    path.write_text(text.replace("2024-09-01", "2024-07-01"))
    build(read(path), tmp_path / "dp.duckdb", jobs=1)
    with open_release(tmp_path / "dp.duckdb") as made:
        rows = made.sql(
            "SELECT arrival, count(*) FROM data WHERE arrival IS NOT NULL GROUP BY 1 ORDER BY 1"
        ).rows
    assert [day for day, _ in rows] == [
        dt.date(2023, 10, 1),
        *(dt.date(2024, m, 1) for m in (1, 4, 7)),
    ]
    true = pd.to_datetime(stays["arrival"]).dt.to_period("Q").value_counts().sort_index()
    assert np.abs(np.array([n for _, n in rows]) - true.to_numpy()).max() < 40


pytestmark = pytest.mark.ci
TIMES_N = 2000
TIMES_COLUMNS = {"clock": {"kind": "time"}, "ward": {"kind": "category"}}
TIMES_TABLES = [("clock",), ("ward",), ("clock", "ward")]


@pytest.fixture(scope="module")
def admissions():
    """Seconds since midnight, uniform over the day, and wards."""
    rng = np.random.default_rng(1)
    return rng.integers(0, 86_400, TIMES_N), rng.choice(list("AB"), TIMES_N)


def written(folder, admissions, columns=TIMES_COLUMNS, **more):
    """A spec over a CSV of them."""
    seconds, wards = admissions
    clocks = [f"{s // 3600:02}:{s // 60 % 60:02}:{s % 60:02}" for s in seconds.tolist()]
    pd.DataFrame({"clock": clocks, "ward": wards}).to_csv(folder / "a.csv", index=False)
    return write_spec(folder, "a.csv", columns, TIMES_TABLES, entities=(), privacy=ACCEPTED, **more)


@pytest.fixture(scope="module")
def spec_of_times(tmp_path_factory, admissions):
    return written(tmp_path_factory.mktemp("times"), admissions)


@pytest.fixture(scope="module")
def release_of_times(spec_of_times):
    build(read(spec_of_times), spec_of_times.with_name("r.duckdb"), jobs=1)
    with open_release(spec_of_times.with_name("r.duckdb")) as made:
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
    release_of_times, admissions, condition, inside
):
    answer = release_of_times.sql(
        f"SELECT count(*) AS n FROM data WHERE {condition}", intervals=True
    )
    ((n, low, high, status),) = answer.rows
    assert status == "reliable"
    assert high - low < 100
    # Wider than the interval by half: one of 20 may lie outside.
    assert low - 20 <= int(inside(admissions[0]).sum()) <= high + 20
    assert low <= n <= high


def test_the_page_and_its_sql_have_the_same_bands(release_of_times):
    variables = variables_of(release_of_times)
    question = question_of([("rows", "clock"), ("band.clock", "180")])
    rows = release_of_times.sql(sql_of(question, variables, "data")).rows
    assert [minute for minute, _ in rows] == list(range(0, 1440, 180))
    assert sum(n for _, n in rows) == release_of_times.sql("SELECT count(*) FROM data").rows[0][0]


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
    spec_of_times = tmp_path / "release.toml"
    written(tmp_path, admissions, columns, release={"mode": "dp"})
    text = spec_of_times.read_text().replace('accept_risk = "made-up people"\n', "")
    spec_of_times.write_text(text + "[dp]\nepsilon = 4.0\neach_row_is_one_entity = true\n")
    build(read(spec_of_times), tmp_path / "dp.duckdb", jobs=1)
    with open_release(tmp_path / "dp.duckdb") as made:
        rows = made.sql(
            "SELECT hour(clock) // 6 AS q, count(*) FROM data WHERE clock IS NOT NULL GROUP BY 1 ORDER BY 1"
        ).rows
    true = np.bincount(admissions[0] // 21_600, minlength=4)
    assert [q for q, _ in rows] == [0, 1, 2, 3]
    assert np.abs(np.array([n for _, n in rows]) - true).max() < 40


def test_evaluations_read_times_as_moments_of_one_day(release_of_times, spec_of_times, admissions):
    made, rows = spec_of_times.with_name("r.duckdb"), spec_of_times.with_name("a.csv")
    for like in (released_columns(made), None):
        original = read_original(rows, Reading(), like=like)["clock"]
        assert ((original - pd.Timestamp("1970-01-01")).dt.total_seconds() == admissions[0]).all()
    subject = read_subject(made, read_original(rows, Reading()), Reading(), "r")
    assert ("clock", "ward") in subject.tables
    assert subject.tables["clock",].frame["clock"].dt.date.unique().tolist() == [
        dt.date(1970, 1, 1)
    ]
