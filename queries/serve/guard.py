"""What stands before every request: host, token, rate, size; and after it: headers and a line in the log.

An ASGI layer of its own, so that nothing behind it runs for a refused request. Invariant: the log holds method, path,
status, time and size, never a query or an answer. Limits of connections are uvicorn's (`CONNECTIONS`).
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from cachetools import LRUCache
from uvicorn.protocols.http.h11_impl import H11Protocol

from queries.serve.errors import as_json

LOG = logging.getLogger("tablepack.serve")
HEADERS = (
    (b"content-security-policy", b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
     b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"permissions-policy", b"geolocation=(), camera=(), microphone=()"),
)  # fmt: skip
_MAX_CLIENTS = 10_000
_PART = 65_536  # bytes of an answer that a slow reader keeps in memory
Headers = tuple[tuple[bytes, bytes], ...]
_RETRY_SOON: Headers = ((b"retry-after", b"1"),)
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What one request, one client and one answer may take.

    Attributes
    ----------
    body_bytes : int
        Largest request: its body, and its address.
    body_s, send_s : float
        Longest wait for a body, and for an answer to be taken.
    at_once : int
        Requests at work at once; more are refused.
    rate : float or None
        Requests a second a client; None: any number.
    burst : int
        Requests that may come at once.
    rows, answer_bytes : int
        Rows and bytes of one answer.
    workers, waiting : int
        Questions answered at once, and how many more may wait.
    """

    body_bytes: int = 64_000
    body_s: float = 10.0
    send_s: float = 60.0
    at_once: int = 200
    rate: float | None = None
    burst: int = 60
    rows: int = 10_000
    answer_bytes: int = 8_000_000
    workers: int = 2
    waiting: int = 100
    cache_bytes: int = 20_000_000


class RateLimit:
    """A bucket of requests a client, refilled steadily; the least recent clients are forgotten."""

    def __init__(self, per_s: float, burst: int) -> None:
        self._per_s, self._burst = per_s, burst
        self._left: LRUCache[str, tuple[float, float]] = LRUCache(_MAX_CLIENTS)

    def wait_of(self, client: str, now: float) -> float:
        """Take one request; return the seconds to wait where there is none left."""
        left, then = self._left.get(client, (float(self._burst), now))
        left = min(self._burst, left + (now - then) * self._per_s)
        is_free = left >= 1
        self._left[client] = (left - 1 if is_free else left, now)
        return 0.0 if is_free else (1 - left) / self._per_s


class Refusal(NamedTuple):
    """Why a request is not let through."""

    status: int
    error: str
    message: str
    headers: Headers = ()


