"""Codes of values: numbers, dates, times of day and texts as a build encodes them; nulls where none may be."""

from __future__ import annotations

import datetime as dt
import sqlite3
from dataclasses import replace
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from fixtures.source import CENT, EIGHTH, THOUSAND, N, code_of, col, connection, load, text
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import DataError
from engine.periods import PERIODS
from engine.schema import Resolution, SourceSpec, Writing
from engine.source import grid_code, open_source
from engine.source.encoding import cell_sql, value_sql
from engine.source.ingest import ingest
from engine.source.scratch import confidential_connection
from engine.store import grid_value


@pytest.mark.ci
@pytest.mark.parametrize(
    ("column", "cells", "expected"),
    [
        (
            col("integer"),
            text("5", "-7", "15400.0", "", None, " 3", "+4", "1e3"),
            [5, -7, 15400, N, N, 3, 4, 1000],
        ),
        (col("integer"), [1.0, np.nan, -0.0, 2.0**53], [1, N, 0, 2**53]),
        (
            col("integer"),
            pd.array([2**63 - 2, None, -(2**63) + 2], dtype="Int64"),
            [2**63 - 2, N, -(2**63) + 2],
        ),
        (col("integer"), text(str(2**63 - 2), f"{2**63 - 2}.0"), [2**63 - 2, 2**63 - 2]),
        (col("integer"), pa.array([Decimal("3.00"), None]), [3, N]),
        (col("integer"), pa.array([1, 255], pa.uint8()), [1, 255]),
        (col("integer"), pd.Series([2**40, None, 7], dtype=object), [2**40, N, 7]),
        (col("integer"), pd.Series([4, None, 7], dtype=object).astype("category"), [4, N, 7]),
        (col("integer", nulls=("N", "")), text("1", "N", "", "2"), [1, N, N, 2]),
        (
            col("real", resolution=CENT),
            [0.1, -0.0, np.nan, 1.005, 0.125, 0.375],
            [10, 0, N, 100, 12, 38],
        ),
        (
            col("real", resolution=CENT),
            text("0.1", "-0.0", "", "1.005", "1e2"),
            [10, 0, N, 100, 10000],
        ),
        (col("real", resolution=CENT), pd.Series([0.1, 2.5], dtype="float32"), [10, 250]),
        (col("real", resolution=CENT), pd.Series([1, 2.5, None], dtype=object), [100, 250, N]),
        (col("real", resolution=EIGHTH), [0.125, -0.25, 0.1875], [1, -2, 2]),
        (col("real", resolution=THOUSAND), [1499.0, 2500.0, -3500.0], [1, 2, -4]),
        (col("real", resolution=Resolution()), [3, 4], [3, 4]),
        (
            col("decimal", resolution=CENT),
            text("1.015", "-1.015", "12.3", "7", "1e-1"),
            [102, -102, 1230, 700, 10],
        ),
        (
            col("decimal", resolution=CENT),
            [1.015, -1.015, 12.3, np.nan, -0.0],
            [102, -102, 1230, N, 0],
        ),
        (col("decimal", resolution=CENT), pa.array([Decimal("1.015"), None]), [102, N]),
        (col("decimal", resolution=CENT), [3, 4], [300, 400]),
        (col("decimal", resolution=THOUSAND), text("1499", "2500"), [1, 2]),
        (
            col("boolean"),
            text("true", "False", "1", "0", "T", "f", "1.0", ""),
            [1, 0, 1, 0, 1, 0, 1, N],
        ),
        (col("boolean"), [True, False], [1, 0]),
        (col("boolean"), [1.0, 0.0, np.nan], [1, 0, N]),
        (col("boolean"), pa.array([Decimal(1), None]), [1, N]),
        (col("boolean"), pd.Series([True, None, False], dtype=object), [1, N, 0]),
        (
            col("date"),
            text(
                "1970-01-02", "1969-12-31", "1890-01-01", "12000-01-01", "2020-01-01 00:00:00", ""
            ),
            [1, -1, -29219, 3663382, 18262, N],
        ),
        (col("date"), pd.to_datetime(pd.Series(["1970-01-02", None])), [1, N]),
        (col("date"), pd.Series([dt.date(9999, 12, 31), None], dtype=object), [2932896, N]),
        (col("date"), pa.array([1, -29219], pa.date32()), [1, -29219]),
        (col("date"), pd.to_datetime(pd.Series(["1970-01-02"])).dt.tz_localize("UTC"), [1]),
        (
            col("timestamp"),
            text(
                "1970-01-01 00:00:01.9",
                "1969-12-31 23:59:59.5",
                "1970-01-01T00:00:02Z",
                "1970-01-01",
            ),
            [1, -1, 2, 0],
        ),
        (col("timestamp"), text("1970-01-01 01:00:01+01:00", "1970-01-01 00:00:05-00"), [1, 5]),
        (col("timestamp"), pd.to_datetime(pd.Series(["1969-12-31 23:59:58.5", None])), [-2, N]),
        (col("timestamp"), pa.array([1, -1], pa.timestamp("ns")), [0, -1]),
        (col("timestamp"), pa.array([1], pa.date32()), [86400]),
        (  # what clocks showed there
            col("timestamp"),
            pd.to_datetime(pd.Series(["1970-01-01 01:00"])).dt.tz_localize("Europe/Paris"),
            [3600],
        ),
    ],
)
def test_grid_codes(column, cells, expected):
    assert code_of(cells, column) == expected


