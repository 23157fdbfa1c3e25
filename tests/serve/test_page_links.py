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