class Guard:
    """The layer itself.

    Parameters
    ----------
    token : str or None
        What every request for data must bring; None: whoever reaches the server may ask.
    hosts : frozenset of str
        Names the server answers to where it has no token; a page elsewhere cannot reach it under another.
    """

    def __init__(
        self, app: App, *, limits: Limits, token: str | None, hosts: frozenset[str]
    ) -> None:
        self._app, self._limits, self._hosts = app, limits, hosts
        self._token = None if token is None else token.encode()
        self._rate = None if limits.rate is None else RateLimit(limits.rate, limits.burst)
        self._at_work = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status, size = time.perf_counter(), 0, 0

        async def counted(message: MutableMapping[str, Any]) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            size += len(message.get("body", b""))
            async with asyncio.timeout(self._limits.send_s):
                await _send_in_parts(send, message)

        self._at_work += 1
        try:
            await self._answer(scope, receive, counted)
        except TimeoutError:
            if not status:  # else nobody takes the answer: the rest of it is dropped
                slow = Refusal(408, "TooSlow", "the request took too long to arrive")
                await _refuse(counted, slow)
        except Exception as error:  # noqa: BLE001  # its text may hold anything: only its kind is given
            if not status:
                fault = as_json(error)
                await _refuse(counted, Refusal(500, fault["error"], fault["message"]))
        finally:
            self._at_work -= 1
            ms = (time.perf_counter() - began) * 1000
            path = scope["path"] if scope["path"].isprintable() else "?"
            client, method = (scope.get("client") or ("?",))[0], scope["method"]
            LOG.info("%s %s %s %d %.1f ms %d bytes", client, method, path[:200], status, ms, size)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or read its body and let it through."""
        refusal = self._refusal(scope)
        if refusal is not None:
            await _refuse(send, refusal)
            return
        body = await self._body(receive)
        if body is None:
            await _refuse(send, self._too_large())
            return
        await self._app(scope, _replayed(body, receive), send)

    def _refusal(self, scope: Scope) -> Refusal | None:
        """Why a request is not let through; None: it is."""
        headers = dict(scope["headers"])
        is_api = scope["path"].startswith("/api/")
        host = _host(headers.get(b"host", b"").decode("latin-1"))
        if self._token is None and host not in self._hosts:
            return Refusal(403, "Forbidden", "this server does not answer to that name")
        if is_api and headers.get(b"sec-fetch-site", b"none") not in (b"same-origin", b"none"):
            return Refusal(403, "Forbidden", "a page of another site may not ask")
        if self._rate is not None:
            client = client_of((scope.get("client") or ("?",))[0])
            wait = self._rate.wait_of(client, time.monotonic())
            if wait:
                message = f"too many requests: try again in {wait:.1f} s"
                retry = ((b"retry-after", str(int(wait) + 1).encode()),)
                return Refusal(429, "TooMany", message, retry)
        if self._token is not None and is_api:
            given = headers.get(b"authorization", b"")
            if not hmac.compare_digest(given, b"Bearer " + self._token):
                message = "this server needs its token (Authorization: Bearer ...)"
                return Refusal(401, "NoToken", message, ((b"www-authenticate", b"Bearer"),))
        if self._at_work > self._limits.at_once:
            message = "too many requests at once: try again in a moment"
            return Refusal(503, "Busy", message, _RETRY_SOON)
        if len(scope.get("query_string", b"")) > self._limits.body_bytes:
            return self._too_large()
        return None

    def _too_large(self) -> Refusal:
        allowed = f"a request may have {self._limits.body_bytes:,} bytes"
        return Refusal(413, "TooLarge", allowed)

    async def _body(self, receive: Receive) -> bytes | None:
        """Return the whole body; None where it is too large."""
        parts, size = [], 0
        async with asyncio.timeout(self._limits.body_s):
            while True:
                message = await receive()
                part = message.get("body", b"")
                size += len(part)
                if size > self._limits.body_bytes:
                    return None
                parts.append(part)
                if not message.get("more_body", False):
                    return b"".join(parts)


async def _send_in_parts(send: Send, message: MutableMapping[str, Any]) -> None:
    """Send a message, a long body in parts: each waits until the one before is on its way."""
    body = memoryview(message.get("body", b""))
    for start in range(0, len(body) - _PART, _PART):
        part = {"type": message["type"], "body": bytes(body[start : start + _PART])}
        await send({**part, "more_body": True})
    if len(body) > _PART:
        last = (len(body) - 1) // _PART * _PART
        message = {**message, "body": bytes(body[last:])}
    await send(message)


def client_of(address: str) -> str:
    """Return whom a rate is for: an IPv4 address, or the /64 network that a household has to itself."""
    try:
        network = ipaddress.ip_network((address, 64 if ":" in address else 32), strict=False)
    except ValueError:
        return address
    return address if network.version == 4 else str(network)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a channel that gives a body that was read already, then what else comes."""
    pending = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> MutableMapping[str, Any]:
        return pending.pop() if pending else await receive()

    return replay


def _host(header: str) -> str:
    """The name in a Host header, without the port."""
    if header.startswith("["):
        return header.partition("]")[0] + "]"
    return header.partition(":")[0].lower()


async def _refuse(send: Send, refusal: Refusal) -> None:
    """Send an error as JSON."""
    body = json.dumps({"error": refusal.error, "message": refusal.message}).encode()
    length = str(len(body)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", length)]
    start = {"type": "http.response.start", "status": refusal.status}
    await send({**start, "headers": [*headers, *refusal.headers]})
    await send({"type": "http.response.body", "body": body})


class Connection(H11Protocol):
    """uvicorn's connection, with its keep-alive clock also running while a request head is awaited.

    uvicorn has no limit for a head that never ends: a few hundred silent connections would keep everybody out.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock."""
        super().connection_made(transport)
        self._await_head(self.loop.time() + self.timeout_keep_alive)

    def data_received(self, data: bytes) -> None:
        """Read some bytes; a part of a head does not stop the clock."""
        clock = self.timeout_keep_alive_task
        super().data_received(data)
        if clock is not None and (self.cycle is None or self.cycle.response_complete):
            self._await_head(clock.when())

    def timeout_keep_alive_handler(self) -> None:
        """Close at once: whoever does not take the last of an answer is not waited for."""
        self.transport.abort()

    def _await_head(self, deadline: float) -> None:
        if self.timeout_keep_alive_task is None:
            give_up = self.timeout_keep_alive_handler
            self.timeout_keep_alive_task = self.loop.call_at(deadline, give_up)


CONNECTIONS: dict[str, Any] = {
    "http": Connection,
    "limit_concurrency": 400,
    "timeout_keep_alive": 15,
    "h11_max_incomplete_event_size": 65_536,
}
"""Settings of uvicorn: most connections (more get 503), seconds for the next request head, bytes of a head."""
