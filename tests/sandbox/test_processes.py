"""Untrusted SQL: answered as by a release, within limits, and unaffected by failing processes."""

from __future__ import annotations

import datetime
import os
import pickle
import re
import signal
import sys
import threading
import time
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pytest
from fixtures.hostile_statements import CANARY, ENVIRONMENT
from fixtures.release import build_release, make_table

from engine.errors import (
    DamagedRelease,
    DuckDBFailed,
    InternalError,
    NotAnswerable,
    QueryRefused,
    ReplacedRelease,
    StoreError,
    TimedOut,
    TooLarge,
)
from queries.release import open_release
from queries.sandbox import LimitedProcesses, ProcessLimits
from queries.sandbox.limits import plain_loads

N_ROWS = make_table(("SEX",)).n_rows


SLOW = pytest.mark.slow
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux says of processes")


def workers():
    """Worker processes of this process."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if int(parent) == os.getpid() and b"queries.sandbox.worker" in command:
            found.add(int(folder.name))
    return found


def cpu_s(pid):
    """Processor seconds that a process has used."""
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def kill(pid):
    """Kill a child process and wait until it has ended, leaving its exit status for its owner."""
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


@pytest.fixture
def instead(tmp_path, monkeypatch):
    """Run another program in place of Python when a worker process is started."""

    def put(text, program=sys.executable):
        script = tmp_path / "python"
        script.write_text(f"#!{program}\n{text}")
        script.chmod(0o700)
        monkeypatch.setattr(sys, "executable", str(script))

    return put


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return build_release(tmp_path_factory.mktemp("sandbox") / "r.duckdb")


@pytest.fixture(scope="module")
def release(path):
    with open_release(path) as release:
        yield release


@pytest.fixture(scope="module")
def others():
    """Worker processes of other tests."""
    return workers()


@pytest.fixture(scope="module")
def sandbox(path, others):
    os.environ[ENVIRONMENT] = CANARY
    limits = ProcessLimits(seconds=2, process_mb=768, rows=1000, answer_mb=4)
    with LimitedProcesses(path, limits=limits, n=1) as sandbox:
        yield sandbox
    del os.environ[ENVIRONMENT]


ENDLESS = (
    "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE hash(a.range + b.range) = 1"
)
GREEDY = [
    # a vector of strings, which DuckDB does not count
    "SELECT sum(length(repeat('x' || range, 200000000))) FROM range(100)",
    "SELECT list(range) FROM range(100000000)",
    "SELECT repeat('x', 600000000)",
    "SELECT repeat('x', 5000000)",  # an answer that is too large
    "SELECT repeat('x' || range, 100000) FROM range(2000)",
]


@pytest.mark.ci
@pytest.mark.parametrize("sql", [GREEDY[0], *(pytest.param(s, marks=SLOW) for s in GREEDY[1:])])
def test_greedy_statements_are_refused_and_the_next_one_works(sandbox, sql):
    with pytest.raises(QueryRefused, match=r"memory|stopped after") as no:
        sandbox.sql(sql)
    assert not re.search(r"iB|used", str(no.value))  # DuckDB's numbers on the memory of the process
    assert sandbox.sql("SELECT count(*) FROM data").rows == [(N_ROWS,)]


def test_a_lone_surrogate_is_refused(sandbox):
    with pytest.raises(QueryRefused, match=r"\b9\b"):
        sandbox.sql("SELECT '\ud800'")


@LINUX
def test_the_kernel_holds_the_process(sandbox, others):
    sandbox.sql("SELECT 1")
    (pid,) = workers() - others
    proc = Path(f"/proc/{pid}")
    limits, status = (proc / "limits").read_text(), (proc / "status").read_text()
    environment = (proc / "environ").read_bytes()
    held = {line[:25].strip(): line[25:].split()[:2] for line in limits.splitlines()}
    assert (
        held["Max open files"] == held["Max file size"] == held["Max core file size"] == ["0", "0"]
    )
    assert int(held["Max address space"][1]) < 4 * 2**30
    assert int(held["Max cpu time"][0]) < 60
    peak = int(status.split("VmHWM:")[1].split()[0])
    assert (
        peak < (768 + 300) * 1024
    )  # after all that was tried above; the pages themselves are fewer
    assert CANARY.encode() not in environment


def test_answers_are_those_of_a_release(sandbox, release):
    every = (
        "SELECT DATE '2020-01-02', TIMESTAMP '2020-01-02 03:04:05', 1.50::DECIMAL(5, 2), 'x'::BLOB, [1, NULL], "
        "{'a': 1}, UUID '00000000-0000-0000-0000-000000000001', INTERVAL 2 DAY, 'inf'::DOUBLE, 2::HUGEINT ** 70, NULL"
    )
    for sql in (
        "SELECT sex, count(*) FROM data GROUP BY sex ORDER BY sex",
        "SELECT age FROM data LIMIT 3",
        every,
    ):
        ours, theirs = release.sql(sql), sandbox.sql(sql)
        assert theirs.rows == ours.rows
        for name in ("columns", "types", "table", "source"):
            assert getattr(theirs, name) == getattr(ours, name)
        assert theirs.warnings == ours.warnings
        assert theirs.marks(len(ours)) == ours.marks  # figures travel as they are
    values = sandbox.sql(every).rows[0]
    assert values[:3] == (
        datetime.date(2020, 1, 2),
        datetime.datetime(2020, 1, 2, 3, 4, 5),
        Decimal("1.50"),
    )
    assert values[6] == UUID(int=1)
    with pytest.raises(NotAnswerable, match="no column 'agge'") as refused:
        sandbox.sql("SELECT agge FROM data")
    assert refused.value.missing == ("agge",)
    with pytest.raises(NotAnswerable) as refused:
        sandbox.sql("SELECT income FROM data WHERE town = 'Bath'")
    assert ("AGE", "TOWN") in refused.value.nearest


def test_intervals_and_internal_errors(sandbox, release):
    sql = "SELECT age, count(*) AS n FROM data GROUP BY age ORDER BY age"
    ours, theirs = release.sql(sql, intervals=True), sandbox.sql(sql, intervals=True)
    assert (theirs.columns, theirs.rows) == (ours.columns, ours.rows)
    assert len(theirs.columns) > 2
    with pytest.raises(InternalError, match=r"TypeError in worker\.py:"):
        sandbox.sql(sql, nonsense=True)


@pytest.mark.ci
@LINUX
def test_a_process_that_dies_is_replaced(path, monkeypatch):
    others = workers()
    with LimitedProcesses(path, n=1) as asked:
        (first,) = workers() - others
        kill(first)
        assert asked.sql("SELECT 1").rows == [(1,)]  # it died between two statements
        (second,) = workers() - others
        monkeypatch.setattr(sys, "executable", "/nowhere/python")
        kill(second)
        with pytest.raises(StoreError, match="cannot be started"):
            asked.sql("SELECT 1")
        monkeypatch.undo()
        assert asked.sql("SELECT 1").rows == [(1,)]


@pytest.mark.ci
@LINUX
def test_an_end_waits_no_longer_than_it_may(path):
    others, refused = workers(), []
    asked = LimitedProcesses(path, limits=ProcessLimits(seconds=600), n=2)

    def ask():
        try:
            asked.sql(ENDLESS)
        except TooLarge as error:
            refused.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    time.sleep(0.3)
    asked.close(0.2)
    asking.join()
    assert len(refused) == 1  # ended, not stopped at its time limit
    assert workers() - others == set()  # none is started for the next statement
    with pytest.raises(StoreError, match="closed"):
        asked.sql("SELECT 1")


@pytest.mark.ci
@LINUX
@pytest.mark.parametrize("intervals", [True, pytest.param(False, marks=SLOW)])
def test_one_time_limit_covers_all_parts_of_a_statement(path, intervals):
    """Planning (a PIVOT looks up its values), running, and checking for warnings share it: seconds of the processor."""
    slow = "(SELECT count(*) FROM range(40000) a, range(40000) b WHERE hash(a.range + b.range) = 1)"
    sql = f"PIVOT (SELECT sex, age FROM data WHERE age > {slow}) ON sex USING count(*)"
    others = workers()
    with LimitedProcesses(path, limits=ProcessLimits(seconds=1), n=1) as asked:
        (pid,) = workers() - others
        before = cpu_s(pid)
        with pytest.raises(TimedOut):
            asked.sql(sql, intervals=intervals)
        assert cpu_s(pid) - before < 2
        assert asked.sql("SELECT 1").rows == [(1,)]


@pytest.mark.slow
@LINUX
def test_a_replaced_release_is_not_queried(tmp_path):
    path, others = build_release(tmp_path / "r.duckdb"), workers()
    with LimitedProcesses(path, limits=ProcessLimits(process_mb=256), n=2) as asked:
        build_release(path, seed=1)
        assert asked.sql("SELECT 1").rows == [(1,)]  # the one that is open
        for pid in workers() - others:
            kill(pid)
        with pytest.raises(ReplacedRelease, match=path.name):
            asked.sql("SELECT 1")
    with pytest.raises(StoreError, match=r"none\.duckdb"):
        LimitedProcesses(tmp_path / "none.duckdb")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamagedRelease):
        LimitedProcesses(path)


def framed(raw):
    """A frame as sent over the pipe."""
    return len(raw).to_bytes(8, "little") + raw


@pytest.mark.ci
def test_what_cannot_be_started(path, monkeypatch):
    with monkeypatch.context() as m:
        m.setattr(sys, "platform", "win32")
        with pytest.raises(StoreError, match="Linux or macOS"):
            LimitedProcesses(path)
    with monkeypatch.context() as m:
        m.setattr(sys, "executable", "/nowhere/python")
        with pytest.raises(StoreError, match="cannot be started"):
            LimitedProcesses(path)
    with pytest.raises(StoreError, match=r"did not start \(no reply within 0 seconds\)"):
        LimitedProcesses(path, limits=ProcessLimits(start_s=0.01))
    with pytest.raises(
        StoreError, match=r"did not start \(ValueError in "
    ):  # reported by the process
        LimitedProcesses(path, limits=ProcessLimits(threads="many"))


class Evil:
    """Runs a command when it is unpickled."""

    def __reduce__(self):
        return (os.system, ("true",))


def test_only_plain_values_come_back():
    values = [
        1,
        2.5,
        "a",
        b"b",
        None,
        True,
        [1],
        {"a": (1,)},
        datetime.date(2020, 1, 1),
        Decimal("1.5"),
        UUID(int=5),
    ]
    assert plain_loads(pickle.dumps(values)) == values

    for evil in (Evil(), os.getcwd, ProcessLimits):
        with pytest.raises(pickle.UnpicklingError, match="not a plain value"):
            plain_loads(pickle.dumps(evil))


ROGUE = """
import os, sys, time
def read():
    sys.stdin.buffer.read(int.from_bytes(sys.stdin.buffer.read(8), "little"))
