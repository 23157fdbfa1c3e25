"""Hostile statements, one file per kind: none reveals the server or other users, and ordinary ones work."""

from __future__ import annotations

import base64
import re
import sys
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from fixtures.hostile_statements import CANARY, leaks, planted_around
from fixtures.pipeline import ROOT
from fixtures.release import build_release, make_table

from engine.errors import QueryRefused
from queries.release import open_release
from queries.sandbox import LimitedProcesses, ProcessLimits

pytestmark = pytest.mark.hostile
HERE = Path(__file__).parent
KINDS = sorted((HERE / "statements").glob("*.sql"))
ORDINARY = sorted((HERE / "ordinary").glob("*.sql"))
FOLDER, NAME = "canary-folder-77aa", "canary-release-55bb"
SPIED = ("spy_41", "spy_42")
LEAST_HOSTILE, LEAST_ORDINARY = 400, 60
SETTINGS = (
    "lock_configuration",
    "autoload_known_extensions",
    "enable_external_access",
    "MiB",
    "GiB",
)
N_ROWS = make_table(("SEX",)).n_rows


def statements(path):
    """The statements of a file, one per line; {n} and {r} are line ends."""
    lines = path.read_text("utf-8").splitlines()[1:]
    return [line.replace("{n}", "\n").replace("{r}", "\r") for line in lines if line]


def filled(text, planted, path):
    for placeholder, place in (("{d}", planted.folder), ("{s}", path), ("{f}", path.parent)):
        text = text.replace(placeholder, str(place))
    return text


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile") / FOLDER
    folder.mkdir()
    return build_release(folder / f"{NAME}.duckdb")


@pytest.fixture(scope="module")
def planted(path, tmp_path_factory):
    with planted_around(tmp_path_factory.mktemp("planted") / "d", path) as planted:
        yield planted


@pytest.fixture(scope="module")
def sandbox(path, planted):
    """One process, which has already answered another user."""
    limits = ProcessLimits(seconds=5, process_mb=768, rows=1000, answer_mb=4)
    with LimitedProcesses(path, limits=limits, n=1) as sandbox:
        for sql in (
            f"SELECT age, town, count(*) AS {SPIED[0]} FROM data GROUP BY ALL",
            f"PIVOT (SELECT sex, age FROM data) ON sex USING count(*) AS {SPIED[1]}",
            "SELECT * FROM information_schema.tables",
        ):
            sandbox.sql(sql)
        yield sandbox


def revealed(output, sql):
    """What an output reveals about the server or other users that the statement did not contain itself."""
    facts = {FOLDER, NAME, str(ROOT), str(Path(sys.executable).parent), f"v{duckdb.__version__}"}
    forms = {
        form
        for fact in facts
        for form in (fact, fact[::-1], fact.encode().hex(), fact.encode().hex().upper())
    } | {base64.b64encode(FOLDER.encode()).decode()[:-4]}
    words = [*forms, *SPIED, *SETTINGS, *re.findall(r"logical_\d+", output)]
    return [w for w in words if w in output and w not in sql] + leaks(output)


def tried(asked, text, **how):
    """The answer or refusal as text, and whether it was refused."""
    try:
        answer = asked.sql(text, **how)
        return repr((answer.columns, answer.rows, answer.warnings, answer.source)), False
    except QueryRefused as error:
        return str(error), True


@pytest.mark.parametrize("kind", KINDS, ids=lambda p: p.stem)
def test_no_statement_reveals_the_server_or_other_users(kind, sandbox, planted, path):
    frame, canary_table, canary_list = (
        pd.DataFrame({"a": [CANARY]}),
        {"a": np.array([CANARY])},
        [CANARY],
    )
    refused, leaking = 0, {}
    for sql in statements(kind):
        text = filled(sql, planted, path)
        output, is_refused = tried(sandbox, text)
        refused += is_refused
        if found := revealed(output, text):
            leaking[sql] = found
    assert leaking == {}
    assert planted.now() == planted.before
    assert sandbox.sql("SELECT count(*) FROM data").rows == [(N_ROWS,)]
    assert len(frame) == len(canary_table) == len(canary_list) == 1
    most_are_answered = kind.stem == "statements_of_others"  # listings of what is released
    assert refused > len(statements(kind)) * (0.4 if most_are_answered else 0.9)


