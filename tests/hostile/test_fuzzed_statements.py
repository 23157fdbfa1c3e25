"""Random statements from everything that is allowed: none reveals the server, none affects the next one."""

from __future__ import annotations

from collections import Counter

import pytest
from fixtures.release import build_release, make_table
from fixtures.statement_writer import Writer

from engine.errors import InternalError, QueryRefused
from queries.sandbox import LimitedProcesses, ProcessLimits

pytestmark = pytest.mark.hostile
REVEALING = (
    "site-packages",
    "canary-folder-31ad",
    "python3",
    ".so(",
    "MiB",
    "logical_",
    "Traceback",
)


def tried(path, seed, n):
    """Ask n statements; return how many were answered and refused."""
    writer, ends = Writer(seed), Counter()
    limits = ProcessLimits(seconds=1, answer_mb=4, rows=10)
    with LimitedProcesses(path, limits=limits, n=1) as sandbox:
        for _ in range(n):
            sql = writer.statement()
            try:
                output, end = repr(sandbox.sql(sql).rows), "answered"
            except QueryRefused as error:
                output, end = str(error), "refused"
            except InternalError as error:
                pytest.fail(f"internal error: {sql}: {error}")
            ends[end] += 1
            assert [word for word in REVEALING if word in output] == [], sql
        assert sandbox.sql("SELECT count(*) FROM data").rows == [(make_table(("SEX",)).n_rows,)]
    return ends


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzzed") / "canary-folder-31ad"
    folder.mkdir()
    return build_release(folder / "r.duckdb")


@pytest.mark.ci
def test_random_statements(path):
    ends = tried(path, seed=1, n=15)
    assert ends["answered"] > 1
    assert ends["refused"] > 1
