"""The catalogue's tables, comments, notes and macros: what `catalogue.toml` says, as statements.

Gives the statements that create an empty schema `catalog`. Invariant: every table, view and column of it has a comment,
so that a plain DuckDB shell explains the file. Macros let that shell query the file much as `tablepack` does; their
text is part of the file format: readers compare it with `macro_statements`. They contain no numbers but a factor and
the largest `catalog.tables.noise_sd`.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any

import duckdb

from engine.schema import (
    KIND_NEGATIVE,
    KIND_NONNEGATIVE,
    KIND_NULL,
    KIND_OTHER,
    Column,
    ColumnSet,
    literal,
    quoted,
)

TEXTS: dict[str, Any] = tomllib.loads((files(__package__) / "catalogue.toml").read_text("utf-8"))
COMMENTS: dict[str, str] = TEXTS["macros"]
"""Every macro and its comment."""
REQUIRED = (*TEXTS["tables"], "cell_ranges")
"""Tables in the catalogue of every release."""
OPTIONAL = frozenset(TEXTS["optional"])
"""Tables that it may have in addition."""
NORMAL_95, LAPLACE_95 = 1.96, 2.12
"""Half width of the central 95 % in standard deviations; the second is wider, and used for all noise of mode dp."""
_MEASURED = "CASE WHEN cells_released > 0 THEN noise_sd END"
_OF_TABLE = (
    f"CASE WHEN of_table IN (SELECT name FROM catalog.tables) THEN "
    f"(SELECT {_MEASURED} FROM catalog.tables WHERE name = of_table) "
    "ELSE error('there is no table of that name; names are in catalog.tables') END"
)
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


def notes_of(*, is_dp: bool) -> list[tuple[str, str]]:
    """Topic and text of the notes, with placeholders for the names of rows and entities."""
    return [(topic, text) for topic, text in TEXTS["notes"]["dp" if is_dp else "sticky"]]


def explain_dp(con: duckdb.DuckDBPyConnection) -> None:
    """Replace comments that do not apply in mode dp, in the running transaction."""
    for column, text in TEXTS["dp"].items():
        con.execute(f"COMMENT ON COLUMN catalog.{column} IS {literal(text)}")
    con.execute(f"COMMENT ON VIEW catalog.cells IS {literal(TEXTS['cells']['comment_dp'])}")


def create_ledger(con: duckdb.DuckDBPyConnection, entries: Sequence[Mapping[str, Any]]) -> None:
    """Create `catalog.ledger`, in the running transaction, and copy the ledger's entries into it."""
    _create_optional(con, "ledger", entries)


def insert_exposure(con: duckdb.DuckDBPyConnection, exposure: Mapping[str, Any]) -> None:
    """Create `catalog.exposure`, in the running transaction, and add the release's exposure to every card."""
    groups = exposure["groups"]
    shares = [{"figures_a_person": round(one["figures"] / one["people"], 4)} for one in groups]
    _create_optional(con, "exposure", [{**a, **b} for a, b in zip(groups, shares, strict=True)])
    overall = {k: v for k, v in exposure.items() if k not in ("groups", "sentences")}
    patch = json.dumps({"exposure": overall}, sort_keys=True)
    con.execute("UPDATE catalog.tables SET card = json_merge_patch(card, ?)", [patch])


