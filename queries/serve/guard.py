"""Checks before every request (host, token, size), and headers and access log after it.

A separate ASGI layer, so that nothing behind it runs for a refused request. Invariant: the log has method, path,
status, time and size, never a query or an answer. Connection limits are uvicorn's (`CONNECTIONS`); request rates and
slow clients are a reverse proxy's (`queries/serve/proxy`).
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import logging
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, NamedTuple, Protocol

from uvicorn import Config, Server

from queries.serve.errors import as_json
from queries.serve.limits import Limits

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
_CLIENT_DISCONNECTED = 499  # in the log only
_PART = 65_536  # most bytes of an answer held in memory for a slow reader
Headers = tuple[tuple[bytes, bytes], ...]
_RETRY_SOON: Headers = ((b"retry-after", b"1"),)
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class _Disconnected(Exception):
    """The client closed its connection before the answer was complete."""


class Refusal(NamedTuple):
    """Why a request is refused."""

    status: int
    error: str
    message: str
    headers: Headers = ()


class Guard:
    """The ASGI layer.

    token: Required with every request for data; None: no token needed.
    hosts: Host names that a server without a token answers to: other web sites cannot reach it under their own name
        (DNS rebinding).
    stop: Stops work in progress; called in the event loop, possibly more than once.
    """

    def __init__(
        self,
        app: App,
        *,
        limits: Limits,
        token: str | None,
        hosts: frozenset[str],
        stop: Callable[[], None] = lambda: None,
    ) -> None:
        self._app, self._limits, self._hosts = app, limits, hosts
        self.stop = stop
        self._token = None if token is None else token.encode()
        self._at_work: Counter[str] = Counter()

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

        try:
            await self._answer(scope, receive, counted)
        except _Disconnected:
            status = status or _CLIENT_DISCONNECTED
        except asyncio.CancelledError:  # uvicorn is shutting down
            if not status:
                stopping = "the server is shutting down; try again in 5 s"
                await _refuse(counted, Refusal(503, "Busy", stopping, ((b"retry-after", b"5"),)))
        except TimeoutError:
            if not status:  # otherwise the client does not read the answer: the rest is dropped
                slow = Refusal(408, "TooSlow", "the request took too long to arrive")
                await _refuse(counted, slow, is_last=True)
        except Exception as error:  # noqa: BLE001  # its text may contain anything: only the type is reported
            if not status:
                fault = as_json(error)
                await _refuse(counted, Refusal(500, fault["error"], fault["message"]))
        finally:
            ms = (time.perf_counter() - began) * 1000
            path = scope["path"] if scope["path"].isprintable() else "?"
            client, method = (scope.get("client") or ("?",))[0], scope["method"]
            LOG.info("%s %s %s %d %.1f ms %d bytes", client, method, path[:200], status, ms, size)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or read its body and pass it on."""
        client = client_of((scope.get("client") or ("?",))[0])
        refusal = self._refusal(scope)
        if refusal is not None:
            await _refuse(send, refusal, is_last=_has_body(scope))
            return
        body = await self._body(receive)
        if body is None:
            await _refuse(send, self._too_large(), is_last=True)
            return
        busy = self._busy(client)
        if busy is not None:
            await _refuse(send, busy)
            return
        with _counted(self._at_work, client):
            await _while_connected(self._app, scope, body, receive, send)

    def lifespan(self) -> AbstractAsyncContextManager[Any]:
        """Return what keeps the application alive, for one that is served inside another."""
        app: Any = self._app
        running: AbstractAsyncContextManager[Any] = app.router.lifespan_context(app)
        return running

    def _busy(self, client: str) -> Refusal | None:
        """Refuse a request, already received, if too many are in progress."""
        is_full = self._at_work.total() >= self._limits.at_once
        if is_full or self._at_work[client] >= self._limits.at_once_each:
            return Refusal(503, "Busy", "too many requests at once; try again in 1 s", _RETRY_SOON)
        return None

    def _refusal(self, scope: Scope) -> Refusal | None:
        """Return why a request is refused; None if it is not."""
        headers = dict(scope["headers"])
        is_api = scope["path"].startswith("/api/")
        host = _host(headers.get(b"host", b"").decode("latin-1"))
        if self._token is None and host not in self._hosts:
            return Refusal(403, "Forbidden", "this server does not answer to this host name")
        if is_api and headers.get(b"sec-fetch-site", b"none") not in (b"same-origin", b"none"):
            return Refusal(403, "Forbidden", "requests from other web sites are not allowed")
        if self._token is not None and is_api:
            given = headers.get(b"authorization", b"")
            if not hmac.compare_digest(given, b"Bearer " + self._token):
                message = "this server requires an access token (Authorization: Bearer ...)"
                return Refusal(401, "NoToken", message, ((b"www-authenticate", b"Bearer"),))
        if len(scope.get("query_string", b"")) > self._limits.body_bytes:
            return self._too_large()
        return None

    def _too_large(self) -> Refusal:
        allowed = f"the request is too large; the limit is {self._limits.body_bytes:,} bytes"
        return Refusal(413, "TooLarge", allowed)

    async def _body(self, receive: Receive) -> bytes | None:
        """Return the whole body; None if it is too large."""
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
    """Send a message, splitting a long body into parts, so that at most one waits for a slow reader."""
    body = memoryview(message.get("body", b""))
    for start in range(0, len(body) - _PART, _PART):
        part = {"type": message["type"], "body": bytes(body[start : start + _PART])}
        await send({**part, "more_body": True})
    if len(body) > _PART:
        last = (len(body) - 1) // _PART * _PART
        message = {**message, "body": bytes(body[last:])}
    await send(message)


