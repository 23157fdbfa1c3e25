"""One client cannot stop the others: statements, abandoned ones, slow bodies; on a real server."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import selectors
import socket
import sys
import threading
import time
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from fixtures.serve import served

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from queries.intervals import tabulation
from queries.intervals.regions import region_of
from queries.serve import CONNECTIONS, Limits, app_of

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="clients of other addresses: only Linux has all of 127.0.0.0/8"
)
GREEDY, OTHER = "127.0.0.1", "127.0.0.2"
ENDLESS = (
    "SELECT count(*) + {} FROM range(1000000) a, range(1000000) b WHERE hash(a.range + b.range) = 1"
)


def asked(client, path, address=OTHER, timeout=60):
    """Ask from an address; status, headers, JSON, and how long it took."""
    began = time.monotonic()
    con = http.client.HTTPConnection(
        "127.0.0.1", client.port, timeout=timeout, source_address=(address, 0)
    )
    with contextlib.closing(con):
        con.request("GET", path, headers={"host": "localhost"})
        answer = con.getresponse()
        body = json.loads(answer.read())
    return answer.status, dict(answer.getheaders()), body, time.monotonic() - began


def sql(text):
    return f"/api/query?sql={quote(text)}"


@contextlib.contextmanager
def open_requests(client, texts, address=GREEDY):
    """Statements that were sent, and whose answers nobody reads; their sockets."""
    with contextlib.ExitStack() as stack:
        sockets = []
        for text in texts:
            con = socket.create_connection(
                ("127.0.0.1", client.port), 20, source_address=(address, 0)
            )
            stack.callback(con.close)
            con.sendall(f"GET {sql(text)} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            sockets.append(con)
        yield sockets


def under_load(path, n_tables, n_sql):
    """How long another client's questions take beside 40 statements of one client that do not end."""
    with served(app_of(path, timeout_s=20), **CONNECTIONS) as client:
        asked(client, "/api/tabulate?rows=sex")  # what is loaded at first use
        asked(client, sql("SELECT 1"))
        with open_requests(client, [ENDLESS.format(i) for i in range(40)]):
            time.sleep(0.5)
            table_s, sql_s = [], []
            for i in range(max(n_tables, n_sql)):
                if i < n_tables:
                    status, _, body, took = asked(client, _table(i))
                    assert status == 200, body
                    table_s.append(took)
                if i < n_sql:
                    text = f"SELECT sex, count(*) + {i} AS n FROM data GROUP BY sex"
                    status, _, body, took = asked(client, sql(text))
                    assert status == 200, body
                    sql_s.append(took)
    return np.percentile(table_s, 95), max(sql_s)


def _table(i):
    """Questions that are not in the cache."""
    return f"/api/tabulate?rows=sex&cols=age&from.age={i % 40}&to.age={60 + i // 40}"


def check_one_is_quick(tries, path, n_tables, n_sql, table_s):
    """Check that one of several runs is quick enough: other work on the machine slows one, a fault of ours all."""
    found = []
    for _ in range(tries):
        found.append(under_load(path, n_tables, n_sql))
        if found[-1][0] < table_s and found[-1][1] < 2.0:
            return
    pytest.fail(f"seconds of tables and of statements, run by run: {found}")


def test_one_clients_statements_do_not_stop_another(path):
    # 0.3 s where nothing else runs on the machine: see the slow test
    check_one_is_quick(3, path, n_tables=15, n_sql=5, table_s=1.0)


@pytest.mark.slow
def test_one_clients_statements_do_not_slow_another(path):
    check_one_is_quick(3, path, n_tables=100, n_sql=50, table_s=0.3)


def test_too_many_statements_of_one_client_are_told_when_to_come_back(path):
    limits = Limits(workers=2, share=1, waiting_each=3, wait_s=3.0)
    with served(app_of(path, limits=limits, timeout_s=20), **CONNECTIONS) as client:
        with open_requests(client, [ENDLESS.format(i) for i in range(4)]) as sockets:
            time.sleep(0.3)
            status, headers, body, took = asked(client, sql("SELECT 1"), GREEDY)
            assert (status, body["error"]) == (503, "Busy")
            assert 1 <= int(headers["retry-after"]) <= 60
            assert f"try again in {headers['retry-after']} s" in body["message"]
            assert took < limits.wait_s / 2  # at once: too many wait
            assert asked(client, sql("SELECT 1"))[0] == 200
            first = sockets[1].recv(4096)  # the second waits for its time
            assert first.startswith(b"HTTP/1.1 503")
            assert b"retry-after: " in first
        assert asked(client, sql("SELECT 2"), GREEDY)[0] == 200


def test_abandoned_statements_are_gone_in_a_second(path):
    limits = Limits(workers=1)
    with served(app_of(path, limits=limits, timeout_s=30), **CONNECTIONS) as client:
        pids = workers()
        for _ in range(3):
            with open_requests(client, [ENDLESS.format(i) for i in range(10)]):
                time.sleep(0.4)
                before = cpu_s(pids)
            began = time.monotonic()
            status, _, body, _ = asked(client, sql("SELECT 42"), GREEDY)
            assert (status, body["rows"]) == (200, [[42]])
            assert time.monotonic() - began < 1.0
            assert cpu_s(pids) - before < 1.0
        assert workers() == pids  # stopped, not ended: a process takes long to start


SLOW_TABLE = "/api/tabulate?rows=age&band.age=5&cols=sex"


