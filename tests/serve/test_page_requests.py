"""Requesting a table on the page."""

from __future__ import annotations

import shutil

import pytest
from fixtures.page import OPENED, open_page, violations
from fixtures.serve import one_worker, served

from engine.store import manifest_path
from queries.requests import read_requests

pytest.importorskip("fastapi")

from queries.serve import app_of

pytestmark = pytest.mark.slow


def test_a_table_is_requested(sheet, path, tmp_path):
    own = tmp_path / "r.duckdb"
    shutil.copyfile(path, own)
    shutil.copyfile(manifest_path(path), manifest_path(own))
    with served(app_of(own, takes_requests=True, limits=one_worker())) as client:
        user = open_page(sheet, f"{client.address}?cols=region")
        user.press("Request a table with income")
        sheet.get_by_text("Request this table").click()
        sheet.get_by_role("button", name="Submit request").click()
        assert read_requests(own) == ()  # a reason is wanted
        sheet.get_by_label("Purpose of the table").fill("a <b>report</b>")
        sheet.get_by_label("Your name").fill("Ada")
        sheet.evaluate(OPENED)
        assert violations(sheet) == []
        sheet.get_by_role("button", name="Submit request").click()
        sheet.get_by_text("Request 1 was submitted.").first.wait_for()
        (left,) = read_requests(own)
        assert (left.columns, left.reason, left.who) == (
            ("income", "region"),
            "a <b>report</b>",
            "Ada",
        )
        user.wait()
    assert sheet.messages == []


def test_the_form_is_missing_where_requests_are_not_accepted(sheet, client):
    open_page(sheet, f"{client.address}?rows=income&cols=region")
    sheet.get_by_text("For data custodians").wait_for()
    assert sheet.get_by_text("Request this table").count() == 0
    assert not any("request.js" in request for request in sheet.requests)
    open_page(sheet, f"{client.address}?cols=region")
    assert sheet.get_by_role("button", name="Request a table with income").count() == 0
