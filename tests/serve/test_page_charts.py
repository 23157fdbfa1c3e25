"""Charts: suitable kinds, the one named in the address, and downloads."""

from __future__ import annotations

import pytest
from fixtures.page import open_page

pytest.importorskip("fastapi")

pytestmark = pytest.mark.slow

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
