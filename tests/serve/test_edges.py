"""Unusual names, labels, values and limits, in releases and in queries."""

from __future__ import annotations

import csv
import io
import math
from datetime import date, datetime, timedelta
from decimal import Decimal
from urllib.parse import urlencode

import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import ACCEPTED, tablepack, write_spec
from fixtures.serve import one_worker, served

from engine.api.reading import read
from engine.errors import StoreError
from engine.release import build
from queries.intervals import tabulate
from queries.release import open_release
from queries.serve.question import question_of

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from queries.serve import Limits, app_of

COLUMNS = {
    "id": {"kind": "integer"},
    "n": {"kind": "category"},
    "value": {"kind": "category"},
    "status": {"kind": "category"},
    "a.b": {"kind": "category", "labels": {"A": "B", "B": "Same", "C": "Same"}},
    "qu\"ote's": {"kind": "category"},
    "constructor": {"kind": "category"},
    "data": {"kind": "integer"},
    "flag": {"kind": "boolean"},
    "day": {"kind": "date"},
    "dec": {"kind": "decimal", "resolution": 0.01},
}
TABLES = (
    ("status", "value"), ("a.b", "n"), ('qu"ote\'s', "n"), ("constructor", "flag"), ("data", "n"), ("day", "n"),
    ("dec", "n"), ("a.b", "data", "flag"),
)  # fmt: skip


def people(n: int = 1000) -> pd.DataFrame:
    """Rows with names and values that have a meaning in other layers."""
    rng = np.random.default_rng(1)

    def pick(*values):
        return rng.choice(np.array(values, dtype=object), n)

    days = rng.integers(0, 1500, n)
    frame = pd.DataFrame({
        "id": np.arange(n),
        "n": pick("x", "y"),
        "value": pick("=1+1", "-3", "@a"),
        "status": pick("<b>bold</b>", "~tilde", 'a,"b'),
        "a.b": pick("A", "B", "C"),
        'qu"ote\'s': pick("p", "q'r"),
        "constructor": pick("c1", "c2"),
        "data": pd.array(rng.integers(-50, 50, n), dtype="Int64"),
        "flag": rng.choice([True, False], n),
        "day": [date(2020, 1, 1) + timedelta(days=int(d)) for d in days],
        "dec": np.round(rng.integers(-3000, 3000, n) / 100, 2),
    })  # fmt: skip
    frame.loc[rng.random(n) < 0.1, ["a.b", "data"]] = None
    return frame


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("edges")
    people().to_parquet(folder / "people.parquet")
    spec = write_spec(
        folder,
        folder / "people.parquet",
        COLUMNS,
        TABLES,
        entities=("id",),
        privacy=ACCEPTED,
    )
    build(read(spec), folder / "r.duckdb", jobs=1)
    return folder / "r.duckdb"


@pytest.fixture(scope="module")
def client(path):
    with served(app_of(path, limits=one_worker())) as client:
        yield client


@pytest.fixture(scope="module")
def release(path):
    with open_release(path) as opened:
        yield opened


def table_of(client, form="json", **question):
    pairs = [(k.replace("__", "."), v) for k, v in question.items()]
    return client.ask("/api/tabulate?" + urlencode([*pairs, ("format", form)]))


@pytest.mark.ci
@pytest.mark.parametrize("measure", ["count", "share", "ratio"])
def test_limits_that_leave_no_value_leave_no_group(release, measure):
    assert (
        len(tabulate(release, ["data"], where={"data": (10**6, 10**6 + 5)}, measure=measure)) == 0
    )


@pytest.mark.ci
@pytest.mark.parametrize(
    "pairs",
    [
        [("rows", "status"), ("cols", "value")],
        [("rows", "a.b"), ("cols", "n"), ("percent", "row"), ("only.a.b", "~"), ("only.a.b", "A")],
        [("rows", "qu\"ote's"), ("cols", "n"), ("only.qu\"ote's", "q'r")],
        [("rows", "constructor"), ("cols", "flag"), ("only.flag", "true"), ("percent", "column")],
        [("rows", "data"), ("only.data", "~"), ("only.data", "-3")],
        [("rows", "n"), ("measure", "median"), ("of", "dec"), ("from.dec", "-1.5"), ("to.dec", "")],
        [("rows", "n"), ("measure", "quantile"), ("of", "dec"), ("quantile", "0.12345678")],
        [("rows", "n"), ("from.day", "2021-01-01"), ("to.day", "2021-12-31")],
    ],
)
def test_the_sql_of_a_plan_gives_the_same_figures(client, release, pairs):
    link = urlencode(pairs)
    got = client.ask(f"/api/tabulate?{link}").json
    plan = client.ask(f"/api/plan?{link}").json
    assert question_of(pairs) == question_of(tuple(p) for p in _pairs(plan["link"]))
    width = sum(k in ("rows", "cols") for k, _ in pairs)
    figures = [float(row[width]) for row in release.sql(plan["sql"]).rows if row[width] is not None]
    scale = 100 if got["percent"] != "none" else 1
    shown = [v * scale for v in got["cells"]["value"] if v is not None]
    assert len(shown) > 0
    left = list(figures)
    for value in shown:  # each is among the statement's, which has the filled ones, too
        near = [f for f in left if math.isclose(f, value, rel_tol=1e-4, abs_tol=1e-4)]
        assert near or value == 0, (value, figures)
        left.remove(near[0]) if near else None


def _pairs(link):
    from urllib.parse import parse_qsl

    return parse_qsl(link, keep_blank_values=True)


