"""What tables of a pack show: totals that add up, areas that nest, percentages, labels, and refusals of bad specs."""

from __future__ import annotations

import pytest
from fixtures.pack import SPEC, figures_of, nested_release, rows_of, shared_release

from engine.errors import SpecError
from queries.intervals import tabulate
from queries.packs import pack_spec_from, preview, publish, read_pack_spec
from queries.release import open_release

pytest.importorskip("pyarrow")
pytest.importorskip("gptables")
pytest.importorskip("jinja2")


@pytest.fixture(scope="module")
def release(census, tmp_path_factory):
    return shared_release(tmp_path_factory, census)


def test_totals_and_areas_add_up(pack):
    figures = figures_of(pack, "T1", "region", "sex")
    held = {"North": ["R1", "R2", "R3", "R4"], "South": [f"R{i}" for i in range(5, 10)]}
    held["Country"] = ["North", "South"]
    held["_T"] = ["Country"]
    for sex in ("_T", "Female", "Male"):
        for area, parts in held.items():
            assert figures[area, sex] == sum(figures[part, sex] for part in parts), (area, sex)
    for region in {r for r, _ in figures}:
        assert figures[region, "_T"] == figures[region, "Female"] + figures[region, "Male"]


def test_figures_and_intervals_are_those_of_the_release(pack, release):
    with open_release(release) as opened:
        told = tabulate(opened, ["region", "sex"])
    mine = {(r["region"], r["sex"]): r for r in rows_of(pack / "tables/T1.csv")}
    for i, key in enumerate(told.keys):
        row = mine[key]
        assert (float(row["value"]), float(row["low"]), float(row["high"])) == (
            told.value[i],
            told.low[i],
            told.high[i],
        )
        assert row["status"] == told.status[i]


def test_code_lists_say_what_is_part_of_what(pack):
    listed = {r["code"]: r for r in rows_of(pack / "codelists/region.csv")}
    assert list(listed) == [
        *("_T", "Country", "North", "R1", "R2", "R3", "R4"),
        *("South", "R5", "R6", "R7", "R8", "R9"),
    ]
    assert listed["North"]["parent"] == "Country"
    assert listed["R5"]["parent"] == "South"
    assert listed["_T"]["label_cy"] == "Cyfanswm"
    assert [listed[c]["kind"] for c in ("_T", "North", "R1")] == ["total", "group", "value"]


def test_labels_come_in_every_language(pack):
    row = next(r for r in rows_of(pack / "tables/T1.csv") if r["sex"] == "Female")
    assert row["sex_label_en"] == 'Women; "she"'
    assert row["sex_label_cy"] == "Benywod"


def test_percentages_are_of_their_column(pack, release):
    figures = figures_of(pack, "T2", "age", "sex")
    with open_release(release) as opened:
        women = opened.sql("SELECT count(*) FROM data WHERE sex = 'Female'").rows[0][0]
        young = opened.sql("SELECT count(*) FROM data WHERE sex = 'Female' AND age <= 39").rows[0][
            0
        ]
    assert figures["_T", "Female"] == 100
    assert figures["0-39", "Female"] == pytest.approx(100 * young / women, abs=0.006)
    assert figures["0-39", "Male"] + figures["40+", "Male"] == pytest.approx(100, abs=0.5)
    for row in rows_of(pack / "tables/T2.csv"):
        assert float(row["low"]) <= float(row["value"]) <= float(row["high"]) <= 100


def test_every_combination_has_a_row_and_a_status_and_unreleased_ones_no_value(pack):
    rows = rows_of(pack / "tables/T5.csv")
    countries = {r["code"] for r in rows_of(pack / "codelists/birth_country.csv")} - {"_T"}
    levels = {r["code"] for r in rows_of(pack / "codelists/education.csv")} - {"_T"}
    assert {(r["birth_country"], r["education"]) for r in rows} == {
        (c, e) for c in countries for e in levels
    }
    hidden = [r for r in rows if r["status"] == "not released"]
    assert hidden
    assert all(r["value"] is None for r in hidden)
    assert all(r["value"] is not None for r in rows if r["status"] == "reliable")


def test_a_table_of_too_many_combinations_lists_what_was_measured(pack, release):
    rows = rows_of(pack / "tables/T6.csv")
    with open_release(release) as opened:
        physical = opened.sql(
            "SELECT physical FROM catalog.tables WHERE name = 'age.region.sex'"
        ).rows[0][0]
        told = opened.sql(f"SELECT age, region, sex, n FROM tables.{physical} WHERE measured").rows
    assert {(r["age"], r["region"], r["sex"]): int(r["value"]) for r in rows} == {
        (str(age), region, sex): n for age, region, sex, n in told
    }
    assert not (pack / "px/T6.px").exists()
    assert "T6" in (pack / "README.md").read_text("utf-8")


def test_without_a_spec_every_narrow_table_is_published(release):
    with open_release(release) as opened:
        tables = preview(opened).tables
        assert [{d.name for d in t.dimensions} for t in tables] == [set(t) for t in opened.tables]


def test_areas_can_nest_by_a_column_of_the_release(tmp_path, release):
    spec = SPEC.split("[columns.region]")[0] + '[columns.region]\nparents = "sex"\n'
    spec += '[[tables]]\nrows = ["region"]\nsubtotals = ["region"]\n'
    (tmp_path / "r.toml").write_text(spec)
    with open_release(release) as opened, pytest.raises(SpecError, match="lies in several values"):
        publish(opened, tmp_path / "x", read_pack_spec(tmp_path / "r.toml"))
    assert not (tmp_path / "x").exists()


