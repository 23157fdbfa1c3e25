"""CONFIDENTIAL. Who is protected: entity tokens beside the encoded rows, digests of what the source holds, a sketch.

Takes the table of encoded rows; gives it token lanes (entities of one row each) or dense numbers with a token table
(entities of many rows). Without an entity column each row is one: its id is the fingerprint of its identity columns and
the number among its equals, so that row order never matters. The keyed digests of each column, by which a vintage is
pinned, do not depend on the order of rows either. The sketch is the smallest of the keyed hashes of all entities
(bottom-k; Broder 1997, doi:10.1109/SEQUEN.1997.666900): by it a vintage knows another one of nearly the same data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np

from engine.errors import InternalError, SpecError
from engine.keys import MasterKey, entity_tokens, pack_strings, row_tokens, typed_id
from engine.progress import Progress, silent
from engine.schema import Column, Int64Array, UInt64Array, entity_name, quoted
from engine.source.charges import Sketch
from engine.source.ingest import Ingested
from engine.source.relation import lent, stored
from engine.sticky_prf import siphash, siphash128

if TYPE_CHECKING:
    from engine.source.spark.rows import SparkRows

CHUNK_ROWS = 4 * 122_880
"""Whole groups of rows, as DuckDB stores them."""
ROWS_WITH_TOKENS = "rows_with_tokens"
SKETCHED = 18
"""Hundredths of the stage "tokens" that are done once the source is sketched."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EntityColumn:
    """How one kind of entity stands in the table of encoded rows."""

    # Its columns are e<number> (dense id) and, if additive, l<number>_0 and l<number>_1 (token lanes).
    number: int
    # shape (n_entities, 2): None: each entity has one row, and its lanes stand in the rows.
    tokens: UInt64Array | None = field(repr=False)


def add_tokens(
    ingested: Ingested,
    key: MasterKey,
    vintage: str,
    identity: tuple[str, ...],
    order: tuple[str, ...] = (),
    report: Progress = silent,
) -> tuple[EntityColumn, ...]:
    """Make the table `rows_with_tokens` and drop `rows`.

    order: Columns that the vintage has seen before, in the order in which they came.

    Returns: One for each entity column; one for the rows themselves if there is none.
    """
    entity_key = key.derive("entity", vintage)
    if ingested.spark is not None:
        return _tokens_in_spark(ingested, ingested.spark, key, vintage, identity, order)
    lanes: dict[int, Iterator[UInt64Array]] = {}
    if ingested.entity_names:
        tokens = [
            map(
                partial(entity_tokens, entity_key, entity_column=name),
                ingested.entity_ids(number, chunk=CHUNK_ROWS),
            )
            for number, name in enumerate(ingested.entity_names)
        ]
        lanes, none = {j: tokens[j] for j in sorted(ingested.own_ids)}, np.zeros((0, 2), np.uint64)
        columns = tuple(
            EntityColumn(number=j, tokens=None if j in lanes else np.concatenate([none, *of_ids]))
            for j, of_ids in enumerate(tokens)
        )
    else:
        print_key = key.derive("fingerprint", vintage, identity)
        lanes = {0: _tokens_of_rows(ingested, print_key, entity_key, identity, order)}
        columns = (EntityColumn(number=0, tokens=None),)
    _put_lanes(ingested, lanes, report)
    return columns


def _tokens_in_spark(
    ingested: Ingested,
    rows: SparkRows,
    key: MasterKey,
    vintage: str,
    identity: tuple[str, ...],
    order: tuple[str, ...],
) -> tuple[EntityColumn, ...]:
    """Let executors make the tokens."""
    names, entity_key = ingested.sql_names, key.derive("entity", vintage)
    codes = [*names.values()]
    if ingested.entity_names:
        found = rows.name_entities(codes, ingested.entity_names, ingested.n_rows, entity_key)
        return tuple(EntityColumn(number=j, tokens=tokens) for j, tokens in enumerate(found))
    print_key = key.derive("fingerprint", vintage, identity)
    words = identity_words(ingested, print_key, identity)
    rows.number_rows(
        codes,
        {names[name]: held for name, held in words.items()},
        tuple(names[name] for name in identity),
        in_order(ingested, order),
        fingerprint_key=print_key,
        entity_key=entity_key,
    )
    return (EntityColumn(number=0, tokens=None),)


