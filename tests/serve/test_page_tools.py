"""Working with a table: sorting, grouping, finding other tables, copying, printing, going back."""

from __future__ import annotations

import pytest
from fixtures.page import open_page

pytest.importorskip("fastapi")

pytestmark = pytest.mark.slow


def figures(user, column: int) -> list[float | None]:
    """A column of the table on screen as numbers; None: no figure."""
    body = user.sheet.locator(f"#table tbody tr td:nth-of-type({column})").all_inner_texts()
    first = [text.split("\n")[0].replace(",", "") for text in body]
    return [float(text) if text.replace(".", "").isdigit() else None for text in first]


def test_rows_are_sorted_by_a_figure_and_back(sheet, client):
    user = open_page(sheet, f"{client.address}?rows=education&cols=sex&only.region=R1")
    heads, before = [row[0] for row in user.table()], figures(user, 1)
    assert None in before
    user.press("Women")
    assert sheet.evaluate("document.activeElement.id") == "sort-0"
    known = [x for x in before if x is not None]
    assert figures(user, 1) == [*sorted(known, reverse=True), *[None] * before.count(None)]
    assert sheet.locator("th[aria-sort=descending]").inner_text().startswith("Women")
    assert "largest first" in sheet.locator("#live").inner_text()
    sheet.reload()
    sheet.wait_for_selector("th[aria-sort=descending]")
    user.press("Women")
    assert figures(user, 1) == [*sorted(known), *[None] * before.count(None)]
    user.press("Women")
    assert [row[0] for row in user.table()] == heads
    user.press("All")
    assert sheet.locator("th[aria-sort=descending]").inner_text().startswith("All")
    assert sheet.messages == []


def test_custom_groups_are_made_named_and_removed(sheet, client):
    user = open_page(sheet, f"{client.address}?rows=region&cols=sex")
    single = {row[0]: row[-1] for row in user.table()}
    user.pick("Level of detail: region", "custom groups")
    user.press("Group selected values")
    assert "Select the values" in sheet.locator("#live").inner_text()
    user.tick("R1")
    user.tick("R3")
    user.write("Name", "A|B \\ <b>")
    user.press("Group selected values")
    heads = [row[0] for row in user.table()]
    assert heads[0] == "A|B \\ <b>"
    assert "R1" not in heads
    assert "R2" in heads
    assert sheet.evaluate("document.activeElement.id").startswith("name-")
    asked = client.ask("/api/tabulate?rows=region&only.region=R1&only.region=R3&rows=sex").json
    both = sum(asked["cells"]["value"])
    shown_all = float(user.table()[0][-1].split("\n")[0].replace(",", ""))
    assert shown_all == pytest.approx(both)
    sheet.reload()
    sheet.wait_for_selector("#table table")
    assert [row[0] for row in user.table()] == heads
    user.press("Ungroup A|B \\ <b>")
    assert {row[0]: row[-1] for row in user.table()} == single
    assert sheet.messages == []


def test_custom_bands_have_any_limits(sheet, client):
    user = open_page(sheet, f"{client.address}?rows=age&band.age=10")
    user.pick("Level of detail: Age in years", "custom bands")
    assert user.table()[0][0] == "0 to 9"
    user.write("Lower limits of the bands", "65, 16 25")
    assert [r[0] for r in user.table()] == [
        "under 16",
        "16 to 24",
        "25 to 64",
        "65 and over",
        "All",
    ]
    user.write("Lower limits of the bands", "16, x")
    assert "Enter numbers" in sheet.locator("#live").inner_text()
    sheet.go_back()
    user.wait()
    assert user.table()[0][0] == "0 to 9"


def test_the_table_is_copied_as_lines_with_tabs(browser, client):
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    sheet = context.new_page()
    user = open_page(sheet, f"{client.address}?rows=region&cols=sex")
    user.press("Table")
    text = sheet.evaluate("navigator.clipboard.readText()").split("\n")
    assert text[0] == "region\tWomen\tMen"
    assert text[1].split("\t")[0] == "R1"
    assert float(text[1].split("\t")[1]) == figures(user, 1)[0]
    assert sheet.locator("#live").is_visible()
    context.close()


def test_long_and_wide_tables_stay_readable(sheet, client):
    open_page(sheet, f"{client.address}?rows=income")
    assert "the first 200 of" in sheet.locator("#more").inner_text()
    n = int(sheet.locator("#more button").inner_text().split()[2].replace(",", ""))
    sheet.locator("#more button").click()
    assert sheet.locator("#table tbody tr").count() == n
    assert sheet.evaluate("document.activeElement.id") == "table"
    assert not sheet.locator("#sideways").is_visible()
    sheet.set_viewport_size({"width": 640, "height": 844})
    open_page(sheet, f"{client.address}?cols=region&cols=education")
    assert sheet.locator("#sideways").is_visible()
    sheet.evaluate("document.querySelector('#table').scrollLeft = 500")
    head = sheet.locator("#table caption span").bounding_box()
    box = sheet.locator("#table").bounding_box()
    assert box["x"] <= head["x"]
    assert head["x"] + head["width"] <= box["x"] + box["width"]


def test_waiting_and_failures_are_shown(sheet, client):
    user = open_page(sheet, f"{client.address}?rows=region")
    held = []
    sheet.route("**/api/tabulate*", lambda route: held.append(route))
    sheet.get_by_role("button", name="Columns: sex").click()
    sheet.get_by_text("Calculating …").wait_for()
    held[0].continue_()
    user.wait()
    assert user.title() == "Number of people by region and sex"
    sheet.unroute("**/api/tabulate*")
    sheet.route("**/api/plan*", lambda route: route.abort())
    user.press("Start again")
    assert "cannot be reached" in sheet.get_by_role("alert").inner_text()
    assert not sheet.locator("#bar").is_visible()
