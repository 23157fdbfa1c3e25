"""Mode dp reads each row by itself: `source.sql` may do nothing else, and no row decides how others are read."""

from __future__ import annotations

import csv
import random
import sqlite3

import duckdb
import pandas as pd
import pytest

from engine.errors import DataError, SpecError
from engine.schema import SourceSpec
from engine.source import open_source
from engine.source.forms.query import RowWise

PEOPLE = "id,income,sex,code\n1,5,f,a\n2,8,m,b\n3,x,m,c\n"
CODES = "code,name\na,one\nb,two\nd,none\n"
ROW_BY_ROW = [
    "SELECT id, sex FROM people WHERE sex <> 'x' AND lower(sex) LIKE 'f%'",
    "SELECT id, TRY(CAST(income AS INTEGER) + 1) AS i, TRY_CAST(income AS DOUBLE) / 2 AS h FROM people",
    "SELECT id, CASE WHEN code IN ('a', 'b') THEN 'known' ELSE coalesce(sex, '?') END AS k FROM people",
    "SELECT id FROM people WHERE TRY_CAST(id AS DATE) > '2020-01-01'",
    "SELECT id, name FROM people LEFT JOIN codes USING (code)",
    "SELECT id, name FROM codes RIGHT JOIN people USING (code)",
    "SELECT id, name FROM people JOIN codes ON upper(people.code) = upper(codes.code)",
    "SELECT id, sex FROM people WHERE code NOT IN (SELECT code FROM codes)",
    "SELECT id, last FROM people, (SELECT max(name) AS last FROM codes)",
    "SELECT id, sex FROM people UNION ALL SELECT id, code FROM people",
    "WITH t AS (SELECT id, sex FROM people) SELECT t.id, n FROM t, (VALUES (1), (2)) v(n)",
    "SELECT id, unnest(string_split(sex, ',')) AS part FROM people",
    "SELECT id, substr(sex, 1, 2) AS a, left(code, 1) AS b, sex[1] AS c, sex[1:2] AS d, sex[-1] AS e FROM people",
    "SELECT id, round(TRY_CAST(income AS DOUBLE), 1) AS i FROM people WHERE code SIMILAR TO '[ab]+'",
    "SELECT id, regexp_replace(sex, '^f', 'x', 'i') AS s FROM people",
]
NOT_ROW_BY_ROW = [
    "SELECT id, CASE WHEN EXISTS (SELECT 1 FROM people WHERE id = '7') THEN 'a' ELSE 'b' END AS flag FROM people",
    "SELECT id, ntile(10) OVER (ORDER BY income) AS tenth FROM people",
    "SELECT id FROM people QUALIFY row_number() OVER (ORDER BY id) < 3",
    "SELECT id, count(*) AS n FROM people GROUP BY id",
    "SELECT DISTINCT id FROM people",
    "SELECT DISTINCT ON (sex) id, sex FROM people",
    "SELECT id FROM people UNION SELECT id FROM people",
    "SELECT id FROM people EXCEPT ALL SELECT id FROM people WHERE sex = 'f'",
    "SELECT id FROM people LIMIT 2",
    "SELECT id FROM people ORDER BY income LIMIT 2",
    "SELECT a.id FROM people a JOIN people b ON a.code = b.code",
    "SELECT id, (SELECT max(income) FROM people) AS most FROM people",
    "WITH t AS (SELECT max(id) AS m FROM people) SELECT id, m FROM people, t",
    "SELECT people.id, name FROM codes LEFT JOIN people USING (code)",
    "SELECT people.id, name FROM codes FULL JOIN people USING (code)",
    "SELECT name AS id FROM codes WHERE code NOT IN (SELECT code FROM people)",
    "SELECT id, name FROM people POSITIONAL JOIN codes",
    "SELECT id, rowid AS r FROM people",
    "WITH RECURSIVE t AS (SELECT id, 1 AS n FROM people UNION ALL SELECT id, n FROM t WHERE n < 0) SELECT * FROM t",
]
MAY_FAIL = [
    "SELECT id, CAST(income AS INTEGER) AS i FROM people",
    "SELECT id, TRY_CAST(income AS INTEGER) + 1 AS i FROM people",
    "SELECT id, CASE WHEN id = '7' THEN error('7') ELSE 'b' END AS flag FROM people",
    "SELECT id, CASE WHEN id = '7' THEN CAST('x' AS INTEGER) ELSE 1 END AS flag FROM people",
    "SELECT id, strptime(income, '%Y') AS d FROM people",
    "SELECT id FROM people WHERE CAST(id AS DATE) > '2020-01-01'",
    "SELECT id FROM people WHERE regexp_matches(sex, code)",
    "SELECT id FROM people WHERE sex SIMILAR TO code",
    "SELECT id, regexp_replace(sex, 'f', code) AS s FROM people",
    "SELECT id, substr(sex, TRY_CAST(income AS BIGINT)) AS s FROM people",
    "SELECT id, left(sex, TRY_CAST(income AS BIGINT)) AS s FROM people",
    "SELECT id, sex[TRY_CAST(income AS BIGINT)] AS s FROM people",
    "SELECT id, round(TRY_CAST(income AS BIGINT), -2) AS i FROM people",
]


@pytest.fixture
def opened(tmp_path):
    (tmp_path / "people.csv").write_text(PEOPLE)
    (tmp_path / "codes.csv").write_text(CODES)
    first, *more = (str(tmp_path / name) for name in ("people.csv", "codes.csv"))

    def of(sql, row_wise):
        source = SourceSpec(path=first, more=tuple(more), format="csv", sql=sql)
        with duckdb.connect() as con:
            open_source(con, source, row_wise=row_wise)
            return con.execute("SELECT count(*) FROM source").fetchone()[0]

    return of