@pytest.mark.ci
@pytest.mark.parametrize(
    ("column", "cells", "values", "expected"),
    [
        (col("text"), text("b", "", "é", "Z", None, "a"), ("Z", "a", "b", "é"), [2, N, 3, 0, N, 1]),
        (col("text"), text("\U0001f600", "\uffff"), ("\uffff", "\U0001f600"), [1, 0]),
        (col("text", nulls=()), text("b", "", None), ("", "b"), [1, 0, N]),
        (col("text"), [1.0, np.nan, 10.0, 2.5], ("1", "10", "2.5"), [0, N, 1, 2]),
        (col("text"), [1, 10, 2], ("1", "10", "2"), [0, 1, 2]),
        (col("text"), pa.array([2**64 - 1], pa.uint64()), (str(2**64 - 1),), [0]),
        (col("category"), text("x", "y", "x").astype("category"), ("x", "y"), [0, 1, 0]),
        (col("category"), pa.array(["x", "y", "x"]).dictionary_encode(), ("x", "y"), [0, 1, 0]),
        (
            col("category", value_type="integer"),
            text("10", "9.0", "", "-1"),
            (-1, 9, 10),
            [2, 1, N, 0],
        ),
        (col("category", value_type="integer"), [10.0, np.nan, 9.0], (9, 10), [1, N, 0]),
        (col("category", value_type="real"), text("-0.0", "0", "2.5"), (0.0, 2.5), [0, 0, 1]),
        (col("category", value_type="decimal"), pa.array([Decimal("2.50"), None]), (2.5,), [0, N]),
        (col("category", value_type="boolean"), text("1", "false", ""), (False, True), [1, 0, N]),
        (
            col("category", value_type="date"),
            text("2020-01-02", "1890-01-01"),
            (dt.date(1890, 1, 1), dt.date(2020, 1, 2)),
            [1, 0],
        ),
        (
            col("category", value_type="timestamp"),
            text("2020-01-02 00:00:01", ""),
            (dt.datetime(2020, 1, 2, 0, 0, 1),),
            [0, N],
        ),
        (col("category"), text(None, ""), (), [N, N]),
        (col("text", domain=("b", "a", "c")), text("a", "b"), ("a", "b"), [0, 1]),
    ],
)
def test_dictionaries(column, cells, values, expected):
    cells_in_order = code_of(cells, column)
    frame = pa.table({"v": cells}) if isinstance(cells, pa.Array) else pd.DataFrame({"v": cells})
    found = load(frame, [column]).dictionaries["v"]
    assert found == values
    assert [type(v) for v in found] == [type(v) for v in values]
    assert cells_in_order == expected


@settings(max_examples=8)
@given(
    st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=30),
    st.sampled_from([CENT, EIGHTH, THOUSAND]),
)
def test_reals_are_rounded_half_to_even(values, step):
    factor = float(step.base ** abs(step.exponent))
    scaled = np.array(values) * factor if step.exponent < 0 else np.array(values) / factor
    column = col("real", resolution=step)
    assert code_of(values, column) == np.rint(scaled).astype(np.int64).tolist()
    assert [grid_code(column, value) for value in values] == np.rint(scaled).astype(
        np.int64
    ).tolist()


@settings(max_examples=8)
@given(
    st.lists(st.integers(-(2**63) + 2, 2**63 - 2), min_size=1, max_size=30),
    st.sampled_from([1, 5, 100, 10**15]),
)
def test_whole_numbers_are_rounded_to_the_nearest_multiple(values, step):
    column = col("integer", resolution=Resolution.read(step))
    codes = code_of(pd.array(values, dtype="Int64"), column)
    assert codes == [grid_code(column, value) for value in values]
    for value, code in zip(values, codes, strict=True):
        assert -step <= 2 * (value - grid_value(column, code)) < step + (step == 1)


