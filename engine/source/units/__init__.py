"""CONFIDENTIAL. What is counted where an entity has several rows: some of its rows, or the entity itself.

Takes the table of rows with tokens.
Gives one of fewer rows in its place.
May import the engine's root, `engine.spec`, its neighbours in `engine.source`.
"""

from __future__ import annotations

from engine.source.units.chosen import choose_rows
from engine.source.units.collapsed import one_row_each, with_few_values

__all__ = ["choose_rows", "one_row_each", "with_few_values"]
