"""The page: nothing hostile gets through, nothing is fetched, nothing runs over, in a browser too."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from fixtures.report import HOSTILE, evaluation, result

from engine.evaluation.report.page import page, write_report

pytest.importorskip("jinja2")
VOID = {"meta", "link", "input", "br"}


class Reader(HTMLParser):
    """Elements, and whether each is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict]] = []
        self.wrong: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID and (not self.open or self.open.pop() != tag):
            self.wrong.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    """Reports about one subject and several, and a publishable one."""
    folder = tmp_path_factory.mktemp("reports")
    theirs = result(f"theirs {HOSTILE}", 0.9, is_release=False)
    several = evaluation(result("ours", 0.3), theirs, result("third", 5.0))
    given = {"one": evaluation(), "many": several, "publishable": evaluation()}
    return {
        kind: write_report(what, folder / f"{kind}.html", publishable=kind == "publishable")[0]
        for kind, what in given.items()
    }


@pytest.fixture(scope="module")
def one(files) -> str:
    return files["one"].read_text("utf-8")


@pytest.fixture(scope="module")
def many(files) -> str:
    return files["many"].read_text("utf-8")


@pytest.mark.ci
@pytest.mark.parametrize("which", ["one", "many"])
def test_hostile_names_are_text(which, request):
    html = request.getfixturevalue(which)
    assert html.count("<script") == 1
    assert "&lt;script&gt;alert" in html
    assert '<b>"' not in html
    assert "<i>Plain" not in html
    reader = Reader()
    reader.feed(html)
    assert not reader.wrong
    assert not reader.open
    assert not [t for t, a in reader.tags if any(name.startswith("on") for name in a)]


def test_the_page_names_no_other_file(one):
    reader = Reader()
    reader.feed(one)
    links = [
        v
        for _, a in reader.tags
        for k, v in a.items()
        if k in ("src", "href", "xlink:href", "srcset", "data")
    ]
    assert {v.split(":")[0] if v.startswith("data:") else v[0] for v in links} <= {"#", "data"}
    assert not re.search(r"url\((?!#)", one)
    assert "@import" not in one
    assert "default-src 'none'" in one
    assert one.startswith("<!DOCTYPE html>")
    assert one.index('content="confidential"') < one.index("<body>")


def test_every_picture_has_a_title_and_the_page_sets_its_colours(one):
    drawn = re.findall(r"<svg.*?</svg>", one, re.DOTALL)
    assert len(drawn) > 8
    for svg in drawn:
        assert re.match(r'<svg [^>]*role="img" aria-label="[^"]+"[^>]*><title>[^<]+</title>', svg)
        assert not re.search(r"#[0-9a-f]{6}\b", svg), "a colour that the page does not set"
    ids = re.findall(r' id="([^"]+)"', one)
    assert len(ids) == len(set(ids))
    assert {r for r in re.findall(r'(?:href="#|url\(#)([^")]+)', one)} <= set(ids)


@pytest.mark.ci
def test_the_same_evaluation_gives_the_same_bytes(one):
    assert page(evaluation()) == one


# In a browser.


@pytest.mark.ci
@pytest.mark.parametrize(
    ("kind", "width", "scheme"),
    [
        ("many", 360, "dark"),
        *(
            pytest.param(kind, 1280, "light", marks=pytest.mark.slow)
            for kind in ("one", "many", "publishable")
        ),
    ],
)
def test_a_report_opens_without_a_word_of_complaint(browser, files, kind, width, scheme):
    path = files[kind]
    said, asked = [], []
    sheet = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    sheet.on("console", lambda message: said.append(message.text))
    sheet.on("pageerror", lambda error: said.append(str(error)))
    sheet.on("dialog", lambda dialog: said.append("a dialog"))
    sheet.on("request", lambda request: asked.append(request.url))
    sheet.goto(path.as_uri())
    sheet.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert sheet.evaluate("document.documentElement.scrollWidth") <= width
    assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]
    backs = sheet.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", backs)[:3])) < 200) == (scheme == "dark")
    spilled = sheet.evaluate(
        """[...document.querySelectorAll('svg')].filter(s => s.getBoundingClientRect().width > 0)
        .flatMap(s => { const box = s.getBoundingClientRect();
            return [...s.querySelectorAll('text')].filter(t => { const r = t.getBoundingClientRect();
                return r.left < box.left - 4 || r.right > box.right + 4 || r.bottom > box.bottom + 4; })
            .map(t => s.getAttribute('aria-label') + ': ' + t.textContent); })"""
    )
    assert spilled == []
    assert said == []
    sheet.close()
