"""The page in German: translated completely, chosen by address, switch or browser."""

from __future__ import annotations

import re

import pytest
from fixtures.page import open_page

pytest.importorskip("fastapi")


pytestmark = pytest.mark.slow


def test_a_table_is_made_in_german(sheet, client):
    user = open_page(sheet, f"{client.address}?lang=de&rows=age&band.age=10&cols=sex&percent=row")
    assert sheet.locator("html").get_attribute("lang") == "de"
    assert user.title().endswith("nach Age in years und sex, je Zeile")
    cells = sheet.locator("#table tbody").inner_text()
    assert re.search(r"\d,\d\u00a0%", cells)
    assert re.search(r"\d0 bis \d9", cells)
    assert " to " not in cells
    for english in (
        "Rows",
        "Remove",
        "Download",
        "Copy",
        "Choose",
        "Percentages",
        "noise interval",
    ):
        assert not re.search(rf"\b{english}\b", _own_words(sheet)), english
    accuracy = sheet.locator("#words")
    assert accuracy.inner_text().startswith("Aus Tabelle Age in years, sex; in 95 von 100")
    assert " released" not in accuracy.inner_text()
    assert accuracy.locator("[lang=en]").count() == 0
    card = sheet.locator("#card li").all_text_contents()
    assert sheet.locator("#card li[lang=en]").all_text_contents() == []
    assert any(re.search(r"Rauschen mit einer Standardabweichung von \d,\d\d ", s) for s in card)
    user.press("Neu beginnen")
    assert sheet.url.endswith("?lang=de")
    sheet.wait_for_selector("#pictures svg")
    assert sheet.locator("#pictures a").first.get_attribute("href").endswith("&lang=de")
    assert sheet.messages == []


def _own_words(sheet) -> str:
    """The page's own texts: those marked as English come from the release."""
    theirs = "[lang=en], #notes, #about, #foot"
    return sheet.evaluate(
        "(theirs) => { const b = document.body.cloneNode(true); "
        "b.querySelectorAll(theirs).forEach(e => e.remove()); return b.innerText; }",
        theirs,
    )


def test_the_switch_keeps_the_question(sheet, client):
    user = open_page(sheet, f"{client.address}?rows=region&cols=sex&sort=down.0")
    english = user.table()
    user.follow("Deutsch")
    sheet.wait_for_selector("#table table")
    assert "lang=de" in sheet.url
    assert "sort=down.0" in sheet.url
    assert user.title() == "Anzahl Personen nach region und sex"
    assert [row[0] for row in user.table()][:-1] == [row[0] for row in english][:-1]
    user.follow("English")
    sheet.wait_for_selector("#table table")
    assert user.table() == english
    assert sheet.locator(".languages [aria-current]").inner_text() == "English"
