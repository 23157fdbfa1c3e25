"""Errors as HTTP answers: status, message, and where available the nearest alternatives."""

from __future__ import annotations

from typing import Any

from engine.errors import (
    AnotherAnswer,
    DamagedRelease,
    InternalError,
    MissingPackage,
    NotAnswerable,
    QueryRefused,
    ReplacedRelease,
    StoreError,
    TablepackError,
    TimedOut,
    TooLarge,
    place_of,
)

_STATUS: tuple[tuple[type[TablepackError], int], ...] = (
    (NotAnswerable, 404),
    (TimedOut, 504),
    (TooLarge, 413),
    (AnotherAnswer, 409),
    (QueryRefused, 400),
    (DamagedRelease, 503),
    (ReplacedRelease, 503),
    (MissingPackage, 501),
    (StoreError, 500),
    (InternalError, 500),
)
"""Status by error type; the first match counts."""
_UNREADABLE = (
    "The release can no longer be read. The operator of this server can find the reason with `tablepack show`, "
    "and then restart the server"
)


def status_of(error: TablepackError) -> int:
    """Return the HTTP status of an error."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 400)


def as_json(error: BaseException) -> dict[str, Any]:
    """Return an error as plain values, without the text of errors that are not our own: it may contain anything."""
    if not isinstance(error, TablepackError):
        message = f"{type(error).__name__} in {place_of(error)}; this is a bug, please report it"
        return {"error": "InternalError", "message": message}
    message = str(error)
    if isinstance(error, StoreError) and not isinstance(error, MissingPackage | ReplacedRelease):
        message = _UNREADABLE  # its own text contains the path of the file
    out: dict[str, Any] = {"error": type(error).__name__, "message": message}
    if isinstance(error, NotAnswerable):
        out |= {"missing": list(error.missing), "nearest": [list(t) for t in error.nearest]}
    return out
