"""Who is served next: places in which work is done, shared out among clients, and queues with an end.

Takes work and whose it is; gives its result, or says when to come back. A client holds no more than its share of the
places, however much it asks for; clients that wait take turns. Work whose client has left is told to stop, and its
place is free once it has.
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
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")
Work = Callable[[threading.Event], T]
"""What is to be done in a thread; it looks at the event now and then, and stops where that is set."""
_LONGEST_WAIT_S = 60
_AFTER_STOP_S = 5
_WEIGHT = 0.2  # of the newest duration in their running mean


def _forget(done: asyncio.Future[Any]) -> None:
    """Take note of what went wrong with work that nobody waits for."""
    if not done.cancelled():
        done.exception()


class Busy(Exception):
    """No place became free in time, too many wait already, or the server stops.

    retry_s: Seconds after which one is likely to be free.
    """

    def __init__(self, retry_s: int, why: str = "too many questions at once") -> None:
        self.retry_s = retry_s
        super().__init__(f"{why}: try again in {retry_s} s")


def _closing() -> Busy:
    return Busy(_AFTER_STOP_S, "the server is being stopped")


@dataclass(frozen=True, kw_only=True, slots=True)
class LaneLimits:
    """What a lane holds."""

    # places, share: Pieces of work done at once: all, and of one client.
    places: int
    share: int
    # waiting, waiting_each: How many more may wait: all, and of one client.
    waiting: int
    waiting_each: int
    wait_s: float  # How long


class Lane:
    """Places of one kind of work; all its methods belong to one event loop."""

    def __init__(self, limits: LaneLimits) -> None:
        self._limits = limits
        self._pool = ThreadPoolExecutor(limits.places)
        self._at_work: Counter[str] = Counter()
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}  # the next client first
        self._stops: set[threading.Event] = set()  # of the work under way
        self._is_closed = False
        self._mean_s = 1.0

    async def run(self, client: str, work: Work[T]) -> T:
        """Do some work when it is the client's turn; cancelled, the work is told to stop."""
        await self._turn(client)
        stop, loop, began = threading.Event(), asyncio.get_running_loop(), time.monotonic()
        doing: Future[T] = self._pool.submit(work, stop)

        self._stops.add(stop)

        def left() -> None:
            self._stops.discard(stop)
            self._leave(client, time.monotonic() - began)

        def done(_: Future[T]) -> None:
            with suppress(RuntimeError):  # the loop has ended before the work
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
            if self._is_closed:  # what it says of its end is not the client's fault
                raise _closing() from None
            raise

    async def _turn(self, client: str) -> None:
        """Wait for a place, and take it."""
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
        self._call()
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

    def _call(self) -> None:
        """Call those whose turn it is; a client that was called goes behind the others."""
        while called := next((c for c in self._queues if self._has_place(c)), None):
            queue = self._queues.pop(called)
            turn = queue.popleft()
            if queue:
                self._queues[called] = queue
            if not turn.done():
                self._at_work[called] += 1
                turn.set_result(None)

    def _drop(self, client: str, turn: asyncio.Future[None]) -> None:
        """Forget one who waited; a place that it was given in the same moment goes on."""
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
        self._call()

    def _retry_s(self, client: str) -> int:
        """When a client's next question is likely to have its turn."""
        own = len(self._queues.get(client, ())) + self._at_work[client]
        everyone = sum(map(len, self._queues.values())) + self._at_work.total()
        rounds = max(own / self._limits.share, everyone / self._limits.places)
        return min(max(1, math.ceil(rounds * self._mean_s)), _LONGEST_WAIT_S)

    def close(self) -> None:
        """End it: what has not begun is not done any more, and work under way is told to stop."""
        self._is_closed = True
        for turn in (turn for queue in self._queues.values() for turn in queue):
            if not turn.done():
                turn.set_exception(_closing())
        self._queues.clear()
        for stop in self._stops:
            stop.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
