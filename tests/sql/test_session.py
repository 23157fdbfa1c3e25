"""A session answers as plain DuckDB does on the table, refuses with what is near, and is left quietly."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import duckdb
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

from engine.errors import DamagedRelease, NotAnswerable, QueryRefused, StoreError
from engine.schema import Column
from queries.release import open_release
from queries.sql.planner import Reads, StubPlanner

REPO = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return build_release(tmp_path_factory.mktemp("session") / "r.duckdb")


@pytest.fixture
def release(path):
    with open_release(path) as release:
        yield release


def plain(columns):
    """The table's rows as a plain DuckDB table named data, in the source's order."""
    con = duckdb.connect()
    order = [c for c in ("TOWN", "AGE", "SEX", "INCOME") if c in columns]
    types = {"TOWN": "VARCHAR", "AGE": "BIGINT", "SEX": "VARCHAR", "INCOME": "DOUBLE"}
    con.execute(f"CREATE TABLE data ({', '.join(f'{c} {types[c]}' for c in order)})")
    rows = [
        [dict(zip(columns, row, strict=True))[c] for c in order]
        for row in expanded(make_table(columns))
    ]
    con.executemany(f"INSERT INTO data VALUES ({', '.join('?' * len(order))})", rows)
    return con


ANSWERED = [
    ("SELECT AGE, count(*) FROM data GROUP BY AGE ORDER BY ALL", ("AGE",)),
    ("SELECT sex, avg(age) AS a FROM data GROUP BY sex ORDER BY sex", ("AGE", "SEX")),
    ("SELECT count(*) FROM data", ("SEX",)),
    ("FROM data SELECT town, max(age) GROUP BY ALL ORDER BY ALL", ("AGE", "TOWN")),
    ("SELECT sum(income) FILTER (sex = 'f') FROM data", ("AGE", "INCOME", "SEX")),
    ("SELECT COLUMNS('(AGE|SEX)') FROM data ORDER BY ALL", ("AGE", "SEX")),
    ("SELECT * EXCLUDE (town, income) FROM data ORDER BY ALL", ("AGE", "SEX")),
    ("PIVOT (SELECT age, sex FROM data) ON sex USING count(*) ORDER BY ALL", ("AGE", "SEX")),
    ("PIVOT (SELECT age, sex FROM data WHERE income > 0) ON sex USING count(*) ORDER BY ALL", ("AGE", "INCOME", "SEX")),
    ("WITH t AS (SELECT * FROM data) SELECT age, sex FROM t ORDER BY ALL", ("AGE", "SEX")),
    ("SELECT age, sex, count(*) FROM data GROUP BY GROUPING SETS ((age), (sex), ()) ORDER BY ALL", ("AGE", "SEX")),
    ("SELECT age, row_number() OVER (ORDER BY age) FROM data ORDER BY ALL", ("AGE",)),
    ("SELECT age FROM data WHERE false", ("AGE",)),
    ("SELECT 1 WHERE EXISTS (SELECT * FROM data WHERE age = 40)", ("AGE",)),
    ("SELECT x FROM (SELECT age AS x FROM data UNION ALL SELECT age FROM data) ORDER BY ALL", ("AGE",)),
    ("UNPIVOT (SELECT age FROM data) ON age", ("AGE",)),
    ("SUMMARIZE SELECT age FROM data", ("AGE",)),
    ("SELECT DISTINCT sex FROM data ORDER BY 1", ("SEX",)),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "table"), ANSWERED)
def test_answers_are_those_of_plain_duckdb_on_the_table(release, sql, table):
    result = release.sql(sql)
    assert result.table == table
    assert result.noise_sd == 1.5
    held = sql
    if "EXCLUDE" in sql:  # the plain table lacks what the logical one has
        held = sql.replace(" EXCLUDE (town, income)", "")
    with plain(table) as con:
        wanted = con.execute(held).fetchall()
        assert list(result.columns) == [d[0] for d in con.description]
    if "SUMMARIZE" in sql:  # approximate numbers depend on the order of rows
        assert [r[:4] for r in result.rows] == [r[:4] for r in wanted]
    else:
        assert result.rows == wanted


def test_position_and_alias_mean_the_logical_table(release):
    assert release.sql("SELECT d.c FROM data AS d(a, b, c)").table == ("SEX",)
    assert release.sql("SELECT #2 FROM data").columns == ("AGE",)


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


def test_labels_join(release):
    result = release.sql(
        "SELECT label, count(*) FROM data JOIN catalog.codes ON column_name = 'SEX' AND value = sex "
        "GROUP BY label ORDER BY label"
    )
    counts = Counter(v for (v,) in expanded(make_table(("SEX",))))
    assert result.table == ("SEX",)
    assert result.rows == [("Men", counts["m"]), ("Women", counts["f"])]


def test_half_a_sign_is_no_text(release):
    with pytest.raises(QueryRefused, match=r"half of a sign \(U\+DC00\)"):
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
    assert "run as it is" in str(release.explain("SELECT 1"))
    assert release.explain("SELECT 1").table is None


def test_replaced_while_open(tmp_path):
    path = build_release(tmp_path / "r.duckdb")
    with open_release(path) as old:
        build_release(path, seed=1)
        with open_release(path) as new:
            assert old.content_hash != new.content_hash
            assert old.sql("SELECT count(*) FROM data").rows == [(make_table(("SEX",)).n_rows,)]
            assert new.sql("SELECT count(*) FROM data").rows == [
                (make_table(("SEX",), seed=1).n_rows,)
            ]


def test_two_handles_and_a_plain_connection(path):
    with (
        open_release(path) as a,
        open_release(path) as b,
        duckdb.connect(str(path), read_only=True) as c,
    ):
        sql = "SELECT count(*) FROM catalog.tables"
        assert a.sql(sql).rows == b.sql(sql).rows == c.execute(sql).fetchall()


def test_opening_what_is_damaged(tmp_path):
    with pytest.raises(StoreError, match="no such release"):
        open_release(tmp_path / "none.duckdb")
    path = build_release(tmp_path / "r.duckdb")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamagedRelease):
        open_release(path)
    good = build_release(tmp_path / "s.duckdb")
    with pytest.raises(duckdb.Error):
        open_release(good, memory="a lot")


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


def test_no_tables_at_all(tmp_path):
    import dataclasses

    path = build_release(
        tmp_path / "r.duckdb", header=dataclasses.replace(HEADER, tables=()), supports={}
    )
    with open_release(path) as release:
        with pytest.raises(NotAnswerable):
            release.sql("SELECT count(*) FROM data")
        assert release.sql("SELECT 1").rows == [(1,)]


def test_queries_reach_nothing_confidential():
    """Importing the query side loads no module that sees rows, noise or keys."""
    code = (
        "import sys, queries, queries.sql.session\n"
        "print(*(m for m in sys.modules if m.split('.')[0] == 'engine'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPO, env={**os.environ, "PYTHONPATH": str(REPO)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    allowed = (
        "engine.cell_keys",
        "engine.errors",
        "engine.outputs",
        "engine.schema",
        "engine.store",
        "engine.signals",
        "engine.texts",
        "engine.units",
    )
    loaded = done.stdout.split()
    assert "engine.store.manifest" in loaded
    assert [m for m in loaded if m != "engine" and not m.startswith(allowed)] == []


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
