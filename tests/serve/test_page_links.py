"""Invalid links are reported, names in links are kept, and charts have an axis for figures of any sign."""

from __future__ import annotations

import pytest
from fixtures.page import open_page

pytest.importorskip("fastapi")

pytestmark = pytest.mark.slow


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


@pytest.mark.parametrize("more", ["of=age", "quantile=0.2", "group.age=Young|..15", "band.age=5"])
def test_what_the_page_would_leave_out_is_sent_on(sheet, client, more):
    open_page(sheet, f"{client.address}?rows=sex&{more}")
    name = more.split("=")[0]
    sent = [url for url in sheet.requests if "/api/plan" in url]
    assert [f"&{name}=" in url for url in sent] == [True]


def test_a_measure_that_came_without_its_column_gets_the_one_on_screen(sheet, client):
    user = open_page(sheet, f"{client.address}?rows=sex&measure=mean")
    user.press("Columns: region")
    wanted = sheet.get_by_label("of", exact=True).evaluate("e => e.selectedOptions[0].text")
    refused = sheet.locator("#problem").inner_text()
    assert "measure=mean&of=" in sheet.url
    assert wanted
    assert "combines" in refused or user.title().startswith(f"Average of {wanted}")


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


def chart_of(sheet, client, cells) -> list[str]:
    """Ticks of the chart of one column of cells."""
    open_page(sheet, f"{client.address}?rows=region")
    answer = {
        "rows": [{"name": "x", "label": "X"}],
        "cols": [],
        "row_heads": [[str(i)] for i in range(len(cells))],
        "col_heads": [[]],
        "measure": "mean",
        "percent": "none",
        "cells": {
            "value": [value for value, *_ in cells],
            "low": [low for _, low, _ in cells],
            "high": [high for *_, high in cells],
            "status": ["reliable"] * len(cells),
        },
    }
    draw = "a => import('/chart.js').then(m => m.drawChart(a, 'title'))"
    sheet.evaluate(draw, answer)
    ticks = sheet.locator("#chart svg .tick").all_text_contents()
    assert "NaN" not in sheet.locator("#chart svg").inner_html()
    assert len(set(ticks)) == len(ticks)
    return ticks


@pytest.mark.parametrize(
    ("cells", "ticks"),
    [
        ([(10, 8, 12)], ["0", "5", "10"]),
        ([(-10, -12, -8), (-4, -5, -3)], ["-10", "-5", "0"]),
        ([(-10, -12, -8), (20, 15, 22)], ["-10", "0", "10", "20"]),
        ([(0, 0, 0)], ["0", "0.25", "0.5", "0.75", "1"]),
    ],
)
def test_the_axis_of_a_chart_holds_figures_of_any_sign(sheet, client, cells, ticks):
    assert chart_of(sheet, client, cells) == ticks


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
