"""Two-digit years within a stated century, and times of day: how cells are read, and what is detected."""

from __future__ import annotations

import datetime as dt
import sqlite3
from dataclasses import replace

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from fixtures.detect import accepted, found, one
from fixtures.source import N, code_of, col, connection, text

from engine.errors import DataError
from engine.schema import SourceSpec, Writing
from engine.source import open_source
from engine.source.detection import detect_source
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


def test_a_day_that_the_century_lacks_is_refused():
    with pytest.raises(DataError, match=r'"%d/%m/%y" has it in the years 1900\.\.1999'):
        code_of(text("29/02/00"), dated("%d/%m/%y", "1900..1999"))


def test_no_birth_lies_ahead_of_the_century_that_is_proposed(tmp_path):
    births = [dt.datetime(1935, 1, 1, 7, 30) + dt.timedelta(days=67 * i) for i in range(390)]
    forms = ["%d/%m/%y", "%m-%d-%y", "%y-%m-%d", "%d.%m.%y %H:%M", "%d-%b-%y", "%d.%m.%Y"]
    cells = {form: [d.strftime(form) for d in births] for form in forms}
    _, detection = one(cells[forms[0]], **cells)
    spec = accepted(tmp_path, detection)
    this_year = dt.date.today().year
    century = f"{this_year - 99}..{this_year}"
    for column in (c for c in spec.columns if c.name in forms):
        is_short = "%y" in column.name
        assert column.writing.date_format == column.name
        assert column.writing.century == century if is_short else not column.writing.has_short_years
        assert ("century" in column.detected) == is_short
        assert (century in " ".join(detection.column_remarks.get(column.name, ()))) == is_short
        has_time = "%H" in column.name
        expected = births if has_time else [d.date() for d in births]
        assert values(column, cells[column.name]) == expected


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


def test_times_as_a_list_of_values_are_times():
    assert values(col("category", value_type="time"), ["20:45", "6:00 pm", "x"]) == [
        dt.time(20, 45),
        dt.time(18, 0),
        None,
    ]


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


MINUTES = [f"{i * 7 % 24:02}:{i * 13 % 60:02}" for i in range(360)]


TIMES = {
    "minutes": MINUTES,
    "seconds": [f"{t}:{i % 60:02}" for i, t in enumerate(MINUTES)],
    "fractions": [f"{t}:{i % 60:02}.{i:03}" for i, t in enumerate(MINUTES)],
    "halves": [f"{int(t[:2]) % 12 + 1}{t[2:]} {'AM' if int(t[:2]) < 9 else 'PM'}" for t in MINUTES],
    "some": [t if i % 9 else "NA" for i, t in enumerate(MINUTES)],
    "shifts": ["06:00", "14:00", "22:00"] * 120,
}
OTHERS = {
    "spans": [f"{i % 130 + 20}:{i * 13 % 60:02}:00" for i in range(360)],
    "shares": [f"{i % 16 + 1}:{i % 9 + 1}" for i in range(360)],
    "ranges": [f"{i % 20}:00-{i % 20 + 4}:00" for i in range(360)],
    "hours": [i % 24 for i in range(360)],
}


@pytest.mark.ci
def test_texts_that_are_times_of_day_and_others(tmp_path):
    _, detection = one(MINUTES, **TIMES, **OTHERS)
    columns = {c.name: c for c in accepted(tmp_path, detection).columns}
    for name, cells in TIMES.items():
        assert columns[name].kind == "time", name
        assert None not in values(columns[name], [c for c in cells if c != "NA"])
        assert "fractions of a second are cut off" in " ".join(detection.column_remarks[name])
    kinds = {c.name: c.kind for c in detection.columns}
    assert "time" not in [kinds[name] for name in OTHERS]


def test_typed_times_are_detected(tmp_path):
    frame = pd.DataFrame({"v": [dt.time(i * 7 % 24, i * 13 % 60) for i in range(360)]})
    frame.to_parquet(tmp_path / "a.parquet")
    assert [c.kind for c in detect_source(tmp_path / "a.parquet").columns] == ["time"]
    for data in (frame, pa.Table.from_pandas(frame)):
        assert [c.kind for c in found(data).columns] == ["time"]
