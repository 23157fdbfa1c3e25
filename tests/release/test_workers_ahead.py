"""Workers that are started ahead of the order: copies of the fit process where that can be, and not waited for."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest
from fixtures.fit import total_measured
from fixtures.fitting import (
    NAMES,
    PAIR,
    PAIRS,
    TREES,
    as_bytes,
    is_alive,
    needs_proc,
    order_of,
    wait_until,
)
from fixtures.pipeline import left_of_the_wall, table_hashes

from engine.fit import lock_table
from engine.release import FitProcess, fit_process, fit_workers, sticky
from engine.release.fit_workers import FitWorkers


def test_a_worker_that_was_copied_gives_the_same_tables_and_inherits_nothing(planted, tmp_path):
    """Of the fit process it has pipes and the standard error, whichever of several it is."""
    (planted / "look").touch()
    found = []
    for started in (0, 1, 3):
        out = tmp_path / f"{started}.duckdb"
        with fit_process.fit_interpreter(out, workers=started) as child:
            if started:
                wait_until(lambda: [*planted.glob("*.worker")])
                time.sleep(1.0)  # it brings in its loops
            order = order_of(PAIRS, out, workers=started)
            with FitProcess(order, child=child) as fit:
                for measurement in (total_measured(50), *(TREES[name,] for name in NAMES)):
                    fit.send(measurement, ahead=99)
                for pair in PAIRS:
                    fit.send(TREES[pair], ahead=99)
                fit.finish()
        found.append(table_hashes(out))
        assert len([*planted.glob("*.worker")]) == started
        for note in planted.glob("*.worker"):
            note.unlink()
        if started:
            seen = json.loads((planted / "seen.json").read_text())
            (planted / "seen.json").unlink()
            files = [f for f in seen["files"].items() if not f[1].startswith("/proc/")]
            assert {name for name, file in files if file == os.devnull} == {"0", "1"}
            assert len([name for name, file in files if file.startswith("pipe:")]) - 2 in (0, 1)
            assert len(files) == 5  # the standard error is a pipe, a file or nowhere
            assert not [m for m in seen["modules"] if m.startswith("engine.store")]
            assert left_of_the_wall(seen["modules"]) == []
    assert found[0] == found[1] == found[2]


@needs_proc
def test_a_worker_that_is_not_ready_is_not_waited_for(monkeypatch):
    """Tables are locked here meanwhile, and leaving ends it."""
    monkeypatch.setattr(fit_workers, "can_fork", lambda: True)
    monkeypatch.setattr(fit_workers, "load_compiled", lambda: time.sleep(60))
    began = time.monotonic()
    with FitWorkers(1) as pool:
        pool.start()
        assert pool.lock(left=1, **PAIR).done()
        own = pool.pids
        assert len(own) == 1
        assert is_alive(own[0])
    assert not is_alive(own[0])
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("kill", fit_workers.OUT_OF_MEMORY),
        ("exit", "a worker of the fit ended without an answer"),
    ],
)
def test_a_copied_worker_that_ends_is_told(what, words, monkeypatch):
    def end(**job):
        if what == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(3)

    monkeypatch.setattr(fit_workers, "can_fork", lambda: True)
    monkeypatch.setattr(fit_workers, "lock_table", end)
    with FitWorkers(1) as pool:
        pool.start()
        assert pool._is_ready.wait(60)
        assert str(pool.lock(**PAIR).exception(timeout=60)) == words


def test_where_processes_cannot_be_copied_only_many_tables_have_workers_ahead(monkeypatch):
    monkeypatch.setattr(fit_workers, "can_fork", lambda: False)
    for count, started in ((1, 0), (2, 2)):
        with FitWorkers(count) as pool:
            pool.start()
            assert len(pool.pids) == started
            assert as_bytes(pool.lock(**PAIR).result(timeout=60)) == as_bytes(lock_table(**PAIR))


def test_some_tables_have_one_worker_ahead_many_have_all(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    numbers = (sticky.SOME - 1, sticky.SOME, sticky.MANY)
    assert [sticky._workers_ahead(n, 1_000, 4) for n in numbers] == [0, 1, 4]
    assert [sticky._workers_ahead(n, sticky.LONG, 4) for n in numbers] == [0, 4, 4]
    assert sticky._workers_ahead(sticky.MANY, sticky.LONG, 1) == 0
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    assert sticky._workers_ahead(sticky.SOME, 1_000, 2) == 0
