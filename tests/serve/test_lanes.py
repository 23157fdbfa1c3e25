"""Lanes and queues, without a server."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

pytest.importorskip("fastapi")

from queries.serve.lanes import Busy, Lane, LaneLimits

LIMITS = {"places": 2, "share": 1, "waiting": 100, "waiting_each": 20, "wait_s": 60.0}


def lane_of(**limits):
    return Lane(LaneLimits(**{**LIMITS, **limits}))


def run(scenario):
    return asyncio.run(asyncio.wait_for(scenario, 60))


def noting(log, name):
    """Work that records when it runs."""

    def work(stop):
        log.append(name)
        return name

    return work


def test_clients_take_turns_within_their_share():
    log, most = [], 0

    async def scenario():
        lane, now = lane_of(places=2), []

        def work(client):
            def done(stop):
                nonlocal most
                now.append(client)
                log.append(client)
                most = max(most, now.count("a"))
                time.sleep(0.03)
                now.remove(client)

            return done

        asks = [asyncio.create_task(lane.run("a", work("a"))) for _ in range(8)]
        await asyncio.sleep(0.01)
        asks += [asyncio.create_task(lane.run(c, work(c))) for c in "bc"]
        await asyncio.gather(*asks)
        lane.close()

    run(scenario())
    assert most == 1
    assert len(log) == 10
    assert max(log.index("b"), log.index("c")) < 5  # although eight came before them


def test_one_place_goes_round():
    log = []

    async def scenario():
        lane = lane_of(places=1)
        clients = ("a", "a", "a", "b", "b", "c")
        await asyncio.gather(*(lane.run(c, noting(log, c)) for c in clients))
        lane.close()

    run(scenario())
    assert log == ["a", "a", "b", "c", "a", "b"]


def test_a_request_that_waits_too_long_gets_a_retry_time():
    async def scenario():
        lane, end = lane_of(places=1, wait_s=0.1), threading.Event()
        first = asyncio.create_task(lane.run("a", lambda stop: end.wait(30)))
        await asyncio.sleep(0.02)
        with pytest.raises(Busy) as refused:
            await lane.run("b", noting([], "b"))
        assert not first.done()
        assert 1 <= refused.value.retry_s <= 60
        end.set()
        assert await first
        assert await lane.run("b", noting([], "b")) == "b"
        lane.close()

    run(scenario())


def test_queues_are_bounded_per_client_and_in_total():
    async def scenario():
        lane, end = lane_of(places=1, waiting=3, waiting_each=2), threading.Event()

        def work(_):
            end.wait(30)

        asks = [asyncio.create_task(lane.run(c, work)) for c in ("a", "a", "a", "b")]
        await asyncio.sleep(0.02)
        for client in ("a", "b"):  # two of a wait, and three in total
            with pytest.raises(Busy):
                await lane.run(client, work)
        end.set()
        await asyncio.gather(*asks)
        lane.close()

    run(scenario())


def test_abandoned_work_is_stopped_and_its_place_free():
    stopped = threading.Event()

    def endless(stop):
        stop.wait(60)
        stopped.set()

    async def scenario():
        lane = lane_of(places=1)
        left = asyncio.create_task(lane.run("a", endless))
        waited = [asyncio.create_task(lane.run("a", noting(log, "never"))) for _ in range(5)]
        await asyncio.sleep(0.05)
        for ask in (left, *waited):
            ask.cancel()
        assert await lane.run("b", noting(log, "b")) == "b"
        assert stopped.is_set()
        lane.close()

    log = []
    run(scenario())
    assert log == ["b"]


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


def test_a_closed_lane_stops_its_work_and_refuses_all_that_waits():
    async def scenario():
        lane = lane_of(places=1)

        def work(stop):
            if not stop.wait(50):
                raise AssertionError("the work was not stopped")
            raise ValueError("it was stopped")

        asks = [asyncio.create_task(lane.run(c, work)) for c in "aab"]
        await asyncio.sleep(0.05)
        lane.close()
        asks.append(asyncio.create_task(lane.run("c", work)))
        for error in await asyncio.gather(*asks, return_exceptions=True):
            assert isinstance(error, Busy)
            assert error.retry_s == 5

    run(scenario())
