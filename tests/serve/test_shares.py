"""One client cannot block the others: endless statements, abandoned ones, slow bodies; on a real server.

No test measures seconds: limits are so long that a request which waits for them would run into its client's timeout.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import select
import socket
import sys
import threading
import time
from pathlib import Path
from urllib.parse import quote

import pytest
from fixtures.serve import served

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from queries.intervals import tabulation
from queries.intervals.regions import region_of
from queries.serve import CONNECTIONS, Limits, app_of

pytestmark = pytest.mark.skipif(
    sys.platform != "linux",
    reason="clients with other addresses: only Linux has all of 127.0.0.0/8",
)
GREEDY, OTHER = "127.0.0.1", "127.0.0.2"
ENDLESS = (
    "SELECT count(*) + {} FROM range(1000000) a, range(1000000) b WHERE hash(a.range + b.range) = 1"
)
FOREVER = 600


def asked(client, path, address=OTHER, **headers):
    """Ask from an address; status, headers and JSON."""
    con = http.client.HTTPConnection(
        "127.0.0.1", client.port, timeout=60, source_address=(address, 0)
    )
    with contextlib.closing(con):
        con.request("GET", path, headers={"host": "localhost", **headers})
        answer = con.getresponse()
        return answer.status, dict(answer.getheaders()), json.loads(answer.read())


def sql(text):
    return f"/api/query?sql={quote(text)}"


@contextlib.contextmanager
def open_requests(client, paths, address=GREEDY, header=""):
    """Requests that were sent and whose answers nobody reads; their sockets."""
    with contextlib.ExitStack() as stack:
        sockets = []
        for path in paths:
            con = socket.create_connection(
                ("127.0.0.1", client.port), 20, source_address=(address, 0)
            )
            stack.callback(con.close)
            con.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n{header}\r\n".encode())
            sockets.append(con)
        yield sockets


def endless(n):
    return [sql(ENDLESS.format(i)) for i in range(n)]


def eventually(condition, what):
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.02)


@pytest.mark.ci
def test_one_clients_statements_do_not_stop_another(path):
    """Another client's tables and statements are answered while none of 40 endless statements is."""
    limits = Limits(places=2, share=1, wait_s=FOREVER, timeout_s=FOREVER)
    with served(app_of(path, limits=limits), **CONNECTIONS) as client:
        with open_requests(client, endless(40)) as sockets:
            wait_until_running()
            for i in range(4):
                table = f"/api/tabulate?rows=sex&cols=age&from.age={i}&to.age=60"  # not cached
                assert asked(client, table)[0] == 200
                text = f"SELECT sex, count(*) + {i} AS n FROM data GROUP BY sex"
                assert asked(client, sql(text))[0] == 200
            assert select.select(sockets, [], [], 0)[0] == []


@pytest.mark.ci
def test_too_many_statements_of_one_client_are_refused_at_once(path):
    limits = Limits(places=2, share=1, waiting_each=3, wait_s=FOREVER, timeout_s=FOREVER)
    with served(app_of(path, limits=limits), **CONNECTIONS) as client:
        with open_requests(client, endless(3)) as sockets:
            wait_until_running()
            with open_requests(client, endless(3)) as more:  # 1 runs and 3 wait: 2 are refused
                closed = select.select([*sockets, *more], [], [], 30)[0]
                assert closed[0].recv(12) == b"HTTP/1.1 503"
                status, headers, body = asked(client, sql("SELECT 1"), GREEDY)
                assert (status, body["error"]) == (503, "Busy")
                assert 1 <= int(headers["retry-after"]) <= 60
                assert asked(client, sql("SELECT 1"))[0] == 200
        assert asked(client, sql("SELECT 2"), GREEDY)[0] == 200


@pytest.mark.ci
def test_abandoned_statements_are_stopped(path):
    """The only process answers the next statement, although none of the abandoned ones ends by itself."""
    limits = Limits(places=1, wait_s=FOREVER, timeout_s=FOREVER)
    with served(app_of(path, limits=limits), **CONNECTIONS) as client:
        pids = workers()
        for i in range(2):
            with open_requests(client, endless(10)):
                wait_until_running()
            status, _, body = asked(client, sql(f"SELECT 42 + {i}"), GREEDY)
            assert (status, body["rows"]) == (200, [[42 + i]])
        assert workers() == pids  # stopped, not ended: starting a process is slow