def _put_lanes(
    ingested: Ingested, lanes: Mapping[int, Iterator[UInt64Array]], report: Progress
) -> None:
    """Make `rows_with_tokens` of the rows with lanes beside them, some rows at a time, and drop `rows`.

    lanes: By number of an entity column, those of `CHUNK_ROWS` rows each, in their order: never all of them
        at a time.
    """
    con = ingested.con
    if not lanes:
        con.execute(f"ALTER TABLE rows RENAME TO {ROWS_WITH_TOKENS}")
        return
    names = [f"l{number}_{lane}" for number in lanes for lane in (0, 1)]
    held = [*ingested.sql_names.values()]
    held += [f"e{j}" for j in range(len(ingested.entity_names)) if j not in lanes]
    held += [f"CAST(NULL AS UBIGINT) AS {name}" for name in names]
    nullable = {ingested.sql_names[c.name] for c in ingested.columns if c.nullable}
    select = f"SELECT {', '.join(held)} FROM rows"
    how = stored(con, select, "the source", nullable, may_misfit=False)
    con.execute(f"CREATE TABLE {ROWS_WITH_TOKENS} ({how.ddl})")
    firsts = range(0, ingested.n_rows, CHUNK_ROWS)
    for first, parts in zip(firsts, zip(*lanes.values(), strict=True), strict=True):
        beside = np.concatenate(parts, axis=1)
        ids = np.arange(first, first + len(beside))
        with lent(con, "new_lanes", {"id": ids} | dict(zip(names, beside.T, strict=True))):
            con.execute(
                f"INSERT INTO {ROWS_WITH_TOKENS} ({how.names}) SELECT {how.values} FROM rows "
                f"JOIN new_lanes ON rows.rowid = id WHERE rows.rowid >= {first} AND rows.rowid < {first + len(ids)}"
            )
        done = (first + len(ids)) / ingested.n_rows
        report("tokens", SKETCHED + round((100 - SKETCHED) * done), 100)
    ((n,),) = con.execute(f"SELECT count(*) FROM {ROWS_WITH_TOKENS}").fetchall()
    if n != ingested.n_rows:
        raise InternalError("rows of the source were lost when they got tokens")
    for number in ingested.own_ids:
        con.execute(f"DROP VIEW entity_{number}")
    con.execute("DROP TABLE rows")


def row_words(
    ingested: Ingested, key: bytes, identity: tuple[str, ...]
) -> Iterator[tuple[int, list[UInt64Array]]]:
    """Words that say what the identity columns of each row hold, some rows at a time.

    Yields: first: Number of the first row; words.
    """
    dictionary_words = identity_words(ingested, key, identity)
    for first in range(0, ingested.n_rows, CHUNK_ROWS):
        codes = ingested.con.execute(
            f"SELECT {', '.join(ingested.sql_names[name] for name in identity)} FROM rows "
            f"WHERE rowid >= {first} AND rowid < {first + CHUNK_ROWS} ORDER BY rowid"
        ).fetchnumpy()
        held = {name: np.asarray(codes[ingested.sql_names[name]], np.int64) for name in identity}
        yield first, codes_as_words((held[name], dictionary_words.get(name)) for name in identity)


def identity_words(
    ingested: Ingested, key: bytes, identity: tuple[str, ...]
) -> dict[str, UInt64Array]:
    """Of the identity columns with a dictionary: keyed bits for each of its values, by name."""
    missing = [name for name in identity if name not in ingested.sql_names]
    if missing:
        raise SpecError(
            f"source.identity: no column {', '.join(missing)} in the spec; the columns that a vintage's first "
            "build identified its rows by must stay in the spec, though no table need show them"
        )
    return {
        name: words_of_values(key, values)
        for name, values in ingested.dictionaries.items()
        if name in identity
    }


def codes_as_words(
    columns: Iterable[tuple[Int64Array, UInt64Array | None]],
) -> list[UInt64Array]:
    """Words that say what rows hold.

    columns: Codes, and of ranked columns what `words_of_values` gives: a position in a dictionary depends on
        the other values, so the value itself takes its place.
    """
    words: list[UInt64Array] = []
    for code, of_values in columns:
        if of_values is None:
            words.append(code.view(np.uint64))
        else:
            value = of_values[np.maximum(code, -1)]
            words += [value[:, 0], value[:, 1]]
    return words


def words_of_values(key: bytes, values: tuple[Any, ...]) -> UInt64Array:
    """128 keyed bits for each value of a ranked column; the last entry (position -1) stands for null."""
    digests = [
        blake2b(typed_id(value), key=key, digest_size=16, person=b"value").digest()
        for value in values
    ]
    digests.append(bytes(16))
    return np.frombuffer(b"".join(digests), dtype="<u8").reshape(-1, 2).astype(np.uint64)


