"""What the rows of a release are called, and whom it protects, in the languages that its custodian gives.

Takes words of a spec, or of a release's catalogue.
Gives a `Unit`, which everything says that speaks of rows or of those protected.
May import nothing of ours.
"""

from __future__ import annotations

from engine.units.words import (
    DEFAULT_LANGUAGE,
    ENTITIES,
    PEOPLE,
    ROWS,
    Unit,
    Words,
    declared_unit,
    unit_from_json,
    unit_of,
    units_for,
)

__all__ = [
    "DEFAULT_LANGUAGE",
    "ENTITIES",
    "PEOPLE",
    "ROWS",
    "Unit",
    "Words",
    "declared_unit",
    "unit_from_json",
    "unit_of",
    "units_for",
]
