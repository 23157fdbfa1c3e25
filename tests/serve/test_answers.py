"""Answers of the API: pages of one run, intervals, files, workbooks; errors and refusals by type."""

from __future__ import annotations

import io
import re
import sys
import zipfile
from functools import partial
from urllib.parse import urlencode

import pytest
from fixtures.release import build_release
from fixtures.serve import one_worker, served

from engine.errors import (
    DamagedRelease,
    InternalError,
    MissingPackage,
    NotAnswerable,
    QueryRefused,
    ReplacedRelease,
    SpecError,
    StoreError,
    TimedOut,
    TooLarge,
)
from queries.release import open_release
from queries.serve import Limits, app_of
from queries.serve.errors import as_json, status_of
from queries.sql import MARK

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("xlsxwriter")
openpyxl = pytest.importorskip("openpyxl")

RARE = "SELECT income, sex, count(*) AS n FROM data GROUP BY ALL ORDER BY n, income, sex"
GROUPS = "SELECT age, sex, count(*) AS n FROM data GROUP BY ALL"


@pytest.mark.ci
def test_pages_without_an_order_neither_repeat_nor_lose_rows_though_nothing_is_kept(path):
    with served(
        app_of(path, limits=one_worker(cache_bytes=10))
    ) as client:  # every page runs it again
        first = client.sql(GROUPS, "&size=40").json
        pages = [
            client.sql(GROUPS, f"&size=40&page={i + 1}&answer={first['answer']}").json["rows"]
            for i in range(first["n_pages"])
        ]
        rows = [tuple(r) for page in pages for r in page]
        assert len(rows) == first["n_rows"] == len(set(rows))
        with open_release(path) as release:
            assert {row[:2] for row in rows} == {row[:2] for row in release.sql(GROUPS).rows}


def test_statements_have_noise_intervals_on_request(client, path):
    text = "SELECT sex, count(*) AS n FROM data GROUP BY sex ORDER BY sex"
    got, plain = client.sql(text, "&intervals=true").json, client.sql(text).json
    with open_release(path) as release:
        want = release.sql(text, intervals=True)
        assert got["columns"] == list(want.columns)
        assert got["rows"] == [list(row) for row in want.rows]
    assert plain["columns"] == ["sex", "n"]
    assert got["columns"][2:] == ["n_low", "n_high", "n_status"]
    assert client.sql(text, "&intervals=true&format=csv").body.startswith(b"sex,n,n_low,n_high,")


@pytest.mark.parametrize(
    ("where", "body", "named"),
    [
        ("tabulate", {"rows": ["age"], "foo": 1}, "foo: "),
        ("query", {"sql": "SELECT 1", "foo": 1}, "foo: "),
        ("tabulate", {"rows": ["age"], "bands": {"age": "x"}}, "bands.age: "),
        ("tabulate", b"{nonsense", "the body "),
        ("tabulate", {"rows": ["age"], "percent": "some"}, "percent: "),
        ("tabulate", [1], "the request: "),
    ],
)  # fmt: skip
def test_a_wrong_body_is_refused_and_the_mistake_located(client, where, body, named):
    got = client.ask(f"/api/{where}", method="POST", body=body, content_type="application/json")
    assert (got.status, got.json["message"].startswith(named)) == (400, True), got.body


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NotAnswerable("x"), 404), (TimedOut("x"), 504), (TooLarge("x"), 413), (QueryRefused("x"), 400),
        (DamagedRelease("x"), 503), (ReplacedRelease("x"), 503), (MissingPackage("x"), 501), (StoreError("x"), 500),
        (InternalError("x"), 500), (SpecError("x"), 400),
    ],
)  # fmt: skip
def test_every_error_has_its_status(error, status):
    assert status_of(error) == status
    assert (as_json(error)["message"] == "x") == (type(error) not in (DamagedRelease, StoreError))


@pytest.mark.slow
def test_a_replaced_release_is_not_used(tmp_path):
    path = build_release(tmp_path / "r.duckdb")
    little = {"limits": Limits(places=1, memory="128MB", timeout_s=120)}  # memory ends it, not time
    with served(app_of(path, **little)) as client:
        assert client.sql("SELECT count(*) AS n FROM data").status == 200
        build_release(path, seed=1)
        assert client.ask("/api/tabulate?rows=SEX").status == 200  # the one that was opened
        ended = client.sql("SELECT repeat('x', 600000000)").status  # its process is ended
        assert ended == 413
        got = client.sql("SELECT 1 AS a")
        assert (got.status, got.json["error"]) == (503, "ReplacedRelease")
        assert str(tmp_path) not in got.json["message"]
        path.unlink()
        got = client.sql("SELECT 2 AS a")
        assert (got.status, str(tmp_path) in got.json["message"]) == (503, False)


