"""Custom groups, ratios, months and quarters: in links, bodies, SQL and files; and what is refused."""

from __future__ import annotations

import csv
import io
import math
from datetime import date, datetime
from urllib.parse import parse_qsl, urlencode

import pytest

from engine.errors import QueryRefused
from engine.schema import Column
from queries.intervals import tabulate
from queries.packs import axis_of
from queries.release import open_release
from queries.serve.groups import text_of
from queries.serve.values import Value, Variable, bands_of, key_of

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

YOUNG, WORKING = ("group.age", "Young|0..15"), ("group.age", "Working age|16..64")
ODD = "a|b\\c, \"d\" 'e' <i>&~é=%2B\N{GRINNING FACE}"


@pytest.fixture(scope="module")
def release(path):
    with open_release(path) as opened:
        yield opened


def table_of(client, *pairs, form="json"):
    return client.ask("/api/tabulate?" + urlencode([*pairs, ("format", form)]))


@pytest.mark.ci
def test_a_group_has_the_figures_of_its_values(client, release):
    got = table_of(client, ("rows", "age"), ("cols", "sex"), YOUNG, WORKING).json
    assert got["row_heads"][:2] == [["Young"], ["Working age"]]
    known = [v for v, _, _ in release.values("age") if v is not None]
    assert len(got["row_heads"]) == 2 + sum(v > 64 for v in known)  # the others stay by themselves
    want = tabulate(release, ["sex"], where={"age": (16, 64)})
    for name in ("value", "low", "high"):
        assert got["cells"][name][2:4] == getattr(want, name).tolist()
    alone = tabulate(release, ["sex"], where={"age": [v for v in known if v > 64][:1]})
    assert got["cells"]["status"][4:6] == list(alone.status)
    shown = [math.nan if v is None else v for v in got["cells"]["value"][4:6]]
    assert shown == pytest.approx(alone.value.tolist(), nan_ok=True)
    assert got["row_total"]["value"][1] == tabulate(release, [], where={"age": (16, 64)}).value[0]


def test_values_ranges_and_open_ends_make_one_group(client, release):
    got = table_of(
        client,
        ("rows", "age"),
        ("group.age", "Some|3|10..12|80.."),
        ("only.age", "11"),
        ("only.age", "3"),
    )
    assert got.json["row_heads"] == [["Some"]]
    want = tabulate(release, [], where={"age": [3, 11]})
    assert got.json["cells"]["value"] == want.value.tolist()


def test_names_can_contain_any_character(client, release):
    regions = [v for v, _, _ in release.values("region") if v is not None]
    group = ("group.region", text_of((ODD, tuple(regions[:2]))))
    got = table_of(client, ("rows", "region"), ("cols", "sex"), group)
    assert got.json["row_heads"][0] == [ODD]
    assert table_of(client, *parse_qsl(got.json["link"])).body == got.body
    rows = list(
        csv.DictReader(
            io.StringIO(table_of(client, ("rows", "region"), group, form="csv").body.decode())
        )
    )
    assert rows[0]["region"] == ODD
    stat = table_of(client, ("rows", "region"), group, form="json-stat").json["dimension"]["region"]
    assert stat["category"]["index"][0] == ODD
    assert len(stat["category"]["index"]) == len(release.values("region")) - 1
    plan = client.ask("/api/plan?" + urlencode([("rows", "region"), group])).json
    assert ODD in [row[0] for row in release.sql(plan["sql"]).rows]


@pytest.mark.parametrize(
    "pairs",
    [
        [("rows", "age"), ("cols", "sex"), YOUNG, WORKING],
        [("rows", "age"), ("cols", "sex"), YOUNG, WORKING, ("percent", "row"), ("from.age", "5"), ("to.age", "64")],
        [("rows", "arrival_date"), ("group.arrival_date", "Nineties|1990-01-01..1999-12-31"), ("only.sex", "Male"),
         ("percent", "total"), ("from.arrival_date", "1990-01-01"), ("to.arrival_date", "1999-12-31")],
        [("rows", "education"), ("group.education", "None said|~")],
        [("rows", "sex"), ("measure", "ratio")],
        [("rows", "region"), ("cols", "sex"), ("measure", "ratio"), ("percent", "row")],
        [("rows", "age"), ("cols", "sex"), YOUNG, WORKING, ("to.age", "64"), ("measure", "ratio"),
         ("percent", "column")],
        [("rows", "age"), ("measure", "mean"), ("of", "income"), ("group.sex", "All|Male|Female"), ("cols", "sex")][1:],
    ],
)  # fmt: skip
def test_the_sql_of_the_plan_gives_the_figures(client, release, pairs):
    plan = client.ask("/api/plan?" + urlencode(pairs)).json
    got = table_of(client, *pairs).json
    found = sorted(float(r[-1]) for r in release.sql(plan["sql"]).rows if r[-1])
    scale = 100 if got["percent"] != "none" and got["measure"] == "share" else 1
    shown = sorted(scale * v for v in got["cells"]["value"] if v)
    assert shown
    for value in shown:  # the statement has the filled figures too
        assert any(math.isclose(f, value, rel_tol=1e-4, abs_tol=1e-4) for f in found), (
            value,
            found,
        )


