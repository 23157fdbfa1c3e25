"""Several releases behind a front page: each under its name and guarded; comparison between them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from fixtures.page_tasks import User
from fixtures.serve import one_worker, served

from engine.errors import StoreError

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from queries.serve import front_of

TOKEN = "a-token-of-some-length"


def linked(path: Path, folder: Path, name: str) -> None:
    """The release under another name."""
    for file in path.parent.glob(f"{path.name}*"):
        if file.is_file():  # without the replays
            os.link(file, folder / file.name.replace("r.duckdb", f"{name}.duckdb"))


@pytest.fixture(scope="module")
def folder(path, tmp_path_factory):
    folder = tmp_path_factory.mktemp("several")
    for name in ("a b", "a-b", "api"):
        linked(path, folder, name)
    return folder


@pytest.fixture(scope="module")
def client(folder):
    with served(front_of(folder, limits=one_worker())) as client:
        yield client


@pytest.mark.ci
def test_each_release_is_below_its_name(client):
    listed = client.ask("/api/releases").json["releases"]
    assert [r["place"] for r in listed] == ["/a-b-1/", "/a-b/", "/api-1/"]
    assert listed[0]["n_tables"] >= 5
    got = client.ask("/a-b/api/tabulate?rows=sex")
    assert (got.status, got.json["row_heads"]) == (200, [["Women"], ["Men"]])
    about = client.ask("/a-b/api/variables").json
    assert [s["place"] for s in about["siblings"]] == ["/a-b-1/", "/a-b/", "/api-1/"]
    for address in ("/nothing/", "/nothing", "/api/tabulate?rows=sex", "/a-b/a-b/", "/app.js"):
        got = client.ask(address)
        assert (got.status, got.json["error"]) == (404, "BadRequest"), address
    assert "default-src 'none'" in client.ask("/").headers["content-security-policy"]
    assert client.ask("/a-b/").body.startswith(b"<!DOCTYPE html>")


@pytest.mark.ci
def test_a_name_without_its_slash_leads_to_the_release(client):
    for method in ("GET", "HEAD"):
        got = client.ask("/a-b?rows=sex&only.region=R%201", method=method)
        assert (got.status, got.headers["location"]) == (307, "a-b/?rows=sex&only.region=R%201")
    assert client.ask("/api-1").headers["location"] == "api-1/"
    wrong = client.ask("/a-b", method="POST")
    assert (wrong.status, wrong.json["error"]) == (405, "BadRequest")


@pytest.mark.ci
def test_a_token_guards_the_front_page_and_each_release(path, tmp_path):
    linked(path, tmp_path, "later")
    with served(front_of(tmp_path, token=TOKEN, limits=one_worker())) as client:
        for address in ("/api/releases", "/later/api/variables"):
            assert client.ask(address).status == 401
            assert client.ask(address, authorization=f"Bearer {TOKEN}").status == 200


def test_a_folder_without_releases_or_with_a_broken_one_is_refused(tmp_path, path):
    with pytest.raises(StoreError, match=re.escape(str(tmp_path))):
        front_of(tmp_path)
    linked(path, tmp_path, "good")
    (tmp_path / "worse.duckdb").write_bytes(b"x")
    with pytest.raises(StoreError, match=r"worse\.duckdb"):
        front_of(tmp_path)
    for i in range(20):
        (tmp_path / f"{i}.duckdb").touch()
    with pytest.raises(StoreError, match="1 and 20"):
        front_of(tmp_path)


@pytest.mark.slow
def test_two_releases_are_compared_on_the_page(sheet, client):
    sheet.goto(client.address)
    sheet.wait_for_selector(".card a")
    assert "Vintage" in sheet.locator(".card").first.inner_text()
    sheet.locator(".card a").nth(2).click()
    sheet.wait_for_selector("#table table")
    user = User(sheet)
    user.press("Rows: sex")
    sheet.get_by_text("Saved tables and comparisons").click()
    sheet.locator("#saved button", has_text="Compare with").first.click()
    sheet.wait_for_selector("#compare tbody tr")
    assert sheet.locator("#compare tbody tr").count() == 2
    texts = sheet.locator("#compare tbody td:last-child").all_inner_texts()
    assert texts == ["0\nmay be noise"] * 2  # the same release under two names
    assert sheet.messages == []
