"""What a spec says of wide tables beside their columns: a target, sets, how many tables may be added for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.schema import ColumnSet, column_set
from engine.spec.model import TableEntry, did_you_mean
from engine.spec.tables import TableContext, named_columns

MOST_SETS = 100
"""Most syntheses of one wide table."""
KEYS = ("target", "sets", "max_added")


@dataclass(frozen=True, kw_only=True, slots=True)
class WideWish:
    """What a wide table is to be."""

    target: str | None = None  # The column that models trained on it are to predict
    sets: int = 1  # So many independent syntheses of one measurement
    # So many tables may be measured for it beside those that the spec lists; None: as many as it takes.
    max_added: int | None = None


def wishes_of(
    entries: Sequence[tuple[str, TableEntry]], context: TableContext, problems: list[str]
) -> dict[ColumnSet, WideWish]:
    """What is wished of each wide table that says more than its columns.

    entries, problems: As of `engine.spec.tables.expanded`, which tells all else that is wrong with the
        tables.
    """
    out = {}
    for place, entry in entries:
        given = [key for key in KEYS if getattr(entry, key) is not None]
        before = len(problems)
        for key in given:
            problems += _misplaced(f"{place}.{key}", entry, context)
        if not given or entry.columns is None or context.max_width is None:
            continue
        table = column_set(named_columns(entry.columns, context))
        if entry.target is not None and entry.target not in table:
            problems.append(
                f"{place}.target: {entry.target!r} is not a column of the table{did_you_mean(entry.target, table)}"
            )
        sets = 1 if entry.sets is None else entry.sets
        if not 1 <= sets <= MOST_SETS:
            problems.append(f"{place}.sets: wants a number from 1 to {MOST_SETS}, not {sets}")
        if entry.max_added is not None and entry.max_added < 0:
            problems.append(f"{place}.max_added: wants 0 or more, not {entry.max_added}")
        if len(problems) == before:
            out[table] = WideWish(target=entry.target, sets=sets, max_added=entry.max_added)
    return out


def _misplaced(where: str, entry: TableEntry, context: TableContext) -> list[str]:
    """Why a key does not belong to an entry."""
    if entry.columns is None:
        return [f'{where}: belongs to "columns" only']
    if context.max_width is None:
        return [f"{where}: mode dp fits all tables at once; it is for wide tables of mode sticky"]
    if len(set(named_columns(entry.columns, context))) <= context.max_width:
        return [
            f"{where}: belongs to wide tables, of more than {context.max_width} columns: others are measured"
        ]
    return []
