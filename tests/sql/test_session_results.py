"""Results: their forms, how they are shown, how long they live, and what stops a statement."""

from __future__ import annotations

import datetime
import json
import re
import sys
import threading

import pandas as pd
import pytest
from fixtures.release import make_table
from fixtures.tiny import tiny_release

from engine.errors import QueryRefused, StoreError
from queries.release import open_release


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tiny_release(tmp_path_factory.mktemp("session") / "r.duckdb")


@pytest.fixture(scope="module")
def release(path):
    with open_release(path) as release:
        yield release


def test_forms_of_a_result(release, tmp_path):
    result = release.sql(
        'SELECT town, sex IS NULL AS b, 0.5::DECIMAL(3,2) AS d FROM "TOWN", "SEX" LIMIT 3'
    )
    assert result.types == ("VARCHAR", "BOOLEAN", "DECIMAL(3,2)")
    assert len(result) == 3
    frame = result.df()
    assert isinstance(frame, pd.DataFrame)
    assert frame.shape == (3, 3)
    assert result.arrow().column_names == ["TOWN", "b", "d"]
    text = result.to_csv(tmp_path / "r.csv", null="N")
    assert text.splitlines()[:2] == ["TOWN,b,d", "N,false,0.50"]
    assert (tmp_path / "r.csv").read_text() == text
    answer = json.loads(result.to_json(tmp_path / "r.json"))
    assert answer["rows"][0] == [None, False, "0.50"]
    assert answer["table"] is None
    assert json.loads((tmp_path / "r.json").read_text()) == answer
    far = release.sql(
        "SELECT DATE '2020-02-03', TIMESTAMP '2020-02-03 04:05:06', 'inf'::DOUBLE, 1 AS x, 2 AS x"
    )
    assert json.loads(far.to_json())["rows"] == [["2020-02-03", "2020-02-03 04:05:06", "inf", 1, 2]]
    assert far.rows[0][0] == datetime.date(2020, 2, 3)


def test_forms_that_need_a_package(release, monkeypatch):
    result = release.sql("SELECT 1 AS a")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(StoreError, match=r"pyarrow: pip install 'tablepack\[arrow\]'"):
        result.arrow()
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(StoreError, match=r"polars: pip install 'tablepack\[polars\]'"):
        result.pl()


def test_shown_to_people(release):
    result = release.sql("SELECT town, '<b>' AS x, age FROM data ORDER BY ALL")
    shown = repr(result)
    assert "Answered from table AGE, TOWN" in shown
    assert "sd 1.50" in shown
    assert "more rows" in shown
    page = result._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert "Answered from table AGE, TOWN" in page
    assert "7 tables, 4 columns" in repr(release)
    assert "AGE, INCOME, SEX" in release._repr_html_()
    assert "Not read from the logical table" in repr(release.sql("SELECT 1"))


def test_results_outlive_the_handle(path):
    with open_release(path) as release:
        result = release.sql("SELECT age FROM data")
    assert len(result.rows) == make_table(("AGE",)).n_rows
    assert len(result.df()) == len(result.rows)
    for ask in (release.sql, release.explain):
        with pytest.raises(StoreError, match="closed"):
            ask("SELECT 1")
    with pytest.raises(StoreError, match="closed"):
        release.card("AGE")
    release.close()


def test_many_threads_at_once(release):
    counts, errors = [], []

    def ask(column):
        try:
            counts.extend(release.sql(f"SELECT {column} FROM data").rows for _ in range(10))
        except QueryRefused as error:
            errors.append(error)

    threads = [threading.Thread(target=ask, args=(c,)) for c in ("age", "sex", "town", "income")]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert errors == []
    assert len(counts) == 40


@pytest.mark.ci
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM data a, data b, range(100000000000) c WHERE hash(c.range) % 7 = a.age",
        "PIVOT (SELECT hash(range) % 3 AS x FROM range(1000000000000)) ON x USING count(*)",
    ],
)
def test_long_statements_are_stopped(path, sql):
    with open_release(path, timeout_s=0.2) as release:
        with pytest.raises(QueryRefused, match=r"stopped after 0\.2 seconds"):
            release.sql(sql).rows  # noqa: B018
        assert release.sql("SELECT 1").rows == [(1,)]


def test_memory_is_limited(path):
    with open_release(path, memory="100MB", threads=1) as release:
        with pytest.raises(QueryRefused, match="more memory"):
            release.sql("SELECT list(range || repeat('x', 500)) FROM range(1000000)").rows  # noqa: B018
        assert release.sql("SELECT 1").rows == [(1,)]


def test_an_answer_says_how_much_of_its_table_was_filled_in(release):
    table = max(release.tables, key=lambda columns: release.card(*columns).suppressed_share)
    share = release.card(*table).suppressed_share
    result = release.sql(f"SELECT {', '.join(table)} FROM data")
    assert result.table == table
    assert result.filled_share == share
    assert ("were imputed" in result.source) == (share >= 0.01)
    assert json.loads(result.to_json())["filled_share"] == share


def test_a_list_of_what_there_is_shows_nothing_that_a_session_makes(release):
    for column in release.columns:
        release.sql(f"SELECT count({column}) FROM data").rows  # noqa: B018
    listings = (
        "SHOW ALL TABLES",
        "DESCRIBE",
        "SHOW TABLES",
        "FROM duckdb_views()",
        "FROM duckdb_schemas()",
        "FROM duckdb_columns()",
        "FROM information_schema.tables",
        "FROM (SHOW ALL TABLES) WHERE schema IN (SELECT schema_name FROM duckdb_schemas())",
    )
    for sql in listings:
        assert not re.search(r"logical_\d", repr(release.sql(sql).rows)), sql
    listed = {row[:3] for row in release.sql("SHOW ALL TABLES").rows}
    assert {("temp", "main", "data"), ("release", "main", "AGE.SEX")} <= listed
    own = release.sql("SHOW ALL TABLES", tables={"mine": pd.DataFrame({"a": [1]})}).rows
    assert ("temp", "main", "mine") in {row[:3] for row in own}
    with pytest.raises(QueryRefused):
        release.sql("SELECT * FROM duckdb_views(), read_csv('/etc/passwd')")


@pytest.mark.parametrize(
    ("sql", "is_told"),
    [
        ("SELECT any_value(age) FROM data", True),
        (
            "SELECT sex, any_value(age) FROM data GROUP BY sex",
            False,
        ),  # it may be the same for all of them
        ("SELECT any_value(x) FROM data JOIN (VALUES ('f', 1)) AS v(s, x) ON s = sex", False),
        ("SELECT list(age) FROM data", False),
        ("SELECT list(DISTINCT age) FROM data WHERE sex = 'f'", False),
        ("SELECT string_agg(age, ',') FROM data WHERE sex = 'f'", True),
        ("SELECT min(age, 2) FROM data", True),
        ("SELECT min(age), max(age) FROM data", False),
    ],
)
def test_an_aggregate_that_shows_single_rows_is_told(release, sql, is_told):
    assert any("looks up" in w for w in release.sql(sql).warnings) is is_told
