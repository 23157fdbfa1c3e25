"""Requests for tables that are not released: submitted by users, priced and settled by the custodian."""

from __future__ import annotations

import json
import os
import shutil
import stat
import threading
from datetime import UTC, datetime

import pytest
from fixtures.pipeline import ACCEPTED, CENSUS, tablepack, write_spec
from fixtures.serve import one_worker, served

from engine.errors import StoreError, TooLarge
from engine.store import earlier_release
from queries import requests as noted
from queries.requests import (
    leave_request,
    read_requests,
    requests_path,
    settle_request,
)
from queries.serve import app_of, service

WHEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture(scope="module")
def built_once(tmp_path_factory, census):
    """A folder with a release of three tables, its spec, its key and the source."""
    folder = tmp_path_factory.mktemp("requests")
    columns = {k: CENSUS[k] for k in ("person_id", "region", "age", "sex", "carer")}
    spec = write_spec(
        folder,
        census / "people.parquet",
        columns,
        [("age",), ("region",), ("age", "sex")],
        privacy=ACCEPTED,
        name="r.toml",
    )
    assert tablepack("build", spec, "--jobs", "1", cwd=folder).returncode == 0
    return folder


@pytest.fixture
def built(built_once, tmp_path):
    """A copy of that release for one test, with the files beside it."""
    shutil.copytree(built_once, tmp_path, dirs_exist_ok=True)
    return tmp_path / "r.duckdb"


# The file.


def test_requests_are_saved(tmp_path):
    release = tmp_path / "r.duckdb"
    assert read_requests(release) == ()
    first = leave_request(
        release, ("age", "sex"), reason=" for\na \x1b[31mreport ", who="Ada\u202e", now=WHEN
    )
    assert first.reason == "for a [31mreport"
    assert (first.who, first.when, first.state, first.number) == (
        "Ada",
        "2026-01-02T03:04:05Z",
        "waiting",
        1,
    )
    again = leave_request(release, ("age", "sex"), reason="once more", who="Ada")
    assert again == first
    other = leave_request(release, ("age", "sex"), reason="mine", who="Bob")
    assert other.number == 2
    assert read_requests(release) == (first, other)
    assert stat.S_IMODE(requests_path(release).stat().st_mode) == 0o600
    assert settle_request(release, 1, "declined", "too\nfine").answer == "too fine"
    assert leave_request(release, ("age", "sex"), reason="again", who="Ada").number == 3
    with pytest.raises(StoreError, match="2, 3"):
        settle_request(release, 1, "added")


def test_requests_are_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(noted, "MOST_WAITING", 3)
    monkeypatch.setattr(noted, "MOST_KEPT", 5)
    release = tmp_path / "r.duckdb"
    for i in range(3):
        leave_request(release, (f"c{i}",), reason="x")
    with pytest.raises(TooLarge, match="3"):
        leave_request(release, ("c3",), reason="x")
    for i in range(4):
        settle_request(release, 1 + i, "declined")
        leave_request(release, (f"d{i}",), reason="x")
    assert [one.number for one in read_requests(release)] == [3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"format": 2, "requests": []}',
        '{"format": 1}',
        '{"format": 1, "requests": [{}]}',
        '{"format": 1, "requests": [{"number": "1", "columns": [], "reason": "", "who": "", "when": "", '
        '"state": "waiting", "answer": ""}]}',
        '{"format": 1, "requests": [{"number": 1, "columns": [], "reason": "", "who": "", "when": "", '
        '"state": "gone", "answer": ""}]}',
        '{"format": 1, "requests": [{"number": 1, "columns": [], "reason": "", "who": "", "when": "", '
        '"state": "added", "answer": ""}]}',
        '{"format": 1, "requests": [{"number": 1, "columns": ["a", "a"], "reason": "", "who": "", "when": "", '
        '"state": "added", "answer": ""}]}',
        '{"format": 1, "requests": [{"number": 1, "columns": [3], "reason": "", "who": "", "when": "", '
        '"state": "added", "answer": ""}]}',
    ],
)
def test_a_foreign_file_is_refused(tmp_path, text):
    requests_path(tmp_path / "r.duckdb").write_text(text)
    with pytest.raises(StoreError, match=r"requests\.json"):
        read_requests(tmp_path / "r.duckdb")
    with pytest.raises(StoreError):
        leave_request(tmp_path / "r.duckdb", ("age",), reason="x")
    assert requests_path(tmp_path / "r.duckdb").read_text() == text


def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch):
    release = tmp_path / "r.duckdb"
    leave_request(release, ("age",), reason="x")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match=r"requests\.json"):
        leave_request(release, ("sex",), reason="x")
    assert [one.columns for one in read_requests(release)] == [("age",)]


def test_many_at_once_lose_nothing(tmp_path):
    release = tmp_path / "r.duckdb"

    def ask(i):
        for j in range(5):
            leave_request(release, (f"c{i}{j}",), reason="x")

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    found = read_requests(release)
    assert [one.number for one in found] == list(range(1, 31))
    assert len({one.columns for one in found}) == 30


# The server.


@pytest.fixture(scope="module")
def asked(built_once, tmp_path_factory):
    """A release without requests, and a client of the server that takes them: for what is refused."""
    folder = shutil.copytree(built_once, tmp_path_factory.mktemp("asked"), dirs_exist_ok=True)
    release = folder / "r.duckdb"
    with served(app_of(release, takes_requests=True, limits=one_worker())) as client:
        yield release, client


