"""One look at the table builder in a real browser; the other tests of the page run with --all."""

from __future__ import annotations

import re
from importlib.resources import files

import duckdb
from fixtures.page import open_page
from fixtures.serve import HOSTILE


def test_a_table_is_built_in_a_real_browser(sheet, client):
    user = open_page(sheet, client.address)
    user.press("Rows: region")
    user.press("Columns: sex")
    assert user.title() == "Number of people by region and sex"
    assert "rows=region&cols=sex" in sheet.url
    cells = client.ask("/api/tabulate?rows=region&cols=sex").json["cells"]
    figures = sheet.locator("#table tbody td:not(:last-child) .v").all_inner_texts()
    assert [float(text.replace(",", "")) for text in figures] == [
        v for v in cells["value"] if v is not None
    ]
    assert sheet.locator("#chart svg").count() == 1
    assert HOSTILE in sheet.locator("#variables").inner_text()  # text, not markup
    user.follow("Deutsch")
    sheet.wait_for_selector("#table table")
    assert user.title() == "Anzahl Personen nach region und sex"
    assert sheet.messages == []
    assert {url for url in sheet.requests if not url.startswith((client.address, "blob:"))} == set()


def test_all_words_that_need_quotes_are_known():
    asked = "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category IN ('reserved', 'type_function')"
    text = (files("queries") / "serve" / "web" / "sql.js").read_text("utf-8")
    known = re.search(r'RESERVED = new Set\("([^"]+)"', text)[1].split()
    assert {word for (word,) in duckdb.sql(asked).fetchall()} <= set(known)