def test_what_looks_like_a_formula_is_text_in_a_workbook(client):
    text = "SELECT '=1+1' AS \"=cmd|' /C calc'!A0\", '+1' AS b, '@x' AS c, '-2' AS d, chr(9) || '=1' AS e"
    body = client.sql(text, "&format=xlsx").body
    with zipfile.ZipFile(io.BytesIO(body)) as book:
        sheets = [book.read(n) for n in book.namelist() if n.startswith("xl/worksheets/")]
    assert not [s for s in sheets if b"<f>" in s or b"<hyperlink" in s]
    sheet = openpyxl.load_workbook(io.BytesIO(body)).worksheets[0]
    assert [c.data_type for row in sheet.iter_rows() for c in row] == ["s"] * 10


def test_files_have_their_types_safe_names_and_tags(client):
    kinds = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet", "json-stat": "application/json",
             "xlsx": "application/vnd.openxmlformats"}  # fmt: skip
    for form, kind in kinds.items():
        link = f"/api/tabulate?rows=region&cols=sex&format={form}"
        got = client.ask(link)
        ending = "json" if form == "json-stat" else form
        assert got.headers["content-type"].startswith(kind)
        assert got.headers["content-disposition"] == f'attachment; filename="table.{ending}"'
        for tag in (got.headers["etag"], f'"other", W/{got.headers["etag"]}', "*"):
            assert client.ask(link, if_none_match=tag).status == 304
        assert client.ask(link, if_none_match='"other"').status == 200


@pytest.fixture
def marked(path):
    """The rows of `RARE` as people see them, and its marks."""
    with open_release(path) as release:
        result = release.sql(RARE)
        assert result.marks.n_unreleased > 20
        return result.shown(), result.marks


@pytest.mark.ci
def test_a_cut_answer_says_which_of_its_rows_are_not_released(path, marked):
    shown, _ = marked
    with served(app_of(path, limits=one_worker(max_rows=20))) as client:
        body = client.sql(RARE).json
    assert body["is_cut"]
    hidden = [[i, 2] for i, row in enumerate(shown[:20]) if row[2] == MARK]
    assert hidden == body["not_released"] != []
    assert f"{len(hidden)} of 20 " in body["warnings"][0]


def test_answers_made_of_other_statements_are_marked_as_those(client, marked):
    shown, _ = marked
    body = client.sql(f"WITH a AS ({RARE}) SELECT * FROM a", "&size=20").json
    hidden = {row[:2] for row in shown if row[2] == MARK}
    told = {(i, 2) for i, row in enumerate(body["rows"]) if tuple(row[:2]) in hidden}
    assert {tuple(place) for place in body["not_released"]} == told != set()


def test_pages_and_workbooks_mark_what_is_not_released(client, marked):
    shown, marks = marked
    pages = [client.sql(RARE, f"&size=15&page={page}").json for page in (1, 2)]
    told = [[i + 15 * k, at] for k, page in enumerate(pages) for i, at in page["not_released"]]
    assert told == [[i, 2] for i, row in enumerate(shown[:30]) if row[2] == MARK]
    body = client.sql(RARE, "&format=xlsx").body
    book = openpyxl.load_workbook(io.BytesIO(body))
    rows = list(book["Table"].iter_rows(min_row=2, values_only=True))
    assert [row[2] == MARK for row in rows] == [row[2] == MARK for row in shown]
    notes = [text for _, text in book["Notes"].iter_rows(values_only=True)]
    line = f"{MARK}: {marks.n_unreleased:,} of {marks.n_figures:,} "
    assert any(text.startswith(line) for text in notes)