def row_lanes(
    codes: Mapping[str, Int64Array],
    values: Mapping[str, tuple[Any, ...]],
    key: MasterKey,
    vintage: str,
) -> UInt64Array:
    """Token lanes of rows that lie in arrays: those that `add_tokens` would give them, all columns being identity."""
    identity = tuple(sorted(codes))
    print_key = key.derive("fingerprint", vintage, identity)
    words = codes_as_words(
        (codes[name], words_of_values(print_key, values[name])) for name in identity
    )
    prints = siphash128(print_key, words)
    order = np.lexsort(prints.T)
    fresh = np.ones(len(order), dtype=bool)
    fresh[1:] = (prints[order[1:]] != prints[order[:-1]]).any(axis=1)
    first = np.flatnonzero(fresh)
    occurrence = np.empty(len(order), dtype=np.uint64)
    occurrence[order] = np.arange(len(order)) - first[np.cumsum(fresh) - 1] + 1
    return row_tokens(key.derive("entity", vintage), prints, occurrence)


def _tokens_of_rows(
    ingested: Ingested,
    print_key: bytes,
    entity_key: bytes,
    identity: tuple[str, ...],
    order: tuple[str, ...],
) -> Iterator[UInt64Array]:
    """Tokens of rows that are entities, some at a time, in their order: of fingerprint and number among equals."""
    con = ingested.con
    con.execute("CREATE TABLE fingerprints (id BIGINT, f0 UBIGINT, f1 UBIGINT)")
    for first, words in row_words(ingested, print_key, identity):
        prints = siphash128(print_key, words)
        ids = np.arange(first, first + len(prints))
        with lent(con, "new_prints", {"id": ids, "f0": prints[:, 0], "f1": prints[:, 1]}):
            con.execute("INSERT INTO fingerprints SELECT * FROM new_prints")
    con.execute(
        "CREATE TABLE numbered AS SELECT f.id, f0, f1, row_number() OVER (PARTITION BY f0, f1 ORDER BY "
        f"{', '.join(in_order(ingested, order))}) AS occurrence FROM fingerprints f JOIN rows ON rows.rowid = f.id"
    )
    con.execute("DROP TABLE fingerprints")
    for first in range(0, ingested.n_rows, CHUNK_ROWS):
        rows = con.execute(
            f"SELECT f0, f1, occurrence FROM numbered WHERE id >= {first} "
            f"AND id < {first + CHUNK_ROWS} ORDER BY id"
        ).fetchnumpy()
        prints = np.column_stack([rows["f0"], rows["f1"]]).astype(np.uint64)
        yield row_tokens(entity_key, prints, np.asarray(rows["occurrence"], dtype=np.uint64))
    con.execute("DROP TABLE numbered")


def in_order(ingested: Ingested, order: tuple[str, ...]) -> list[str]:
    """SQL columns of all data columns: those that the vintage has seen first, as they came, so that a new one never
    moves a token.
    """
    known = [name for name in order if name in ingested.sql_names]
    fresh = [column.name for column in ingested.columns if column.name not in known]
    return [ingested.sql_names[name] for name in known + fresh]


PRIME = 2**31 - 1
"""Codes are mixed modulo it, so that sums of many rows stay within 128 bits."""
MOST_AT_ONCE = 100_000
"""Groups that one look at the rows sums."""


def source_fingerprints(
    ingested: Ingested, entities: tuple[EntityColumn, ...], key: MasterKey, vintage: str
) -> dict[str, str]:
    """Keyed fingerprint of each column's content, independent of row order.

    Returns: Hex digest by column name; a column whose values, or whose entities, differ has another digest.
    Under the empty name that of the entities alone: it is the same whatever columns the spec has.

    Sum over rows of (32 secret bits of each of its entities) x (code), in 128-bit integers, then keyed BLAKE2b:
    as the weights are secret and fixed by the entities, two different columns agree by chance only. Where an entity
    has several rows, values could change places between them, or change while their sum stays: then a digest of whole
    rows stands beside those of the columns, by the names of the columns that it covers.
    """
    print_key = key.derive("fingerprint", vintage)
    is_paired = any(entity.tokens is not None for entity in entities)
    if ingested.spark is not None:
        weights = ingested.spark.weights([entity.number for entity in entities])
        totals = ingested.spark.sums(
            content_sums(ingested, weights, print_key, is_paired=is_paired)
        )
    else:
        con = ingested.con
        weights, joined = _weights(con, entities)
        sums = content_sums(ingested, weights, print_key, is_paired=is_paired)
        row = con.execute(f"SELECT {', '.join(sums)} FROM {ROWS_WITH_TOKENS}{joined}").fetchone()
        for entity in entities:
            con.execute(f"DROP TABLE IF EXISTS weights_{entity.number}")
        totals = [str(value) for value in row or ()]
    last = 1 + len(weights) + len(ingested.columns)
    of_entities, of_columns, of_rows = (
        totals[: 1 + len(weights)],
        totals[1 + len(weights) : last],
        totals[last:],
    )
    out = {"": _fingerprint(print_key, pack_strings(["", *of_entities]))}
    for column, value in zip(ingested.columns, of_columns, strict=True):
        value_words = words_of_values(print_key, ingested.dictionaries.get(column.name, ()))
        message = pack_strings([column.name, value, totals[0]]) + value_words.tobytes()
        out[column.name] = _fingerprint(print_key, message)
    names = ", ".join(column.name for column in ingested.columns)
    return out | {
        f"rows of {names}": _fingerprint(print_key, pack_strings([names, *of_rows]))
        for _ in of_rows
    }


