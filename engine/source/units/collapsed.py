"""One row an entity, or one for each entity and value of a column: what `count = "entities"` counts.

Takes the table of rows with tokens; puts in its place one whose rows are entities. What tables show beside it must
be the same in all rows of an entity, or a count would not say whose. CONFIDENTIAL.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from engine.errors import DataError
from engine.source.detection.thresholds import Thresholds
from engine.source.entities import ROWS_WITH_TOKENS, EntityColumn
from engine.source.ingest import Ingested
from engine.source.units.chosen import choose_rows
from engine.spec import with_deciders


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
    _refuse_varying([name for name in varying if name in used], each)
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
    else:
        _with_lanes(ingested, entity)
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


def _with_lanes(ingested: Ingested, entity: EntityColumn) -> None:
    """Put the token of each entity beside its one row."""
    tokens = entity.tokens if entity.tokens is not None else np.zeros((0, 2), dtype=np.uint64)
    con, number = ingested.con, entity.number
    con.register("lanes", {"id": np.arange(len(tokens)), "a": tokens[:, 0], "b": tokens[:, 1]})
    con.execute(
        f"CREATE TABLE {ROWS_WITH_TOKENS} AS SELECT entity_rows.*, a AS l{number}_0, b AS l{number}_1 "
        f"FROM entity_rows JOIN lanes ON lanes.id = e{number}"
    )
    con.execute("DROP TABLE entity_rows")
    con.unregister("lanes")


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


def _refuse_varying(varying: list[str], each: str | None) -> None:
    """Refuse columns of tables that are not the same in all rows of an entity."""
    if not varying:
        return
    place = f" with the same {each}" if each else ""
    raise DataError(
        f"tables of entities: {', '.join(varying)} is not the same in all rows of an entity{place}. Leave it out "
        "of the tables, count entities once in each of its values "
        f'(in [release]: each = "{varying[0]}", in a spec of its own), or make a column that holds one value an '
        "entity, such as whether it ever had one"
    )
