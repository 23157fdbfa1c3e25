"""Workbooks of cross tables: as shown on the page, as numbers, with intervals and notes."""

from __future__ import annotations

import io
from functools import partial
from urllib.parse import urlencode

import pytest

from engine.errors import TooLarge

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("xlsxwriter")
openpyxl = pytest.importorskip("openpyxl")


def table_of(client, *pairs: tuple[str, str]) -> list[list[object]]:
    """The first sheet of a question's workbook."""
    got = client.ask(f"/api/tabulate?{urlencode([*pairs, ('format', 'xlsx')])}")
    assert got.status == 200, got.body
    sheet = openpyxl.load_workbook(io.BytesIO(got.body))["Table"]
    return [[cell.value for cell in row] for row in sheet.iter_rows()]


CROSS = (("rows", "education"), ("cols", "sex"), ("only.region", "R1"))


def test_the_cross_table_is_as_shown(client):
    shown = client.ask(f"/api/tabulate?{urlencode(CROSS)}").json
    sheet = table_of(client, *CROSS)
    assert sheet[0][0] == "Number of people by education and sex; only region: R1"
    assert sheet[1][1] == "sex"
    assert [text for text in sheet[2] if text] == ["Women", "Men", "All"]
    assert sheet[3] == ["education", *["figure", "from", "to"] * 3]
    words = {"not released": "not released", "structural zero": "impossible"}
    cells, width = shown["cells"], 2
    for r, [head] in enumerate(shown["row_heads"]):
        line = sheet[4 + r]
        assert line[0] == head
        for c in range(width):
            i = r * width + c
            status, value = cells["status"][i], cells["value"][i]
            assert line[1 + 3 * c] == (words[status] if status in words else value)
            if value is not None and status not in words:
                assert line[2 + 3 * c : 4 + 3 * c] == [cells["low"][i], cells["high"][i]]
        assert line[7] == (
            shown["row_total"]["value"][r] or words.get(shown["row_total"]["status"][r])
        )
    last = sheet[4 + len(shown["row_heads"])]
    assert last[0] == "All"
    assert [last[1], last[4]] == shown["col_total"]["value"]
    assert last[7] == shown["total"]["value"][0]
    notes = " ".join(str(row[0]) for row in sheet[5 + len(shown["row_heads"]) :])
    assert "not released: too few to show, or none" in notes
    assert shown["words"] in notes


def test_rows_are_sorted_and_intervals_left_out_as_on_screen(client):
    sheet = table_of(client, *CROSS, ("sort", "down.0"), ("intervals", "false"))
    n = len(client.ask(f"/api/tabulate?{urlencode(CROSS)}").json["row_heads"])
    figures = [line[1] for line in sheet[4 : 4 + n]]
    known = [x for x in figures if not isinstance(x, str)]
    assert sheet[3] == ["education", "figure", "figure", "figure"]
    assert known == sorted(known, reverse=True)
    assert figures[: len(known)] == known
    up = table_of(client, *BOTH, ("sort", "up.all"), ("intervals", "false"))
    n = len(client.ask(f"/api/tabulate?{urlencode(BOTH)}").json["row_heads"])
    ordered = [line[3] for line in up[4 : 4 + n] if not isinstance(line[3], str)]
    assert ordered == sorted(ordered)
    assert len(ordered) > 2


BOTH = (("rows", "region"), ("cols", "sex"))
HIGH = (("rows", "sex"), ("measure", "quantile"))
AGED = (("from.age", "16"), ("to.age", "64"))


