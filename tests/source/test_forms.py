"""Forms of sources: encodings, delimiters, workbooks, databases, several files, SQL over them."""

from __future__ import annotations

import datetime
import importlib.util
import sqlite3
import sys

import duckdb
import pandas as pd
import pytest
import xlsxwriter
from fixtures.source import connection

from engine.errors import DataError, SpecError
from engine.schema import SourceSpec, Writing
from engine.source import open_source
from engine.source.detection import detect_source, spec_text
from engine.source.encoding import plain_sql
from engine.source.forms.databases import Table
from engine.source.forms.text import found_form
from engine.spec import read_spec

ROWS = [("Köln", "1,5"), ("Zürich", "2,5")]
TEXT = "Ort;Größe\n" + "".join(f"{a};{b}\n" for a, b in ROWS)


def rows(path, form="csv", **keys):
    con = connection()
    opened = open_source(con, SourceSpec(path=str(path), format=form, **keys))
    return opened, sorted(con.execute("SELECT * FROM source").fetchall())


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "utf-8-sig"])
def test_text_of_any_encoding(tmp_path, encoding):
    path = tmp_path / "a.csv"
    path.write_bytes(TEXT.encode(encoding))
    opened, found = rows(path, encoding=encoding)
    assert opened.columns == ("Ort", "Größe")
    assert found == ROWS


def test_text_that_is_not_of_its_encoding(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(TEXT.encode("latin-1"))
    with pytest.raises(DataError, match="say in"):
        rows(path)
    with pytest.raises(DataError, match="is not ascii text"):
        rows(path, encoding="ascii")


@pytest.fixture
def workbook(tmp_path):
    path = tmp_path / "book.xlsx"
    book = xlsxwriter.Workbook(path)
    notes, data = book.add_worksheet("Notes"), book.add_worksheet("Data")
    notes.write(0, 0, "made by hand")
    data.write(0, 0, "Report")
    day = book.add_format({"num_format": "yyyy-mm-dd"})
    for j, name in enumerate(("age", "day", "ok")):
        data.write(2, j, name)
    for i in range(3):
        data.write(3 + i, 0, 30 + i)
        data.write_datetime(3 + i, 1, pd.Timestamp("2021-03-01"), day)
        data.write_boolean(3 + i, 2, True)
    book.close()
    return path


def test_workbook_with_title_rows_and_several_sheets(workbook):
    opened, found = rows(workbook, "xlsx", sheet="Data", skip=1)
    assert opened.columns == ("age", "day", "ok")
    assert found == [(str(30 + i), "2021-03-01", "true") for i in range(3)]
    with pytest.raises(SpecError, match=r"say which sheet; .* holds: Notes, Data"):
        rows(workbook, "xlsx")
    with pytest.raises(SpecError, match="no sheet Dat with rows"):
        rows(workbook, "xlsx", sheet="Dat")
    form, remarks = found_form(SourceSpec(path=str(workbook), format="xlsx"))
    assert (form.sheet, form.skip) == ("Data", 2)
    assert "--table Notes" in remarks[0]


def test_workbook_that_is_none(tmp_path):
    path = tmp_path / "a.xlsx"
    path.write_bytes(b"")
    with pytest.raises(DataError, match="is empty"):
        rows(path, "xlsx")
    path.write_bytes(b"PK, but no more")
    with pytest.raises(DataError, match="is no workbook"):
        rows(path, "xlsx")
    xlsxwriter.Workbook(path).close()
    with pytest.raises(DataError, match="has no rows"):
        rows(path, "xlsx")


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "clinic.db"
    with sqlite3.connect(path) as file:
        file.execute("CREATE TABLE stays (id INTEGER, cost REAL, note TEXT)")
        file.executemany("INSERT INTO stays VALUES (?, ?, ?)", [(1, 1.5, None), (2, "free", "x")])
        file.execute("CREATE TABLE scans (id INTEGER, image BLOB)")
        file.execute("INSERT INTO scans VALUES (1, x'00')")
    return path


def test_sqlite_is_read_as_texts_whatever_its_name(database):
    found = rows(database, "duckdb", table="stays")[1]
    assert found == [("1", "1.5", None), ("2", "free", "x")]
    with pytest.raises(SpecError, match=r"say which table; .* holds: scans, stays"):
        rows(database, "sqlite")
    with pytest.raises(DataError, match="'image' holds bytes"):
        rows(database, "sqlite", table="scans")


def test_databases_that_cannot_be_opened(tmp_path):
    path = tmp_path / "a.sqlite"
    with pytest.raises(SpecError, match="no file"):
        rows(path, "sqlite")
    path.write_bytes(b"something else")
    with pytest.raises(DataError, match="is not a SQLite file"):
        rows(path, "sqlite")
    path.write_bytes(b"SQLite format 3\0" + b"x" * 90)
    with pytest.raises(DataError, match="cannot be read"):
        rows(path, "sqlite")
    path.write_bytes(b"")
    with pytest.raises(DataError, match="is empty"):
        rows(path, "sqlite")


def _installed(name):
    found = duckdb.execute(
        "SELECT installed FROM duckdb_extensions() WHERE extension_name = ?", [f"{name}_scanner"]
    ).fetchall()
    return bool(found and found[0][0])


@pytest.mark.ci
@pytest.mark.parametrize("form", ["postgres"])
def test_servers_want_an_extension(form):
    wanted = "cannot be reached" if _installed(form) else "extension for .* is not installed"
    with pytest.raises((SpecError, DataError), match=wanted):
        rows("host=127.0.0.1 port=1", form)


def test_sql_joins_files_of_several_formats(tmp_path, database):
    (tmp_path / "who is.csv").write_text("id,sex\n1,f\n2,m\n")
    source = {
        "more": (str(database),),
        "sql": "WITH w AS (SELECT * FROM who_is) SELECT sex, cost FROM w JOIN stays USING (id);",
    }
    assert rows(tmp_path / "who is.csv", **source)[1] == [("f", "1.5"), ("m", "free")]


@pytest.mark.parametrize("form", ["postgres", "mysql"])
def test_no_message_has_the_address_of_a_server(form, monkeypatch):
    def opened(con, source, **_):
        def make(name):
            con.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT 1 AS a WHERE false")

        return [Table(("t",), "t", make)]

    monkeypatch.setattr("engine.source.forms.opened.tables_of", opened)
    for sql in (None, "SELECT * FROM t"):
        with pytest.raises(DataError, match=rf"^source \({form}\): has no rows") as failed:
            rows("host=h password=PW/db", form, sql=sql)
        assert "PW" not in str(failed.value)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT * FROM read_csv('/etc/passwd')", "read_csv is not allowed"),
        ("SELECT * FROM '/etc/passwd'", "there is no table /etc/passwd"),
        ("SELECT * FROM a, (SELECT * FROM b.c)", "there is no table b.c"),
        ("SELECT (SELECT max(content) FROM read_text('a.csv')) FROM a", "read_text is not allowed"),
        ("SELECT * FROM query('SELECT 1')", "query is not allowed"),
        ("SELECT * FROM duckdb_settings()", "duckdb_settings is not allowed"),
        ("FROM (SHOW TABLES)", "is not allowed"),
        ("DROP TABLE a", "wants one SELECT"),
        ("SELECT 1; SELECT 2", "wants one SELECT"),
        ("SELECT z FROM a", '"z" not found'),
        ("SELECT * FROM a TABLESAMPLE 50%", "gives other rows or values"),
        ("SELECT * FROM (FROM a USING SAMPLE 1)", "gives other rows or values"),
        ("SELECT x FROM a ORDER BY Random()", "gives other rows or values"),
        ("SELECT x, uuid() AS u FROM a", "gives other rows or values"),
    ],
)
def test_sql_reads_the_named_files_only(tmp_path, sql, message):
    (tmp_path / "a.csv").write_text("x,y\n1,secret\n")
    with pytest.raises(SpecError, match=message) as failed:
        rows(tmp_path / "a.csv", sql=sql)
    assert "secret" not in str(failed.value)


