"""The SQL editor: completion, recent queries, pages, refusals."""

from __future__ import annotations

import pytest
from fixtures.page import open_page

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
