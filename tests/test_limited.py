from __future__ import annotations

import datetime
import os
import pickle
import sys
import time
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pytest
from hostile_statements import CANARY, ENVIRONMENT
from release_fixture import build_release, make_table

from engine.errors import (
    DamagedRelease,
    InternalError,
    NotAnswerable,
    QueryRefused,
    StoreError,
    TimedOut,
    TooLarge,
)
from queries import limited as module
from queries.limited import limited_processes
from queries.sandbox import ProcessLimits, plain_loads
from queries.session import open_release

N_ROWS = make_table(("SEX",)).n_rows


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return build_release(tmp_path_factory.mktemp("sandbox") / "r.duckdb")


@pytest.fixture(scope="module")
def release(path):
    with open_release(path) as release:
        yield release


@pytest.fixture(scope="module")
def strangers(path):
    os.environ[ENVIRONMENT] = CANARY
    limits = ProcessLimits(seconds=2, process_mb=768, rows=1000, answer_mb=4)
    with limited_processes(path, limits=limits, n=1) as strangers:
        yield strangers
    del os.environ[ENVIRONMENT]


GREEDY = [
    # a vector of strings, which DuckDB does not count
    "SELECT sum(length(repeat('x' || range, 200000000))) FROM range(100)",
    "SELECT list(range) FROM range(100000000)",
    "SELECT repeat('x', 600000000)",
    "SELECT repeat('x', 5000000)",  # an answer that is too large
    "SELECT repeat('x' || range, 100000) FROM range(2000)",
]


@pytest.mark.parametrize("sql", GREEDY)
def test_greedy_statements_are_refused_and_the_next_one_works(strangers, sql):
    with pytest.raises(QueryRefused, match=r"more memory than a query may use|stopped after"):
        strangers.sql(sql)
    assert strangers.sql("SELECT count(*) FROM data").rows == [(N_ROWS,)]


@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux tells of a process")
def test_the_kernel_holds_the_process(strangers):
    strangers.sql("SELECT 1")
    worker = strangers._idle.get()
    proc = Path(f"/proc/{worker._child.pid}")
    limits, status = (proc / "limits").read_text(), (proc / "status").read_text()
    environment = (proc / "environ").read_bytes()
    strangers._idle.put(worker)
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


def test_many_rows_are_cut_not_kept(strangers):
    answer = strangers.sql("SELECT * FROM range(1000000000)")
    assert len(answer.rows) == 1001  # one more than the limit: there were more
    assert answer.head(2) == [(0,), (1,)]


def test_answers_are_those_of_a_release(strangers, release):
    every = (
        "SELECT DATE '2020-01-02', TIMESTAMP '2020-01-02 03:04:05', 1.50::DECIMAL(5, 2), 'x'::BLOB, [1, NULL], "
        "{'a': 1}, UUID '00000000-0000-0000-0000-000000000001', INTERVAL 2 DAY, 'inf'::DOUBLE, 2::HUGEINT ** 70, NULL"
    )
    for sql in (
        "SELECT sex, count(*) FROM data GROUP BY sex ORDER BY sex",
        "SELECT age FROM data LIMIT 3",
        every,
    ):
        ours, theirs = release.sql(sql), strangers.sql(sql)
        assert theirs.rows == ours.rows
        for name in ("columns", "types", "table", "source", "warnings", "noise_sd", "filled_share"):
            assert getattr(theirs, name) == getattr(ours, name)
    values = strangers.sql(every).rows[0]
    assert values[:3] == (
        datetime.date(2020, 1, 2),
        datetime.datetime(2020, 1, 2, 3, 4, 5),
        Decimal("1.50"),
    )
    assert values[6] == UUID(int=1)
    with pytest.raises(NotAnswerable, match="no column 'agge'") as refused:
        strangers.sql("SELECT agge FROM data")
    assert refused.value.missing == ("agge",)
    with pytest.raises(NotAnswerable) as refused:
        strangers.sql("SELECT income FROM data WHERE town = 'Bath'")
    assert ("AGE", "TOWN") in refused.value.nearest


def test_how_sure_it_is_and_bugs_of_ours(strangers, release):
    sql = "SELECT age, count(*) AS n FROM data GROUP BY age ORDER BY age"
    ours, theirs = release.sql(sql, intervals=True), strangers.sql(sql, intervals=True)
    assert (theirs.columns, theirs.rows) == (ours.columns, ours.rows)
    assert len(theirs.columns) > 2
    with pytest.raises(InternalError, match=r"TypeError in worker\.py:.*please report it"):
        strangers.sql(sql, nonsense=True)


def test_a_process_that_dies_is_replaced(strangers):
    worker = strangers._idle.get()
    worker._child.kill()
    worker._child.wait()
    strangers._idle.put(worker)
    assert strangers.sql("SELECT 1").rows == [(1,)]  # nobody had asked it anything


