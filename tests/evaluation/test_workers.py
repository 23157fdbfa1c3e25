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
from fixtures.evaluate import World, make_world

import engine
from engine.errors import InternalError, SpecError, StoreError
from engine.evaluation import workers
from engine.evaluation.data.paired import distinct, pair
from engine.evaluation.risk.suite import ATTACKS
from engine.evaluation.study.model import Study
from engine.evaluation.threads import n_threads
from engine.evaluation.utility.rules import Inconsistencies, Rule
from engine.evaluation.workers import Compared, Job, Workers, default_jobs
from engine.release.pipes import read_message, write_message
from engine.schema import column_set

pytest.importorskip("sklearn")
ROOT = Path(__file__).parents[2]
RULES = Job(stage="measuring", name="inconsistencies")


@pytest.fixture(scope="module")
def world(census, tmp_path_factory) -> World:
    return make_world(tmp_path_factory.mktemp("world"), census)


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


@pytest.mark.parametrize("chosen", ["declared", "by what columns look like"])
def test_reports_are_the_same_whoever_measures(world, tmp_path, chosen):
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    spec = world.study if chosen == "declared" else None
    texts = []
    for jobs in (1, 2, 3):
        out = tmp_path / f"{jobs}.html"
        engine.evaluate(world.release, world.csv, data=world.data, spec=spec, out=out, jobs=jobs)
        texts.append([out.read_bytes(), out.with_suffix(".json").read_bytes()])
    assert texts[0] == texts[1] == texts[2]


@pytest.mark.parametrize("chosen", ["declared", "by what columns look like"])
def test_pictures_drawn_meanwhile_are_those_of_the_report(world, tmp_path, monkeypatch, chosen):
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    from engine.api import evaluate as api

    spec, real, ahead, texts = (
        world.study if chosen == "declared" else None,
        api.pictures_ahead,
        [],
        [],
    )
    monkeypatch.setattr(
        api, "pictures_ahead", lambda *given: ahead.append(real(*given)) or ahead[-1]
    )
    for jobs in (1, 2):
        out = tmp_path / f"{jobs}.html"
        engine.evaluate(world.release, data=world.data, spec=spec, out=out, jobs=jobs)
        texts.append([out.read_bytes(), out.with_suffix(".json").read_bytes()])
        assert len(ahead) == jobs - 1
    assert texts[0] == texts[1]
    assert all(picture.svg.encode() in texts[0][0] for one in ahead[0].values() for picture in one)
    engine.evaluate(
        world.release, data=world.data, spec=spec, out=out, jobs=2, publishable=True, force=True
    )
    assert len(ahead) == 1


def test_what_is_done_aside_is_told_what_is_found_until_it_is_done():
    told = []

    def aside(found):
        told.append({**found})
        return len(told) == 3

    with Workers(2) as some:
        some.run(compared(), [RULES] * 30, nothing, aside)
    assert len(told) == 3
    assert {job for one in told for job in one} == {RULES}
    with Workers(1) as alone:
        alone.run(compared(), [RULES], nothing, aside)
    assert len(told) == 3


def test_findings_come_in_the_order_of_the_jobs_and_from_both_sides():
    told = []
    wanted = compared().do(RULES)

    def tell(*what: object) -> None:
        told.append(what)
        if len(told) == 1:
            time.sleep(8)  # until the worker has loaded, and done its part

    with Workers(2) as some:
        found = some.run(compared(), [RULES] * 30, tell)
    assert 0 < len(told) < 30
    assert wanted.values["records"] == 20
    assert [one.values for one in found] == [wanted.values] * 30
    assert all(one.breakdown.equals(wanted.breakdown) for one in found)
    assert all(done <= total == 30 for _, done, total in told)


def test_an_error_of_a_worker_is_ours_and_ends_all(monkeypatch):
    # Here jobs wait until the worker has met its error.
    monkeypatch.setattr(Compared, "do", lambda self, job: time.sleep(0.1))
    with Workers(2) as some:
        pids = some.pids
        with pytest.raises(SpecError, match="rule one: is wrong SQL for its columns"):
            some.run(compared("a = = 1"), [RULES] * 1000, nothing)
        assert not any(is_there(pid) for pid in pids)


def test_an_error_here_ends_the_workers():
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with Workers(3) as some:
        pids = some.pids
        assert len(pids) == 2
        with pytest.raises(KeyboardInterrupt):
            some.run(compared(), [RULES] * 1000, interrupted)
        assert not any(is_there(pid) for pid in pids)


