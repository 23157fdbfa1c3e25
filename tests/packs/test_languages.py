"""Packs in other languages: whole pages, numbers with their signs, no words of the engine; colours and legends."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from fixtures.pack import make_pack, shared_release

from queries.packs import pack_spec_from, preview
from queries.packs.formats.chart import SERIES, chart
from queries.packs.model import decimals_of
from queries.packs.sentences import sentences_of
from queries.packs.texts import SIGNS, WORDS, number_text, pack_words
from queries.release import open_release

pytest.importorskip("pyarrow")
openpyxl = pytest.importorskip("openpyxl")
pytest.importorskip("gptables")
pytest.importorskip("jinja2")
SPEC = """
[pack]
title = {de = "Simulierter Zensus", en = "Simulated census"}
languages = ["de", "en"]
unit = {de = "Personen", en = "people"}
[columns.region]
label = {de = "Gebiet", en = "Region"}
[columns.sex]
label = {de = "Geschlecht", en = "Sex"}
values = {Female = {de = "Frauen", en = "Women"}, Male = {de = "Männer", en = "Men"}}
[columns.age]
label = {de = "Alter", en = "Age"}
groups = [{code = "0-39", label = "0–39", range = [0, 39]}, {code = "40+", label = "40+", range = [40, 105]}]
[[tables]]
id = "T1"
rows = ["region"]
cols = ["sex"]
totals = ["sex"]
[[tables]]
id = "T2"
rows = ["age"]
cols = ["sex"]
only_groups = ["age"]
totals = ["age", "sex"]
percent = "column"
[[tables]]
id = "T3"
rows = ["sex"]
totals = ["sex"]
[[tables]]
id = "T4"
columns = ["sex"]
measure = "sum"
of = "age"
"""
OF_THE_ENGINE = r"\b(raking|raked|bucket|locked to|entit|engine \d|snapped|sd \d|margins? differ)"
COLOURS = re.compile(r'class="s(\d)"')


@pytest.fixture(scope="module")
def release(census, tmp_path_factory):
    return shared_release(tmp_path_factory, census)


@pytest.fixture(scope="module")
def german(release, tmp_path_factory):
    folder = tmp_path_factory.mktemp("german")
    return make_pack(folder, release, SPEC)


@pytest.fixture(scope="module")
def made(release):
    """The same pack as a model."""
    import tomllib

    with open_release(release) as opened:
        return preview(opened, pack_spec_from(tomllib.loads(SPEC)))


def seen(path) -> str:
    """What a page shows."""
    text = path.read_text("utf-8")
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text[text.index("<body") :]))


def test_pages_are_whole_in_each_language(german):
    ours, theirs = pack_words({}, ["en"]), pack_words({}, ["de"])
    ours.pop("language")
    english = {
        ours[word][0]
        for word in ours
        if len(ours[word][0]) > 4 and "{" not in ours[word][0] and ours[word] != theirs[word]
    }
    for name in ("index.html", "pages/T1.html", "pages/T2.html", "pages/T4.html"):
        page = seen(german / name)
        assert "Simulierter Zensus" in page or "Gebiet" in page or "Geschlecht" in page
        assert [text for text in english if re.search(rf"\b{re.escape(text)}\b", page)] == []
        assert "Wie sicher ist das?" in page or name == "index.html"
        assert "How sure is this" in seen(german / "en" / name) or name == "index.html"


def test_the_workbook_is_whole_in_each_language(german):
    book = openpyxl.load_workbook(german / "pack.xlsx")
    cells = " ".join(str(c.value) for sheet in book for row in sheet.iter_rows() for c in row)
    assert "Jede Angabe ist ein Schätzwert" in cells
    assert "Frauen: Unsicherheitsbereich, unteres Ende" in cells
    for english in (
        "carries noise",
        "Note text",
        "interval",
        "released",
        "Release ",
        "Introductory",
        "About",
        "Contact",
    ):
        assert english not in cells
    english = openpyxl.load_workbook(german / "pack~en.xlsx")
    assert "Women: Noise interval, low" in str(list(english["T1"].values))


def test_numbers_have_the_signs_of_the_language(german):
    found = re.findall(r"(\d[\d.,]*)\b", seen(german / "pages/T4.html"))
    assert any(re.fullmatch(r"\d{1,3}\.\d{3}(,\d+)?", number) for number in found)
    assert re.search(r"\b\d\d,\d\b", seen(german / "pages/T2.html"))
    assert re.search(r"\b\d\d\.\d\b", seen(german / "en/pages/T2.html"))
    assert number_text(-1234567.891, 2, {"group sign": " ", "decimal sign": ","}) == "-1 234 567,89"
    assert number_text(1234.5, 1, SIGNS) == "1,234.5"


def test_every_word_is_there_in_german_with_the_same_places():
    ours, theirs = pack_words({}, ["en"]), pack_words({}, ["de"])
    kept = {"percent", "status", "language", "either bound"}
    assert {word for word in WORDS if ours[word] == theirs[word]} <= kept
    for word in WORDS:
        assert ours[word][0].count("{}") == theirs[word][0].count("{}"), word


def test_the_public_reads_no_words_of_the_engine(german):
    pages = [*german.rglob("pages/*.html")]
    assert len(pages) == 8
    for page in pages:
        assert not re.search(OF_THE_ENGINE, seen(page), re.IGNORECASE), page
    book = openpyxl.load_workbook(german / "pack.xlsx")
    cells = " ".join(str(c.value) for sheet in book for row in sheet.iter_rows() for c in row)
    assert not re.search(OF_THE_ENGINE, cells, re.IGNORECASE)


def test_notes_for_custodians_stay_in_the_release(german, made):
    assert any(note.startswith("Exposure:") for note in made.notes)
    readme = (german / "README.md").read_text("utf-8")
    for words in ("Exposure", "Most exposed", "SQL", "NULL", "everybody else", "raking", "margin"):
        assert words not in readme
    assert "Every count includes noise" in readme


@pytest.mark.parametrize(("home", "code", "word"), [("", "de", "Hinweise"), ("en", "en", "Notes")])
def test_each_language_has_a_readme_of_its_own(german, home, code, word):
    folder = german / home
    page, text = ((folder / f"README.{end}").read_text("utf-8") for end in ("html", "md"))
    assert f'<html lang="{code}">' in page
    assert f"## {word}" in text
    assert ("Jede Angabe hat eine" in text) == (code == "de")
    assert ("auf Englisch" in text) == (code == "de")
    for target in re.findall(r'href="([^"#]+)"', page):
        assert (folder / target).is_file(), target
    assert 'href="README.html"' in (folder / "index.html").read_text("utf-8")
    sums = (german / "SHA256SUMS").read_text("utf-8")
    assert f" {home}/README.md\n".replace(" /", " ") in sums
    n_files = sum(path.is_file() for path in german.rglob("*"))
    assert f" {n_files:,} ".replace(",", "." if code == "de" else ",") in text


def test_a_language_that_nobody_has_words_for_has_an_english_readme(release, tmp_path):
    text = SPEC.replace('languages = ["de", "en"]', 'languages = ["en", "fr"]')
    folder = make_pack(tmp_path, release, text)
    french = (folder / "fr" / "README.md").read_text("utf-8")
    assert "Every figure carries noise" in french
    assert "What follows is what the release says of itself, in English." in french


def card(**told):
    usual = {"noise_sd": 1.41, "suppressed_share": 0.0, "rounding_gap": 0, "scale": 1}
    return SimpleNamespace(**usual | {"dp": {}, "wide": {}, "swap": {}, "exposure": {}} | told)


DP = {"epsilon": 1.0, "covered": True, "converged": True, "uniform": []}


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({}, "standard deviation of 1.4"),
        ({"suppressed_share": 0.25}, "25 % of all that is counted lies in groups too small"),
        ({"wide": {"pairs": 3}}, "not measured, but modelled"),
        ({"rounding_gap": 3}, "differ by at most 3"),
        ({"scale": 4}, "4 at most are counted"),
        ({"exposure": {"accept_risk": "agreed"}}, "The publisher accepted a risk: agreed"),
        ({"swap": {"columns": ["region", "x"]}}, "exchanged their values (Gebiet, x)"),
        ({"dp": DP}, "differentially private with epsilon 1."),
        ({"dp": DP | {"covered": False}}, "not measured, but modelled"),
        ({"dp": DP | {"converged": False}}, "does not meet all that was measured"),
        ({"dp": DP | {"uniform": ["x"]}}, "Nothing was measured of x"),
    ],
)
def test_what_readers_must_know_is_said(made, told, said):
    table = made.tables[0]
    pack = replace(made, cards={table.answered: card(**told)}, words=pack_words({}, ["en", "en"]))
    sentences = " ".join(sentences_of(table, pack, 0))
    assert said in sentences
    assert "95 of 100 figures" in sentences
    assert "{}" not in sentences


def test_what_is_listed_or_bare_is_said(made):
    table, words = made.tables[0], pack_words({}, ["en", "en"])
    bare = replace(made, cards={}, words=words)
    assert len(sentences_of(table, bare, 0)) == 1
    assert "too many combinations" in " ".join(
        sentences_of(replace(table, is_listed=True), bare, 0)
    )
    nothing = replace(made, cards={table.answered: card(dp=DP | {"epsilon": None})}, words=words)
    free = replace(nothing, release={**made.release, "mode": "dp"})
    assert "nothing is guaranteed" in " ".join(sentences_of(table, free, 0))


def test_a_category_has_one_colour_and_a_legend_says_which(made):
    drawn = {t.id: chart(t, 1, SIGNS) for t in made.tables}
    for name in ("T1", "T2"):
        keys = re.findall(r'<circle class="s(\d)".*?/><text[^>]*>(\w+)<', drawn[name])
        assert keys == [("0", "Women"), ("1", "Men")]
        bars = COLOURS.findall("".join(re.findall("<rect[^>]*>", drawn[name])))
        assert bars == ["0", "1"] * (len(bars) // 2)
        assert "R1, " not in drawn[name]
    assert drawn["T1"].count(">R1<") == 1
    assert "circle" not in drawn["T3"]
    assert COLOURS.findall(drawn["T3"]) == ["0", "1"]
    assert COLOURS.findall(drawn["T4"]) == ["0", "1"]


def test_more_categories_than_colours_have_one_and_whole_labels(made):
    (table,) = [t for t in made.tables if t.id == "T1"]
    turned = replace(table, stub=(1,), heading=(0,))
    drawn = chart(turned, 1, SIGNS)
    assert len(made.dimensions["region"].places("value")) > SERIES
    assert set(COLOURS.findall(drawn)) == {"0"}
    assert "circle" not in drawn
    assert "R1, Women" in drawn


def test_percentages_have_one_decimal_and_small_ones_two():
    value, near = np.array([16.364, 51.2]), np.array([16.366, 51.203])
    assert decimals_of(value, value, near, is_whole=False, is_percent=True) == 1
    assert decimals_of(value, value, near, is_whole=False) == 2
    assert decimals_of(value / 100, value, near, is_whole=False, is_percent=True) == 2
    assert decimals_of(value, value, near, is_whole=True, is_percent=True) == 0


def test_an_interval_narrower_than_its_digits_is_told_as_such(german):
    page = (german / "en/pages/T2.html").read_text("utf-8")
    shown = re.findall(r'<span\s+class="interval">(.*?)</span>', page)
    assert shown
    for text in shown:
        ends = text.split(" – ")
        assert len(set(ends)) == 2 or text.startswith("≈ ")
    assert "100.0 – 100.0" not in page
