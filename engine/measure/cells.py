"""Sources of cells in DuckDB, out of core where the rows are many, and in Spark. Confidential: true counts.

Few rows are counted in numpy (`engine.mechanism.ArrayCells`). Cost downstream follows the number of distinct cells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np

from engine.cell_keys import CodeSpan, comparable_keys
from engine.measure.lattice import rollup_bases
from engine.mechanism import AdditiveEntities, Cells, PairedEntities, Rows, chosen_share, stacked
from engine.schema import ColumnSet, Int64Array
from engine.source import EntityColumn

if TYPE_CHECKING:
    from engine.source.spark.rows import Groups, SparkRows

_DENSE = 16
"""A list of all combinations of small numbers may be so many times as long as the rows looked up in it."""
_LOW_64 = "CAST(18446744073709551615 AS HUGEINT)"


class DuckDBCells:
    """Counts cells of a table of encoded rows in DuckDB.

    n_rows: So many rows. With it, of many column sets the narrower are rolled up from the cells of wider ones
        (`lattice`).
    """

    def __init__(
        self,
        con: duckdb.DuckDBPyConnection,
        table: str,
        sql_names: dict[str, str],
        entities: tuple[EntityColumn, ...],
        spans: dict[str, CodeSpan] | None = None,
        n_rows: int = 0,
    ) -> None:
        self._con = con
        self._table = table
        self._n_rows = n_rows
        self._sql_names = sql_names
        self._entities = entities
        self._spans = spans or {}
        self._rollups: dict[ColumnSet, str] = {}  # tables of cells of column sets
        self._numbers = count()

    def cells(self, columns: ColumnSet) -> Cells:
        """GROUP BY the column set: rows, and token sums of additive entities; pairs for all others."""
        return self._cells(columns, self._grouped(columns, self._table))

    def each(self, column_sets: Sequence[ColumnSet]) -> Iterator[Cells]:
        """One after the other; narrow ones from the cells of wider ones where that costs less."""
        sizes = {name: span.n_codes for name, span in self._spans.items()}
        bases = rollup_bases(column_sets, sizes, self._n_rows)
        left = Counter(bases)
        for columns, base in zip(column_sets, bases, strict=True):
            left[base] -= 1
            if left[base] or base in self._rollups:
                yield self._cells(columns, self._grouped(columns, self._table_of(base)))
            else:
                yield self.cells(columns)
            if not left[base] and base in self._rollups:
                self._con.execute(f"DROP TABLE {self._rollups.pop(base)}")

    def rows(self, columns: ColumnSet, most: int) -> Rows:
        """Those whose tokens are small."""
        entity = self._entities[0]
        names = [self._sql_names[name] for name in columns]
        chosen = ", ".join(names)
        if entity.tokens is None:
            share, limit = chosen_share(self._n_rows, most)
            where = "" if share == 1 else f" WHERE l{entity.number}_0 < {limit}"
            found = self._fetched(
                f"SELECT {chosen} FROM {self._table}{where} ORDER BY l{entity.number}_0"
            )
            numbers = None
        else:
            share, limit = chosen_share(len(entity.tokens), most)
            own = f"e{entity.number}"
            taken = np.flatnonzero(entity.tokens[:, 0] < np.uint64(limit))
            found = self._con.execute(
                f"SELECT {chosen}, {own} FROM {self._table} SEMI JOIN "
                f"(SELECT unnest($taken) AS {own}) USING ({own}) ORDER BY {own}, {chosen}",
                {"taken": taken.tolist()},
            ).fetchnumpy()
            numbers = np.searchsorted(taken, np.asarray(found[own], dtype=np.int64))
        codes = self._codes(columns, stacked([found[name] for name in names], len(found[names[0]])))
        return Rows(
            codes={name: codes[:, j] for j, name in enumerate(columns)}, entity=numbers, share=share
        )

    def _table_of(self, base: ColumnSet) -> str:
        """The table of the cells of a column set, made at its first use."""
        if base not in self._rollups:
            name = f"rollup_{next(self._numbers)}"
            chosen = self._statement(base, self._table)
            self._con.execute(f"CREATE TABLE {name} AS {chosen}")
            self._rollups[base] = name
        return self._rollups[base]

    def _cells(self, columns: ColumnSet, groups: dict[str, Any]) -> Cells:
        names = [self._sql_names[column] for column in columns]
        stored = stacked([groups[name] for name in names], len(groups["n"]))
        return Cells(
            columns=columns,
            codes=self._codes(columns, stored),
            n_rows=groups["n"].astype(np.int64),
            entities=tuple(
                self._of_entity(entity, names, groups, stored) for entity in self._entities
            ),
        )

    def _codes(self, columns: ColumnSet, stored: Int64Array) -> Int64Array:
        """Codes of stored numbers, column by column."""
        codes = stored.copy()
        for place, column in enumerate(columns):
            if column in self._spans:
                codes[:, place] = self._spans[column].codes(stored[:, place])
        return codes

    def _statement(self, columns: ColumnSet, table: str) -> str:
        """SQL of rows and sums of tokens of a column set, over the rows or over cells."""
        names = [self._sql_names[column] for column in columns]
        n = "count(*)" if table == self._table else "CAST(sum(n) AS BIGINT)"
        sums = [f"{n} AS n"]
        for entity in self._entities:
            if entity.tokens is None:
                sums += [
                    f"CAST(sum(l{entity.number}_{lane}) & {_LOW_64} AS UBIGINT) AS l{entity.number}_{lane}"
                    for lane in (0, 1)
                ]
        return _group_by(names, sums, table)

    def _grouped(self, columns: ColumnSet, table: str) -> dict[str, Any]:
        return self._fetched(self._statement(columns, table))

    def _fetched(self, statement: str) -> dict[str, Any]:
        fetched: dict[str, Any] = self._con.execute(statement).fetchnumpy()
        return fetched

    def _of_entity(
        self,
        entity: EntityColumn,
        names: list[str],
        groups: dict[str, Any],
        stored: Int64Array,
    ) -> AdditiveEntities | PairedEntities:
        """What one kind of entity holds in the cells."""
        if entity.tokens is None:
            lanes = [
                np.asarray(groups[f"l{entity.number}_{lane}"], dtype=np.uint64) for lane in (0, 1)
            ]
            return AdditiveEntities(lanes=np.column_stack(lanes))
        column = f"e{entity.number}"
        pairs = self._fetched(_group_by([*names, column], ["count(*) AS n"], self._table))
        of_pairs = stacked([pairs[name] for name in names], len(pairs["n"]))
        return PairedEntities(
            cell=_positions(stored, of_pairs),
            entity=pairs[column].astype(np.int64),
            n_rows=pairs["n"].astype(np.int64),
            tokens=entity.tokens,
        )


class SparkCells:
    """Counts cells of rows that Spark holds.

    ranks: Of ranked columns, the code of each position in their lists; none: positions are codes.
    """

    def __init__(
        self,
        rows: SparkRows,
        sql_names: dict[str, str],
        entities: tuple[EntityColumn, ...],
        ranks: dict[str, Int64Array] | None = None,
    ) -> None:
        self._rows = rows
        self._sql_names = sql_names
        self._entities = entities
        self._ranks = {sql_names[name]: codes for name, codes in (ranks or {}).items()}
        self._spans = {
            short: CodeSpan(low=0, high=int(codes.max(initial=-1)))
            for short, codes in self._ranks.items()
        }

    def cells(self, columns: ColumnSet) -> Cells:
        """Count one column set: a scan of all rows."""
        return next(self.each([columns]))

    def each(self, column_sets: Sequence[ColumnSet]) -> Iterator[Cells]:
        """Count column sets, several in one scan; pairs of cells and entities in scans of their own."""
        lanes = [
            f"l{entity.number}_{lane}"
            for entity in self._entities
            if entity.tokens is None
            for lane in (0, 1)
        ]
        several = [entity for entity in self._entities if entity.tokens is not None]
        sums = self._groups(column_sets, lanes=tuple(lanes))
        pairs = [self._groups(column_sets, by=(f"e{entity.number}",)) for entity in several]
        for columns, groups, *of_pairs in zip(column_sets, sums, *pairs, strict=True):
            paired = dict(zip((entity.number for entity in several), of_pairs, strict=True))
            yield Cells(
                columns=columns,
                codes=groups.codes,
                n_rows=groups.n,
                entities=tuple(
                    AdditiveEntities(lanes=groups.lanes(entity.number))
                    if entity.tokens is None
                    else PairedEntities(
                        cell=_positions(groups.codes, paired[entity.number].codes),
                        entity=paired[entity.number].by[f"e{entity.number}"],
                        n_rows=paired[entity.number].n,
                        tokens=entity.tokens,
                    )
                    for entity in self._entities
                ),
            )

    def rows(self, columns: ColumnSet, most: int) -> Rows:
        """Those whose tokens are small."""
        entity = self._entities[0]
        n = self._rows.n_rows() if entity.tokens is None else len(entity.tokens)
        share, limit = chosen_share(n, most)
        number = [] if entity.tokens is None else [f"e{entity.number}"]
        names = [self._sql_names[name] for name in columns]
        held = self._rows.below(f"l{entity.number}_0", limit, [*names, *number])
        order = np.lexsort([*held.values()])  # Spark knows none
        held = {name: values[order] for name, values in held.items()}
        codes = {}
        for column, name in zip(columns, names, strict=True):
            codes[column] = held[name]
            if name in self._ranks:  # null stands at the end
                codes[column] = self._ranks[name][np.where(held[name] >= 0, held[name], -1)]
        numbers = None
        if number:
            numbers = np.unique(held[number[0]], return_inverse=True)[1].astype(np.int64)
        return Rows(codes=codes, entity=numbers, share=share)

    def _groups(
        self,
        column_sets: Sequence[ColumnSet],
        *,
        by: tuple[str, ...] = (),
        lanes: tuple[str, ...] = (),
    ) -> Iterator[Groups]:
        """Cells as Spark counts them."""
        sets = [tuple(self._sql_names[name] for name in columns) for columns in column_sets]
        return self._rows.groups(sets, by=by, lanes=lanes, ranks=self._ranks, spans=self._spans)


def _group_by(names: list[str], sums: list[str], table: str) -> str:
    """One GROUP BY; without group columns a table of no rows gives no cell."""
    by = f"GROUP BY {', '.join(names)}" if names else "HAVING count(*) > 0"
    return f"SELECT {', '.join([*names, *sums])} FROM {table} {by}"


def _positions(codes: Int64Array, wanted: Int64Array) -> Int64Array:
    """Position in `codes` (distinct rows) of each row of `wanted`, all of which occur."""
    if not codes.shape[1]:
        return np.zeros(len(wanted), dtype=np.int64)
    if codes.min(initial=0) >= 0:  # small numbers, or no nulls
        sizes = [int(size) + 1 for size in codes.max(axis=0, initial=0)]
        mine, theirs, n_keys = comparable_keys(codes, wanted, sizes)
        if n_keys <= _DENSE * (len(codes) + len(wanted)):
            place = np.empty(n_keys, dtype=np.int64)
            place[mine] = np.arange(len(codes))
            return place[theirs]
        order = np.argsort(mine)
        return order[np.searchsorted(mine[order], theirs)]
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
