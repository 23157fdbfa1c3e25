"""A release over HTTP: a small JSON API and the table builder in the browser (`web/`).

In: a release's path and limits.
Out: an ASGI application (`app_of`, or `front_of` for a folder of releases) and the uvicorn settings it
needs (`CONNECTIONS`, `StoppingServer`). Names are resolved when they are first used: `Limits` needs no fastapi.
May import `engine.errors`, `engine.schema`, `engine.store`, and all of `queries`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from queries.serve.app import LOCAL_HOSTS, app_of
    from queries.serve.front import front_of
    from queries.serve.guard import CONNECTIONS, StoppingServer
    from queries.serve.limits import Limits

__all__ = ["CONNECTIONS", "LOCAL_HOSTS", "Limits", "StoppingServer", "app_of", "front_of"]
_HOMES = {"LOCAL_HOSTS": "app", "app_of": "app", "front_of": "front", "Limits": "limits"}


def __getattr__(name: str) -> Any:
    """Resolve a public name when it is used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'guard')}"), name)
