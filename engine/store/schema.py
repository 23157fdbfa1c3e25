"""The catalogue's tables, their comments, and the sentences that every release carries.

Gives the statements that create schema `catalog`, empty. Invariant: every table, view and column of it has a
comment, so that a bare DuckDB shell explains the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from engine.schema import KIND_NEGATIVE, KIND_NONNEGATIVE, KIND_NULL, KIND_OTHER, literal, quoted

_TABLES: dict[str, tuple[str, tuple[tuple[str, str, str], ...]]] = {
    "release": (
        "What this release is: one row.",
        (
            ("title", "VARCHAR", "Title, for people."),
            (
                "logical_name",
                "VARCHAR",
                "Name of the logical table that tablepack answers SQL over.",
            ),
            ("vintage", "VARCHAR", "State of the source that was measured."),
            (
                "mode",
                "VARCHAR",
                "How it was measured; sticky: the same entities draw the same noise; dp: under a budget.",
            ),
            ("key_id", "VARCHAR", "Public name of the key; tells keys apart, reveals nothing."),
            ("privacy", "VARCHAR", "Privacy parameters, as JSON."),
            ("engine_version", "VARCHAR", "Version of tablepack that built it."),
            ("format_version", "INTEGER", "Version of this catalogue."),
            (
                "content_hash",
                "VARCHAR",
                "Hash of all tables and released values; not of dates or timings.",
            ),
            (
                "unit",
                "VARCHAR",
                "What a row is called, one and many, by language, as JSON. Counts count these.",
            ),
            (
                "entity",
                "VARCHAR",
                "Whom the release protects, called so, as JSON: groups of too few of these are not released.",
            ),
            (
                "reviewed",
                "BOOLEAN",
                "Whether a person says that what catalog.columns lists as detected was looked at.",
            ),
        ),
    ),
    "tables": (
        "The released tables, one for each set of columns.",
        (
            ("table_id", "INTEGER", "Number of the table."),
            ("name", "VARCHAR", "Its view in schema main: its columns, sorted, joined with a dot."),
            ("columns", "VARCHAR[]", "Its columns, sorted."),
            ("width", "INTEGER", "Number of columns."),
            (
                "physical",
                "VARCHAR",
                "Its table in schema tables: distinct rows with their number n.",
            ),
            ("rows", "BIGINT", "Number of synthetic rows; noisy, as every count here."),
            ("cells", "BIGINT", "Number of distinct synthetic rows."),
            ("content_hash", "VARCHAR", "Hash of its columns, values and counts."),
            ("cells_released", "BIGINT", "Combinations of single values that were measured."),
            ("noise_sd", "DOUBLE", "Standard deviation of the noise of a finest count, in rows."),
            ("suppressed_share", "DOUBLE", "Share of rows filled in without looking (noisy)."),
            ("rounding_gap", "BIGINT", "Largest difference to a margin of a narrower table."),
            ("cells_per_entity", "DOUBLE", "Measured combinations over rows."),
            (
                "tops",
                "INTEGER[]",
                "Per column: level of its ranges at the top of the measured tree. At depth d a range holds "
                "2 ** max(top - d, 0) codes, so that the bucket above a bucket follows from its depth. Empty in "
                "mode dp.",
            ),
            (
                "scale",
                "BIGINT[]",
                "Per depth of the measured tree, from 0: the power of two that the noise of its buckets was multiplied "
                "with, for entities with several rows; else 1. Empty in mode dp.",
            ),
            ("card", "VARCHAR", "Its generator card, as JSON: what was measured and fitted."),
        ),
    ),
    "columns": (
        "The columns of the source, in its order.",
        (
            ("position", "INTEGER", "Place in the source, from 1."),
            ("name", "VARCHAR", "Name in the source."),
            ("label", "VARCHAR", "Label, for people."),
            (
                "kind",
                "VARCHAR",
                "How its values are laid out: on a grid, or as a list of categories.",
            ),
            ("value_type", "VARCHAR", "What a value is."),
            ("sql_type", "VARCHAR", "Type of the column in this file."),
            ("resolution_base", "INTEGER", "Reals and decimals are multiples of base ** exponent."),
            ("resolution_exponent", "INTEGER", "See resolution_base."),
            (
                "public",
                "BOOLEAN",
                "Its values are known from outside the data and never suppressed.",
            ),
            (
                "detected",
                "VARCHAR[]",
                "Detected in the data, not reviewed: settings that nobody has confirmed.",
            ),
            ("placeholder", "VARCHAR", "Stands for values too rare to be released."),
            ("null_spelling", "VARCHAR", "How CSV exports write a blank."),
            ("released_values", "BIGINT", "Number of values in catalog.codes."),
            ("content_hash", "VARCHAR", "Hash of its declaration and released values."),
        ),
    ),
    "codes": (
        "The released values of every column.",
        (
            ("column_name", "VARCHAR", "The column."),
            ("position", "INTEGER", "Place of the value among the column's values, from 0."),
            ("value", "VARCHAR", "The value as text; NULL where it is a blank."),
            ("label", "VARCHAR", "Label, for people."),
            ("kind", "VARCHAR", "null, negative, value, or other (the placeholder)."),
            ("code", "BIGINT", "Place on the column's grid, or in its list; cell ranges use it."),
            ("measured", "BOOLEAN", "Measured by itself; else drawn inside a measured range."),
            ("n", "BIGINT", "Fitted number of rows."),
        ),
    ),
    "universes": (
        "For which rows a column has a value, as the custodian declared it; from the spec, not from the data.",
        (
            ("column_name", "VARCHAR", "The column."),
            (
                "decided_by",
                "VARCHAR",
                "The column that decides; where it is blank, a row is outside.",
            ),
            ("low", "VARCHAR", "Smallest value inside, as text; NULL: no limit."),
            ("high", "VARCHAR", "Largest value inside, as text; NULL: no limit."),
            (
                "listed",
                "VARCHAR[]",
                "The values inside, as text; NULL: all that low and high allow.",
            ),
            ("outside", "VARCHAR", "What the column holds outside, as text; NULL: a blank."),
            ("complete", "BOOLEAN", "True: inside, the column never holds that."),
        ),
    ),
    "notes": (
        "How to read this release.",
        (
            ("position", "INTEGER", "Order."),
            ("topic", "VARCHAR", "What it is about."),
            ("note", "VARCHAR", "The sentence."),
        ),
    ),
}
_EXPOSURE = (
    ("columns", "VARCHAR[]", "One or two columns that single the group out."),
    ("ranges", "VARCHAR[]", "Its value or range in each of them."),
    ("people", "BIGINT", "Noisy number of rows in it."),
    ("told", "VARCHAR", "The column that further tables tell of it."),
    ("figures", "BIGINT", "Noisy figures that split the group and show that column."),
    ("tables", "BIGINT", "Tables that they come from."),
    ("figures_a_person", "DOUBLE", "Figures over people."),
    (
        "guessed",
        "DOUBLE",
        "How often an even bit in the column's place is guessed right by who knows their other columns; 0.5: chance.",
    ),
)
_CELLS = "What is known of the noise: one row a measured bucket or filled remainder of a table."
NOTES = (
    ("unit", "Counts are of {many}. What is protected are {entities}."),
    ("noise", "Every count carries noise that is fixed for the same {entities}; asked again, it is the same."),
    ("noise", "No row is a real {one}: rows are synthetic, drawn from noisy counts."),
    ("not released", "Combinations of too few {entities} are not released; about them nothing is told, not even "
     "whether they exist. What is shown in their place was filled in without looking."),
    ("blank", "NULL is a blank of the source, for example a question that does not apply. It never stands for "
     "a suppressed value."),
    ("placeholder", "A placeholder such as (other) stands for all values of a column that are too rare to show."),
    ("locked margins", "A margin has one value however many tables show it; above two columns whole numbers "
     "may differ by the rounding gap of the card."),
    ("joins", "Rows of two tables must not be joined: they are not about the same {entities}. Use one table that "
     "has all the columns."),
    ("macros", "At a SQL prompt these help: noise_interval, tables_with, values_of, label_of, card_of. What each does: "
     "SELECT DISTINCT function_name, comment FROM duckdb_functions() WHERE NOT internal."),
)  # fmt: skip
"""Topic and sentence, with places for the words of the unit and the entity."""
DP_NOTES = (
    ("unit", "Counts are of {many}. What is protected are {entities}."),
    ("noise", "Counts were measured once, and all that is here follows from them without another look at the data. "
     "The cards say with how much noise, if any; counts that were 0 are noisy like all others."),
    ("noise", "No row is a real {one}: rows are synthetic, drawn from a distribution that was fitted to those counts."),
    ("measured or modelled", "A table whose columns lie inside a measured margin has counts of its own; any other is "
     "modelled from narrower margins, as its card says, and catalog.cells has no entry for it."),
    ("domain", "Values come from public lists and limits, not from the data: that a value occurs here does not say "
     "that it occurs there, nor the other way round."),
    ("blank", "NULL is a blank of the source, for example a question that does not apply."),
    ("margins", "All tables are projections of the same rows: a margin has one value however many tables show it."),
    ("joins", "Rows of two tables must not be joined: their order says nothing. Use one table that has all the "
     "columns."),
    ("macros", "At a SQL prompt these help: noise_interval, tables_with, values_of, label_of, card_of. What each does: "
     "SELECT DISTINCT function_name, comment FROM duckdb_functions() WHERE NOT internal."),
)  # fmt: skip
"""The same for a release of mode dp."""
_LEDGER = (
    ("number", "INTEGER", "Order of writing, from 1."),
    (
        "state",
        "VARCHAR",
        "charged: before it was drawn; measured: kept; budget set: by the custodian.",
    ),
    ("vintage", "VARCHAR", "State of the source that was measured."),
    ("title", "VARCHAR", "Title of the release it was measured for."),
    ("noise", "VARCHAR", "laplace (pure epsilon) or gaussian (rho, zero-concentrated)."),
    ("margins", "INTEGER", "Number of margins measured, without the total."),
    ("epsilon", "DOUBLE", "What it cost by itself."),
    ("delta", "DOUBLE", "What it cost by itself; 0 with Laplace noise."),
    ("rho", "DOUBLE", "What it cost by itself; 0 with Laplace noise."),
    ("budget", "DOUBLE", "Most epsilon that all entries together may cost, as it stood then."),
    ("budget_delta", "DOUBLE", "The delta that this epsilon is reckoned at."),
)


_DP_COMMENTS = {
    "tables.cells_released": "Combinations of levels (values, or public groups of values) that were measured; 0: "
    "no measured margin has all columns of the table.",
    "tables.noise_sd": "Largest standard deviation of the noise of a combination of levels, or of the margins that a "
    "modelled table follows from, in rows.",
    "tables.suppressed_share": "Share of rows whose own combination of values was not measured: it follows from "
    "narrower margins, or values were drawn inside a group.",
    "tables.cells_per_entity": "Measured combinations of levels over rows.",
    "cells.n": "Number of synthetic rows.",
    "cells.noise_sd": "Standard deviation of the noise of such a combination, in rows.",
    "cells.measured": "True: a combination of single values. False: a group of values is in it.",
}
"""What columns mean in mode dp, where it is not what they mean otherwise."""
_DP_CELLS = "What was measured: one row a combination of levels that has synthetic rows, of tables inside a margin."


def explain_dp(con: duckdb.DuckDBPyConnection) -> None:
    """Put the comments of mode dp in place of those that do not hold there, in the running transaction."""
    for column, text in _DP_COMMENTS.items():
        con.execute(f"COMMENT ON COLUMN catalog.{column} IS {literal(text)}")
    con.execute(f"COMMENT ON VIEW catalog.cells IS {literal(_DP_CELLS)}")


def create_ledger(con: duckdb.DuckDBPyConnection, entries: Sequence[Mapping[str, Any]]) -> None:
    """Create `catalog.ledger`, in the running transaction, and copy the ledger's entries into it."""
    comment = (
        "All that was ever measured of the same source in mode dp, as the ledger beside the key had it when this "
        "release was built; empty where nothing is guaranteed."
    )
    for statement in _table_statements("ledger", comment, _LEDGER):
        con.execute(statement)
    marks = ", ".join("?" * len(_LEDGER))
    for entry in entries:
        con.execute(
            f"INSERT INTO catalog.ledger VALUES ({marks})", [entry.get(c) for c, *_ in _LEDGER]
        )


