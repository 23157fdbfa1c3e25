"""Packs in several languages: complete pages, numbers with their signs, no jargon of the engine; charts."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
from fixtures.pack import rows_of

from queries.packs import pack_spec_from, preview
from queries.packs.texts import (
    WORDS,
    accuracy_notes,
    missing_words,
    pack_words,
    translations,
)

JARGON = r"\b(raking|raked|bucket|locked to|entit|engine \d|snapped|sd \d|margins? differ)"
TABLES = [
    {"id": "T1", "rows": ["region"], "cols": ["sex"], "totals": ["sex"]},
    {"id": "T3", "rows": ["sex"], "totals": ["sex"]},
    {"id": "T4", "columns": ["sex"], "measure": "sum", "of": "age"},
    {"id": "T5", "columns": ["region"], "only_groups": ["region"], "totals": ["region"]},
    {"id": "T6", "columns": ["region"]},
]
PARENTS = [{"North": ["R1", "R2"], "South": ["R3"]}, {"Country": ["North", "South"]}]


@pytest.fixture(scope="module")
def made(opened):
    """A pack as a model."""
    values = {"Female": {"en": "Women", "de": "Frauen"}, "Male": {"en": "Men", "de": "Männer"}}
    columns = {
        "sex": {"values": values},
        "region": {"label": {"en": "Region", "de": "Gebiet"}, "parents": PARENTS},
    }
    raw = {"pack": {"languages": ["de", "en"]}, "columns": columns, "tables": TABLES}
    return preview(opened, pack_spec_from(raw))


def shown(path) -> str:
    """The text of a page."""
    text = path.read_text("utf-8")
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text[text.index("<body") :]))


def cells(path, *sheets) -> str:
    book = pytest.importorskip("openpyxl").load_workbook(path)
    kept = [book[name] for name in sheets or book.sheetnames]
    return " ".join(str(c.value) for sheet in kept for row in sheet.iter_rows() for c in row)


def test_every_language_has_every_word_with_the_same_places():
    assert set(translations()) == {"de"}
    for words in translations().values():
        assert words.keys() == WORDS.keys() - {"either bound"} or words.keys() == WORDS.keys()
        for word, text in words.items():
            n = 2 if word == "file release" else WORDS[word].count("{}")
            assert text.count("{}") == n, word
    ours, theirs = pack_words({}, ["en"]), pack_words({}, ["de"])
    same = {word for word in WORDS if ours[word] == theirs[word]}
    assert same <= {"percent", "status", "language", "either bound"}
    assert missing_words({}, "de-AT") == missing_words({}, "en-GB") == []
    assert missing_words({"total": {"fr": "Ensemble"}}, "fr") == [w for w in WORDS if w != "total"]


def test_pages_and_workbooks_are_complete_in_each_language(pack):
    ours, theirs = pack_words({}, ["en"]), pack_words({}, ["de"])
    english = {
        text
        for word, (text,) in ours.items()
        if len(text) > 4 and "{" not in text and ours[word] != theirs[word] and word != "language"
    }
    texts = [shown(path) for path in (pack / "de").rglob("*.html") if path.stem != "README"]
    assert len(texts) == 9
    texts.append(cells(pack / "pack~de.xlsx", "Inhalt", "Hinweise", "T1", "T4"))
    for text in texts:
        assert [x for x in english if re.search(rf"\b{re.escape(x)}\b", text)] == []
    page = shown(pack / "de/pages/T1.html")
    assert page.startswith(" Zur Tabelle")
    assert theirs["how sure"][0] in page
    assert ours["how sure"][0] in shown(pack / "pages/T1.html")
    cover = cells(pack / "pack~de.xlsx", "Cover")
    assert theirs["noise"][0] in cover
    for word in ("introduction", "about the data", "whom to ask"):
        assert theirs[word][0] in cover
        assert ours[word][0] not in cover
    assert "Frauen: Unsicherheitsbereich, unteres Ende" in texts[-1]
    assert "Zusammen" in texts[-1]


def test_the_public_reads_no_jargon_of_the_engine(pack):
    pages = [*pack.rglob("pages/*.html")]
    assert len(pages) == 16
    for text in (*map(shown, pages), cells(pack / "pack.xlsx")):
        assert not re.search(JARGON, text, re.IGNORECASE)


def test_notes_on_rows_sql_and_exposure_are_not_for_readers_of_tables(made):
    for words in ("Exposure", "most exposed", "SQL", "NULL", "No row", "rounding gap"):
        assert any(words in note for note in made.notes)
        assert not any(words in note for note in made.reader_notes)
    assert any(re.match("Every count .*noise", note) for note in made.reader_notes)


def card(**given):
    usual = {"noise_sd": 1.41, "suppressed_share": 0.0, "rounding_gap": 0, "scale": 1}
    usual["words"] = {"entity": "person"}
    return SimpleNamespace(**usual | {"dp": {}, "wide": {}, "swap": {}, "exposure": {}} | given)


DP = {"epsilon": 1.0, "ids": ["id"], "covered": True, "converged": True, "uniform": []}


@pytest.mark.parametrize(
    ("given", "word", "value"),
    [
        ({}, "noise of", "1.4"),
        ({"suppressed_share": 0.25}, "filled means", "25"),
        ({"wide": {"pairs": 3}}, "modelled means", ""),
        ({"rounding_gap": 3}, "gap means", "3"),
        ({"scale": 4}, "bounded means", ("person", "4")),
        ({"exposure": {"accept_risk": "agreed"}}, "accepted means", "agreed"),
        ({"swap": {"columns": ["region", "x"]}}, "exchanged means", "Region, x"),
        ({"dp": DP}, "epsilon means", ("epsilon 1", "id: entity")),
        (
            {"dp": DP | {"total": "public", "delta": 1e-6}},
            "number means",
            ("epsilon 2, delta 3.71828e-06", "id: entity"),
        ),
        ({"dp": DP}, "public means", ""),
        ({"dp": DP | {"stability": 3}}, "declared means", "3"),
        ({"dp": DP | {"missing_ids": "own"}}, "nameless means", ""),
        ({"dp": DP | {"epsilon": 11.0}}, "weak means", ""),
        ({"dp": DP | {"with_key": {"spent": 3.0, "builds": 2}}}, "together means", "epsilon 3"),
        ({"dp": DP | {"with_key": {"spent": 1.0, "builds": 1, "exact": 1}}}, "others mean", ""),
        ({"dp": DP | {"with_key": {"is_whole": False}}}, "earlier mean", ""),
        ({"dp": DP | {"covered": False}}, "modelled means", ""),
        ({"dp": DP | {"converged": False}}, "not converged", ""),
        ({"dp": DP | {"uniform": ["x"]}}, "uniform means", "x"),
        ({"dp": DP | {"epsilon": None}}, "no noise", ""),
    ],
)
def test_readers_see_what_limits_the_figures(made, given, word, value):
    table = made.tables[0]
    mode = "dp" if "dp" in given else "sticky"
    pack = replace(
        made, cards={table.answered: card(**given)}, release={**made.release, "mode": mode}
    )
    notes = accuracy_notes(table, pack, 1)
    assert WORDS[word].format(*([value] if isinstance(value, str) else value)) in notes
    assert (WORDS["interval means"] in notes) == (word != "no noise")
    assert not any("{}" in note for note in notes)


def test_pages_show_narrow_intervals_as_such_and_how_much_may_be_hidden(pack):
    page = (pack / "pages/T2.html").read_text("utf-8")
    intervals = re.findall(r'<span\s+class="interval">(.*?)</span>', page)
    assert intervals
    for text in intervals:
        assert len(set(text.split(" – "))) == 2 or text.startswith("≈ ")
    rows = rows_of(pack / "tables/T5.csv")[:200]  # as many as a page shows
    hidden = [r for r in rows if r["status"] == "not released" and r["high"]]
    page = (pack / "pages/T5.html").read_text("utf-8")
    assert len(hidden) > 10
    assert page.count("at most ") >= len(hidden)
    assert f"at most {hidden[0]['high']}" in page


def test_a_chart_shows_the_parts_of_its_table_in_colours_that_the_page_allows(pack):
    page = (pack / "pages/T1.html").read_text("utf-8")
    svg = page[page.index("<svg") : page.index("</svg>")]
    assert "style" not in svg, "the policy of the page blocks inline styles"
    inks = set(re.findall(r"var\(--(\w+)\)", svg))
    assert inks == {"s0", "s1", "ink", "quiet", "rule"}
    css = (pack / "site.css").read_text("utf-8")
    assert all(f"--{ink}: #" in css for ink in inks)
    rows = rows_of(pack / "tables/T1.csv")
    parts = [r for r in rows if r["sex"] != "_T" and r["region"].startswith("R")]
    texts = re.findall(r"<text[^>]*>([^<]*)", svg)
    assert texts[-len(parts) :] == [r["value"] for r in parts]
    assert {texts.count(r["region"]) for r in parts} == {1}
