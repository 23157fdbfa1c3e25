from __future__ import annotations

import datetime
import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import duckdb
import pandas as pd
import pytest
from release_fixture import (
    ALPHABETS,
    HEADER,
    TABLES,
    build_release,
    expanded,
    make_alphabet,
    make_card,
    make_table,
)

from engine.errors import DamagedRelease, NotAnswerable, QueryRefused, StoreError
from engine.schema import Column
from queries.session import open_release

REPO = Path(__file__).resolve().parents[1]


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
    from queries.columns import Reads

    unseen = Reads(columns=("SEX",), is_logical=True, is_multi=True)
    monkeypatch.setattr(release._answering, "read", lambda text, own: unseen)
    assert release.sql("SELECT AGE, SEX FROM data").table == ("AGE", "SEX")  # learnt when it is run
    unseen = Reads(columns=("SEX",), is_logical=True)
    with pytest.raises(QueryRefused, match="not in the table that answers: AGE"):
        release.sql("SELECT AGE, SEX FROM data")
    blind = Reads(columns=(), is_logical=False)
    monkeypatch.setattr(release._answering, "read", lambda text, own: blind)
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
    with pytest.raises(
        StoreError, match=r"arrow\(\) needs pyarrow: pip install 'tablepack\[arrow\]'"
    ):
        result.arrow()
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(StoreError, match=r"pl\(\) needs polars: pip install 'tablepack\[polars\]'"):
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
    assert "7 tables of 4 columns" in repr(release)
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


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM range(1000000000000) a WHERE hash(a.range) = 1",
        "SELECT count(*) FROM data a, data b, range(100000000000) c WHERE hash(c.range) % 7 = a.age",
        "PIVOT (SELECT hash(range) % 3 AS x FROM range(1000000000000)) ON x USING count(*)",
    ],
)
def test_long_statements_are_stopped(path, sql):
    with open_release(path, timeout_s=0.5) as release:
        begun = time.monotonic()
        with pytest.raises(QueryRefused, match=r"stopped after 0\.5 seconds"):
            release.sql(sql).rows  # noqa: B018
        assert time.monotonic() - begun < 30
        assert release.sql("SELECT 1").rows == [(1,)]


def test_memory_is_limited(path):
    with open_release(path, memory="100MB", threads=1) as release:
        with pytest.raises(QueryRefused, match="more memory"):
            release.sql("SELECT list(range || repeat('x', 500)) FROM range(1000000)").rows  # noqa: B018
        assert release.sql("SELECT 1").rows == [(1,)]


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
    alphabets = {c.name: make_alphabet(c, [(0, 0), (2, 5)]) for c in columns}
    tables = tuple((n,) for n in sorted(names))
    header = dataclasses.replace(HEADER, logical_name='d"ata', columns=columns, tables=tables)
    path = build_release(tmp_path / "r.duckdb", header=header, alphabets=alphabets)
    with open_release(path) as release:
        for n in names:
            quoted = '"' + n.replace('"', '""') + '"'
            result = release.sql(f'SELECT {quoted} FROM "d""ata"')
            assert result.table == (n,)
            assert result.rows == expanded(make_table((n,), alphabets), alphabets)


def test_no_tables_at_all(tmp_path):
    import dataclasses

    path = build_release(
        tmp_path / "r.duckdb", header=dataclasses.replace(HEADER, tables=()), alphabets={}
    )
    with open_release(path) as release:
        with pytest.raises(NotAnswerable):
            release.sql("SELECT count(*) FROM data")
        assert release.sql("SELECT 1").rows == [(1,)]


CANARY = "CANARY-9d2e41"


@pytest.fixture
def planted(path, tmp_path, monkeypatch):
    (tmp_path / "secret.csv").write_text(f"a\n{CANARY}\n")
    (tmp_path / "secret.json").write_text(json.dumps([{"a": CANARY}]))
    with duckdb.connect(str(tmp_path / "secret.duckdb")) as con:
        con.execute(f"CREATE TABLE t AS SELECT '{CANARY}' AS a")
        con.execute(f"COPY t TO '{tmp_path}/secret.parquet' (FORMAT parquet)")
    monkeypatch.setenv("SECRET_ENV", CANARY)
    return tmp_path