def _create_optional(
    con: duckdb.DuckDBPyConnection, name: str, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Create an optional table with its rows."""
    for statement in _table_statements(name):
        con.execute(statement)
    columns = [column for column, *_ in columns_of(name)]
    marks = ", ".join("?" * len(columns))
    for row in rows:
        con.execute(
            f"INSERT INTO catalog.{name} VALUES ({marks})", [row.get(column) for column in columns]
        )


def create_catalog(con: duckdb.DuckDBPyConnection, *, width: int) -> None:
    """Create the empty catalogue, for tables of at most `width` columns, with its comments."""
    statements = ["CREATE SCHEMA tables", "CREATE SCHEMA catalog"]
    for name in TEXTS["tables"]:
        statements += _table_statements(name)
    statements += _cell_statements(width)
    con.execute("BEGIN; " + "; ".join(statements) + "; COMMIT")


def columns_of(name: str) -> list[tuple[str, str, str]]:
    """Return name, type and comment of the columns of a table of the catalogue; none for `cell_ranges`."""
    found = (TEXTS["tables"] | TEXTS["optional"]).get(name, {"columns": ()})
    return [(column, type_, comment) for column, type_, comment in found["columns"]]


def catalog_statements(width: int) -> list[str]:
    """Return the statements of an empty catalogue without comments, optional tables included."""
    tables = [_table_statements(name)[0] for name in (*TEXTS["tables"], *TEXTS["optional"])]
    cells = [s for s in _cell_statements(width) if s.startswith("CREATE ")]
    return ["CREATE SCHEMA tables", "CREATE SCHEMA catalog", *tables, *cells]


def _table_statements(name: str) -> list[str]:
    """Return the statements for one empty table of the catalogue with its comments."""
    comment = (TEXTS["tables"] | TEXTS["optional"])[name]["comment"]
    columns = columns_of(name)
    listed = ", ".join(f"{quoted(c)} {type_}" for c, type_, _ in columns)
    return [
        f"CREATE TABLE catalog.{name} ({listed})",
        f"COMMENT ON TABLE catalog.{name} IS {literal(comment)}",
        *(
            f"COMMENT ON COLUMN catalog.{name}.{quoted(c)} IS {literal(text)}"
            for c, _, text in columns
        ),
    ]


def _cell_statements(width: int) -> list[str]:
    """Return the statements for the stored cell ranges (flat, which compresses best) and the readable view of them."""
    flat = ", ".join(f"low_{j} BIGINT, span_{j} BIGINT" for j in range(1, width + 1))
    places = range(1, width + 1)
    kind = ", ".join(
        f"CASE WHEN low_{j} IS NOT NULL THEN CASE WHEN low_{j} < 0 THEN {KIND_NEGATIVE} ELSE {KIND_NONNEGATIVE} END "
        f"WHEN span_{j} = -1 THEN {KIND_OTHER} ELSE {KIND_NULL} END"
        for j in places
    )
    low = ", ".join(f"low_{j}" for j in places)
    high = ", ".join(f"low_{j} + span_{j}" for j in places)
    comments: dict[str, str] = TEXTS["cells"]["columns"]
    return [
        f"CREATE TABLE catalog.cell_ranges (table_id INTEGER, {flat}, n BIGINT, noise_sd FLOAT, "
        "measured BOOLEAN, depth TINYINT)",
        "COMMENT ON TABLE catalog.cell_ranges IS 'Storage of catalog.cells: query that view instead. Column j of a "
        "table spans low_j to low_j + span_j; if low_j is null, span_j is 0 for missing and -1 for the placeholder.'",
        *(
            f"COMMENT ON COLUMN catalog.cell_ranges.{c} IS {literal(text)}"
            for j in places
            for c, text in ((f"low_{j}", f"Lowest code of column {j}."), (f"span_{j}", f"Highest code minus low_{j}."))
        ),
        *(
            f"COMMENT ON COLUMN catalog.cell_ranges.{c} IS {literal(comments.get(c, 'The table.'))}"
            for c in ("table_id", "n", "noise_sd", "measured", "depth")
        ),
        "CREATE VIEW catalog.cells AS SELECT r.table_id, t.name, t.columns, "
        f"list_value({kind})[1:t.width] AS kind, list_value({low})[1:t.width] AS low, "
        f"list_value({high})[1:t.width] AS high, r.n, r.noise_sd, r.measured, r.depth, t.scale[r.depth + 1] AS scale "
        "FROM catalog.cell_ranges AS r JOIN catalog.tables AS t USING (table_id)",
        "CREATE VIEW catalog.cards AS SELECT table_id, name, rows, cells_released, noise_sd, "
        "suppressed_share, rounding_gap, cells_per_entity, card FROM catalog.tables",
        "COMMENT ON VIEW catalog.cards IS 'One generator card per table; see "
        "catalog.tables for the columns.'",
        f"COMMENT ON VIEW catalog.cells IS {literal(TEXTS['cells']['comment'])}",
        *(f"COMMENT ON COLUMN catalog.cells.{c} IS {literal(text)}" for c, text in comments.items()),
        "COMMENT ON COLUMN catalog.cells.scale IS 'Factor of the noise: see catalog.tables.scale.'",
    ]  # fmt: skip


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
