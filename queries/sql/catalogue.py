"""What the catalogue of an open release says, as plain values.

A connection that has the release in use goes in. Everything here was released: titles, labels, values, numbers of
synthetic rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import duckdb

from engine.schema import ColumnSet, quoted


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """A release in a nutshell.

    Attributes
    ----------
    title, logical_name, vintage, mode, key_id, engine_version, content_hash : str
        As in `catalog.release`.
    cells : dict of ColumnSet to int
        Distinct synthetic rows of every table, narrow tables first.
    noise : dict of ColumnSet to (float, float)
        Noise sd of a finest count, and the share of rows that were filled in.
    columns : dict of str to str
        SQL type of every column, in the source's order.
    labels : dict of str to str
        Label of every column; its name where it has none.
    notes : tuple of str
        How to read the release.
    """

    title: str
    logical_name: str
    vintage: str
    mode: str
    key_id: str
    engine_version: str
    content_hash: str
    cells: dict[ColumnSet, int]
    noise: dict[ColumnSet, tuple[float, float]]
    columns: dict[str, str]
    labels: dict[str, str]
    notes: tuple[str, ...]


def facts_of(con: duckdb.DuckDBPyConnection) -> Facts:
    """Read the facts of a release."""
    names = ("title", "logical_name", "vintage", "mode", "key_id", "engine_version", "content_hash")
    row = con.execute(f"SELECT {', '.join(names)} FROM catalog.release").fetchall()[0]
    tables = con.execute(
        "SELECT columns, cells, noise_sd, suppressed_share FROM catalog.tables ORDER BY table_id"
    ).fetchall()
    columns = con.execute(
        "SELECT name, sql_type, label FROM catalog.columns ORDER BY position"
    ).fetchall()
    notes = con.execute("SELECT note FROM catalog.notes ORDER BY position").fetchall()
    return Facts(
        **dict(zip(names, row, strict=True)),
        cells={tuple(table): cells for table, cells, *_ in tables},
        noise={tuple(table): (sd, share) for table, _, sd, share in tables},
        columns={name: type_ for name, type_, _ in columns},
        labels={name: label or name for name, _, label in columns},
        notes=tuple(note for (note,) in notes),
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
