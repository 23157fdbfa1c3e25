"""Answers of the API: pages of one run, intervals, files, errors by type."""

from __future__ import annotations

import io
import zipfile

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

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from queries.serve import Limits, app_of
from queries.serve.errors import as_json, status_of
from queries.sql import MARK

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
    sheet = pytest.importorskip("openpyxl").load_workbook(io.BytesIO(body)).worksheets[0]
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
    book = pytest.importorskip("openpyxl").load_workbook(io.BytesIO(body))
    rows = list(book["Table"].iter_rows(min_row=2, values_only=True))
    assert [row[2] == MARK for row in rows] == [row[2] == MARK for row in shown]
    notes = [text for _, text in book["Notes"].iter_rows(values_only=True)]
    line = f"{MARK}: {marks.n_unreleased:,} of {marks.n_figures:,} "
    assert any(text.startswith(line) for text in notes)
