"""The JSON API: answers equal the release's own, and everything is limited."""

from __future__ import annotations

import csv
import io
import logging
import math
import time

import pytest
from fixtures.serve import one_worker, served

from queries.intervals import tabulate
from queries.release import open_release

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from queries.serve import app_of

LIMITS = one_worker(
    max_rows=500, timeout_s=1.0, body_bytes=4000, answer_bytes=200_000, cache_bytes=2_000_000
)
CROSS = "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range + b.range = 7"


@pytest.fixture(scope="module")
def release(path):
    with open_release(path) as opened:
        yield opened


@pytest.fixture(scope="module")
def client(path):
    with served(app_of(path, limits=LIMITS)) as client:
        yield client


@pytest.mark.ci
def test_variables_have_labels_and_values(client, release):
    got = client.ask("/api/variables").json
    by_name = {v["name"]: v for v in got["variables"]}
    assert list(by_name) == list(release.columns)
    assert by_name["sex"]["values"][0] == {
        "key": "Female",
        "label": "Women",
        "n": release.values("sex")[0][2],
    }
    assert by_name["age"]["label"] == "Age in years"
    assert 10 in by_name["age"]["bands"]
    assert by_name["age"]["is_released"] is True
    assert by_name["education"]["values"][0]["label"] == "(blank)"
    assert by_name["education"]["values"][0]["key"] == "~"
    assert got["content_hash"] == release.content_hash
    rents = client.ask("/api/values?column=rent_weekly&start=1&size=2").json
    assert len(rents["values"]) == 2
    assert rents["n_values"] == len(release.values("rent_weekly"))
    assert client.ask("/api/values?column=rent").status == 404


def test_a_table_has_the_figures_of_tabulate(client, release):
    got = client.ask("/api/tabulate?rows=education&cols=sex&only.region=R1&only.region=R2").json
    want = tabulate(release, ["education", "sex"], where={"region": ["R1", "R2"]})
    at = {key: i for i, key in enumerate(want.keys)}
    education = {label or v or "(blank)": v for v, label, _ in release.values("education")}
    sex = {"Women": "Female", "Men": "Male"}
    assert len(got["row_heads"]) * len(got["col_heads"]) == len(want)
    for r, (head,) in enumerate(got["row_heads"]):
        for c, (other,) in enumerate(got["col_heads"]):
            i, cell = at[education[head], sex[other]], r * len(got["col_heads"]) + c
            assert got["cells"]["status"][cell] == want.status[i]
            for name in ("value", "low", "high"):
                expected, found = getattr(want, name)[i], got["cells"][name][cell]
                assert (found is None) == math.isnan(expected)
                assert found is None or found == pytest.approx(expected, abs=1e-6)
    assert got["table"] == ["education", "region", "sex"]
    # A cross table has totals, which its parts do not add up to.
    assert got["words"].startswith(want.words)
    assert got["words"].removeprefix(want.words).strip()


def test_a_band_has_the_figures_of_its_range(client, release):
    got = client.ask("/api/tabulate?rows=age&band.age=10&cols=sex").json
    assert got["row_heads"][2] == ["20 to 29"]
    want = tabulate(release, ["sex"], where={"age": (20, 29)})
    assert got["cells"]["value"][4:6] == want.value.tolist()
    assert got["cells"]["low"][4:6] == want.low.tolist()
    shown = [v for v in got["cells"]["value"] if v is not None]
    hidden = len(got["cells"]["value"]) - len(shown)  # at most the threshold in each
    assert sum(shown) == pytest.approx(got["total"]["value"][0], abs=9 + 6 * hidden)
    assert got["row_total"]["value"][2] == tabulate(release, [], where={"age": (20, 29)}).value[0]


