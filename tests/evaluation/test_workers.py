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
from engine.errors import SpecError, StoreError
from engine.evaluation import workers
from engine.evaluation.data.paired import distinct, pair
from engine.evaluation.study.model import Study
from engine.evaluation.utility.rules import Inconsistencies, Rule
from engine.evaluation.workers import (
    Compared,
    Job,
    Workers,
    default_jobs,
    read_message,
    write_message,
)
from engine.schema import column_set

pytest.importorskip("sklearn")
ROOT = Path(__file__).parents[2]
RULES = Job(stage="measuring", name="inconsistencies")


def compared(violated: str = "a = 1", n_rows: int = 40) -> Compared:
    """A table held against itself, and a rule."""
    frame = pd.DataFrame(
        {"a": [1.0, 2.0] * (n_rows // 2), "b": [1.0, 2.0, 3.0, 4.0] * (n_rows // 4)}
    )
    rule = Rule(name="one", columns=("a",), violated=violated, group="x")
    study = Study(title="", inconsistencies=Inconsistencies(rules=(rule,)))
    tables = {column_set(["a", "b"]): distinct(frame)}
    return Compared(paired=pair(frame, tables, study), study=study, share=0.4, seed=1)


def nothing(*_: object) -> None:
    """Nobody is told."""


def is_there(pid: int) -> bool:
    """Whether a process runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.ci
@pytest.mark.parametrize(
    "chosen", ["declared", pytest.param("by what columns look like", marks=pytest.mark.slow)]
)
def test_reports_are_the_same_whoever_measures(world, tmp_path, chosen):
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
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
    monkeypatch.setattr(Compared, "do", lambda self, job: time.sleep(0.1))
    with Workers(2) as some:
        pids = some.pids
        with pytest.raises(SpecError, match="rule one: is wrong SQL for its columns"):
            some.run(compared("a = = 1"), [RULES] * 1000, nothing)
        assert not any(is_there(pid) for pid in pids)


def test_a_worker_that_is_killed_is_missed(monkeypatch):
    monkeypatch.setattr(Compared, "do", lambda self, job: time.sleep(0.05))
    with Workers(2) as some:
        os.kill(some.pids[0], signal.SIGKILL)
        with pytest.raises(StoreError):
            some.run(compared(), [RULES] * 1000, nothing)


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

    monkeypatch.setattr(Compared, "do", fails)
    answer = workers._answer(compared(), RULES)
    assert answer.error == kind
    assert message in answer.message
    assert "a value" not in answer.message


@pytest.mark.ci
def test_a_worker_ends_at_once_when_its_parent_is_gone():
    """Even in the middle of a job: the parent may have been killed, and nobody waits."""
    code = (
        "import engine.evaluation.workers as w, time; w.Compared.do = lambda s, j: time.sleep(600); "
        "import sys; w.serve(sys.stdin.buffer, sys.stdout.buffer)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    )
    write_message(child.stdin, compared())
    assert read_message(child.stdout).error == ""
    write_message(child.stdin, RULES)
    child.stdin.close()
    assert child.wait(timeout=60) == 0
    child.stdout.close()


@pytest.mark.ci
def test_workers_end_with_a_signal(world):
    """Ctrl-C in the middle: the workers are gone with the command."""
    code = (
        "import sys, time, engine\n"
        "from engine.evaluation import workers\n"
        "real = workers.Workers.__enter__\n"
        "def entered(self):\n"
        "    real(self); print(*self.pids, flush=True); return self\n"
        "workers.Workers.__enter__ = entered\n"
        "workers.Compared.do = lambda self, job: time.sleep(60)\n"
        "engine.evaluate(sys.argv[1], data=sys.argv[2], jobs=3)\n"
    )
    run = subprocess.Popen(
        [sys.executable, "-c", code, str(world.release), str(world.data)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT,
    )  # fmt: skip
    with run.stdout:
        pids = [int(pid) for pid in run.stdout.readline().split()]
    assert len(pids) == 2
    time.sleep(1)
    run.send_signal(signal.SIGINT)
    assert run.wait(timeout=60) != 0
    assert not any(is_there(pid) for pid in pids)


def test_as_many_as_memory_has_room_for(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    monkeypatch.setattr(workers, "free_memory", lambda: 2_000_000 << 10)
    assert default_jobs(10_000_000) == 4  # 5 would fit
    assert default_jobs(50_000_000) == 2
    assert default_jobs(10**9) == 1  # that one is tried in any case
    monkeypatch.setattr(workers, "free_memory", lambda: None)
    assert default_jobs(10**9) == workers.MOST
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3}, raising=False)
    assert default_jobs(0) == 1
