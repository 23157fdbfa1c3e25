"""Several releases at one address: a front page, and each release under its own name.

Each release has its own guard, limits and processes, as if it were served alone; the front page has its own guard.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from itertools import chain, count
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response

from engine.errors import StoreError
from engine.store import said_of
from engine.texts import slug
from queries.release import Release, open_release
from queries.serve.app import LOCAL_HOSTS, add_errors, app_of, language_preference
from queries.serve.cache import Reply
from queries.serve.guard import Guard, Receive, Scope, Send
from queries.serve.limits import Limits
from queries.serve.pages import in_language, page_files, page_words
from queries.serve.responses import BELOW
from queries.serve.service import json_reply

_MOST = 20
_OWN = {"/": "/front.html"} | {
    f"/{name}": f"/{name}"
    for name in (
        "front.js",
        "state.js",
        "words.js",
        "style.css",
        "icon.svg",
        *(f"words.{code}.json" for code in page_words()),
    )
}
"""Files of the front page by path."""
_TAKEN = frozenset({"api", *(path.lstrip("/") for path in _OWN)})
"""Names that are not available for releases."""


class Front:
    """The application: forwards each request to the release named in its path."""

    def __init__(self, own: Guard, below: dict[str, Guard]) -> None:
        self._own, self._below = own, below

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http":
            _, name, *rest = scope["path"].split("/", 2)
            if rest and name in self._below:
                path = f"/{rest[0]}"
                inner = {**scope, "path": path, "raw_path": path.encode(), BELOW: f"/{name}"}
                await self._below[name](inner, receive, send)
                return
        await self._own(scope, receive, send)

    def stop(self) -> None:
        """Stop the work in progress for all releases."""
        for app in (self._own, *self._below.values()):
            app.stop()


def front_of(
    folder: Path,
    *,
    token: str | None = None,
    limits: Limits | None = None,
    hosts: frozenset[str] = LOCAL_HOSTS,
    trust: str | Path | None = None,
    **more: Any,
) -> Front:
    """Return the application that serves all releases in a folder, ordered by name."""
    paths = sorted(folder.glob("*.duckdb"))
    if not 0 < len(paths) <= _MOST:
        raise StoreError(
            f"{folder}: number of releases (*.duckdb): {len(paths)}; between 1 and {_MOST} can be served"
        )
    limits = limits or Limits()
    asked: dict[str, Any] = {"token": token, "limits": limits, "hosts": hosts}
    with ExitStack() as resources:
        releases = {
            name: resources.enter_context(
                open_release(path, timeout_s=limits.timeout_s, memory=limits.memory, trust=trust)
            )
            for name, path in _named(paths).items()
        }
        siblings = [
            {"place": f"/{n}/", "title": f"{r.title}, {r.vintage}"} for n, r in releases.items()
        ]
        below: dict[str, Guard] = {}
        for name, release in releases.items():
            below[name] = app_of(release, siblings=siblings, **asked, **more)
            resources.callback(below[name].stop)
        own = _front_page(list(below.values()), releases, resources.pop_all())
    return Front(Guard(own, limits=limits, token=token, hosts=hosts), below)


def _named(paths: list[Path]) -> dict[str, Path]:
    """Files by URL-safe name."""
    plain = {path: slug(path.stem, "release") for path in paths}
    taken, names = set(_TAKEN), {}
    for path in sorted(
        paths, key=lambda p: plain[p] != p.stem
    ):  # files whose name is already safe keep it
        counted = (f"{plain[path]}-{i}" for i in count(1))
        names[path] = next(name for name in chain([plain[path]], counted) if name not in taken)
        taken.add(names[path])
    return {names[path]: path for path in paths}


def _front_page(apps: list[Guard], releases: dict[str, Release], resources: ExitStack) -> FastAPI:
    """The front page; all releases are open as long as it runs."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as alive:
            alive.push_async_callback(asyncio.to_thread, resources.close)
            for app in apps:
                await alive.enter_async_context(app.lifespan())
            yield

    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, lifespan=lifespan)
    add_errors(app)
    files = page_files()
    listed = json_reply({"releases": [_about(n, r) for n, r in releases.items()]})

    def add(path: str, replies: Mapping[str, Reply]) -> None:
        def page(request: Request) -> Response:
            reply, headers = in_language(replies, *language_preference(request))
            headers["cache-control"] = "private, no-cache"
            return Response(reply.body, media_type=reply.media_type, headers=headers)

        app.add_route(path, page, methods=["GET", "HEAD"], include_in_schema=False)

    for path, file in _OWN.items():
        add(path, files[file])
    add("/api/releases", {"en": listed})
    for name in releases:
        app.add_route(f"/{name}", _below, methods=["GET", "HEAD"], include_in_schema=False)
    return app


def _below(request: Request) -> Response:
    """Redirect a release name without its trailing slash."""
    asked = f"?{request.url.query}" if request.url.query else ""
    where = (
        f"{request.url.path.rpartition('/')[2]}/{asked}"  # relative, as a proxy may prefix the path
    )
    return Response(status_code=307, headers={"location": where})


def _about(name: str, release: Release) -> dict[str, Any]:
    """One release on the front page."""
    return {
        "place": f"/{name}/",
        "title": release.title or name,
        "vintage": release.vintage,
        "n_tables": len(release.tables),
        "variables": list(release.labels.values()),
        "signature": said_of(release.signature),
    }
