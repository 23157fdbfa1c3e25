"""Which tables a workload needs: those that no other answers as well.

A table is locked to its margins, so a wider one shows the same counts up to its rounding gap. What it does not show as
well is how exact they are: noise is stated for the sum of its cells. Measured (engine/DESIGN.md, "Spec"): from a
table of one column more, noise intervals are 2 to 3 times as wide; from any wider one, and for counts of a single
column, 5 times or more. So a table of two columns or more is left out where one with a single column more is there, and
no other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from engine.schema import ColumnSet

NARROWEST_LEFT_OUT = 2
"""Columns from which on a table can be left out."""


def merged(asked: Collection[ColumnSet], given: Collection[ColumnSet] = ()) -> set[ColumnSet]:
    """Return the tables to add so that each combination asked for has its own, or one that stands in for it.

    Returns: Few of the combinations asked for: what nothing could stand in for, then always the one that
    answers most of what is left (narrower ones first, then by name).
    """
    there = set(given)
    wanted = {columns for columns in asked if columns} - there
    possible = _stood_in_for(wanted | there)
    kept = wanted - possible
    open_ = wanted - kept - _stood_in_for(kept | there)
    while True:
        gains = {c: len(_answers(c) & open_) for c in wanted - kept}
        best = min(gains, key=lambda c: (-gains[c], len(c), c), default=())
        if gains.get(best, 0) < 2:
            return kept | open_
        kept.add(best)
        open_ -= _answers(best)


def _answers(columns: ColumnSet) -> set[ColumnSet]:
    """What a table answers about as well as a table of its own: itself, and what it stands in for."""
    return {columns, *_stood_in_for([columns])}


def _stood_in_for(tables: Iterable[ColumnSet]) -> set[ColumnSet]:
    """What tables stand in for: combinations of one column less, but no single columns."""
    return {
        (*table[:at], *table[at + 1 :])
        for table in tables
        if len(table) > NARROWEST_LEFT_OUT
        for at in range(len(table))
    }
