"""One table of a fit, locked in whatever process: imports no more than that takes."""

from __future__ import annotations

from typing import Any

from engine.errors import InternalError, TablepackError, place_of
from engine.fit import lock_table
from engine.schema import SyntheticTable


def locked(job: dict[str, Any]) -> SyntheticTable:
    """Lock a table, in whatever process; an error that is not ours is told by its kind and place, without its text."""
    try:
        return lock_table(**job)
    except (TablepackError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001  # as the command line does
        raise InternalError(f"{type(error).__name__} in {place_of(error)}") from None
