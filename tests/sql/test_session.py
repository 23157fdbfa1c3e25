"""Sessions over a release, and what their results give."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from fixtures.release import (
    HEADER,
    SUPPORTS,
    TABLES,
    build_release,
    expanded,
    make_card,
    make_support,
    make_table,
)
from fixtures.tiny import tiny_release

from engine.errors import NotAnswerable, QueryRefused, StoreError
from engine.schema import Column
from queries.release import open_release
from queries.sql.planner import Reads, StubPlanner

REPO = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tiny_release(tmp_path_factory.mktemp("session") / "r.duckdb")


@pytest.fixture(scope="module")
def release(path):
    with open_release(path) as release:
        yield release


@pytest.mark.parametrize(
    "asked", ["DISTINCT person", 'DISTINCT "person"', "DISTINCT (person)", "distinct\nPERSON"]
)
def test_counting_who_is_protected_is_refused_with_the_way_to_a_release_of_them(tmp_path, asked):
    bounded = {**HEADER.privacy, "layer_sd": 1, "max_rows": 4}
    path = build_release(tmp_path / "r.duckdb", header=replace(HEADER, privacy=bounded))
    with open_release(path) as release:
        with pytest.raises(NotAnswerable, match='count = "entities" in') as refused:
            release.sql(f"SELECT SEX, count({asked}) FROM data GROUP BY SEX")
        assert refused.value.missing[0].casefold() == "person"
        assert release.sql("SELECT count(DISTINCT SEX) FROM data").rows == [(2,)]
        for other in ("SELECT person FROM data", "SELECT DISTINCT SEX, person FROM data"):
            with pytest.raises(NotAnswerable) as refused:
                release.sql(other)
            assert "count = " not in str(refused.value)


def test_a_column_that_no_plan_saw_is_an_error_not_a_blank(release, monkeypatch):
    unseen = Reads(columns=("SEX",), is_logical=True, is_multi=True)
    monkeypatch.setattr(StubPlanner, "read", lambda self, text, own, budget: unseen)
    assert release.sql("SELECT AGE, SEX FROM data").table == ("AGE", "SEX")  # learnt when it is run
    unseen = Reads(columns=("SEX",), is_logical=True)
    with pytest.raises(QueryRefused, match="not in the table that answers: AGE"):
        release.sql("SELECT AGE, SEX FROM data")
    blind = Reads(columns=(), is_logical=False)
    monkeypatch.setattr(StubPlanner, "read", lambda self, text, own, budget: blind)
    with pytest.raises(QueryRefused, match="not in the table that answers: AGE"):
        release.sql("SELECT AGE FROM data")
    with pytest.raises(QueryRefused, match="not in the table that answers: SEX"):
        release.sql("SELECT max(SEX) FROM data")


def test_not_over_the_logical_table(release):
    assert release.sql("SELECT 1").rows == [(1,)]
    assert release.sql('SELECT count(*) FROM "AGE.SEX"').rows == [(24,)]
    assert release.sql("SELECT title FROM catalog.release").rows == [("A tiny release",)]
    assert release.sql("SELECT 1").table is None
    described = release.sql("DESCRIBE data").rows
    assert [r[:2] for r in described] == list(release.columns.items())
    assert ("AGE.SEX",) in release.sql("SHOW TABLES").rows


def test_a_lone_surrogate_is_refused(release):
    with pytest.raises(QueryRefused, match=r"U\+DC00 at character 17"):
        release.sql("EXPLAIN SELECT '\udc00' FROM data")


def test_refusals(release):
    with pytest.raises(NotAnswerable, match="INCOME, TOWN together") as refused:
        release.sql("SELECT income FROM data WHERE town = 'Bath'")
    assert refused.value.exit_code == 5
    assert 'columns = ["INCOME", "TOWN"]' in str(refused.value)
    assert ("AGE", "TOWN") in refused.value.nearest
    with pytest.raises(NotAnswerable, match=r"no column 'agge'\. Near: AGE"):
        release.sql("SELECT agge FROM data")
    with pytest.raises(QueryRefused, match="2 statements"):
        release.sql("SELECT 1; SELECT 2")
    with pytest.raises(QueryRefused, match="Could not convert"):
        release.sql("SELECT CAST('x' AS INTEGER)")
    with pytest.raises(QueryRefused, match="too few, in the end"):
        release.sql("SELECT error('too few, in the end') FROM data").rows  # noqa: B018


def test_tables_and_cards(release):
    result = release.table("SEX", "AGE")
    assert result.columns == ("AGE", "SEX")
    assert result.rows == expanded(make_table(("AGE", "SEX")))
    assert release.table("TOWN", "AGE").columns == ("TOWN", "AGE")
    assert release.card("SEX", "AGE") == make_card(make_table(("AGE", "SEX")))
    assert release.tables == TABLES
    assert list(release.columns) == ["TOWN", "AGE", "SEX", "INCOME"]
    assert release.title == "A tiny release"
    assert "Made by hand." in release.notes
    with pytest.raises(NotAnswerable, match=r"There is no table of INCOME, TOWN\. Nearest: "):
        release.table("TOWN", "INCOME")
    with pytest.raises(NotAnswerable, match=r"no column 'SECKS'\. Near: SEX"):
        release.card("SECKS")
    with pytest.raises(NotAnswerable, match="no table of no column"):
        release.table()


def test_explain(release):
    routing = release.explain("SELECT sex, avg(age) FROM data GROUP BY 1")
    assert (routing.columns, routing.table) == (("AGE", "SEX"), ("AGE", "SEX"))
    assert "Answered from AGE, SEX." in str(routing)
    assert routing.card.sentences()[0] in str(routing)
    assert "any table answers" in str(release.explain("SELECT count(*) FROM data"))
    assert release.explain("SELECT 1").table is None


def test_replaced_while_open(tmp_path):
    path = tiny_release(tmp_path / "r.duckdb")
    with open_release(path) as old:
        tiny_release(path, seed=1)
        with open_release(path) as new:
            assert old.content_hash != new.content_hash
            assert old.sql("SELECT count(*) FROM data").rows == [(make_table(("SEX",)).n_rows,)]
            assert new.sql("SELECT count(*) FROM data").rows == [
                (make_table(("SEX",), seed=1).n_rows,)
            ]


def test_awkward_logical_name_and_columns(tmp_path):
    import dataclasses

    names = ("missing", 'd"ata', "i")
    columns = tuple(Column(name=n, kind="integer", value_type="integer") for n in names)
    supports = {c.name: make_support(c, [(0, 0), (2, 5)]) for c in columns}
    tables = tuple((n,) for n in sorted(names))
    header = dataclasses.replace(HEADER, logical_name='d"ata', columns=columns, tables=tables)
    path = build_release(tmp_path / "r.duckdb", header=header, supports=supports)
    with open_release(path) as release:
        for n in names:
            quoted = '"' + n.replace('"', '""') + '"'
            result = release.sql(f'SELECT {quoted} FROM "d""ata"')
            assert result.table == (n,)
            assert result.rows == expanded(make_table((n,), supports), supports)


@pytest.mark.ci
def test_leaves_quietly(path):
    """An interpreter that ends with handles and results alive ends without a word."""
    code = (
        "import sys; from queries.release import open_release\n"
        "r = open_release(sys.argv[1]); x = [r.sql('SELECT age FROM data') for _ in range(20)]"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], cwd=REPO, env={**os.environ, "PYTHONPATH": str(REPO)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert len(SUPPORTS) == 4


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
