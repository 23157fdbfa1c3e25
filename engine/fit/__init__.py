"""PUBLIC, right of the wall. Fit, sticky mode: every table locked to the narrower ones, in whole numbers.

Takes measurements, declared universes, a sampling key.
Gives column supports and `SyntheticTable`s whose margins agree.
May import the engine's root.
"""

from __future__ import annotations

from engine.fit.borders import Marks, Universes, marks_of, with_rows_outside
from engine.fit.locking import lock_table, one_way_table, sub_tables
from engine.fit.support import fit_support, is_leaf

__all__ = [
    "Marks",
    "Universes",
    "fit_support",
    "is_leaf",
    "lock_table",
    "marks_of",
    "one_way_table",
    "sub_tables",
    "with_rows_outside",
]
