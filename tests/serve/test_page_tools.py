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


def test_a_sorted_row_keeps_its_figures(sheet, client):
    user = open_page(sheet, f"{client.address}?rows=region&cols=sex")
    before = {row[0]: row[1:] for row in user.table()}
    user.press("Men")
    assert [row[0] for row in user.table()] != list(before)
    assert {row[0]: row[1:] for row in user.table()} == before


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


def test_two_groups_of_one_name_are_not_made(sheet, client):
    open_page(sheet, f"{client.address}?rows=region&group.region=R4|R1|R2")
    assert "R4" in sheet.get_by_role("alert").inner_text()
    user = open_page(sheet, f"{client.address}?rows=region&group.region=North|R1|R2")
    user.tick("R3")
    user.write("Name", "North")
    user.press("Group selected values")
    assert "already" in sheet.locator("#live").inner_text()
    assert sheet.locator(".made").count() == 1


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


def test_a_ratio_is_to_the_rest_of_its_row(sheet, client):
    user = open_page(sheet, f"{client.address}?rows=region&cols=sex")
    women, men = (float(c.split("\n")[0].replace(",", "")) for c in user.table()[0][1:3])
    user.pick("Measure", "Ratio to the rest")
    user.tick("of each row", role="radio")
    assert float(user.table()[0][1].split("\n")[0]) == pytest.approx(women / men, abs=0.001)
    assert user.title() == "People as a ratio to the rest of each row, by region and sex"
    assert not sheet.get_by_label("none", exact=True).is_visible()


def test_percentages_show_their_hundred(sheet, client):
    user = open_page(sheet, f"{client.address}?rows=region&cols=sex&percent=column")
    assert user.table()[-1][:3] == ["All", "100\u00a0%", "100\u00a0%"]
    user = open_page(sheet, f"{client.address}?rows=region&cols=sex&percent=row")
    assert {row[-1] for row in user.table()} == {"100\u00a0%"}
    texts = sheet.locator("#table td .v, #table td .i").all_inner_texts()
    digits = {len(part.partition(".")[2]) for t in texts for part in t.split() if "." in part}
    assert len(digits) == 1
    user = open_page(sheet, f"{client.address}?rows=region&percent=total")
    assert user.table()[-1] == ["All", "100\u00a0%"]


def test_a_search_for_a_value_outlives_its_ticks(sheet, client):
    text = client.ask("/variables.js").body.decode()
    short = text.replace("FEW = 12", "FEW = 3")  # no list of the small release is long
    assert short != text
    sheet.route(
        "**/variables.js", lambda route: route.fulfill(body=short, content_type="text/javascript")
    )
    user = open_page(sheet, f"{client.address}?rows=sex")
    user.press("Filter: education")
    find = sheet.get_by_label("Find a value of education")
    find.fill("level")
    labels = sheet.locator(".values label")
    assert [text.strip() for text in labels.all_inner_texts()] == ["Level 1", "Level 2", "Level 3"]
    user.tick("Level 2")
    assert find.input_value() == "level"
    assert labels.count() == 3
    assert sheet.evaluate("document.activeElement.type") == "checkbox"
    user.press("Select all listed values of education")
    assert sheet.locator(".values input:checked").count() == 3
    assert "only education: Level 1, Level 2, Level 3" in user.title()
    user.press("Clear the selection of education")
    assert "only" not in user.title()
    find.fill("zzz")
    assert "No matching value" in sheet.locator(".values").inner_text()


def test_what_else_is_released_is_listed_and_opens(sheet, client):
    user = open_page(sheet, f"{client.address}?rows=region")
    sheet.get_by_text("All released tables").click()
    sheet.wait_for_selector("#tables a")
    first = sheet.locator("#tables a").all_inner_texts()
    assert "region" in first[0]
    sheet.get_by_label("Find a table").fill("income")
    assert all("income" in text for text in sheet.locator("#tables a").all_inner_texts())
    sheet.get_by_role("link", name="income and sex").click()
    user.wait()
    assert "by income and sex" in user.title()
    assert sheet.evaluate("document.activeElement.id") == "result"
    sheet.go_back()
    user.wait()
    assert user.title() == "Number of people by region"