def test_abandoned_tables_are_gone_in_a_second(path, monkeypatch):
    """The table builder works in this process, band by band."""
    began_at, begun = [], threading.Event()

    def slow(*given):
        begun.set()
        began_at.append(time.monotonic())
        time.sleep(0.1)
        return region_of(*given)

    with served(app_of(path, limits=Limits(workers=1), timeout_s=30), **CONNECTIONS) as client:
        monkeypatch.setattr(tabulation, "region_of", slow)
        with contextlib.closing(socket.create_connection(("127.0.0.1", client.port), 20)) as con:
            con.sendall(f"GET {SLOW_TABLE} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            assert begun.wait(10)
            time.sleep(0.2)
        left = time.monotonic()
        for path in ("/api/plan?rows=sex", "/api/tables"):  # the only place is free again
            assert asked(client, path, GREEDY)[0] == 200
            assert time.monotonic() - left < 1.0
        monkeypatch.undo()
        assert asked(client, SLOW_TABLE)[0] == 200
    assert max(began_at) - left < 1.0


HARD_TO_STOP = (
    "SELECT levenshtein(repeat('ab', 60000), repeat('ba', 60000))"  # one call of many seconds
)


def test_what_cannot_be_stopped_is_ended(path):
    """A function that works on one value for long looks at nothing."""
    limits = Limits(workers=1)
    with served(app_of(path, limits=limits, timeout_s=30), **CONNECTIONS) as client:
        pids = workers()
        with open_requests(client, [HARD_TO_STOP]):
            time.sleep(0.4)
        until = time.monotonic() + 5  # long before its time is up
        while workers() & pids:
            assert time.monotonic() < until
            time.sleep(0.05)
        assert asked(client, sql("SELECT 42"), GREEDY)[0] == 200


def workers():
    """Processes that run statements for this one."""
    children = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    found = set()
    for path in children:
        for pid in path.read_text().split():
            with contextlib.suppress(OSError):  # gone meanwhile
                if b"queries.sandbox.worker" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.add(int(pid))
    return found


def cpu_s(pids):
    """Processor seconds that some processes have taken."""
    ticks = [Path(f"/proc/{p}/stat").read_text().rpartition(")")[2].split()[11:13] for p in pids]
    return sum(int(t) for pair in ticks for t in pair) / os.sysconf("SC_CLK_TCK")


SLOW_BODY = b"POST /api/query HTTP/1.1\r\nhost: localhost\r\ncontent-length: 50\r\n\r\n{"


def whole(con):
    """All that comes until the server closes the connection."""
    got = b""
    while part := con.recv(4096):
        got += part
    return got


def closed_of(cons, count, within_s=30.0):
    """First lines of the connections that the server closed, once ``count`` of them are."""
    until, closed = time.monotonic() + within_s, []
    with selectors.DefaultSelector() as open_ones:
        for con in cons:
            open_ones.register(con, selectors.EVENT_READ)
        while len(closed) < count and time.monotonic() < until:
            for found, _ in open_ones.select(0.2):
                open_ones.unregister(found.fileobj)
                closed.append(whole(found.fileobj)[:12])
    return closed


def test_slow_bodies_do_not_fill_the_server(path):
    limits = Limits(body_s=600.0)  # a slow machine ends none of them meanwhile
    with (
        served(app_of(path, limits=limits), **CONNECTIONS) as client,
        contextlib.ExitStack() as stack,
    ):
        slow = []
        for _ in range(350):
            con = socket.create_connection(
                ("127.0.0.1", client.port), 20, source_address=(GREEDY, 0)
            )
            stack.callback(con.close)
            con.sendall(SLOW_BODY)
            slow.append(con)
        for i in range(5):
            assert asked(client, sql(f"SELECT {i}"))[0] == 200
            assert asked(client, _table(i))[0] == 200
        assert asked(client, sql("SELECT 42"), GREEDY)[0] == 200  # theirs without a body, too
        refused = 350 - limits.reading_each
        assert closed_of(slow, refused) == [b"HTTP/1.1 503"] * refused
        # The rest may still send: those that were refused read as ended, no more of them.
        assert len(closed_of(slow, 350, within_s=0.5)) == refused


def test_a_slow_body_is_closed_in_the_end(path):
    limits = Limits(body_s=0.5)
    with served(app_of(path, limits=limits), **CONNECTIONS) as client:
        with socket.create_connection(("127.0.0.1", client.port), timeout=20) as con:
            con.sendall(SLOW_BODY)
            assert whole(con).startswith(b"HTTP/1.1 408")


def test_who_is_refused_before_the_body_came_is_not_waited_for(path):
    with served(app_of(path), **CONNECTIONS) as client:
        with socket.create_connection(("127.0.0.1", client.port), timeout=10) as con:
            con.sendall(SLOW_BODY.replace(b"localhost", b"evil.test"))
            assert whole(con).startswith(b"HTTP/1.1 403")


def test_behind_a_proxy_clients_are_those_it_names(path):
    """uvicorn believes the header of the proxy that it was told of; see `tablepack serve --proxy`."""
    limits = Limits(workers=2, share=1, waiting_each=0)
    trusted = {"proxy_headers": True, "forwarded_allow_ips": GREEDY}
    with served(app_of(path, limits=limits, timeout_s=2), **CONNECTIONS, **trusted) as client:

        def named(text, name, address=GREEDY):
            con = http.client.HTTPConnection(
                "127.0.0.1", client.port, timeout=30, source_address=(address, 0)
            )
            with contextlib.closing(con):
                con.request(
                    "GET", sql(text), headers={"host": "localhost", "x-forwarded-for": name}
                )
                return con.getresponse().status

        busy = threading.Thread(target=named, args=(ENDLESS.format(1), "198.51.100.1"))
        with open_requests(client, [], GREEDY):
            busy.start()
            time.sleep(0.4)
            assert named("SELECT 1", "198.51.100.1") == 503
            assert named("SELECT 1", "198.51.100.2") == 200
            assert (
                named("SELECT 2", "198.51.100.1", OTHER) == 200
            )  # not from the proxy: not believed
        busy.join()