@pytest.mark.ci
@pytest.mark.parametrize(
    ("pairs", "title", "last"),
    [
        ((), "Number of people", None),
        ((("cols", "region"),), "Number of people by region", None),
        ((("rows", "region"),), "Number of people by region", "All"),
        ((("rows", "region"), ("percent", "total")), "Percentage of people by region", "All"),
        ((*BOTH, ("percent", "row")), "Percentage of people by region and sex, of each row", "All"),
        ((*BOTH, ("percent", "column")), "Percentage of people by region and sex, of each column", "All"),
        ((("rows", "sex"), ("measure", "mean"), ("of", "income")), "Average of income by sex", "All"),
        ((*HIGH, ("of", "income"), ("quantile", "0.9")), "0.9 quantile of income by sex", "All"),
        ((*BOTH, ("cols", "education")), "Number of people by region, sex and education", "All"),
        ((("rows", "sex"), ("measure", "ratio")), "People as a ratio to the rest by sex", "All"),
        ((("rows", "sex"), *AGED), "Number of people by sex; only Age in years: 16 to 64", "All"),
    ],
)  # fmt: skip
def test_every_kind_of_table_has_its_heads_and_its_last_line(client, pairs, title, last):
    shown = client.ask(f"/api/tabulate?{urlencode(pairs)}").json
    sheet = table_of(client, *pairs)
    assert sheet[0][0] == title
    depth = len(shown["cols"])
    top = 1 + depth + (1 if depth else 0) + 1
    heads = [line[0] for line in sheet[top : top + len(shown["row_heads"])]]
    assert heads == [head[0] if head else "All" for head in shown["row_heads"]]
    values = [v for v in shown["cells"]["value"] if v is not None]
    first = [
        v for line in sheet[top : top + len(heads)] for v in line[1:] if not isinstance(v, str)
    ]
    assert set(values) <= set(first)
    is_last = sheet[top + len(heads)][0] == "All"
    assert is_last == (
        last == "All"
        and (
            shown["col_total"] is not None or shown["total"] is not None or "percent" in dict(pairs)
        )
    )


def test_the_ratio_of_the_total_is_blank(client):
    pairs = (*BOTH, ("measure", "ratio"))
    shown = client.ask(f"/api/tabulate?{urlencode(pairs)}").json
    assert shown["total"] is None
    last = table_of(client, *pairs)[4 + len(shown["row_heads"])]
    assert last[0] == "All"
    assert last[1] == shown["col_total"]["value"][0]
    assert last[7:] == [None] * 3
    share = table_of(client, *BOTH, ("percent", "row"))
    assert share[4][7] == 1


def wide_sheet(n, *, has_intervals=True):
    """The first sheet of a table of one row and many columns."""
    from queries.serve.workbook import Shown, cross_table
    from queries.sql import workbook_of

    side = dict.fromkeys(("value", "low", "high"), [7] * n) | {"status": ["reliable"] * n}
    blank = {"rows": [], "row_heads": [[]], "row_total": None, "col_total": None, "total": None}
    body = {
        **blank,
        "cols": [{"label": "age"}],
        "col_heads": [[f"c{i}"] for i in range(n)],
        "cells": side,
        "measure": "count",
        "percent": "none",
        "words": "Sure.",
    }
    shown = Shown(title="Wide", body=body, has_intervals=has_intervals)
    made = workbook_of(["x"], [], [], first=partial(cross_table, shown))
    book = openpyxl.load_workbook(io.BytesIO(made), read_only=True)
    return [list(row) for row in book["Table"].iter_rows(values_only=True)]


NOTE = "The ends of the intervals are left out here"


@pytest.mark.ci
@pytest.mark.parametrize(("n", "is_cut"), [(5_461, False), (5_462, True)])
def test_a_wide_table_has_all_figures_and_a_note_on_what_is_left_out(n, is_cut):
    rows = wide_sheet(n)
    line = next(row for row in rows if row[0] == "All")
    assert line.count(7) == (n if is_cut else 3 * n)
    assert any(str(row[0]).startswith(NOTE) for row in rows) == is_cut
    assert rows[2].count(f"c{n - 1}") == 1


@pytest.mark.ci
@pytest.mark.parametrize("has_intervals", [True, False])
def test_a_table_wider_than_a_sheet_is_refused_with_what_to_do(has_intervals):
    with pytest.raises(TooLarge, match="16,385 columns"):
        wide_sheet(16_384, has_intervals=has_intervals)


def test_an_invalid_order_is_refused(client):
    got = client.ask("/api/tabulate?rows=sex&format=xlsx&sort=sideways")
    assert got.status == 400
    assert "sort" in got.json["message"]
