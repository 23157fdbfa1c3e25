"""What stands before every request: host, token, rate, size; and after it: headers and a line in the log.

An ASGI layer of its own, so that nothing behind it runs for a request that is turned away. Invariant: the log holds
method, path, status, time and size, never a query or an answer.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from queries.api_errors import told as told_of

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
_MOST_CLIENTS = 10_000
_PART = 65_536  # bytes of an answer that a slow reader keeps in memory
_SOON = ((b"retry-after", b"1"),)
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
        Requests at work at once; more are sent away.
    rate : float or None
        Requests a second a client; None: any number.
    burst : int
        Requests that may come at once.
    rows, answer_bytes : int
        Rows and bytes of one answer.
    workers, waiting : int
        Questions answered at once, and how many more may wait.
    cache_bytes : int
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


class Rate:
    """A bucket of requests a client, refilled steadily; the least recent clients are forgotten.

    Parameters
    ----------
    per_s : float
    burst : int
    """

    def __init__(self, per_s: float, burst: int) -> None:
        self._per_s, self._burst = per_s, burst
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_of(self, client: str, now: float) -> float:
        """Take one request; return the seconds to wait where there is none left."""
        left, then = self._left.pop(client, (float(self._burst), now))
        left = min(self._burst, left + (now - then) * self._per_s)
        wait = 0.0 if left >= 1 else (1 - left) / self._per_s
        self._left[client] = (left - 1 if left >= 1 else left, now)
        if len(self._left) > _MOST_CLIENTS:
            self._left.popitem(last=False)
        return wait


class Guard:
    """The layer itself.

    Parameters
    ----------
    app : ASGI application
    limits : Limits
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
        self._rate = None if limits.rate is None else Rate(limits.rate, limits.burst)
        self._at_work = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, told = time.perf_counter(), {"status": 0, "bytes": 0}

        async def sent(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                told["status"] = message["status"]
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            else:
                told["bytes"] += len(message.get("body", b""))
            async with asyncio.timeout(self._limits.send_s):
                await _in_parts(send, message)

        self._at_work += 1
        try:
            turned = self._turned_away(scope)
            body = b"" if turned else await self._body(receive)
            if body is None:
                turned = (
                    413,
                    "TooLarge",
                    f"a request may have {self._limits.body_bytes:,} bytes",
                    (),
                )
            if turned:
                await _reply(sent, *turned)
            else:
                await self._app(scope, _replayed(body or b"", receive), sent)
        except TimeoutError:
            if told["status"]:  # nobody takes the answer: the rest of it is not kept for long
                return
            await _reply(sent, 408, "TooSlow", "the request took too long to arrive", ())
        except Exception as error:  # noqa: BLE001  # its text may hold anything: only its kind is told
            if not told["status"]:
                said = told_of(error)
                await _reply(sent, 500, said["error"], said["message"], ())
        finally:
            self._at_work -= 1
            ms = (time.perf_counter() - began) * 1000
            path = scope["path"] if scope["path"].isprintable() else "?"
            LOG.info(
                "%s %s %s %d %.1f ms %d bytes",
                (scope.get("client") or ("?",))[0], scope["method"], path[:200], told["status"], ms, told["bytes"],
            )  # fmt: skip

    def _turned_away(
        self, scope: Scope
    ) -> tuple[int, str, str, tuple[tuple[bytes, bytes], ...]] | None:
        """Why a request is not let through: status, name, message, headers."""
        headers = dict(scope["headers"])
        is_api = scope["path"].startswith("/api/")
        host = _host(headers.get(b"host", b"").decode("latin-1"))
        if self._token is None and host not in self._hosts:
            return 403, "Forbidden", "this server does not answer to that name", ()
        if is_api and headers.get(b"sec-fetch-site", b"none") not in (b"same-origin", b"none"):
            return 403, "Forbidden", "asked by a page of another site", ()
        if self._rate is not None:
            client = _client((scope.get("client") or ("?",))[0])
            wait = self._rate.wait_of(client, time.monotonic())
            if wait:
                retry = ((b"retry-after", str(int(wait) + 1).encode()),)
                return 429, "TooMany", f"too many requests: try again in {wait:.1f} s", retry
        if self._token is not None and is_api:
            given = headers.get(b"authorization", b"")
            if not hmac.compare_digest(given, b"Bearer " + self._token):
                needs = ((b"www-authenticate", b"Bearer"),)
                return (
                    401,
                    "NoToken",
                    "this server needs its token (Authorization: Bearer ...)",
                    needs,
                )
        if self._at_work > self._limits.at_once:
            return 503, "Busy", "too many requests at once: try again in a moment", _SOON
        if len(scope.get("query_string", b"")) > self._limits.body_bytes:
            return 413, "TooLarge", f"a request may have {self._limits.body_bytes:,} bytes", ()
        return None

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


async def _in_parts(send: Send, message: MutableMapping[str, Any]) -> None:
    """Send a message, a long body in parts: each waits until the one before is on its way."""
    body = memoryview(message.get("body", b""))
    for start in range(0, len(body) - _PART, _PART):
        part = {"type": message["type"], "body": bytes(body[start : start + _PART])}
        await send({**part, "more_body": True})
    if len(body) > _PART:
        last = (len(body) - 1) // _PART * _PART
        message = {**message, "body": bytes(body[last:])}
    await send(message)


def _client(address: str) -> str:
    """Who asks: one address, or the network that a household of the newer internet has to itself."""
    try:
        given = ipaddress.ip_address(address)
    except ValueError:
        return address
    if given.version == 4:
        return address
    return str(ipaddress.ip_network((given, 64), strict=False))


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a channel that gives a body that was read already, then what else comes."""
    is_given = False

    async def replay() -> MutableMapping[str, Any]:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _host(given: str) -> str:
    """The name in a Host header, without the port."""
    if given.startswith("["):
        return given.partition("]")[0] + "]"
    return given.partition(":")[0].lower()


async def _reply(
    send: Send, status: int, name: str, message: str, headers: tuple[tuple[bytes, bytes], ...]
) -> None:
    """Send an error as JSON."""
    body = json.dumps({"error": name, "message": message}).encode()
    said = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *headers,
    ]
    await send({"type": "http.response.start", "status": status, "headers": said})
    await send({"type": "http.response.body", "body": body})
