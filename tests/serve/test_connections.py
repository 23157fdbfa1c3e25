"""Connections, lanes and queues: heads that are too long, what is in progress at the end, answers that nobody reads."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest
from fixtures.serve import one_worker, served

from queries.serve import Limits, app_of
from queries.serve.guard import Guard, client_of
from queries.serve.lanes import Lane

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

HEAD = b"GET /api/tables HTTP/1.1\r\nhost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def client(path):
    with served(app_of(path, limits=one_worker())) as client:
        yield client


def connected(client):
    return socket.create_connection(("127.0.0.1", client.port), timeout=10)


def test_a_head_that_is_too_long_is_refused(client):
    with connected(client) as long:
        long.sendall(HEAD[:-2] + b"x: " + b"y" * 200_000)
        assert long.recv(100).startswith(b"HTTP/1.1 400")


def guarded(app, **limits):
    return Guard(app, limits=Limits(**limits), token=None, hosts=frozenset({"localhost"}))


async def ask(app, send):
    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", b"localhost")]}
    await app(scope, receive, send)


async def long(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"x" * 200_000})


async def endless(scope, receive, send):
    await asyncio.sleep(3600)


async def begun(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await asyncio.sleep(3600)


@pytest.mark.parametrize(("app", "statuses"), [(endless, [503]), (begun, [200])])
def test_requests_in_progress_at_shutdown_get_503(app, statuses):
    sent = []

    async def send(message):
        sent.append(message)

    async def waiting():
        if waited:
            await asyncio.sleep(3600)
        waited.append(1)
        return {"type": "http.request", "body": b"", "more_body": False}

    async def scenario():
        scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", b"localhost")]}
        asked = asyncio.create_task(guarded(app)(scope, waiting, send))
        await asyncio.sleep(0.1)
        asked.cancel()
        await asked  # without an exception: uvicorn would log it as one of the application

    waited = []
    asyncio.run(scenario())
    starts = [m for m in sent if m["type"] == "http.response.start"]
    assert [m["status"] for m in starts] == statuses
    assert ((b"retry-after", b"5") in starts[0]["headers"]) == (statuses == [503])


def test_an_answer_is_sent_in_parts_and_not_held_for_a_client_that_does_not_read():
    sent = []

    async def stuck(message):
        sent.append(message)
        if len(sent) > 2:
            await asyncio.sleep(3600)

    asyncio.run(asyncio.wait_for(ask(guarded(long, send_s=0.1), stuck), 50))
    assert [len(m.get("body", b"")) for m in sent] == [0, 65_536, 65_536]
    assert sent[1]["more_body"] is True


def test_more_requests_at_once_than_allowed_are_refused():
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
        await asyncio.gather(*(ask(app, note) for _ in range(5)))
        await ask(app, note)

    asyncio.run(many())
    assert sorted(got, key=str) == [(200, None)] * 4 + [(503, b"1")] * 2


def test_a_client_is_an_address_or_a_network_of_its_own():
    assert client_of("192.0.2.7") == "192.0.2.7"
    assert (
        client_of("2001:db8:1:2::7")
        == client_of("2001:db8:1:2:ffff::1")
        != client_of("2001:db8:1:3::7")
    )
    assert client_of("testclient") == "testclient"
    assert client_of("?") == "?"


LIMITS = {"places": 2, "share": 1, "waiting": 100, "waiting_each": 20, "wait_s": 60.0}


def lane_of(**limits):
    return Lane(Limits(**{**LIMITS, **limits}))


def run(scenario):
    return asyncio.run(asyncio.wait_for(scenario, 60))


def noting(log, name):
    """Work that records when it runs."""

    def work(stop):
        log.append(name)
        return name

    return work


def test_one_place_goes_round():
    log = []

    async def scenario():
        lane = lane_of(places=1)
        clients = ("a", "a", "a", "b", "b", "c")
        await asyncio.gather(*(lane.run(c, noting(log, c)) for c in clients))
        lane.close()

    run(scenario())
    assert log == ["a", "a", "b", "c", "a", "b"]


@pytest.mark.parametrize("steps", range(0, 12, 2))
def test_whoever_leaves_while_being_admitted_passes_the_place_on(steps):
    """At whatever step of the event loop: waiting, just admitted, or at work."""

    async def scenario():
        lane, end = lane_of(places=1), threading.Event()
        first = asyncio.create_task(lane.run("a", lambda stop: end.wait(30)))
        await asyncio.sleep(0)
        second = asyncio.create_task(lane.run("b", noting([], "b")))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(0.01, end.set)
        while not end.is_set():
            await asyncio.sleep(0)
        for _ in range(steps):
            await asyncio.sleep(0)
        second.cancel()
        await first
        await asyncio.gather(second, return_exceptions=True)
        assert await lane.run("c", noting([], "c")) == "c"
        lane.close()

    run(scenario())


def test_failed_work_gives_its_place_back():
    def broken(_):
        raise ValueError("x")

    async def scenario():
        lane = lane_of(places=1)
        for _ in range(3):
            with pytest.raises(ValueError, match="x"):
                await lane.run("a", broken)
        assert await lane.run("a", noting([], "a")) == "a"
        lane.close()

    run(scenario())
