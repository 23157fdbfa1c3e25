"""Which groups a declared universe rules out: structural zeros.

Takes the universes that a release states in `catalog.universes`, and the groups of a question; gives the groups that
are impossible by declaration. Only what the catalogue states counts: a zero in the data is never structural.
"""

from __future__ import annotations

import numpy as np

from engine.schema import BoolArray
from queries.intervals.buckets import TableBuckets
from queries.intervals.regions import Region
from queries.sql import Session


def ruled_out(
    release: Session, table: TableBuckets, region: Region, measured: BoolArray
) -> BoolArray:
    """Which groups are impossible by a declared universe.

    measured: shape (n_groups,): Some combination in it was measured: what was released is possible.
    """
    out = np.zeros(region.n_groups, dtype=bool)
    at = {name: j for j, name in enumerate(table.columns)}
    for name, j in at.items():
        universe = release.described[name].universe
        if universe is None or universe.column not in at:
            continue
        i = at[universe.column]
        inside = table.released[i].within(universe.low, universe.high, universe.values)
        outside = np.array([v == universe.outside for v in table.released[j].values], dtype=bool)
        may_in, may_out = _may(region, i, inside)
        may_be_blank, may_have_value = _may(region, j, outside)
        is_possible = (may_out & may_be_blank) | (may_in & may_have_value)
        if not universe.complete:
            is_possible |= may_in & may_be_blank
        out |= ~is_possible
    return out & ~measured


def _may(region: Region, j: int, marked: BoolArray) -> tuple[BoolArray, BoolArray]:
    """Whether each group can hold a marked code of column j, and whether one that is not marked."""
    if j in region.by:
        own = marked[region.codes[:, region.by.index(j)]]
        return own, ~own
    some, others = ((region.allowed[j] & of).any() for of in (marked, ~marked))
    return np.full(region.n_groups, some), np.full(region.n_groups, others)
