"""Working with a table on the page: sorting, grouping, saving, comparing, SQL, requests, the start page."""

from __future__ import annotations

import json
import shutil
from urllib.parse import quote

import numpy as np
import pandas as pd
import pytest
from fixtures.page import OPENED, open_page, violations
from fixtures.pipeline import ACCEPTED, CENSUS, write_spec
from fixtures.serve import one_worker, served

from engine.api.reading import read
from engine.release import build
from engine.store import manifest_path
from queries.release import open_release
from queries.requests import read_requests
from queries.serve import app_of
from queries.serve.values import variables_of

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


@pytest.fixture
def box(sheet, client):
    """The box, opened."""
    open_page(sheet, f"{client.address}?rows=sex")
    sheet.get_by_text("Query with SQL").click()
    sheet.locator("#history option").first.wait_for(state="attached")
    return sheet.locator("#statement")


def answered(sheet) -> list[list[str]]:
    """The rows of the answer."""
    sheet.wait_for_selector("#answer:not([aria-busy]) :is(table, .why)")
    return [row.locator("td").all_inner_texts() for row in sheet.locator("#answer tbody tr").all()]


def test_a_statement_is_run_with_intervals_and_remembered(sheet, client, box):
    sql = "SELECT sex, count(*) AS n FROM data GROUP BY sex ORDER BY sex"
    box.fill(sql)
    box.press("Control+Enter")
    rows = answered(sheet)
    given = client.sql(sql, "&intervals=true").json
    assert [row[0] for row in rows] == [row[0] for row in given["rows"]]
    assert sheet.locator("#answer th").all_inner_texts() == given["columns"]
    assert given["source"] in sheet.locator("#answer").inner_text()
    sheet.reload()
    sheet.wait_for_selector("#table table")
    sheet.get_by_text("Query with SQL").click()
    sheet.get_by_label("Recent queries").select_option(sql)
    assert box.input_value() == sql
    assert sheet.messages == []


def test_a_refusal_shows_the_nearest_tables(sheet, box):
    box.fill("SELECT age, education, count(*) FROM data GROUP BY ALL")
    sheet.get_by_role("button", name="Run").click()
    answered(sheet)
    assert "Nearest tables" in sheet.locator("#answer").inner_text()
    box.fill("SELECT * FROM read_csv('/etc/passwd')")
    sheet.get_by_role("button", name="Run").click()
    sheet.locator("#answer", has_text="read_csv").wait_for()
    assert sheet.locator("#answer table").count() == 0


def test_figures_that_are_not_released_are_marked(sheet, client, box):
    sql = "SELECT income, sex, count(*) AS n FROM data GROUP BY ALL ORDER BY n, income, sex"
    box.fill(sql)
    sheet.get_by_label("with noise intervals").uncheck()
    sheet.get_by_role("button", name="Run").click()
    rows = answered(sheet)
    hidden = client.sql(sql, "&size=100").json["not_released"]
    assert [[i, 2] for i, row in enumerate(rows) if row[2] == "[c]"] == hidden != []
    assert "[c]: " in sheet.locator("#answer").inner_text()


def test_a_table_is_requested(sheet, path, tmp_path):
    own = tmp_path / "r.duckdb"
    shutil.copyfile(path, own)
    shutil.copyfile(manifest_path(path), manifest_path(own))
    with served(app_of(own, takes_requests=True, limits=one_worker())) as client:
        user = open_page(sheet, f"{client.address}?cols=region")
        user.press("Request a table with income")
        sheet.get_by_text("Request this table").click()
        sheet.get_by_role("button", name="Submit request").click()
        assert read_requests(own) == ()  # a reason is wanted
        sheet.get_by_label("Purpose of the table").fill("a <b>report</b>")
        sheet.get_by_label("Your name").fill("Ada")
        sheet.evaluate(OPENED)
        assert violations(sheet) == []
        sheet.get_by_role("button", name="Submit request").click()
        sheet.get_by_text("Request 1 was submitted.").first.wait_for()
        (left,) = read_requests(own)
        assert (left.columns, left.reason, left.who) == (
            ("income", "region"),
            "a <b>report</b>",
            "Ada",
        )
        user.wait()
    assert sheet.messages == []


def test_the_form_is_missing_where_requests_are_not_accepted(sheet, client):
    open_page(sheet, f"{client.address}?rows=income&cols=region")
    sheet.get_by_text("For data custodians").wait_for()
    assert sheet.get_by_text("Request this table").count() == 0
    assert not any("request.js" in request for request in sheet.requests)
    open_page(sheet, f"{client.address}?cols=region")
    assert sheet.get_by_role("button", name="Request a table with income").count() == 0


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


def test_modelled_figures_show_their_intervals(sheet, stays):
    open_page(sheet, f"{stays.address}?rows=sex&cols=born&band.born=20&measure=mean&of=cost")
    cells = sheet.locator("#table tbody td").all_inner_texts()
    assert cells
    assert all("from" in cell for cell in cells)
    assert "unreliable" not in sheet.locator("#legend").inner_text()