def test_sql_that_fails_on_a_value_does_not_tell_it(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,secret\n")
    with pytest.raises(DataError, match=r"source\.sql fails on a cell .*TRY_CAST") as failed:
        rows(tmp_path / "a.csv", sql="SELECT CAST(y AS INTEGER) AS y FROM a")
    assert "secret" not in str(failed.value)


@pytest.mark.parametrize(
    ("writing", "cell", "plain"),
    [
        (Writing(decimal=",", thousands="."), "1.234.567,5", "1234567.5"),
        (Writing(decimal=",", thousands="."), "-12", "-12"),
        (Writing(decimal=",", thousands="."), "1.5", None),
        (Writing(decimal=",", thousands="."), "12.34,5", None),
        (Writing(decimal=","), "1.234,5", None),
        (Writing(decimal=",", thousands=" "), "1\u202f234,5", "1234.5"),
        (Writing(thousands="'"), "1\u2019234.5", "1234.5"),
        (Writing(thousands=","), "1,234", "1234"),
    ],
)
def test_numbers_are_read_as_declared_or_not_at_all(writing, cell, plain):
    sql = plain_sql(writing, "real", "cell")
    con = connection()
    assert con.execute(f"SELECT {sql} FROM (SELECT ? AS cell)", [cell]).fetchall() == [(plain,)]


@pytest.mark.parametrize("ends", [b"\n", b"\r\n"])
def test_one_byte_that_is_not_utf8_makes_no_other_encoding(tmp_path, ends):
    path = tmp_path / "a.csv"
    lines = [f"Zürich,{i}".encode() for i in range(300)]
    lines[70] = b"Gen\xe8ve,70"
    path.write_bytes(ends.join([b"place,n", *lines, b""]))
    with pytest.raises(
        DataError,
        match=r"is UTF-8 text, but one of lines 1 to 1,000 holds a byte that is not; .*encoding",
    ) as error:
        detect_source(path)
    assert "Gen" not in str(error.value)
    said = SourceSpec(path=str(path), format="csv", encoding="cp1252")
    assert found_form(said)[0].encoding == "cp1252"


def test_a_zero_byte_makes_no_utf16(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"place,n\n" + b"Graz,1\n" * 70 + b"Gr\0z,2\n" + b"Graz,3\n" * 70)
    with pytest.raises(DataError, match="one of lines 1 to 1,000 holds a NUL byte") as error:
        detect_source(path)
    assert "Gr" not in str(error.value).replace(str(path), "")


# What columns are said to be.


def remarks(tmp_path, cells, name="x"):
    path = tmp_path / "a.csv"
    path.write_text(f"{name};y\n" + "".join(f"{cell};{i % 5}\n" for i, cell in enumerate(cells)))
    return " ".join(detect_source(path).column_remarks.get(name, ()))


@pytest.mark.ci
@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ([i % 40 if i % 5 else 99 for i in range(400)], 'nulls = ["99", ""]'),
        ([i % 100 for i in range(2000)], ""),
        ([f"{i % 60} %" for i in range(400)], "nearly numbers; in the way: percent signs"),
        ([i % 60 if i % 9 else "k.A." for i in range(400)], 'nulls = ["k.A.", ""]'),
        ([i % 60 if i % 9 else f"secret {i}" for i in range(400)], "other texts, each of few"),
        ([f"{i % 28 + 1}. 3. 2021" for i in range(400)], "nearly dates"),
        ([1021 + i % 30 * 283 for i in range(800)], "may be codes"),
        ([1960 + i % 60 for i in range(800)], ""),
    ],
)
def test_remarks(tmp_path, cells, said):
    found = remarks(tmp_path, cells)
    assert said in found
    assert bool(said) == bool(found)
    assert "secret" not in found