def test_a_process_that_breaks_at_work_is_replaced_at_once(strangers, monkeypatch):
    worker = strangers._idle.get()
    strangers._idle.put(worker)
    ask = type(worker).ask

    def broken(self, text, how):
        self._child.kill()
        return ask(self, text, how)

    with monkeypatch.context() as m:
        m.setattr(type(worker), "ask", broken)
        with pytest.raises(TooLarge, match="broke the process"):
            strangers.sql("SELECT 1")
    following = strangers._idle.get()
    strangers._idle.put(following)
    assert following is not worker
    assert following.is_alive  # started while nobody waits for it
    assert strangers.sql("SELECT 1").rows == [(1,)]
    monkeypatch.setattr(module.sys, "executable", "/nowhere/python")
    strangers._idle.get().close()
    strangers._idle.put(strangers._next())
    with pytest.raises(StoreError, match="cannot be started"):
        strangers.sql("SELECT 1")
    monkeypatch.undo()
    assert strangers.sql("SELECT 1").rows == [(1,)]


@pytest.mark.parametrize("intervals", [False, True])
def test_one_limit_for_all_that_a_statement_takes(path, intervals):
    """Planned (a PIVOT looks up its values), run, and looked at again for its warnings, within one limit."""
    slow = "(SELECT count(*) FROM range(40000) a, range(40000) b WHERE hash(a.range + b.range) = 1)"
    sql = f"PIVOT (SELECT sex, age FROM data WHERE age > {slow}) ON sex USING count(*)"
    with limited_processes(path, limits=ProcessLimits(seconds=1), n=1) as asked:
        begun = time.monotonic()
        with pytest.raises(TimedOut, match="stopped after 1 seconds"):
            asked.sql(sql, intervals=intervals)
        assert time.monotonic() - begun < 3
        assert asked.sql("SELECT 1").rows == [(1,)]


def test_a_slow_machine_takes_its_time_to_open_a_release(path):
    limits = ProcessLimits(seconds=0.001)
    with limited_processes(path, limits=limits, n=1) as asked, pytest.raises(TimedOut):
        asked.sql("SELECT count(*) FROM range(1000000) a, range(1000) b")


def test_a_release_that_was_replaced_is_not_asked(tmp_path):
    path = build_release(tmp_path / "r.duckdb")
    with limited_processes(path, limits=ProcessLimits(process_mb=256), n=2) as asked:
        build_release(path, seed=1)
        assert asked.sql("SELECT 1").rows == [(1,)]  # the one that is open
        asked._idle.get().close()
        asked._idle.put(asked._next())
        with pytest.raises(StoreError, match="replaced since"):
            asked.sql("SELECT 1")
    with pytest.raises(StoreError, match="no such release"):
        limited_processes(tmp_path / "none.duckdb")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamagedRelease):
        limited_processes(path)


def test_what_cannot_be_started(path, monkeypatch):
    with monkeypatch.context() as m:
        m.setattr(module.sys, "platform", "win32")
        with pytest.raises(StoreError, match="cannot be limited on this system"):
            limited_processes(path)
    with monkeypatch.context() as m:
        m.setattr(module.sys, "executable", "/nowhere/python")
        with pytest.raises(StoreError, match="cannot be started"):
            limited_processes(path)
    with monkeypatch.context() as m:
        m.setattr(module.sys, "executable", "/bin/false")
        with pytest.raises(StoreError, match=r"did not start \(it left with code 1\)"):
            limited_processes(path)
    with monkeypatch.context() as m:
        m.setattr(module, "_START_S", 0.01)
        with pytest.raises(
            StoreError, match=r"did not start \(nothing came from it in 0 seconds\)"
        ):
            limited_processes(path)
    with monkeypatch.context() as m:
        m.setattr(module._Worker, "_received", lambda self, seconds: self._child.kill())
        with pytest.raises(StoreError, match=r"did not start \(the system ended it, signal 9\)"):
            limited_processes(path)
    with monkeypatch.context() as m:
        m.setattr(module._Worker, "_received", lambda self, seconds: ("gift",))
        with pytest.raises(StoreError, match=r"did not start \(what came from it is no answer\)"):
            limited_processes(path)
    with monkeypatch.context() as m:  # what fails in it is told by it
        m.setattr(module, "asdict", lambda limits: {"threads": "many"})
        with pytest.raises(StoreError, match=r"did not start \(ValueError in "):
            limited_processes(path)


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

    class Evil:
        def __reduce__(self):
            return (os.system, ("true",))

    for evil in (Evil(), os.getcwd, ProcessLimits):
        with pytest.raises(pickle.UnpicklingError, match="no plain value"):
            plain_loads(pickle.dumps(evil) if not isinstance(evil, Evil) else _pickled(evil))


def _pickled(value):
    return pickle._dumps(value)  # the one in Python takes local classes too


def test_a_process_that_was_taken_over_gives_no_more_than_a_refusal(strangers, monkeypatch):
    class Evil:
        def __reduce__(self):
            return (eval, ("1/0",))

    huge = (2**40).to_bytes(8, "little")  # of an answer that long nothing is read
    for raw in (
        pickle.dumps(Evil()),
        b"",
        b"\x00" * 20,
        pickle.dumps(("gift", 1)),
        pickle.dumps(5),
        huge,
    ):
        worker = strangers._ready(strangers._idle.get())
        strangers._idle.put(worker)
        head = huge if raw is huge else len(raw).to_bytes(8, "little")
        given = iter([head, raw])
        monkeypatch.setattr(
            type(worker), "_read", lambda self, size, until, given=given: next(given)
        )
        with pytest.raises(QueryRefused, match="broke the process"):
            strangers.sql("SELECT 1")
        monkeypatch.undo()
    assert strangers.sql("SELECT 1").rows == [(1,)]
