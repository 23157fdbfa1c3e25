"""The table builder in a browser: twenty tasks, from the keyboard, on a phone, light and dark, without a complaint."""

from __future__ import annotations

import fixtures.page
import pytest
from fixtures.page import HOSTILE, open_page
from fixtures.pipeline import KEY, demo_text
from fixtures.serve import served
from serve_tasks import EXTRA_TABLE, TASKS, User, run, twice

from engine.api.reading import read
from engine.release import build

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from queries.serve import app_of, front_of

browser, client, path, sheet = fixtures.page.FIXTURES
TOKEN = "a-token-of-some-length"
LINKS = (
    "",
    "rows=age&band.age=10&cols=sex&percent=row",
    "rows=region&rows=education&cols=sex&only.region=R1&only.region=R2",
    "rows=sex&measure=mean&of=income&from.income=1000&to.income=",
    "rows=education&cols=age",
    "rows=carer",
    "rows=region&cols=sex&group.region=R1+and+R2|R1|R2&measure=ratio&percent=row&sort=down.0",
    "rows=age&group.age=under+16|..15&group.age=16+and+over|16..",
)
NAMELESS = """[...document.querySelectorAll('button, select, input, a, summary, [role=region]')].filter(e => {
  const named = e.getAttribute('aria-label') || (e.labels && [...e.labels].map(l => l.textContent).join('').trim()) ||
    (!['INPUT', 'SELECT'].includes(e.tagName) && e.textContent.trim());
  return !named; }).map(e => e.outerHTML)"""
PALE = """() => {
  const rgb = s => s.match(/[\\d.]+/g).map(Number);
  const light = c => {
    const [r, g, b] = c.map(v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; });
    return .2126 * r + .7152 * g + .0722 * b; };
  const back = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor);
    if (c.length < 4 || c[3] === 1) return c; } return [255, 255, 255]; };
  const out = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) { const e = walk.currentNode.parentElement;
    if (!walk.currentNode.textContent.trim() || !e.checkVisibility() ||
      e.closest('svg, script, noscript, .skip, option')) continue;
    const a = light(rgb(getComputedStyle(e).color).slice(0, 3)), b = light(back(e).slice(0, 3));
    const contrast = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (contrast < 4.5) out.push(e.outerHTML.slice(0, 120) + ' ' + contrast.toFixed(2)); }
  return out; }"""
SMALL = """[...document.querySelectorAll('button, select, input, summary')].filter(e => {
  if (!e.checkVisibility()) return false;
  const large = x => { const box = x.getBoundingClientRect(); return box.height >= 24 && box.width >= 24; };
  return ![e, ...(e.closest('label') ? [e.closest('label')] : [])].some(large); }).map(e => e.outerHTML)"""


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (1280, "light"),
        (390, "dark"),
        pytest.param(1280, "dark", marks=pytest.mark.slow),
        pytest.param(390, "light", marks=pytest.mark.slow),
    ],
)
def test_it_looks_right_everywhere(sheet, client, width, scheme):
    sheet.set_viewport_size({"width": width, "height": 844})
    sheet.emulate_media(color_scheme=scheme)
    for link in LINKS:
        open_page(sheet, f"{client.address}?{link}")
        sheet.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert sheet.evaluate("document.documentElement.scrollWidth") <= width, link
        assert sheet.evaluate(NAMELESS) == []
        assert sheet.evaluate(PALE) == []
        assert sheet.evaluate(SMALL) == []
        ids = sheet.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
        assert len(ids) == len(set(ids))
        assert sheet.locator("#table th:not([scope])").count() == 0
    assert sheet.messages == []
    assert {url for url in sheet.requests if not url.startswith((client.address, "blob:"))} == set()


def test_the_checks_of_names_and_contrast_can_fail(sheet, client):
    open_page(sheet, client.address)
    sheet.evaluate(
        "document.querySelector('#find').labels[0].replaceWith(document.querySelector('#find'))"
    )
    assert len(sheet.evaluate(NAMELESS)) == 1
    sheet.evaluate("document.querySelector('#lead').style.color = '#bbbbbb'")
    assert len(sheet.evaluate(PALE)) == 1
    sheet.evaluate(
        "document.querySelector('#copy-link').style.cssText = 'min-height: 0; height: 12px; padding: 0'"
    )
    assert len(sheet.evaluate(SMALL)) == 1


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
    user.sheet.get_by_label("show how sure").uncheck()
    assert " to " not in sheet.locator("#table").inner_text()
    assert user.table()[0][0] == api["row_heads"][0][0]
    assert sheet.locator("#words").inner_text() == api["words"]
    assert sheet.locator("#card li").count() > 3


