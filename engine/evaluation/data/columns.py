"""Columns of a release as evaluations need them: what a value is, on which grid, and what stands for rare ones.

Takes an open release; gives `ReleasedColumn`s, and the SQL that puts a value of the original where a build puts it.
All of it is public: it stands in the release's own catalogue.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import duckdb

from engine.schema import Column, ColumnKind, Resolution, ValueType
from engine.source import code_sql


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleasedColumn:
    """A column of a release."""

    sql_type: str  # Of its values
    # Its name, kind, resolution and placeholder; as `nulls` how the release writes a blank, but for the
    # empty spelling, and for one that is a value of the release.
    column: Column


def columns_in(con: duckdb.DuckDBPyConnection) -> dict[str, ReleasedColumn]:
    """Read them from the catalogue of an open release, in the source's order."""
    listed = con.execute(
        "SELECT name, sql_type, kind, value_type, placeholder, resolution_base, resolution_exponent "
        "FROM catalog.columns ORDER BY position"
    ).fetchall()
    blanks = _blanks(con)
    return {
        name: ReleasedColumn(
            sql_type=sql_type,
            column=Column(
                name=name,
                kind=cast(ColumnKind, kind),
                value_type=cast(ValueType, value_type),
                placeholder=placeholder,
                resolution=None if base is None else Resolution(base=base, exponent=exponent),
                nulls=blanks.get(name, ()),
            ),
        )
        for name, sql_type, kind, value_type, placeholder, base, exponent in listed
    }


def _blanks(con: duckdb.DuckDBPyConnection) -> dict[str, tuple[str, ...]]:
    """How a release writes the blanks of columns, where it says so.

    Typed files (Parquet) have blanks of their own: there the spelling may be a value, which the release then shows.
    """
    listed = con.execute(
        "SELECT name, null_spelling FROM catalog.columns AS c WHERE null_spelling <> '' AND NOT EXISTS ("
        "SELECT 1 FROM catalog.codes AS v WHERE v.column_name = c.name AND v.kind <> 'null' AND (v.value = "
        "c.null_spelling OR TRY_CAST(v.value AS DOUBLE) = TRY_CAST(c.null_spelling AS DOUBLE)))"
    )
    return {name: (blank,) for name, blank in listed.fetchall()}


def on_grid_sql(column: Column, value: str) -> str:
    """SQL that puts a number or time on a column's grid, as a build does; unchanged where there is no grid."""
    if column.kind == "timestamp":
        code = code_sql(column, "TIMESTAMP", value)
        return f"coalesce(make_timestamp(({code}) * 1000000), {value})"
    if column.kind not in ("real", "decimal") or column.resolution is None:
        return value
    step = column.resolution
    code, scale = code_sql(column, "DOUBLE", value), step.base ** abs(step.exponent)
    factor = f"CAST({float(scale)!r} AS DOUBLE)"
    # A quotient of two whole numbers that floats hold is rounded correctly, as a release's value is.
    number = f"CAST(({code}) AS DOUBLE) {'/' if step.exponent < 0 else '*'} {factor}"
    return f"coalesce({number}, {value})"
