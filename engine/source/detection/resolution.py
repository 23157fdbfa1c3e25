"""Detects the grid step of a column of numbers.

Takes a column of the relation `source`; gives the step. Invariant: a step as fine as a single entity's number
would reveal that entity, so the step is one that enough entities show, by a noisy threshold; so is the size that the
step of a continuous column is taken from.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from engine.schema import Column, ColumnKind, Resolution, literal, quoted
from engine.source.detection.thresholds import Thresholds
from engine.source.encoding import cell_sql
from engine.source.relation import fetch

NUMBER_PATTERN = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
"""What counts as a number in a column of texts."""
_PLACE = "the source"


def detected_resolution(
    con: duckdb.DuckDBPyConnection,
    name: str,
    sql_type: str,
    entities: Sequence[str],
    kind: ColumnKind,
    thresholds: Thresholds,
) -> tuple[Resolution, bool]:
    """Find the finest step that enough entities show.

    Parameters
    ----------
    con : DuckDBPyConnection
        Holds the relation `source`.
    name, sql_type : str
        Column and its DuckDB type.
    entities : sequence of str
        Entity columns; empty: each row is one.
    kind : str
        "real" or "decimal".
    thresholds : Thresholds
        What numbers of entities are compared to.

    Returns
    -------
    bool
        It is a step of few decimal digits; else the column is continuous and the step a power of two.
    """
    cell = cell_sql(Column(name=name, kind="text", value_type="text"), sql_type)
    text = f"CAST({cell} AS VARCHAR)"
    digits = (
        f"CASE WHEN contains(lower({text}), 'e') THEN 30 "
        f"ELSE length(rtrim(split_part({text}, '.', 2), '0')) END"
    )
    is_number = f"regexp_full_match({text}, {literal(NUMBER_PATTERN)})"
    enough = thresholds.of("resolution", name, "digits")
    reached = _reached(con, digits, is_number, entities, enough)
    if (kind == "decimal" and reached <= 6) or reached <= 4:
        return Resolution(base=10, exponent=-reached), True
    # Continuous: about a million steps up to the size that enough entities reach.
    number = f"TRY_CAST({cell} AS DOUBLE)"
    size = _reached(
        con,
        f"CAST(floor(log2(abs({number}))) AS BIGINT)",
        f"{is_number} AND {number} <> 0 AND isfinite({number})",
        entities,
        thresholds.of("resolution", name, "size"),
    )
    return Resolution(base=2, exponent=max(min(size - 20, 60), -60)), False


def _reached(
    con: duckdb.DuckDBPyConnection,
    metric: str,
    condition: str,
    entities: Sequence[str],
    enough: int,
) -> int:
    """The largest value of a whole-number metric that enough entities reach; 0 if none."""
    reached = []
    for entity in entities or (None,):
        measured = f"SELECT {metric} AS m FROM source WHERE {condition}"
        if entity is not None:
            measured = (
                f"SELECT max({metric}) AS m FROM source WHERE {condition} GROUP BY {quoted(entity)}"
            )
        n_so_far, best = 0, 0
        for m, n in fetch(
            con, f"SELECT m, count(*) FROM ({measured}) GROUP BY m ORDER BY m DESC", _PLACE
        ):
            n_so_far += n
            if n_so_far >= enough:
                best = int(m)
                break
        reached.append(best)
    return min(reached)
