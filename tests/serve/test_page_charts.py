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


def test_a_line_leaves_a_gap_where_nothing_is_released(sheet, client):
    open_page(sheet, f"{client.address}?rows=arrival_date&band.arrival_date=5")
    answer = client.ask("/api/tabulate?rows=arrival_date&band.arrival_date=5").json
    known = [v for [head], v in zip(answer["row_heads"], answer["cells"]["value"], strict=True)
             if v is not None and head != "(blank)"]  # fmt: skip
    assert len(known) < len(answer["row_heads"]) - 1
    assert sheet.locator("#chart circle").count() == len(known)
    assert sheet.locator("#chart polyline").count() > 1


def test_stacked_parts_fill_a_hundred(sheet, client):
    open_page(sheet, f"{client.address}?rows=region&cols=sex&chart=stacked")
    widths = "(r => r.map(x => Number(x.getAttribute('width'))))([...document.querySelectorAll('#chart .part')])"
    found = sheet.evaluate(widths)
    sums = [a + b for a, b in zip(found[::2], found[1::2], strict=True)]
    assert len(sums) == 9
    assert max(sums) == pytest.approx(min(sums))


def test_a_chart_is_downloaded_as_svg_and_png(sheet, client):
    sheet.emulate_media(color_scheme="dark")
    user = open_page(sheet, f"{client.address}?{PYRAMID}")
    text = user.download("SVG").decode()
    assert text.startswith("<svg")
    assert 'xmlns="http://www.w3.org/2000/svg"' in text
    assert "class=" not in text
    assert "Number of people by Age in years and sex" in text
    assert "rgb(" in text
    picture = user.download("PNG")
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    assert len(picture) > 5_000
    assert "Downloaded" in sheet.locator("#live").inner_text()