def test_those_that_were_started_end_where_another_cannot_be(monkeypatch):
    started, real = [], workers.start_interpreter

    def start(*arguments, **more):
        if started:
            raise StoreError("cannot be started")
        started.append(real(*arguments, **more))
        return started[0]

    monkeypatch.setattr(workers, "start_interpreter", start)
    with pytest.raises(StoreError, match="cannot be started"), Workers(3):
        pass
    assert started[0].returncode is not None


@pytest.mark.parametrize(
    ("number", "kind"), [(signal.SIGKILL, StoreError), (signal.SIGTERM, InternalError)]
)
def test_a_worker_that_is_ended_is_missed(monkeypatch, number, kind):
    monkeypatch.setattr(Compared, "do", lambda self, job: time.sleep(0.05))
    with Workers(2) as some:
        os.kill(some.pids[0], number)
        with pytest.raises(kind, match="a worker of the evaluation"):
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


@pytest.mark.parametrize(
    ("raised", "kind", "message"),
    [
        ("MemoryError()", StoreError, "out of memory; try fewer jobs"),
        ("EOFError()", InternalError, "without an answer"),
    ],
)
def test_a_worker_that_cannot_receive_what_is_compared_is_not_waited_for(
    monkeypatch, raised, kind, message
):
    code = (
        "import engine.evaluation.workers as w, sys\n"
        f"def read(stream): stream.read(8); raise {raised}\n"
        "w.read_message = read; w.serve(sys.stdin.buffer, sys.stdout.buffer)"
    )

    def start(*_: object, **__: object) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
        )

    monkeypatch.setattr(workers, "start_interpreter", start)
    monkeypatch.setattr(Compared, "do", lambda self, job: time.sleep(0.1))
    with Workers(2) as some, pytest.raises(kind, match=message):
        some.run(compared(), [RULES] * 1000, nothing)


def test_what_is_too_large_to_pack_is_said_so(monkeypatch):
    def none(_: object) -> bytes:
        raise MemoryError

    monkeypatch.setattr(workers, "pack_message", none)
    with Workers(2) as some, pytest.raises(StoreError, match="out of memory; try fewer jobs"):
        some.run(compared(), [RULES], nothing)


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


def test_threads_are_few_where_other_processes_work():
    seen = []
    with Workers(2) as some:
        some.run(compared(), [RULES] * 3, lambda *_: seen.append(n_threads()))
    assert set(seen) == {1}
    assert n_threads() == 2


def test_as_many_as_processors_and_not_too_many(monkeypatch, tmp_path):
    from engine.api import evaluate as api

    monkeypatch.setattr(workers, "free_memory", lambda: None)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    assert default_jobs(10**12) == workers.MOST
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3}, raising=False)
    assert default_jobs(0) == 1
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert default_jobs(0) == 1
    monkeypatch.setattr(api, "default_jobs", lambda _: 3)
    path = tmp_path / "data.csv"
    path.write_text("a\n1\n")
    assert api._jobs(None, [path, pd.DataFrame()]) == 1  # it would take longer to start one
    path.write_bytes(b"x" * 4_000_000)
    assert api._jobs(None, [path, tmp_path / "none.csv"]) == 3
    assert api._jobs(2, []) == 2
    with pytest.raises(SpecError, match="at least 1"):
        api._jobs(0, [])


def test_as_many_as_memory_has_room_for(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    monkeypatch.setattr(workers, "free_memory", lambda: 2_000_000 << 10)
    assert default_jobs(10_000_000) == 4  # 5 would fit
    assert default_jobs(50_000_000) == 2
    assert default_jobs(10**9) == 1  # that one is tried in any case
    monkeypatch.setattr(workers, "free_memory", lambda: None)
    assert default_jobs(10**9) == 4


def test_what_comes_later_is_loaded_once_and_only_beside_others():
    called = []
    with Workers(2, lambda: called.append("here")) as some:
        for _ in range(2):
            some.run(compared(), [RULES], nothing)
    assert called == ["here"]
    with Workers(1, lambda: called.append("alone")) as one:
        one.run(compared(), [RULES], nothing)
    assert called == ["here"]


def test_no_more_are_started_than_there_is_to_do(monkeypatch):
    started = []

    def start(*arguments, **more):
        started.append(subprocess.Popen(["true"], stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        return started[-1]

    monkeypatch.setattr(workers, "start_interpreter", start)
    with Workers(1000):
        assert len(started) == len(compared().jobs()) - 1 + len(ATTACKS)
