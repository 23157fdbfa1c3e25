"""Evaluations in several processes: the same figures to the last bit, errors as ours, and nobody left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

import engine
from engine.errors import SpecError, StoreError, TablepackError
from engine.evaluation import runner as processes
from engine.evaluation.data.aligned import align, distinct
from engine.evaluation.measures.rules import Inconsistencies, Rule
from engine.evaluation.runner import Job, Processes, Task, default_jobs, done_safely
from engine.evaluation.study import Study
from engine.schema import column_set

pytest.importorskip("sklearn")
ROOT = Path(__file__).parents[2]
RULES = Job(stage="measuring", name="inconsistencies")


def task(violated: str = "a = 1", n_rows: int = 40) -> Task:
    """A table held against itself, and a rule."""
    frame = pd.DataFrame(
        {"a": [1.0, 2.0] * (n_rows // 2), "b": [1.0, 2.0, 3.0, 4.0] * (n_rows // 4)}
    )
    rule = Rule(name="one", columns=("a",), violated=violated, group="x")
    study = Study(title="", inconsistencies=Inconsistencies(rules=(rule,)))
    tables = {column_set(["a", "b"]): distinct(frame)}
    return Task(aligned=align(frame, tables, study), study=study, share=0.4, seed=1)


def nothing(*_: object) -> None:
    """Nobody is told."""


def ends(pid: int) -> bool:
    """Whether a process is gone within a few seconds."""
    for _ in range(100):
        try:
            os.kill(pid, 0)
            # A child that nobody waited for is no process any more.
            if Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] == "Z":
                return True
        except (ProcessLookupError, OSError):
            return True
        time.sleep(0.1)
    return False


@pytest.mark.ci
@pytest.mark.parametrize(
    "chosen", ["declared", pytest.param("by what columns look like", marks=pytest.mark.slow)]
)
def test_reports_are_the_same_whoever_measures(world, tmp_path, chosen):
    pytest.importorskip("jinja2")
    spec = world.study if chosen == "declared" else None
    texts = []
    for jobs in (1, 2):
        out = tmp_path / f"{jobs}.html"
        engine.evaluate(world.release, world.csv, data=world.data, spec=spec, out=out, jobs=jobs)
        texts.append([out.read_bytes(), out.with_suffix(".json").read_bytes()])
    assert texts[0] == texts[1]


@pytest.mark.ci
def test_an_error_of_a_worker_is_ours_and_ends_all(monkeypatch):
    # Here jobs wait until the worker has met its error.
    monkeypatch.setattr(Task, "do", lambda self, job: time.sleep(0.1))
    with Processes(2) as some:
        pids = some.pids
        with pytest.raises(SpecError, match="rule one: is wrong SQL for its columns"):
            some.run(task("a = = 1"), [RULES] * 1000, nothing)
        assert all(map(ends, pids))


@pytest.mark.ci
def test_a_worker_that_is_killed_is_missed(monkeypatch):
    monkeypatch.setattr(Task, "do", lambda self, job: time.sleep(0.05))
    with Processes(2) as some:
        os.kill(some.pids[0], signal.SIGKILL)
        with pytest.raises(StoreError):
            some.run(task(), [RULES] * 1000, nothing)


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (MemoryError(), "StoreError", "out of memory"),
        (StoreError("no room"), "StoreError", "no room"),
        (KeyError("a value"), "InternalError", "KeyError in "),
    ],
)
def test_a_worker_says_the_kind_and_place_and_no_value(monkeypatch, error, kind, message):
    def fails(self, job):
        raise error

    monkeypatch.setattr(Task, "do", fails)
    with pytest.raises(TablepackError, match=message) as raised:
        done_safely(task(), RULES)
    assert type(raised.value).__name__ == kind
    assert "a value" not in str(raised.value)
    assert raised.value.__suppress_context__


ENDLESS = (
    # A shell ignores Ctrl-C for what it runs in the background, and children inherit that.
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "import sys, time, engine\n"
    "from engine.evaluation import runner as p\n"
    "real = p.Processes.__enter__\n"
    "def entered(self):\n"
    "    real(self); print(*self.pids, flush=True); return self\n"
    "p.Processes.__enter__ = entered\n"
    # In short naps: a signal just before a long one would be seen after it.
    "p.Task.do = lambda self, job: (print('at work', flush=True), [time.sleep(0.05) for _ in range(1200)])\n"
    "engine.evaluate(sys.argv[1], data=sys.argv[2], jobs=3)\n"
)


@pytest.mark.ci
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_their_parent(world, number):
    """Ctrl-C in the middle, or killed: the workers are gone with the command."""
    run = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, str(world.release), str(world.data)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT,
    )  # fmt: skip
    with run:
        try:
            pids = [int(pid) for pid in run.stdout.readline().split()]
            assert run.stdout.readline() == b"at work\n"
            run.stdout.close()
            run.send_signal(number)
            assert len(pids) == 2
            assert run.wait(timeout=60) != 0
        finally:
            run.kill()
    assert all(map(ends, pids))


def test_as_many_as_memory_has_room_for(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    monkeypatch.setattr(processes, "free_memory", lambda: 2_000_000 << 10)
    assert default_jobs(10_000_000) == 4  # 5 would fit
    assert default_jobs(50_000_000) == 2
    assert default_jobs(10**9) == 1  # that one is tried in any case
    monkeypatch.setattr(processes, "free_memory", lambda: None)
    assert default_jobs(10**9) == processes.MOST
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3}, raising=False)
    assert default_jobs(0) == 1