PUBLIC = RowWise(public=frozenset({"codes"}))


@pytest.mark.parametrize("sql", ROW_BY_ROW)
def test_row_by_row_is_let_through(opened, sql):
    opened(sql, PUBLIC)


@pytest.mark.parametrize("sql", [*NOT_ROW_BY_ROW, *MAY_FAIL])
def test_all_else_is_refused(opened, sql):
    with pytest.raises(SpecError, match=r"source\.sql"):
        opened(sql, PUBLIC)


@pytest.mark.parametrize("sql", [s for s in ROW_BY_ROW if "codes" in s])
def test_a_table_that_is_not_declared_public_is_not_joined(opened, sql):
    with pytest.raises(SpecError, match="public_tables"):
        opened(sql, RowWise(public=frozenset()))


def test_what_is_declared_is_not_looked_at_but_for_what_may_fail(opened):
    declared = RowWise(public=frozenset(), is_declared=True)
    assert opened("SELECT id, ntile(2) OVER (ORDER BY id) AS half FROM people", declared) == 3
    for sql in MAY_FAIL:
        with pytest.raises(SpecError):
            opened(sql, declared)


BY_ROW = RowWise(public=frozenset())


def read(path, frame=None, **about):
    """All rows of a source as mode dp reads them, each as texts."""
    form = "frame" if frame is not None else about.pop("format", "csv")
    source = SourceSpec(path=None if frame is not None else str(path), format=form, **about)
    with duckdb.connect() as con:
        open_source(con, source, frame, row_wise=BY_ROW)
        found = con.execute("SELECT * FROM source").fetchall()
    return [tuple(None if v is None else str(v) for v in row) for row in found]


GOOD = [b"1,f,5", b'2,"m",6', b'3,"a ""b"", c",7']
READ = sorted([("1", "f", "5"), ("2", "m", "6"), ("3", 'a "b", c', "7")])
NOTHING = (None, None, None)
LINES = {
    "too few fields": (b"9,f", [NOTHING]),
    "too many fields": (b"9,f,5,6", [NOTHING]),
    "a quote that is not closed": (b'9,"f,5', [NOTHING]),
    "text behind a quote": (b'9,"f"x,5', [NOTHING]),
    "bytes that are no UTF-8": (b"9,\xff,5", [("9", "\ufffd", "5")]),
    "bytes that are no text": (b"9,\x00,5", [("9", "\x00", "5")]),
    "a field with a line break": (b'9,"f\ng",5', [NOTHING] * 2),
    "another line end": (b"9,f,5\r", [("9", "f", "5")]),
    "nothing": (b"", []),
}


@pytest.mark.parametrize("odd", LINES)
@pytest.mark.parametrize("place", [0, 2, 3])
def test_no_line_of_a_text_decides_how_others_are_read(tmp_path, odd, place):
    line, made = LINES[odd]
    lines = [*GOOD[:place], line, *GOOD[place:]]
    (tmp_path / "x.csv").write_bytes(b"\n".join([b"id,sex,inc", *lines, b""]))
    key = lambda row: tuple(map(str, row))  # noqa: E731
    assert sorted(read(tmp_path / "x.csv"), key=key) == sorted([*READ, *made], key=key)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", " "])
def test_by_line_a_text_says_what_it_says_as_a_whole(tmp_path, delimiter):
    rng = random.Random(7)
    with open(tmp_path / "x.csv", "w", newline="") as file:
        out = csv.writer(file, delimiter=delimiter)
        out.writerow("abc")
        for _ in range(500):
            out.writerow(
                "".join(rng.choice('ab", ;|\t1\u00e9') for _ in range(rng.randrange(6)))
                for _ in range(3)
            )
    whole = SourceSpec(path=str(tmp_path / "x.csv"), format="csv", delimiter=delimiter)
    with duckdb.connect() as con:
        open_source(con, whole)
        expected = con.execute("SELECT * FROM source").fetchall()
    assert read(tmp_path / "x.csv", delimiter=delimiter) == expected


def test_what_a_file_says_as_a_whole_is_refused_as_ever(tmp_path):
    (tmp_path / "x1.csv").write_text("id,sex\n1,f\n")
    (tmp_path / "x2.csv").write_text("id\n1\n")
    with pytest.raises(DataError, match="header differs"):
        read(tmp_path / "x*.csv")
    (tmp_path / "y.csv").write_text("")
    with pytest.raises(DataError, match="empty"):
        read(tmp_path / "y.csv")


def test_one_object_of_a_frame_does_not_decide_what_others_are(tmp_path):
    for odd in ("?", b"?", 5.5, None, [1]):
        frame = pd.DataFrame({"a": pd.Series([1, 2.0, True, "x", odd], dtype=object)})
        assert [a for (a,) in read(None, frame)][:4] == ["1", "2", "true", "x"]


def test_one_cell_of_a_database_or_a_sheet_does_not_end_a_build(tmp_path):
    with sqlite3.connect(tmp_path / "x.sqlite") as con:
        con.execute("CREATE TABLE t (a)")
        con.executemany("INSERT INTO t VALUES (?)", [(1,), (b"\xff",), (None,)])
        con.execute("INSERT INTO t VALUES (CAST(x'ff41' AS TEXT))")
    con.close()
    found = read(tmp_path / "x.sqlite", format="sqlite")
    assert found == [("1",), (None,), (None,), ("\ufffdA",)]
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["a", "b"], [1, 2], [3, 4, "note"]):
        book.active.append(row)
    book.save(tmp_path / "x.xlsx")
    assert read(tmp_path / "x.xlsx", format="xlsx") == [("1", "2"), ("3", "4")]
