"""Which released table answers a question: always one, and always the same.

Takes the columns that a statement reads and the released tables with their sizes; gives the smallest table that covers
them. With one canonical table per answer, the same question always gets the same figure.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from engine.errors import NotAnswerable
from engine.schema import MAX_WIDTH, ColumnSet, column_set
from engine.store import GeneratorCard
from engine.texts import names_text, spec_entry

N_NEAREST = 3
"""Number of nearest tables that a refusal lists."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Routing:
    """How a statement would be answered."""

    columns: ColumnSet  # Columns of the logical table that it reads
    # The released table that answers; None if it does not read the logical table.
    table: ColumnSet | None
    card: GeneratorCard | None  # That table's card
    warnings: tuple[str, ...] = ()  # Why the answer means less than it seems

    def __str__(self) -> str:
        warned = [f"Warning: {text}" for text in self.warnings]
        if self.table is None or self.card is None:
            return "\n".join(["Does not read the logical table: runs unchanged.", *warned])
        reads = ", ".join(self.columns) or "no column (any table answers)"
        return "\n".join(
            [
                f"Reads {reads}.",
                f"Answered from {', '.join(self.table)}.",
                *warned,
                *self.card.sentences(),
            ]
        )


def route(
    columns: Collection[str],
    tables: Mapping[ColumnSet, int],
    *,
    max_width: int | None = MAX_WIDTH,
    parts: Collection[ColumnSet] = (),
) -> ColumnSet:
    """Return the table that answers: fewest columns, then fewest distinct rows, then first by name.

    columns: The columns that are read; with none (as for `count(*)`), any table can answer.
    max_width: Widest table that a spec can request; None: any.
    parts: Columns of each part of the statement; a refusal says whether each part alone has a table.
    """
    wanted = frozenset(columns)
    covering = [t for t in tables if wanted.issubset(t)]
    if covering:
        return min(covering, key=lambda t: (len(t), tables[t], t))
    error = uncovered(wanted, tables, max_width=max_width)
    if len(set(parts)) > 1 and all(any(frozenset(p).issubset(t) for t in tables) for p in parts):
        alone = "; ".join(names_text(p) or "no column" for p in sorted(set(parts)))
        raise NotAnswerable(
            f"{error}\nA statement is answered from one table. Each part alone has one: {alone}. Query the "
            "parts separately.",
            missing=error.missing,
            nearest=error.nearest,
        )
    raise error


def nearest(columns: ColumnSet, tables: Collection[ColumnSet]) -> tuple[ColumnSet, ...]:
    """Return the tables that share the most columns with a combination, narrow ones first."""
    wanted = frozenset(columns)
    ranked = sorted(tables, key=lambda t: (-len(wanted & frozenset(t)), len(t), t))
    return tuple(t for t in ranked[:N_NEAREST] if wanted & frozenset(t))


def _to_add(columns: ColumnSet, *, is_added: bool) -> str:
    """How the custodian can add a table; in mode dp by a build, which costs no privacy budget there."""
    if not is_added:
        return f"To add it, put this in the spec and rebuild:\n{spec_entry(columns)}"
    return (
        f"To add it: tablepack add RELEASE --columns {shlex.quote(names_text(columns, ','))} "
        f"(in Python: release.add([{list(columns)}])), or put this in the spec and rebuild:\n{spec_entry(columns)}"
    )


def to_measure(columns: Collection[str]) -> str:
    """How columns that only a modelled table has together could be measured; empty: they are too many."""
    if len(columns) > MAX_WIDTH:
        return ""
    wanted = column_set(tuple(columns))
    return (
        f"No measured table has {names_text(wanted)} together; the custodian can add one: tablepack add RELEASE "
        f"--columns {shlex.quote(names_text(wanted, ','))}"
    )


def no_such_table(columns: ColumnSet, tables: Collection[ColumnSet]) -> NotAnswerable:
    """Return the refusal of a table that is given by exactly its columns."""
    near = nearest(columns, tables)
    return NotAnswerable(
        f"There is no table of {names_text(columns) or 'no column'}. Nearest: "
        f"{'; '.join(map(names_text, near)) or 'none'}.\n{spec_entry(columns)}",
        nearest=near,
    )


def uncovered(
    columns: Collection[str],
    tables: Collection[ColumnSet],
    *,
    max_width: int | None = MAX_WIDTH,
    head: str = "",
) -> NotAnswerable:
    """Return the refusal of a combination that no table covers; `head` comes before the message."""
    wanted = column_set(tuple(columns))
    near = nearest(wanted, tables)
    best = max((frozenset(wanted) & frozenset(t) for t in near), key=len, default=frozenset())
    missing = tuple(c for c in wanted if c not in best)
    names = "; ".join(map(names_text, near)) or "none has any of these columns"
    if max_width is not None and len(wanted) > max_width:
        return NotAnswerable(
            f"{head}The statement reads {len(wanted)} columns, but no released table has them together: "
            "name fewer columns (SELECT *, SUMMARIZE, whole rows and PIVOT without GROUP BY read all of them).\n"
            f"Nearest tables: {names}.",
            missing=missing,
            nearest=near,
        )
    return NotAnswerable(
        f"{head}No released table has {names_text(wanted)} together.\n"
        f"Nearest tables: {names}.\n{_to_add(wanted, is_added=max_width is not None)}",
        missing=missing,
        nearest=near,
    )
