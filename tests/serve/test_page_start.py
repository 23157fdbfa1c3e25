"""The start page: charts and links, labels of blanks, a small first load, phones."""

from __future__ import annotations

import pytest
from fixtures.page import open_page
from fixtures.pipeline import CENSUS, write_spec
from fixtures.serve import one_worker, served
from fixtures.stays import release_of_stays

from engine.api.reading import read
from engine.release import build
from queries.release import open_release

pytest.importorskip("fastapi")

from queries.serve import app_of
from queries.serve.values import variables_of

pytestmark = pytest.mark.slow

FIRST_LOAD = 150_000


def loaded(sheet) -> None:
    """Wait until all charts are loaded."""
    sheet.wait_for_selector("#pictures svg")
    sheet.locator(".card:not(:has(svg))").first.wait_for(state="detached")


def test_the_start_page_has_charts_and_links(sheet, client):
    user = open_page(sheet, client.address)
    loaded(sheet)
    titles = sheet.locator(".card a").all_inner_texts()
    assert "People by Age in years and sex" in titles
    assert any(title.startswith("Average income") for title in titles)
    assert len(titles) >= 3
    assert (
        sheet.locator("#questions a").count() == 0 or sheet.locator("#questions-box").is_visible()
    )
    sheet.get_by_role("link", name="People by Age in years and sex").click()
    user.wait()
    assert user.title() == "Number of people by Age in years and sex"
    assert not sheet.locator("#start").is_visible()
    sheet.get_by_role("link", name="Table builder").click()
    loaded(sheet)
    assert sheet.messages == []


def test_the_start_page_returns_after_a_reset(sheet, client):
    user = open_page(sheet, f"{client.address}?rows=sex")
    assert not sheet.locator("#start").is_visible()
    user.press("Start again")
    loaded(sheet)
    assert sheet.locator("#start").is_visible()


def test_the_first_load_is_small(sheet, client):
    open_page(sheet, client.address)
    loaded(sheet)
    assert len(sheet.requests) > 10
    paths = [url.removeprefix(client.address) for url in sheet.requests]
    assert sum(len(client.ask(f"/{path}").body) for path in paths) <= FIRST_LOAD


def test_an_average_is_never_of_a_row(sheet, client):
    user = open_page(sheet, f"{client.address}?rows=age&band.age=20")
    user.pick("Measure", "Average")
    assert "Average of Age" not in sheet.locator("body").inner_text()
    assert sheet.get_by_label("of", exact=True).input_value() != "age"
    assert sheet.locator("#of option[value=age]").is_disabled()
    user = open_page(sheet, f"{client.address}?rows=sex&rows=income")
    user.pick("Measure", "Average")
    assert sheet.get_by_label("of", exact=True).input_value() not in ("income", "")
    user = open_page(sheet, f"{client.address}?cols=sex")
    user.pick("Measure", "Average")
    assert user.title() == "Average of Age in years by sex"


@pytest.mark.parametrize(
    "link", ["rows=region&cols=education", "rows=region&rows=sex&cols=education"]
)
def test_a_phone_scrolls_wide_tables_beside_the_first_column(sheet, client, link):
    sheet.set_viewport_size({"width": 390, "height": 844})
    open_page(sheet, f"{client.address}?{link}")
    sheet.locator("#table").scroll_into_view_if_needed()
    first, figure = sheet.locator("#table tbody th").first, sheet.locator("#table tbody td").first
    before, moved = first.bounding_box(), figure.bounding_box()
    assert sheet.evaluate(
        "(b => b.scrollWidth > b.clientWidth + 150)(document.querySelector('#table'))"
    )
    sheet.evaluate("document.querySelector('#table').scrollLeft = 150")
    assert first.bounding_box()["x"] == pytest.approx(before["x"], abs=1)
    assert figure.bounding_box()["x"] == pytest.approx(moved["x"] - 150, abs=1)
    assert before["width"] <= 0.45 * 390
    assert sheet.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_blank_outside_a_universe_does_not_apply(tmp_path, census):
    columns = {name: dict(values) for name, values in CENSUS.items()}
    columns["education"]["universe"] = {"column": "age", "min": 16}
    columns["income"]["universe"] = {"column": "age", "min": 16, "complete": False}
    tables = (("age", "education"), ("income",), ("carer",))
    spec = write_spec(tmp_path, census / "people.parquet", columns, tables)
    build(read(spec), tmp_path / "r.duckdb", jobs=1)
    with open_release(tmp_path / "r.duckdb") as release:
        variables = variables_of(release)
    said = {name: v.blank_label for name, v in variables.items()}
    assert said["education"] == "does not apply"
    assert said["income"] == "does not apply, or blank"
    assert said["carer"] == "(blank)"
    assert said["age"] is None


def test_the_page_uses_the_releases_unit(sheet, tmp_path):
    """A release of hospital stays does not mention people."""
    with release_of_stays(tmp_path) as release:
        path = release.path
    with served(app_of(path, limits=one_worker())) as client:
        user = open_page(sheet, f"{client.address}?rows=ward&cols=urgent")
        assert user.title() == "Number of stays by ward and urgent"
        assert sheet.locator("#measure option").first.inner_text() == "Number of stays"
        text = sheet.locator("body").inner_text()
    assert "people" not in text.lower()
