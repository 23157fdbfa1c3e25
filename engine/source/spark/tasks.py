"""What executors do: our own encoding, tokens and counting, on the Arrow batches of a partition.

Takes batches; gives batches. Each task is a frozen dataclass that is called once a partition. Confidential values and
keys come as broadcasts, never as fields. Invariant: an error of a task says which rule of ours failed, never what was
read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from engine.cell_keys import CodeSpan
from engine.errors import place_of
from engine.keys import entity_tokens, row_tokens
from engine.schema import Column, Entity, Int64Array, UInt64Array, quoted
from engine.source.encoding import cell_sql, id_sql, value_sql
from engine.source.entities import codes_as_words
from engine.source.ingest import coded_sql, level_columns
from engine.source.relation import Source
from engine.source.scratch import confidential_connection, scratch_directory
from engine.sticky_prf import siphash, siphash128

Batches = Iterator[pa.RecordBatch]
MEMORY = "1GB"
"""Of the database in which an executor's partition is worked on; what is more lies in its scratch folder."""
BATCH = 100_000
CODED_AT_ONCE = 16
FULL, BROKEN = "tablepack: disk or memory is full", "tablepack: broken"
_OUT_OF_ROOM = (duckdb.OutOfMemoryException, duckdb.IOException, OSError, MemoryError)


class TaskFailed(RuntimeError):
    """A task of ours failed; says nothing of the data."""


@contextmanager
def _database() -> Iterator[duckdb.DuckDBPyConnection]:
    """A database for one partition, in scratch space that is swept; errors in our own words."""
    said = ""
    try:
        with scratch_directory() as scratch:
            con = confidential_connection(scratch, threads=1, memory_limit=MEMORY)
            try:
                yield con
            finally:
                con.close()
    except _OUT_OF_ROOM:
        said = FULL
    except GeneratorExit:
        raise
    except Exception as error:  # noqa: BLE001 -- no error may carry what it was at
        said = f"{BROKEN}: {type(error).__name__} in {place_of(error)}"
    if said:
        raise TaskFailed(said)


def _table(con: duckdb.DuckDBPyConnection, sql: str) -> pa.Table:
    """The rows of a statement."""
    return con.sql(sql).to_arrow_table()


def _given(table: pa.Table, schema: pa.Schema) -> Batches:
    """A table as batches of one schema, as Spark wants them."""
    arrays = [
        table.column(name).cast(held.type) for name, held in zip(schema.names, schema, strict=True)
    ]
    yield from pa.table(arrays, schema=schema).to_batches(max_chunksize=BATCH)


def _reader(batches: Batches) -> pa.RecordBatchReader | None:
    """A reader of a partition's batches; None: there is none."""
    first = next(batches, None)
    if first is None:
        return None
    return pa.RecordBatchReader.from_batches(first.schema, chain([first], batches))


def _loaded(con: duckdb.DuckDBPyConnection, batches: Batches) -> bool:
    """Make the table `held` of a partition; False: it has no rows."""
    reader = _reader(batches)
    if reader is None:
        return False
    con.register("arrived", reader)
    con.execute("CREATE OR REPLACE TABLE held AS SELECT * FROM arrived")
    con.unregister("arrived")
    return True


def list_tables(con: duckdb.DuckDBPyConnection, lists: Mapping[str, bytes]) -> None:
    """Make tables of Arrow streams, by name."""
    for name, stream in lists.items():
        con.register("one_list", pa.ipc.open_stream(stream).read_all())
        con.execute(f"CREATE TABLE {name} AS SELECT * FROM one_list")
        con.unregister("one_list")


