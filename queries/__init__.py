"""Queries on a release: SQL, tables, cards, exports.

Reads a release and nothing else: no module here can access rows, noise or keys. Open a file with `open_release`, then
call `.sql()`: a statement over the logical table is answered from the smallest released table that covers its columns.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from queries.release import Release, open_release
    from queries.sql import Result, export

__all__ = ["Release", "Result", "export", "open_release"]
_HOMES = {
    **dict.fromkeys(("Release", "open_release"), "queries.release"),
    **dict.fromkeys(("Result", "export"), "queries.sql"),
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that importing one module here does not load all."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
