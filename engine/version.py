"""Version of the engine, and what every release says of itself.

The version is part of every card. Bump it, with an entry in CHANGELOG.md, whenever released numbers change.
"""

from __future__ import annotations

ENGINE_VERSION = "0.1.0"
FORMAT_NOTES = (
    "Every row is synthetic: no row is a person, and rows of different tables do not belong together.",
    "Counts carry noise; the card of each table says how much. Small groups are not shown as such: they were "
    "filled in from narrower tables without looking at the data.",
    "Narrower tables are the margins of wider ones: a margin has one published value.",
)
