"""The statement policy: its list of functions against those of the installed DuckDB, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace

import duckdb
import pytest
from fixtures.release import build_release

from engine.errors import QueryRefused
from queries.sandbox import LimitedProcesses, ProcessLimits, policy
from queries.sandbox.policy import StatementPolicy, listed

VALUES, TABLES = ("scalar", "aggregate", "window", "macro"), ("table", "table_macro")


@pytest.fixture(scope="module")
def here():
    return StatementPolicy()


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """A worker process with a release."""
    path = build_release(tmp_path_factory.mktemp("policy") / "r.duckdb")
    with LimitedProcesses(path, limits=ProcessLimits(seconds=5), n=1) as asked:
        yield asked


@pytest.fixture(scope="module")
def con():
    with duckdb.connect() as con:
        yield con


def installed(con, *kinds):
    """Names of functions of some kinds that the installed DuckDB brings."""
    kinds = ", ".join(f"'{kind}'" for kind in kinds)
    rows = con.execute(
        f"SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type IN ({kinds})"
    )
    return {name for (name,) in rows.fetchall()}


def views(con):
    """Names of the views that the installed DuckDB brings."""
    rows = con.execute("SELECT DISTINCT view_name FROM duckdb_views() WHERE internal").fetchall()
    return {name for (name,) in rows}


def unlisted(con):
    """What only DuckDB or only the list has."""
    names = listed()
    return {
        *(installed(con, *VALUES) ^ (names.values | names.refused_values)),
        *(installed(con, *TABLES) ^ (names.tables | names.beneath | names.refused_tables)),
        *(views(con) ^ (names.views | names.refused_views)),
        *(installed(con, "pragma") ^ names.pragmas),
    }


def test_every_function_of_duckdb_is_on_the_list():
    """A DuckDB with a new function fails here: find out what it does, then add it to functions.toml."""
    with duckdb.connect() as con:
        assert len(installed(con, *VALUES)) > 900
        assert sorted(unlisted(con)) == []
        con.execute(
            "CREATE MACRO read_minds(path) AS 1; CREATE MACRO minds(path) AS TABLE SELECT 1"
        )
        assert sorted(unlisted(con)) == ["minds", "read_minds"]


def test_no_function_is_allowed_and_refused():
    names = listed()
    assert not names.values & names.refused_values
    assert not (names.tables | names.beneath) & names.refused_tables
    assert not names.views & names.refused_views
    assert not names.bound & names.refused_values


def test_a_function_that_is_not_on_the_list_is_refused(con, monkeypatch):
    names = listed()
    monkeypatch.setattr(
        policy,
        "listed",
        lambda: replace(names, values=names.values - {"upper"}, tables=names.tables - {"range"}),
    )
    newer = StatementPolicy()
    newer.check_text("SELECT lower('a')", con)
    for sql in (
        "SELECT upper('a')",
        "FROM range(3)",
        "SELECT unnest(list_transform(['a'], x -> upper(x)))",
        "PIVOT (SELECT upper('a') AS a) ON a USING count(*)",
    ):
        with pytest.raises(QueryRefused, match=r"(upper|range) is not available"):
            newer.check_text(sql, con)
    monkeypatch.undo()
    StatementPolicy().check_text("SELECT upper('a')", con)


def test_allowed_macros_call_allowed_functions(con):
    names = listed()
    macros = con.execute(
        "SELECT function_name, function_type, macro_definition FROM duckdb_functions() "
        "WHERE function_type IN ('macro', 'table_macro')"
    ).fetchall()
    allowed = {"macro": names.values, "table_macro": names.tables}
    checked = [(n, body) for n, kind, body in macros if n in allowed[kind]]
    assert len(checked) > 50
    for name, body in checked:
        ((tree,),) = con.execute("SELECT json_serialize_sql(?)", [f"SELECT {body}"]).fetchall()
        called = {name.lower() for name, _ in policy._names(json.loads(tree))}
        assert not called & names.refused_values, (name, called)


PLANS = {
    "CREATE VIEW v AS FROM duckdb_settings()": "duckdb_settings",
    "CREATE VIEW v AS FROM query_table('pg_settings')": "duckdb_settings",
    "CREATE VIEW v AS FROM read_text('/dev/null')": "read_text",
    "CREATE VIEW v AS FROM glob('/*')": "glob",
    "CREATE TABLE v AS SELECT 1 AS a": "memory.main.v",
    "CREATE MACRO m() AS TABLE FROM duckdb_databases(); CREATE VIEW v AS FROM m()": "duckdb_databases",
}


@pytest.mark.parametrize("made", PLANS)
def test_a_plan_is_judged_by_what_is_bound(here, made):
    """Whatever a view, macro or text names: what is scanned counts."""
    with duckdb.connect() as con:
        con.execute(made)
        for sql in (
            "FROM v",
            "SELECT 1 FROM v WHERE EXISTS (FROM v)",
            "WITH x AS MATERIALIZED (FROM v) FROM x, x AS y",
        ):
            ((_, plan),) = con.execute(f"EXPLAIN (FORMAT json) {sql}").fetchall()
            with pytest.raises(QueryRefused, match=f"{PLANS[made]} is not available"):
                here.check_plan(json.loads(plan))


def test_what_is_called_on_rows_is_judged_too(here, con):
    ((_, plan),) = con.execute(
        "EXPLAIN (FORMAT json) SELECT * FROM (VALUES (1), (2)) AS t(a), range(a)"
    ).fetchall()
    here.check_plan(json.loads(plan))
    with pytest.raises(QueryRefused, match="read_csv is not available"):
        here.check_plan(json.loads(plan.replace('"Name": "range"', '"Name": "read_csv"')))


def test_a_statement_that_cannot_be_analysed_is_refused(here, con):
    deep = "(" * 900 + "1" + ")" * 900
    nested = "SELECT " + "abs(" * 400 + "1" + ")" * 400
    for sql in (f"SELECT {deep}", nested):
        try:
            here.check_text(sql, con)
        except QueryRefused as error:
            assert len(str(error)) < 500  # noqa: PT017
    with pytest.raises(QueryRefused, match="plain quotes"):
        here.check_text(r"PIVOT (SELECT E'\x61' AS a) ON a USING count(*)", con)


def test_no_refused_function_is_planned(here, con):
    """Whatever its arguments and however its name is written."""
    names = listed()
    tables = names.refused_tables | names.beneath
    for form, kinds in (
        ("SELECT {}", names.refused_values),
        ("SELECT 1 FROM data WHERE x IN (SELECT {} OVER ())", names.refused_values),
        ("FROM {}", tables),
        ("SELECT (FROM data, LATERAL {} AS t)", tables),
        ("PIVOT (FROM {}) ON a USING count(*)", tables | names.refused_values),
    ):
        for name in sorted(kinds):
            calls = (f'"{name}"()', f"system.main.\"{name}\"('a', 1)", f'"{name.upper()}"(a := 1)')
            with pytest.raises(QueryRefused, match="is not available"):
                here.check_text(form.format(calls[len(name) % 3]), con)


SHOWS = (
    "SHOW {}",
    'SHOW "{}"',
    "SHOW/**/'{}'",
    "FROM (SHOW {})",
    "SELECT (FROM (SHOW {}))",
    "WITH x AS (SHOW {}) FROM x",
    "SUMMARIZE FROM (SHOW {})",
    "PIVOT (FROM (SHOW {0})) ON {0} USING count(*)",
    "PIVOT (FROM (SHOW\u200b{0})) ON {0} USING count(*)",
)


@pytest.mark.parametrize("form", SHOWS)
def test_show_reads_no_setting(here, con, form):
    """Also where a table has a setting's name, and by the other names that a setting has."""
    rows = con.execute(
        "SELECT unnest(list_append(aliases, name)) FROM duckdb_settings()"
    ).fetchall()
    names = [name for (name,) in rows]
    assert {"allowed_paths", "memory_limit", "threads", "worker_threads"} < set(names)
    for i, name in enumerate(names):
        sql = form.format(name.upper() if i % 2 else name)
        with pytest.raises(
            QueryRefused, match=r"is not available|SHOW on its own|unusual white space"
        ):
            here.check_text(sql, con, shown=frozenset({"data", name.lower()}))