# {d}: folder of the planted files; {s}: the store itself; {f}: its folder.
HOSTILE = [
    "SELECT * FROM read_csv('{d}/secret.csv')",
    "SELECT * FROM '{d}/secret.csv'",
    "SELECT * FROM '{d}/secret.parquet'",
    "SELECT * FROM read_parquet('{d}/secret.parquet')",
    "SELECT * FROM parquet_metadata('{d}/secret.parquet')",
    "SELECT * FROM parquet_schema('{d}/secret.parquet')",
    "SELECT * FROM read_json('{d}/secret.json')",
    "SELECT * FROM read_json_objects('{d}/secret.json')",
    "SELECT * FROM read_text('{d}/secret.csv')",
    "SELECT * FROM read_blob('{d}/*')",
    "SELECT content FROM read_blob('{s}')",
    "SELECT * FROM glob('{d}/*')",
    "SELECT * FROM glob('{f}/*')",
    "SELECT * FROM sniff_csv('{d}/secret.csv')",
    "SELECT * FROM read_duckdb('{d}/secret.duckdb')",
    "SELECT * FROM '{d}/secret.duckdb'",
    "SELECT * FROM query('FROM read_text(''{d}/secret.csv'')')",
    "SELECT * FROM query_table('{d}/secret.csv')",
    "SELECT getenv('SECRET_ENV')",
    "SELECT * FROM frame",
    "SELECT * FROM leaked",
    "SELECT a FROM canary_list",
    "WITH x AS (SELECT * FROM read_csv('{d}/secret.csv')) SELECT * FROM x, data",
    "EXPLAIN ANALYZE SELECT * FROM read_csv('{d}/secret.csv')",
    "SELECT (SELECT content FROM read_text('{d}/secret.csv'))",
    "PIVOT read_csv('{d}/secret.csv') ON a",
    "SUMMARIZE '{d}/secret.csv'",
    "DESCRIBE SELECT * FROM '{d}/secret.csv'",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM which_secret('s3://x', 's3')",
    "SELECT * FROM 'https://localhost/x.csv'",
    "SELECT * FROM sqlite_scan('{d}/x', 't')",
    "SELECT * FROM checkpoint()",
    "SELECT * FROM force_checkpoint('release')",
    "ATTACH '{d}/secret.duckdb' AS other",
    "COPY (SELECT 1) TO '{d}/out.csv'",
    "COPY (SELECT 1) TO '{s}.wal'",
    "COPY data FROM '{d}/secret.csv'",
    "EXPORT DATABASE '{d}/out'",
    "IMPORT DATABASE '{d}/out'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "RESET lock_configuration",
    "PRAGMA database_list",
    "CALL pragma_version()",
    "CREATE TABLE t AS SELECT 1",
    "CREATE TEMP TABLE data AS SELECT 1",
    "CREATE MACRO m() AS 1",
    "INSERT INTO catalog.notes VALUES (1, 'a', 'b')",
    "WITH x AS (INSERT INTO catalog.notes VALUES (1, 'a', 'b') RETURNING *) SELECT * FROM x",
    "UPDATE catalog.notes SET note = ''",
    "DELETE FROM catalog.notes",
    'DROP VIEW "AGE"',
    "ALTER TABLE catalog.notes ADD COLUMN x INTEGER",
    "CREATE SECRET s (TYPE s3)",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "BEGIN",
    "USE memory",
    "VACUUM",
    "DETACH release",
    "CREATE FUNCTION f() AS 1",
    "SELECT 1; COPY (SELECT 1) TO '{d}/out.csv'",
    "EXPLAIN COPY (SELECT 1) TO '{d}/out.csv'",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{d}/out.csv'",
    "/* EXPLAIN */ EXPLAIN (FORMAT json) INSERT INTO catalog.notes VALUES (1, 'a', 'b')",
    "SELECT * FROM write_log('x')",
    "SELECT * FROM enable_logging()",
    "SELECT write_blob('{d}/out', 'x')",
]
HARMLESS = {  # answered, and neither tell nor change anything
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM which_secret('s3://x', 's3')",
    "SELECT * FROM checkpoint()",
}


