"""Connections and packages that do not behave: idle, slow, too many, and answers that nobody takes."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time

import pytest
from serve_fixture import served, small_release

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from queries.api_connections import Connection
from queries.api_guard import Guard, Limits, Rate, _client, _in_parts
from queries.server import app_of

HEAD = b"GET /api/tables HTTP/1.1\r\nhost: localhost\r\n\r\n"


class Hasty(Connection):
    """Waits half a second for a head, and takes eight connections."""

    head_s = 0.5
    most = 8


@pytest.fixture(scope="module")
def path(tmp_path_factory, census):
    return small_release(tmp_path_factory.mktemp("connections"), census)


@pytest.fixture(scope="module")
def client(path):
    with served(app_of(path), http=Hasty) as client:
        yield client


def connected(client):
    return socket.create_connection(("127.0.0.1", client.port), timeout=10)


def test_idle_connections_do_not_keep_others_out(client):
    with contextlib.ExitStack() as held:
        idle = [held.enter_context(connected(client)) for _ in range(40)]
        assert client.ask("/api/tables").status == 200
        assert idle[0].recv(1) == b""  # those that were idle longest were closed


def trickled(slow, raw):
    """Send a byte every tenth of a second; the seconds until the other side has enough of it."""
    began = time.monotonic()
    for byte in raw:
        try:
            slow.sendall(bytes([byte]))
        except (BrokenPipeError, ConnectionResetError):
            return time.monotonic() - began
        time.sleep(0.1)
    pytest.fail("it was taken to the end")


def test_a_head_a_byte_at_a_time_is_given_up(client):
    with connected(client) as slow:
        assert 0.4 < trickled(slow, HEAD) < 4


def test_a_second_request_a_byte_at_a_time_is_given_up_too(client):
    with connected(client) as slow:
        slow.sendall(HEAD)
        assert slow.recv(12) == b"HTTP/1.1 200"
        assert 0.4 < trickled(slow, HEAD) < 4


def test_a_connection_is_used_again(client):
    with connected(client) as again:
        for _ in range(3):
            again.sendall(HEAD)
            got = b""
            while b"\r\n\r\n" not in got:
                got += again.recv(100)
            length = int(got.split(b"content-length: ")[1].split(b"\r\n")[0])
            while len(got.split(b"\r\n\r\n", 1)[1]) < length:
                got += again.recv(65_536)
            assert got.startswith(b"HTTP/1.1 200")
            time.sleep(0.1)


def test_a_request_that_takes_longer_than_a_head_may_is_answered(path):
    with served(app_of(path, timeout_s=1.2), http=Hasty) as client:
        text = "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range + b.range = 7"
        assert client.sql(text).status == 504


def guarded(app, **limits):
    return Guard(app, limits=Limits(**limits), token=None, hosts=frozenset({"localhost"}))


async def asked(app, send):
    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", b"localhost")]}
    await app(scope, receive, send)


async def long(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"x" * 200_000})


def test_an_answer_goes_out_in_parts_and_is_not_held_for_one_who_does_not_take_it():
    sent = []

    async def stuck(message):
        sent.append(message)
        if len(sent) > 2:
            await asyncio.sleep(60)

    began = time.monotonic()
    asyncio.run(asked(guarded(long, send_s=0.1), stuck))
    assert time.monotonic() - began < 5
    assert [len(m.get("body", b"")) for m in sent] == [0, 65_536, 65_536]
    assert sent[1]["more_body"] is True


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 131_072, 200_000])
def test_parts_are_the_body(size):
    sent, body = [], bytes(i % 251 for i in range(size))

    async def send(message):
        sent.append(message)

    asyncio.run(_in_parts(send, {"type": "http.response.body", "body": body}))
    assert b"".join(m["body"] for m in sent) == body
    assert [m.get("more_body", False) for m in sent] == [True] * (len(sent) - 1) + [False]


def test_more_requests_at_once_than_allowed_are_sent_away():
    got = []

    async def slow(scope, receive, send):
        await asyncio.sleep(0.2)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def note(message):
        if message["type"] == "http.response.start":
            got.append((message["status"], dict(message["headers"]).get(b"retry-after")))

    async def many():
        app = guarded(slow, at_once=3)
        await asyncio.gather(*(asked(app, note) for _ in range(5)))
        await asked(app, note)

    asyncio.run(many())
    assert sorted(got, key=str) == [(200, None)] * 4 + [(503, b"1")] * 2


def test_a_client_is_an_address_or_a_network_of_its_own():
    assert _client("192.0.2.7") == "192.0.2.7"
    assert (
        _client("2001:db8:1:2::7") == _client("2001:db8:1:2:ffff::1") != _client("2001:db8:1:3::7")
    )
    assert _client("testclient") == "testclient"
    assert Rate(1.0, 1).wait_of(_client("?"), 0.0) == 0.0


def test_what_a_client_says_of_its_address_is_not_believed(path):
    with served(app_of(path, limits=Limits(rate=0.01, burst=2)), proxy_headers=False) as client:
        got = [
            client.ask("/api/tables", x_forwarded_for=f"198.51.100.{i}").status for i in range(3)
        ]
    assert got == [200, 200, 429]
