"""Statements of strangers, a file for each kind: none tells of the server or of others, and ordinary ones work."""

from __future__ import annotations

import base64
import re
import sys
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from fixtures.hostile_statements import CANARY, leaks, planted_around
from fixtures.pipeline import ROOT
from fixtures.release import build_release, make_table

from engine.errors import QueryRefused
from queries.sandbox import ProcessLimits, limited_processes

pytestmark = pytest.mark.hostile
HERE = Path(__file__).parent
KINDS = sorted((HERE / "statements").glob("*.sql"))
ORDINARY = sorted((HERE / "ordinary").glob("*.sql"))
FOLDER, NAME = "canary-folder-77aa", "canary-release-55bb"
SPIED = ("spy_41", "spy_42")
LEAST_HOSTILE, LEAST_ORDINARY = 300, 60
SETTINGS = (
    "lock_configuration",
    "autoload_known_extensions",
    "enable_external_access",
    "MiB",
    "GiB",
)


def statements(path):
    """The statements of a file, one a line; {n} and {r} are line ends."""
    lines = path.read_text("utf-8").splitlines()[1:]
    return [line.replace("{n}", "\n").replace("{r}", "\r") for line in lines if line]


def filled(text, planted, path):
    places = (("{d}", planted.folder), ("{s}", path), ("{f}", path.parent))
    for sign, place in places:
        text = text.replace(sign, str(place))
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
def strangers(path, planted):
    """One process, in which somebody else has asked already."""
    limits = ProcessLimits(seconds=5, process_mb=768, rows=1000, answer_mb=4)
    with limited_processes(path, limits=limits, n=1) as strangers:
        for sql in (
            f"SELECT age, town, count(*) AS {SPIED[0]} FROM data GROUP BY ALL",
            f"PIVOT (SELECT sex, age FROM data) ON sex USING count(*) AS {SPIED[1]}",
            "SELECT * FROM information_schema.tables",
        ):
            strangers.sql(sql)
        yield strangers


def told(output, asked):
    """What an output tells of the server or of others and the statement did not say itself."""
    facts = {FOLDER, NAME, str(ROOT), str(Path(sys.executable).parent), f"v{duckdb.__version__}"}
    forms = {
        form
        for fact in facts
        for form in (fact, fact[::-1], fact.encode().hex(), fact.encode().hex().upper())
    } | {base64.b64encode(FOLDER.encode()).decode()[:-4]}
    words = [*forms, *SPIED, *SETTINGS, *re.findall(r"logical_\d+", output)]
    return [w for w in words if w in output and w not in asked] + leaks(output)


def tried(strangers, text, **how):
    """What comes back, as text: rows with their names and warnings, or the refusal; and whether it is one."""
    try:
        answer = strangers.sql(text, **how)
    except QueryRefused as error:
        return str(error), True
    return repr((answer.columns, answer.rows, answer.warnings, answer.source)), False


@pytest.mark.parametrize("kind", KINDS, ids=lambda p: p.stem)
def test_no_statement_tells_of_the_server_or_of_others(kind, strangers, planted, path):
    frame, canary_table = pd.DataFrame({"a": [CANARY]}), {"a": np.array([CANARY])}
    refused, told_by = 0, {}
    for sql in statements(kind):
        text = filled(sql, planted, path)
        output, is_refused = tried(strangers, text)
        refused += is_refused
        if found := told(output, text):
            told_by[sql] = found
    assert told_by == {}
    assert planted.now() == planted.before
    assert strangers.sql("SELECT count(*) FROM data").rows == [(make_table(("SEX",)).n_rows,)]
    assert (len(frame), len(canary_table)) == (1, 1)
    most_are_answered = kind.stem == "statements_of_others"  # listings, of what is released
    assert refused > len(statements(kind)) * (0.4 if most_are_answered else 0.9)


@pytest.mark.parametrize("kind", ["settings", "databases", "text_as_sql", "written_oddly"])
def test_intervals_open_no_door(kind, strangers, planted, path):
    for sql in statements(HERE / "statements" / f"{kind}.sql")[::4]:
        text = filled(sql, planted, path)
        assert told(tried(strangers, text, intervals=True)[0], text) == [], sql


def test_the_corpus_is_large_and_no_statement_stands_twice():
    hostile = [s for path in KINDS for s in statements(path)]
    ordinary = [s for path in ORDINARY for s in statements(path)]
    assert len(hostile) >= LEAST_HOSTILE
    assert len(ordinary) >= LEAST_ORDINARY
    assert len(set(hostile)) == len(hostile)
    assert len(set(ordinary)) == len(ordinary)
    assert all(path.read_text("utf-8").startswith("--") for path in (*KINDS, *ORDINARY))


@pytest.mark.parametrize(
    "sql", [s for path in ORDINARY for s in statements(path)], ids=lambda s: s[:40]
)
def test_ordinary_statements_are_answered(sql, strangers):
    answer = strangers.sql(sql)
    assert answer.columns
    assert told(repr(answer.rows), sql) == []


def test_without_the_wall_they_tell(path, planted):
    """The corpus asks for what is there: an open DuckDB gives it away."""
    found = dict.fromkeys((p.stem for p in KINDS), 0)
    with duckdb.connect() as con:
        con.execute(f"ATTACH '{path}' AS release (READ_ONLY); USE release")
        con.execute("CREATE VIEW memory.main.data AS FROM range(1) AS t(age), (SELECT 'f' AS sex)")
        con.execute(
            "CREATE SCHEMA memory.logical_0; CREATE VIEW memory.logical_0.data AS SELECT 1 AS spy_41"
        )
        con.execute("SET search_path = 'release.main,memory.main'")
        for kind in KINDS:
            if kind.stem not in ("kinds", "process", "files", "faults_of_duckdb"):
                found[kind.stem] = sum(map(partial(_leaks_from, con), statements(kind)))
    for wal in path.parent.glob("*.wal"):
        wal.unlink()
    assert found["settings"] > 15
    assert found["databases"] > 25
    assert found["text_as_sql"] > 10
    assert found["statements_of_others"] > 5
    assert found["written_oddly"] > 20


def _leaks_from(con, text):
    if text.startswith(("PRAGMA", "CALL")) or "{" in text:
        return False
    try:
        rows = con.execute(text).fetchall()
    except duckdb.Error as error:
        return bool(told(str(error), text))
    return bool(told(repr(rows), text))