def fingerprints(*folders):
    return {
        p: hashlib.sha256(p.read_bytes()).hexdigest()
        for folder in folders
        for p in sorted(Path(folder).iterdir())
        if p.is_file()
    }


def tried(release, sql):
    """What the statement gave, as text; None where it was refused."""
    try:
        return release.sql(sql).to_json()
    except QueryRefused as error:
        refusal = str(error)
    assert CANARY not in refusal
    return None


@pytest.mark.parametrize("sql", HOSTILE)
def test_hostile_statements(release, planted, sql):
    frame = pd.DataFrame({"a": [CANARY]})
    leaked = {"a": frame["a"].to_numpy()}
    canary_list = [CANARY]
    before = fingerprints(planted, release.path.parent)
    gave = tried(release, sql.format(d=planted, s=release.path, f=release.path.parent))
    assert fingerprints(planted, release.path.parent) == before
    assert gave is None or sql in HARMLESS
    assert CANARY not in (gave or "")
    assert (len(frame), len(leaked), len(canary_list)) == (1, 1, 1)
    # Nothing stays behind for the next statement.
    assert release.sql("SELECT count(*) FROM data").rows == [(make_table(("SEX",)).n_rows,)]


def test_every_function_that_sounds_like_files(release, planted):
    with duckdb.connect() as con:
        names = con.execute(
            "SELECT DISTINCT function_name, function_type FROM duckdb_functions() WHERE "
            "regexp_matches(function_name, 'read|scan|glob|file|copy|attach|secret|env|query|log|write"
            "|sniff|import|export|install|load|checkpoint') AND NOT function_name LIKE '%sequence%'"
        ).fetchall()
    assert len(names) > 30
    before = fingerprints(planted, release.path.parent)
    for name, kind in names:
        for argument in (
            f"{planted}/secret.csv",
            f"{planted}/secret.duckdb",
            f"{planted}/*",
            str(release.path),
        ):
            source = (
                f"FROM \"{name}\"('{argument}')" if "table" in kind else f"\"{name}\"('{argument}')"
            )
            gave = tried(release, f"SELECT * {source}" if "table" in kind else f"SELECT {source}")
            assert CANARY not in (gave or ""), name
            assert "secret.json" not in (gave or ""), name
    assert fingerprints(planted, release.path.parent) == before


def test_every_setting_is_locked(release):
    with duckdb.connect() as con:
        names = [n for (n,) in con.execute("SELECT name FROM duckdb_settings()").fetchall()]
    for name in names:
        with pytest.raises(QueryRefused):
            release.sql(f"SET {name} = DEFAULT")
    assert release.sql("SELECT current_setting('enable_external_access')").rows == [(False,)]
    assert release.sql("SELECT current_setting('lock_configuration')").rows == [(True,)]


def test_queries_reach_nothing_confidential():
    """Importing the query side loads no module that sees rows, noise or keys."""
    code = (
        "import sys, queries, queries.session\n"
        "print(sorted(m for m in sys.modules if m.split('.')[0] == 'engine'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPO, env={**os.environ, "PYTHONPATH": str(REPO)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    loaded = set(eval(done.stdout))
    allowed = {
        "engine",
        "engine.errors",
        "engine.universe",
        "engine.schema",
        "engine.card",
        "engine.card_dp",
        "engine.manifest",
        "engine.decode",
    }
    assert {m for m in loaded - allowed if not m.startswith("engine.store")} == set()


def test_leaves_quietly(path):
    """An interpreter that ends with handles and results alive ends without a word."""
    code = (
        "import sys; from queries.session import open_release\n"
        "r = open_release(sys.argv[1]); x = [r.sql('SELECT age FROM data') for _ in range(20)]"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], cwd=REPO, env={**os.environ, "PYTHONPATH": str(REPO)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert len(ALPHABETS) == 4


def test_an_answer_says_how_much_of_its_table_was_filled_in(release):
    table = max(release.tables, key=lambda columns: release.card(*columns).suppressed_share)
    share = release.card(*table).suppressed_share
    result = release.sql(f"SELECT {', '.join(table)} FROM data")
    assert result.table == table
    assert result.filled_share == share
    assert ("were filled in" in result.source) == (share >= 0.01)
    assert json.loads(result.to_json())["filled_share"] == share
