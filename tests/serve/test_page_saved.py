"""Saved tables and comparisons: stored in the browser, shared by link, limited to this server."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from fixtures.page import open_page

pytest.importorskip("fastapi")

pytestmark = pytest.mark.slow


def saved(sheet) -> list[str]:
    return sheet.locator("#saved li a").all_inner_texts()


def test_tables_are_kept_opened_compared_and_forgotten(sheet, client):
    user = open_page(sheet, f"{client.address}?rows=region&only.sex=Female")
    sheet.get_by_text("Saved tables and comparisons").click()
    user.press("Save this table")
    user.press("Save this table")
    assert saved(sheet) == ["Number of people by region; only sex: Women"]
    open_page(sheet, f"{client.address}?rows=region&only.sex=Male")
    sheet.get_by_text("Saved tables and comparisons").click()
    user.press("Compare with Number of people by region; only sex: Women")
    sheet.wait_for_selector("#compare tbody tr")
    assert "compare=" in sheet.url
    men, women = (
        client.ask(f"/api/tabulate?rows=region&only.sex={sex}").json["cells"]
        for sex in ("Male", "Female")
    )
    first = [
        t.split("\n")
        for t in sheet.locator("#compare tbody tr").first.locator("td").all_inner_texts()
    ]
    figures = [float(parts[0].replace(",", "").replace("+", "")) for parts in first]
    assert figures == [men["value"][0], women["value"][0], women["value"][0] - men["value"][0]]
    is_noise = women["low"][0] <= men["high"][0] and women["high"][0] >= men["low"][0]
    assert ("may be noise" in first[2]) == is_noise
    sheet.reload()
    sheet.wait_for_selector("#compare tbody tr")
    user.press("Close the comparison")
    assert not sheet.locator("#compare").is_visible()
    sheet.get_by_text("Saved tables and comparisons").click()
    user.press("Delete Number of people by region; only sex: Women")
    assert saved(sheet) == []
    assert sheet.messages == []


def test_a_list_travels_as_a_link_and_a_foreign_one_is_dropped(sheet, client):
    entry = {"title": "Mine <b>", "release": "r", "place": "/", "query": "rows=sex"}
    foreign = [{**entry, "place": "//evil.example/"}, {**entry, "query": 1}, None, "x"]
    sheet.goto(f"{client.address}#saved={quote(json.dumps([entry, *foreign]))}")
    sheet.wait_for_selector("#saved li")
    assert saved(sheet) == ["Mine <b>"]
    assert "#" not in sheet.url
    sheet.reload()
    sheet.wait_for_selector("#table table")
    sheet.get_by_text("Saved tables and comparisons").click()
    sheet.get_by_role("link", name="Mine <b>").click()
    sheet.wait_for_selector("#table tbody tr:nth-child(2)")
    assert "rows=sex" in sheet.url
    sheet.goto("about:blank")
    sheet.goto(f"{client.address}#saved=%7B")
    sheet.wait_for_selector("#table table")
    assert "cannot be read" in sheet.locator("#live").text_content()
    assert sheet.messages == []


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ("/?rows=sex", "no cells in common"),
        ("/?rows=nothing", "no column"),
        ("/?rows=region&percent=total", "different measures"),
    ],
)  # fmt: skip
def test_impossible_comparisons_are_reported(sheet, client, other, words):
    open_page(sheet, f"{client.address}?rows=region&compare={quote(other)}")
    sheet.locator("#compare p").first.wait_for()
    assert words in sheet.locator("#compare").inner_text()


def test_other_servers_are_never_contacted(sheet, client):
    open_page(
        sheet, f"{client.address}?rows=region&compare={quote('https://evil.example/?rows=sex')}"
    )
    assert not sheet.locator("#compare").is_visible()
    assert all(url.startswith(client.address) for url in sheet.requests)
