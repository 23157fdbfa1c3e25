"""Refuses a build whose tables hold a column that looks like an identifier, until its owner has said what it is.

Takes the encoded rows; gives nothing, or a refusal that names the columns, why, and what can be declared. Columns
with a public list of values are known from outside, and are not looked at; neither are dates and truth values.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from engine.errors import PrivacyError
from engine.schema import NULL_CODE, NUMBER_KINDS, Column
from engine.source.detection.determined import encoded_table
from engine.source.detection.suspects import Judged, suspects
from engine.source.detection.thresholds import Thresholds
from engine.source.entities import ROWS_WITH_TOKENS, EntityColumn
from engine.source.ingest import Ingested
from engine.source.relation import fetch

JUDGED_KINDS = ("category", "decimal", "integer", "real", "text")
WAYS_OUT = (
    "if it names whom to protect, name it in source.entities; if it is to be left out, say drop = true; "
    'if it is harmless, say release = "why", which the release will show'
)
_PLACE = "the source"


def check_identifiers(
    ingested: Ingested,
    entities: Sequence[EntityColumn],
    published: Collection[str],
    thresholds: Thresholds,
) -> None:
    """Refuse tables of columns that look like identifiers."""
    judged = {
        column.name: Judged(
            is_number=column.value_type in NUMBER_KINDS,
            is_whole=column.value_type == "integer",
            sample=_Sample(ingested, column),
        )
        for column in ingested.columns
        if column.name in published and may_be_suspect(column)
    }
    if not judged:
        return
    columns = {name: f"nullif({cell}, {NULL_CODE})" for name, cell in ingested.sql_names.items()}
    found = suspects(encoded_table(ingested, entities, columns), judged, thresholds)
    if found:
        raise PrivacyError(
            "the tables hold what looks like identifiers:\n"
            + "\n".join(f"  columns.{name}: {why}" for name, why in found.items())
            + f"\nSay of each what it is: {WAYS_OUT}."
        )


def may_be_suspect(column: Column) -> bool:
    """Whether a column is of a kind that identifiers have, and nobody has said that it may be published."""
    is_known = column.public and column.domain is not None
    return column.kind in JUDGED_KINDS and not is_known and not column.release


class _Sample:
    """Distinct values of an encoded column."""

    __slots__ = ("_column", "_ingested")

    def __init__(self, ingested: Ingested, column: Column) -> None:
        self._ingested, self._column = ingested, column

    def __call__(self, most: int) -> Sequence[Any]:
        values = self._ingested.dictionaries.get(self._column.name)
        if values is not None:
            return values[:: -(-len(values) // most)] if values else ()
        cell, spark = self._ingested.sql_names[self._column.name], self._ingested.spark
        of = ROWS_WITH_TOKENS if spark is None else spark.relations([(cell,)], ())[0]
        rows = fetch(
            self._ingested.con,
            f"SELECT c FROM (SELECT DISTINCT {cell} AS c FROM {of}) "
            f"WHERE c > {NULL_CODE + 1} ORDER BY hash(c) LIMIT {most}",
            _PLACE,
        )
        step = self._column.resolution
        size = float(step.step) if step is not None else self._column.step
        return [int(code) * size for (code,) in rows]