def statistical(folder, form):
    """A file of SPSS, Stata or SAS, as its own package writes it."""
    readstat = pytest.importorskip("pyreadstat", reason="the extra stat is not installed")
    n, path = 300, folder / f"x.{form}"
    frame = pd.DataFrame(
        {
            "sex": [1.0, 2.0, 9.0] * (n // 3),
            "town": ["Graz", "", "NA"] * (n // 3),
            "born": [datetime.date(1990, 1, 1) + datetime.timedelta(i) for i in range(n)],
        }
    )
    names = ["Sex of the person", "", ""]
    values = {"sex": {1: "male", 2: "female", 9: "refused"}}
    if form == "sav":
        readstat.write_sav(
            frame,
            path,
            column_labels=names,
            variable_value_labels=values,
            missing_ranges={"sex": [9]},
        )
    elif form == "dta":
        readstat.write_dta(frame, path, column_labels=names, variable_value_labels=values)
    else:
        (readstat.write_por if form == "por" else readstat.write_xport)(
            frame, path, column_labels=names
        )
    return path


@pytest.mark.ci
@pytest.mark.parametrize("form", ["sav", "por", "dta", "xpt"])
def test_files_of_statistical_packages(tmp_path, form):
    detection = detect_source(statistical(tmp_path, form))
    sex, town, born = detection.columns
    assert (sex.value_type, town.value_type, born.kind) == ("integer", "text", "date")
    assert sex.label == "Sex of the person"
    has_values = form in ("sav", "dta")
    assert sex.kind == "category"
    assert dict(sex.labels) == ({"1": "male", "2": "female", "9": "refused"} if has_values else {})
    assert any("codes" in text for text in detection.column_remarks.get(sex.name, ())) != has_values
    assert detection.values[town.name] == ("Graz", "NA")
    assert detection.values[sex.name] == ((1, 2) if form == "sav" else (1, 2, 9))
    spec = tmp_path / "r.toml"
    spec.write_text(spec_text(detection, spec_path=spec))
    read = {c.name: c for c in read_spec(spec, check_key=False).columns}
    assert read[sex.name].labels == sex.labels
    con = connection()
    open_source(con, detection.source)
    blank = con.execute(f"SELECT count(*) FROM source WHERE {town.name} IS NULL").fetchall()
    assert blank == [(100,)]


def test_files_of_statistical_packages_that_cannot_be_read(tmp_path, monkeypatch):
    path = tmp_path / "x.sav"
    path.write_text("SECRET")
    if importlib.util.find_spec("pyreadstat"):
        with pytest.raises(DataError, match="is no sav file") as refused:
            detect_source(path)
        assert "SECRET" not in str(refused.value)
    monkeypatch.setitem(sys.modules, "pyreadstat", None)
    with pytest.raises(SpecError, match=r"tablepack\[stat\]"):
        detect_source(path)
