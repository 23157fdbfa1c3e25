"""The start page: charts and links, labels of blanks, a small first load, phones."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from fixtures.page import open_page
from fixtures.pipeline import ACCEPTED, CENSUS, write_spec
from fixtures.serve import one_worker, served

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


@pytest.fixture(scope="module")
def stays(tmp_path_factory):
    """A client of a server of hospital stays: a year of birth, days up to 10 March, costs, a modelled table."""
    folder, n = tmp_path_factory.mktemp("stays"), 3000
    draws = np.random.default_rng(0)
    columns = {
        "ward": draws.choice(["WW1", "WW2", "WW3"], n),
        "sex": draws.choice(["f", "m"], n),
        "born": draws.integers(1930, 2020, n),
        "cost": draws.integers(1, 40, n) * 500.0,
        "day": np.datetime64("2023-01-01") + draws.integers(0, 800, n),
    }
    pd.DataFrame(columns).to_parquet(folder / "stays.parquet")
    kinds = {
        "ward": {"kind": "category"},
        "sex": {"kind": "category"},
        "born": {"kind": "integer", "release": "a year, no identifier"},
        "cost": {"kind": "real", "resolution": 100},
        "day": {"kind": "date"},
    }
    tables = (("born", "sex"), ("cost", "ward"), ("day",), ("sex", "ward"), tuple(kinds))
    spec = write_spec(
        folder, folder / "stays.parquet", kinds, tables, privacy=ACCEPTED, entities=()
    )
    build(read(spec), folder / "r.duckdb", jobs=1)
    with served(app_of(folder / "r.duckdb", limits=one_worker())) as client:
        yield client


def test_the_start_page_asks_what_is_worth_a_chart(sheet, stays):
    tables = {
        tuple(t["columns"]): t["is_modelled"] for t in stays.ask("/api/tables").json["tables"]
    }
    assert [columns for columns, is_modelled in tables.items() if is_modelled] == [
        ("born", "cost", "day", "sex", "ward")
    ]
    open_page(sheet, stays.address)
    loaded(sheet)
    asked = {
        link.inner_text(): link.get_attribute("href")
        for link in sheet.locator(".card a, #questions a").all()
    }
    assert "Average cost by ward" in asked
    assert "Average born by sex" not in asked  # all bars of years would be alike
    assert "Average cost by sex" not in asked  # a model's figure has no interval
    [days] = [href for title, href in asked.items() if title.endswith(" by day")]
    assert "to.day=2025-02-28" in days
    assert sheet.locator("#about").inner_text() == ""  # why a column is no identifier is a note


def test_labels_of_capitals_are_not_cut_off(sheet, stays):
    open_page(sheet, f"{stays.address}?rows=ward&measure=mean&of=cost")
    texts = sheet.locator("#chart svg text").all()
    left = min(text.evaluate("t => t.getBBox().x") for text in texts)
    assert left >= 0


def test_bands_are_numbers_of_the_language(sheet, stays):
    open_page(sheet, f"{stays.address}?rows=cost&band.cost=2000&lang=de")
    heads = sheet.locator("#table tbody th").all_inner_texts()
    assert "8000 bis 9900" in heads
    assert "10.000 bis 11.900" in heads


def test_a_modelled_figure_is_said_to_have_no_interval(sheet, stays):
    open_page(sheet, f"{stays.address}?rows=sex&cols=born&band.born=20&measure=mean&of=cost")
    assert "no interval" in sheet.locator("#table tbody").inner_text()
    assert "unreliable" not in sheet.locator("#legend").inner_text()
    assert "noise intervals" not in sheet.locator("#chart").inner_text()