def test_starting_again_can_be_undone_and_order_changed(sheet, client):
    user = open_page(sheet, f"{client.address}?rows=region&rows=education&cols=sex")
    user.press("Move education before region")
    assert user.title() == "Number of people by education, region and sex"
    user.press("Swap rows and columns")
    assert "rows=sex&cols=education&cols=region" in sheet.url
    user.press("Start again")
    assert user.title() == "Number of people"
    assert "?" not in sheet.url
    sheet.go_back()
    user.wait()
    assert user.title() == "Number of people by sex, education and region"
    assert sheet.title().startswith(user.title())


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


def test_print_shows_the_table_and_its_words_only(sheet, client):
    open_page(sheet, f"{client.address}?rows=region&cols=sex")
    sheet.emulate_media(media="print", color_scheme="dark")
    assert sheet.locator("#table").is_visible()
    assert sheet.locator("#words").is_visible()
    for hidden in ("#bar", "#variables", "#tables-box"):
        assert not sheet.locator(hidden).is_visible()
    colour = "getComputedStyle(document.querySelector('#table td')).color"
    assert sheet.evaluate(colour) == "rgb(0, 0, 0)"


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


def module(sheet, client, name: str, call: str, *given):
    """What a function of one of the page's modules gives."""
    if not sheet.url.startswith(client.address):
        open_page(sheet, client.address)
    script = f"given => import('/{name}.js').then(module => module.{call}(...given))"
    return sheet.evaluate(script, list(given))


def answer_of(heads: list[str], status: list[str]) -> dict:
    side = {
        "value": [None if s == "not released" else 5.0 for s in status],
        "low": [None] * len(status),
        "high": [None] * len(status),
        "status": status,
    }
    return {
        "rows": [{"name": "x", "label": "X"}],
        "row_heads": [[h] for h in heads],
        "col_heads": [[]],
        "cells": side,
        "row_total": None,
    }


def test_unreleased_bands_at_the_ends_are_merged(sheet, client):
    shut, open_ = "not released", "reliable"
    bands = [f"{x} to {x + 9}" for x in range(-30, 50, 10)]
    given = answer_of(bands, [shut, shut, open_, shut, shut, open_, shut, shut])
    folded = module(sheet, client, "order", "folded", given)
    assert [head for [head] in folded["row_heads"]] == [
        "-30 to -11",
        "-10 to -1",
        "0 to 9",
        "10 to 19",
        "20 to 29",
        "30 to 49",
    ]
    assert folded["cells"]["status"] == [shut, open_, shut, shut, open_, shut]
    for kept in ([shut, *[open_] * 7], [shut] * 8):
        given = answer_of(bands, kept)
        assert module(sheet, client, "order", "folded", given) == given


def test_lists_in_links_come_back_whole(sheet, client):
    for words in (["a"], ["a|b", "c\\", "\\|"], ["", "x"], ["x", ""], ["line\nbreak", "~"]):
        text = module(sheet, client, "state", "joined", words)
        assert module(sheet, client, "state", "parts", text) == words


def test_custom_bands_of_decimals_are_exact(sheet, client):
    variable = {"type": "DECIMAL(18,2)", "first": "35.89"}
    found = module(sheet, client, "groups", "cut", variable, [20, 100.5])
    assert found == [["20.00 to 100.49", ["20.00..100.49"]], ["100.50 and over", ["100.50.."]]]


def test_custom_bands_of_dates_are_years(sheet, client):
    user = open_page(sheet, f"{client.address}?rows=arrival_date&band.arrival_date=20")
    user.pick("Level of detail: arrival_date", "custom bands")
    user.write("First years of the bands", "2000 2010")
    heads = [row[0] for row in user.table()]
    assert [h for h in heads if h not in ("(blank)", "All")] == [
        "before 2000",
        "2000 to 2009",
        "2010 and later",
    ]
