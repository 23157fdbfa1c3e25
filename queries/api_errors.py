"""Errors of the tree as HTTP answers: a status that fits, the message as it is, and what helps to go on."""

from __future__ import annotations

from typing import Any

from engine.errors import (
    DamagedRelease,
    InternalError,
    NotAnswerable,
    QueryRefused,
    StoreError,
    TablepackError,
    place_of,
)

TOO_LARGE = "The table would be too large: "
TOO_MANY_ROWS = "The answer has too many rows: "
_BY_START = (
    ("The statement was stopped after ", 504),
    ("The statement needs more memory", 413),
    (TOO_LARGE, 413),
    (TOO_MANY_ROWS, 413),
)


def status_of(error: TablepackError) -> int:
    """Return the HTTP status of an error."""
    if isinstance(error, NotAnswerable):
        return 404
    if isinstance(error, QueryRefused):
        return next((s for start, s in _BY_START if str(error).startswith(start)), 400)
    if isinstance(error, DamagedRelease):
        return 503
    if isinstance(error, StoreError):
        return 501
    return 500 if isinstance(error, InternalError) else 400


def told(error: BaseException) -> dict[str, Any]:
    """Return an error as plain values; the text of one that is not ours is never shown."""
    if not isinstance(error, TablepackError):
        message = f"{type(error).__name__} in {place_of(error)}; this is our bug, please report it"
        return {"error": "InternalError", "message": message}
    said: dict[str, Any] = {"error": type(error).__name__, "message": str(error)}
    if isinstance(error, NotAnswerable):
        said |= {"missing": list(error.missing), "nearest": [list(t) for t in error.nearest]}
    return said
