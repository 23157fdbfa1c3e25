"""The wall as a process: what the child sees, how it ends, and that it makes the release."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from fixtures.fit import KEY, total_measured
from fixtures.fitting import (
    TREES,
    environment,
    is_alive,
    needs_proc,
    order_of,
    proc,
    wait_until,
)
from fixtures.pipeline import ROOT

from engine.errors import InternalError
from engine.release import FitProcess
from engine.release.pipes import Finish, write_message
from engine.store.manifest import file_hash, verify_release

CANARY = "canary-7f3a9c"


@needs_proc
def test_child_has_no_handle_on_the_data(tmp_path, monkeypatch):
    monkeypatch.setenv("CANARY", CANARY)
    data = tmp_path / f"{CANARY}.csv"
    data.write_text(CANARY)
    released = tmp_path / "out"
    released.mkdir()
    with data.open() as source:
        os.set_inheritable(source.fileno(), True)
        with FitProcess(order_of([("A",)], released / "r.duckdb")) as fit:
            fit.send(total_measured(50), ahead=0)
            fit.send(TREES["A",], ahead=0)
            assert CANARY.encode() in proc(os.getpid(), "environ") + b"".join(
                os.readlink(f"/proc/self/fd/{fd}").encode()
                for fd in os.listdir("/proc/self/fd")
                if os.path.exists(f"/proc/self/fd/{fd}")
            )
            assert CANARY.encode() not in proc(fit.pid, "environ")
            assert CANARY.encode() not in proc(fit.pid, "cmdline")
            open_files = [
                os.readlink(f"/proc/{fit.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{fit.pid}/fd")
            ]
            assert len(open_files) >= 3
            assert not [f for f in open_files if CANARY in f]
            assert CANARY.encode() not in proc(fit.pid, "maps")
            assert os.readlink(f"/proc/{fit.pid}/cwd") == str(released)
            # No argument holds the sampling key either.
            assert (KEY * 2).hex().encode() not in proc(fit.pid, "cmdline") + proc(
                fit.pid, "environ"
            )


@needs_proc
def test_leaving_without_finish_ends_the_child(tmp_path):
    with FitProcess(order_of([("A",)], tmp_path / "r.duckdb")) as fit:
        fit.send(total_measured(50), ahead=0)
        pid = fit.pid
        assert Path(f"/proc/{pid}").exists()
    assert not Path(f"/proc/{pid}").exists()
    assert not (tmp_path / "r.duckdb").exists()


@needs_proc
def test_child_ends_when_its_parent_is_killed(tmp_path):
    path = tmp_path / "order.pickle"
    path.write_bytes(pickle.dumps(order_of([("A",)], tmp_path / "r.duckdb")))
    code = (
        "import pickle, sys, time\n"
        "from engine.release.fit_process import FitProcess\n"
        f"fit = FitProcess(pickle.load(open({str(path)!r}, 'rb')))\n"
        "print(fit.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT, text=True, env=environment()
    )
    child = int(parent.stdout.readline())
    assert is_alive(child)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: not is_alive(child))


@pytest.mark.ci
def test_a_build_through_the_process_makes_the_release(tmp_path):
    path = tmp_path / "r.duckdb"
    with FitProcess(order_of([("A",), ("A", "B")], path)) as fit:
        assert fit.finished == frozenset()
        assert fit.send(total_measured(50), ahead=2) == []
        assert fit.send(TREES["A",], ahead=2) == []
        assert len(fit.send(TREES["B",], ahead=2)) == 1
        assert len(fit.send(TREES["A", "B"], ahead=0)) == 3
        *_, last = fit.finish()
    assert last == {
        "release": str(path),
        "sha256": file_hash(path),
        "content_hash": verify_release(path).content_hash,
    }
    assert path.exists()


def test_errors_of_the_child_are_raised_in_the_parent(tmp_path):
    with FitProcess(order_of([("A", "B")], tmp_path / "r.duckdb")) as fit:
        fit.send(total_measured(50), ahead=0)
        with pytest.raises(InternalError, match="before the narrower"):
            fit.send(TREES["A", "B"], ahead=0)
        with pytest.raises(InternalError, match="ended"):  # the child has gone
            fit.send(TREES["A",], ahead=0)


@pytest.mark.ci
def test_child_imports_nothing_from_the_folder_of_the_release(tmp_path):
    (tmp_path / "engine").mkdir()
    for name in ("engine/__init__.py", "numpy.py", "duckdb.py", "json.py"):
        (tmp_path / name).write_text("raise SystemExit('imported from the folder of the release')")
    with FitProcess(order_of([("A",)], tmp_path / "r.duckdb")) as fit:
        fit.send(total_measured(50), ahead=0)


@pytest.mark.ci
def test_modules_of_the_child_are_of_its_side(tmp_path):
    messages = b""
    path = tmp_path / "r.duckdb"
    for message in (order_of([("A",)], path), total_measured(50), TREES["A",], Finish()):
        raw = pickle.dumps(message)
        messages += len(raw).to_bytes(8, "little") + raw
    code = (
        "import sys\n"
        "from engine.release.fit_process import serve\n"
        "serve(sys.stdin.buffer, open(sys.argv[1], 'wb'))\n"
        "print(*sys.modules)\n"
    )
    child = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "answers")],
        input=messages,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env=environment(),
        check=True,
    )
    loaded = set(child.stdout.decode().split())
    assert {"engine.release.fit_process", "engine.fit.locking", "engine.store.staging"} <= loaded
    left = ("engine.source", "engine.measure", "engine.spec")
    assert not [name for name in loaded if name.startswith(left)]
    assert path.exists()


@pytest.mark.ci
def test_a_closed_pipe_ends_the_service_quietly(tmp_path):
    for raw in (b"", b"\x01\x00", len(pickle.dumps("x")).to_bytes(8, "little") + pickle.dumps("x")):
        code = "import sys; from engine.release.fit_process import serve; serve(sys.stdin.buffer, sys.stdout.buffer)"
        run = subprocess.run(
            [sys.executable, "-c", code],
            input=raw,
            capture_output=True,
            env=environment(),
            cwd=ROOT,
        )
        assert (run.returncode, run.stdout, run.stderr) == (0, b"", b"")


def test_nobody_reads_the_error(tmp_path):
    """A table without a total ends the build; who would be told is gone. Nothing of the error is printed instead."""
    child = subprocess.Popen(
        [sys.executable, "-m", "engine.release.fit_process"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), cwd=ROOT,
    )  # fmt: skip
    write_message(child.stdin, order_of([("A",)], tmp_path / "r.duckdb"))
    child.stdout.readline()
    child.stdout.close()
    write_message(child.stdin, TREES["A", "B"])
    child.stdin.close()
    said = child.stderr.read()
    child.stderr.close()
    assert child.wait(timeout=60) == 0
    assert said == b""
