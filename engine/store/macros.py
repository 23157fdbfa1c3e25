"""Macros and column comments that let a plain DuckDB shell query the file much as `tablepack` does.

Takes the mode and the columns of a release, and writes macros into its schema main and a comment on every column of
every table and view. The text of a macro is part of the file format: readers compare it with `macro_statements`.
Invariant: macros contain no numbers but a factor and the largest `catalog.tables.noise_sd`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import duckdb

from engine.schema import Column, ColumnSet, literal, quoted

NORMAL_95, LAPLACE_95 = 1.96, 2.12
"""Half width of the central 95 % in standard deviations; the second is wider, and used for all noise of mode dp."""
_MEASURED = "CASE WHEN cells_released > 0 THEN noise_sd END"
_OF_TABLE = (
    f"CASE WHEN of_table IN (SELECT name FROM catalog.tables) THEN "
    f"(SELECT {_MEASURED} FROM catalog.tables WHERE name = of_table) "
    "ELSE error('there is no table of that name; names are in catalog.tables') END"
)
COMMENTS = {
    "noise_interval": "The 95 % noise interval of one measured count: {low, high}. noise_interval(n): from the largest "
    "noise of any table; noise_interval(n, 'age.sex'): from that of the table n was read from (catalog.tables.name); "
    "noise_interval(n, 'age.sex', k): n is the sum of k counts of it. It covers the noise only: not suppressed groups "
    "(measured is false in schema tables, see catalog.cells), nor sampling error of the source. NULL: no count of "
    "that table was measured.",
    "label_of": "Label of a value, or the value itself: label_of('sex', sex).",
    "tables_with": "Tables that have all of some columns, the best one first: FROM tables_with(['age', 'sex']).",
    "values_of": "Released values of a column in order, with labels and numbers of rows: FROM values_of('age').",
    "card_of": "The generator card of a table: FROM card_of('age.sex').",
}
"""Every macro and its comment."""
_SCALAR = ("noise_interval", "label_of")
_CARD_COLUMNS = (
    "table_id",
    "name",
    "rows",
    "cells_released",
    "noise_sd",
    "suppressed_share",
    "rounding_gap",
    "cells_per_entity",
    "card",
)


def create_macros(con: duckdb.DuckDBPyConnection, *, mode: str) -> None:
    """Create the macros of a release whose tables are complete, in the running transaction."""
    largest = con.execute(f"SELECT max({_MEASURED}) FROM catalog.tables").fetchall()[0][0]
    comments = [
        f"COMMENT ON MACRO {'' if name in _SCALAR else 'TABLE '}main.{name} IS {literal(text)}"
        for name, text in COMMENTS.items()
    ]
    con.execute("; ".join([*macro_statements(largest, mode=mode), *comments]))


def drop_macros() -> list[str]:
    """Return the statements that drop the macros of a release if they exist."""
    return [
        f"DROP MACRO {'' if name in _SCALAR else 'TABLE '}IF EXISTS main.{name}"
        for name in COMMENTS
    ]


def macro_statements(largest: float | None, *, mode: str) -> list[str]:
    """Return the statements that create the macros."""
    factor = LAPLACE_95 if mode == "dp" else NORMAL_95
    return [
        "CREATE MACRO main.noise_interval(n) AS "
        f"{_around(f'{factor} * {_number(largest)}')}, "
        f"(n, of_table) AS {_around(f'{factor} * {_OF_TABLE}')}, "
        f"(n, of_table, counts) AS {_around(f'{factor} * sqrt(counts) * {_OF_TABLE}')}",
        "CREATE MACRO main.label_of(of_column, of_value) AS coalesce((SELECT any_value(c.label) FROM "
        "catalog.codes AS c WHERE c.column_name = of_column AND c.value = CAST(of_value AS VARCHAR)), "
        "CAST(of_value AS VARCHAR))",
        "CREATE MACRO main.tables_with(wanted) AS TABLE SELECT t.name, t.columns, t.physical, t.rows, t.noise_sd, "
        "t.suppressed_share FROM catalog.tables AS t WHERE list_has_all(t.columns, wanted) "
        "ORDER BY t.width, t.cells, t.columns",
        "CREATE MACRO main.values_of(of_column) AS TABLE SELECT c.value, c.label, c.kind, c.measured, c.n "
        "FROM catalog.codes AS c WHERE c.column_name = of_column ORDER BY c.position",
        "CREATE MACRO main.card_of(of_table) AS TABLE SELECT c.* FROM catalog.cards AS c WHERE c.name = of_table",
    ]  # fmt: skip


def _around(width: str) -> str:
    """Return SQL for the integer interval around n, at least 0."""
    half = f"CAST(ceil({width}) AS BIGINT)"
    return (
        f"CASE WHEN n IS NOT NULL AND {half} IS NOT NULL THEN struct_pack(low := greatest(CAST(n AS BIGINT) - {half}, "
        f"0), high := CAST(n AS BIGINT) + {half}) END"
    )


def _number(value: float | None) -> str:
    """Return SQL for a number that may be missing."""
    return "CAST(NULL AS DOUBLE)" if value is None else f"CAST({value!r} AS DOUBLE)"


def column_comments(
    done: Mapping[ColumnSet, tuple[str, str]],
    columns: Iterable[Column],
    added: Mapping[ColumnSet, tuple[tuple[str, str], ...]],
) -> list[str]:
    """Return the statements that comment on the columns of released tables and their views.

    done: Names of a table's view in schema main and of its table in schema tables.
    added: Names and comments of the columns that a table in schema tables adds.
    """
    known = {c.name: _described(c) for c in columns}
    out = []
    for names, (view, physical) in done.items():
        for place in (f"main.{quoted(view)}", f"tables.{quoted(physical)}"):
            out += [f"COMMENT ON COLUMN {place}.{quoted(c)} IS {literal(known[c])}" for c in names]
        out += [
            f"COMMENT ON COLUMN tables.{quoted(physical)}.{quoted(c)} IS {literal(text)}"
            for c, text in added[names]
        ]
    return out


def catalog_comments() -> list[str]:
    """Return the statements that comment on the columns of the catalogue's views."""
    views = {"cards": _CARD_COLUMNS, "cells": ("table_id", "name", "columns")}
    return [
        f"COMMENT ON COLUMN catalog.{view}.{c} IS {literal(f'See catalog.tables.{c}.')}"
        for view, columns in views.items()
        for c in columns
    ]


def _described(column: Column) -> str:
    """The comment on a column."""
    label = column.label or f"Column {column.name} of the source"
    return f"{label}. Its released values: FROM values_of({literal(column.name)})."
