"""`source.sql` in mode dp: only what makes each row from one row, and cannot fail on a cell."""

from __future__ import annotations

import duckdb
import pytest

from engine.errors import SpecError
from engine.schema import SourceSpec
from engine.source import open_source
from engine.source.forms.row_wise import RowWise

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


def test_no_rows_are_a_result_like_any_other(opened):
    assert opened("SELECT id FROM people WHERE sex = 'z'", PUBLIC) == 0