def test_figures_that_differ_by_more_than_noise_are_marked(sheet, client):
    """From the row above: where noise intervals do not meet, and of released figures alone."""
    asked = "rows=education&cols=sex"
    open_page(sheet, f"{client.address}?{asked}")
    assert sheet.locator("#table .d").count() == 0
    sheet.get_by_label("mark what differs from").select_option("above")
    cells = client.ask(f"/api/tabulate?{asked}").json["cells"]
    width, expected = 2, []
    for i in range(width, len(cells["low"])):
        above, here = ((cells["low"][j], cells["high"][j]) for j in (i - width, i))
        if "not released" in (cells["status"][i - width], cells["status"][i]):
            continue
        expected += ["▲ more"] * (here[0] > above[1]) + ["▼ less"] * (here[1] < above[0])
    assert len(set(expected)) == 2
    assert sheet.locator("#table .d").all_inner_texts() == expected
    assert "do not meet" in sheet.locator("#legend").inner_text()
    sheet.get_by_label("mark what differs from").select_option("total")
    assert sheet.locator("#table .d").count() == 0  # a part of a number is always less


def test_what_cannot_be_added_is_grey_and_says_why(sheet, client):
    user = open_page(sheet, f"{client.address}?rows=education")
    button = sheet.get_by_role("button", name="Columns: Age in years")
    assert button.get_attribute("aria-disabled") == "true"
    assert user.reason("Age in years") == "not released with education"
    described = sheet.locator("#" + button.get_attribute("aria-describedby")).inner_text()
    assert described == "not released with education"
    before = user.title()
    button.focus()
    user.key("Enter")
    assert user.title() == before
    assert "cannot be added" in sheet.locator("#live").inner_text()


def test_a_refusal_is_told_with_the_nearest_tables(sheet, client):
    open_page(sheet, f"{client.address}?rows=education&cols=age")
    told = sheet.get_by_role("alert").inner_text()
    assert "Age in years and education are in no released table together" in told
    assert "Nearest tables" in told
    assert not sheet.locator("#table").is_visible()
    sheet.get_by_text("For those who make the release").click()
    assert 'columns = ["age", "education"]' in sheet.get_by_role("alert").inner_text()
    sheet.get_by_role("alert").get_by_role("link").first.click()
    sheet.wait_for_selector("#table table")
    assert sheet.get_by_role("alert").inner_text() == ""
    sheet.go_back()
    sheet.wait_for_selector("#problem p")
    open_page(sheet, f"{client.address}?rows=agee")
    assert "Near: age" in sheet.get_by_role("alert").inner_text()


def test_links_with_odd_names_and_quantiles_show_what_they_ask_for(sheet, client):
    user = open_page(sheet, f"{client.address}?rows=sex&measure=quantile&of=income&quantile=0.9")
    assert "0.9 quantile" in user.title()
    open_page(sheet, f"{client.address}?rows=sex&only.__proto__=x&from.constructor=1")
    assert "no column" in sheet.get_by_role("alert").inner_text()
    assert [text for text in sheet.messages if "TypeError" in text] == []


def test_the_keyboard_is_enough_and_focus_stays(sheet, client):
    user = open_page(sheet, client.address)
    user.key("Tab")
    assert sheet.evaluate("document.activeElement.className") == "skip"
    sheet.get_by_role("button", name="Rows: Age in years").focus()
    user.key("Enter")
    assert (
        sheet.evaluate("document.activeElement.getAttribute('aria-label')") == "Rows: Age in years"
    )
    assert sheet.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"
    assert " rows, 1 column" in sheet.locator("#live").inner_text()
    user.key("Tab")
    user.key("Space")
    assert "cols=age" in sheet.url
    sheet.go_back()
    user.wait()
    assert "rows=age" in sheet.url
    assert user.table()[0][0] == "0 to 9"
    sheet.get_by_role("button", name="Remove Age in years").focus()
    user.key("Enter")
    assert sheet.evaluate("document.activeElement.id") == "h-variables"


def test_a_token_comes_with_the_address_or_is_asked_for(path, browser):
    with served(app_of(path, token=TOKEN)) as client:
        opened = browser.new_page()
        opened.goto(client.address)
        opened.get_by_label("Token of this server").fill(TOKEN)
        opened.get_by_role("button", name="Use it").click()
        opened.wait_for_selector("#table table")
        opened.close()
        other = browser.new_page()
        other.goto(f"{client.address}#token={TOKEN}")
        other.wait_for_selector("#table table")
        assert "token" not in other.url
        assert User(other).download("CSV").startswith(b"value,low,high,status")
        other.close()


@pytest.mark.slow
def test_twenty_tasks_are_done_from_the_page_alone(browser, tmp_path, census):
    text = demo_text() + EXTRA_TABLE
    path = census / "people.parquet"
    (tmp_path / "demo.toml").write_text(
        text.replace('path = "census/people.parquet"', f'path = "{path}"')
    )
    (tmp_path / "census.key").touch(mode=0o600)
    (tmp_path / "census.key").write_bytes(KEY)
    build(read(tmp_path / "demo.toml"), tmp_path / "r.duckdb", jobs=1)
    folder = tmp_path / "both"
    folder.mkdir()
    twice(tmp_path / "r.duckdb", folder)
    with served(front_of(folder)) as client:
        done = run(browser, f"{client.address}census/", tmp_path / "shot.png")
    assert len(done) == len(TASKS) == 20
    assert max(clicks for _, clicks, _ in done) <= 12
    assert (tmp_path / "shot.png").stat().st_size > 10_000
