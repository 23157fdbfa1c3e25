"""Default packs: bands of columns with many numbers or dates, and a limited number of tables."""

from __future__ import annotations

import datetime
import itertools
from decimal import Decimal
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queries.packs import pack_spec_from, preview
from queries.packs.bands import MOST_BANDS, MOST_VALUES, bands_of
from queries.packs.texts import pack_words


def bands(values, *, kind="integer", type_="BIGINT", resolution=None, counts=None):
    """Bands of made-up values."""
    counted = zip(values, counts or [10] * len(values), strict=True)
    row = SimpleNamespace(fetchall=lambda: [(kind, type_, resolution)])
    return bands_of(
        "x",
        SimpleNamespace(
            release=SimpleNamespace(values=lambda _: [(v, None, n) for v, n in counted]),
            con=SimpleNamespace(execute=lambda *_: row),
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
