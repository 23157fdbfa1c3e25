"""Translations of the page are complete: every text in use has one in every offered language, and no other exists."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

import queries.serve
from engine.periods import LENGTHS
from engine.store import said_of
from queries.serve.about import _KINDS
from queries.serve.pages import language_of, page_files, page_words
from queries.serve.values import _OUTSIDE, BLANK_LABEL

WEB = Path(queries.serve.__file__).parent / "web"
CALLS = (
    r'\bt\(\s*"((?:[^"\\]|\\.)*)"',
    r'\bt\(\w+ \? "((?:[^"\\]|\\.)*)"',
    r'\bt\(\w+ \? "[^"]*" : "((?:[^"\\]|\\.)*)"',
    r'\bline\("([^"]*)"',
    r'\bsentence\("([^"]*)"',
)
"""Where scripts use a text."""
OF_THE_SERVER = {
    *_KINDS.values(),
    *_OUTSIDE.values(),
    *(BLANK_LABEL, said_of(None)),
    *("in no released table", "not released with all of these"),
    *("row", "rows", "person", "people"),
    *LENGTHS,
}
"""Texts from the server that the page translates."""


def texts_of_scripts() -> set[str]:
    found = set()
    for file in WEB.glob("*.js"):
        for pattern in CALLS:
            found |= set(re.findall(pattern, file.read_text("utf-8")))
    return {text.replace("\\u00A0", "\u00a0") for text in found}


def texts_of_pages() -> set[str]:
    whole = "".join(file.read_text("utf-8") for file in WEB.glob("*.html"))
    between = re.findall(r">([^<>]*[A-Za-z][^<>]*)<", whole)
    named = re.findall(r'aria-label="([^"]*)"', whole)
    return {html.unescape(text).strip() for text in (*between, *named)}


def test_every_text_in_use_is_translated_into_every_language_and_no_other():
    used = {*texts_of_scripts(), *texts_of_pages(), *OF_THE_SERVER}
    assert len(used) > 200
    assert page_words().keys() == {"de"}
    for code, words in page_words().items():
        assert {*words} - {"language", "Language"} == used, code
        assert all(words.values()), code


def test_translations_keep_the_placeholders():
    parts = re.compile(r"\{\w+\}")
    for words in page_words().values():
        for text, translated in words.items():
            assert sorted(parts.findall(text)) == sorted(parts.findall(translated)), text
            assert (text[:1] == " ") == (translated[:1] == " "), text


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
def test_the_language_is_chosen_by_address_then_browser(asked, accepted, found):
    assert language_of(asked, accepted, page_files()["/"]) == found
