"""What executors do: our own encoding, tokens and counting, on the Arrow batches of a partition.

Takes batches; gives batches. A task is a function that is called once a partition. Confidential values and keys come as
broadcasts, never as arguments. Invariant: an error of a task says which rule of ours failed, never what was read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from itertools import chain
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from engine.cell_keys import CodeSpan
from engine.errors import place_of
from engine.keys import entity_tokens, row_tokens
from engine.schema import Column, Entity, Int64Array, UInt64Array, quoted
from engine.source.encoding import cell_sql, value_sql
from engine.source.entities import codes_as_words
from engine.source.ingest import Coded, coded_sql, given_values, level_columns, make_list
from engine.source.relation import Source, lent
from engine.source.scratch import confidential_connection, scratch_directory
from engine.sticky_prf import siphash, siphash128

Batches = Iterator[pa.RecordBatch]
Task = Callable[..., Batches]
MEMORY = "1GB"
"""Of the database in which an executor's partition is worked on; what is more lies in its scratch folder."""
BATCH = 100_000
FULL, BROKEN = "tablepack: disk or memory is full", "tablepack: broken"
_OUT_OF_ROOM = (duckdb.OutOfMemoryException, duckdb.IOException, OSError, MemoryError)


class TaskFailed(RuntimeError):
    """A task of ours failed; the message contains no data."""


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


def task(work: Callable[..., Iterator[pa.Table]]) -> Task:
    """Let what makes tables of batches give batches of one schema, as Spark wants them."""

    @wraps(work)
    def run(batches: Batches, *, schema: pa.Schema, **given: Any) -> Batches:
        with _database() as con:
            for table in work(con, batches, **given):
                arrays = [table.column(held.name).cast(held.type) for held in schema]
                yield from pa.table(arrays, schema=schema).to_batches(max_chunksize=BATCH)

    return run


def _table(con: duckdb.DuckDBPyConnection, sql: str) -> pa.Table:
    """The rows of a statement."""
    return con.sql(sql).to_arrow_table()


def _reader(batches: Batches) -> pa.RecordBatchReader | None:
    """A reader of a partition's batches; None: there is none."""
    first = next(batches, None)
    if first is None:
        return None
    return pa.RecordBatchReader.from_batches(first.schema, chain([first], batches))


def _is_loaded(con: duckdb.DuckDBPyConnection, batches: Batches) -> bool:
    """Make the table `held` of a partition, unless it has no rows."""
    reader = _reader(batches)
    if reader is not None:
        with lent(con, "arrived", reader):
            con.execute("CREATE OR REPLACE TABLE held AS SELECT * FROM arrived")
    return reader is not None


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
        every = ", ".join(["*", *level_columns(con, self.columns, self.types)])
        with lent(con, "batch", pa.Table.from_batches([batch])):
            con.execute(
                f"CREATE OR REPLACE TABLE source AS SELECT {every} FROM (SELECT {listed} FROM batch)"
            )


@task
def list_values(
    con: duckdb.DuckDBPyConnection, batches: Batches, *, cells: Cells, columns: Mapping[str, Column]
) -> Iterator[pa.Table]:
    """The distinct values of ranked columns, by short name: a row has one value, in the column that it is of."""
    for batch in batches:
        cells.put(con, batch)
        parts = []
        for short, column in columns.items():
            sql_type = cells.types[column.name]
            value = value_sql(column, sql_type, cell_sql(column, sql_type))
            parts.append(
                f"SELECT * FROM (SELECT DISTINCT {value} AS {short} FROM source) WHERE {short} IS NOT NULL"
            )
        yield _table(con, " UNION ALL BY NAME ".join(parts))


@task
def encode(
    con: duckdb.DuckDBPyConnection,
    batches: Batches,
    *,
    cells: Cells,
    coded: Coded,
    lists: Any,
) -> Iterator[pa.Table]:
    """Rows as codes (`c0`, `c1`, ...; null where a cell does not fit) and typed ids (`e0`, ...), by short name.

    lists: Of a mapping: the values of ranked columns, ascending.
    """
    for short, values in lists.value.items():
        make_list(con, short, given_values(coded.columns[short]), [list(values)])
    sizes = {short: len(values) for short, values in lists.value.items()}
    sql = coded_sql(Source(columns=(), types=dict(cells.types)), coded.every, (), sizes)
    for batch in batches:
        cells.put(con, batch)
        yield _table(con, sql)


