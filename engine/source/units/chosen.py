"""Chooses which rows of an entity count, once for all tables, so that groups add up.

Takes the table of rows with tokens; deletes from it what lies beyond the declared bounds. Each bucket
bounded by itself loses other rows: a department that heavy entities visit loses most, the total little, and locking
gives the difference to all other departments. What stays is drawn by the key: it depends on the entities, their rows
and the bounds, never on the order of rows or on the tables asked for. CONFIDENTIAL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from engine.schema import BoolArray, Int64Array, UInt64Array
from engine.source.entities import ROWS_WITH_TOKENS, EntityColumn, words_of_values
from engine.source.ingest import Ingested
from engine.sticky_prf import siphash


def choose_rows(
    ingested: Ingested,
    entities: tuple[EntityColumn, ...],
    most: int,
    of_values: Mapping[str, int],
    secret: bytes,
) -> Ingested:
    """Delete rows until no entity has more than its bounds allow.

    of_values: Rows of one entity with the same value of a column.
    """
    for entity in entities:
        if entity.tokens is not None:
            _bounded(ingested, entities, entity, most, of_values, secret)
    (n_rows,) = ingested.con.execute(f"SELECT count(*) FROM {ROWS_WITH_TOKENS}").fetchall()[0]
    return replace(ingested, n_rows=int(n_rows))


def _bounded(
    ingested: Ingested,
    entities: tuple[EntityColumn, ...],
    bounded: EntityColumn,
    most: int,
    of_values: Mapping[str, int],
    secret: bytes,
) -> None:
    """Bring the entities of one kind within the bounds."""
    con, who = ingested.con, f"e{bounded.number}"
    bounds = {ingested.sql_names[c]: n for c, n in of_values.items() if n < most}
    above = [f"SELECT {who} FROM {ROWS_WITH_TOKENS} GROUP BY {who} HAVING count(*) > {most}"]
    above += [
        f"SELECT {who} FROM {ROWS_WITH_TOKENS} GROUP BY {who}, {column} HAVING count(*) > {n}"
        for column, n in bounds.items()
    ]
    # All that a row is known by: what it holds, and its entities of every kind.
    told = [*ingested.sql_names.values(), *_known_by(entities)]
    names = ", ".join(told)
    rows = con.execute(
        f"SELECT rowid AS id, {names}, row_number() OVER (PARTITION BY {names}) AS equal "
        f"FROM {ROWS_WITH_TOKENS} WHERE {who} IN ({' UNION '.join(above)})"
    ).fetchnumpy()
    if not len(rows["id"]):
        return
    entity = np.asarray(rows[who], dtype=np.int64)
    draw = _draws(ingested, (bounded, *(e for e in entities if e is not bounded)), rows, secret)
    stays = np.ones(len(entity), dtype=bool)
    for column, n in bounds.items():
        _keep_first(stays, draw, (entity, np.asarray(rows[column], dtype=np.int64)), n)
    _keep_first(stays, draw, (entity,), most)
    con.register("beyond", {"id": np.asarray(rows["id"])[~stays]})
    con.execute(f"DELETE FROM {ROWS_WITH_TOKENS} WHERE rowid IN (SELECT id FROM beyond)")
    con.unregister("beyond")


def _known_by(entities: tuple[EntityColumn, ...]) -> list[str]:
    """Columns of the rows that say of which entities they are."""
    numbers = [f"e{entity.number}" for entity in entities if entity.tokens is not None]
    alone = [entity.number for entity in entities if entity.tokens is None]
    return numbers + [f"l{number}_{lane}" for number in alone for lane in (0, 1)]


def _lanes(entity: EntityColumn, rows: dict[str, Any]) -> list[UInt64Array]:
    """Tokens of one kind of entity, row by row."""
    if entity.tokens is None:
        return [np.asarray(rows[f"l{entity.number}_{lane}"], dtype=np.uint64) for lane in (0, 1)]
    own = entity.tokens[np.asarray(rows[f"e{entity.number}"], dtype=np.int64)]
    return [np.ascontiguousarray(own[:, lane]) for lane in (0, 1)]


def _draws(
    ingested: Ingested,
    entities: tuple[EntityColumn, ...],
    rows: dict[str, Any],
    secret: bytes,
) -> UInt64Array:
    """A number for each row, fixed by its entities, what it holds, and its place among its equals."""
    words = _lanes(entities[0], rows)
    for name, column in ingested.sql_names.items():
        code = np.asarray(rows[column], dtype=np.int64)
        if name in ingested.dictionaries:  # a position depends on the other values: take the value
            of_value = words_of_values(secret, ingested.dictionaries[name])
            value = of_value[np.maximum(code, -1)]
            words += [np.ascontiguousarray(value[:, lane]) for lane in (0, 1)]
        else:
            words.append(code.view(np.uint64))
    words += [lane for other in entities[1:] for lane in _lanes(other, rows)]
    words.append(np.asarray(rows["equal"], dtype=np.uint64))
    return siphash(secret, words)


def _keep_first(stays: BoolArray, draw: UInt64Array, group: tuple[Int64Array, ...], n: int) -> None:
    """Of the rows that stay, let the n first drawn of each group stay."""
    here = np.flatnonzero(stays)
    keys = [part[here] for part in group]
    order = np.lexsort((draw[here], *keys))
    fresh = np.ones(len(here), dtype=bool)
    fresh[1:] = np.logical_or.reduce([part[order][1:] != part[order][:-1] for part in keys])
    heads = np.flatnonzero(fresh)
    rank = np.arange(len(here)) - np.repeat(heads, np.diff(np.append(heads, len(here))))
    stays[here[order[rank >= n]]] = False
