"""The page in the reader's language: its own words only, chosen by address, switch or browser."""

from __future__ import annotations

import html
import json
import re
import tomllib
from pathlib import Path

import fixtures.page
import pytest
from fixtures.page import OPENED, open_page, violations
from fixtures.serve import served

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

import queries.serve
from queries.serve import front_of
from queries.serve.about import _KINDS
from queries.serve.pages import language_of, page_files, page_words
from queries.serve.values import _OUTSIDE, BLANK_LABEL

browser, client, path, sheet = fixtures.page.FIXTURES
WEB = Path(queries.serve.__file__).parent / "web"
CALLS = (
    r'\bt\(\s*"((?:[^"\\]|\\.)*)"',
    r'\bt\(\w+ \? "((?:[^"\\]|\\.)*)"',
    r'\bt\(\w+ \? "[^"]*" : "((?:[^"\\]|\\.)*)"',
    r'\bline\("([^"]*)"',
)
"""How scripts name a text."""


def texts_of_scripts() -> set[str]:
    found = set()
    for file in WEB.glob("*.js"):
        for pattern in CALLS:
            found |= set(re.findall(pattern, file.read_text("utf-8")))
    return found


def texts_of_pages() -> set[str]:
    whole = "".join(file.read_text("utf-8") for file in WEB.glob("*.html"))
    between = re.findall(r">([^<>]*[A-Za-z][^<>]*)<", whole)
    named = re.findall(r'aria-label="([^"]*)"', whole)
    return {html.unescape(text).strip() for text in (*between, *named)}


OF_THE_SERVER = {
    *_KINDS.values(),
    *_OUTSIDE.values(),
    BLANK_LABEL,
    "row",
    "rows",
    "person",
    "people",
}


def test_every_text_has_words_in_every_language_and_no_word_is_left_over():
    known = {*texts_of_scripts(), *texts_of_pages(), *OF_THE_SERVER}
    assert len(known) > 200
    for code, words in page_words().items():
        assert {*words} - {"language", "Language"} == known, code


def test_words_keep_their_places():
    parts = re.compile(r"\{\w+\}")
    for words in page_words().values():
        for text, said in words.items():
            assert sorted(parts.findall(text)) == sorted(parts.findall(said)), text
            assert (text[:1] == " ") == (said[:1] == " "), text


def test_no_text_of_a_script_stands_outside_of_t():
    """Words of several letters in quotes that people would read: all go through t()."""
    seen = []
    for file in WEB.glob("*.js"):
        text = re.sub(r"//[^\n]*", "", file.read_text("utf-8"))
        for pattern in CALLS:
            text = re.sub(pattern, "", text)
        lines = [m for m in re.findall(r'["`]([A-Z][a-z]+ [^"`]*)["`]', text)]
        seen += [(file.name, line) for line in lines if not line.startswith(("Bearer", "SELECT"))]
    assert seen == []


@pytest.mark.parametrize(
    ("asked", "accepted", "found"),
    [
        ("", "", "en"),
        ("de", "en", "de"),
        ("DE-at", "", "de"),
        ("xx", "de", "de"),
        ("en", "de", "en"),
        ("", "de-AT,de;q=0.9,en;q=0.8", "de"),
        ("", "fr, en;q=0.2, de;q=0.7", "de"),
        ("", "de;q=0, fr", "en"),
        ("", "de;q=x,;,", "en"),
        ("", "d" * 5000, "en"),
    ],
)
def test_the_language_is_the_one_asked_for_else_the_best_that_is_there(asked, accepted, found):
    assert language_of(asked, accepted, page_files()["/"]) == found


def test_the_server_gives_the_page_in_the_readers_language(client):
    plain, german = client.ask("/"), client.ask("/?lang=de")
    assert b'<html lang="en">' in plain.body
    assert b'<html lang="de">' in german.body
    assert german.headers["content-language"] == "de"
    assert "Wie diese Veröffentlichung zu lesen ist" in german.body.decode()
    assert plain.headers["vary"] == "accept-language"
    assert plain.headers["etag"] != german.headers["etag"]
    assert b'lang="de"' in client.ask("/", accept_language="de-AT, en;q=0.5").body
    words = json.loads(client.ask("/words.de.json").body)
    assert words["Rows"] == "Zeilen"
    assert client.ask("/words.toml").status == 404
    assert client.ask("/words.fr.json").status == 404


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
    user.press("Neu beginnen")
    assert sheet.url.endswith("?lang=de")
    sheet.wait_for_selector("#pictures svg")
    assert sheet.locator("#pictures a").first.get_attribute("href").endswith("&lang=de")
    assert sheet.messages == []


def _own_words(sheet) -> str:
    """What the page says itself: what is marked as English came from the release."""
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


def test_the_browser_tells_where_nothing_is_asked(browser, client):
    context = browser.new_context(locale="de-AT")
    page = context.new_page()
    page.goto(f"{client.address}?rows=sex")
    page.wait_for_selector("#table table")
    assert page.locator("#h-choose").inner_text() == "1. Auswählen"
    assert "lang" not in page.url
    context.close()


@pytest.mark.parametrize("link", ["", "rows=region&cols=sex", "rows=age&group.age=|..15"])
def test_axe_finds_nothing_in_german(sheet, client, link):
    open_page(sheet, f"{client.address}?{link}&lang=de".replace("?&", "?"))
    sheet.evaluate(OPENED)
    assert violations(sheet) == []


def test_the_front_page_has_languages_too(sheet, path):
    with served(front_of(path.parent)) as client:
        sheet.goto(f"{client.address}?lang=de")
        sheet.wait_for_selector("#pictures a")
        assert sheet.locator("h1").inner_text() == "Veröffentlichungen"
        assert violations(sheet) == []
        sheet.locator("#pictures a").first.click()
        sheet.wait_for_selector("#table table")
        assert sheet.locator("html").get_attribute("lang") == "de"
    assert tomllib.loads((WEB / "words.toml").read_text("utf-8")).keys() == {"de"}