@task
def look(
    con: duckdb.DuckDBPyConnection, batches: Batches, *, cells: Cells, sql: str
) -> Iterator[pa.Table]:
    """Whether any row of the relation `source` is such and such: a row of flags x0, x1, ... a batch."""
    for batch in batches:
        cells.put(con, batch)
        table = _table(con, sql)
        yield table.rename_columns([f"x{i}" for i in range(table.num_columns)])


@task
def name_entities(
    _con: duckdb.DuckDBPyConnection, batches: Batches, *, names: Mapping[str, Entity], secret: Any
) -> Iterator[pa.Table]:
    """Ids replaced by the two lanes of their tokens, as signed numbers; each id is hashed once a batch.

    names: What names the entities, by short name. secret: The key of tokens, and nothing else.
    """
    for batch in batches:
        arrays = {name: batch.column(name) for name in batch.schema.names if name not in names}
        for short, column in names.items():
            ids = batch.column(short).dictionary_encode()
            lanes = entity_tokens(secret.value, ids.dictionary.to_pylist(), entity_column=column)
            of_rows = lanes[np.asarray(ids.indices)].view(np.int64)
            arrays |= {f"l{short[1:]}_{lane}": pa.array(of_rows[:, lane]) for lane in (0, 1)}
        yield pa.table(arrays)


@task
def fingerprint(
    _con: duckdb.DuckDBPyConnection,
    batches: Batches,
    *,
    identity: tuple[str, ...],
    words: Any,
    secret: Any,
) -> Iterator[pa.Table]:
    """Rows with the fingerprint of their identity columns, `f0` and `f1`, as signed numbers.

    words: Of a mapping: for ranked columns, by short name, 128 keyed bits for each value; see `words_of_values`.
    secret: The key of fingerprints.
    """
    for batch in batches:
        prints = siphash128(secret.value, _words_of(batch, identity, words.value)).view(np.int64)
        table = pa.Table.from_batches([batch])
        for lane in (0, 1):
            table = table.append_column(f"f{lane}", pa.array(prints[:, lane]))
        yield table


def _words_of(
    batch: pa.RecordBatch, names: Sequence[str], words: Mapping[str, UInt64Array]
) -> list[UInt64Array]:
    """Words that say what some columns of rows hold, as `row_words` gives them."""
    return codes_as_words(
        [(np.asarray(batch.column(name), dtype=np.int64), words.get(name)) for name in names]
    )


@task
def number_equals(
    con: duckdb.DuckDBPyConnection, batches: Batches, *, order: tuple[str, ...], secret: Any
) -> Iterator[pa.Table]:
    """Tokens of rows that are entities: rows of equal fingerprint, which lie in one partition, are numbered.

    order: Short names of all columns, in the order by which equals are numbered. secret: The key of tokens.
    """
    if not _is_loaded(con, batches):
        return
    codes = ", ".join(order)
    numbered = (
        f"SELECT {codes}, f0, f1, row_number() OVER (PARTITION BY f0, f1 ORDER BY {codes}) AS "
        "occurrence FROM held"
    )
    for batch in con.sql(numbered).to_arrow_reader(BATCH):
        prints = np.column_stack([np.asarray(batch.column(f)) for f in ("f0", "f1")])
        number = np.asarray(batch.column("occurrence")).view(np.uint64)
        lanes = row_tokens(secret.value, prints.view(np.uint64), number).view(np.int64)
        arrays = {name: batch.column(name) for name in order}
        yield pa.table(arrays | {f"l0_{lane}": pa.array(lanes[:, lane]) for lane in (0, 1)})