def client_of(address: str) -> str:
    """Return the unit that limits apply to: an IPv4 address, or the /64 network of an IPv6 address."""
    try:
        network = ipaddress.ip_network((address, 64 if ":" in address else 32), strict=False)
    except ValueError:
        return address
    return address if network.version == 4 else str(network)


async def _while_connected(
    app: App, scope: Scope, body: bytes, receive: Receive, send: Send
) -> None:
    """Process a request until it is answered or its client disconnects."""
    is_answered = False

    async def noted(message: MutableMapping[str, Any]) -> None:
        nonlocal is_answered
        is_answered = message["type"] == "http.response.body" and not message.get("more_body")
        await send(message)

    left = asyncio.ensure_future(_disconnect(receive))
    doing = asyncio.ensure_future(app(scope, _replayed(body, left), noted))
    try:
        await asyncio.wait({doing, left}, return_when=asyncio.FIRST_COMPLETED)
        if not (doing.done() or is_answered):
            doing.cancel()
            await asyncio.wait({doing})
            raise _Disconnected
        await doing
    finally:
        doing.cancel()
        left.cancel()


async def _disconnect(receive: Receive) -> None:
    """Wait until the client disconnects."""
    if (await receive())["type"] != "http.disconnect":  # no other message follows a body
        await asyncio.get_running_loop().create_future()


def _replayed(body: bytes, left: asyncio.Future[None]) -> Receive:
    """Return a channel that replays a body, then reports the disconnect."""
    pending = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> MutableMapping[str, Any]:
        if not pending:
            await asyncio.wait({left})
            return {"type": "http.disconnect"}
        return pending.pop()

    return replay


def _has_body(scope: Scope) -> bool:
    """Whether a request announces a body."""
    return any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"])


@contextmanager
def _counted(counter: Counter[str], client: str) -> Iterator[None]:
    """Count one more for a client while the block runs."""
    counter[client] += 1
    try:
        yield
    finally:
        counter[client] -= 1
        if not counter[client]:
            del counter[client]


def _host(header: str) -> str:
    """The host name in a Host header, without the port."""
    if header.startswith("["):
        return header.partition("]")[0] + "]"
    return header.partition(":")[0].lower()


async def _refuse(send: Send, refusal: Refusal, *, is_last: bool = False) -> None:
    """Send an error as JSON; `is_last` closes the connection instead of reading the rest of the request."""
    body = json.dumps({"error": refusal.error, "message": refusal.message}).encode()
    length = str(len(body)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", length)]
    if is_last:
        headers.append((b"connection", b"close"))
    start = {"type": "http.response.start", "status": refusal.status}
    await send({**start, "headers": [*headers, *refusal.headers]})
    await send({"type": "http.response.body", "body": body})


class Stoppable(Protocol):
    """An application whose work can be stopped: a guard, or several behind a front page."""

    def stop(self) -> None:
        """Stop work in progress."""


class StoppingServer(Server):
    """uvicorn's server; it stops work in progress before waiting for the last answers, not after."""

    def __init__(self, app: Stoppable, config: Config) -> None:
        super().__init__(config)
        self._guard = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Shut down."""
        self._guard.stop()
        await super().shutdown(sockets)


CONNECTIONS: dict[str, Any] = {
    "http": "h11",
    "limit_concurrency": 400,
    "timeout_keep_alive": 15,
    "h11_max_incomplete_event_size": 65_536,
}
"""uvicorn settings: most connections (more get 503), seconds that an idle one is kept, bytes of a head."""
