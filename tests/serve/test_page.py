"""The table builder in a browser: accessible, by keyboard and on a phone, links, charts, languages, typical tasks."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from fixtures.page import OPENED, open_page, violations
from fixtures.page_tasks import EXTRA_TABLE, TASKS, User, run
from fixtures.pipeline import KEY, demo_text
from fixtures.serve import HOSTILE, one_worker, served

from engine.api.reading import read
from engine.release import build
from queries.serve import app_of

pytest.importorskip("fastapi")

pytestmark = pytest.mark.slow

TOKEN = "a-token-of-some-length"
COMPARED = "rows=region&cols=sex&compare=" + quote("/?rows=region&cols=sex&only.education=None")
LINKS = (
    "",
    "rows=age&band.age=10&cols=sex&percent=row&sort=down.0",
    "rows=region&rows=education&cols=sex&only.region=R1&only.region=R2",
    "rows=region&cols=sex&group.region=R1+and+R2|R1|R2&measure=ratio&percent=row&lang=de",
    "rows=age&group.age=under+16|..15&group.age=16+and+over|16..",
    "rows=education&cols=age&lang=de",
    "rows=sex&measure=mean&of=income&from.income=1000&to.income=",
    "rows=carer&lang=de",
    COMPARED,
)

SMALL = """[...document.querySelectorAll('button, select, input, summary')].filter(e => {
  if (!e.checkVisibility()) return false;
  const large = x => { const box = x.getBoundingClientRect(); return box.height >= 24 && box.width >= 24; };
  return ![e, ...(e.closest('label') ? [e.closest('label')] : [])].some(large); }).map(e => e.outerHTML)"""


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_it_is_accessible_everywhere(sheet, client, width, scheme):
    sheet.set_viewport_size({"width": width, "height": 844})
    sheet.emulate_media(color_scheme=scheme)
    for link in LINKS:
        open_page(sheet, f"{client.address}?{link}")
        if link == COMPARED:
            sheet.wait_for_selector("#compare tbody tr")
        sheet.evaluate(OPENED)
        assert violations(sheet) == [], link
        assert sheet.evaluate("document.documentElement.scrollWidth") <= width, link
        assert sheet.evaluate(SMALL) == []
        assert sheet.locator("#table th:not([scope])").count() == 0
    assert sheet.messages == []
    assert {url for url in sheet.requests if not url.startswith((client.address, "blob:"))} == set()


def test_axe_finds_what_is_wrong(sheet, client):
    open_page(sheet, f"{client.address}?rows=sex")
    sheet.evaluate("document.querySelector('#intervals').labels[0].lastChild.remove()")
    sheet.evaluate("document.querySelector('#lead').style.color = '#cccccc'")
    found = violations(sheet)
    assert any(f.startswith("label:") for f in found)
    assert any(f.startswith("color-contrast:") for f in found)


def tab_to(user, name: str, most: int = 120) -> None:
    """Press Tab until the focus is on what has a name."""
    read = """(() => { const e = document.activeElement;
      return e.getAttribute('aria-label') || (e.labels?.[0] || e).textContent.trim(); })()"""
    for _ in range(most):
        user.sheet.keyboard.press("Tab")
        if user.sheet.evaluate(read).startswith(name):
            return
    raise AssertionError(f"Tab never reaches {name}")


def test_a_table_is_made_filtered_sorted_and_downloaded_with_keys_only(sheet, client):
    user = open_page(sheet, client.address)
    tab_to(user, "Rows: region")
    user.key("Enter")
    tab_to(user, "Columns: sex")
    user.key("Space")
    tab_to(user, "Filter: education")
    user.key("Enter")
    sheet.evaluate("document.activeElement.blur()")
    tab_to(user, "None")
    user.key("Space")
    assert user.title() == "Number of people by region and sex; only education: None"
    tab_to(user, "Women")
    user.key("Enter")
    assert sheet.locator("th[aria-sort=descending]").count() == 1
    sheet.evaluate("document.activeElement.blur()")
    tab_to(user, "CSV")
    with sheet.expect_download() as caught:
        sheet.keyboard.press("Enter")
    assert caught.value.suggested_filename == "region-sex.csv"
    assert "Downloaded" in sheet.locator("#live").inner_text()


def test_labels_are_text(sheet, client):
    user = open_page(sheet, f"{client.address}?rows=carer")
    assert HOSTILE in user.title()
    assert sheet.locator("img").count() == 0
    assert sheet.messages == []


def test_the_table_shows_intervals_and_statuses_in_words(sheet, client):
    user = open_page(sheet, f"{client.address}?rows=education&cols=sex&only.region=R1")
    api = client.ask("/api/tabulate?rows=education&cols=sex&only.region=R1").json
    text = sheet.locator("#table").inner_text()
    words = {
        "not released": "not released",
        "low": "low",
        "unreliable": "unreliable",
        "structural zero": "impossible",
    }
    found = {words[s] for s in api["cells"]["status"] if s != "reliable"}
    assert found
    for word in found:
        assert word in text
        assert word in sheet.locator("#legend").inner_text()
    assert " to " in text
    user.sheet.get_by_label("Show uncertainty").uncheck()
    assert " to " not in sheet.locator("#table").inner_text()
    assert user.table()[0][0] == api["row_heads"][0][0]
    assert sheet.locator("#words").inner_text() == api["words"]
    assert sheet.locator("#card li").count() > 3


def test_variables_that_cannot_be_added_are_greyed_out_with_the_reason(sheet, client):
    user = open_page(sheet, f"{client.address}?rows=education")
    button = sheet.get_by_role("button", name="Columns: Age in years")
    assert button.get_attribute("aria-disabled") == "true"
    near = "; available with: sex"
    assert user.reason("Age in years") == "not released with education" + near
    described = sheet.locator("#" + button.get_attribute("aria-describedby")).inner_text()
    assert described == "not released with education" + near
    before = user.title()
    button.focus()
    user.key("Enter")
    assert user.title() == before
    assert "cannot be added" in sheet.locator("#live").inner_text()


def test_a_refusal_shows_the_nearest_tables(sheet, client):
    open_page(sheet, f"{client.address}?rows=education&cols=age")
    told = sheet.get_by_role("alert").inner_text()
    assert "No released table combines Age in years and education" in told
    assert "Nearest tables" in told
    assert not sheet.locator("#table").is_visible()
    sheet.get_by_text("For data custodians").click()
    assert 'columns = ["age", "education"]' in sheet.get_by_role("alert").inner_text()
    sheet.get_by_role("alert").get_by_role("link").first.click()
    sheet.wait_for_selector("#table table")
    assert sheet.get_by_role("alert").inner_text() == ""
    sheet.go_back()
    sheet.wait_for_selector("#problem p")
    open_page(sheet, f"{client.address}?rows=agee")
    assert "Near: age" in sheet.get_by_role("alert").inner_text()


def test_a_token_is_taken_from_the_address_or_requested(path, browser):
    with served(app_of(path, token=TOKEN, limits=one_worker())) as client:
        opened = browser.new_page()
        opened.goto(client.address)
        opened.get_by_label("Access token").fill(TOKEN)
        opened.get_by_role("button", name="Use token").click()
        opened.wait_for_selector("#table table")
        opened.close()
        other = browser.new_page()
        other.goto(f"{client.address}#token={TOKEN}")
        other.wait_for_selector("#table table")
        assert "token" not in other.url
        assert User(other).download("CSV").startswith(b"value,low,high,status")
        other.close()


def test_the_tasks_are_done_from_the_page_alone(browser, tmp_path, census):
    text = demo_text() + EXTRA_TABLE
    path = census / "people.parquet"
    (tmp_path / "demo.toml").write_text(
        text.replace('path = "census/people.parquet"', f'path = "{path}"')
    )
    (tmp_path / "census.key").touch(mode=0o600)
    (tmp_path / "census.key").write_bytes(KEY)
    build(read(tmp_path / "demo.toml"), tmp_path / "r.duckdb", jobs=1)
    with served(app_of(tmp_path / "r.duckdb", limits=one_worker())) as client:
        done = run(browser, client.address)
    assert len(done) == len(TASKS) == 10
    assert max(done) <= 12


PYRAMID = "rows=age&cols=sex&band.age=10"


def kinds(sheet) -> list[str]:
    return sheet.locator("#chart-kind option").all_inner_texts()


@pytest.mark.parametrize(
    ("link", "offered"),
    [
        (PYRAMID, ["Pyramid", "Bars", "Lines", "Stacked shares", "Small multiples"]),
        ("rows=age&band.age=10", ["Bars", "Lines"]),
        ("rows=arrival_date&band.arrival_date=10", ["Lines", "Bars"]),
        ("rows=region&cols=sex&percent=row", ["Stacked shares", "Bars", "Small multiples"]),
        ("rows=region&cols=sex&percent=column", ["Bars", "Small multiples"]),
        ("rows=region&cols=sex&percent=column&chart=stacked", ["Bars", "Small multiples"]),
        ("rows=region&cols=sex&percent=total", ["Bars", "Stacked shares", "Small multiples"]),
        ("rows=region&cols=education", ["Stacked shares", "Small multiples"]),
        ("rows=sex&measure=mean&of=income", []),
    ],
)
def test_the_kinds_that_suit_are_offered_the_best_first(sheet, client, link, offered):
    open_page(sheet, f"{client.address}?{link}")
    assert sheet.locator("#chart svg").count() >= 1
    assert kinds(sheet) == offered


def test_every_kind_is_drawn_named_and_in_the_link(sheet, client):
    user = open_page(sheet, f"{client.address}?{PYRAMID}")
    answer = client.ask(f"/api/tabulate?{PYRAMID}").json["cells"]["value"]
    known = sum(v is not None for v in answer)
    drawn = {
        "Pyramid": "rect.bar",
        "Bars": "rect.bar",
        "Lines": "circle",
        "Stacked shares": "rect.part",
    }
    for kind, part in {**drawn, "Small multiples": "polyline"}.items():
        user.pick("Chart", kind)
        shapes = sheet.locator(f"#chart svg {part}")
        assert shapes.count() >= (2 if kind == "Small multiples" else known), kind
        assert "NaN" not in sheet.locator("#chart").inner_html()
    assert "chart=multiples" in sheet.url
    sheet.reload()
    sheet.wait_for_selector("#chart svg")
    assert sheet.locator("#chart-kind").input_value() == "multiples"
    assert sheet.evaluate("document.documentElement.scrollWidth") <= 1180
    assert sheet.messages == []


@pytest.mark.parametrize(
    ("link", "message"),
    [
        ("rows=sex&measure=mean", "needs `of`"),
        ("rows=sex&percent=bogus", "percent"),
        ("rows=sex&percent=row", "rows and columns"),
        ("rows=age&band.age=5&band.age=10", "band.age"),
        ("rows=age&band.age=five", "band"),
        ("rows=sex&rowz=age", "rowz"),
    ],
)
def test_invalid_links_are_reported_and_can_be_left(sheet, client, link, message):
    user = open_page(sheet, f"{client.address}?{link}")
    assert message in sheet.get_by_role("alert").inner_text()
    user.press("Start again")
    assert sheet.get_by_role("alert").inner_text() == ""
    assert user.title() == "Number of people"


def test_names_of_bands_in_a_link_stay_with_their_bands(sheet, client):
    bands = "group.age=Minors|..17&group.age=Grown|18..64&group.age=Old|65.."
    user = open_page(sheet, f"{client.address}?rows=age&{bands}")
    assert [row[0] for row in user.table()] == ["Minors", "Grown", "Old", "All"]
    user.write("Lower limits of the bands", "18, 50, 65")
    assert [row[0] for row in user.table()] == ["Minors", "18 to 49", "50 to 64", "Old", "All"]
    live = sheet.locator("#live")
    assert live.is_visible()
    said = "Bands removed: Grown. Number of people by Age in years: 4 rows, 1 column."
    assert live.text_content() == said
    user.press("Start again")
    assert live.text_content().startswith("Selection cleared")


def test_what_cannot_be_is_a_sign_that_screen_readers_read(sheet, client):
    user = open_page(sheet, f"{client.address}?rows=sex")
    draw = """() => import('/show.js').then(m => m.drawTable({rows: [{label: 'X'}], cols: [], row_heads: [['a'], ['b']],
      col_heads: [[]], measure: 'count', percent: 'none', row_total: null, col_total: null, total: null,
      cells: {value: [0, 5], low: [0, 4], high: [0, 6], status: ['structural zero', 'reliable']}},
      'title', {intervals: true, sort: null, all: true, whenAll: null}))"""
    sheet.evaluate(draw)
    assert [" ".join(row[1].split()) for row in user.table()] == ["– impossible", "5 from 4 to 6"]
    assert sheet.locator("#legend").inner_text().startswith("– impossible: ")
    assert sheet.locator("#table .s-structural-zero .hidden").inner_text() == "impossible"


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