def content_sums(
    ingested: Ingested, weights: list[str], print_key: bytes, *, is_paired: bool
) -> list[str]:
    """SQL of the sums over rows that say what a source holds; each is whole, and adds up over parts of the rows."""
    sums = ["count(*)", f"sum({weights[0]})"]
    sums += [f"sum({weights[0]} * {other})" for other in weights[1:]]
    sums += [
        f"sum(({' + '.join(weights)}) * CAST({quoted(ingested.sql_names[c.name])} AS HUGEINT))"
        for c in ingested.columns
    ]
    return sums + ([_sum_of_rows(ingested, weights, print_key)] if is_paired else [])


def column_shapes(
    ingested: Ingested, entities: tuple[EntityColumn, ...], key: MasterKey, vintage: str
) -> dict[str, str]:
    """Keyed fingerprint of how each column groups the rows, whatever it calls the groups: equal for relabelled copies.

    Sum over groups of the square, modulo a prime of 31 bits, of the sum of their rows' secret weights.
    """
    print_key, out = key.derive("fingerprint", vintage), {}
    if ingested.spark is not None:
        codes = [ingested.sql_names[column.name] for column in ingested.columns]
        found = ingested.spark.shapes(codes, [entity.number for entity in entities])
        for column, shape in zip(ingested.columns, found, strict=True):
            out[column.name] = _fingerprint(print_key, pack_strings(["shape", *map(str, shape)]))
        return out
    con = ingested.con
    weights, joined = _weights(con, entities)
    rows = f"{ROWS_WITH_TOKENS}{joined}"
    for some in _together(ingested):
        codes = [quoted(ingested.sql_names[column.name]) for column in some]
        shapes = _shapes(con, codes, " + ".join(weights), rows)
        for column, shape in zip(some, shapes, strict=True):
            out[column.name] = _fingerprint(print_key, pack_strings(["shape", *map(str, shape)]))
    for entity in entities:
        con.execute(f"DROP TABLE IF EXISTS weights_{entity.number}")
    return out


def _together(ingested: Ingested) -> list[list[Column]]:
    """Columns whose groups are summed by one look: those whose values are listed and few; each of the others alone.

    Tokens that memory does not hold cost more to read than to add up, but so many groups at a time must fit into it.
    """
    out: list[list[Column]] = []
    room = 0
    for column in ingested.columns:
        n_values = len(ingested.dictionaries.get(column.name, ())) or MOST_AT_ONCE
        if n_values > room:
            out.append([])
            room = MOST_AT_ONCE
        out[-1].append(column)
        room -= n_values
    return out


def _shapes(
    con: duckdb.DuckDBPyConnection, codes: list[str], weight: str, rows: str
) -> list[tuple[Any, ...]]:
    """Of each column the number of its groups, and the sum of their squares; all in one look at the rows."""
    which = [f"grouping({code})" for code in codes]
    groups = (
        f"SELECT {', '.join(f'{one} AS g{j}' for j, one in enumerate(which))}, sum({weight}) % {PRIME} AS w "
        f"FROM {rows} GROUP BY GROUPING SETS ({', '.join(f'({code})' for code in codes)})"
    )
    own = [f"g{j} = 0" for j in range(len(codes))]
    sums = ", ".join(f"count(*) FILTER ({one}), sum(w * w) FILTER ({one})" for one in own)
    found = con.execute(f"SELECT {sums} FROM ({groups})").fetchone() or ()
    return list(zip(found[::2], found[1::2], strict=True))


