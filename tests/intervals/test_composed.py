"""Statements made of others, odd ones and universes: an interval that holds its figure, or none and why."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fixtures.intervals import sliced
from fixtures.pipeline import ACCEPTED, CENSUS, make_census, write_spec

import engine
from engine.release import build
from engine.source import begin_charges
from engine.spec import read_spec
from queries.intervals import tabulate
from queries.release import open_release
from queries.sql import MARK, NOT_RELEASED

GROUPS = "SELECT age, ward, count(*) AS n FROM data GROUP BY ALL"


@pytest.fixture(scope="module")
def release(stays):
    return stays


@pytest.fixture(scope="module")
def known(release):
    table = tabulate(release, ["age", "ward"])
    return dict(zip(table.keys, table.status, strict=True))


@pytest.mark.ci
@pytest.mark.parametrize(
    ("text", "at"),
    [
        (f"SELECT * FROM ({GROUPS})", 2),
        (f"WITH a AS ({GROUPS}) SELECT * FROM a WHERE n < 9 ORDER BY n DESC LIMIT 20", 2),
        (f"WITH a AS ({GROUPS}), b AS (FROM a) SELECT age, ward, b.n AS k, n FROM b", 3),
        (f"SELECT age, ward, n FROM (SELECT * EXCLUDE (m) FROM (SELECT *, n AS m FROM ({GROUPS})))", 2),
        (f"SELECT a.* FROM ({GROUPS}) a JOIN (SELECT DISTINCT ward FROM data) b USING (ward)", 2),
        (f"SELECT l.age, l.ward, r.n FROM ({GROUPS}) l LEFT JOIN ({GROUPS}) r ON (l.age, l.ward) = (r.age, r.ward)", 2),
        (f"SELECT a.* FROM ({GROUPS}) a SEMI JOIN (SELECT age FROM data WHERE age > 50) b USING (age)", 2),
        (f"SELECT age, ward, n FROM ({GROUPS}) UNION SELECT age, ward, count(*) FROM data GROUP BY ALL", 2),
        (f"SELECT age, ward, n::DOUBLE AS d FROM ({GROUPS})", 2),
        (f"SELECT age, ward, coalesce(n, 0) + 1 AS m FROM ({GROUPS}), range(2) AS r(i) WHERE i = 1", 2),
        (f"SELECT age, ward, 100 * n / sum(n) OVER (PARTITION BY age) AS pct FROM ({GROUPS})", 2),
        (f"SELECT age, ward, sum(n) OVER (PARTITION BY age, ward) AS m FROM ({GROUPS})", 2),
        (f"WITH a AS ({GROUPS}) SELECT age, ward, n / (SELECT sum(n) FROM a) AS part FROM a", 2),
        ("SELECT age, ward, count(*) / (SELECT count(*) FROM data) AS part FROM data GROUP BY ALL", 2),
        ("SELECT age, ward, CASE WHEN count(*) > 5 THEN 'many' ELSE 'few' END AS how FROM data GROUP BY ALL", 2),
        ("SELECT age, ward, max(urgent) AS last FROM data GROUP BY ALL", 2),
    ],
)  # fmt: skip
def test_figures_have_the_marks_that_they_have_alone(release, known, text, at):
    result = release.sql(text)
    of_three = "urgent" in text  # of a wider table, whose counts are the same here
    hidden = 0
    for row, status in zip(result.rows, result.marks.statuses[at], strict=True):
        assert of_three or (status == NOT_RELEASED) == (known[row[:2]] == NOT_RELEASED)
        hidden += status == NOT_RELEASED
    assert hidden
    assert sum(row[at] == MARK for row in result.shown()) == hidden


@pytest.mark.parametrize(
    ("text", "alone"),
    [
        ("WITH d AS (SELECT *, age // 10 AS band FROM data WHERE age > 20) SELECT band, ward, count(*) AS n "
         "FROM d GROUP BY band, ward ORDER BY ALL",
         "SELECT age // 10 AS band, ward, count(*) AS n FROM data WHERE age > 20 GROUP BY 1, 2 ORDER BY ALL"),
        ("SELECT x.of, count(*) AS n FROM (SELECT ward AS of, age FROM data) x WHERE x.age < 50 "
         "GROUP BY x.of ORDER BY 1",
         "SELECT ward AS of, count(*) AS n FROM data WHERE age < 50 GROUP BY ward ORDER BY 1"),
        ("WITH a AS (FROM data), b AS (SELECT * EXCLUDE (urgent) FROM a WHERE age > 30) SELECT ward, avg(age) AS m "
         "FROM b WHERE ward <> 'Burns' GROUP BY ward ORDER BY 1",
         "SELECT ward, avg(age) AS m FROM data WHERE age > 30 AND ward <> 'Burns' GROUP BY ward ORDER BY 1"),
    ],
)  # fmt: skip
def test_subqueries_that_only_choose_rows_have_the_intervals_of_one_select(release, text, alone):
    assert release.sql(text, intervals=True).rows == release.sql(alone, intervals=True).rows
    assert release.sql(text).marks == release.sql(alone).marks


def test_a_column_without_figures_has_no_status(release):
    result = release.sql(f"SELECT age, ward, n, 2 AS two FROM ({GROUPS})")
    assert list(result.marks.statuses) == [2]


def test_what_computes_with_released_figures_is_released_and_what_looks_for_one_is_not_known(
    release,
):
    result = release.sql(
        "SELECT ward, -count(*) + nullif(count(*), 3) AS m, max(age) AS oldest FROM data GROUP BY 1"
    )
    shown = dict(
        zip(
            (row[0] for row in result.rows),
            zip(*result.marks.statuses.values(), strict=True),
            strict=True,
        )
    )
    assert shown["Surgery"] == ("released", "not known")
    (why,) = result.marks.unknown
    assert why.startswith("oldest: what lies beyond the outermost released values")


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT DISTINCT n FROM ({GROUPS})",
        f"SELECT *, rank() OVER (ORDER BY n) AS place FROM ({GROUPS})",
        f"{GROUPS} UNION ALL SELECT * FROM ({GROUPS}) ORDER BY ALL",
        f"SELECT a.n FROM ({GROUPS}) a NATURAL JOIN ({GROUPS}) b",
        f"SELECT n FROM ({GROUPS}) AS x(a, b, n)",
        f"WITH a(x, y, n) AS ({GROUPS}) SELECT n FROM a",
        f"SELECT n FROM ({GROUPS}) EXCEPT SELECT 3",
        f"WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE i < 3) SELECT i, n FROM r, ({GROUPS})",
    ],
)  # fmt: skip
def test_the_rest_says_that_nothing_is_known(release, text):
    result = release.sql(text)
    assert result.marks.unknown
    assert not result.marks.statuses


def test_two_runs_keep_nothing_of_each_other(release):
    joined = "a JOIN a AS b ON a.age = b.age AND a.ward < b.ward"
    text = f"WITH a AS ({GROUPS}) SELECT a.age, a.ward, b.ward AS other, a.n, b.n AS m FROM {joined} ORDER BY ALL"
    assert release.sql(text).marks == release.sql(text).marks
    assert set(release.sql(text, status=True).columns) >= {"n_status", "m_status"}


ODD = [
    line
    for line in (Path(__file__).parents[1] / "statements" / "odd.sql")
    .read_text("utf-8")
    .split("\n")
    if line and not line.startswith("--")
]
TABLES = (
    *((name,) for name in ("age", "sex", "income", "region", "education", "carer", "arrival_date")),
    *(("age", "sex"), ("age", "income"), ("age", "region"), ("income", "sex"), ("region", "sex")),
    ("age", "region", "sex"),
)  # fmt: skip


@pytest.fixture(scope="module")
def release_of_odd(tmp_path_factory):
    folder = tmp_path_factory.mktemp("odd")
    people = make_census(folder / "census") / "people.parquet"
    spec = write_spec(folder, people, CENSUS, TABLES, privacy=ACCEPTED)
    build(read_spec(spec), folder / "r.duckdb")
    with open_release(folder / "r.duckdb", threads=1) as release_of_odd:
        yield release_of_odd


def figures(result):
    """Name, value, low, high and status of every figure with a status."""
    for at in result.marks.statuses:
        for row in result.rows:
            yield result.columns[at], *row[at : at + 4]


@pytest.mark.ci
@pytest.mark.parametrize("text", sliced(ODD))
def test_an_interval_holds_its_figure_or_there_is_none_and_why(release_of_odd, text):
    plain, got = release_of_odd.sql(text), release_of_odd.sql(text, intervals=True)
    own = [i for i, name in enumerate(got.columns) if not _is_added(got, i)]
    assert [got.columns[i] for i in own] == list(plain.columns)
    assert sorted(repr([row[i] for i in own]) for row in got.rows) == sorted(
        map(repr, map(list, plain.rows))
    )
    for name, value, low, high, status in figures(got):
        assert status in ("reliable", "unreliable", "low", "not released", "structural zero")
        if low is None and high is None:
            assert status != "reliable", name
            continue
        if value is None:  # of no released rows; how many there may be is said
            assert status == "not released", name
            continue
        assert float(value) >= (-math.inf if low is None else low) - 1e-6 * abs(float(value)), name
        assert float(value) <= (math.inf if high is None else high) + 1e-6 * abs(float(value)), name
    without = [n for n in plain.columns if f"{n}_low" not in got.columns]
    if without and not got.marks.statuses:
        is_about_figures = any("SELECT DISTINCT sex" not in text for _ in without)
        assert not is_about_figures or any(w.startswith("No noise interval") for w in got.warnings)


def _is_added(result, at):
    """Whether a column stands there for an interval."""
    return any(of < at <= of + 3 for of in result.marks.statuses)


WRONG = [
    "SELECT region, 100 * count(*) / sum(count(*)) OVER () AS f FROM data GROUP BY region HAVING count(*) > 150",
    "SELECT sex, sum(count(*)) FILTER (WHERE sex = 'Male') OVER () AS f FROM data GROUP BY sex",
    "SELECT region, sum(count(*)) OVER (ROWS BETWEEN CURRENT ROW AND CURRENT ROW) AS f FROM data GROUP BY region",
    "SELECT age // 10 * 10 AS age, count(*) AS f FROM data GROUP BY age",
    "SELECT unnest({'a': 1, 'b': 2}), count(*) AS f FROM data",
    "SELECT median(sex) AS f FROM data",
]
"""Each had an interval far from its figure, marked reliable."""


@pytest.mark.parametrize("text", WRONG)
def test_what_was_wrong_and_marked_reliable_is_not(release_of_odd, text):
    got = release_of_odd.sql(text, intervals=True)
    for _, value, low, high, _ in figures(got):
        if low is not None:
            assert low - 1e-6 * abs(value) <= value <= high + 1e-6 * abs(value)


def test_a_square_is_not_sure_where_it_is_nothing(release_of_odd):
    ((n, low, high, _),) = release_of_odd.sql("SELECT count(*) AS n FROM data", intervals=True).rows
    apart = f"(count(*) - {n})"
    for text in (f"{apart} * {apart}", f"5 * {apart} * {apart} / 5 + {apart}"):
        ((value, lower, upper, _),) = release_of_odd.sql(
            f"SELECT {text} AS f FROM data", intervals=True
        ).rows
        assert value == 0
        assert upper >= ((high - low) / 2 - 1) ** 2
        assert lower <= 0


@pytest.mark.parametrize("at", ["0", "1", "1.0"])
@pytest.mark.parametrize("name", ["quantile_cont", "quantile_disc"])
def test_a_quantile_that_is_the_minimum_or_maximum_has_no_interval_as_these_have_none(
    release_of_odd, name, at
):
    got = release_of_odd.sql(f"SELECT {name}(income, {at}) AS f FROM data", intervals=True)
    assert got.columns == ("f",)
    assert "outermost released values" in " ".join(got.warnings)


@pytest.mark.ci
@pytest.mark.parametrize(
    "window",
    [
        "row_number() OVER ()",
        "lag(count(*)) OVER ()",
        "count(*) - first_value(count(*)) OVER (PARTITION BY sex)",
        "sum(count(*)) OVER (ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
    ],
)
def test_a_window_that_goes_row_by_row_in_no_order_has_no_interval(release_of_odd, window):
    text = f"SELECT region, sex, {window} AS f FROM data GROUP BY region, sex"
    got = release_of_odd.sql(text, intervals=True)
    assert not got.marks.statuses
    assert "names no order" in " ".join(got.warnings)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count_if(income % 2 = 1) AS f FROM data",
        "SELECT count(*) FILTER (mod(INCOME, 100) = 0) AS f FROM data",
        "SELECT sex, count(*) AS f FROM data WHERE income % 1000 = 0 GROUP BY sex",
        "SELECT income % 10 AS digit, count(*) AS f FROM data GROUP BY digit",
    ],
)
def test_nothing_is_known_of_digits_that_were_filled_in(release_of_odd, text):
    got = release_of_odd.sql(text, intervals=True)
    assert not got.marks.statuses
    assert "it asks for digits of income" in " ".join(got.warnings)
    of_ages = release_of_odd.sql(text.lower().replace("income", "age"), intervals=True)
    assert "digits" not in " ".join(of_ages.warnings)  # these were measured


@pytest.mark.ci
@pytest.mark.parametrize(
    ("window", "leaves_ties"),
    [
        ("lag(count(*)) OVER (ORDER BY region)", True),
        ("lag(count(*)) OVER (PARTITION BY sex)", None),
        ("lag(count(*)) OVER (PARTITION BY sex ORDER BY Region)", False),
        ("lag(count(*)) OVER (ORDER BY region, sex)", False),
        ("lag(count(*)) OVER (ORDER BY count(*) DESC)", False),
        ("sum(count(*)) OVER (ORDER BY region ROWS 1 PRECEDING)", True),
        ("sum(count(*)) OVER (ORDER BY region)", False),
    ],
)
@pytest.mark.parametrize("groups", sliced(["region, sex", "1, 2", "sex, region, sex || '!'"]))
def test_a_window_that_goes_row_by_row_needs_an_order_without_ties(
    release_of_odd, window, leaves_ties, groups
):
    more = ", sex || '!' AS marked" if "!" in groups else ""
    text = f"SELECT region, sex, {window} AS s{more} FROM data GROUP BY {groups}"
    said = " ".join(release_of_odd.sql(text, intervals=True).warnings)
    assert ("an order that leaves ties" in said) == bool(leaves_ties)
    assert ("names no order" in said) == (leaves_ties is None)


def test_a_band_by_an_expression_leaves_the_room_beyond_the_last_value_that_limits_leave(
    release_of_odd,
):
    text = "SELECT DISTINCT income FROM data WHERE income IS NOT NULL ORDER BY 1 DESC LIMIT 12"
    for (least,) in release_of_odd.sql(text).rows[4:]:
        ((n, _, high, _),) = release_of_odd.sql(
            f"SELECT count(*) AS n FROM data WHERE income >= {least}", intervals=True
        ).rows
        bands = release_of_odd.sql(
            f"SELECT income >= {least} AS k, count(*) AS n FROM data GROUP BY k", intervals=True
        )
        (band,) = (row for row in bands.rows if row[0])
        assert band[1] == n
        assert band[3] >= high - 2
        assert band[3] - n >= n - band[2]  # no end is drawn in at the last value


@pytest.mark.parametrize(
    "figure",
    ["avg({})", "sum({}) / count(*)", "quantile_cont({}, 0.5)", "quantile_cont({}, 0.999)"],
)
def test_the_largest_numbers_there_are_raise_nothing(release_of_odd, figure):
    (most,) = release_of_odd.sql("SELECT max(income) FROM data").rows[0]
    huge = figure.format(f"CASE WHEN income = {most} THEN 1e308 ELSE income END")
    with np.errstate(all="ignore"):
        got = release_of_odd.sql(f"SELECT {huge} AS f FROM data", intervals=True)
    assert got.rows[0][0] == release_of_odd.sql(f"SELECT {huge} AS f FROM data").rows[0][0]


@pytest.mark.ci
@pytest.mark.parametrize("one", ["any_value", "arbitrary", "first", "list"])
def test_one_of_several_groups_in_no_order_has_no_interval(release_of_odd, one):
    text = f"SELECT region, sex, {one}(count(*)) OVER (PARTITION BY sex) AS f FROM data GROUP BY region, sex"
    assert not release_of_odd.sql(text, intervals=True).marks.statuses


ACTS = ("Employed, full", "Retired", "Other")
HOURS = ("10", "20", "40")
HEAD = """
[release]
title = "t"
vintage = "1"
key = "k.key"
[source]
path = "d.parquet"
entities = ["id"]
[columns.id]
kind = "integer"
"""
SPEC = """[columns.act]
kind = "category"
domain = ["Employed, full", "Retired", "Other"]
public = true
[columns.hours]
kind = "category"
domain = ["10", "20", "40"]
public = true
universe = { column = "act", values = ["Employed, full"] }
[[tables]]
columns = ["act", "hours"]
"""


def built(folder, columns: dict, spec: str):
    """A release of 2,000 people, with a key that is always the same."""
    frame = pd.DataFrame({"id": range(2000), **columns})
    frame.to_parquet(folder / "d.parquet")
    (folder / "s.toml").write_text(HEAD + spec)
    (folder / "k.key").touch(mode=0o600)
    (folder / "k.key").write_bytes(bytes(range(32)))
    begin_charges(folder / "k.key")
    return engine.build(folder / "s.toml", out=folder / "r.duckdb", jobs=1)


@pytest.fixture(scope="module")
def release_of_universes(tmp_path_factory):
    draws = np.random.default_rng(0)
    act = draws.choice(ACTS, 2000)
    hours = np.where(act == ACTS[0], draws.choice(HOURS, 2000), None)
    with built(tmp_path_factory.mktemp("universes"), {"act": act, "hours": hours}, SPEC) as made:
        yield made


@pytest.mark.ci
def test_a_value_with_a_comma_is_not_ruled_out(release_of_universes):
    got = tabulate(release_of_universes, ["act", "hours"])
    told = dict(zip(got.keys, got.status, strict=True))
    assert {told[ACTS[0], h] for h in HOURS} == {"reliable"}
    assert {told[a, h] for a in ACTS[1:] for h in HOURS} == {"structural zero"}


DATED = """[columns.day]
kind = "date"
[columns.tax]
kind = "category"
domain = ["0", "low", "high"]
public = true
universe = { column = "day", min = "2020-02-01", max = "2020-02-29", outside = "0" }
[[tables]]
columns = ["day", "tax"]
"""


@pytest.mark.ci
def test_limits_are_compared_as_dates_and_outside_may_be_a_value(tmp_path):
    draws = np.random.default_rng(0)
    days = pd.to_datetime(["2020-01-31", "2020-02-01", "2020-02-29", "2020-10-01"])
    day = draws.choice(days, 2000)
    inside = (day >= days[1]) & (day <= days[2])
    tax = np.where(inside, draws.choice(["low", "high"], 2000), "0")
    columns = {"day": pd.Series(day).dt.date, "tax": tax}
    with built(tmp_path, columns, DATED) as made:
        table = tabulate(made, ["day", "tax"])
    status = dict(zip(table.keys, table.status, strict=True))
    for at, one in enumerate(days.date):
        is_inside = at in (1, 2)
        assert (status[one, "0"] == "structural zero") == is_inside
        assert (status[one, "low"] == "structural zero") == (not is_inside)


def test_sql_tells_structural_zeros(release_of_universes):
    asked = "SELECT count(*) AS n FROM data WHERE act = 'Retired' AND hours = '10'"
    assert release_of_universes.sql(asked, intervals=True).rows == [(0, 0, 0, "structural zero")]


def test_names_are_compared_as_sql_does(release_of_universes):
    got = release_of_universes.sql(
        "SELECT Act, data.HOURS, Count(*) AS n FROM DATA GROUP BY aCT, hours", intervals=True
    )
    assert got.columns[2:] == ("n", "n_low", "n_high", "n_status")
    assert got.types[3:5] == ("BIGINT", "BIGINT")
    assert all(low <= n <= high for _, _, n, low, high, _ in got.rows)


@pytest.mark.parametrize("sample", ["TABLESAMPLE 10%", "USING SAMPLE 10%"])
def test_a_sample_has_no_interval(release_of_universes, sample):
    got = release_of_universes.sql(f"SELECT count(*) AS n FROM data {sample}", intervals=True)
    assert got.columns == ("n",)
    assert "samples rows" in got.warnings[-1]