SLOW_TABLE = "/api/tabulate?rows=age&band.age=5&cols=sex"


@pytest.mark.ci
def test_abandoned_tables_are_stopped(path, monkeypatch):
    """The table builder works in the server's process, band by band: the rest of the bands is not computed."""
    calls, begun = [], threading.Event()

    def counted(*given):
        calls.append(begun.is_set())
        begun.set()
        time.sleep(pause)
        return region_of(*given)

    pause = 0.0
    monkeypatch.setattr(tabulation, "region_of", counted)
    for whole in (True, False):
        calls.clear()
        begun.clear()
        limits = Limits(places=1, wait_s=FOREVER)
        with served(app_of(path, limits=limits), **CONNECTIONS) as client:
            if whole:
                assert asked(client, SLOW_TABLE)[0] == 200
                n_whole, pause = len(calls), 0.2
                continue
            with open_requests(client, [SLOW_TABLE]):
                assert begun.wait(30)
            for other in ("/api/plan?rows=sex", "/api/tables"):  # the only place is free again
                assert asked(client, other, GREEDY)[0] == 200
            assert 0 < len(calls) < n_whole
            pause = 0.0
            assert asked(client, SLOW_TABLE)[0] == 200


def workers():
    """Worker processes of this process."""
    children = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    found = set()
    for path in children:
        for pid in path.read_text().split():
            with contextlib.suppress(OSError):  # ended meanwhile
                if b"queries.sandbox.worker" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.add(int(pid))
    return found


def cpu_s(pids):
    """Processor seconds that some processes have used."""
    ticks = [Path(f"/proc/{p}/stat").read_text().rpartition(")")[2].split()[11:13] for p in pids]
    return sum(int(t) for pair in ticks for t in pair) / os.sysconf("SC_CLK_TCK")


def wait_until_running():
    """Wait until a worker process is busy with a statement."""
    pids = workers()
    before = cpu_s(pids)
    eventually(lambda: cpu_s(pids) > before + 0.3, "no statement is running")


SLOW_BODY = b"POST /api/query HTTP/1.1\r\nhost: localhost\r\ncontent-length: 50\r\n\r\n{"


def whole(con):
    """All that comes until the server closes the connection."""
    got = b""
    while part := con.recv(4096):
        got += part
    return got


@pytest.mark.ci
def test_a_body_that_takes_too_long_is_refused_and_closed(path):
    with served(app_of(path, limits=Limits(places=1, body_s=0.5)), **CONNECTIONS) as client:
        for body, status in (
            (SLOW_BODY, b"408"),
            (SLOW_BODY.replace(b"localhost", b"evil.test"), b"403"),
        ):
            with socket.create_connection(("127.0.0.1", client.port), timeout=20) as con:
                con.sendall(body)
                assert whole(con).startswith(b"HTTP/1.1 " + status)


@pytest.mark.slow
def test_behind_a_proxy_clients_are_those_it_names(path):
    """uvicorn trusts the header of the proxies it was given; see `tablepack serve --proxy`."""
    limits = Limits(places=2, share=1, waiting_each=0, timeout_s=FOREVER)
    trusted = {"proxy_headers": True, "forwarded_allow_ips": GREEDY}
    with served(app_of(path, limits=limits), **CONNECTIONS, **trusted) as client:

        def named(text, name, address=GREEDY):
            return asked(client, sql(text), address, **{"x-forwarded-for": name})[0]

        with open_requests(client, endless(1), GREEDY, "x-forwarded-for: 198.51.100.1\r\n"):
            wait_until_running()
            assert named("SELECT 1", "198.51.100.1") == 503
            assert named("SELECT 1", "198.51.100.2") == 200
            assert named("SELECT 2", "198.51.100.1", OTHER) == 200  # not from a trusted proxy
