"""The start page: charts and links, labels of blanks, a small first load, phones."""

from __future__ import annotations

import pytest
from fixtures.page import open_page
from fixtures.pipeline import CENSUS, write_spec

from engine.api.reading import read
from engine.release import build
from queries.release import open_release

pytest.importorskip("fastapi")

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


def test_the_first_load_is_small(sheet, client):
    open_page(sheet, client.address)
    loaded(sheet)
    assert len(sheet.requests) > 10
    paths = [url.removeprefix(client.address) for url in sheet.requests]
    assert sum(len(client.ask(f"/{path}").body) for path in paths) <= FIRST_LOAD


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