@dataclass(frozen=True, kw_only=True)
class Cells:
    """The relation `source` of a batch: the cells as they were read."""

    types: Mapping[str, str]  # DuckDB type by column
    is_text: bool  # An empty cell is an empty text, which Spark reads as null
    columns: tuple[Column, ...]  # Those of the spec, of which some may be levels of others

    def put(self, con: duckdb.DuckDBPyConnection, batch: pa.RecordBatch) -> None:
        """Make the table `source` of a batch."""
        listed = ", ".join(
            f"coalesce({quoted(name)}, '') AS {quoted(name)}" if self.is_text else quoted(name)
            for name in batch.schema.names
        )
        con.register("batch", pa.Table.from_batches([batch]))
        every = ", ".join(["*", *level_columns(con, self.columns, self.types)])
        con.execute(
            f"CREATE OR REPLACE TABLE source AS SELECT {every} FROM (SELECT {listed} FROM batch)"
        )
        con.unregister("batch")


@dataclass(frozen=True, kw_only=True)
class ListValues:
    """The distinct values of ranked columns: a row has one value, in the column that it is of."""

    cells: Cells
    columns: Mapping[str, Column]  # By short name
    schema: pa.Schema  # A field each

    def __call__(self, batches: Batches) -> Batches:
        """Give each value once a batch at most."""
        with _database() as con:
            for batch in batches:
                self.cells.put(con, batch)
                parts = []
                for short, column in self.columns.items():
                    sql_type = self.cells.types[column.name]
                    value = value_sql(column, sql_type, cell_sql(column, sql_type))
                    parts.append(
                        f"SELECT * FROM (SELECT DISTINCT {value} AS {short} FROM source) WHERE {short} IS NOT NULL"
                    )
                yield from _given(_table(con, " UNION ALL BY NAME ".join(parts)), self.schema)


@dataclass(frozen=True, kw_only=True)
class Encode:
    """Rows as codes (`c0`, `c1`, ...; null where a cell does not fit) and typed ids (`e0`, ...)."""

    cells: Cells
    # columns, entities: By short name.
    columns: Mapping[str, Column]
    entities: Mapping[str, tuple[Column, ...]]
    lists: Any  # Of a mapping: the tables `list_<short>` of ranked columns, as Arrow streams
    schema: pa.Schema

    def __call__(self, batches: Batches) -> Batches:
        """Encode batch by batch."""
        with _database() as con:
            list_tables(con, self.lists.value)
            for batch in batches:
                self.cells.put(con, batch)
                yield from _given(self._coded(con), self.schema)

    def _coded(self, con: duckdb.DuckDBPyConnection) -> pa.Table:
        """Codes of `source`, some columns at a time: what a statement takes grows by the square of their number."""
        found: dict[str, pa.ChunkedArray] = {}
        shorts = list(self.columns)
        source = Source(columns=(), types=dict(self.cells.types))
        ranked = [short for short, column in self.columns.items() if column.is_ranked]
        statements = [
            coded_sql(
                source,
                {s: (self.columns[s],) for s in shorts[first : first + CODED_AT_ONCE]},
                ranked,
                "rowid AS r",
            )
            for first in range(0, len(shorts), CODED_AT_ONCE)
        ]
        for short, columns in self.entities.items():
            cells = [cell_sql(c, self.cells.types[c.name]) for c in columns]
            value = id_sql(columns, self.cells.types, cells)
            statements.append(f"SELECT rowid AS r, {value} AS {short} FROM source")
        for statement in statements:
            part = _table(con, f"{statement} ORDER BY r")
            found |= {name: part.column(name) for name in part.column_names if name != "r"}
        return pa.table(found)


@dataclass(frozen=True, kw_only=True)
class Look:
    """Whether any row of the relation `source` is such and such: a row of flags a batch."""

    cells: Cells
    sql: str  # A SELECT of flags
    schema: pa.Schema

    def __call__(self, batches: Batches) -> Batches:
        """Look at each batch."""
        with _database() as con:
            for batch in batches:
                self.cells.put(con, batch)
                table = _table(con, self.sql)
                yield from _given(table.rename_columns(self.schema.names), self.schema)