REFUSED = {
    "/api/query?sql=DROP%20TABLE%20x": (400, "DROP"),
    "/api/query?sql=SELECT%201%3B%20SELECT%202": (400, "2"),
    "/api/query?sql=SELECT%20agee%20FROM%20data": (404, "age"),
    "/api/query?sql=SELECT%20age%2C%20education%20FROM%20data": (404, "education"),
    "/api/query": (400, "sql: "),
    "/api/query?sql=SELECT%201&size=0": (400, "size 0"),
    "/api/query?sql=SELECT%201&page=2": (400, "page 2"),
    "/api/query?sql=SELECT%201&format=exe": (400, "format"),
    "/api/query?sql=SELECT%201&other=1": (400, "other"),
    "/api/tabulate?rows=agee": (404, "Near: age"),
    "/api/tabulate?rows=age&cols=age": (400, "age"),
    "/api/tabulate?rows=age&cols=education": (404, "education"),
    "/api/tabulate?rows=income&cols=arrival_date": (413, "income in bands"),
    "/api/tabulate?rows=age&band.age=5&cols=income&band.income=5000": (413, "combinations of bands"),
    "/api/tabulate?rows=age&band.age=1": (400, "40"),
    "/api/tabulate?rows=age&band.age=0": (400, "band width of 0"),
    "/api/tabulate?rows=sex&band.sex=5": (400, "cannot be put in bands"),
    "/api/tabulate?rows=sex&only.age=xx": (400, "no released value 'xx'"),
    "/api/tabulate?rows=sex&from.age=xx": (400, "'xx'"),
    "/api/tabulate?rows=sex&from.region=R1": (400, "region"),
    "/api/tabulate?rows=sex&from.age=1&only.age=2": (400, "not both"),
    "/api/tabulate?rows=sex&measure=mean": (400, "needs `of`"),
    "/api/tabulate?rows=sex&measure=mean&of=region": (400, "region"),
    "/api/tabulate?rows=age&measure=mean&of=age": (400, "age"),
    "/api/tabulate?rows=sex&measure=mean&of=income&percent=total": (400, "percent"),
    "/api/tabulate?rows=sex&percent=row": (400, "need both rows and columns"),
    "/api/tabulate?rows=sex&nonsense=1": (400, "nonsense"),
    "/api/tabulate?rows=age&band.age=10&from.age=200&to.age=300": (400, "band"),
    "/api/tabulate?rows=sex&quantile=2&measure=quantile&of=income": (400, "quantile"),
    "/api/plan?rows=nobody": (404, "no column 'nobody'"),
    "/etc/passwd": (404, "Not Found"),
    "/../queries/server.py": (404, "Not Found"),
}  # fmt: skip


@pytest.mark.parametrize("address", REFUSED)
def test_refusals_are_json_with_a_fitting_status(client, address):
    got = client.ask(address)
    status, words = REFUSED[address]
    assert (got.status, words in got.json["message"]) == (status, True), got.body
    assert set(got.json) <= {"error", "message", "missing", "nearest"}


@pytest.mark.parametrize(("package", "form"), [("pyarrow", "parquet"), ("xlsxwriter", "xlsx")])
def test_a_missing_package_is_named(client, monkeypatch, package, form):
    monkeypatch.setitem(sys.modules, package, None)
    got = client.ask(f"/api/tabulate?rows=age&from.age=7&to.age=9&format={form}")  # not kept
    assert got.status == 501
    assert re.search(rf"\b{package}: pip install", got.json["message"])


@pytest.mark.ci
def test_a_file_that_is_too_large_is_refused(path):
    with served(app_of(path, limits=one_worker(answer_bytes=100))) as client:
        got = client.ask("/api/tabulate?rows=region&cols=sex&format=csv")
        assert (got.status, "at most 100 bytes" in got.json["message"]) == (413, True)


def table_of(client, *pairs: tuple[str, str]) -> list[list[object]]:
    """The first sheet of a question's workbook."""
    got = client.ask(f"/api/tabulate?{urlencode([*pairs, ('format', 'xlsx')])}")
    assert got.status == 200, got.body
    sheet = openpyxl.load_workbook(io.BytesIO(got.body))["Table"]
    return [[cell.value for cell in row] for row in sheet.iter_rows()]


CROSS = (("rows", "education"), ("cols", "sex"), ("only.region", "R1"))


def test_the_cross_table_is_as_shown(client):
    shown = client.ask(f"/api/tabulate?{urlencode(CROSS)}").json
    sheet = table_of(client, *CROSS)
    assert sheet[0][0] == "Number of people by education and sex; only region: R1"
    assert sheet[1][1] == "sex"
    assert [text for text in sheet[2] if text] == ["Women", "Men", "All"]
    assert sheet[3] == ["education", *["figure", "from", "to"] * 3]
    words = {"not released": "not released", "structural zero": "impossible"}
    cells, width = shown["cells"], 2
    for r, [head] in enumerate(shown["row_heads"]):
        line = sheet[4 + r]
        assert line[0] == head
        for c in range(width):
            i = r * width + c
            status, value = cells["status"][i], cells["value"][i]
            assert line[1 + 3 * c] == (words[status] if status in words else value)
            if value is not None and status not in words:
                assert line[2 + 3 * c : 4 + 3 * c] == [cells["low"][i], cells["high"][i]]
        assert line[7] == (
            shown["row_total"]["value"][r] or words.get(shown["row_total"]["status"][r])
        )
    last = sheet[4 + len(shown["row_heads"])]
    assert last[0] == "All"
    assert [last[1], last[4]] == shown["col_total"]["value"]
    assert last[7] == shown["total"]["value"][0]
    notes = " ".join(str(row[0]) for row in sheet[5 + len(shown["row_heads"]) :])
    assert "not released: too few to show, or none" in notes
    assert shown["words"] in notes