@pytest.mark.ci
@pytest.mark.parametrize("kind", ["files", "kinds", "text_as_sql"])
def test_the_custodian_cannot_reach_files_or_change_anything_either(kind, planted, path):
    """Without the statement policy: the lock-down of `open_release` alone."""
    frame, canary_table, canary_list = (
        pd.DataFrame({"a": [CANARY]}),
        {"a": np.array([CANARY])},
        [CANARY],
    )
    with open_release(path, timeout_s=5) as release:
        for sql in statements(HERE / "statements" / f"{kind}.sql"):
            output, is_refused = tried(release, filled(sql, planted, path))
            assert leaks(output) == [], sql
            assert is_refused or kind != "kinds" or sql.startswith("SELECT * FROM"), sql
        assert release.sql("SELECT count(*) FROM data").rows == [(N_ROWS,)]
    assert planted.now() == planted.before
    assert len(frame) == len(canary_table) == len(canary_list) == 1


@pytest.mark.parametrize("kind", ["settings", "databases", "text_as_sql", "written_oddly"])
def test_intervals_open_no_door(kind, sandbox, planted, path):
    for sql in statements(HERE / "statements" / f"{kind}.sql")[::4]:
        text = filled(sql, planted, path)
        assert revealed(tried(sandbox, text, intervals=True)[0], text) == [], sql


def test_the_corpus_is_large_and_has_no_duplicates():
    hostile = [s for path in KINDS for s in statements(path)]
    ordinary = [s for path in ORDINARY for s in statements(path)]
    assert len(hostile) >= LEAST_HOSTILE
    assert len(ordinary) >= LEAST_ORDINARY
    assert len(set(hostile)) == len(hostile)
    assert len(set(ordinary)) == len(ordinary)
    assert all(path.read_text("utf-8").startswith("--") for path in (*KINDS, *ORDINARY))


@pytest.mark.ci
def test_ordinary_statements_are_answered(sandbox):
    for sql in (s for path in ORDINARY for s in statements(path)):
        answer = sandbox.sql(sql)
        assert answer.columns, sql
        assert revealed(repr(answer.rows), sql) == [], sql


@pytest.mark.slow
def test_an_unprotected_duckdb_reveals_them(path, planted):
    """The corpus asks for what exists: without protection, DuckDB gives it away."""
    found = {}
    with duckdb.connect() as con:
        con.execute(f"ATTACH '{path}' AS release (READ_ONLY); USE release")
        con.execute("CREATE VIEW memory.main.data AS FROM range(1) AS t(age), (SELECT 'f' AS sex)")
        con.execute(
            "CREATE SCHEMA memory.logical_0; CREATE VIEW memory.logical_0.data AS SELECT 1 AS spy_41"
        )
        con.execute("SET search_path = 'release.main,memory.main'")
        for kind in KINDS:
            if kind.stem not in ("kinds", "process", "faults_of_duckdb"):
                # Open files of this process may be pipes to the one that runs the tests.
                asked = (sql for sql in statements(kind) if "/fd/" not in sql)
                texts = (filled(sql, planted, path) for sql in asked)
                found[kind.stem] = sum(_leaks_from(con, text) for text in texts)
    for wal in path.parent.glob("*.wal"):
        wal.unlink()
    assert planted.now() == planted.before
    least = {
        "settings": 15,
        "databases": 25,
        "text_as_sql": 10,
        "statements_of_others": 5,
        "written_oddly": 20,
        "files": 15,
    }
    assert {kind: n for kind, n in least.items() if found[kind] <= n} == {}


def _leaks_from(con, text):
    if text.startswith(("PRAGMA", "CALL", "COPY", "EXPORT")):
        return False
    try:
        rows = con.execute(text).fetchall()
    except duckdb.Error as error:
        return bool(revealed(str(error), text))
    return bool(revealed(repr(rows), text))
