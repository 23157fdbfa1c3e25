"""Months and quarters: whole periods in order, equal to the same range of dates, and limited in number."""

from __future__ import annotations

from datetime import date, datetime, timedelta

import pytest

from engine.errors import QueryRefused

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from queries.serve.values import Value, Variable, bands_of, key_of

LINK = "rows=arrival_date&band.arrival_date=month&from.arrival_date=2018-02-10&to.arrival_date=2020-01-31"


def variable(*days: date, kind: str = "DATE") -> Variable:
    """A variable with some released days."""
    step = timedelta(days=1) if kind == "DATE" else timedelta(seconds=1)
    values = tuple(Value(key=key_of(d), value=d, label=key_of(d), n=1) for d in days)
    return Variable(name="day", label="day", sql_type=kind, step=step, values=values)


def test_periods_are_whole_and_without_gaps():
    months = bands_of(variable(date(2019, 11, 5), date(2020, 3, 1)), "month")
    assert [label for _, label, _, _ in months] == [
        "2019-11",
        "2019-12",
        "2020-01",
        "2020-02",
        "2020-03",
    ]
    assert months[3][2:] == (date(2020, 2, 1), date(2020, 2, 29))
    quarters = bands_of(variable(date(2019, 11, 5), date(2020, 3, 1)), "quarter")
    assert [(k, low, high) for k, _, low, high in quarters] == [
        ("2019 Q4", date(2019, 10, 1), date(2019, 12, 31)),
        ("2020 Q1", date(2020, 1, 1), date(2020, 3, 31)),
    ]  # fmt: skip
    points = variable(datetime(2021, 1, 3, 5), datetime(2021, 2, 1), kind="TIMESTAMP")
    assert bands_of(points, "month")[0][2:] == (
        datetime(2021, 1, 1),
        datetime(2021, 1, 31, 23, 59, 59),
    )
    last = bands_of(variable(date(9999, 11, 5), date(9999, 12, 31)), "month")
    assert last[-1][2:] == (date(9999, 12, 1), date.max)


def test_years_are_periods_where_bands_of_one_would_be_too_many():
    long = variable(date(1950, 3, 1), *(date(y, 1, 1) for y in range(1951, 2021)))
    assert long.periods == {"month": 839, "quarter": 280, "year": 70}
    assert 1 not in long.widths
    years = bands_of(long, "year", ("2018-01-01", "2019-12-31"))
    assert [(k, low, high) for k, _, low, high in years] == [
        ("2018", date(2018, 1, 1), date(2018, 12, 31)),
        ("2019", date(2019, 1, 1), date(2019, 12, 31)),
    ]


def test_missing_or_too_many_periods_are_refused():
    long = variable(date(1990, 1, 1), date(2020, 1, 1))
    assert long.periods == {"month": 361, "quarter": 121, "year": 31}
    with pytest.raises(QueryRefused, match=r"361 months, .* 120.*from\.day"):
        bands_of(long, "month")
    assert len(bands_of(long, "month", ("2010-03-01", ""))) == 119
    assert len(bands_of(long, "month", ("1980-01-01", "1990-02-28"))) == 2
    ages = Variable(name="age", label="age", sql_type="BIGINT", step=1, values=())
    with pytest.raises(QueryRefused, match="age has no quarters"):
        bands_of(ages, "quarter")
    assert ages.periods == variable(date(2020, 1, 1), date(2020, 1, 31)).periods == {}


def test_a_month_has_the_figures_of_its_range(client):
    got = client.ask(f"/api/tabulate?{LINK}").json
    heads = [head for [head] in got["row_heads"]]
    months = [f"{m // 12}-{m % 12 + 1:02}" for m in range(2018 * 12 + 1, 2020 * 12 + 1)]
    assert heads == months
    asked = client.ask("/api/tabulate?from.arrival_date=2019-06-01&to.arrival_date=2019-06-30").json
    for part in ("value", "low", "high", "status"):
        assert got["cells"][part][heads.index("2019-06")] == asked["cells"][part][0]
    cut = client.ask("/api/tabulate?from.arrival_date=2018-02-10&to.arrival_date=2018-02-28").json
    assert got["cells"]["value"][0] == cut["cells"]["value"][0]


@pytest.mark.parametrize(
    ("link", "status", "words"),
    [
        ("rows=arrival_date&band.arrival_date=month", 400, "120"),
        ("rows=arrival_date&band.arrival_date=week", 400, "a whole number, month, quarter or year"),
        ("rows=age&band.age=month", 400, "age has no months"),
        (f"{LINK}&cols=sex&group.sex=W|Female&group.sex=M|Male", 200, ""),
        ("rows=arrival_date&band.arrival_date=month&from.arrival_date=2015-01-01&cols=sex"
         "&group.sex=W|Female&group.sex=M|Male", 413, "121"),
    ],
)  # fmt: skip
def test_too_many_periods_are_refused(client, link, status, words):
    got = client.ask(f"/api/tabulate?{link}")
    assert got.status == status, got.body
    assert words in got.json.get("message", "")