def insert_exposure(con: duckdb.DuckDBPyConnection, exposure: Mapping[str, Any]) -> None:
    """Create `catalog.exposure`, in the running transaction, and note the release's exposure on every card."""
    comment = (
        "The groups that the tables of this release tell most of, each with the column told; reckoned from noisy "
        "counts. In words: catalog.notes, topic exposure."
    )
    for statement in _table_statements("exposure", comment, _EXPOSURE):
        con.execute(statement)
    for group in exposure["groups"]:
        share = round(group["figures"] / group["people"], 4)
        values = [{**group, "figures_a_person": share}[name] for name, *_ in _EXPOSURE]
        con.execute("INSERT INTO catalog.exposure VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
    overall = {k: v for k, v in exposure.items() if k not in ("groups", "sentences")}
    patch = json.dumps({"exposure": overall}, sort_keys=True)
    con.execute("UPDATE catalog.tables SET card = json_merge_patch(card, ?)", [patch])


def create_catalog(con: duckdb.DuckDBPyConnection, *, width: int) -> None:
    """Create the empty catalogue, for tables of at most `width` columns, with its comments."""
    statements = ["CREATE SCHEMA tables", "CREATE SCHEMA catalog"]
    for name, (comment, columns) in _TABLES.items():
        statements += _table_statements(name, comment, columns)
    statements += _cell_statements(width)
    con.execute("BEGIN; " + "; ".join(statements) + "; COMMIT")


REQUIRED = (*_TABLES, "cell_ranges")
"""Tables that the catalogue of every release has."""
OPTIONAL = frozenset({"ledger", "exposure"})
"""Tables that it may have."""


def columns_of(name: str) -> tuple[tuple[str, str, str], ...]:
    """Return name, type and comment of the columns of a table of the catalogue; none for `cell_ranges`."""
    return _TABLES[name][1] if name in _TABLES else ()


def catalog_statements(width: int) -> list[str]:
    """Return the statements of an empty catalogue without its comments, with all that it may have."""
    statements = ["CREATE SCHEMA tables", "CREATE SCHEMA catalog", *_cell_statements(width)]
    optional = {"ledger": ("", _LEDGER), "exposure": ("", _EXPOSURE)}
    tables = [
        _table_statements(name, comment, columns)[0]
        for name, (comment, columns) in {**_TABLES, **optional}.items()
    ]
    made = [s for s in statements if s.startswith("CREATE ")]
    return [*made[:2], *tables, *made[2:]]


def _table_statements(
    name: str, comment: str, columns: tuple[tuple[str, str, str], ...]
) -> list[str]:
    """Return the statements for one empty table of the catalogue with its comments."""
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
    """Return the statements for the stored cell ranges (flat: packs best) and the view that reads well."""
    flat = ", ".join(f"low_{j} BIGINT, span_{j} BIGINT" for j in range(1, width + 1))
    places = range(1, width + 1)
    kind = ", ".join(
        f"CASE WHEN low_{j} IS NOT NULL THEN CASE WHEN low_{j} < 0 THEN {KIND_NEGATIVE} ELSE {KIND_NONNEGATIVE} END "
        f"WHEN span_{j} = -1 THEN {KIND_OTHER} ELSE {KIND_NULL} END"
        for j in places
    )
    low = ", ".join(f"low_{j}" for j in places)
    high = ", ".join(f"low_{j} + span_{j}" for j in places)
    comments = {
        "kind": "Per column: 0 null, 1 negative, 2 zero and above, 3 placeholder.",
        "low": "Per column: lowest code of the range (catalog.codes.code).",
        "high": "Per column: highest code of the range.",
        "n": "Fitted number of rows.",
        "noise_sd": "Standard deviation of the noise of the count it was read from, in rows.",
        "measured": "True: a bucket of single values that was measured. False: what a measured box holds beyond "
        "its measured parts, filled in without looking.",
        "depth": "How often all columns were halved, from catalog.tables.tops, to come to the bucket, or the box. "
        "NULL: in no measured box, or mode dp.",
    }
    return [
        f"CREATE TABLE catalog.cell_ranges (table_id INTEGER, {flat}, n BIGINT, noise_sd FLOAT, "
        "measured BOOLEAN, depth TINYINT)",
        "COMMENT ON TABLE catalog.cell_ranges IS 'Storage of catalog.cells: read that. Column j of a table spans "
        "low_j to low_j + span_j; where low_j is null, span_j tells a blank (0) from the placeholder (-1).'",
        *(
            f"COMMENT ON COLUMN catalog.cell_ranges.{c} IS {literal(text)}"
            for j in places
            for c, text in ((f"low_{j}", f"Lowest code of column {j}."), (f"span_{j}", "Highest code less it."))
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
        "COMMENT ON VIEW catalog.cards IS 'One generator card a table; its columns are explained "
        "in catalog.tables.'",
        f"COMMENT ON VIEW catalog.cells IS {literal(_CELLS)}",
        *(f"COMMENT ON COLUMN catalog.cells.{c} IS {literal(text)}" for c, text in comments.items()),
        "COMMENT ON COLUMN catalog.cells.scale IS 'What the noise was multiplied with: see catalog.tables.scale.'",
    ]  # fmt: skip
