"""What the API refuses: with a fitting status and the name of what is wrong."""

from __future__ import annotations

import re
import sys

import pytest
from fixtures.serve import one_worker, served

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from queries.serve import app_of

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
    "/api/tabulate?rows=agee": (404, "Nearest: age"),
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
    got = client.ask(f"/api/tabulate?rows=region&cols=sex&format={form}")
    assert got.status == 501
    assert re.search(rf"\b{package}: pip install", got.json["message"])


@pytest.mark.ci
def test_a_file_that_is_too_large_is_refused(path):
    with served(app_of(path, limits=one_worker(answer_bytes=100))) as client:
        got = client.ask("/api/tabulate?rows=region&cols=sex&format=csv")
        assert (got.status, "at most 100 bytes" in got.json["message"]) == (413, True)
