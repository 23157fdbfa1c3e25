"""Ctrl-C and SIGTERM on a busy server: running statements are cancelled and clients are told to come back."""

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