def write(raw):
    sys.stdout.buffer.write(raw)
    sys.stdout.flush()
read()
write({opened!r})
read()
write({answer!r})
time.sleep(60)
"""


def test_a_process_in_which_duckdb_failed_is_replaced(path, release, instead, monkeypatch):
    reply = ("refused", "DuckDBFailed", "DuckDB failed", (), ())
    opened = framed(pickle.dumps(("open", asdict(release.record))))
    instead(ROGUE.format(opened=opened, answer=framed(pickle.dumps(reply))))
    with LimitedProcesses(path, n=1) as asked:
        monkeypatch.undo()
        with pytest.raises(DuckDBFailed):
            asked.sql("SELECT 1")
        assert asked.sql("SELECT 1").rows == [(1,)]


@pytest.mark.parametrize(
    "answer",
    [
        framed(pickle.dumps(Evil())),
        pytest.param(framed(b""), marks=SLOW),
        pytest.param(framed(b"\x00" * 20), marks=SLOW),
        pytest.param(framed(pickle.dumps(("gift", 1))), marks=SLOW),
        pytest.param(framed(pickle.dumps(5)), marks=SLOW),
        (2**40).to_bytes(8, "little"),  # nothing is read of an answer this long
    ],
)
def test_a_compromised_process_can_only_cause_a_refusal(path, release, instead, answer):
    opened = framed(pickle.dumps(("open", asdict(release.record))))
    instead(ROGUE.format(opened=opened, answer=answer))
    limits = ProcessLimits(seconds=30)
    with LimitedProcesses(path, limits=limits, n=1) as asked:
        with pytest.raises(QueryRefused, match="crashed its process"):
            asked.sql("SELECT 1")
