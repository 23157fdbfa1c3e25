"""Workers that are started ahead of the order: copies of the fit process where that can be, and not waited for."""

from __future__ import annotations

import json
import os
import signal

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
from engine.release import FitProcess, fit_process, fit_workers, pipes, sticky
from engine.release.fit_workers import FitWorkers
from engine.release.pipes import interpreter_ahead


def test_a_worker_that_was_copied_gives_the_same_tables_and_inherits_nothing(planted, tmp_path):
    """Of the fit process it has pipes and the standard error, whichever of several it is."""
    (planted / "look").touch()
    found = []
    for started in (0, 1, 3):
        out = tmp_path / f"{started}.duckdb"
        with interpreter_ahead(fit_process._MODULE, out) as child:
            fit_process.start_workers(child, started)
            if started:
                wait_until(lambda: [*planted.glob("*.worker")])
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
        assert str(pool.lock(**PAIR).exception(timeout=60)) == words


@pytest.mark.parametrize("is_copied", [True, False])
def test_workers_ahead_lock_whether_processes_can_be_copied_or_not(is_copied, monkeypatch):
    monkeypatch.setattr(fit_workers, "can_fork", lambda: is_copied)
    for count in (0, 1, 2):
        with FitWorkers(count) as pool:
            pool.start()
            assert len(pool.pids) == count
            assert as_bytes(pool.lock(**PAIR).result(timeout=60)) == as_bytes(lock_table(**PAIR))


@needs_proc
def test_workers_end_with_what_failed():
    pool = FitWorkers(2)
    pool.start()
    own = pool.pids
    assert all(map(is_alive, own))
    with pytest.raises(ZeroDivisionError), pool:
        raise ZeroDivisionError
    assert not any(map(is_alive, own))


def test_some_tables_have_workers_ahead(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert [sticky._workers_ahead(n, 4) for n in (sticky.SOME - 1, sticky.SOME)] == [0, 4]
    assert sticky._workers_ahead(sticky.SOME, 1) == 0
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    assert sticky._workers_ahead(sticky.SOME, 2) == 0


def test_where_the_folder_is_not_there_nothing_is_started(tmp_path, monkeypatch):
    monkeypatch.setattr(pipes, "start_interpreter", None)
    with interpreter_ahead(fit_process._MODULE, tmp_path / "none" / "r.duckdb") as child:
        assert child is None