def _sum_of_rows(ingested: Ingested, weights: list[str], print_key: bytes) -> str:
    """SQL of a sum over rows of weight x (a secret mix of all codes, modulo a prime of 31 bits) squared."""
    secret = blake2b(b"mix of columns", key=print_key, digest_size=64).digest()
    mixed = ["0"]
    for place, column in enumerate(ingested.columns):
        draw = blake2b(place.to_bytes(4, "little"), key=secret, digest_size=8).digest()
        factor = int.from_bytes(draw, "little") % PRIME
        cell = quoted(ingested.sql_names[column.name])
        # Products of two numbers of 31 bits fit into 64: remainders of 128 bits would take five times as long.
        mixed.append(f"{factor} * (({cell} % {PRIME} + {PRIME}) % {PRIME}) % {PRIME}")
    row = f"(({' + '.join(mixed)}) % {PRIME})"
    return f"sum(({' + '.join(weights)}) * CAST({row} * {row} AS HUGEINT))"


def _fingerprint(key: bytes, message: bytes) -> str:
    """Hex digest of a message."""
    return blake2b(message, key=key, digest_size=16).hexdigest()


def _weights(
    con: duckdb.DuckDBPyConnection, entities: tuple[EntityColumn, ...]
) -> tuple[list[str], str]:
    """SQL of a row's secret weights, 32 bits of the token of each of its entities, and the joins they need."""
    weights, joins = [], ""
    for entity in entities:
        if entity.tokens is None:
            weights.append(f"CAST(l{entity.number}_0 & 4294967295 AS HUGEINT)")
            continue
        table = f"weights_{entity.number}"
        low = entity.tokens[:, 0] & np.uint64(0xFFFFFFFF)
        with lent(con, "entity_weights", {"id": np.arange(len(low)), "w": low}):
            con.execute(
                f"CREATE OR REPLACE TABLE {table} AS SELECT id, CAST(w AS HUGEINT) AS w FROM entity_weights"
            )
        weights.append(f"{table}.w")
        joins += f" JOIN {table} ON {table}.id = {ROWS_WITH_TOKENS}.e{entity.number}"
    return weights, joins


SIZE = 512
"""Hashes kept: a share of one half is known to within .022."""


def sketch_of(ingested: Ingested, key: MasterKey, identity: tuple[str, ...]) -> Sketch:
    """Sketch the entities of a source; of several kinds, the first that the spec names."""
    names = ingested.entity_names
    of = tuple(map(entity_name, names)) or identity
    secret = key.derive("sketch", "", of)
    if ingested.spark is not None:
        smallest = _in_spark(ingested, ingested.spark, secret, of)
        return Sketch(of=of, named=bool(names), hashes=tuple(map(int, smallest)), size=SIZE)
    smallest = np.zeros(0, dtype=np.uint64)
    if names:  # ids by their text: a number that is stored as text is the same
        shown = "md5_number_lower(CAST(value AS VARCHAR))"
        found = ingested.entity_ids(0, chunk=CHUNK_ROWS, shown=shown)
        parts = ([np.asarray(ids, dtype=np.uint64)] for ids in found)
    else:
        parts = (words for _, words in row_words(ingested, secret, of))
    for words in parts:
        hashes = siphash(secret, words)
        if len(smallest) == SIZE:
            hashes = hashes[hashes < smallest[-1]]  # few: numbers of all others need no sorting
        smallest = _smallest(np.concatenate([smallest, hashes]))
    return Sketch(of=of, named=bool(names), hashes=tuple(map(int, smallest)), size=SIZE)


def _smallest(hashes: UInt64Array) -> UInt64Array:
    """The smallest different ones, ascending; of many, only some are sorted."""
    if len(hashes) > 4 * SIZE:
        found = np.unique(np.partition(hashes, 4 * SIZE)[: 4 * SIZE])
        if len(found) >= SIZE:
            return found[:SIZE]
    return np.unique(hashes)[:SIZE]


def _in_spark(
    ingested: Ingested, rows: SparkRows, secret: bytes, of: tuple[str, ...]
) -> UInt64Array:
    """The smallest hashes, where Spark holds the rows."""
    if ingested.entity_names:
        return rows.smallest_hashes(("e0",), {}, secret, SIZE, is_named=True)
    names = ingested.sql_names
    words = {names[name]: held for name, held in identity_words(ingested, secret, of).items()}
    columns = tuple(names[name] for name in of)
    return rows.smallest_hashes(columns, words, secret, SIZE, is_named=False)
