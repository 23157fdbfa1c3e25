"""Asking for a table on the page, where the server takes requests."""

from __future__ import annotations

import shutil

import fixtures.page
import pytest
from fixtures.page import OPENED, open_page, violations
from fixtures.serve import served

from engine.store import manifest_path
from queries.requests import read_requests

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from queries.serve import app_of

browser, client, path, sheet = fixtures.page.FIXTURES


def test_a_reader_asks_for_a_table(sheet, path, tmp_path):
    own = tmp_path / "r.duckdb"
    shutil.copyfile(path, own)
    shutil.copyfile(manifest_path(path), manifest_path(own))
    with served(app_of(own, takes_requests=True)) as client:
        user = open_page(sheet, f"{client.address}?rows=income&cols=region")
        sheet.get_by_text("Ask for this table").click()
        sheet.get_by_role("button", name="Leave the request").click()
        assert read_requests(own) == ()  # a reason is wanted
        sheet.get_by_label("What the table is for").fill("a <b>report</b>")
        sheet.get_by_label("Who asks").fill("Ada")
        sheet.evaluate(OPENED)
        assert violations(sheet) == []
        sheet.get_by_role("button", name="Leave the request").click()
        sheet.get_by_text("Request 1 was left.").first.wait_for()
        (left,) = read_requests(own)
        assert (left.columns, left.reason, left.who) == (
            ("income", "region"),
            "a <b>report</b>",
            "Ada",
        )
        user.wait()
    assert sheet.messages == []


def test_without_requests_nobody_is_asked_to(sheet, client):
    open_page(sheet, f"{client.address}?rows=income&cols=region")
    sheet.get_by_text("For those who make the release").wait_for()
    assert sheet.get_by_text("Ask for this table").count() == 0
    assert not any("wish.js" in request for request in sheet.requests)