def test_areas_nest_where_the_release_says_so(tmp_path):
    (tmp_path / "p.toml").write_text(
        '[columns.town]\nparents = "area"\n[[tables]]\nid = "A"\nrows = ["town"]\nsubtotals = ["town"]\n'
    )
    with open_release(nested_release(tmp_path)) as opened:
        publish(opened, tmp_path / "out", read_pack_spec(tmp_path / "p.toml"))
    listed = {r["code"]: r["parent"] for r in rows_of(tmp_path / "out/codelists/town.csv")}
    assert listed == {
        "_T": None,
        "North": None,
        "a": "North",
        "South": None,
        "b": "South",
        "c": "South",
    }


BAD = {
    "unknown key": ({"pack": {"titel": "x"}}, "pack.titel"),
    "no columns": ({"tables": [{"title": "x"}]}, "columns, or rows and cols"),
    "both": ({"tables": [{"columns": ["age"], "rows": ["sex"]}]}, "either columns or rows"),
    "twice": ({"tables": [{"columns": ["age", "age"]}]}, "named once"),
    "stray total": (
        {"tables": [{"columns": ["age"], "totals": ["sex"]}]},
        "no column of the table",
    ),
    "of": ({"tables": [{"columns": ["age"], "measure": "mean"}]}, "of = ..."),
    "percent of means": (
        {"tables": [{"columns": ["sex"], "measure": "mean", "of": "age", "percent": "total"}]},
        "percentages are of counts",
    ),
    "row percent": ({"tables": [{"columns": ["sex"], "percent": "row"}]}, "need rows and cols"),
    "two ids": ({"tables": [{"id": "a", "columns": ["age"]}] * 2}, "given twice"),
    "language": ({"pack": {"languages": ["English"]}}, "codes such as"),
    "group": ({"columns": {"age": {"groups": [{"code": "x"}]}}}, "either values or a range"),
    "range": ({"columns": {"age": {"groups": [{"code": "x", "range": [9, 1]}]}}}, r"\[low, high\]"),
    "include": ({"pack": {"include": ["my.key"]}}, "is no document"),
}
UNFIT = {
    "column": ({"tables": [{"columns": ["sexx"]}]}, "Near: sex"),
    "told column": ({"columns": {"agee": {}}}, "Near: age"),
    "value": ({"columns": {"sex": {"values": {"Femal": "x"}}}, "tables": [{"columns": ["sex"]}]}, "Near: Female"),
    "word": ({"words": {"totall": "x"}}, "is not used"),
    "combination": ({"tables": [{"columns": ["sex", "income"]}]}, "No released table"),
    "mean of": ({"tables": [{"columns": ["sex"], "measure": "mean", "of": "agee"}]}, "Near: age"),
    "mean of text": (
        {"tables": [{"columns": ["birth_country"], "measure": "mean", "of": "education"}]},
        "tables, T0001: ",
    ),
    "subtotals": ({"tables": [{"columns": ["sex"], "subtotals": ["sex"]}]}, "has no groups"),
    "filter": ({"tables": [{"columns": ["age"], "where": {"sex": ["?"]}}]}, "no released value"),
    "group of text": (
        {"columns": {"sex": {"groups": [{"code": "x", "range": [0, 1]}]}}, "tables": [{"columns": ["sex"]}]},
        "needs numbers",
    ),
    "empty group": (
        {"columns": {"age": {"groups": [{"code": "x", "range": [900, 901]}]}}, "tables": [{"columns": ["age"]}]},
        "no released value lies",
    ),
    "group of unknown": (
        {"columns": {"sex": {"groups": [{"code": "x", "values": ["?"]}]}}, "tables": [{"columns": ["sex"]}]},
        "no released value",
    ),
    "no table of both": (
        {"columns": {"region": {"parents": "birth_country"}}, "tables": [{"columns": ["region"]}]},
        "no released table holds",
    ),
    "too many": (
        {"pack": {"max_cells": 20}, "tables": [{"columns": ["age", "sex"], "totals": ["sex"]}]},
        "max_cells",
    ),
    "too many, not released": (
        {"pack": {"max_cells": 20}, "tables": [{"columns": ["income", "sex"]}]},
        "no released table",
    ),
    "document": ({"pack": {"include": ["nowhere.pdf"]}}, "there is no file"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_spec_is_refused(case):
    raw, words = BAD[case]
    with pytest.raises(SpecError, match=words):
        pack_spec_from(raw)


@pytest.mark.parametrize("case", UNFIT)
def test_a_spec_that_does_not_fit_the_release_is_refused(release, tmp_path, case):
    raw, words = UNFIT[case]
    with open_release(release) as opened, pytest.raises(SpecError, match=words):
        publish(opened, tmp_path / "out", pack_spec_from(raw), base=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_spec_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(SpecError, match="no pack spec"):
        read_pack_spec(tmp_path / "none.toml")
    with pytest.raises(SpecError, match="cannot be read"):
        read_pack_spec(tmp_path)
    (tmp_path / "bad.toml").write_text("[pack")
    with pytest.raises(SpecError, match="is not TOML"):
        read_pack_spec(tmp_path / "bad.toml")