@pytest.mark.ci
def test_show_answers_of_the_release(asked):
    described = asked.sql("DESCRIBE data").rows
    for sql in ("SHOW data", 'SHOW "DATA"', "FROM (SHOW data)", "SHOW SELECT * FROM data"):
        assert asked.sql(sql).rows == described
    assert asked.sql('SHOW "age"').rows[0][0].lower() == "age"
    with pytest.raises(QueryRefused, match="allowed_paths is not available"):
        asked.sql("SHOW allowed_paths")


@pytest.mark.parametrize(
    "blank", ["\u00a0", "\u200b", "\u2003", "\u202f", "\u2060", "\u3000", "\ufeff"]
)
def test_unusual_white_space_hides_no_name_in_a_pivot(here, con, blank):
    """DuckDB's parser reads it as white space, its tokeniser as part of a name."""
    for text in (
        f"PIVOT (SELECT{blank}current_setting('threads') AS v) ON v USING count(*)",
        f"PIVOT (SELECT current_setting{blank}('threads') AS v) ON v USING count(*)",
        f"PIVOT (SELECT \"current_setting\"{blank}('threads') AS v) ON v USING count(*)",
        f"PIVOT (FROM{blank}pg_settings) ON name USING count(*)",
    ):
        with pytest.raises(QueryRefused, match=r"unusual white space|is not available"):
            here.check_text(text, con)
    here.check_text(f"PIVOT (SELECT 'a{blank}' AS é, 1 AS \"{blank}\") ON é USING count(*)", con)


LISTINGS = (
    *(
        f"SELECT * FROM information_schema.{view} ORDER BY ALL"
        for view in ("tables", "columns", "schemata", "views")
    ),
    "SELECT * FROM pg_tables ORDER BY ALL",
    "SELECT * FROM pg_views ORDER BY ALL",
    "SELECT * FROM sqlite_master ORDER BY ALL",
    "SHOW TABLES",
    "SHOW ALL TABLES",
    "SELECT d.*, s.* FROM information_schema.schemata AS s, (SELECT sex FROM data) AS d ORDER BY ALL",
    "SELECT current_schemas(true), current_schema(), current_catalog",
    "EXPLAIN SELECT count(*) FROM data",
    "PIVOT (SELECT sex, age FROM data) ON sex USING count(*) ORDER BY ALL",
)


def test_a_worker_forgets(asked):
    """Listings are the same whatever others asked in between in the same process."""
    before = [asked.sql(sql).rows for sql in LISTINGS]
    for sql in (
        "SELECT age, town, count(*) AS spied FROM data GROUP BY ALL",
        "PIVOT (SELECT sex, age FROM data) ON sex USING count(*) AS spied",
        "SELECT setseed(0.5)",
        "SUMMARIZE SELECT income FROM data",
        "EXPLAIN ANALYZE SELECT town FROM data",
    ):
        asked.sql(sql)
        asked.sql("SELECT age, count(*) AS spied FROM data GROUP BY ALL", intervals=True)
    assert [asked.sql(sql).rows for sql in LISTINGS] == before
    assert "spied" not in repr(before)
