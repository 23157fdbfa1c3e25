"""What tables of a pack show: areas that nest, percentages, bands, labels; specs that are refused."""

from __future__ import annotations

import datetime
import itertools
from decimal import Decimal
from types import SimpleNamespace

import pytest
from fixtures.pack import figures_of, nested_release, published, rows_of
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import SpecError
from engine.schema import Column, Resolution
from queries.packs import pack_spec_from, preview, publish, read_pack_spec
from queries.packs.bands import MOST_BANDS, MOST_VALUES, bands_of
from queries.packs.texts import pack_words
from queries.release import open_release


@pytest.mark.ci
def test_code_lists_have_the_hierarchy_and_labels_in_every_language(pack):
    listed = {r["code"]: r for r in rows_of(pack / "codelists/region.csv")}
    assert list(listed) == [
        *("_T", "Country", "North", "R1", "R2", "R3", "R4"),
        *("South", "R5", "R6", "R7", "R8", "R9"),
    ]
    assert listed["North"]["parent"] == "Country"
    assert listed["R5"]["parent"] == "South"
    assert listed["_T"]["label_de"] == "Zusammen"
    assert [listed[c]["kind"] for c in ("_T", "North", "R1")] == ["total", "group", "value"]
    row = next(r for r in rows_of(pack / "tables/T1.csv") if r["sex"] == "Female")
    assert (row["sex_label_en"], row["sex_label_de"]) == ('Women; "she"', "Frauen")


def test_percentages_are_of_their_column(pack, opened):
    figures = figures_of(pack, "T2", "age", "sex")
    women = opened.sql("SELECT count(*) FROM data WHERE sex = 'Female'").rows[0][0]
    young = opened.sql("SELECT count(*) FROM data WHERE sex = 'Female' AND age <= 39").rows[0][0]
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


def test_a_table_of_too_many_combinations_lists_what_was_measured(pack, opened):
    rows = rows_of(pack / "tables/T6.csv")
    ((physical,),) = opened.sql(
        "SELECT physical FROM catalog.tables WHERE name = 'age.region.sex'"
    ).rows
    measured = opened.sql(f"SELECT age, region, sex, n FROM tables.{physical} WHERE measured").rows
    assert {(r["age"], r["region"], r["sex"]): int(r["value"]) for r in rows} == {
        (str(age), region, sex): n for age, region, sex, n in measured
    }
    assert not (pack / "px/T6.px").exists()
    assert "T6" in (pack / "README.md").read_text("utf-8")


def test_areas_nest_where_the_release_says_so(tmp_path):
    raw = {
        "pack": {"workbook_rows": 0},
        "columns": {"town": {"parents": "area"}},
        "tables": [{"id": "A", "rows": ["town"], "subtotals": ["town"]}],
    }
    with open_release(nested_release(tmp_path)) as opened:
        published(opened, tmp_path / "out", raw)
        opened.tables = tuple(t for t in opened.tables if len(t) > 1)
        with pytest.raises(SpecError, match="has at most 1 columns"):
            preview(opened, pack_spec_from({"pack": {"max_width": 1}}))
    listed = {r["code"]: r["parent"] for r in rows_of(tmp_path / "out/codelists/town.csv")}
    towns = {"a": "North", "b": "South", "c": "South"}
    assert listed == {"_T": None, "North": None, "South": None, **towns}