@dataclass(frozen=True, kw_only=True)
class NameEntities:
    """Ids replaced by the two lanes of their tokens, as signed numbers."""

    names: Mapping[str, Entity]  # What names the entities, by short name
    secret: Any  # The key of tokens, and nothing else
    schema: pa.Schema

    def __call__(self, batches: Batches) -> Batches:
        """Name the entities of each batch; each id is hashed once a batch."""
        with _database():
            for batch in batches:
                arrays = {
                    name: batch.column(name)
                    for name in batch.schema.names
                    if name not in self.names
                }
                for short, column in self.names.items():
                    ids = batch.column(short).dictionary_encode()
                    lanes = entity_tokens(
                        self.secret.value, ids.dictionary.to_pylist(), entity_column=column
                    )
                    of_rows = lanes[np.asarray(ids.indices)].view(np.int64)
                    arrays |= {
                        f"l{short[1:]}_{lane}": pa.array(of_rows[:, lane]) for lane in (0, 1)
                    }
                yield from _given(pa.table(arrays), self.schema)


@dataclass(frozen=True, kw_only=True)
class Fingerprint:
    """Rows with the fingerprint of their identity columns, `f0` and `f1`, as signed numbers."""

    identity: tuple[str, ...]  # Short names
    # Of a mapping: for ranked columns, by short name, 128 keyed bits for each value; see `words_of_values`.
    words: Any
    secret: Any  # The key of fingerprints
    schema: pa.Schema

    def __call__(self, batches: Batches) -> Batches:
        """Put the fingerprints beside the codes."""
        with _database():
            for batch in batches:
                words = words_of_batch(batch, self.identity, self.words.value)
                prints = siphash128(self.secret.value, words).view(np.int64)
                table = pa.Table.from_batches([batch])
                for lane in (0, 1):
                    table = table.append_column(f"f{lane}", pa.array(prints[:, lane]))
                yield from _given(table, self.schema)


def words_of_batch(
    batch: pa.RecordBatch, names: Sequence[str], words: Mapping[str, UInt64Array]
) -> list[UInt64Array]:
    """Words that say what some columns of rows hold, as `row_words` gives them."""
    return codes_as_words(
        [(np.asarray(batch.column(name), dtype=np.int64), words.get(name)) for name in names]
    )


@dataclass(frozen=True, kw_only=True)
class NumberEquals:
    """Tokens of rows that are entities: rows of equal fingerprint, which lie in one partition, are numbered."""

    order: tuple[str, ...]  # Short names of all columns, in the order by which equals are numbered
    secret: Any  # The key of tokens
    schema: pa.Schema

    def __call__(self, batches: Batches) -> Batches:
        """Number equals in the order of all their codes."""
        codes = ", ".join(self.order)
        numbered = (
            f"SELECT {codes}, f0, f1, row_number() OVER (PARTITION BY f0, f1 ORDER BY {codes}) AS "
            "occurrence FROM held"
        )
        with _database() as con:
            if not _loaded(con, batches):
                return
            for batch in con.sql(numbered).to_arrow_reader(BATCH):
                prints = np.column_stack([np.asarray(batch.column(f)) for f in ("f0", "f1")])
                number = np.asarray(batch.column("occurrence")).view(np.uint64)
                lanes = row_tokens(self.secret.value, prints.view(np.uint64), number).view(np.int64)
                arrays = {name: batch.column(name) for name in self.order}
                arrays |= {f"l0_{lane}": pa.array(lanes[:, lane]) for lane in (0, 1)}
                yield from _given(pa.table(arrays), self.schema)


@dataclass(frozen=True, kw_only=True)
class Sketched:
    """The smallest keyed hashes of entities: of ids by their text, of rows by their words."""

    of: tuple[str, ...]  # Short names: the one of ids, or the identity columns
    is_named: bool  # It is ids
    # words, secret: As in `Fingerprint`; the key is that of sketches.
    words: Any
    secret: Any
    size: int  # Hashes kept
    schema: pa.Schema

    def __call__(self, batches: Batches) -> Batches:
        """Give the smallest of a partition."""
        with _database() as con:
            kept: UInt64Array = np.zeros(0, dtype=np.uint64)
            for batch in batches:
                if self.is_named:
                    con.register("batch", pa.Table.from_batches([batch]))
                    sql = f"SELECT DISTINCT md5_number_lower(CAST({self.of[0]} AS VARCHAR)) AS h FROM batch"
                    words = [np.asarray(_table(con, sql).column("h"), dtype=np.uint64)]
                    con.unregister("batch")
                else:
                    words = words_of_batch(batch, self.of, self.words.value)
                hashes = siphash(self.secret.value, words)
                kept = np.unique(np.concatenate([kept, hashes]))[: self.size]
            yield from _given(pa.table({"h": kept.view(np.int64)}), self.schema)


