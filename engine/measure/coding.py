"""Coding: the encoded rows as they are counted. Ranks, small numbers, and only what tables need.

Takes the table of encoded rows with tokens and the released values of the ranked columns; gives the source of cells
of all tables. How a code is stored decides how fast it is counted, and nothing else: cells have the codes
themselves again. Confidential.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.cell_keys import CodeSpan
from engine.measure.cells import DuckDBCells, SparkCells
from engine.mechanism import ArrayCells, CellSource
from engine.schema import NULL_CODE, OTHER_CODE, Column, Int64Array, UInt64Array
from engine.source import ROWS_WITH_TOKENS, EntityColumn, Ingested

CODED_ROWS = "coded_rows"
FEW_ROWS = 50_000
"""Fewer rows are counted in numpy: planning a query takes longer than sorting them."""


def coded_cells(
    ingested: Ingested,
    columns: tuple[Column, ...],
    values: dict[str, Mapping[int, object]],
    entities: tuple[EntityColumn, ...],
) -> CellSource:
    """Code the rows, and count from what was made: `coded_rows`, or arrays of few rows.

    The table `rows_with_tokens` is dropped, unless it is kept.

    values: Released values and prefixes of each ranked column by code; what no prefix covers has one code.
    """
    if ingested.spark is not None:
        ranks = {name: ingested.ranks(name, released) for name, released in values.items()}
        return SparkCells(ingested.spark, ingested.sql_names, entities, ranks)
    if ingested.n_rows < FEW_ROWS:
        return _in_arrays(ingested, columns, values, entities)
    spans = _code_rows(ingested, columns, values, entities)
    return DuckDBCells(
        ingested.con, CODED_ROWS, ingested.sql_names, entities, spans, ingested.n_rows
    )


def _code_rows(
    ingested: Ingested,
    columns: tuple[Column, ...],
    values: dict[str, Mapping[int, object]],
    entities: tuple[EntityColumn, ...],
) -> dict[str, CodeSpan]:
    """Make `coded_rows` and drop `rows_with_tokens` unless it is kept; the columns that are stored as small numbers."""
    con, chosen, joins, spans = ingested.con, [], "", _spans(ingested, columns, values)
    for column in columns:
        sql, span = ingested.sql_names[column.name], spans[column.name]
        code = f"r.{sql}"
        if column.name in values:
            _store_ranks(ingested, column.name, values[column.name])
            joins += f" LEFT JOIN ranks_{sql} ON ranks_{sql}.id = r.{sql}"
            code = f"coalesce(ranks_{sql}.code, {NULL_CODE})"
        chosen.append(f"{span.small(code) if span.sql_type else code} AS {sql}")
    for entity in entities:
        own = (
            [f"l{entity.number}_{lane}" for lane in (0, 1)]
            if entity.tokens is None
            else [f"e{entity.number}"]
        )
        chosen += [f"r.{name}" for name in own]
    con.execute(
        f"CREATE TABLE {CODED_ROWS} AS SELECT {', '.join(chosen)} FROM {ROWS_WITH_TOKENS} r{joins}"
    )
    for name in values:
        con.execute(f"DROP TABLE ranks_{ingested.sql_names[name]}")
    con.execute(f"DROP TABLE {ROWS_WITH_TOKENS}")
    return {name: span for name, span in spans.items() if span.sql_type}


def _spans(
    ingested: Ingested, columns: tuple[Column, ...], values: dict[str, Mapping[int, object]]
) -> dict[str, CodeSpan]:
    """Smallest and largest code of each column. They decide how rows are stored here, and nothing else."""
    spans = {
        name: CodeSpan(low=0, high=max(released, default=-1)) for name, released in values.items()
    }
    plain = [column.name for column in columns if column.name not in values]
    if plain:
        ends = ", ".join(
            f"min({sql}) FILTER ({sql} > {OTHER_CODE}), max({sql}) FILTER ({sql} > {OTHER_CODE})"
            for sql in (ingested.sql_names[name] for name in plain)
        )
        limits = ingested.con.execute(f"SELECT {ends} FROM {ROWS_WITH_TOKENS}").fetchone() or ()
        for name, low, high in zip(plain, limits[::2], limits[1::2], strict=True):
            spans[name] = CodeSpan(low=0, high=-1) if low is None else CodeSpan(low=low, high=high)
    return spans


def _in_arrays(
    ingested: Ingested,
    columns: tuple[Column, ...],
    values: dict[str, Mapping[int, object]],
    entities: tuple[EntityColumn, ...],
) -> ArrayCells:
    """The coded rows as arrays; joins would cost more than this for each column."""
    arrays = ingested.con.execute(f"SELECT * FROM {ROWS_WITH_TOKENS}").fetchnumpy()
    codes: dict[str, Int64Array] = {}
    for column in columns:
        stored = np.asarray(arrays[ingested.sql_names[column.name]], dtype=np.int64)
        if column.name in values:
            ranks = ingested.ranks(column.name, values[column.name])
            stored = ranks[np.where(stored >= 0, stored, -1)]
        codes[column.name] = stored
    held: list[tuple[NDArray[Any], UInt64Array | None]] = []
    for entity in entities:
        if entity.tokens is None:
            lanes = [arrays[f"l{entity.number}_{lane}"] for lane in (0, 1)]
            held.append((np.array(lanes, dtype=np.uint64).T, None))  # each lane in one piece
        else:
            number = np.asarray(arrays[f"e{entity.number}"], dtype=np.int64)
            held.append((number, entity.tokens))
    ingested.con.execute(f"DROP TABLE {ROWS_WITH_TOKENS}")
    return ArrayCells(codes, ingested.n_rows, tuple(held))


def _store_ranks(ingested: Ingested, name: str, released: Mapping[int, object]) -> None:
    """Make `ranks_<column>`: a row a position in a dictionary."""
    con, sql = ingested.con, ingested.sql_names[name]
    codes = ingested.ranks(name, released)[:-1].tolist()
    con.execute(f"CREATE TABLE ranks_{sql} (id BIGINT, code BIGINT)")
    if codes:
        con.execute(
            f"INSERT INTO ranks_{sql} SELECT unnest(range(len($codes))), unnest($codes)",
            {"codes": codes},
        )
