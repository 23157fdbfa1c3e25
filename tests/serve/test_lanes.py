"""Places and queues, without a server."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

pytest.importorskip("fastapi")

from queries.serve.lanes import Busy, Lane, LaneLimits

LIMITS = {"places": 2, "share": 1, "waiting": 100, "waiting_each": 20, "wait_s": 5.0}


def held(**limits):
    return Lane(LaneLimits(**{**LIMITS, **limits}))


def run(scenario):
    return asyncio.run(asyncio.wait_for(scenario, 20))


def noting(log, name, seconds=0.05):
    """Work that notes when it is done, and stops when told."""

    def work(stop):
        log.append(name)
        stop.wait(seconds)
        return name

    return work


def test_clients_take_turns_and_none_has_more_than_its_share():
    log, most = [], 0

    async def scenario():
        lane, now = held(places=2), []

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
    assert max(log.index("b"), log.index("c")) < 5  # though eight came before them


def test_one_place_goes_round():
    log = []

    async def scenario():
        lane = held(places=1)
        asks = [
            asyncio.create_task(lane.run(c, noting(log, c, 0.01)))
            for c in ("a", "a", "a", "b", "b", "c")
        ]
        await asyncio.gather(*asks)
        lane.close()

    run(scenario())
    assert log == ["a", "a", "b", "c", "a", "b"]


def test_who_waits_too_long_is_told_when_to_come_back():
    async def scenario():
        lane = held(places=1, wait_s=0.1)
        first = asyncio.create_task(lane.run("a", noting([], "a", 2.0)))
        await asyncio.sleep(0.02)
        began = time.monotonic()
        with pytest.raises(Busy, match="try again in 1 s") as refused:
            await lane.run("b", noting([], "b"))
        assert 0.05 < time.monotonic() - began < 1.5  # before the first is done
        assert refused.value.retry_s == 1
        assert await first == "a"
        assert await lane.run("b", noting([], "b")) == "b"
        lane.close()

    run(scenario())


def test_only_so_many_may_wait_of_one_and_of_all():
    async def scenario():
        lane, end = held(places=1, waiting=3, waiting_each=2), threading.Event()

        def work(_):
            end.wait(10)

        asks = [asyncio.create_task(lane.run(c, work)) for c in ("a", "a", "a", "b")]
        await asyncio.sleep(0.02)
        for client in ("a", "b"):  # two of a's wait; three of everybody's
            with pytest.raises(Busy):
                await lane.run(client, work)
        end.set()
        await asyncio.gather(*asks)
        lane.close()

    run(scenario())


def test_the_time_to_come_back_follows_how_long_things_take():
    async def scenario():
        lane = held(places=1, wait_s=0.01)
        waits = []
        for seconds in (0.0, 0.0, 100.0, 100.0, 100.0, 10_000.0):
            lane._at_work["b"] += 1
            lane._leave("b", seconds)
            lane._at_work["b"] += 1
            with pytest.raises(Busy) as refused:
                await lane.run("a", noting([], "a"))
            lane._leave("b", None)
            waits.append(refused.value.retry_s)
        lane.close()
        return waits

    waits = run(scenario())
    assert waits == sorted(waits)
    assert waits[0] == 1
    assert 15 < waits[2] < waits[4] < 60
    assert waits[-1] == 60


def test_work_whose_client_has_left_is_told_and_its_place_is_free():
    told = threading.Event()

    def endless(stop):
        stop.wait(10)
        told.set()

    async def scenario():
        lane = held(places=1)
        left = asyncio.create_task(lane.run("a", endless))
        waited = [asyncio.create_task(lane.run("a", noting([], "never"))) for _ in range(5)]
        await asyncio.sleep(0.05)
        for ask in (left, *waited):
            ask.cancel()
        began = time.monotonic()
        assert await lane.run("b", noting([], "b", 0)) == "b"
        assert told.is_set()
        assert time.monotonic() - began < 1
        assert not lane._queues
        assert set(lane._at_work) <= {"b"}
        lane.close()

    run(scenario())


def test_who_leaves_when_just_called_gives_the_place_on():
    async def scenario():
        lane = held(places=1)
        first = asyncio.create_task(lane.run("a", noting([], "a", 0.02)))
        await asyncio.sleep(0)
        second = asyncio.create_task(lane.run("b", noting([], "b")))
        await asyncio.sleep(0)
        lane._queues["b"][0].add_done_callback(lambda _: second.cancel())
        await first
        with pytest.raises(asyncio.CancelledError):
            await second
        assert await lane.run("c", noting([], "c", 0)) == "c"
        lane.close()

    run(scenario())


def test_what_fails_gives_its_place_back():
    def broken(_):
        raise ValueError("x")

    async def scenario():
        lane = held(places=1)
        for _ in range(3):
            with pytest.raises(ValueError, match="x"):
                await lane.run("a", broken)
        assert await lane.run("a", noting([], "a", 0)) == "a"
        lane.close()

    run(scenario())


def test_what_is_closed_stops_its_work_and_lets_nobody_wait():
    async def scenario():
        lane, began = held(places=1), time.monotonic()

        def work(stop):
            if not stop.wait(15):
                raise AssertionError("nobody told it to stop")
            raise ValueError("it was stopped")

        asks = [asyncio.create_task(lane.run(c, work)) for c in "aab"]
        await asyncio.sleep(0.05)
        lane.close()
        asks.append(asyncio.create_task(lane.run("c", work)))
        for error in await asyncio.gather(*asks, return_exceptions=True):
            assert isinstance(error, Busy)
            assert str(error) == "the server is being stopped: try again in 5 s"
        assert time.monotonic() - began < 5

    run(scenario())
