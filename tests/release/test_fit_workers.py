"""Worker processes of the fit: the same tables as without them, errors by kind, nothing inherited, no orphan."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fixtures.fit import total_measured
from fixtures.fitting import (
    JOBS,
    NAMES,
    PAIR,
    PAIRS,
    TREES,
    as_bytes,
    environment,
    is_alive,
    needs_proc,
    order_of,
    wait_until,
)
from fixtures.pipeline import CENSUS, ROOT, left_of_the_wall, table_hashes, write_spec
from fixtures.planted import CANARY, PLANT

from engine import errors
from engine.api.reading import read
from engine.errors import InternalError, StoreError, TablepackError
from engine.fit import lock_table
from engine.progress import TimeLeft, silent
from engine.release import FitProcess, build, fit_process, fit_workers, pipes, sticky
from engine.release.fit_workers import FitWorkers
from engine.schema import SyntheticTable
from engine.source import rows_about
from engine.store.manifest import file_hash, verify_release


@pytest.fixture
def at_once(monkeypatch):
    """Workers are started for the first table."""
    monkeypatch.setattr(fit_workers, "HERE_FIRST", 0.0)


def job(what: str) -> dict:
    return PAIR | {"key": what.encode().ljust(16, b".")}


# Tables.


@pytest.mark.parametrize("count", [1, 2])
def test_a_worker_gives_the_same_table_bit_for_bit(count, at_once):
    """All jobs handed out at once, so that workers take them in any order."""
    with FitWorkers(count) as pool:
        found = {columns: pool.lock(**job) for columns, job in JOBS.items()}
        assert len(pool.pids) == count
        for columns, future in found.items():
            assert as_bytes(future.result(timeout=60)) == as_bytes(lock_table(**JOBS[columns]))


def test_without_workers_tables_are_locked_here(at_once):
    with FitWorkers(0) as pool:
        future = pool.lock(**PAIR)
        assert future.done()
        assert as_bytes(future.result()) == as_bytes(lock_table(**PAIR))
        assert pool.pids == []


def test_workers_start_when_there_is_enough_to_do(monkeypatch):
    monkeypatch.setattr(fit_workers, "HERE_FIRST", 1e9)
    with FitWorkers(2) as pool:
        assert pool.lock(**PAIR).done()
        assert pool.pids == []
        monkeypatch.setattr(fit_workers, "HERE_FIRST", 1e-9)
        far = pool.lock(**PAIR)
        assert len(pool.pids) == 2
        assert as_bytes(far.result(timeout=60)) == as_bytes(lock_table(**PAIR))
        assert len(pool.pids) == 2


def test_workers_start_where_enough_is_left(monkeypatch):
    monkeypatch.setattr(fit_workers, "HERE_FIRST", 0.5)
    monkeypatch.setattr(fit_workers, "lock_table", lambda **_: None)
    with FitWorkers(2) as pool:
        pool._spent, pool._done = 1.0, 100  # a hundredth of a second a table
        assert pool.lock(left=198).done()
        assert pool.pids == []
        pool.lock(left=240)
        assert len(pool.pids) == 2
        pool.lock(left=1)
        assert len(pool.pids) == 2


def test_an_error_here_comes_at_once(monkeypatch):
    def broken(**_):
        raise StoreError("told")

    monkeypatch.setattr(fit_workers, "lock_table", broken)
    with FitWorkers(0) as pool, pytest.raises(StoreError, match="told"):
        pool.lock(**PAIR)


# Errors.


def test_errors_reach_the_caller_by_kind_and_the_worker_lives_on(planted, at_once):
    with FitWorkers(1) as pool:

        def error_of(what: str) -> Exception:
            return pool.lock(**job(what)).exception(timeout=60)

        told = error_of("told")
        assert type(told) is errors.DataError
        assert str(told) == "this was told"
        foreign = error_of("foreign")
        assert type(foreign) is InternalError
        memory = error_of("memory")
        assert type(memory) is StoreError
        assert str(memory) == fit_workers.OUT_OF_MEMORY
        ours = error_of("value")
        assert type(ours) is InternalError
        assert CANARY not in str(ours)
        assert str(PAIR["noisy_total"]) not in str(ours).rpartition(":")[0]
        assert str(ours).startswith("ValueError in fit_workers.py:")
        assert str(ours).endswith("(serve)")
        missing = pool.lock(tree=PAIR["tree"], key=b"x").exception(timeout=60)
        assert type(missing) is InternalError
        assert str(missing).startswith("TypeError in fit_workers.py:")
        assert as_bytes(pool.lock(**PAIR).result(timeout=60)) == as_bytes(lock_table(**PAIR))
        assert len(list(planted.glob("*.worker"))) == 1


def test_the_place_of_an_error_is_in_our_code(at_once):
    """A job of nonsense: the innermost line of ours, no value of the job."""
    with FitWorkers(1) as pool:
        error = pool.lock(**PAIR | {"noisy_total": CANARY}).exception(timeout=60)
    assert type(error) is InternalError
    assert ".py:" in str(error)
    assert CANARY not in str(error)


@pytest.mark.parametrize(
    ("what", "kind", "words"),
    [
        ("kill", StoreError, fit_workers.OUT_OF_MEMORY),  # as the system does where memory ends
        ("exit", InternalError, "a worker of the fit ended without an answer"),
    ],
)
def test_a_worker_that_ends_is_told_and_no_hang(what, kind, words, planted, at_once):
    with FitWorkers(1) as pool:
        first = pool.lock(**job(what))
        rest = [pool.lock(**PAIR) for _ in range(3)]
        for future in (first, *rest):
            error = future.exception(timeout=60)
            assert type(error) is kind
            assert str(error) == words


def test_of_two_workers_one_goes_on_when_the_other_is_killed(planted, at_once):
    with FitWorkers(2) as pool:
        pool.lock(**PAIR).result(timeout=60)
        os.kill(pool.pids[0], signal.SIGKILL)
        found = [pool.lock(**PAIR).exception(timeout=60) for _ in range(6)]
        assert {type(error) for error in found} == {type(None), StoreError}


def test_an_interpreter_that_cannot_be_started(monkeypatch, at_once, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    with FitWorkers(2) as pool, pytest.raises(StoreError, match="cannot be started"):
        pool.lock(**PAIR)


# No orphan.


@needs_proc
def test_no_worker_outlives_the_pool(planted, at_once):
    with FitWorkers(2) as pool:
        slow = pool.lock(**job("slow"))
        pool.lock(**PAIR).result(timeout=60)
        own = pool.pids
        assert all(is_alive(pid) for pid in own)
    assert isinstance(slow.result(), SyntheticTable)  # what is under way is waited for
    assert not any(Path(f"/proc/{pid}").exists() for pid in own)


@needs_proc
def test_an_exception_ends_the_workers_at_once(planted, at_once):
    """A busy one too, and the table that waits for it is never locked."""
    futures, own, began = [], [], []

    def interrupted():
        with FitWorkers(1) as pool:
            futures.extend([pool.lock(**job("slow")), pool.lock(**PAIR)])
            own.extend(pool.pids)
            wait_until(lambda: list(planted.glob("*.busy")))
            began.append(time.monotonic())
            raise KeyError

    with pytest.raises(KeyError):
        interrupted()
    assert time.monotonic() - began[0] < 1.5
    assert not any(Path(f"/proc/{pid}").exists() for pid in own)
    busy, waiting = futures
    assert isinstance(busy.exception(), TablepackError)
    assert waiting.cancelled() or isinstance(waiting.exception(), TablepackError)


@needs_proc
@pytest.mark.parametrize("what", ["idle", "busy"])
def test_workers_end_by_themselves_when_the_fit_is_killed(what, planted, tmp_path):
    (tmp_path / "jobs.pickle").write_bytes(pickle.dumps([job("x"), job("slow")]))
    code = (
        "import pickle, sys, time\n"
        "from engine.release import fit_workers\n"
        "fit_workers.HERE_FIRST = 0.0\n"
        f"sys.path.insert(0, {str(tmp_path / 'site')!r})\n"
        f"plain, slow = pickle.load(open({str(tmp_path / 'jobs.pickle')!r}, 'rb'))\n"
        "pool = fit_workers.FitWorkers(2)\n"
        "pool.lock(**plain).result()\n"
        f"if {what == 'busy'}: pool.lock(**slow)\n"
        "print(*pool.pids, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT, text=True, env=environment()
    )
    workers = [int(word) for word in parent.stdout.readline().split()]
    if what == "busy":
        wait_until(lambda: list(planted.glob("*.busy")))
    assert len(workers) == 2
    assert all(is_alive(worker) for worker in workers)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: not any(is_alive(worker) for worker in workers))


def children_of(pid: int) -> list[int]:
    """Its workers; not the process that compiles beside them where nothing is compiled yet."""
    numbers = [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()]
    stats = {}
    for number in numbers:
        try:
            stats[number] = Path(f"/proc/{number}/stat").read_text().rpartition(") ")[2].split()
        except OSError:
            continue
    own = [number for number, stat in stats.items() if int(stat[1]) == pid and stat[0] != "Z"]
    return [
        number
        for number in own
        if b"engine.release.fit_" in Path(f"/proc/{number}/cmdline").read_bytes()
    ]


def fitting(folder: Path, workers: int = 2) -> FitProcess:
    """A fit process with workers, all one-way tables sent."""
    fit = FitProcess(order_of(PAIRS, folder / "r.duckdb", workers=workers))
    fit.send(total_measured(50), ahead=99)
    for name in NAMES:
        fit.send(TREES[name,], ahead=99)
    return fit


@needs_proc
def test_workers_of_a_killed_fit_process_end_and_its_parent_is_told(planted, tmp_path):
    with fitting(tmp_path) as fit:
        fit.send(TREES["A", "B"], ahead=99)
        wait_until(lambda: len(list(planted.glob("*.worker"))) == 2)
        workers = children_of(fit.pid)
        assert len(workers) == 2
        os.kill(fit.pid, signal.SIGKILL)
        with pytest.raises(InternalError, match="ended without an answer"):
            fit.finish()
        wait_until(lambda: not any(is_alive(worker) for worker in workers))


@needs_proc
def test_workers_ahead_of_the_order_end_without_one(planted, tmp_path):
    with pipes.interpreter_ahead(fit_process._MODULE, tmp_path / "r.duckdb") as child:
        fit_process.start_workers(child, 2)
        wait_until(lambda: len(list(planted.glob("*.worker"))) == 2)
        workers = children_of(child.pid)
        assert len(workers) == 2
    wait_until(lambda: not any(is_alive(pid) for pid in (child.pid, *workers)))


@needs_proc
def test_leaving_without_finish_ends_the_workers_too(planted, tmp_path):
    with fitting(tmp_path) as fit:
        fit.send(TREES["A", "B"], ahead=99)
        wait_until(lambda: len(list(planted.glob("*.worker"))) == 2)
        everybody = [fit.pid, *children_of(fit.pid)]
        assert len(everybody) == 3
    assert not any(is_alive(pid) for pid in everybody)
    assert not (tmp_path / "r.duckdb").exists()


def test_an_error_in_a_worker_is_told_by_the_fit_process(planted, tmp_path):
    """It ends the build: what comes after finds the process gone, with the reason still to read."""
    plant = PLANT.format(notes=str(planted), canary=CANARY)
    (tmp_path / "site" / "sitecustomize.py").write_text(
        plant.replace("job['key'].rstrip(b'.')", "b'value'")
    )

    def send_all(fit):
        for pair in PAIRS:
            fit.send(TREES[pair], ahead=99)
        fit.finish()

    with fitting(tmp_path) as fit:
        with pytest.raises(InternalError, match=r"ValueError in fit_workers\.py") as told:
            send_all(fit)
    assert CANARY not in str(told.value)
    assert not (tmp_path / "r.duckdb").exists()


@pytest.mark.parametrize("jobs", [1, 2, 9])
def test_a_build_sends_more_ahead_than_the_fit_holds_back(
    jobs, small_census, tmp_path, monkeypatch
):
    """Else both would wait, one for an answer and the other for a message. With one job they take turns."""
    sent, real = [], FitProcess.send

    def send(self, measurement, *, ahead):
        sent.append(ahead)
        return real(self, measurement, ahead=ahead)

    monkeypatch.setattr(FitProcess, "send", send)
    monkeypatch.setattr("engine.release.sticky.AHEAD", 3)
    build(read(small_census), tmp_path / "r.duckdb", jobs=jobs)
    assert len(set(sent)) == 1
    assert sent[0] == 0 if jobs == 1 else sent[0] > fit_process.HELD_LIGHT * jobs


@pytest.mark.parametrize("workers", [1, 3])
def test_the_fit_holds_back_so_many_tables_a_worker(workers, at_once, tmp_path, monkeypatch):
    """So many answers may be missing, and no more: the parent that asks for the others gets them."""
    monkeypatch.setattr(fit_process, "HELD", 1)
    monkeypatch.setattr(fit_process, "HELD_LIGHT", 2)  # a copy of this process has these, too
    child, held = pipes.fork(fit_process.serve), 2 * workers
    order = order_of(PAIRS, tmp_path / "r.duckdb", workers=workers)
    sent = [total_measured(50), *(TREES[name,] for name in NAMES), *(TREES[pair] for pair in PAIRS)]
    with FitProcess(order, child=child) as fit:
        came = sum(len(fit.send(measurement, ahead=held)) for measurement in sent)
        *answers, last = fit.finish()
    assert came >= len(sent) - held > 0
    assert came + len(answers) == len(sent)
    assert last == {
        "release": str(tmp_path / "r.duckdb"),
        "sha256": file_hash(tmp_path / "r.duckdb"),
        "content_hash": verify_release(tmp_path / "r.duckdb").content_hash,
    }


@pytest.mark.parametrize("name", ["LONG", "MANY"])
def test_where_there_is_much_to_hash_loops_are_brought_in(name, small_census, monkeypatch):
    spec, brought = read(small_census), []
    monkeypatch.setattr(sticky, "load_tokens", lambda: "loops")
    monkeypatch.setattr(sticky, "use_loop", brought.append)
    sticky._prepared(spec, TimeLeft(silent))
    assert brought == []
    limit = {"LONG": rows_about(spec), "MANY": len(spec.tables)}[name]
    assert 0 < limit < getattr(sticky, name)
    monkeypatch.setattr(sticky, name, limit)
    sticky._prepared(spec, TimeLeft(silent))
    assert brought == ["loops"]


# The wall.


def test_a_worker_inherits_nothing(planted, at_once, tmp_path, monkeypatch):
    """Looked at from inside: no environment, no file but its pipes, the folder of the fit."""
    secret = tmp_path / f"{CANARY}.csv"
    secret.write_text("1,2")
    out = tmp_path / "out"
    out.mkdir()
    monkeypatch.setenv("SECRET_OF_THE_SESSION", CANARY)
    monkeypatch.setenv("HOME", f"/home/{CANARY}")
    monkeypatch.chdir(out)
    with secret.open() as source, FitWorkers(2) as pool:
        os.set_inheritable(source.fileno(), True)
        assert CANARY in os.readlink(f"/proc/self/fd/{source.fileno()}")
        pool.lock(**job("look")).result(timeout=60)
        links = [os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
        pipes_here = {Path(link).name for link in links if "pipe:" in link}
    seen = json.loads((planted / "seen.json").read_text())
    assert CANARY not in json.dumps(seen)
    piped = {f for f in seen["files"].values() if f.startswith("pipe:")}
    assert len(piped & pipes_here) == 2  # its own two of the four: none of the other worker's
    others = set(seen["files"].values()) - piped
    assert not [f for f in others if f.startswith(str(tmp_path))]
    assert set(seen["environment"]) <= {
        *pipes.PASSED_ENVIRONMENT,
        *("PYTHONPATH", "OMP_NUM_THREADS", "LC_CTYPE", "SHLVL", "PWD", "_"),
    }
    assert Path(seen["folder"]) == out
    assert seen["argv"][1:] == ["-P", "-m", "engine.release.fit_workers"]
    assert str(out) not in seen["path"]
    assert left_of_the_wall(seen["modules"]) == []
    assert not [m for m in seen["modules"] if m.startswith("engine.store")]
    assert "engine.fit.locking" in seen["modules"]


@pytest.fixture
def small_census(census, tmp_path):
    tables = [
        ("age",),
        ("age", "sex"),
        ("income", "region"),
        ("age", "region", "sex"),
        ("carer", "rent_weekly"),
    ]
    return write_spec(tmp_path, census / "people.parquet", CENSUS, tables)


def test_jobs_change_nothing(small_census, planted, tmp_path):
    """1: no workers. 2 and 3: as many, started for the first table and seen at work."""
    found, workers = [], []
    for jobs in (1, 2, 3):
        out = tmp_path / f"{jobs}.duckdb"
        build(read(small_census), out, jobs=jobs)
        found.append(table_hashes(out))
        workers.append(len(list(planted.glob("*.worker"))))
        for note in planted.iterdir():
            note.unlink()
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 5
    assert workers == [0, 2, 3]


def test_many_tables_have_their_workers_at_once(small_census, planted, tmp_path, monkeypatch):
    """Though so few that none would start later; not where work takes turns."""
    started = []
    real = sticky.start_workers

    def noted(child, workers):
        started.append(workers)
        return real(child, workers)

    monkeypatch.setattr(sticky, "start_workers", noted)
    few = build(read(small_census), tmp_path / "few.duckdb", jobs=2)
    for note in planted.iterdir():
        note.unlink()
    monkeypatch.setattr(sticky, "SOME", 5)
    many = build(read(small_census), tmp_path / "many.duckdb", jobs=2)
    assert len(list(planted.glob("*.worker"))) == 2
    build(read(small_census), tmp_path / "turns.duckdb", jobs=1)
    assert started == [0, 2, 0]
    assert table_hashes(few) == table_hashes(many)


def test_workers_of_a_build_hold_no_handle_on_the_data(
    small_census, census, planted, tmp_path, monkeypatch
):
    """The same look during a build, by whoever locks a table."""
    (planted / "look").touch()
    monkeypatch.setenv("SECRET_OF_THE_SESSION", CANARY)
    out = tmp_path / "out"
    out.mkdir()
    build(read(small_census), out / "r.duckdb", jobs=2)
    seen = json.loads((planted / "seen.json").read_text())
    assert Path(seen["folder"]) == out
    opened = "\n".join(seen["files"].values()) + seen["maps"]
    for path in (census, "people.parquet", "my.key", "r.duckdb"):  # not the release either
        assert str(path) not in opened
    told = json.dumps([seen["argv"], seen["environment"]])
    assert CANARY not in told
    assert "people.parquet" not in told
    key = (tmp_path / "my.key").read_bytes()
    assert key.hex() not in told
