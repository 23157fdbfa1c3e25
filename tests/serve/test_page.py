"""The table builder in a browser: accessible, usable by keyboard and on a phone, and in twenty typical tasks."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from fixtures.page import OPENED, open_page, violations
from fixtures.page_tasks import EXTRA_TABLE, TASKS, User, run
from fixtures.pipeline import KEY, demo_text
from fixtures.serve import HOSTILE, one_worker, served

from engine.api.reading import read
from engine.release import build

pytest.importorskip("fastapi")

from queries.serve import app_of

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
    assert "Nearest: age" in sheet.get_by_role("alert").inner_text()


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
