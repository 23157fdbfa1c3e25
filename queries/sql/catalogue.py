"""The catalogue of an open release as plain values.

Takes a connection with the release as default database. Everything here is public: titles, labels, values, numbers of
synthetic rows.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb

from engine.schema import KIND_OTHER, ColumnSet, quoted
from engine.store import HIDDEN_WORDS, KIND_WORDS
from engine.units import ENTITIES, ROWS, Unit, unit_from_json


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """Description of a release."""

    # title, logical_name, vintage, mode, key_id, engine_version, content_hash: As in `catalog.release`.
    title: str
    logical_name: str
    vintage: str
    mode: str
    key_id: str
    engine_version: str
    content_hash: str
    cells: dict[ColumnSet, int]  # Distinct synthetic rows of every table, narrow tables first
    # Noise sd of a finest count, and the share of rows that were imputed.
    noise: dict[ColumnSet, tuple[float, float]]
    columns: dict[str, str]  # SQL type of every column, in the source's order
    labels: dict[str, str]  # Label of every column; its name if it has none
    notes: tuple[str, ...]  # How to read the release
    # unit, entity: Names of a row and of the protected entity.
    unit: Unit = ROWS
    entity: Unit = ENTITIES
    is_reviewed: bool = False  # Detected settings were reviewed by a person
    # Detected settings that were not reviewed, by column; those of the whole release under "privacy".
    unreviewed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    # Columns that records swapped before counting, and those in which partners agree; None: no swapping.
    swap: dict[str, Any] | None = None
    weight: str | None = None  # Column of survey weights
    # max_rows, range_sd: Bound on the rows of one entity, and the noise sd of counts under this bound; None:
    # no bound is declared.
    max_rows: int | None = None
    range_sd: float | None = None
    # By column of texts, what stands in the place of values that are too rare, for those who cast it.
    hidden: dict[str, str] = field(default_factory=dict)


def facts_of(con: duckdb.DuckDBPyConnection) -> Facts:
    """Read the facts of a release."""
    names = ("title", "logical_name", "vintage", "mode", "key_id", "engine_version", "content_hash")
    row = con.execute(f"SELECT {', '.join(names)} FROM catalog.release").fetchall()[0]
    tables = con.execute(
        "SELECT columns, cells, noise_sd, suppressed_share FROM catalog.tables ORDER BY width, columns"
    ).fetchall()
    columns = con.execute(
        "SELECT name, sql_type, label, detected FROM catalog.columns ORDER BY position"
    ).fetchall()
    privacy, unit, entity, is_reviewed = con.execute(
        "SELECT privacy, unit, entity, reviewed FROM catalog.release"
    ).fetchall()[0]
    notes = con.execute("SELECT note FROM catalog.notes ORDER BY position").fetchall()
    return Facts(
        **dict(zip(names, row, strict=True)),
        cells={tuple(table): cells for table, cells, *_ in tables},
        noise={tuple(table): (sd, share) for table, _, sd, share in tables},
        columns={name: type_ for name, type_, *_ in columns},
        labels={name: label or name for name, _, label, _ in columns},
        notes=tuple(note for (note,) in notes),
        unit=unit_from_json(unit),
        entity=unit_from_json(entity),
        is_reviewed=is_reviewed,
        unreviewed={} if is_reviewed else _unreviewed(columns, tables, json.loads(privacy)),
        swap=json.loads(privacy).get("swap"),
        weight=json.loads(privacy).get("weight"),
        hidden=_hidden(con),
        **_bound_of(json.loads(privacy)),
    )


def _hidden(con: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Say of each column of texts with hidden values which rows have no such value, as a cast sees it."""
    found = con.execute(
        "SELECT column_name, arg_max(value, n) FILTER (is_hidden), sum(n) FILTER (is_hidden) / sum(n) FROM "
        f"(SELECT *, kind IN {(*HIDDEN_WORDS, KIND_WORDS[KIND_OTHER])} AS is_hidden FROM catalog.codes) "
        "GROUP BY column_name HAVING bool_or(is_hidden)"
    ).fetchall()
    return {
        column: f"{share:.1%} of the rows have a text such as {text!r} in the place of a value of {column} that is "
        "too rare to show. Where it is no number or date, a cast fails, and TRY_CAST gives NULL, which figures leave "
        'out. To show more, the spec can declare a kind such as "integer", a public domain, or a hierarchy.'
        for column, text, share in found
    }


def _bound_of(privacy: dict[str, Any]) -> dict[str, Any]:
    """Bound on the rows of one entity, and the noise sd of counts under this bound; empty in mode dp."""
    found = [privacy.get(name) for name in ("max_rows", "noise_layers", "layer_sd")]
    bound, layers, sd = (number if isinstance(number, int) else 0 for number in found)
    return (
        {"max_rows": bound, "range_sd": layers**0.5 * sd * bound}
        if min(bound, layers, sd) > 0
        else {}
    )


def _unreviewed(
    columns: Sequence[tuple[Any, ...]], tables: Sequence[tuple[Any, ...]], privacy: dict[str, Any]
) -> dict[str, tuple[str, ...]]:
    """Detected settings of columns that are in a table, and of the parameters."""
    shown = {name for table, *_ in tables for name in table}
    found = {name: tuple(detected) for name, *_, detected in columns if detected and name in shown}
    of_all = privacy.get("detected")
    return found | (
        {"privacy": tuple(map(str, of_all))} if isinstance(of_all, list) and of_all else {}
    )


def values_of(
    con: duckdb.DuckDBPyConnection, column: str, type_: str
) -> list[tuple[Any, str | None, int]]:
    """Return a column's released values in order, as its SQL type: value, label, fitted rows."""
    return con.execute(
        f"SELECT CAST(value AS {type_}), label, n FROM catalog.codes WHERE column_name = ? "
        f"ORDER BY {quoted('position')}",
        [column],
    ).fetchall()