@dataclass(frozen=True, kw_only=True)
class Sums:
    """Sums over a partition, as texts: they may be longer than 64 bits."""

    sums: Any  # Of a list of SQL expressions over the relation `held`; some hold secret factors
    schema: pa.Schema

    def __call__(self, batches: Batches) -> Batches:
        """Give one row."""
        reader = _reader(batches)
        if reader is None:
            return
        with _database() as con:
            con.register("held", reader)
            texts = [f"CAST({sql} AS VARCHAR) AS s{i}" for i, sql in enumerate(self.sums.value)]
            sql = f"SELECT {', '.join(texts)} FROM held HAVING count(*) > 0"
            yield from _given(_table(con, sql), self.schema)


@dataclass(frozen=True, kw_only=True)
class Codes:
    """What is told of the codes of the columns that are counted, by short name."""

    spans: Mapping[str, CodeSpan]
    # Of ranked columns: the code of each position in the list; null is the last.
    ranks: Mapping[str, Int64Array]


@dataclass(frozen=True, kw_only=True)
class Count:
    """Cells of many column sets from one look at a partition."""

    sets: tuple[tuple[str, ...], ...]  # Short names of each
    by: tuple[str, ...]  # Columns of entities that are counted apart
    lanes: tuple[str, ...]  # Columns that are summed, as two halves each
    codes: Any  # Of the `Codes` of the columns that they hold
    schema: pa.Schema

    def __call__(self, batches: Batches) -> Batches:
        """Give a row a cell: the number of its set, small codes, entities, rows, halves of sums."""
        with _database() as con:
            if _loaded(con, map(self._small, batches)):
                for number, names in enumerate(self.sets):
                    yield from _given(_table(con, self._grouped(number, names)), self.schema)

    def _small(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns that are counted, as small as they can be."""
        told: Codes = self.codes.value
        found: dict[str, Any] = {}
        for short in dict.fromkeys(name for names in self.sets for name in names):
            codes = np.asarray(batch.column(short), dtype=np.int64)
            if short in told.ranks:
                codes = told.ranks[short][np.maximum(codes, -1)]  # null is the last
            found[short] = told.spans[short].numbers(codes)
        found |= {name: batch.column(name) for name in self.by}
        for name in self.lanes:
            lane = np.asarray(batch.column(name), dtype=np.int64)
            found[f"{name}_low"] = lane.astype(np.uint32)
            found[f"{name}_high"] = (lane >> 32).astype(np.int32)
        found = found or {"nothing": np.zeros(batch.num_rows, dtype=np.int8)}
        return pa.RecordBatch.from_arrays([pa.array(held) for held in found.values()], list(found))

    def _grouped(self, number: int, names: tuple[str, ...]) -> str:
        """The cells of one set."""
        width = sum(name.startswith("k") for name in self.schema.names)
        keys = [f"CAST({name} AS BIGINT) AS k{place}" for place, name in enumerate(names)]
        keys += [f"CAST(0 AS BIGINT) AS k{place}" for place in range(len(names), width)]
        sums = [
            f"CAST(sum({name}_{half}) AS BIGINT) AS {name}_{half}"
            for name in self.lanes
            for half in ("low", "high")
        ]
        chosen = ", ".join([f"{number} AS s", *keys, *self.by, "count(*) AS n", *sums])
        groups = ", ".join([*names, *self.by])
        by = f"GROUP BY {groups}" if groups else "HAVING count(*) > 0"
        return f"SELECT {chosen} FROM held {by}"
