"""Connections to the server: one that says nothing, or says it a byte a minute, is given up; there are never too many.

A protocol for uvicorn, which counts connections against its limit of requests and has no time for a request's head.
Invariant: a connection that is idle, or slow, holds no place that a request needs.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 10.0
"""Longest wait for the head of a request."""
MOST = 400
"""Most connections; beyond, the one that has been idle longest goes."""


class Connection(H11Protocol):
    """One connection; uvicorn makes it."""

    head_s = HEAD_S
    most = MOST
    _giving_up: asyncio.TimerHandle | None = None
    _since = 0.0

    @property
    def is_idle(self) -> bool:
        """No request of it is at work."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to wait for a head, and make room."""
        super().connection_made(transport)
        self._watch()
        if len(self.connections) > self.most:
            others = [c for c in self.connections if isinstance(c, Connection) and c is not self]
            idle = [c for c in others if c.is_idle]
            min(idle, key=lambda c: c._since, default=self).transport.abort()

    def data_received(self, data: bytes) -> None:
        """Read some bytes; what is no whole head yet does not stop the clock."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._unwatch()
        super().connection_lost(exc)

    def timeout_keep_alive_handler(self) -> None:
        """Close; one who does not take what was sent is not waited for."""
        super().timeout_keep_alive_handler()
        self._unwatch()
        self._giving_up = self.loop.call_later(self.head_s, self.transport.abort)

    def _watch(self) -> None:
        """Let the clock run where a head is waited for, and only there."""
        if not self.is_idle:
            self._unwatch()
        elif self._giving_up is None:
            self._since = self.loop.time()
            self._giving_up = self.loop.call_later(self.head_s, self.transport.abort)

    def _unwatch(self) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None
