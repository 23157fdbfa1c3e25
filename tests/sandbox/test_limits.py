"""The lock-down of an open release, and of the sandbox's processes: what DuckDB itself can no longer do."""

from __future__ import annotations

import duckdb
import pandas as pd
import pytest
from fixtures.hostile_statements import CANARY, calls, leaks, planted_around, suspicious
from fixtures.release import build_release, make_table

from engine.errors import DuckDBFailed, QueryRefused, TimedOut
from queries.release import open_release
from queries.sandbox import LimitedProcesses, ProcessLimits

N_ROWS = make_table(("SEX",)).n_rows
ENDLESS = "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE hash(a.range + b.range) = 1"  # 10^12 rows


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return build_release(tmp_path_factory.mktemp("sandbox") / "r.duckdb")


@pytest.fixture(scope="module")
def planted(path, tmp_path_factory):
    with planted_around(tmp_path_factory.mktemp("planted") / "d", path) as planted:
        yield planted


@pytest.fixture(scope="module")
def release(path, planted):
    with open_release(path, timeout_s=5) as release:
        yield release


@pytest.fixture(scope="module")
def sandbox(path, planted):
    limits = ProcessLimits(seconds=2, process_mb=768, rows=1000, answer_mb=4)
    with LimitedProcesses(path, limits=limits, n=1) as sandbox:
        yield sandbox


def tried(asked, sql):
    """An answer as text; None if the statement was refused, in a message without the canary."""
    try:
        return repr(asked.sql(sql).rows)
    except QueryRefused as error:
        message = str(error)
    assert CANARY not in message, sql
    return None


@pytest.mark.ci
def test_words_that_only_look_like_functions_are_allowed(sandbox):
    for sql in (
        "SELECT 'the query of a user' AS a",
        "SELECT count(*) AS my_query FROM data",
        "WITH query AS (SELECT 1 AS a) SELECT a FROM query",
        "WITH query(a) AS (SELECT 1) SELECT a FROM query",
        "SELECT 'the query (of a user), pg_settings and current_setting' AS a -- of duckdb_databases()",
        "SELECT /* query('x') */ 1 AS query",
        "PIVOT (SELECT 'a query (x)' AS a) ON a USING count(*) -- one query (of mine)",
    ):
        assert len(sandbox.sql(sql).rows) == 1


@pytest.mark.ci
def test_no_listing_reveals_the_path_of_the_release(sandbox, release):
    with duckdb.connect() as con:
        views = con.execute(
            "SELECT DISTINCT database_name || '.' || schema_name || '.' || view_name FROM duckdb_views() WHERE internal"
        ).fetchall()
        functions = [f"{name}()" for name, kind in suspicious(con).items() if kind == "table"]
    assert len(views) > 30
    assert len(functions) > 30
    answered = 0
    for source in (*(v for (v,) in views), *functions):
        try:
            output = repr(sandbox.sql(f"SELECT to_json(COLUMNS(*))::VARCHAR FROM {source}").rows)
            answered += 1
        except QueryRefused as error:
            output = str(error)
        assert str(release.path.parent) not in output, source
        assert release.path.name not in output, source
    assert 10 < answered < 30  # the others are refused: see functions.toml


@pytest.mark.parametrize("step", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_every_suspicious_function_called_on_what_is_planted(release, planted, step):
    """The custodian's own connection, without the statement policy; a newer DuckDB's functions are tried as well."""
    frame = pd.DataFrame({"a": [CANARY]})
    answered = set()
    with duckdb.connect() as con:
        found = suspicious(con)
    assert len(found) > 100
    for i, (name, kind) in enumerate(found.items()):
        for sql in calls(name, kind, planted, release.path)[i % step :: step]:
            output = tried(release, sql)
            assert leaks(output or "") == [], sql
            answered |= {name} if output is not None else set()
    assert planted.now() == planted.before
    assert not {n for n in answered if n.startswith(("read_", "parquet_", "glob", "sniff"))}
    assert len(answered) > 15  # the calls are well formed
    assert release.sql("SELECT count(*) FROM data").rows == [(N_ROWS,)]
    assert len(frame) == 1


def test_the_installation_path_of_duckdb_is_not_revealed(path):
    """DuckDB 2.0 prints its own calls with paths when it fails."""
    with open_release(path) as release:
        for _ in range(2):  # the second time it is no longer usable
            with pytest.raises(DuckDBFailed) as refused:
                release.sql("SELECT \"=\"(1, 'a') FROM range(2)").rows  # noqa: B018
            assert ".so" not in str(refused.value)


def test_settings_are_locked(release):
    with duckdb.connect() as con:
        names = [n for (n,) in con.execute("SELECT name FROM duckdb_settings()").fetchall()]
    assert len(names) > 50
    for name in names:
        for sql in (f"SET {name} = DEFAULT", f"RESET {name}", f"SET GLOBAL {name} = 1"):
            assert tried(release, sql) is None, sql
    locked = (
        "SELECT current_setting('lock_configuration'), current_setting('enable_external_access')"
    )
    assert release.sql(locked).rows == [(True, False)]


def test_nothing_is_left_for_the_next_request(release):
    assert release.sql(
        "PIVOT (SELECT sex FROM data) ON sex USING count(*)"
    ).rows  # runs several statements
    left = (
        "SELECT table_name FROM duckdb_tables() WHERE database_name IN ('temp', 'memory') UNION ALL "
        "SELECT type_name FROM duckdb_types() WHERE NOT internal UNION ALL "
        "SELECT function_name FROM duckdb_functions() WHERE NOT internal AND database_name IN ('temp', 'memory')"
    )
    assert release.sql(left).rows == []
    views = "SELECT view_name FROM duckdb_views() WHERE database_name = 'temp' AND NOT internal"
    assert set(release.sql(views).rows) <= {("data",)}


@pytest.mark.ci
@pytest.mark.parametrize("where", ["release", "sandbox"])
def test_an_endless_cross_join_is_stopped(where, path, request):
    """It has 10^12 rows: that it ends with a refusal shows that it was stopped."""
    with open_release(path, timeout_s=1) as release:
        asked = release if where == "release" else request.getfixturevalue("sandbox")
        with pytest.raises(TimedOut):
            asked.sql(ENDLESS).rows  # noqa: B018
        assert asked.sql("SELECT count(*) FROM data").rows == [(N_ROWS,)]