def first_moment(value, period):
    """The first day or second of a period, by the calendar."""
    day = value.date() if isinstance(value, dt.datetime) else value
    match period:
        case "minute":
            return value.replace(second=0)
        case "hour":
            return value.replace(minute=0, second=0)
        case "day":
            return value.replace(hour=0, minute=0, second=0)
        case "week":
            start = day - dt.timedelta(days=day.weekday())
        case _:
            month = {"month": day.month, "quarter": (day.month - 1) // 3 * 3 + 1, "year": 1}
            start = day.replace(month=month[period], day=1)
    is_moment = isinstance(value, dt.datetime)
    return dt.datetime.combine(start, dt.time()) if is_moment else start


@settings(max_examples=10)
@given(
    st.lists(st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)), min_size=1, max_size=20)
)
def test_dates_and_moments_stand_for_the_period_that_holds_them(moments):
    moments = [moment.replace(microsecond=0) for moment in moments]
    for kind, periods in PERIODS.items():
        if kind == "time":
            continue
        values = [m.date() for m in moments] if kind == "date" else moments
        for period in periods:
            column = col(kind, resolution=Resolution(period=period))
            codes = code_of([value.isoformat() for value in values], column)
            assert codes == [grid_code(column, value) for value in values]
            shown = [grid_value(column, code) for code in codes]
            assert shown == [first_moment(value, period) for value in values]


def test_times_of_day_stand_for_their_hour():
    column = col("time", resolution=Resolution(period="hour"))
    codes = code_of(["00:59:59", "23:00"], column)
    assert [grid_value(column, code) for code in codes] == [dt.time(0), dt.time(23)]


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        (col("integer"), 5, 5),
        (col("date", resolution=Resolution(period="week")), dt.date(1970, 1, 5), 1),
        (col("date", resolution=Resolution(period="quarter")), dt.date(1969, 12, 31), -1),
        (col("boolean"), True, 1),
        (col("date"), dt.date(1969, 12, 31), -1),
        (col("timestamp"), dt.datetime(1970, 1, 1, 0, 0, 1, 900_000), 1),
        (col("timestamp"), dt.datetime(1969, 12, 31, 23, 59, 59, 500_000), -1),
        (col("timestamp"), dt.date(1970, 1, 2), 86400),
        (col("decimal", resolution=CENT), 1.015, 102),
        (col("decimal", resolution=CENT), -12.3, -1230),
        (col("decimal", resolution=THOUSAND), 2500, 2),
        (col("real", resolution=CENT), 0.125, 12),
    ],
)
def test_codes_of_spec_values(column, value, expected):
    assert grid_code(column, value) == expected


FORMATS = (
    "%d/%m/%y",
    "%m/%d/%y",
    "%d.%m.%y",
    "%d-%m-%y",
    "%m-%d-%y",
    "%y-%m-%d",
    "%y/%m/%d",
    "%y.%m.%d",
    "%d-%b-%y",
    "%d %b %y",
    "%d.%m.%y %H:%M",
    "%m/%d/%y %H:%M:%S",
)
CENTURIES = ("1850..1949", "1900..1999", "1927..2026", "1969..2068", "2000..2099", "2050..2149")


def values(column, cells):
    """Cells of text as a build, an evaluation and a list of values read them."""
    con = connection()
    con.execute("CREATE TABLE source AS SELECT unnest(?::VARCHAR[]) AS v", [list(cells)])
    column = replace(column, name="v")
    read = value_sql(column, "VARCHAR", cell_sql(column, "VARCHAR"))
    return [v for (v,) in con.execute(f"SELECT {read} FROM source ORDER BY rowid").fetchall()]


def dated(date_format, century="", kind="date"):
    return col(kind, writing=Writing(date_format=date_format, century=century))


@pytest.mark.parametrize("century", CENTURIES)
@pytest.mark.parametrize("form", FORMATS)
def test_years_of_two_digits_lie_in_the_century(form, century):
    first = dt.datetime(int(century[:4]), 1, 1, 21, 45)
    days = [first + dt.timedelta(days=97 * i) for i in range(376)]  # to the last year
    assert {d.year for d in days} >= {int(century[:4]), int(century[6:])}
    column = dated(form, century, "timestamp")
    expected = [d if "%H" in form else d.replace(hour=0, minute=0) for d in days]
    assert values(column, [d.strftime(form) for d in days]) == expected


@pytest.mark.parametrize(
    ("form", "century", "cell", "day"),
    [
        ("%d/%m/%y", "1950..2049", "29/02/00", dt.date(2000, 2, 29)),
        ("%d/%m/%y", "1900..1999", "29/02/00", None),  # 1900 was no leap year
        ("%d/%m/%y", "2050..2149", "29/02/00", None),
        ("%d/%m/%y", "1900..1999", "28/02/00", dt.date(1900, 2, 28)),
        ("%d/%m/%y", "1900..1999", "01/05/1935", None),
        ("%d/%m/%Y", "1900..1999", "01/05/35", None),
        ("%d/%m/%Y", "2000..2099", "01/05/1935", dt.date(1935, 5, 1)),
        ("%d.%m.%y (%%y)", "1900..1999", "01.05.35 (%y)", dt.date(1935, 5, 1)),
        ("%d.%m.%Y (%%y)", "1900..1999", "01.05.2035 (%y)", dt.date(2035, 5, 1)),
        ("", "1900..1999", "35-01-31", None),
        ("", "", "05/03/12", None),
        ("", "", "1935-01-31", dt.date(1935, 1, 31)),
        ("", "", "0001-01-01 00:00:00", dt.date(1, 1, 1)),
    ],
)
def test_a_year_of_two_digits_is_never_guessed(form, century, cell, day):
    assert values(dated(form, century), [cell]) == [day]
    column = dated(form, century)
    assert code_of(text(cell, None), column) == [grid_code(column, day), N] if day else True


