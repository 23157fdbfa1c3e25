"""CONFIDENTIAL. What is counted where an entity has several rows: some of its rows, or the entity itself.

Takes the table of rows with tokens; deletes from it what lies beyond the declared bounds, once for all tables, so that
groups add up: each bucket bounded by itself would lose other rows. What stays is drawn by the key: it depends on the
entities, their rows and the bounds, never on the order of rows or on the tables asked for. With `count = "entities"` a
table whose rows are entities takes its place; what tables show beside it must be the same in all rows of an entity, or
a count would not say whose.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from engine.errors import DataError
from engine.schema import BoolArray, Int64Array, UInt64Array
from engine.source.detection.thresholds import Thresholds
from engine.source.entities import ROWS_WITH_TOKENS, EntityColumn, codes_as_words, words_of_values
from engine.source.ingest import Ingested
from engine.source.relation import lent
from engine.spec import with_deciders
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
    kinds = (bounded, *(entity for entity in entities if entity is not bounded))
    told = [*ingested.sql_names.values()]
    for entity in entities:
        alone = [f"l{entity.number}_{lane}" for lane in (0, 1)]
        told += [f"e{entity.number}"] if entity.tokens is not None else alone
    names = ", ".join(told)
    rows = con.execute(
        f"SELECT rowid AS id, {names}, row_number() OVER (PARTITION BY {names}) AS equal "
        f"FROM {ROWS_WITH_TOKENS} WHERE {who} IN ({' UNION '.join(above)})"
    ).fetchnumpy()
    if not len(rows["id"]):
        return
    # A number for each row, fixed by its entities, what it holds, and its place among its equals.
    held = {name: np.asarray(rows[sql], np.int64) for name, sql in ingested.sql_names.items()}
    values = ingested.dictionaries
    words = _lanes(bounded, rows)
    words += codes_as_words(
        (code, words_of_values(secret, values[name]) if name in values else None)
        for name, code in held.items()
    )
    words += [lane for other in kinds[1:] for lane in _lanes(other, rows)]
    draw = siphash(secret, [*words, np.asarray(rows["equal"], dtype=np.uint64)])
    entity_of = np.asarray(rows[who], dtype=np.int64)
    stays = np.ones(len(draw), dtype=bool)
    for column, n in bounds.items():
        _keep_first(stays, draw, (entity_of, np.asarray(rows[column], dtype=np.int64)), n)
    _keep_first(stays, draw, (entity_of,), most)
    with lent(con, "beyond", {"id": np.asarray(rows["id"])[~stays]}):
        con.execute(f"DELETE FROM {ROWS_WITH_TOKENS} WHERE rowid IN (SELECT id FROM beyond)")


def _lanes(entity: EntityColumn, rows: dict[str, Any]) -> list[UInt64Array]:
    """Tokens of one kind of entity, row by row."""
    if entity.tokens is None:
        return [np.asarray(rows[f"l{entity.number}_{lane}"], dtype=np.uint64) for lane in (0, 1)]
    own = entity.tokens[np.asarray(rows[f"e{entity.number}"], dtype=np.int64)]
    return [np.ascontiguousarray(own[:, lane]) for lane in (0, 1)]


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


def one_row_each(
    ingested: Ingested,
    entity: EntityColumn,
    used: frozenset[str] | set[str],
    each: str | None,
    thresholds: Thresholds,
) -> tuple[Ingested, EntityColumn]:
    """Bring the rows of each entity together.

    thresholds: As many entities may differ in themselves; of these the largest value counts.

    Returns: ingested: With all columns that are the same in all rows of an entity, whatever tables show:
    copies are looked for among them, so that tables of a copy have the same counts, whichever build asks for
    them; entity.
    """
    if entity.tokens is None:  # each has one row: nothing to bring together
        return ingested, entity
    who = f"e{entity.number}"
    by = [who, *([ingested.sql_names[each]] if each else [])]
    varying = _varying(ingested, who, by, each, thresholds)
    if refused := [name for name in varying if name in used]:
        place = f" with the same {each}" if each else ""
        raise DataError(
            f"tables of entities: {', '.join(refused)} is not the same in all rows of an entity{place}. Leave it out "
            "of the tables, count entities once in each of its values "
            f'(in [release]: each = "{refused[0]}", in a spec of its own), or make a column that holds one value an '
            "entity, such as whether it ever had one"
        )
    stay = {name for name in ingested.sql_names if name not in varying}
    columns = tuple(
        c for c in ingested.columns if with_deciders(ingested.columns, {c.name}) <= stay
    )
    names = {c.name: ingested.sql_names[c.name] for c in columns}
    kept = replace(
        ingested,
        columns=columns,
        sql_names=names,
        dictionaries={n: v for n, v in ingested.dictionaries.items() if n in names},
    )
    con, grouped = ingested.con, ", ".join(by)
    values = "".join(f", max({sql}) AS {sql}" for name, sql in names.items() if name != each)
    con.execute(
        f"CREATE TABLE entity_rows AS SELECT {grouped}{values} FROM {ROWS_WITH_TOKENS} GROUP BY {grouped}"
    )
    con.execute(f"DROP TABLE {ROWS_WITH_TOKENS}")
    if each:
        con.execute(f"ALTER TABLE entity_rows RENAME TO {ROWS_WITH_TOKENS}")
    else:  # the token of each entity stands beside its one row
        lanes = {
            "id": np.arange(len(entity.tokens)),
            "a": entity.tokens[:, 0],
            "b": entity.tokens[:, 1],
        }
        with lent(con, "lanes", lanes):
            con.execute(
                f"CREATE TABLE {ROWS_WITH_TOKENS} AS SELECT entity_rows.*, a AS l{entity.number}_0, "
                f"b AS l{entity.number}_1 FROM entity_rows JOIN lanes ON lanes.id = {who}"
            )
        con.execute("DROP TABLE entity_rows")
        entity = replace(entity, tokens=None)
    (n_rows,) = con.execute(f"SELECT count(*) FROM {ROWS_WITH_TOKENS}").fetchall()[0]
    return replace(kept, n_rows=int(n_rows)), entity


def with_few_values(
    ingested: Ingested, entity: EntityColumn, each: str, most: int, secret: bytes
) -> Ingested:
    """Let so many values of a column count of each entity at most, chosen once.

    The choice depends on the entity and its values alone: no other column of the spec or of the tables moves it.
    """
    by = replace(
        ingested,
        columns=tuple(c for c in ingested.columns if c.name == each),
        sql_names={each: ingested.sql_names[each]},
        dictionaries={n: v for n, v in ingested.dictionaries.items() if n == each},
    )
    return replace(ingested, n_rows=choose_rows(by, (entity,), most, {}, secret).n_rows)


def _varying(
    ingested: Ingested, who: str, by: list[str], each: str | None, thresholds: Thresholds
) -> list[str]:
    """Columns that are not the same in all rows of more than a few entities."""
    told = {name: sql for name, sql in ingested.sql_names.items() if name != each}
    if not told:
        return []
    differs = ", ".join(f"min({sql}) <> max({sql}) AS {sql}" for sql in told.values())
    counts = ", ".join(f"count(DISTINCT {who}) FILTER ({sql})" for sql in told.values())
    found = ingested.con.execute(
        f"SELECT {counts} FROM (SELECT {who}, {differs} FROM {ROWS_WITH_TOKENS} GROUP BY {', '.join(by)})"
    ).fetchall()[0]
    return [
        name
        for name, n in zip(told, found, strict=True)
        if n >= thresholds.of("determines", name, f"count {each or ''}")
    ]
