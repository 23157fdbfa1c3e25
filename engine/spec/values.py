"""Values of a spec in the types that reading the source gives."""

from __future__ import annotations

import datetime
from typing import Any

from engine.schema import ValueType

_TYPES: dict[str, tuple[type, ...]] = {
    "integer": (int,),
    "real": (int, float),
    "decimal": (int, float),
    "boolean": (bool,),
    "text": (str,),
    "date": (datetime.date,),
    "timestamp": (datetime.datetime,),
}


def typed(value: Any, value_type: ValueType) -> Any:
    """Give a value of the spec the type that `ingest` gives; None if it is of another."""
    if isinstance(value, bool) != (value_type == "boolean"):
        return None
    if isinstance(value, str) and value_type in ("date", "timestamp"):
        value = _moment(value, value_type)
    if value_type == "date" and isinstance(value, datetime.datetime):
        return None
    if not isinstance(value, _TYPES[value_type]):
        return None
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    if isinstance(value, int | float) and value_type in ("real", "decimal"):
        number = float(value) + 0.0
        return number if abs(number) < float("inf") else None
    if isinstance(value, int) and abs(value) > 2**63 - 2:
        return None
    return value


def _moment(text: str, value_type: ValueType) -> datetime.date | None:
    """Read an ISO date or timestamp."""
    try:
        if value_type == "date":
            return datetime.date.fromisoformat(text)
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