def test_percentages_have_the_right_base(client):
    row = client.ask("/api/tabulate?rows=region&cols=sex&percent=row").json["cells"]["value"]
    assert [row[i] + row[i + 1] for i in range(0, len(row), 2)] == pytest.approx(
        [1.0] * (len(row) // 2), abs=1e-4
    )
    column = client.ask("/api/tabulate?rows=region&cols=sex&percent=column").json["cells"]["value"]
    assert sum(column[::2]) == pytest.approx(1, abs=1e-4)
    banded = client.ask("/api/tabulate?rows=age&band.age=20&cols=sex&percent=row").json["cells"]
    assert banded["value"][0] + banded["value"][1] == pytest.approx(1, abs=0.02)
    assert all(
        0 <= a <= v <= b <= 1
        for a, v, b in zip(*(banded[k] for k in ("low", "value", "high")), strict=True)
        if v is not None
    )


@pytest.mark.parametrize("measure", ["mean", "median", "sum"])
def test_measures_of_a_column(client, release, measure):
    got = client.ask(f"/api/tabulate?rows=sex&measure={measure}&of=income").json
    want = tabulate(release, ["sex"], measure=measure, of="income")
    assert got["cells"]["value"] == pytest.approx(want.value.tolist())


def test_a_plan_lists_which_variables_can_be_added(client, release):
    plan = client.ask("/api/plan?rows=education&cols=sex").json
    others = {o["name"]: o for o in plan["others"]}
    assert plan["is_answerable"] is True
    assert plan["table"] == ["education", "region", "sex"]
    assert plan["card"]
    assert others["region"]["is_addable"] is True
    assert others["age"]["is_addable"] is False
    assert others["age"]["reason"] == "not released with education"
    near = {c for table in release.tables if "age" in table for c in table} - {"age"}
    assert set(others["age"]["available_with"]) == near
    assert 'columns = ["age", "education", "sex"]' in others["age"]["spec"]
    no = client.ask("/api/plan?rows=education&cols=age").json
    assert no["is_answerable"] is False
    assert ["education", "region", "sex"] in no["nearest"]
    assert 'columns = ["age", "education"]' in no["spec"]


def test_sql_in_pages(client, release):
    text = "SELECT age, count(*) AS n FROM data GROUP BY age ORDER BY age"
    answer = release.sql(text)
    hidden = {i for i, _ in answer.marks.places()}
    want = [[age, None if i in hidden else n] for i, (age, n) in enumerate(answer.rows)]
    first, second = (client.sql(text, f"&size=20&page={page}").json for page in (1, 2))
    assert first["rows"] + second["rows"] == want[:40]
    assert first["n_rows"] == len(want)
    assert first["table"] == ["age"] or "age" in first["table"]
    assert first["columns"] == ["age", "n"]
    posted = client.ask("/api/query", method="POST", body={"sql": text, "size": 20}).json
    assert posted == first


def test_long_results_are_cut_with_a_warning(client):
    long = client.sql("SELECT * FROM range(1000000000)").json
    assert (long["is_cut"], long["n_rows"]) == (True, LIMITS.max_rows)
    assert "500" in long["warnings"][-1]
    wide = client.sql("SELECT repeat('x', 1000) FROM range(400)").json
    assert wide["is_cut"] is True
    assert client.sql("SELECT * FROM range(501)", "&format=csv").status == 413
    assert client.sql("SELECT * FROM range(500)", "&format=csv").body.count(b"\n") == 501


def test_files_hold_the_same_rows(client):
    link = "/api/tabulate?rows=education&cols=sex&format="
    text = client.ask(link + "csv")
    rows = list(csv.DictReader(io.StringIO(text.body.decode())))
    assert list(rows[0]) == ["education", "sex", "value", "low", "high", "status"]
    assert text.headers["content-disposition"] == 'attachment; filename="table.csv"'
    figures = [float(r["value"]) if r["value"] else None for r in rows]
    stat = client.ask(link + "json-stat").json
    assert [v for v in stat["value"][::3] if v] == sorted_as(stat, rows)
    assert math.prod(stat["size"]) == len(stat["value"]) == len(stat["status"])
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(io.BytesIO(client.ask(link + "parquet").body))
    assert table.column("value").to_pylist() == figures
    book = pytest.importorskip("openpyxl").load_workbook(io.BytesIO(client.ask(link + "xlsx").body))
    assert book.sheetnames == ["Table", "Rows", "Notes"]
    sheet = [list(row) for row in book["Rows"].iter_rows(values_only=True)]
    assert sheet[0] == list(rows[0])
    assert [row[2] for row in sheet[1:]] == figures
    words = client.ask(link + "json").json["words"]
    assert any(words in str(c.value) for row in book["Notes"].iter_rows() for c in row)


def sorted_as(stat, rows):
    """Values of CSV rows in the order of a JSON-stat dataset."""
    order = (
        stat["dimension"]["education"]["category"]["index"],
        stat["dimension"]["sex"]["category"]["index"],
    )
    by_key = {(r["education"] or "~", r["sex"]): r["value"] for r in rows}
    found = (by_key.get((a, b), "") for a in order[0] for b in order[1])
    return [float(v) for v in found if v and float(v)]


@pytest.mark.ci
def test_the_same_question_is_answered_from_the_cache(path):
    app = app_of(path, limits=one_worker())
    with served(app) as client:
        first = client.ask("/api/tabulate?rows=sex&cols=age&band.age=10")
        again = client.ask("/api/tabulate?cols=age&band.age=10&rows=sex")
        assert first.body == again.body
        held = client.ask(
            "/api/tabulate?rows=sex&cols=age&band.age=10", if_none_match=first.headers["etag"]
        )
        assert (held.status, held.body) == (304, b"")


def test_an_empty_list_of_values_is_refused(client):
    """Also where the table without it was just answered, and is kept."""
    assert client.ask("/api/tabulate?rows=sex").status == 200
    for part in ("only", "groups"):
        got = client.ask("/api/tabulate", method="POST", body={"rows": ["sex"], part: {"age": []}})
        assert (got.status, got.json["message"].startswith(f"{part}: ")) == (400, True)


def test_values_that_json_lacks_are_text(client):
    text = (
        "SELECT 'NaN'::DOUBLE, DATE '2020-01-02', 1.50::DECIMAL(5,2), [1, NULL], {'a': 1}, "
        "9007199254740993, NULL, true"
    )
    assert client.sql(text).json["rows"] == [
        ["nan", "2020-01-02", "1.50", [1, None], {"a": 1}, "9007199254740993", None, True]
    ]


def test_what_is_served_does_not_change_the_file(path, client):
    before = path.read_bytes()
    client.sql("SELECT count(*) FROM data")
    assert path.read_bytes() == before
    assert {p.name for p in path.parent.glob("r.duckdb*")} - {"r.duckdb.replays"} == {
        "r.duckdb",
        "r.duckdb.manifest.json",
    }


def test_the_log_has_no_question_and_no_answer(client, caplog):
    with caplog.at_level(logging.INFO, logger="tablepack.serve"):
        client.sql("SELECT 'canary' AS planted")
        client.ask("/api/tabulate?rows=sex&only.region=R1")
    said = "\n".join(record.getMessage() for record in caplog.records)
    assert "GET /api/query 200" in said
    assert "canary" not in said
    assert "R1" not in said


def test_replays_are_drawn_before_anybody_asks(path):
    """Of the narrowest tables first; so the first visitor need not wait for them."""
    with open_release(path) as release, served(app_of(release, limits=one_worker(ahead=2))):
        until = time.monotonic() + 120
        drawn = []
        while len(drawn) < 2 and time.monotonic() < until:
            drawn = [key[1] for key in [*release.models] if key[0] == "replays"]
            time.sleep(0.1)
        assert len(drawn) == 2
        assert sorted(map(len, drawn)) == sorted(map(len, release.tables))[:2]
