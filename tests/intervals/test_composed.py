"""Statements made of others (WITH, subqueries, joins, UNION) have the marks of the figures that they show."""

from __future__ import annotations

import pytest

from queries.intervals import tabulate
from queries.sql import MARK, NOT_RELEASED

GROUPS = "SELECT age, ward, count(*) AS n FROM data GROUP BY ALL"


@pytest.fixture(scope="module")
def release(stays):
    return stays


@pytest.fixture(scope="module")
def known(release):
    table = tabulate(release, ["age", "ward"])
    return dict(zip(table.keys, table.status, strict=True))


@pytest.mark.ci
@pytest.mark.parametrize(
    ("text", "at"),
    [
        (f"SELECT * FROM ({GROUPS})", 2),
        (f"WITH a AS ({GROUPS}) SELECT * FROM a WHERE n < 9 ORDER BY n DESC LIMIT 20", 2),
        (f"WITH a AS ({GROUPS}), b AS (FROM a) SELECT age, ward, b.n AS k, n FROM b", 3),
        (f"SELECT age, ward, n FROM (SELECT * EXCLUDE (m) FROM (SELECT *, n AS m FROM ({GROUPS})))", 2),
        (f"SELECT a.* FROM ({GROUPS}) a JOIN (SELECT DISTINCT ward FROM data) b USING (ward)", 2),
        (f"SELECT l.age, l.ward, r.n FROM ({GROUPS}) l LEFT JOIN ({GROUPS}) r ON (l.age, l.ward) = (r.age, r.ward)", 2),
        (f"SELECT a.* FROM ({GROUPS}) a SEMI JOIN (SELECT age FROM data WHERE age > 50) b USING (age)", 2),
        (f"SELECT age, ward, n FROM ({GROUPS}) UNION SELECT age, ward, count(*) FROM data GROUP BY ALL", 2),
        (f"SELECT age, ward, n::DOUBLE AS d FROM ({GROUPS})", 2),
        (f"SELECT age, ward, coalesce(n, 0) + 1 AS m FROM ({GROUPS}), range(2) AS r(i) WHERE i = 1", 2),
        (f"SELECT age, ward, 100 * n / sum(n) OVER (PARTITION BY age) AS pct FROM ({GROUPS})", 2),
        (f"SELECT age, ward, sum(n) OVER (PARTITION BY age, ward) AS m FROM ({GROUPS})", 2),
        (f"WITH a AS ({GROUPS}) SELECT age, ward, n / (SELECT sum(n) FROM a) AS part FROM a", 2),
        ("SELECT age, ward, count(*) / (SELECT count(*) FROM data) AS part FROM data GROUP BY ALL", 2),
        ("SELECT age, ward, CASE WHEN count(*) > 5 THEN 'many' ELSE 'few' END AS how FROM data GROUP BY ALL", 2),
        ("SELECT age, ward, max(urgent) AS last FROM data GROUP BY ALL", 2),
    ],
)  # fmt: skip
def test_figures_have_the_marks_that_they_have_alone(release, known, text, at):
    result = release.sql(text)
    of_three = "urgent" in text  # of a wider table, whose counts are the same here
    hidden = 0
    for row, status in zip(result.rows, result.marks.statuses[at], strict=True):
        assert of_three or (status == NOT_RELEASED) == (known[row[:2]] == NOT_RELEASED)
        hidden += status == NOT_RELEASED
    assert hidden
    assert sum(row[at] == MARK for row in result.shown()) == hidden


@pytest.mark.parametrize(
    ("text", "alone"),
    [
        ("WITH d AS (SELECT *, age // 10 AS band FROM data WHERE age > 20) SELECT band, ward, count(*) AS n "
         "FROM d GROUP BY band, ward ORDER BY ALL",
         "SELECT age // 10 AS band, ward, count(*) AS n FROM data WHERE age > 20 GROUP BY 1, 2 ORDER BY ALL"),
        ("SELECT x.of, count(*) AS n FROM (SELECT ward AS of, age FROM data) x WHERE x.age < 50 "
         "GROUP BY x.of ORDER BY 1",
         "SELECT ward AS of, count(*) AS n FROM data WHERE age < 50 GROUP BY ward ORDER BY 1"),
        ("WITH a AS (FROM data), b AS (SELECT * EXCLUDE (urgent) FROM a WHERE age > 30) SELECT ward, avg(age) AS m "
         "FROM b WHERE ward <> 'Burns' GROUP BY ward ORDER BY 1",
         "SELECT ward, avg(age) AS m FROM data WHERE age > 30 AND ward <> 'Burns' GROUP BY ward ORDER BY 1"),
    ],
)  # fmt: skip
def test_subqueries_that_only_choose_rows_have_the_intervals_of_one_select(release, text, alone):
    assert release.sql(text, intervals=True).rows == release.sql(alone, intervals=True).rows
    assert release.sql(text).marks == release.sql(alone).marks


def test_a_column_without_figures_has_no_status(release):
    result = release.sql(f"SELECT age, ward, n, 2 AS two FROM ({GROUPS})")
    assert list(result.marks.statuses) == [2]


def test_what_computes_with_released_figures_is_released_and_what_looks_for_one_is_not_known(
    release,
):
    result = release.sql(
        "SELECT ward, -count(*) + nullif(count(*), 3) AS m, max(age) AS oldest FROM data GROUP BY 1"
    )
    shown = dict(
        zip(
            (row[0] for row in result.rows),
            zip(*result.marks.statuses.values(), strict=True),
            strict=True,
        )
    )
    assert shown["Surgery"] == ("released", "not known")
    (why,) = result.marks.unknown
    assert why.startswith("oldest: what lies beyond the outermost released values")


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT DISTINCT n FROM ({GROUPS})",
        f"SELECT *, rank() OVER (ORDER BY n) AS place FROM ({GROUPS})",
        f"{GROUPS} UNION ALL SELECT * FROM ({GROUPS}) ORDER BY ALL",
        f"SELECT a.n FROM ({GROUPS}) a NATURAL JOIN ({GROUPS}) b",
        f"SELECT n FROM ({GROUPS}) AS x(a, b, n)",
        f"WITH a(x, y, n) AS ({GROUPS}) SELECT n FROM a",
        f"SELECT n FROM ({GROUPS}) EXCEPT SELECT 3",
        f"WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE i < 3) SELECT i, n FROM r, ({GROUPS})",
    ],
)  # fmt: skip
def test_the_rest_says_that_nothing_is_known(release, text):
    result = release.sql(text)
    assert result.marks.unknown
    assert not result.marks.statuses


def test_two_runs_keep_nothing_of_each_other(release):
    joined = "a JOIN a AS b ON a.age = b.age AND a.ward < b.ward"
    text = f"WITH a AS ({GROUPS}) SELECT a.age, a.ward, b.ward AS other, a.n, b.n AS m FROM {joined} ORDER BY ALL"
    assert release.sql(text).marks == release.sql(text).marks
    assert set(release.sql(text, status=True).columns) >= {"n_status", "m_status"}
