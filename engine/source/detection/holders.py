"""Counts who holds what in some columns: entities, never rows, so that nobody with many rows decides alone.

Takes a block of columns of the relation `source`; gives the table `cells(j, cell, n)`, distinct cells of the column at
place j with the number of entities that hold each, and the number of entities that hold any cell of some form. With
several entity columns the smallest number counts: it changes by one at most where one entity of any kind comes or goes.
Columns are looked at in blocks, since in a wide source a statement costs more than its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from engine.schema import Column, Entity, columns_of, quoted
from engine.source.encoding import cell_sql, joined_sql
from engine.source.relation import fetch

CELLS = 300_000
"""So many cells a block has at most, since they are laid out below each other; of a longer source, one column's."""
MOST_COLUMNS = 256
"""So many columns a block has at most."""
_PLACE = "the source"


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """Columns of one type that are looked at together."""

    con: duckdb.DuckDBPyConnection  # Holds the relation `source`
    names: tuple[str, ...]  # The columns
    sql_type: str  # Their DuckDB type
    entities: tuple[Entity, ...] = ()  # Kinds of entities; empty: each row is one
    place: str = _PLACE  # What is being read, for messages

    def places(self, names: Iterable[str]) -> str:
        """SQL that says whether j is the place of one of these columns."""
        chosen = set(names)
        if chosen.issuperset(self.names):
            return "true"
        places = (str(j) for j, name in enumerate(self.names) if name in chosen)
        return f"j IN ({', '.join(places)})"

    def laid_out(self, entities: Sequence[Entity] = ()) -> str:
        """SQL of all cells below each other: j, cell, and who0, who1, ... for kinds of entities."""
        cells = [plain_cell(name, self.sql_type) for name in self.names]
        who = "".join(f", {who_sql(entity)} AS who{i}" for i, entity in enumerate(entities))
        if len(cells) == 1:
            return f"SELECT 0 AS j, {cells[0]} AS cell{who} FROM source"
        places = ", ".join(map(str, range(len(cells))))
        listed = ", ".join(cells)
        return f"SELECT unnest([{places}]) AS j, unnest([{listed}]) AS cell{who} FROM source"

    def fetch(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of a statement."""
        return fetch(self.con, sql, self.place)


def blocks_of(
    con: duckdb.DuckDBPyConnection,
    types: Mapping[str, str],
    entities: Sequence[Entity],
    *,
    n_rows: int,
    place: str = _PLACE,
) -> list[Block]:
    """Put columns of one type together, as many as a block may have."""
    alike: dict[str, list[str]] = {}
    for name, sql_type in types.items():
        alike.setdefault(sql_type, []).append(name)
    most = max(1, min(MOST_COLUMNS, CELLS // max(n_rows, 1)))
    return [
        Block(
            con=con,
            names=tuple(names[start : start + most]),
            sql_type=sql_type,
            entities=tuple(entities),
            place=place,
        )
        for sql_type, names in alike.items()
        for start in range(0, len(names), most)
    ]


def list_cells(block: Block) -> None:
    """Make the table `cells`: distinct cells that are not null or empty, and how many entities hold each."""
    counts = [f"count(DISTINCT who{i})" for i in range(len(block.entities))] or ["count(*)"]
    n = counts[0] if len(counts) == 1 else f"least({', '.join(counts)})"
    block.fetch(
        f"CREATE OR REPLACE TABLE cells AS SELECT j, cell, {n} AS n FROM ({block.laid_out(block.entities)}) "
        "WHERE cell IS NOT NULL GROUP BY j, cell"
    )


def who_sql(entity: Entity) -> str:
    """SQL of whom a row of the relation `source` is about."""
    return joined_sql([quoted(name) for name in columns_of(entity)])


def plain_cell(name: str, sql_type: str) -> str:
    """SQL of a cell as the source has it; an empty text is null."""
    return cell_sql(Column(name=name, kind="text", value_type="text"), sql_type)


def by_place(values: Iterable[str | int]) -> str:
    """SQL of what belongs to the column at place j, given for each place in turn."""
    return f"([{', '.join(map(str, values))}])[j + 1]"


def holders(
    block: Block, conditions: Sequence[str], where: str = "true"
) -> dict[str, list[tuple[int, int]]]:
    """How many entities hold at least one cell of each kind, and how many one of another kind, by column."""
    # Each distinct cell is judged once: that is what costs, not the join.
    judged = ", ".join(f"coalesce({c}, false) AS t{i}" for i, c in enumerate(conditions))
    flagged = f"SELECT j, cell, n, {judged} FROM cells WHERE {where}"
    kinds = range(len(conditions))
    found = []
    for entity in block.entities:
        held = ", ".join(f"bool_or(t{i}) AS h{i}, bool_or(NOT t{i}) AS o{i}" for i in kinds)
        one = (
            f"SELECT j, 1 AS n, {held} FROM ({block.laid_out((entity,))}) JOIN ({flagged}) USING (j, cell) "
            "GROUP BY j, who0"
        )
        found.append(_summed(block, one, [f"{flag}{i}" for i in kinds for flag in "ho"]))
    if not block.entities:
        other = ", ".join(f"NOT t{i} AS o{i}" for i in kinds)
        flags = [f"{flag}{i}" for i in kinds for flag in "to"]
        found.append(_summed(block, f"SELECT *, {other} FROM ({flagged})", flags))
    least = {
        name: [min(of_kind) for of_kind in zip(*(sums[name] for sums in found), strict=True)]
        for name in block.names
    }
    return {name: list(zip(n[::2], n[1::2], strict=True)) for name, n in least.items()}


def _summed(block: Block, relation: str, flags: Sequence[str]) -> dict[str, list[int]]:
    """Sum of n where each flag holds, by column."""
    sums = ", ".join(f"coalesce(sum(n) FILTER ({flag}), 0)" for flag in flags)
    found = dict.fromkeys(block.names, [0] * len(flags))
    for j, *numbers in block.fetch(f"SELECT j, {sums} FROM ({relation}) GROUP BY j"):
        found[block.names[j]] = [int(n) for n in numbers]
    return found
