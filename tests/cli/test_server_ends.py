"""Ctrl-C and SIGTERM on a server at work: what runs is told to stop, clients to come back, and it ends soon."""

from __future__ import annotations

import contextlib
import http.client
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
from fixtures.pipeline import COMMAND, environment
from fixtures.release import build_release

pytest.importorskip("fastapi")
pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
ENDLESS = (
    '{"sql": "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range <> b.range"}'
)
LONGEST_S = 3.0


def ask(port, told):
    """Ask what is never answered, and note what comes back."""
    asking = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(asking):
        asking.request("POST", "/api/query", ENDLESS, {"content-type": "application/json"})
        reply = asking.getresponse()
        told.append((reply.status, reply.getheader("retry-after"), reply.read().decode()))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return build_release(tmp_path_factory.mktemp("served") / "r.duckdb")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "terminate"])
def test_a_server_at_work_ends_soon(path, scratch, how):
    server = subprocess.Popen(
        [*COMMAND, "serve", str(path), "--port", "0", "--timeout", "30"], env=environment(scratch),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    address = server.stdout.readline()
    port = int(re.search(r":(\d+)/", address)[1])
    told = []
    clients = [threading.Thread(target=ask, args=(port, told)) for _ in range(3)]
    for client in clients:  # one is at work, two wait for their turn
        client.start()
    time.sleep(1.5)
    began = time.monotonic()
    server.send_signal(how)
    _, err = server.communicate(timeout=60)
    seconds = time.monotonic() - began
    for client in clients:
        client.join(10)
    assert server.returncode == 128 + how, err
    assert "Traceback" not in err
    assert seconds < LONGEST_S, err
    assert [(status, wait) for status, wait, _ in told] == [(503, "5")] * 3
    assert all("try again in 5 s" in text for *_, text in told)
