"""What a source holds, as keyed digests of each column, by which a vintage is pinned; and how columns group the rows.

Takes the table of rows with tokens. Gives digests that do not depend on the order of rows, and cannot be told from
chance without the key. Confidential until then; all of it stays in the scratch connection.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import duckdb
import numpy as np

from engine.keys import MasterKey, pack_strings
from engine.schema import Column, quoted
from engine.source.entities.tokens import ROWS_WITH_TOKENS, EntityColumn, words_of_values
from engine.source.ingest import Ingested

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
        con.register("entity_weights", {"id": np.arange(len(low)), "w": low})
        con.execute(
            f"CREATE TABLE {table} AS SELECT id, CAST(w AS HUGEINT) AS w FROM entity_weights"
        )
        con.unregister("entity_weights")
        weights.append(f"{table}.w")
        joins += f" JOIN {table} ON {table}.id = {ROWS_WITH_TOKENS}.e{entity.number}"
    return weights, joins
