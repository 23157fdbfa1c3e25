"""Two-digit years within a stated century, and times of day: how cells are read, and what is detected."""

from __future__ import annotations

import datetime as dt
import sqlite3
from dataclasses import replace

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from fixtures.source import N, code_of, col, connection, text

from engine.errors import DataError
from engine.schema import SourceSpec, Writing
from engine.source import open_source
from engine.source.encoding import cell_sql, grid_code, value_sql
from engine.source.ingest import ingest

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
