"""A keyed sketch of who is in a source, by which a vintage knows another one of nearly the same data.

The smallest of the keyed hashes of all entities (bottom-k; Broder 1997, doi:10.1109/SEQUEN.1997.666900). It depends on
the key alone, not on the vintage: so two vintages can be compared. Confidential: it stays beside the key.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine.keys import MasterKey
from engine.schema import UInt64Array, entity_name
from engine.source.charges import Sketch
from engine.source.entities.tokens import CHUNK_ROWS, identity_words, row_words
from engine.source.ingest import Ingested
from engine.source.spark.contract import RowsInSpark
from engine.sticky_prf import siphash

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
    parts = _hashes_of_ids(ingested, secret) if names else _hashes_of_rows(ingested, secret, of)
    for hashes in parts:
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
    ingested: Ingested, rows: RowsInSpark, secret: bytes, of: tuple[str, ...]
) -> UInt64Array:
    """The smallest hashes, where Spark holds the rows."""
    if ingested.entity_names:
        return rows.smallest_hashes(("e0",), {}, secret, SIZE, is_named=True)
    names = ingested.sql_names
    words = {names[name]: held for name, held in identity_words(ingested, secret, of).items()}
    columns = tuple(names[name] for name in of)
    return rows.smallest_hashes(columns, words, secret, SIZE, is_named=False)


def _hashes_of_ids(ingested: Ingested, secret: bytes) -> Iterator[UInt64Array]:
    """Hashes of the ids of the first entity column, by their text: a number stored as text is the same."""
    own = 0 in ingested.own_ids
    value, table, by = ("e0", "rows", "rowid") if own else ("value", "entity_0", "id")
    for first in range(0, ingested.n_rows if own else ingested.n_entities(0), CHUNK_ROWS):
        fetched = ingested.con.execute(
            f"SELECT md5_number_lower(CAST({value} AS VARCHAR)) AS h FROM {table} "
            f"WHERE {by} >= {first} AND {by} < {first + CHUNK_ROWS}"
        ).fetchnumpy()
        yield siphash(secret, [np.asarray(fetched["h"], dtype=np.uint64)])


def _hashes_of_rows(
    ingested: Ingested, secret: bytes, identity: tuple[str, ...]
) -> Iterator[UInt64Array]:
    """Hashes of the distinct rows."""
    for _, words in row_words(ingested, secret, identity):
        yield siphash(secret, words)
