"""Which released table answers a question: always one, always the same.

Takes the columns a statement reads and the released tables with their sizes; gives the smallest table that covers
them. One canonical table an answer: were it another each time, the same question would get two figures.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from engine.errors import NotAnswerable
from engine.schema import ColumnSet, column_set

MAX_WIDTH = 4
"""Widest table that a spec can ask for in sticky mode so far."""
N_NEAREST = 3
"""How many near tables a refusal names."""


def route(
    columns: Collection[str],
    tables: Mapping[ColumnSet, int],
    *,
    max_width: int | None = MAX_WIDTH,
) -> ColumnSet:
    """Return the table that answers: fewest columns, then fewest distinct rows, then first by name.

    Parameters
    ----------
    columns : collection of str
        The columns that are read; none (as of `count(*)`) lets any table answer.
    tables : mapping of ColumnSet to int
        The released tables with their number of distinct synthetic rows.
    max_width : int or None
        Widest table that a spec could ask for; None: any.

    Raises
    ------
    NotAnswerable
        No table covers them: names the combination, the nearest tables, and the spec entry to add, if a table
        may be as wide.
    """
    wanted = frozenset(columns)
    covering = [t for t in tables if wanted.issubset(t)]
    if covering:
        return min(covering, key=lambda t: (len(t), tables[t], t))
    raise _refusal(column_set(tuple(wanted)), tables, max_width)


def nearest(columns: ColumnSet, tables: Collection[ColumnSet]) -> tuple[ColumnSet, ...]:
    """Return the tables that share most columns with a combination, narrow ones first."""
    wanted = frozenset(columns)
    ranked = sorted(tables, key=lambda t: (-len(wanted & frozenset(t)), len(t), t))
    return tuple(t for t in ranked[:N_NEAREST] if wanted & frozenset(t))


def spec_entry(columns: ColumnSet) -> str:
    """Return the lines of a spec that would release a table."""
    listed = ", ".join(json.dumps(c, ensure_ascii=False) for c in columns)
    return f"[[tables]]\ncolumns = [{listed}]"


def _refusal(
    wanted: ColumnSet, tables: Mapping[ColumnSet, int], max_width: int | None
) -> NotAnswerable:
    """Return the refusal of a combination that no table covers."""
    near = nearest(wanted, tables)
    best = max((frozenset(wanted) & frozenset(t) for t in near), key=len, default=frozenset())
    missing = tuple(c for c in wanted if c not in best)
    shown = "; ".join(", ".join(t) for t in near) or "none shares a column"
    if max_width is not None and len(wanted) > max_width:
        return NotAnswerable(
            f"The statement reads {len(wanted)} columns, and tables have at most {max_width}: name fewer columns "
            "(SELECT * and SUMMARIZE read all of them).\n"
            f"Nearest tables: {shown}.",
            missing=missing,
            nearest=near,
        )
    return NotAnswerable(
        f"No released table holds {', '.join(wanted)} together.\n"
        f"Nearest tables: {shown}.\n"
        f"To add it, put in the spec and build again:\n{spec_entry(wanted)}",
        missing=missing,
        nearest=near,
    )
