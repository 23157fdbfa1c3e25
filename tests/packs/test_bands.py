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


def bands(values, *, kind="integer", type_="BIGINT", base=None, exponent=None, counts=None):
    """Bands of made-up values."""
    counted = zip(values, counts or [10] * len(values), strict=True)
    row = SimpleNamespace(fetchall=lambda: [(kind, type_, base, exponent)])
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


def test_codes_of_open_bands_are_open_as_their_labels():
    found = bands(range(95), counts=[100] * 80 + [1] * 15)
    assert [band.code for band in found[-2:]] == ["60-69", "GE70"]
    found = bands([-500, *range(40)], counts=[1] + [100] * 40)
    assert [band.code for band in found[:2]] == ["LT5", "5-9"]
    days = [
        datetime.date(1700, 1, 1) + datetime.timedelta(days=i)
        for i in (0, *range(99_000, 110_000, 100))
    ]
    found = bands(days, kind="date", type_="DATE", counts=[1] + [100] * (len(days) - 1))
    assert (found[0].code, labels(found)[0]) == ("LT1975", "before 1975")


def test_times_of_day():
    times = [
        (datetime.datetime.min + datetime.timedelta(seconds=59 * i)).time() for i in range(1464)
    ]
    found = bands(times, kind="time", type_="TIME")
    assert [len(found), *labels(found)[:2], labels(found)[-1]] == [
        12,
        "00:00–01:59",
        "02:00–03:59",
        "22:00–23:59",
    ]
    assert (found[3].code, found[3].limits) == (
        "0600-0759",
        (datetime.time(6), datetime.time(7, 59, 59)),
    )
    mornings = [t for t in times if 6 <= t.hour < 9]
    assert labels(bands(mornings, kind="time", type_="TIME"))[0] == "06:00–06:14"
    found = bands(
        [times[0], *mornings], kind="time", type_="TIME", counts=[1] + [90] * len(mornings)
    )
    assert (labels(found)[0], found[0].code) == ("before 06:15", "LT0615")


def test_few_values_and_those_without_an_order_have_no_bands():
    assert bands(range(MOST_VALUES)) == []
    assert bands([str(i) for i in range(99)], kind="text", type_="VARCHAR") == []
    assert bands(range(99), kind="category") == []


def test_numbers_with_a_fraction():
    money = {"kind": "decimal", "type_": "DECIMAL(18,2)", "base": 10, "exponent": -2}
    found = bands([Decimal(i) / 4 for i in range(200)], **money)
    assert labels(found)[:2] == ["0 to under 5", "5 to under 10"]
    assert found[0].limits == (Decimal("0.00"), Decimal("4.99"))
    small = {"kind": "real", "type_": "DOUBLE", "base": 2, "exponent": -3}
    found = bands([i / 8 for i in range(40)], **small)
    assert labels(found)[:2] == ["0.0 to under 0.5", "0.5 to under 1.0"]
    assert found[0].limits == (0.0, 0.375)


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


STEPS = [("0.1", -1, 10), ("0.3", -1, 10), ("2.5", -1, 10), ("0.125", -3, 10), ("0.125", -3, 2)]


@pytest.mark.parametrize("type_", ["DOUBLE", "DECIMAL(18,3)"])
@pytest.mark.parametrize(("step", "exponent", "base"), STEPS)
def test_every_real_lies_in_the_band_that_its_label_names(type_, step, exponent, base):
    for start, n in itertools.product((-190, 345, 10**6), (21, 60)):
        exact = [(start + i) * Decimal(step) for i in range(n)]
        values = [float(x) for x in exact] if type_ == "DOUBLE" else exact
        found = bands(values, kind="real", type_=type_, base=base, exponent=exponent)
        assert 3 <= len(found) <= MOST_BANDS
        for value, true in zip(values, exact, strict=True):
            (band,) = (b for b in found if b.contains(value))
            low, after = (Decimal(x.replace(",", "")) for x in band.labels[0].split(" to under "))
            assert low <= true < after


def in_one_band(values, **kind):
    found = bands(values, **kind)
    assert {sum(band.contains(value) for band in found) for value in values} == {1}


def test_numbers_whose_neighbours_are_hard_to_tell():
    # Floats that are further apart than the column's steps; decimals without a declared resolution.
    in_one_band(
        [1e17 + 16 * i for i in range(-60, 60)], kind="real", type_="DOUBLE", base=10, exponent=0
    )
    in_one_band([Decimal(i) / 4 for i in range(-30, 30)], kind="decimal", type_="DECIMAL(18,2)")


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


SPIKES = [
    (range(-30, 40), {0: 6_000}),  # some below and above
    (range(40), {0: 6_000}),  # one side only
    (range(-39, 1), {0: 6_000}),
    (range(40), {0: 3_000, 1: 3_000}),  # two values
    ([*range(40), 10**9], {0: 10**6}),
    ([10**6 * i for i in range(-9, 30)], {0: 10**7}),
]


@pytest.mark.parametrize(("values", "spikes"), SPIKES)
def test_where_nearly_all_have_one_value_others_have_bands_of_their_own(values, spikes):
    found = bands(values, counts=[spikes.get(v, 1) for v in values])
    assert len(found) >= 3
    for value in values:
        (band,) = (b for b in found if b.contains(value))
        label = band.labels[0].replace(",", "")
        low, _, high = label.partition("–")
        if label.startswith("under "):
            assert value < int(label.removeprefix("under "))
        elif label.endswith(" and over"):
            assert value >= int(label.removesuffix(" and over"))
        else:
            assert int(low) <= value <= int(high or low)


def test_counts_of_zero_give_bands_of_the_whole_range():
    found = bands(range(40), counts=[0] * 40)
    assert (labels(found)[0], labels(found)[-1]) == ("0–4", "35–39")


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
    (warning,) = pack.warnings
    assert warning.startswith("pack.max_tables: 9 tables are released; the 7 narrowest")


@pytest.mark.ci
def test_without_a_spec_every_narrow_table_is_published(opened):
    pack = preview(opened)
    assert [{d.name for d in t.dimensions} for t in pack.tables] == [set(t) for t in opened.tables]
    assert pack.warnings == ()
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
