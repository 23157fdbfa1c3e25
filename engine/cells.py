"""Cells: true counts of the distinct combinations of a column set. Confidential; nothing here leaves `measure`.

One protocol, `CellSource`: any engine that can do COUNT and SUM can serve it. DuckDB does here, out of core where
the source is large. Cost downstream follows the number of distinct cells, not rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import duckdb
import numpy as np

from engine.schema import ColumnSet, Int64Array, UInt64Array

_MOD = "18446744073709551616"


@dataclass(frozen=True, kw_only=True, slots=True)
class AdditiveEntities:
    """Entities that have one row each: sums of cells are sums of distinct entities.

    Attributes
    ----------
    lanes : ndarray of uint64, shape (n_cells, 2)
        Sums of the token lanes of each cell's entities, mod 2**64.
    """

    lanes: UInt64Array


@dataclass(frozen=True, kw_only=True, slots=True)
class PairedEntities:
    """Entities with several rows: which entity has how many rows in which cell.

    Attributes
    ----------
    cell : ndarray of int64, shape (n_pairs,)
        Position of the cell.
    entity : ndarray of int64, shape (n_pairs,)
        Dense entity number, a position in `tokens`.
    n_rows : ndarray of int64, shape (n_pairs,)
    tokens : ndarray of uint64, shape (n_entities, 2)
    """

    cell: Int64Array
    entity: Int64Array
    n_rows: Int64Array
    tokens: UInt64Array


@dataclass(frozen=True, kw_only=True, slots=True)
class Cells:
    """The distinct combinations of a column set.

    Attributes
    ----------
    columns : ColumnSet
    codes : ndarray of int64, shape (n_cells, n_columns)
    n_rows : ndarray of int64, shape (n_cells,)
    entities : tuple of AdditiveEntities or PairedEntities
        One for each kind of entity, at least one.
    """

    columns: ColumnSet
    codes: Int64Array
    n_rows: Int64Array
    entities: tuple[AdditiveEntities | PairedEntities, ...]


class CellSource(Protocol):
    """Anything that can count."""

    def cells(self, columns: ColumnSet) -> Cells:
        """Count the distinct combinations of a column set; empty: everything is one cell."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EntityColumn:
    """How one kind of entity stands in the table of encoded rows.

    Attributes
    ----------
    number : int
        Its columns are e<number> (dense id) and, if additive, l<number>_0 and l<number>_1 (token lanes).
    tokens : ndarray of uint64, shape (n_entities, 2), or None
        None: each entity has one row, and its lanes stand in the rows.
    """

    number: int
    tokens: UInt64Array | None = field(repr=False)


class DuckDBCells:
    """Counts cells of a table of encoded rows in DuckDB.

    Parameters
    ----------
    con : DuckDBPyConnection
    table : str
        Its name.
    sql_names : dict
        SQL column of each column name.
    entities : tuple of EntityColumn
    """

    def __init__(
        self,
        con: duckdb.DuckDBPyConnection,
        table: str,
        sql_names: dict[str, str],
        entities: tuple[EntityColumn, ...],
    ) -> None:
        self._con = con
        self._table = table
        self._sql_names = sql_names
        self._entities = entities

    def cells(self, columns: ColumnSet) -> Cells:
        """GROUP BY the column set: rows, and token sums of additive entities; pairs for all others."""
        names = [self._sql_names[column] for column in columns]
        sums = ["count(*) AS n"]
        for entity in self._entities:
            if entity.tokens is None:
                sums += [
                    f"CAST(sum(l{entity.number}_{lane}) % {_MOD} AS UBIGINT) AS l{entity.number}_{lane}"
                    for lane in (0, 1)
                ]
        found = self._group(names, sums)
        codes = _stack([found[name] for name in names], len(found["n"]))
        return Cells(
            columns=columns,
            codes=codes,
            n_rows=found["n"].astype(np.int64),
            entities=tuple(
                self._of_entity(entity, names, found, codes) for entity in self._entities
            ),
        )

    def _group(self, names: list[str], sums: list[str]) -> dict[str, Any]:
        """Run one GROUP BY; without group columns a table of no rows gives no cell."""
        chosen = ", ".join([*names, *sums])
        by = f"GROUP BY {', '.join(names)}" if names else "HAVING count(*) > 0"
        found: dict[str, Any] = self._con.execute(
            f"SELECT {chosen} FROM {self._table} {by}"
        ).fetchnumpy()
        return found

    def _of_entity(
        self,
        entity: EntityColumn,
        names: list[str],
        found: dict[str, Any],
        codes: Int64Array,
    ) -> AdditiveEntities | PairedEntities:
        """What one kind of entity holds in the cells."""
        if entity.tokens is None:
            lanes = [
                np.asarray(found[f"l{entity.number}_{lane}"], dtype=np.uint64) for lane in (0, 1)
            ]
            return AdditiveEntities(lanes=np.column_stack(lanes))
        column = f"e{entity.number}"
        pairs = self._group([*names, column], ["count(*) AS n"])
        pair_codes = _stack([pairs[name] for name in names], len(pairs["n"]))
        return PairedEntities(
            cell=_positions(codes, pair_codes),
            entity=pairs[column].astype(np.int64),
            n_rows=pairs["n"].astype(np.int64),
            tokens=entity.tokens,
        )


def _stack(columns: list[Any], n: int) -> Int64Array:
    """Columns side by side, shape (n, 0) if there are none."""
    if not columns:
        return np.zeros((n, 0), dtype=np.int64)
    return np.column_stack([np.asarray(column, dtype=np.int64) for column in columns])


def _positions(codes: Int64Array, wanted: Int64Array) -> Int64Array:
    """Position in `codes` (distinct rows) of each row of `wanted`, all of which occur."""
    if not codes.shape[1]:
        return np.zeros(len(wanted), dtype=np.int64)
    together = np.concatenate([codes, wanted])
    order = np.lexsort(together.T[::-1])
    placed = together[order]
    fresh = np.ones(len(placed), dtype=bool)
    fresh[1:] = (placed[1:] != placed[:-1]).any(axis=1)
    group = np.empty(len(placed), dtype=np.int64)
    group[order] = np.cumsum(fresh) - 1
    position = np.empty(int(fresh.sum()), dtype=np.int64)
    position[group[: len(codes)]] = np.arange(len(codes))
    return position[group[len(codes) :]]
