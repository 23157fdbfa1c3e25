"""The table builder for everybody: axe-core finds nothing, and keys alone make a table."""

from __future__ import annotations

from urllib.parse import quote

import fixtures.page
import pytest
from fixtures.page import OPENED, open_page, violations

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

browser, client, path, sheet = fixtures.page.FIXTURES
LINKS = (
    "",
    "rows=age&band.age=10&cols=sex&percent=row&sort=down.0",
    "rows=region&rows=education&cols=sex&only.region=R1",
    "rows=region&cols=sex&group.region=North|R1|R2&measure=ratio",
    "rows=age&group.age=under+16|..15&group.age=16+and+over|16..",
    "rows=education&cols=age",
    "rows=sex&measure=mean&of=income&from.income=1000&to.income=",
)
COMPARED = "rows=region&cols=sex&compare=" + quote("/?rows=region&cols=sex&only.education=None")


@pytest.mark.parametrize(
    ("width", "scheme", "links"),
    [
        (1280, "light", LINKS[1:3]),
        pytest.param(1280, "light", LINKS, marks=pytest.mark.slow),
        pytest.param(390, "dark", LINKS, marks=pytest.mark.slow),
        pytest.param(1280, "dark", LINKS, marks=pytest.mark.slow),
        pytest.param(390, "light", LINKS, marks=pytest.mark.slow),
    ],
)
def test_axe_finds_nothing(sheet, client, width, scheme, links):
    sheet.set_viewport_size({"width": width, "height": 844})
    sheet.emulate_media(color_scheme=scheme)
    for link in links:
        open_page(sheet, f"{client.address}?{link}")
        sheet.evaluate(OPENED)
        assert violations(sheet) == [], link


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_axe_finds_nothing_in_a_comparison(sheet, client, width, scheme):
    sheet.set_viewport_size({"width": width, "height": 844})
    sheet.emulate_media(color_scheme=scheme)
    open_page(sheet, f"{client.address}?{COMPARED}")
    sheet.wait_for_selector("#compare tbody tr")
    sheet.evaluate(OPENED)
    assert violations(sheet) == []


def test_axe_finds_what_is_wrong(sheet, client):
    open_page(sheet, f"{client.address}?rows=sex")
    sheet.evaluate("document.querySelector('#intervals').labels[0].lastChild.remove()")
    sheet.evaluate("document.querySelector('#lead').style.color = '#cccccc'")
    found = violations(sheet)
    assert any(f.startswith("label:") for f in found)
    assert any(f.startswith("color-contrast:") for f in found)


@pytest.mark.parametrize("width", [320, pytest.param(640, marks=pytest.mark.slow)])
def test_nothing_is_lost_when_zoomed(sheet, client, width):
    sheet.set_viewport_size({"width": width, "height": 512})
    for link in LINKS:
        open_page(sheet, f"{client.address}?{link}")
        sheet.evaluate(OPENED)
        assert sheet.evaluate("document.documentElement.scrollWidth") <= width, link


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


def test_the_table_is_marked_up_for_screen_readers(sheet, client):
    open_page(sheet, f"{client.address}?rows=region&cols=sex&cols=education")
    assert sheet.locator("#table caption").count() == 1
    assert sheet.locator("#table thead th[scope=colgroup]").count() == 3
    assert sheet.locator("#table thead th[scope=col]").count() > 10
    assert sheet.locator("#table tbody th[scope=row]").count() == 9
    live = sheet.locator("#live")
    assert live.get_attribute("aria-live") == "polite"
    assert "9 rows" in live.inner_text()
    assert sheet.get_by_role("region", name="Table", exact=True).get_attribute("tabindex") == "0"
    assert sheet.locator("html").get_attribute("lang") == "en"
