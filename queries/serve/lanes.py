"""A fair scheduler: worker places shared among clients, with bounded queues.

A client never has more than its share of the places, however many requests it sends; waiting clients take turns. When a
client disconnects, its work is stopped, and its place becomes free as soon as the work has ended.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from queries.serve.limits import Limits

T = TypeVar("T")
Work = Callable[[threading.Event], T]
"""Work done in a thread; it checks the event regularly, and stops when it is set."""
_LONGEST_WAIT_S = 60
_AFTER_STOP_S = 5
_WEIGHT = 0.2  # of the latest duration in the moving average


def _forget(done: asyncio.Future[Any]) -> None:
    """Retrieve the exception of abandoned work, so that asyncio does not log it."""
    if not done.cancelled():
        done.exception()


class Busy(Exception):
    """No place became free in time, the queue is full, or the server is shutting down.

    retry_s: Seconds after which a place is likely to be free.
    """

    def __init__(self, retry_s: int, why: str = "too many requests at once") -> None:
        self.retry_s = retry_s
        super().__init__(f"{why}; try again in {retry_s} s")


def _closing() -> Busy:
    return Busy(_AFTER_STOP_S, "the server is shutting down")


class Lane:
    """Worker places for one kind of work; all methods run in the same event loop."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pool = ThreadPoolExecutor(limits.places)
        self._at_work: Counter[str] = Counter()
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}  # in order of turns
        self._stops: set[threading.Event] = set()  # of the work in progress
        self._is_closed = False
        self._mean_s = 1.0

    async def run(self, client: str, work: Work[T]) -> T:
        """Do some work when it is the client's turn; cancelling stops the work."""
        await self._turn(client)
        stop, loop, began = threading.Event(), asyncio.get_running_loop(), time.monotonic()
        doing: Future[T] = self._pool.submit(work, stop)

        self._stops.add(stop)

        def left() -> None:
            self._stops.discard(stop)
            self._leave(client, time.monotonic() - began)

        def done(_: Future[T]) -> None:
            with suppress(RuntimeError):  # the loop ended before the work
                loop.call_soon_threadsafe(left)

        doing.add_done_callback(done)
        awaited = asyncio.wrap_future(doing)
        try:
            return await asyncio.shield(awaited)
        except asyncio.CancelledError:
            stop.set()
            awaited.add_done_callback(_forget)
            raise
        except Exception:
            if self._is_closed:  # an error from being stopped is not the client's fault
                raise _closing() from None
            raise

    async def _turn(self, client: str) -> None:
        """Wait for a place and take it."""
        if self._is_closed:
            raise _closing()
        if not self._queues and self._has_place(client):
            self._at_work[client] += 1
            return
        queue = self._queues.get(client, ())
        n_waiting = sum(map(len, self._queues.values()))
        if len(queue) >= self._limits.waiting_each or n_waiting >= self._limits.waiting:
            raise Busy(self._retry_s(client))
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(client, deque()).append(turn)
        self._admit()
        try:
            async with asyncio.timeout(self._limits.wait_s):
                await turn
        except TimeoutError:
            self._drop(client, turn)
            raise Busy(self._retry_s(client)) from None
        except asyncio.CancelledError:
            self._drop(client, turn)
            raise

    def _has_place(self, client: str) -> bool:
        is_free = self._at_work.total() < self._limits.places
        return is_free and self._at_work[client] < self._limits.share

    def _admit(self) -> None:
        """Admit those whose turn it is; an admitted client goes to the end of the round."""
        while admitted := next((c for c in self._queues if self._has_place(c)), None):
            queue = self._queues.pop(admitted)
            turn = queue.popleft()
            if queue:
                self._queues[admitted] = queue
            if not turn.done():
                self._at_work[admitted] += 1
                turn.set_result(None)

    def _drop(self, client: str, turn: asyncio.Future[None]) -> None:
        """Remove a waiting request; a place it was just given is passed on."""
        if turn.done() and not turn.cancelled():
            self._leave(client, None)
            return
        queue = self._queues.get(client, deque())
        if turn in queue:
            queue.remove(turn)
        if not queue:
            self._queues.pop(client, None)

    def _leave(self, client: str, seconds: float | None) -> None:
        """Give a place back."""
        self._at_work[client] -= 1
        if not self._at_work[client]:
            del self._at_work[client]
        if seconds is not None:
            self._mean_s += _WEIGHT * (seconds - self._mean_s)
        self._admit()

    def _retry_s(self, client: str) -> int:
        """Seconds until a client's next request is likely to have its turn."""
        own = len(self._queues.get(client, ())) + self._at_work[client]
        everyone = sum(map(len, self._queues.values())) + self._at_work.total()
        rounds = max(own / self._limits.share, everyone / self._limits.places)
        return min(max(1, math.ceil(rounds * self._mean_s)), _LONGEST_WAIT_S)

    def close(self) -> None:
        """Stop work in progress and refuse all that waits."""
        self._is_closed = True
        for turn in (turn for queue in self._queues.values() for turn in queue):
            if not turn.done():
                turn.set_exception(_closing())
        self._queues.clear()
        for stop in self._stops:
            stop.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
