"""Lanes and queues, without a server."""

from __future__ import annotations

import asyncio
import threading

import pytest

pytest.importorskip("fastapi")

from queries.serve.lanes import Lane
from queries.serve.limits import Limits

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