@pytest.mark.ci
def test_duplicate_labels_are_made_distinct(client):
    got = table_of(client, rows="a.b", cols="n").json
    assert got["row_heads"] == [["(blank)"], ["B"], ["Same [B]"], ["Same [C]"]]
    stat = table_of(client, "json-stat", rows="a.b", cols="n").json
    labels = stat["dimension"]["a.b"]["category"]["label"]
    assert labels == {"~": "(blank)", "A": "B", "B": "Same [B]", "C": "Same [C]"}


RUN = (
    "SELECT '=cmd|'' /C calc''!A0' AS \"=1+1\", '-3' AS b, -3 AS c, '-10 to -1' AS d, '@SUM(A1)' AS e, '+1+2' AS f, "
    "' =1' AS g, '\t=1' AS h, '''=1' AS i, '''t Hooft' AS j, 'a=b' AS k, CAST('-inf' AS DOUBLE) AS l"
)
"""Text that a spreadsheet would run as a formula, and text that it would not."""


def test_formulas_in_csv_files_are_quoted_and_a_header_says_so(client, path):
    got = table_of(client, "csv", rows="value", cols="status")
    assert got.headers["csv-formulas"] == "quote"
    lines = list(csv.reader(got.body.decode().splitlines()))
    assert {line[0] for line in lines[1:]} == {"'=1+1", "-3", "'@a"}
    assert float(lines[1][2]) > 0
    got = client.sql(RUN, "&format=csv")
    assert got.headers["csv-formulas"] == "quote"
    names, cells = csv.reader(io.StringIO(got.body.decode(), newline=""))
    assert names[:2] == ["'=1+1", "b"]
    assert cells == [
        "'=cmd|' /C calc'!A0", "-3", "-3", "-10 to -1", "'@SUM(A1)", "'+1+2",
        "' =1", "'\t=1", "''=1", "'t Hooft", "a=b", "-inf",
    ]  # fmt: skip
    for form in ("json", "parquet", "xlsx"):
        assert "csv-formulas" not in client.sql(RUN, f"&format={form}").headers


@pytest.mark.ci
def test_formulas_in_csv_files_are_kept_on_request(path):
    with served(app_of(path, formulas="keep", limits=one_worker())) as client:
        got = client.sql(RUN, "&format=csv")
        assert got.headers["csv-formulas"] == "keep"
        names, cells = csv.reader(io.StringIO(got.body.decode(), newline=""))
        assert (names[0], cells[0], cells[8]) == ("=1+1", "=cmd|' /C calc'!A0", "'=1")
        assert "=1+1,~tilde," in table_of(client, "csv", rows="value", cols="status").body.decode()


@pytest.mark.parametrize("width", ["1" + "0" * 28, "9" * 290, "9" * 400])
@pytest.mark.parametrize("column", ["data", "dec", "day"])
def test_bands_beyond_all_numbers_are_refused(client, column, width):
    for where in ("tabulate", "plan"):
        got = client.ask(f"/api/{where}?rows={column}&band.{column}={width}")
        assert (got.status, f"band.{column}" in got.json["message"]) == (400, True), got.body


def test_files_of_statements_keep_numbers_and_dates(client):
    text = (
        "SELECT 12345678901.25::DOUBLE AS d, 1234567890123.45::DECIMAL(18, 2) AS m, DATE '2020-02-03' AS day, "
        "TIMESTAMP '2020-02-03 04:05:06' AS ts, 2::HUGEINT ** 61 + 1 AS x, 1180591620717411303424::HUGEINT AS h, "
        "'nan'::DOUBLE AS q, '0044-03-15 (BC)'::DATE AS bc, 'x' AS t"
    )
    csv = client.sql(text, "&format=csv").body.decode().splitlines()[1]
    assert csv.startswith("12345678901.25,1234567890123.45,2020-02-03,2020-02-03 04:05:06,")
    got = pd.read_parquet(io.BytesIO(client.sql(text, "&format=parquet").body)).iloc[0]
    assert (got.d, got.m, got.day) == (
        12345678901.25,
        Decimal("1234567890123.45"),
        date(2020, 2, 3),
    )
    assert got.ts == datetime(2020, 2, 3, 4, 5, 6)
    assert (got.h, got.t) == ("1180591620717411303424", "x")
    assert math.isnan(got.q)
    assert "0044" in str(got.bc)
    openpyxl = pytest.importorskip("openpyxl")
    sheet = openpyxl.load_workbook(io.BytesIO(client.sql(text, "&format=xlsx").body)).worksheets[0]
    assert sheet.cell(2, 2).value == 1234567890123.45


@pytest.mark.parametrize(
    "form",
    ["csv", *(pytest.param(f, marks=pytest.mark.slow) for f in ("json", "parquet", "table"))],
)
def test_a_failed_output_leaves_no_file(path, tmp_path, form):
    for output in (tmp_path / "nowhere" / "x", tmp_path):
        done = tablepack("sql", path, "SELECT 1 AS a", "--format", form, "-o", output, cwd=tmp_path)
        assert done.returncode != 0
        assert f"{output}: " in done.stderr
        assert list(tmp_path.iterdir()) == []
    done = tablepack("sql", path, "SELECT 1 AS a", "--format", form, "-o", "x", cwd=tmp_path)
    assert done.returncode == 0
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize("memory", ["nonsense", "-1", "100MB", "5 cats", "80%"])
def test_memory_is_a_size_that_processes_can_share(path, memory):
    with pytest.raises(StoreError, match="500MB"):
        app_of(path, limits=Limits(memory=memory))
