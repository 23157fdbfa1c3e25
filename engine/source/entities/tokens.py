"""Who is protected: entity tokens put beside the encoded rows.

Takes the table of encoded rows; gives it token lanes (entities of one row each) or dense numbers with a token
table (entities of many rows). Without an entity column each row is one: its id is the fingerprint of its identity
columns and the number among its equals, so that row order never matters. Confidential; all of it
stays in the scratch connection.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np

from engine.errors import InternalError, SpecError
from engine.keys import MasterKey, entity_tokens, row_tokens, typed_id
from engine.progress import Progress, silent
from engine.schema import Int64Array, UInt64Array
from engine.source.ingest import Ingested
from engine.source.relation import stored
from engine.source.spark.contract import RowsInSpark
from engine.sticky_prf import siphash128

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
            _tokens_of_ids(ingested, number, entity_key)
            for number in range(len(ingested.entity_names))
        ]
        lanes, none = {j: tokens[j] for j in sorted(ingested.own_ids)}, np.zeros((0, 2), np.uint64)
        columns = tuple(
            EntityColumn(number=j, tokens=None if j in lanes else np.concatenate([none, *of_ids]))
            for j, of_ids in enumerate(tokens)
        )
    else:
        _fingerprint_rows(ingested, key.derive("fingerprint", vintage, identity), identity)
        _number_equals(ingested, order)
        lanes = {0: _tokens_of_equals(ingested, entity_key)}
        columns = (EntityColumn(number=0, tokens=None),)
    _put_lanes(ingested, lanes, report)
    return columns


def _tokens_in_spark(
    ingested: Ingested,
    rows: RowsInSpark,
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


def _tokens_of_ids(ingested: Ingested, number: int, entity_key: bytes) -> Iterator[UInt64Array]:
    """Tokens of one entity column, some at a time: in the order of its dense numbers, or of the rows."""
    name = ingested.entity_names[number]
    for ids in ingested.entity_ids(number, chunk=CHUNK_ROWS):
        yield entity_tokens(entity_key, ids, entity_column=name)


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
        con.register("new_lanes", {"id": ids} | dict(zip(names, beside.T, strict=True)))
        con.execute(
            f"INSERT INTO {ROWS_WITH_TOKENS} ({how.names}) SELECT {how.values} FROM rows "
            f"JOIN new_lanes ON rows.rowid = id WHERE rows.rowid >= {first} AND rows.rowid < {first + len(ids)}"
        )
        con.unregister("new_lanes")
        done = (first + len(ids)) / ingested.n_rows
        report("tokens", SKETCHED + round((100 - SKETCHED) * done), 100)
    ((n,),) = con.execute(f"SELECT count(*) FROM {ROWS_WITH_TOKENS}").fetchall()
    if n != ingested.n_rows:
        raise InternalError("rows of the source were lost when they got tokens")
    for number in ingested.own_ids:
        con.execute(f"DROP VIEW entity_{number}")
    con.execute("DROP TABLE rows")


def _fingerprint_rows(
    ingested: Ingested, fingerprint_key: bytes, identity: tuple[str, ...]
) -> None:
    """Fingerprint of each row's identity columns, into `fingerprints`."""
    con = ingested.con
    con.execute("CREATE TABLE fingerprints (id BIGINT, f0 UBIGINT, f1 UBIGINT)")
    for first, words in row_words(ingested, fingerprint_key, identity):
        prints = siphash128(fingerprint_key, words)
        ids = np.arange(first, first + len(prints))
        con.register("new_prints", {"id": ids, "f0": prints[:, 0], "f1": prints[:, 1]})
        con.execute("INSERT INTO fingerprints SELECT * FROM new_prints")
        con.unregister("new_prints")


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
        yield (
            first,
            codes_as_words(
                [
                    (np.asarray(codes[ingested.sql_names[name]], dtype=np.int64), words)
                    for name, words in ((name, dictionary_words.get(name)) for name in identity)
                ]
            ),
        )


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
    words: list[UInt64Array] = []
    for name in identity:
        held = words_of_values(print_key, values[name])[codes[name]]
        words += [held[:, 0], held[:, 1]]
    prints = siphash128(print_key, words)
    order = np.lexsort(prints.T)
    fresh = np.ones(len(order), dtype=bool)
    fresh[1:] = (prints[order[1:]] != prints[order[:-1]]).any(axis=1)
    first = np.flatnonzero(fresh)
    occurrence = np.empty(len(order), dtype=np.uint64)
    occurrence[order] = np.arange(len(order)) - first[np.cumsum(fresh) - 1] + 1
    return row_tokens(key.derive("entity", vintage), prints, occurrence)


def _number_equals(ingested: Ingested, order: tuple[str, ...]) -> None:
    """Number the rows of equal fingerprint, in the order of all their codes, into `numbered`.

    Columns that the vintage has seen come first, as they came, so that a new one never moves a token.
    """
    codes = ", ".join(in_order(ingested, order))
    ingested.con.execute(
        "CREATE TABLE numbered AS SELECT f.id, f0, f1, "
        f"row_number() OVER (PARTITION BY f0, f1 ORDER BY {codes}) AS occurrence "
        "FROM fingerprints f JOIN rows ON rows.rowid = f.id"
    )
    ingested.con.execute("DROP TABLE fingerprints")


def _tokens_of_equals(ingested: Ingested, entity_key: bytes) -> Iterator[UInt64Array]:
    """Tokens of numbered rows, some at a time, in their order; drops the numbers."""
    con = ingested.con
    for first in range(0, ingested.n_rows, CHUNK_ROWS):
        rows = con.execute(
            f"SELECT f0, f1, occurrence FROM numbered WHERE id >= {first} "
            f"AND id < {first + CHUNK_ROWS} ORDER BY id"
        ).fetchnumpy()
        prints = np.column_stack([rows["f0"], rows["f1"]]).astype(np.uint64)
        yield row_tokens(entity_key, prints, np.asarray(rows["occurrence"], dtype=np.uint64))
    con.execute("DROP TABLE numbered")


def in_order(ingested: Ingested, order: tuple[str, ...]) -> list[str]:
    """SQL columns of all data columns: those in `order` first, then the others."""
    known = [name for name in order if name in ingested.sql_names]
    fresh = [column.name for column in ingested.columns if column.name not in known]
    return [ingested.sql_names[name] for name in known + fresh]
