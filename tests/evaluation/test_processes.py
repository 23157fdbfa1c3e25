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
from engine.evaluation.attacks.protocol import Held
from engine.evaluation.data.aligned import align, distinct
from engine.evaluation.measures.rules import Inconsistencies, Rule
from engine.evaluation.runner import Job, Task, default_jobs, do_jobs, done_safely
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
    held = Held(aligned=align(frame, tables, study))
    return Task(held=held, study=study, share=0.4, seed=1)


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


def workers() -> list[int]:
    own = os.getpid()
    children = map(int, Path(f"/proc/{own}/task/{own}/children").read_text().split())
    return [p for p in children if b"tracker" not in Path(f"/proc/{p}/cmdline").read_bytes()]


@pytest.mark.ci
def test_an_error_of_a_worker_is_ours_and_ends_all():
    with pytest.raises(SpecError, match="rule one: is wrong SQL for its columns"):
        do_jobs(task("a = = 1"), [RULES] * 50, 2, nothing)
    assert not workers()


@pytest.mark.ci
def test_a_worker_that_is_killed_is_missed():
    def kill(*_: object) -> None:
        for pid in workers()[:1]:
            os.kill(pid, signal.SIGKILL)

    with pytest.raises(StoreError):
        do_jobs(task(), [RULES] * 2000, 2, kill)


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
    "import os, sys, time, engine\n"
    "def told(what, done, n):\n"
    "    if done:\n"
    "        print(open(f'/proc/{os.getpid()}/task/{os.getpid()}/children').read(), flush=True)\n"
    # In short naps: a signal just before a long one would be seen after it.
    "        [time.sleep(0.05) for _ in range(1200)]\n"
    "engine.evaluate(sys.argv[1], data=sys.argv[2], jobs=2, progress=told)\n"
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
            run.stdout.close()
            run.send_signal(number)
            assert len(pids) >= 2
            assert run.wait(timeout=60) != 0
        finally:
            run.kill()
    assert all(map(ends, pids))


def test_as_many_as_memory_has_room_for(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    monkeypatch.setattr(processes, "free_memory", lambda: 2_000_000 << 10)
    assert default_jobs(10_000_000) == 4  # beside this one
    assert default_jobs(30_000_000) == 2
    assert default_jobs(10**9) == 1  # that one is tried in any case
    monkeypatch.setattr(processes, "free_memory", lambda: None)
    assert default_jobs(10**9) == processes.MOST
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3}, raising=False)
    assert default_jobs(0) == 1
