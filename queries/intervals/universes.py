"""Which groups a declared universe rules out: structural zeros.

Takes the universes that a release states in `catalog.universes`, and the groups of a question; gives the groups that
are impossible by declaration. Only what the catalogue states counts: a zero in the data is never structural.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np

from engine.schema import BoolArray, literal
from queries.intervals.buckets import TableBuckets
from queries.intervals.regions import Region
from queries.sql import Session


@dataclass(frozen=True, kw_only=True, slots=True)
class StatedUniverse:
    """A row of `catalog.universes`, with values in the types of their columns."""

    # column, decided_by: The column it is about, and the one that decides.
    column: str
    decided_by: str
    # low, high: Ends of the deciding column.
    low: Any = None
    high: Any = None
    listed: tuple[Any, ...] | None = None  # Its values inside. None: all that are not blank.
    outside: Any = None  # What the column holds outside; None: a blank
    complete: bool = False  # Inside, it never holds that


def stated_universes(release: Session) -> tuple[StatedUniverse, ...]:
    """Read the universes that a release states; once as long as it is open."""
    if "universes" not in release.models:
        with release.cursor() as con:
            pairs = con.execute("SELECT column_name, decided_by FROM catalog.universes").fetchall()
            read = tuple(_read(con, name, by, release.columns) for name, by in pairs)
        release.models["universes"] = read
    universes: tuple[StatedUniverse, ...] = release.models["universes"]
    return universes


def _read(
    con: duckdb.DuckDBPyConnection, name: str, decided_by: str, types: dict[str, str]
) -> StatedUniverse:
    """Read the universe of one column."""
    deciding = types[decided_by]
    low, high, listed, outside, complete = con.execute(
        f"SELECT CAST(low AS {deciding}), CAST(high AS {deciding}), CAST(listed AS {deciding}[]), "
        f"CAST(outside AS {types[name]}), complete FROM catalog.universes WHERE column_name = {literal(name)}"
    ).fetchall()[0]
    return StatedUniverse(
        column=name,
        decided_by=decided_by,
        low=low,
        high=high,
        listed=None if listed is None else tuple(listed),
        outside=outside,
        complete=complete,
    )


def ruled_out(
    release: Session, table: TableBuckets, region: Region, measured: BoolArray
) -> BoolArray:
    """Which groups are impossible by a declared universe.

    measured: shape (n_groups,): Some combination in it was measured: what was released is possible.
    """
    out = np.zeros(region.n_groups, dtype=bool)
    at = {name: j for j, name in enumerate(table.columns)}
    for universe in stated_universes(release):
        if universe.column not in at or universe.decided_by not in at:
            continue
        j, i = at[universe.column], at[universe.decided_by]
        inside = table.released[i].within(universe.low, universe.high, universe.listed)
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
