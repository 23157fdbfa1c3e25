"""Results: their forms, how they are shown, how long they live, and what stops a statement."""

from __future__ import annotations

import datetime
import json
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


def test_results_outlive_the_handle(path):
    with open_release(path) as release:
        result = release.sql("SELECT age FROM data")
    assert len(result.rows) == make_table(("AGE",)).n_rows
    with pytest.warns(UserWarning, match="is closed"):
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