@pytest.mark.ci
def test_requests_of_a_client_are_limited(built, monkeypatch):
    monkeypatch.setattr(service, "MOST_REQUESTS", 2)
    with served(app_of(built, takes_requests=True, limits=one_worker())) as client:
        for i in range(2):
            assert ask(client, "age", "region", reason=f"{i}").status == 201
        done = ask(client, "region", "sex")
        assert done.status == 413


@pytest.mark.ci
def test_problems_with_the_file_are_not_shown_to_users(built):
    with served(app_of(built, takes_requests=True, limits=one_worker())) as client:
        requests_path(built).write_text("{")
        for done in (ask(client, "age", "region"), client.ask("/api/requests")):
            assert done.status == 503
            assert str(built.parent) not in done.body.decode()
    with pytest.raises(StoreError, match=r"requests\.json"):
        app_of(built, takes_requests=True)


def ask(client, *columns, reason="for a report", **more):
    return client.ask(
        "/api/requests",
        method="POST",
        body={"columns": list(columns), "reason": reason, **more},
    )


@pytest.mark.ci
def test_a_server_accepts_requests_only_if_configured(path):
    with served(app_of(path, limits=one_worker())) as client:
        assert client.ask("/api/variables").json["takes_requests"] is False
        assert ask(client, "age", "region").status == 404
        assert client.ask("/api/requests").status == 404
    assert not requests_path(path).exists()


@pytest.mark.ci
def test_users_submit_requests_and_see_the_outcome(built):
    with served(app_of(built, takes_requests=True, limits=one_worker())) as client:
        assert client.ask("/api/variables").json["takes_requests"] is True
        left = ask(client, "region", "age", who="Ada")
        assert (left.status, left.json) == (201, {"number": 1, "columns": ["age", "region"]})
        settle_request(built, 1, "declined", "too fine")
        (told,) = client.ask("/api/requests").json["requests"]
        assert told.pop("when").endswith("Z")
        assert told == {
            "number": 1,
            "columns": ["age", "region"],
            "state": "declined",
            "answer": "too fine",
        }
        (kept,) = read_requests(built)
        assert (kept.who, kept.reason) == ("Ada", "for a report")


@pytest.mark.ci
@pytest.mark.parametrize(
    ("columns", "more", "status", "said"),
    [
        (("age", "height"), {}, 404, "height"),
        (("age", "sex"), {}, 400, "already released"),
        (("age",), {}, 400, "already released"),
        ((), {}, 400, "columns"),
        (("age", "region"), {"reason": ""}, 400, "reason"),
        (("age", "region"), {"reason": "x" * 1001}, 400, "reason"),
        (("age", "region"), {"who": "x" * 201}, 400, "who"),
        (("age", "region"), {"more": 1}, 400, "more: "),
    ],
)
def test_requests_that_are_refused(asked, columns, more, status, said):
    release, client = asked
    done = ask(client, *columns, **more)
    assert done.status == status, done.body
    assert said in done.json["message"]
    assert str(release.parent) not in done.body.decode()
    assert read_requests(release) == ()


def test_other_pages_cannot_leave_requests(asked):
    release, client = asked
    body = json.dumps({"columns": ["age", "region"], "reason": "x"}).encode()
    for headers in (
        {"content_type": "application/json", "sec_fetch_site": "cross-site"},
        {"content_type": "text/plain"},
        {"content_type": "application/json", "host": "evil.example"},
    ):
        done = client.ask("/api/requests", method="POST", body=body, **headers)
        assert done.status >= 400, headers
    assert read_requests(release) == ()


# The custodian.


@pytest.mark.slow
def test_the_custodian_sees_costs_and_settles(built):
    folder = built.parent
    leave_request(built, ("age", "region"), reason="report [bold]1", who="Ada")
    leave_request(built, ("carer", "sex"), reason="of a new column", who="")
    leave_request(built, ("age", "height"), reason="no such column", who="")
    leave_request(built, ("region",), reason="is there", who="")
    done = tablepack("requests", built, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "report [bold]1" in done.stdout
    assert "3: --columns age,height" in done.stdout
    assert "4: " in done.stdout
    listed = json.loads(tablepack("requests", built, "--json", cwd=folder).stdout)
    price = listed[0]["price"]
    assert price["cells"] > 20
    assert 0 <= price["suppressed_share"] < 1
    assert price["exposure"] >= price["exposure_now"] > 0.5
    assert "cannot" in listed[2]
    for number, n_tables in ((1, 4), (2, 5)):
        done = tablepack("requests", built, "--approve", number, cwd=folder)
        assert done.returncode == 0, done.stderr
        assert len(earlier_release(built).tables) == n_tables
    assert ("age", "region") in earlier_release(built).tables
    assert 'columns = ["age", "region"]' in (folder / "r.toml").read_text()
    done = tablepack("requests", built, "--decline", "3", "--answer", "no such column", cwd=folder)
    assert done.returncode == 0
    done = tablepack("requests", built, "--approve", "3", cwd=folder)
    assert done.returncode == 2
    states = [one.state for one in read_requests(built)]
    assert states == ["added", "added", "declined", "waiting"]
    assert "declined" in tablepack("requests", built, "--all", "--quick", cwd=folder).stdout
    settle_request(built, 4, "declined")
    assert "--approve" not in tablepack("requests", built, cwd=folder).stdout
