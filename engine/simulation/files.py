"""Files of the simulated census: from codes to values, from blocks to one Parquet file.

Takes the codes of a block; gives a Parquet part, and in the end one file of all parts, streamed by
DuckDB (no pyarrow).

Invariant: rows keep the order of blocks and of rows in a block; `MISSING` (and NaN) becomes null.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd

from engine.schema import Column, literal, quoted
from engine.simulation.codes import COUNTRIES, REASONS
from engine.simulation.columns import CENSUS_COLUMNS, EVENT_COLUMNS
from engine.simulation.work import MISSING, Columns

_UNLISTED = {"birth_country": COUNTRIES, "reason": REASONS}
_VALUES = {
    column.name: pd.CategoricalDtype(
        pd.Index([*(column.domain or _UNLISTED[column.name])], dtype=object)
    )
    for column in (*CENSUS_COLUMNS, *EVENT_COLUMNS)
    if column.is_ranked
}


def write_part(
    connection: duckdb.DuckDBPyConnection,
    columns: tuple[Column, ...],
    values: Columns,
    path: Path,
) -> None:
    """Write the drawn codes of one block as values, one Parquet file.

    values: Codes; columns not listed are left out.
    """
    frame = pd.DataFrame(
        {column.name: _for_frame(column, values[column.name]) for column in columns}, copy=False
    )
    chosen = ", ".join(f"{_decoded(column)} AS {quoted(column.name)}" for column in columns)
    connection.register("block", frame)
    connection.execute(
        f"COPY (SELECT {chosen} FROM block) TO {literal(str(path))} (FORMAT parquet)"
    )
    connection.unregister("block")


def _for_frame(column: Column, codes: np.ndarray[Any, np.dtype[Any]]) -> Any:
    if not column.is_ranked:
        return codes
    positions = np.maximum(codes, -1).astype(np.int16)
    return pd.Categorical.from_codes(positions, dtype=_VALUES[column.name])


def _decoded(column: Column) -> str:
    """SQL that turns the codes of a block into values."""
    name = quoted(column.name)
    known = f"nullif({name}, {MISSING})"
    if column.kind == "integer":
        return f"CAST({known} AS BIGINT)"
    if column.kind == "real":
        return f"CASE WHEN isnan({name}) THEN NULL ELSE {name} END"
    if column.kind == "decimal":
        return f"CAST({known} / 100.0 AS DECIMAL(10, 2))"
    if column.kind == "boolean":
        return f"{known} = 1"
    if column.kind == "date":
        return f"DATE '1970-01-01' + CAST({known} AS INTEGER)"
    if column.kind == "timestamp":
        return f"make_timestamp({name})"
    return f"CAST({name} AS VARCHAR)"


def merge_parts(
    connection: duckdb.DuckDBPyConnection, parts: list[Path], path: Path, csv: bool
) -> None:
    """Write one Parquet file from the parts, in their order, and remove them.

    csv: Write the same as CSV beside it.
    """
    listed = ", ".join(literal(str(part)) for part in parts)
    connection.execute(
        f"COPY (FROM read_parquet([{listed}])) TO {literal(str(path))}"
        " (FORMAT parquet, COMPRESSION zstd)"
    )
    for part in parts:
        part.unlink()
    if csv:
        connection.execute(
            f"COPY (FROM read_parquet({literal(str(path))}))"
            f" TO {literal(str(path.with_suffix('.csv')))} (FORMAT csv, HEADER)"
        )