# Times of day.
TIME = col("time")
NOON = 12 * 3600


@pytest.mark.parametrize(
    ("cells", "codes"),
    [
        (text("00:00:00", "20:45:01", "23:59:59", None), [0, 74701, 86399, N]),
        (text("20:45", "7:05", " 06:00 "), [74700, 25500, 21600]),
        (text("12:00:00.999", "12:00:00,5", "12:00:00.000001"), [NOON] * 3),
        (text("24:00:00", "24:00"), [0, 0]),
        (text("08:45 PM", "8:45:01 am", "12:00 AM", "12:30pm"), [74700, 31501, 0, NOON + 1800]),
        (pd.Series([dt.time(20, 45, 1, 900_000), None], dtype=object), [74701, N]),
        (pa.array([60, None], pa.time32("s")), [60, N]),
        (pa.array([60_999], pa.time32("ms")), [60]),
        (pa.array([60_999_999], pa.time64("us")), [60]),
        (pa.array([60_999_999_999, None], pa.time64("ns")), [60, N]),
    ],
)
def test_times_are_seconds_since_midnight(cells, codes):
    assert code_of(cells, TIME) == codes


@pytest.mark.parametrize(
    "cell",
    [
        "100:30:00",
        "25:00",
        "24:00:01",
        "12:60",
        "13:00 PM",
        "20:45:00+02:00",
        "16:9",
        "-01:00",
        "1",
    ],
)
def test_what_is_no_time_of_day_is_refused(cell):
    with pytest.raises(DataError, match="not times of day") as error:
        code_of(text(cell, "12:00"), TIME)
    assert cell not in str(error.value).replace("HH:MM", "")


def stored(path, form):
    """Three times in a file."""
    times = ["06:00:00", "20:45:01", "23:59:59"]
    made = f"SELECT CAST(unnest({times}) AS TIME) AS v"
    if form == "sqlite":
        with sqlite3.connect(path) as con:
            con.execute("CREATE TABLE t (v TEXT)")
            con.executemany("INSERT INTO t VALUES (?)", [(t,) for t in times])
    elif form == "duckdb":
        with duckdb.connect(str(path)) as con:
            con.execute(f"CREATE TABLE t AS {made}")
    elif form == "xlsx":
        cells = pd.DataFrame({"v": [dt.time.fromisoformat(t) for t in times]})
        cells.to_excel(path, index=False, engine="xlsxwriter")
    else:
        duckdb.sql(made).write_parquet(str(path))


@pytest.mark.parametrize("form", ["parquet", "duckdb", "sqlite", "xlsx"])
def test_times_of_any_source(tmp_path, form):
    path = tmp_path / f"a.{form}"
    stored(path, form)
    con = connection()
    source = open_source(con, SourceSpec(path=str(path), format=form))
    ingest(con, source, (TIME,))
    codes = [code for (code,) in con.execute("SELECT c0 FROM rows ORDER BY 1").fetchall()]
    assert codes == [21600, 74701, 86399]


@pytest.mark.parametrize("nulls", [[], [None], [None, None]])
def test_a_null_where_none_may_be(nulls, tmp_path):
    told = (
        col("integer", "full", public=True, bounds=(0, 9), nullable=False),
        col("category", "also", public=True, domain=("x", "y"), nullable=False),
        col("integer", "free", public=True, bounds=(0, 9)),
    )
    frame = pd.DataFrame(
        {
            "full": pd.array([1, 2, 3, *nulls], dtype="Int64"),
            "also": ["x", "y", "x", *nulls],
            "free": pd.array([None, *([4] * (2 + len(nulls)))], dtype="Int64"),
        }
    )
    with confidential_connection(tmp_path) as con:
        source = open_source(con, SourceSpec(path=None, format="frame"), frame)
        if not nulls:
            assert ingest(con, source, told).n_rows == 3
            return
        with pytest.raises(DataError) as caught:
            ingest(con, source, told)
    assert str(caught.value).splitlines() == [
        "column 'also': holds a null, declared \"nullable = false\"",
        "column 'full': holds a null, declared \"nullable = false\"",
    ]
