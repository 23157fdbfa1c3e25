"""Reused connections are like new: no answered statement leaves anything behind."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import duckdb
import pytest
from fixtures.release import build_release
from fixtures.statement_writer import Writer

from queries.sandbox import ProcessLimits, worker
from queries.sandbox.policy import StatementPolicy
from queries.sql import Oversight

HOSTILE = Path(__file__).resolve().parents[1] / "hostile"
CORPUS = [
    line.replace("{n}", "\n").replace("{r}", "\r")
    for folder, step in (
        ("ordinary", 4),
        ("statements", 24),
    )  # most of these are refused before they run
    for path in sorted((HOSTILE / folder).glob("*.sql"))
    for line in path.read_text("utf-8").splitlines()[1::step]
    if line
]
OF_A_CONNECTION = (
    "SELECT name, value FROM duckdb_settings() ORDER BY ALL",
    "SELECT database_name, schema_name, table_name FROM duckdb_tables() ORDER BY ALL",
    "SELECT database_name, schema_name, view_name, sql FROM duckdb_views() ORDER BY ALL",
    "SELECT database_name, schema_name, type_name FROM duckdb_types() WHERE NOT internal ORDER BY ALL",
    "SELECT function_name, macro_definition FROM duckdb_functions() WHERE NOT internal ORDER BY ALL",
    "SELECT sequence_name FROM duckdb_sequences() ORDER BY ALL",
    "SELECT database_name, schema_name FROM duckdb_schemas() ORDER BY ALL",
    "SELECT database_name, path FROM duckdb_databases() ORDER BY ALL",
    "SELECT name FROM duckdb_variables() ORDER BY ALL",
    "SELECT name FROM duckdb_prepared_statements() ORDER BY ALL",
    "SELECT current_setting('search_path'), current_schemas(true), current_catalog()",
)
LIMITS = ProcessLimits(seconds=1, answer_mb=4, rows=50)


def state_of(con):
    """Everything a connection holds, apart from its random state."""
    return [con.execute(text).fetchall() for text in OF_A_CONNECTION]


@pytest.fixture
def opened(tmp_path):
    policy = StatementPolicy()
    start = {"path": str(build_release(tmp_path / "r.duckdb")), "verify": "size"}
    oversight = Oversight(look=policy.check_plan, is_stopped=lambda: False)
    release = worker._opened(start, LIMITS, oversight)
    yield release, policy
    release.close()


def kept(release):
    """Connections kept for the next statements."""
    return release._views._kept


def last(release):
    """The connection that was used last."""
    return [*kept(release).values()][-1]


def ask(opened, text, **how):
    release, policy = opened
    request = {"sql": text, "how": how}
    end, *rest = worker._answered(release, policy, request, LIMITS, worker._shown(release))
    assert rest[0] != "InternalError", text
    return end


@pytest.mark.ci
def test_kept_connections_are_like_new_ones(opened):
    """Run the corpus and some random statements, then compare kept connections with new ones."""
    release, _ = opened
    writer = Writer(9)
    views, fresh, given_back = release._views, {}, Counter()
    take_back = views._take_back

    def counted(table, con):
        given_back[id(con)] += 1  # kept connections stay alive, so that ids are unique
        take_back(table, con)

    views._take_back = counted
    for i, text in enumerate([*CORPUS, *(writer.statement() for _ in range(15))], start=1):
        ask(opened, text, **({"intervals": True} if i % 5 == 0 else {}))
        if i % 20 == 0 or i == len(CORPUS):
            for table, con in kept(release).items():
                if table not in fresh:
                    new = release._new_cursor()
                    views.use(new, table)
                    fresh[table] = state_of(new)
                assert state_of(con) == fresh[table], f"after one of the 20 up to: {text}"
    assert sum(given_back[id(con)] for con in kept(release).values()) > 10


@pytest.mark.slow
def test_the_comparison_detects_what_a_statement_would_leave(opened):
    """Each of these is refused; run directly on a kept connection, each is detected."""
    release, _ = opened
    assert ask(opened, "SELECT count(*) FROM data") == "answer"
    con = last(release)
    before = state_of(con)
    seen = []
    for text in (
        "CREATE TEMP TABLE a AS SELECT 1",
        "CREATE TEMP VIEW b AS SELECT 1",
        "CREATE TYPE memory.c AS ENUM ('x')",
        "CREATE TEMP MACRO d() AS 1",
        "CREATE TEMP SEQUENCE e",
        "SET VARIABLE f = 1",
        "PREPARE g AS SELECT 1",
        "USE memory",
    ):
        assert ask(opened, text) == "refused"
        con.execute(text)
        assert state_of(con) != before, text
        before = state_of(con)
        seen.append(text)
    assert len(seen) == 8


def test_the_random_state_is_not_kept(opened):
    """Neither a known seed nor earlier draws predict later ones."""
    release, _ = opened
    seeded = "SELECT setseed(0.5), count(*) FROM data"
    drawn = []
    for _ in range(2):
        assert ask(opened, seeded) == "answer"
        con = last(release)
        drawn.append(con.execute("SELECT random(), random()").fetchall())
    assert drawn[0] != drawn[1]
    with duckdb.connect() as con:
        con.execute("SELECT setseed(0.5)").fetchall()
        assert con.execute("SELECT random(), random()").fetchall() not in drawn


def test_only_connections_of_complete_answers_are_kept(opened):
    release, _ = opened
    for text, end in (
        ("SELECT error('x' || age) FROM data", "refused"),
        ("SELECT age FROM data, range(100)", "answer"),  # more rows than go out
    ):
        assert ask(opened, "SELECT count(age) FROM data") == "answer"
        con = last(release)
        assert ask(opened, text) == end
        assert con not in kept(release).values()
