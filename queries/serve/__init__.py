"""A release over HTTP: a small JSON API and the table builder in the browser (`web/`).

Takes a release's path and limits.
Gives an ASGI application (`app_of`; of a folder of releases: `front_of`) and the
settings of uvicorn it needs (`CONNECTIONS`, `StoppingServer`).
May import `engine.errors`, `engine.schema`, `engine.store`, and all of `queries` but `packs`.
"""

from __future__ import annotations

from queries.serve.app import LOCAL_HOSTS, app_of
from queries.serve.guard import CONNECTIONS, Limits, StoppingServer
from queries.serve.site.front import front_of

__all__ = ["CONNECTIONS", "LOCAL_HOSTS", "Limits", "StoppingServer", "app_of", "front_of"]
