"""PUBLIC, in the fit process. Fit, sticky mode: every table locked to the narrower ones, in whole numbers.

Takes measurements, declared universes, a sampling key.
Gives column supports and `SyntheticTable`s whose margins agree.
May import the engine's root.
"""

from __future__ import annotations

from engine.fit.cells import Coarse, coarse_of
from engine.fit.costs import Cost, cost_of, table_seconds
from engine.fit.fine import is_fine
from engine.fit.locking import lock_table, one_way_table, stated_sd, sub_tables
from engine.fit.order import FitOrder
from engine.fit.relating import Unused, related, relation_of
from engine.fit.supports import (
    Marks,
    Universes,
    benchmarked,
    copied,
    derived_table,
    fit_support,
    found_limits,
    implied_codes,
    marks_of,
    steps_of,
    with_rows_outside,
)
from engine.fit.tree import Noise, place_candidates
from engine.schema import is_leaf

__all__ = [
    "Coarse",
    "Cost",
    "FitOrder",
    "Marks",
    "Noise",
    "Universes",
    "Unused",
    "benchmarked",
    "coarse_of",
    "copied",
    "cost_of",
    "derived_table",
    "fit_support",
    "found_limits",
    "implied_codes",
    "is_fine",
    "is_leaf",
    "lock_table",
    "marks_of",
    "one_way_table",
    "place_candidates",
    "related",
    "relation_of",
    "stated_sd",
    "steps_of",
    "sub_tables",
    "table_seconds",
    "with_rows_outside",
]