def test_a_ratio_of_own_groups_holds_the_figure_in_its_interval(client):
    pairs = [("rows", "age"), ("cols", "sex"), ("group.age", "Young|..30"), ("group.age", "Older|31.."),
             ("measure", "ratio"), ("percent", "column")]  # fmt: skip
    cells = table_of(client, *pairs).json["cells"]
    assert cells["value"][0] * cells["value"][2] == pytest.approx(1, rel=1e-3)
    assert all(
        low <= v <= high
        for v, low, high in zip(cells["value"], cells["low"], cells["high"], strict=True)
    )


REFUSED = {
    "rows=age&group.age=A|1|2&group.age=B|2..5": "2 is in two groups, 'A' and 'B'",
    "rows=age&group.age=A|1&group.age=A|2": "duplicate group name 'A'",
    "rows=age&group.age=|1": "needs a printable name",
    "rows=age&group.age=A": "at least one value",
    "rows=age&group.age=A%00|1": "printable name",
    "rows=age&group.age=A%5C": "backslash",
    "rows=age&group.age=A|500..600": "no released value is in the range",
    "rows=age&group.age=A|9..1": "no released value is in the range",
    "rows=age&group.age=A|x..y": "'x' is not a valid BIGINT",
    "rows=age&group.age=A|x": "no released value 'x'",
    "rows=region&group.region=A|R1..R2": "no released value 'R1..R2'",
    "rows=sex&group.sex=Men|Female": "name of a value outside",
    "rows=sex&group.sex=%E2%80%AEneM|Male": "printable name",
    "rows=sex&group.sex=Male|Female": "name of a value outside",
    "rows=age&band.age=10&group.age=A|1": "not both",
    "rows=sex&group.nobody=A|1": "no column 'nobody'",
    "rows=sex&group.age=A|1": "age: bands and groups apply to",
    "rows=sex&band.age=10": "age: bands and groups apply to",
    "rows=sex&of=age": "of does not apply to measure count",
    "rows=sex&measure=ratio&of=age": "of does not apply to measure ratio",
    "rows=sex&quantile=0.9": "quantile does not apply to measure count",
    "rows=sex&measure=median&of=age&quantile=0.9": "quantile does not apply to measure median",
    "rows=age&group.age=A|1..20&only.age=30&only.age=30x": "no released value '30x'",
    "rows=sex&percent=row": "need both rows and columns",
    "cols=sex&percent=column": "need both rows and columns",
    "rows=sex&measure=ratio&percent=row": "need both rows and columns",
    "rows=sex&from.age=xx": "'xx' is not a valid BIGINT",
}


@pytest.mark.parametrize("link", REFUSED)
def test_a_plan_and_a_table_refuse_the_same(client, link):
    address = link.replace("|", "%7C")
    table, plan = (client.ask(f"/api/{what}?{address}") for what in ("tabulate", "plan"))
    assert REFUSED[link] in table.json["message"]
    assert (plan.status, plan.json) == (table.status, table.json)


def test_invalid_unicode_is_refused(client):
    body = b'{"rows": ["sex"], "groups": {"sex": [["\\ud800", ["Male"]]]}}'
    got = client.ask("/api/tabulate", method="POST", body=body, content_type="application/json")
    assert got.status == 400


LINK = "rows=arrival_date&band.arrival_date=month&from.arrival_date=2018-02-10&to.arrival_date=2020-01-31"


def variable(*days: date, kind: str = "DATE") -> Variable:
    """A variable with some released days."""
    axis = axis_of(Column(name="day", kind="date", value_type="date"), kind, days)
    values = tuple(Value(key=key_of(d), value=d, label=key_of(d), n=1) for d in days)
    return Variable(name="day", label="day", sql_type=kind, axis=axis, values=values)


def test_periods_are_whole_and_without_gaps():
    months = bands_of(variable(date(2019, 11, 5), date(2020, 3, 1)), "month")
    assert [label for label, _, _ in months] == [
        "2019-11",
        "2019-12",
        "2020-01",
        "2020-02",
        "2020-03",
    ]
    assert months[3][1:] == (date(2020, 2, 1), date(2020, 2, 29))
    quarters = bands_of(variable(date(2019, 11, 5), date(2020, 3, 1)), "quarter")
    assert [(k, low, high) for k, low, high in quarters] == [
        ("2019 Q4", date(2019, 10, 1), date(2019, 12, 31)),
        ("2020 Q1", date(2020, 1, 1), date(2020, 3, 31)),
    ]  # fmt: skip
    points = variable(datetime(2021, 1, 3, 5), datetime(2021, 2, 1), kind="TIMESTAMP")
    assert bands_of(points, "month")[0][1:] == (
        datetime(2021, 1, 1),
        datetime(2021, 1, 31, 23, 59, 59),
    )
    last = bands_of(variable(date(9999, 11, 5), date(9999, 12, 31)), "month")
    assert last[-1][1:] == (date(9999, 12, 1), date.max)


def test_years_are_periods_where_bands_of_one_would_be_too_many():
    long = variable(date(1950, 3, 1), *(date(y, 1, 1) for y in range(1951, 2021)))
    assert long.periods == {"month": 839, "quarter": 280, "year": 70}
    assert 1 not in long.widths
    years = bands_of(long, "year", ("2018-01-01", "2019-12-31"))
    assert [(k, low, high) for k, low, high in years] == [
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
    ages = Variable(name="age", label="age", sql_type="BIGINT", axis=None, values=())
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
