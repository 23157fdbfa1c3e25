"""Odd statements: an interval that holds its figure, or none and why; never one beside the answer."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from fixtures.intervals import sliced
from fixtures.pipeline import ACCEPTED, CENSUS, make_census, write_spec

from engine.release import build
from engine.spec import read_spec
from queries.release import open_release

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
def release(tmp_path_factory):
    folder = tmp_path_factory.mktemp("odd")
    people = make_census(folder / "census") / "people.parquet"
    spec = write_spec(folder, people, CENSUS, TABLES, privacy=ACCEPTED)
    build(read_spec(spec), folder / "r.duckdb")
    with open_release(folder / "r.duckdb", threads=1) as release:
        yield release


def figures(result):
    """Name, value, low, high and status of every figure with a status."""
    for at in result.marks.statuses:
        for row in result.rows:
            yield result.columns[at], *row[at : at + 4]


@pytest.mark.ci
@pytest.mark.parametrize("text", sliced(ODD))
def test_an_interval_holds_its_figure_or_there_is_none_and_why(release, text):
    plain, got = release.sql(text), release.sql(text, intervals=True)
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
def test_what_was_wrong_and_marked_reliable_is_not(release, text):
    got = release.sql(text, intervals=True)
    for _, value, low, high, _ in figures(got):
        if low is not None:
            assert low - 1e-6 * abs(value) <= value <= high + 1e-6 * abs(value)


def test_a_square_is_not_sure_where_it_is_nothing(release):
    ((n, low, high, _),) = release.sql("SELECT count(*) AS n FROM data", intervals=True).rows
    apart = f"(count(*) - {n})"
    for text in (f"{apart} * {apart}", f"5 * {apart} * {apart} / 5 + {apart}"):
        ((value, lower, upper, _),) = release.sql(
            f"SELECT {text} AS f FROM data", intervals=True
        ).rows
        assert value == 0
        assert upper >= ((high - low) / 2 - 1) ** 2
        assert lower <= 0


@pytest.mark.parametrize("at", ["0", "1", "1.0"])
@pytest.mark.parametrize("name", ["quantile_cont", "quantile_disc"])
def test_a_quantile_that_is_the_minimum_or_maximum_has_no_interval_as_these_have_none(
    release, name, at
):
    got = release.sql(f"SELECT {name}(income, {at}) AS f FROM data", intervals=True)
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
def test_a_window_that_goes_row_by_row_in_no_order_has_no_interval(release, window):
    text = f"SELECT region, sex, {window} AS f FROM data GROUP BY region, sex"
    got = release.sql(text, intervals=True)
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
def test_nothing_is_known_of_digits_that_were_filled_in(release, text):
    got = release.sql(text, intervals=True)
    assert not got.marks.statuses
    assert "it asks for digits of income" in " ".join(got.warnings)
    of_ages = release.sql(text.lower().replace("income", "age"), intervals=True)
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
    release, window, leaves_ties, groups
):
    more = ", sex || '!' AS marked" if "!" in groups else ""
    text = f"SELECT region, sex, {window} AS s{more} FROM data GROUP BY {groups}"
    said = " ".join(release.sql(text, intervals=True).warnings)
    assert ("an order that leaves ties" in said) == bool(leaves_ties)
    assert ("names no order" in said) == (leaves_ties is None)


def test_a_band_by_an_expression_leaves_the_room_beyond_the_last_value_that_limits_leave(release):
    text = "SELECT DISTINCT income FROM data WHERE income IS NOT NULL ORDER BY 1 DESC LIMIT 12"
    for (least,) in release.sql(text).rows[4:]:
        ((n, _, high, _),) = release.sql(
            f"SELECT count(*) AS n FROM data WHERE income >= {least}", intervals=True
        ).rows
        bands = release.sql(
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
def test_the_largest_numbers_there_are_raise_nothing(release, figure):
    (most,) = release.sql("SELECT max(income) FROM data").rows[0]
    huge = figure.format(f"CASE WHEN income = {most} THEN 1e308 ELSE income END")
    with np.errstate(all="ignore"):
        got = release.sql(f"SELECT {huge} AS f FROM data", intervals=True)
    assert got.rows[0][0] == release.sql(f"SELECT {huge} AS f FROM data").rows[0][0]


@pytest.mark.ci
@pytest.mark.parametrize("one", ["any_value", "arbitrary", "first", "list"])
def test_one_of_several_groups_in_no_order_has_no_interval(release, one):
    text = f"SELECT region, sex, {one}(count(*)) OVER (PARTITION BY sex) AS f FROM data GROUP BY region, sex"
    assert not release.sql(text, intervals=True).marks.statuses
