"""Ctrl-C and SIGTERM: exit code 130 or 143, one sentence, no orphaned process, also of a busy server."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
from fixtures.pipeline import (
    ACCEPTED,
    COMMAND,
    environment,
    left_over,
    make_frame,
    tablepack,
    write_spec,
)
from fixtures.release import build_release

from engine.cli import STOPPED

pytest.importorskip("fastapi")

COLUMNS = {"AGE": {"kind": "integer"}, "SEX": {"kind": "category"}, "INCOME": {"kind": "integer"}}
FOREVER = "SELECT count(*) FROM range(100000000000) a"
COMMANDS = {
    "sql": ("sql", "r.duckdb", FOREVER),
    "build": ("build", "release.toml", "-o", "new.duckdb", "--force"),
    "evaluate": ("evaluate", "r.duckdb", "--data", "people.csv", "-o", "e.html", "--force"),
    "serve": ("serve", "r.duckdb", "--port", "0"),
    "compare": ("compare", "release.toml", "--levers", "-o", "c.html", "--force"),
}
pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ends")
    make_frame(4000).to_csv(folder / "people.csv", index=False)
    tables = [("AGE",), ("AGE", "SEX"), ("AGE", "INCOME", "SEX")]
    spec = write_spec(folder, "people.csv", COLUMNS, tables, entities=(), privacy=ACCEPTED)
    assert tablepack("build", spec, "-o", "r.duckdb", cwd=folder).returncode == 0
    return folder


def has_handler(pid: int) -> bool:
    """Whether a process has our handler for SIGTERM; Python itself has none."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("SigCgt"):
                return bool(int(line.split()[1], 16) >> (signal.SIGTERM - 1) & 1)
    return False


def session_of(pid: int) -> set[int]:
    """The processes of a session, including those in process groups of their own."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(") ")[2].split()
            if int(fields[3]) == pid and fields[0] != "Z":
                found.add(int(stat.parent.name))
    return found


def check(folder, scratch, name, how, moment):
    """Send a signal some time after the command has installed its handler, and check how it ends."""
    running = subprocess.Popen(
        [*COMMAND, *COMMANDS[name]], cwd=folder, env=environment(scratch), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    while running.poll() is None and not has_handler(running.pid):
        time.sleep(0.002)
    try:
        running.wait(moment)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, how)
    try:
        _, err = running.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        running.communicate(timeout=20)
        raise
    deadline = time.monotonic() + 60
    while session_of(running.pid):
        assert time.monotonic() < deadline, f"an orphan of {name}"
        time.sleep(0.02)
    case = (name, how.name, moment, running.returncode, err)
    assert "Traceback" not in err, case
    assert "bug" not in err, case
    assert left_over(scratch) == [], case
    if running.returncode == 0 and name not in ("sql", "serve"):
        return  # it had finished before the signal
    if running.returncode == -how:
        return  # it was still importing
    assert running.returncode == 128 + how, case
    assert err.splitlines()[-1] == STOPPED, case
    assert err.count(STOPPED) == 1, case


@pytest.mark.ci
def test_a_query_that_runs_forever_is_interrupted(made, scratch):
    check(made, scratch, "sql", signal.SIGINT, 1.5)


@pytest.mark.ci
def test_a_command_that_is_still_importing_is_terminated(made, scratch):
    check(made, scratch, "evaluate", signal.SIGTERM, 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "terminate"])
@pytest.mark.parametrize("moment", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("name", COMMANDS)
def test_commands_end_cleanly_while_starting_importing_and_working(
    made, scratch, name, moment, how
):
    check(made, scratch, name, how, moment)


PROGRAM = """
import os, signal, sys, time
from engine.cli import loading, run_and_exit
def application():
    {body}
run_and_exit(application)
"""
KILL = "os.kill(os.getpid(), 2); time.sleep(5)"


@pytest.mark.parametrize(
    ("body", "ends"),
    [
        (KILL, (130, STOPPED + "\n")),
        (
            f"""
    try: {KILL}
    except BaseException: raise RuntimeError('a value')""",
            (130, STOPPED + "\n"),
        ),
        (
            f"""
    try: {KILL}
    finally: {KILL.replace("5", "0.1")}; print('cleaned up', file=sys.stderr)""",
            (130, "cleaned up\n" + STOPPED + "\n"),
        ),
        (
            f"""
    with loading(): {KILL}""",
            (-2, ""),
        ),
        (
            f"""
    try: {KILL}
    except BaseException: print('went on', file=sys.stderr)""",
            (0, "went on\n"),
        ),
    ],
    ids=["plain", "turned into another error", "twice", "while importing", "lost"],
)
def test_a_signal_ends_a_command(body, ends, tmp_path):
    done = subprocess.run(
        [COMMAND[0], "-c", PROGRAM.replace("{body}", body)],
        env=environment(), cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == ends


ENDLESS = (
    '{"sql": "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range <> b.range"}'
)


def ask(port, replies):
    """Send a statement that never ends, and keep the reply."""
    asking = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with contextlib.closing(asking):
        asking.request("POST", "/api/query", ENDLESS, {"content-type": "application/json"})
        reply = asking.getresponse()
        reply.read()
        replies.append((reply.status, reply.getheader("retry-after")))


@pytest.mark.ci
@pytest.mark.parametrize(
    "how",
    [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)],
    ids=["terminate", "Ctrl-C"],
)
def test_a_busy_server_ends(tmp_path, scratch, how):
    """A statement may run for 10 minutes here: a server that waited for it would not end in one."""
    path = build_release(tmp_path / "r.duckdb")
    server = subprocess.Popen(
        [*COMMAND, "serve", str(path), "--port", "0", "--timeout", "600", "--wait", "600"],
        env=environment(scratch),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    port = int(re.search(r":(\d+)/", server.stdout.readline())[1])
    replies = []
    clients = [threading.Thread(target=ask, args=(port, replies)) for _ in range(3)]
    for client in clients:  # one client's share is two at once; the third waits
        client.start()
    time.sleep(1.5)
    server.send_signal(how)
    _, err = server.communicate(timeout=60)
    for client in clients:
        client.join(10)
    assert server.returncode == 128 + how, err
    assert "Traceback" not in err
    assert replies == [(503, "5")] * 3