BOTH = (("rows", "region"), ("cols", "sex"))
HIGH = (("rows", "sex"), ("measure", "quantile"))
AGED = (("from.age", "16"), ("to.age", "64"))


@pytest.mark.ci
@pytest.mark.parametrize(
    ("pairs", "title", "last"),
    [
        ((), "Number of people", None),
        ((("cols", "region"),), "Number of people by region", None),
        ((("rows", "region"),), "Number of people by region", "All"),
        ((("rows", "region"), ("percent", "total")), "Percentage of people by region", "All"),
        ((*BOTH, ("percent", "row")), "Percentage of people by region and sex, of each row", "All"),
        ((*BOTH, ("percent", "column")), "Percentage of people by region and sex, of each column", "All"),
        ((("rows", "sex"), ("measure", "mean"), ("of", "income")), "Average of income by sex", "All"),
        ((*HIGH, ("of", "income"), ("quantile", "0.9")), "0.9 quantile of income by sex", "All"),
        ((*BOTH, ("cols", "education")), "Number of people by region, sex and education", "All"),
        ((("rows", "sex"), ("measure", "ratio")), "People as a ratio to the rest by sex", "All"),
        ((("rows", "sex"), *AGED), "Number of people by sex; only Age in years: 16 to 64", "All"),
    ],
)  # fmt: skip
def test_every_kind_of_table_has_its_heads_and_its_last_line(client, pairs, title, last):
    shown = client.ask(f"/api/tabulate?{urlencode(pairs)}").json
    sheet = table_of(client, *pairs)
    assert sheet[0][0] == title
    depth = len(shown["cols"])
    top = 1 + depth + (1 if depth else 0) + 1
    heads = [line[0] for line in sheet[top : top + len(shown["row_heads"])]]
    assert heads == [head[0] if head else "All" for head in shown["row_heads"]]
    values = [v for v in shown["cells"]["value"] if v is not None]
    first = [
        v for line in sheet[top : top + len(heads)] for v in line[1:] if not isinstance(v, str)
    ]
    assert set(values) <= set(first)
    is_last = sheet[top + len(heads)][0] == "All"
    assert is_last == (
        last == "All"
        and (
            shown["col_total"] is not None or shown["total"] is not None or "percent" in dict(pairs)
        )
    )


def wide_sheet(n, *, has_intervals=True):
    """The first sheet of a table of one row and many columns."""
    from queries.serve.workbook import Shown, cross_table
    from queries.sql import workbook_of

    side = dict.fromkeys(("value", "low", "high"), [7] * n) | {"status": ["reliable"] * n}
    blank = {"rows": [], "row_heads": [[]], "row_total": None, "col_total": None, "total": None}
    body = {
        **blank,
        "cols": [{"label": "age"}],
        "col_heads": [[f"c{i}"] for i in range(n)],
        "cells": side,
        "measure": "count",
        "percent": "none",
        "words": "Sure.",
    }
    shown = Shown(title="Wide", body=body, has_intervals=has_intervals)
    made = workbook_of(["x"], [], [], first=partial(cross_table, shown))
    book = openpyxl.load_workbook(io.BytesIO(made), read_only=True)
    return [list(row) for row in book["Table"].iter_rows(values_only=True)]


NOTE = "The ends of the intervals are left out here"


@pytest.mark.ci
@pytest.mark.parametrize(("n", "is_cut"), [(5_461, False), (5_462, True)])
def test_a_wide_table_has_all_figures_and_a_note_on_what_is_left_out(n, is_cut):
    rows = wide_sheet(n)
    line = next(row for row in rows if row[0] == "All")
    assert line.count(7) == (n if is_cut else 3 * n)
    assert any(str(row[0]).startswith(NOTE) for row in rows) == is_cut
    assert rows[2].count(f"c{n - 1}") == 1
