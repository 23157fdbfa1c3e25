"""PUBLIC, right of the wall. Wide tables: rows of many columns, from locked tables of one to three columns alone.

Takes column supports and locked `SyntheticTable`s, a sampling key.
Gives whole rows: one-column counts exactly as locked, tables of two and three columns as near as can be.
May import the engine's root and engine.fit.
"""

from __future__ import annotations

from engine.fit.wide.choosing import chosen_triples
from engine.fit.wide.rows import WideFit, fit_wide, used_by, wide_table

__all__ = ["WideFit", "chosen_triples", "fit_wide", "used_by", "wide_table"]
