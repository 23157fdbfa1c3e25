"""Counts who holds what in one column: entities, never rows, so that nobody with many rows decides alone.

Takes a column of the relation `source`; gives the table `cells(cell, n)`, distinct cells with the number of entities
that hold each, and the number of entities that hold any cell of some form. With several entity columns the smallest
number counts: it changes by one at most where one entity of any kind comes or goes.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from engine.schema import Column, quoted
from engine.source.encoding import cell_sql
from engine.source.relation import fetch

_PLACE = "the source"


def list_cells(
    con: duckdb.DuckDBPyConnection, name: str, sql_type: str, entities: Sequence[str], place: str
) -> None:
    """Make the table `cells`: distinct cells that are not null or empty, and how many entities hold each.

    Parameters
    ----------
    sql_type : str
        The column's DuckDB type.
    entities : sequence of str
        Entity columns; empty: each row is one.
    place : str
        What is being read, for messages.
    """
    cell = plain_cell(name, sql_type)
    counts = [f"count(DISTINCT {quoted(entity)})" for entity in entities] or ["count(*)"]
    n = counts[0] if len(counts) == 1 else f"least({', '.join(counts)})"
    fetch(
        con,
        "CREATE OR REPLACE TABLE cells AS SELECT * FROM "
        f"(SELECT {cell} AS cell, {n} AS n FROM source GROUP BY ({cell})) WHERE cell IS NOT NULL",
        place,
    )


def plain_cell(name: str, sql_type: str) -> str:
    """SQL of a cell as the source has it; an empty text is null."""
    return cell_sql(Column(name=name, kind="text", value_type="text"), sql_type)


def holders(
    con: duckdb.DuckDBPyConnection,
    name: str,
    sql_type: str,
    entities: Sequence[str],
    conditions: Sequence[str],
    where: str = "true",
) -> list[tuple[int, int]]:
    """How many entities hold at least one cell of each kind, and how many one of another kind.

    Parameters
    ----------
    conditions : sequence of str
        SQL on `cell` and `n`, one a kind of cell.
    where : str
        SQL on `cell`: the cells that are looked at.
    """
    # Each distinct cell is judged once: that is what costs, not the join.
    judged = ", ".join(f"coalesce({c}, false) AS t{j}" for j, c in enumerate(conditions))
    flagged = f"SELECT cell, n, {judged} FROM cells WHERE {where}"
    places = range(len(conditions))
    found = []
    for entity in entities:
        held = ", ".join(f"bool_or(t{j}) AS h{j}, bool_or(NOT t{j}) AS o{j}" for j in places)
        one = (
            f"SELECT 1 AS n, {held} FROM (SELECT {plain_cell(name, sql_type)} AS held, {quoted(entity)} AS who "
            f"FROM source) JOIN ({flagged}) ON held = cell GROUP BY who"
        )
        found.append(_summed(con, one, [f"{flag}{j}" for j in places for flag in "ho"]))
    if not entities:
        other = ", ".join(f"NOT t{j} AS o{j}" for j in places)
        flags = [f"{flag}{j}" for j in places for flag in "to"]
        found.append(_summed(con, f"SELECT *, {other} FROM ({flagged})", flags))
    least = [min(of_kind) for of_kind in zip(*found, strict=True)]
    return list(zip(least[::2], least[1::2], strict=True))


def _summed(con: duckdb.DuckDBPyConnection, relation: str, flags: Sequence[str]) -> list[int]:
    """Sum of n where each flag holds."""
    sums = ", ".join(f"coalesce(sum(n) FILTER ({flag}), 0)" for flag in flags)
    return [int(n) for n in fetch(con, f"SELECT {sums} FROM ({relation})", _PLACE)[0]]