SEX = {"columns": ["sex"]}
BAD = {
    "unknown key": ({"pack": {"titel": "x"}}, "pack.titel"),
    "no columns": ({"tables": [{"title": "x"}]}, "columns, or rows and cols"),
    "both": ({"tables": [{"columns": ["age"], "rows": ["sex"]}]}, "either columns or rows"),
    "twice": ({"tables": [{"columns": ["age", "age"]}]}, "column twice"),
    "stray total": ({"tables": [{"columns": ["age"], "totals": ["sex"]}]}, "totals: 'sex'"),
    "of": ({"tables": [SEX | {"measure": "mean"}]}, r"of = \.\.\."),
    "percent of means": (
        {"tables": [SEX | {"measure": "mean", "of": "age", "percent": "total"}]},
        "percent requires",
    ),
    "row percent": ({"tables": [SEX | {"percent": "row"}]}, "require rows and cols"),
    "filter on a shown column": ({"tables": [SEX | {"where": {"sex": ["x"]}}]}, "where: 'sex'"),
    "empty filter": ({"tables": [SEX | {"where": {"age": []}}]}, "'age' has no values"),
    "two ids": ({"tables": [SEX | {"id": "a"}, SEX | {"id": "A"}]}, "duplicate ids"),
    "id": ({"tables": [SEX | {"id": "1 x"}]}, "'1 x' is not a valid id"),
    "language": ({"pack": {"languages": ["English"]}}, "codes such as"),
    "two lines": ({"pack": {"languages": ["en\n"]}}, "codes such as"),
    "languages by case": ({"pack": {"languages": ["en-GB", "en-gb"]}}, "listed once"),
    "group": ({"columns": {"age": {"groups": [{"code": "x"}]}}}, "either values or a range"),
    "range": ({"columns": {"age": {"groups": [{"code": "x", "range": [9, 1]}]}}}, r"\[low, high\]"),
    "include": ({"pack": {"include": ["my.key"]}}, "my.key"),
    "script link": ({"pack": {"licence_url": "javascript:alert(1)"}}, "licence_url"),
    "script publisher": ({"pack": {"publisher_url": "data:text/html,x"}}, "publisher_url"),
    "no identifier": ({"pack": {"identifier": ""}}, "pack.identifier"),
    "identifier": ({"pack": {"identifier": "a b"}}, "pack.identifier"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_spec_is_refused(case):
    raw, words = BAD[case]
    with pytest.raises(SpecError, match=words):
        pack_spec_from(raw)


UNKNOWN = {  # all in one spec: columns that the release does not have
    "columns": {"agee": {}},
    "tables": [{"columns": ["sexx"]}, {"columns": ["sex"], "measure": "mean", "of": "regionn"}],
}
COLUMNS = {  # sections that do not fit the release, with what the error names
    "sex": ({"values": {"Femal": "x"}}, "Near: Female"),
    "education": ({"groups": [{"code": "x", "range": [0, 1]}]}, "requires numbers"),
    "age": ({"groups": [{"code": "x", "range": [900, 901]}]}, "no released value lies"),
    "birth_country": ({"groups": [{"code": "x", "values": ["?"]}]}, "no released value '?'"),
    "region": ({"parents": "sex"}, "lies in several values"),
    "income": ({"parents": "sex"}, "no released table has"),
}
UNFIT = (  # tables that do not fit the release
    ({"columns": ["sex", "income"]}, "No released table"),
    ({"columns": ["birth_country"], "measure": "mean", "of": "education"}, "tables, T1: "),
    ({"columns": ["sex"], "subtotals": ["sex"]}, "has no groups"),
    ({"columns": ["age"], "where": {"sex": ["?"]}}, "no released value '?'"),
)
TOO_MANY = (  # tables with more than 20 combinations
    ({"columns": ["age", "sex"], "totals": ["sex"]}, "max_cells"),
    ({"columns": ["income", "education"]}, "no released table"),
)


@pytest.mark.ci
def test_a_spec_that_does_not_fit_the_release_is_refused(opened, tmp_path):
    def problems(raw):
        with pytest.raises(SpecError) as refused:
            publish(opened, tmp_path / "out", pack_spec_from(raw), base=tmp_path)
        assert not list(tmp_path.iterdir())
        return refused.value.problems

    nearest = [p.split("Near: ")[1].split(",")[0] for p in problems(UNKNOWN)]
    assert nearest == ["age", "sex", "region"]
    sections = {name: section for name, (section, _) in COLUMNS.items()}
    found = problems({"columns": sections, "tables": [{"columns": [name]} for name in sections]})
    for name, problem, (_, words) in zip(COLUMNS, found, COLUMNS.values(), strict=True):
        assert problem.startswith(f"columns.{name}.")
        assert words in problem
    for cells, tables in ((20_000, UNFIT), (20, TOO_MANY)):
        entries = [entry | {"id": f"T{i}"} for i, (entry, _) in enumerate(tables)]
        found = problems({"pack": {"max_cells": cells}, "tables": entries})
        for problem, (_, words) in zip(found, tables, strict=True):
            assert words in problem
    (problem,) = problems({"pack": {"include": ["nowhere.pdf"]}})
    assert "there is no file" in problem


def test_a_spec_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(SpecError, match=r"none\.toml"):
        read_pack_spec(tmp_path / "none.toml")
    with pytest.raises(SpecError, match="cannot be read"):
        read_pack_spec(tmp_path)
    (tmp_path / "bad.toml").write_text("[pack")
    with pytest.raises(SpecError, match="is not TOML"):
        read_pack_spec(tmp_path / "bad.toml")


def bands(values, *, kind="integer", type_="BIGINT", resolution=None, counts=None):
    """Bands of made-up values."""
    counted = zip(values, counts or [10] * len(values), strict=True)
    step = None if resolution is None else Resolution.read(resolution)
    column = Column(name="x", kind=kind, value_type="integer", resolution=step)
    return bands_of(
        "x",
        SimpleNamespace(
            release=SimpleNamespace(
                values=lambda _: [(v, None, n) for v, n in counted],
                described={"x": column},
                columns={"x": type_},
            ),
            words=pack_words({}, ["en"]),
            languages=("en",),
        ),
    )


def labels(found):
    return [band.labels[0] for band in found]


def test_whole_numbers():
    assert labels(bands(range(95)))[:2] == ["0–9", "10–19"]
    assert labels(bands(range(95)))[-1] == "90–99"
    found = bands(range(95), counts=[100] * 80 + [1] * 15)
    assert labels(found)[-1] == "70 and over"
    assert found[-1].limits == (70, None)
    found = bands([-500, *range(40)], counts=[1] + [100] * 40)
    assert (labels(found)[0], found[0].limits) == ("under 5", (None, 4))
    assert labels(bands(range(0, 2_000_000, 20_000)))[1] == "200,000–399,999"


def test_few_values_and_those_without_an_order_have_no_bands():
    assert bands(range(MOST_VALUES)) == []
    assert bands([str(i) for i in range(99)], kind="text", type_="VARCHAR") == []
    assert bands(range(99), kind="category") == []


@pytest.mark.parametrize(
    ("days", "first"),
    [(12_000, "1990–1994"), (3_600, "1990"), (900, "1990Q1"), (300, "1990-01")],
)
def test_dates(days, first):
    start = datetime.date(1990, 1, 1)
    found = bands(
        [start + datetime.timedelta(days=i) for i in range(0, days, days // 50)],
        kind="date",
        type_="DATE",
    )
    assert labels(found)[0] == first
    assert found[0].limits[0] == start
    assert all(a.limits[1] < b.limits[0] for a, b in itertools.pairwise(found))


COUNTED = st.tuples(st.integers(-(10**9), 10**9), st.integers(0, 99))


@settings(max_examples=25)
@given(st.lists(COUNTED, min_size=21, unique_by=lambda pair: pair[0]))
def test_every_value_lies_in_one_band(pairs):
    pairs.sort()
    found = bands([v for v, _ in pairs], counts=[n for _, n in pairs])
    assert 1 <= len(found) <= MOST_BANDS
    assert len({band.code for band in found}) == len({band.labels for band in found}) == len(found)
    for value, _ in pairs:
        assert sum(band.contains(value) for band in found) == 1


STEPS = [("0.1", "1e-1"), ("0.3", "1e-1"), ("2.5", "1e-1"), ("0.125", "1e-3"), ("0.125", "0.125")]


@pytest.mark.parametrize("type_", ["DOUBLE", "DECIMAL(18,3)"])
@pytest.mark.parametrize(("step", "resolution"), STEPS)
def test_every_real_lies_in_the_band_that_its_label_names(type_, step, resolution):
    for start, n in itertools.product((-190, 345, 10**6), (21, 60)):
        exact = [(start + i) * Decimal(step) for i in range(n)]
        values = [float(x) for x in exact] if type_ == "DOUBLE" else exact
        found = bands(values, kind="real", type_=type_, resolution=resolution)
        assert 3 <= len(found) <= MOST_BANDS
        for value, true in zip(values, exact, strict=True):
            (band,) = (b for b in found if b.contains(value))
            low, after = (Decimal(x.replace(",", "")) for x in band.labels[0].split(" to under "))
            assert low <= true < after


def in_one_band(values, **kind):
    found = bands(values, **kind)
    assert {sum(band.contains(value) for band in found) for value in values} == {1}


@pytest.mark.parametrize("days", [21, 300, 90_000, 700_000])
@pytest.mark.parametrize("start", ["0001-01-01", "2024-02-29"])
@pytest.mark.parametrize("of_type", [datetime.date, datetime.datetime])
def test_every_date_lies_in_one_band(days, start, of_type):
    first, gap = of_type.fromisoformat(start), datetime.timedelta(days=max(days // 50, 1))
    values = [first + i * gap for i in range(days // gap.days)]
    type_ = "DATE" if of_type is datetime.date else "TIMESTAMP"
    in_one_band([*values, of_type(9999, 12, 31)], kind="date", type_=type_)
    if bands(values, kind="date", type_=type_):
        in_one_band(values, kind="date", type_=type_)
    else:
        assert days <= 60


@pytest.mark.ci
def test_a_pack_without_tables_has_bands_and_everybody_is_in_one(opened):
    pack = preview(opened, pack_spec_from({"pack": {"max_cells": 60, "max_tables": 7}}))
    by_names = {tuple(d.name for d in t.dimensions): t for t in pack.tables}
    age, pair, income = (by_names[n] for n in (("age",), ("age", "sex"), ("region", "income")))

    def kinds(table, j):
        return {table.dimensions[j].items[p].kind for p in table.index[:, j]}

    assert kinds(age, 0) == {"group"}
    assert len(age) <= MOST_BANDS
    assert age.value.sum() == opened.sql("SELECT count(*) FROM data WHERE age >= 0").rows[0][0]
    assert len(pair) == 2 * len(age)
    assert kinds(pair, 0) == {"group"}
    assert income.is_listed  # too many combinations even in bands: as they were measured
    assert kinds(income, 1) <= {"value", "blank"}
    assert [len(t.dimensions) for t in pack.tables] == [1, 1, 1, 2, 2, 2, 2]  # the narrowest
    nobody, warning = pack.warnings
    assert nobody.startswith("no publisher: ")
    assert warning.startswith("pack.max_tables: 9 tables are released; the 7 narrowest")


@pytest.mark.ci
def test_without_a_spec_every_narrow_table_is_published(opened):
    pack = preview(opened)
    assert [{d.name for d in t.dimensions} for t in pack.tables] == [set(t) for t in opened.tables]
    (nobody,) = pack.warnings
    assert nobody.startswith("no publisher: ")
    assert pack_spec_from({}).pack.max_tables == 200
    income = next(t for t in pack.tables if {d.name for d in t.dimensions} == {"region", "income"})
    j = next(j for j, d in enumerate(income.dimensions) if d.name == "income")
    assert {income.dimensions[j].items[p].kind for p in income.index[:, j]} == {"group", "blank"}


def test_declared_groups_replace_bands(opened):
    groups = [{"code": "young", "range": [0, 39]}, {"code": "old", "range": [40, 105]}]
    spec = pack_spec_from({"pack": {"max_width": 1}, "columns": {"age": {"groups": groups}}})
    (table,) = [t for t in preview(opened, spec).tables if t.dimensions[0].name == "age"]
    codes = [table.dimensions[0].items[p].code for p in table.index[:, 0]]
    assert codes == ["young", "old"]
