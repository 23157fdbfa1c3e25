"""A release over HTTP: a small JSON API and the table builder in the browser (`web/`).

In: a release's path and limits.
Out: an ASGI application (`app_of`, or `front_of` for a folder of releases) and the uvicorn settings it
needs (`CONNECTIONS`, `StoppingServer`).
May import `engine.errors`, `engine.schema`, `engine.store`, and all of `queries`.
"""

from __future__ import annotations

from queries.serve.app import LOCAL_HOSTS, app_of
from queries.serve.front import front_of
from queries.serve.guard import CONNECTIONS, Limits, StoppingServer

__all__ = ["CONNECTIONS", "LOCAL_HOSTS", "Limits", "StoppingServer", "app_of", "front_of"]
