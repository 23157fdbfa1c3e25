"""The SQL editor: completion, recent queries, pages, refusals."""

from __future__ import annotations

import pytest
from fixtures.page import open_page, violations

pytest.importorskip("fastapi")

pytestmark = pytest.mark.slow


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


def test_input_is_disabled_until_the_editor_is_loaded(sheet, client):
    waiting = []
    sheet.route("**/sql.js*", lambda route: waiting.append(route))
    open_page(sheet, client.address)
    sheet.get_by_text("Query with SQL").click()
    statement, run = sheet.locator("#statement"), sheet.locator("#run")
    sheet.wait_for_timeout(200)
    assert waiting
    assert statement.is_disabled()
    assert run.is_disabled()
    waiting[0].continue_()
    statement.fill("SEL")  # waits until it may be written in
    assert sheet.locator("#offers li").all_inner_texts() == ["SELECT"]
    assert run.is_enabled()


def test_names_and_keywords_are_completed(sheet, box):
    box.fill("")
    box.press_sequentially("sel")
    assert sheet.locator("#offers li").all_inner_texts() == ["SELECT"]
    box.press("Enter")
    box.press_sequentially("Age in")  # by its label's first word, then the offer is gone
    box.fill("SELECT ")
    box.press_sequentially("a")
    offered = sheet.locator("#offers li").all_inner_texts()
    assert offered[:2] == ["age", "arrival_date"]
    box.press("ArrowDown")
    assert box.get_attribute("aria-activedescendant") == "offer1"
    box.press("Tab")
    assert box.input_value() == "SELECT arrival_date "
    box.press_sequentially("fr")
    box.press("Escape")
    assert not sheet.locator("#offers").is_visible()
    box.press_sequentially("om da")
    sheet.locator("#offers li", has_text="data").first.click()
    assert box.input_value() == "SELECT arrival_date from data "


def test_names_that_are_words_of_sql_are_completed_in_quotes(sheet, client):
    about = client.ask("/api/variables").json
    names = ["order", "left", "year", "age"]
    about["variables"] += [{**about["variables"][0], "name": n, "label": n} for n in names]
    sheet.route("**/api/variables", lambda route: route.fulfill(json=about))
    open_page(sheet, f"{client.address}?rows=sex")
    found = sheet.evaluate(
        "import('./sql.js').then(m => ['ord', '\"ord', 'lef', 'yea', 'ag'].map(w => m.offers(w)[0]))"
    )
    assert found == ['"order"', '"order"', '"left"', "year", "age"]


def test_pages_are_of_one_answer(sheet, client, box):
    sql = "SELECT income FROM data WHERE income IS NOT NULL ORDER BY income"
    box.fill(sql)
    sheet.get_by_label("with noise intervals").uncheck()
    sheet.get_by_role("button", name="Run").click()
    assert len(answered(sheet)) == 100
    pages = client.sql(sql).json["n_pages"]
    sheet.get_by_role("button", name="Next", exact=True).click()
    sheet.get_by_text(f"Page 2 of {pages}").wait_for()
    second = client.sql(sql, "&page=2").json["rows"][0]
    assert [text.replace(",", "") for text in answered(sheet)[0]] == [str(v) for v in second]


def test_a_refusal_shows_the_nearest_tables(sheet, box):
    box.fill("SELECT age, education, count(*) FROM data GROUP BY ALL")
    sheet.get_by_role("button", name="Run").click()
    answered(sheet)
    assert "Nearest tables" in sheet.locator("#answer").inner_text()
    box.fill("SELECT * FROM read_csv('/etc/passwd')")
    sheet.get_by_role("button", name="Run").click()
    sheet.locator("#answer", has_text="read_csv").wait_for()
    assert sheet.locator("#answer table").count() == 0


def test_the_editor_is_accessible(sheet, box):
    box.fill("")
    box.press_sequentially("s")
    assert sheet.locator("#offers li").count() > 1
    assert violations(sheet) == []


def test_figures_that_are_not_released_are_marked(sheet, client, box):
    sql = "SELECT income, sex, count(*) AS n FROM data GROUP BY ALL ORDER BY n, income, sex"
    box.fill(sql)
    sheet.get_by_label("with noise intervals").uncheck()
    sheet.get_by_role("button", name="Run").click()
    rows = answered(sheet)
    hidden = client.sql(sql, "&size=100").json["not_released"]
    assert [[i, 2] for i, row in enumerate(rows) if row[2] == "[c]"] == hidden != []
    assert "[c]: " in sheet.locator("#answer").inner_text()