@task
def sketch(
    con: duckdb.DuckDBPyConnection,
    batches: Batches,
    *,
    of: tuple[str, ...],
    is_named: bool,
    words: Any,
    secret: Any,
    size: int,
) -> Iterator[pa.Table]:
    """The smallest keyed hashes of a partition's entities: of ids by their text, of rows by their words.

    of: Short names: the one of ids, or the identity columns. words, secret: As in `fingerprint`; the key is that of
    sketches. size: Hashes kept.
    """
    kept: UInt64Array = np.zeros(0, dtype=np.uint64)
    for batch in batches:
        if is_named:
            sql = f"SELECT DISTINCT md5_number_lower(CAST({of[0]} AS VARCHAR)) AS h FROM batch"
            with lent(con, "batch", pa.Table.from_batches([batch])):
                held = [np.asarray(_table(con, sql).column("h"), dtype=np.uint64)]
        else:
            held = _words_of(batch, of, words.value)
        kept = np.unique(np.concatenate([kept, siphash(secret.value, held)]))[:size]
    yield pa.table({"h": kept.view(np.int64)})


@task
def sum_up(con: duckdb.DuckDBPyConnection, batches: Batches, *, sums: Any) -> Iterator[pa.Table]:
    """Sums over a partition, as texts: they may be longer than 64 bits.

    sums: Of a list of SQL expressions over the relation `held`; some hold secret factors.
    """
    reader = _reader(batches)
    if reader is None:
        return
    texts = [f"CAST({sql} AS VARCHAR) AS s{i}" for i, sql in enumerate(sums.value)]
    with lent(con, "held", reader):
        yield _table(con, f"SELECT {', '.join(texts)} FROM held HAVING count(*) > 0")


@dataclass(frozen=True, kw_only=True)
class Codes:
    """Descriptions of the codes of the counted columns, by short name."""

    spans: Mapping[str, CodeSpan]
    # Of ranked columns: the code of each position in the list; null is the last.
    ranks: Mapping[str, Int64Array]


@task
def count(
    con: duckdb.DuckDBPyConnection,
    batches: Batches,
    *,
    sets: tuple[tuple[str, ...], ...],
    by: tuple[str, ...],
    lanes: tuple[str, ...],
    codes: Any,
) -> Iterator[pa.Table]:
    """Cells of many column sets from one look at a partition.

    A row a cell: the number of its set, small codes, entities, rows, halves of sums.

    by: Columns of entities that are counted apart. lanes: Columns that are summed, as two halves each. codes: Of the
    `Codes` of the columns that are counted.
    """
    used = tuple(dict.fromkeys(name for names in sets for name in names))
    width = max(map(len, sets))
    sums = [
        f"CAST(sum({name}_{half}) AS BIGINT) AS {name}_{half}"
        for name in lanes
        for half in ("low", "high")
    ]
    small = (_small(batch, used, by, lanes, codes.value) for batch in batches)
    if not _is_loaded(con, small):
        return
    for number, names in enumerate(sets):
        keys = [f"CAST({name} AS BIGINT) AS k{place}" for place, name in enumerate(names)]
        keys += [f"CAST(0 AS BIGINT) AS k{place}" for place in range(len(names), width)]
        chosen = ", ".join([f"{number} AS s", *keys, *by, "count(*) AS n", *sums])
        groups = ", ".join([*names, *by])
        grouped = f"GROUP BY {groups}" if groups else "HAVING count(*) > 0"
        yield _table(con, f"SELECT {chosen} FROM held {grouped}")


def _small(
    batch: pa.RecordBatch,
    used: tuple[str, ...],
    by: tuple[str, ...],
    lanes: tuple[str, ...],
    told: Codes,
) -> pa.RecordBatch:
    """The columns that are counted, as small as they can be."""
    found: dict[str, Any] = {}
    for short in used:
        codes = np.asarray(batch.column(short), dtype=np.int64)
        if short in told.ranks:
            codes = told.ranks[short][np.maximum(codes, -1)]  # null is the last
        found[short] = told.spans[short].numbers(codes)
    found |= {name: batch.column(name) for name in by}
    for name in lanes:
        lane = np.asarray(batch.column(name), dtype=np.int64)
        found[f"{name}_low"] = lane.astype(np.uint32)
        found[f"{name}_high"] = (lane >> 32).astype(np.int32)
    found = found or {"nothing": np.zeros(batch.num_rows, dtype=np.int8)}
    return pa.RecordBatch.from_arrays([pa.array(held) for held in found.values()], list(found))
