"""Worker processes of the fit: the same tables as without them, errors by kind, nothing inherited, no orphan."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
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
from fixtures.planted import CANARY

from engine import errors
from engine.api.reading import read
from engine.errors import InternalError, StoreError, TablepackError
from engine.fit import lock_table
from engine.release import FitProcess, build, fit_process, fit_workers, pipes
from engine.release.fit_workers import FitWorkers
from engine.release.pipes import interpreter_ahead


@pytest.fixture
def at_once(monkeypatch):
    """Workers are started for the first table."""
    monkeypatch.setattr(fit_workers, "HERE_FIRST", 0.0)


def job(what: str) -> dict:
    return PAIR | {"key": what.encode().ljust(16, b".")}


# Tables.


@pytest.mark.ci
def test_workers_give_the_same_tables_bit_for_bit(at_once):
    """All jobs handed out at once, so that workers take them in any order."""
    with FitWorkers(2) as pool:
        found = {columns: pool.lock(**job) for columns, job in JOBS.items()}
        assert len(pool.pids) == 2
        for columns, future in found.items():
            assert as_bytes(future.result(timeout=60)) == as_bytes(lock_table(**JOBS[columns]))


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


# No orphan.


@needs_proc
def test_an_exception_ends_the_workers_at_once(planted, at_once):
    """A busy one too, and the table that waits for it is never locked."""
    futures, own = [], []

    def interrupted():
        with FitWorkers(1) as pool:
            futures.extend([pool.lock(**job("slow")), pool.lock(**PAIR)])
            own.extend(pool.pids)
            wait_until(lambda: list(planted.glob("*.busy")))
            raise KeyError

    with pytest.raises(KeyError):
        interrupted()
    assert not any(Path(f"/proc/{pid}").exists() for pid in own)
    busy, waiting = futures
    assert isinstance(busy.exception(), TablepackError)
    assert waiting.cancelled() or isinstance(waiting.exception(), TablepackError)


@pytest.mark.ci
@needs_proc
def test_workers_end_by_themselves_when_the_fit_is_killed(planted, tmp_path):
    (tmp_path / "jobs.pickle").write_bytes(pickle.dumps([job("x"), job("slow")]))
    code = (
        "import pickle, sys, time\n"
        "from engine.release import fit_workers\n"
        "fit_workers.HERE_FIRST = 0.0\n"
        f"sys.path.insert(0, {str(tmp_path / 'site')!r})\n"
        f"plain, slow = pickle.load(open({str(tmp_path / 'jobs.pickle')!r}, 'rb'))\n"
        "pool = fit_workers.FitWorkers(2)\n"
        "pool.lock(**plain).result()\n"
        "pool.lock(**slow)\n"
        "print(*pool.pids, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT, text=True, env=environment()
    )
    workers = [int(word) for word in parent.stdout.readline().split()]
    wait_until(lambda: list(planted.glob("*.busy")))
    assert len(workers) == 2
    assert all(is_alive(worker) for worker in workers)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: not any(is_alive(worker) for worker in workers))


# The wall.


def test_a_worker_inherits_nothing(planted, at_once, tmp_path, monkeypatch):
    """Looked at from inside: no environment, no file but its pipes, the folder of the fit."""
    secret = tmp_path / f"{CANARY}.csv"
    secret.write_text("1,2")
    out = tmp_path / "out"
    out.mkdir()
    monkeypatch.setenv("SECRET_OF_THE_SESSION", CANARY)
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


@pytest.mark.ci
def test_jobs_change_nothing(small_census, planted, tmp_path):
    """1: no workers. 3: as many, started for the first table and seen at work."""
    found, workers = [], []
    for jobs in (1, 3):
        out = tmp_path / f"{jobs}.duckdb"
        build(read(small_census), out, jobs=jobs)
        found.append(table_hashes(out))
        workers.append(len(list(planted.glob("*.worker"))))
        for note in planted.iterdir():
            note.unlink()
    assert found[0] == found[1]
    assert len(found[0]) == 5
    assert workers == [0, 3]


@pytest.mark.ci
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


@pytest.mark.ci
def test_a_worker_that_was_copied_gives_the_same_tables_and_inherits_nothing(planted, tmp_path):
    """Of the fit process it has pipes and the standard error, whichever of several it is."""
    (planted / "look").touch()
    found = []
    for started in (0, 2):
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
    assert found[0] == found[1]
