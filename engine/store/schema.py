"""The catalogue's tables, their comments, and the notes that every release contains.

Gives the statements that create an empty schema `catalog`. Invariant: every table, view and column of it has a
comment, so that a plain DuckDB shell explains the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from engine.schema import KIND_NEGATIVE, KIND_NONNEGATIVE, KIND_NULL, KIND_OTHER, literal, quoted

_TABLES: dict[str, tuple[str, tuple[tuple[str, str, str], ...]]] = {
    "release": (
        "Description of this release: one row.",
        (
            ("title", "VARCHAR", "Title."),
            (
                "logical_name",
                "VARCHAR",
                "Name of the logical table that SQL queries refer to in tablepack.",
            ),
            ("vintage", "VARCHAR", "Version of the source that was measured."),
            (
                "mode",
                "VARCHAR",
                "How it was measured; sticky: the same entities always get the same noise; dp: differentially private, "
                "under a budget.",
            ),
            ("key_id", "VARCHAR", "Public identifier of the key; reveals nothing about it."),
            ("privacy", "VARCHAR", "Privacy parameters, as JSON."),
            ("engine_version", "VARCHAR", "Version of tablepack that built it."),
            ("format_version", "INTEGER", "Version of this catalogue."),
            (
                "content_hash",
                "VARCHAR",
                "Hash of all tables and released values; does not cover dates or timings.",
            ),
            (
                "unit",
                "VARCHAR",
                "What counts count: name of a row, singular and plural, by language, as JSON.",
            ),
            (
                "entity",
                "VARCHAR",
                "Name of the protected entity, as JSON: groups with too few of these are not released.",
            ),
            (
                "reviewed",
                "BOOLEAN",
                "Whether the settings that catalog.columns lists as detected were reviewed by a person.",
            ),
        ),
    ),
    "tables": (
        "The released tables, one per set of columns.",
        (
            ("table_id", "INTEGER", "Number of the table."),
            ("name", "VARCHAR", "Its view in schema main: its columns, sorted and joined by dots."),
            ("columns", "VARCHAR[]", "Its columns, sorted."),
            ("width", "INTEGER", "Number of columns."),
            (
                "physical",
                "VARCHAR",
                "Its table in schema tables: distinct rows with their number n.",
            ),
            ("rows", "BIGINT", "Number of synthetic rows; noisy, like every count here."),
            ("cells", "BIGINT", "Number of distinct synthetic rows."),
            ("content_hash", "VARCHAR", "Hash of its columns, values and counts."),
            ("cells_released", "BIGINT", "Combinations of single values that were measured."),
            ("noise_sd", "DOUBLE", "Standard deviation of the noise of a finest count, in rows."),
            (
                "suppressed_share",
                "DOUBLE",
                "Share of rows imputed without reference to the data (noisy).",
            ),
            (
                "rounding_gap",
                "BIGINT",
                "Largest difference from a count of a table with one column fewer.",
            ),
            ("cells_per_entity", "DOUBLE", "Measured combinations divided by rows."),
            (
                "tops",
                "INTEGER[]",
                "Per column: level of its ranges at the top of the measured tree. At depth d a range holds "
                "2 ** max(top - d, 0) codes, so that the parent of a cell follows from its depth. Empty in mode dp.",
            ),
            (
                "scale",
                "BIGINT[]",
                "Per depth of the measured tree, from 0: the power of two by which the noise of its cells was "
                "multiplied, for entities with several rows; otherwise 1. Empty in mode dp.",
            ),
            ("card", "VARCHAR", "Its generator card, as JSON: parameters of measurement and fit."),
        ),
    ),
    "columns": (
        "The columns of the source, in their order.",
        (
            ("position", "INTEGER", "Position in the source, from 1."),
            ("name", "VARCHAR", "Name in the source."),
            ("label", "VARCHAR", "Label."),
            (
                "kind",
                "VARCHAR",
                "How its values are coded: on a grid, or as a list of categories.",
            ),
            ("value_type", "VARCHAR", "Type of a value in the source."),
            ("sql_type", "VARCHAR", "Type of the column in this file."),
            ("resolution_base", "INTEGER", "Reals and decimals are multiples of base ** exponent."),
            ("resolution_exponent", "INTEGER", "See resolution_base."),
            (
                "public",
                "BOOLEAN",
                "Its values are publicly known and never suppressed.",
            ),
            (
                "detected",
                "VARCHAR[]",
                "Settings detected in the data; catalog.release.reviewed says whether they were reviewed.",
            ),
            ("placeholder", "VARCHAR", "Replaces values that are too rare to be released."),
            ("null_spelling", "VARCHAR", "How CSV exports write a missing value."),
            ("released_values", "BIGINT", "Number of values in catalog.codes."),
            ("content_hash", "VARCHAR", "Hash of its declaration and released values."),
        ),
    ),
    "codes": (
        "The released values of every column.",
        (
            ("column_name", "VARCHAR", "The column."),
            ("position", "INTEGER", "Position of the value among the column's values, from 0."),
            ("value", "VARCHAR", "The value as text; NULL for a missing value."),
            ("label", "VARCHAR", "Label."),
            (
                "kind",
                "VARCHAR",
                "null, negative, value, prefix or ancestor (of hidden values), or other (the placeholder).",
            ),
            (
                "code",
                "BIGINT",
                "Position on the column's grid, or in its list; cell ranges refer to it.",
            ),
            (
                "measured",
                "BOOLEAN",
                "Measured individually; otherwise drawn within a measured range.",
            ),
            ("n", "BIGINT", "Fitted number of rows."),
        ),
    ),
    "universes": (
        "Universes: the rows in which a column has a value, as declared in the spec; not derived from the data.",
        (
            ("column_name", "VARCHAR", "The column."),
            (
                "decided_by",
                "VARCHAR",
                "The deciding column; rows where it is missing are outside.",
            ),
            ("low", "VARCHAR", "Smallest value inside, as text; NULL: no limit."),
            ("high", "VARCHAR", "Largest value inside, as text; NULL: no limit."),
            (
                "listed",
                "VARCHAR[]",
                "The values inside, as text; NULL: all that low and high allow.",
            ),
            (
                "outside",
                "VARCHAR",
                "Value of the column outside the universe, as text; NULL: missing.",
            ),
            ("complete", "BOOLEAN", "True: the column never has that value inside the universe."),
        ),
    ),
    "notes": (
        "How to read this release.",
        (
            ("position", "INTEGER", "Order."),
            ("topic", "VARCHAR", "Topic."),
            ("note", "VARCHAR", "Text."),
        ),
    ),
}
_EXPOSURE = (
    ("columns", "VARCHAR[]", "Columns that define the group; none: it is the most exposed people."),
    ("ranges", "VARCHAR[]", "Its value or range in each of these columns."),
    ("people", "BIGINT", "Noisy number of rows in it."),
    (
        "told",
        "VARCHAR",
        "The target column, about which further tables publish figures of the group.",
    ),
    ("figures", "BIGINT", "Noisy figures that split the group by the target column."),
    ("tables", "BIGINT", "Tables that contain these figures."),
    ("figures_a_person", "DOUBLE", "Figures divided by people."),
    (
        "guessed",
        "DOUBLE",
        "Probability that an attacker who knows their other attributes guesses a 50:50 target attribute correctly; "
        "0.5: chance.",
    ),
)
_CELLS = "Noise of the counts: one row per measured cell or imputed remainder of a table."
_MACROS_NOTE = (
    "macros",
    "Helpful in SQL: noise_interval, tables_with, values_of, label_of, card_of. Descriptions: SELECT DISTINCT "
    "function_name, comment FROM duckdb_functions() WHERE NOT internal.",
)
NOTES = (
    ("unit", "Counts are of {many}. The release protects {entities}."),
    ("noise", "Every count includes noise, which is always the same for the same {entities}: repeating a query returns "
     "the same figure."),
    ("noise", "No row is a real {one}: rows are synthetic, drawn from noisy counts."),
    ("not released", "Combinations with too few {entities} are suppressed; nothing is disclosed about them, not even "
     "whether they exist. The values shown in their place were imputed without reference to the data."),
    ("blank", "NULL is a missing value of the source, for example a question that does not apply. It never marks a "
     "suppressed value."),
    ("placeholder", "A placeholder such as (other) stands for all values of a column that are too rare to be shown, "
     "and a value such as E1* for those that begin with E1, or that a list of codes has below it (kinds prefix and "
     "ancestor in catalog.codes)."),
    ("locked margins", "Counts of one column are the same in every table that contains it. Counts of several columns "
     "may differ: from tables with one column fewer by at most the rounding gap on the card, from others by more."),
    ("joins", "Rows of two tables must not be joined: they do not describe the same {entities}. Use one table that has "
     "all the columns."),
    _MACROS_NOTE,
)  # fmt: skip
"""Topic and text, with placeholders for the names of rows and entities."""
DP_NOTES = (
    ("unit", "Counts are of {many}. The release protects {entities}."),
    ("noise", "Counts were measured once, and everything here is derived from them without further access to the data. "
     "The cards state the noise, if any; counts of zero are as noisy as all others."),
    ("noise", "No row is a real {one}: rows are synthetic, drawn from a distribution that was fitted to those counts."),
    ("measured or modelled", "A table whose columns lie within a measured margin has measured counts; any other is "
     "modelled from narrower margins, as its card says, and has no entry in catalog.cells."),
    ("domain", "Values come from public lists and limits, not from the data: that a value occurs here does not mean "
     "that it occurs in the data, or the other way round."),
    ("blank", "NULL is a missing value of the source, for example a question that does not apply."),
    ("margins", "All tables are projections of the same rows: a margin is the same in every table that contains it."),
    ("joins", "Rows of two tables must not be joined: their order has no meaning. Use one table that has all the "
     "columns."),
    _MACROS_NOTE,
)  # fmt: skip
"""The same for a release of mode dp."""
_LEDGER = (
    ("number", "INTEGER", "Order of entry, from 1."),
    (
        "state",
        "VARCHAR",
        "charged: before the noise was drawn; measured: counts kept; budget set: by the custodian.",
    ),
    ("vintage", "VARCHAR", "Version of the source that was measured."),
    ("title", "VARCHAR", "Title of the release that it was measured for."),
    ("noise", "VARCHAR", "laplace (pure epsilon) or gaussian (rho, zero-concentrated)."),
    ("margins", "INTEGER", "Number of margins measured, without the total."),
    ("epsilon", "DOUBLE", "Cost of this entry alone."),
    ("delta", "DOUBLE", "Cost of this entry alone; 0 with Laplace noise."),
    ("rho", "DOUBLE", "Cost of this entry alone; 0 with Laplace noise."),
    ("budget", "DOUBLE", "Total epsilon allowed for all entries together at that time."),
    ("budget_delta", "DOUBLE", "The delta at which this epsilon is computed."),
)


_DP_COMMENTS = {
    "tables.cells_released": "Combinations of levels (values, or public groups of values) that were measured; 0: "
    "no measured margin has all columns of the table.",
    "tables.noise_sd": "Largest standard deviation of the noise of a combination of levels, or of the margins from "
    "which a modelled table is derived, in rows.",
    "tables.suppressed_share": "Share of rows whose own combination of values was not measured: it is derived from "
    "narrower margins, or values were drawn within a group.",
    "tables.cells_per_entity": "Measured combinations of levels divided by rows.",
    "cells.n": "Number of synthetic rows.",
    "cells.noise_sd": "Standard deviation of the noise of such a combination, in rows.",
    "cells.measured": "True: a combination of single values. False: it includes a group of values.",
}
"""Comments on columns that have another meaning in mode dp."""
_DP_CELLS = "What was measured: one row per combination of levels that has synthetic rows, of tables within a margin."


def explain_dp(con: duckdb.DuckDBPyConnection) -> None:
    """Replace comments that do not apply in mode dp, in the running transaction."""
    for column, text in _DP_COMMENTS.items():
        con.execute(f"COMMENT ON COLUMN catalog.{column} IS {literal(text)}")
    con.execute(f"COMMENT ON VIEW catalog.cells IS {literal(_DP_CELLS)}")


def create_ledger(con: duckdb.DuckDBPyConnection, entries: Sequence[Mapping[str, Any]]) -> None:
    """Create `catalog.ledger`, in the running transaction, and copy the ledger's entries into it."""
    comment = (
        "Everything that was ever measured of the same source in mode dp, according to the ledger next to the key when "
        "this release was built; empty if there is no privacy guarantee."
    )
    for statement in _table_statements("ledger", comment, _LEDGER):
        con.execute(statement)
    marks = ", ".join("?" * len(_LEDGER))
    for entry in entries:
        con.execute(
            f"INSERT INTO catalog.ledger VALUES ({marks})", [entry.get(c) for c, *_ in _LEDGER]
        )


def insert_exposure(con: duckdb.DuckDBPyConnection, exposure: Mapping[str, Any]) -> None:
    """Create `catalog.exposure`, in the running transaction, and add the release's exposure to every card."""
    comment = (
        "The most exposed groups of this release, each with its target column; computed from noisy counts. In words: "
        "catalog.notes, topic exposure."
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
"""Tables in the catalogue of every release."""
OPTIONAL = frozenset({"ledger", "exposure"})
"""Tables that it may have in addition."""


def columns_of(name: str) -> tuple[tuple[str, str, str], ...]:
    """Return name, type and comment of the columns of a table of the catalogue; none for `cell_ranges`."""
    return _TABLES[name][1] if name in _TABLES else ()


def catalog_statements(width: int) -> list[str]:
    """Return the statements of an empty catalogue without comments, optional tables included."""
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
    comments = {
        "kind": "Per column: 0 null, 1 negative, 2 zero and above, 3 placeholder.",
        "low": "Per column: lowest code of the range (catalog.codes.code).",
        "high": "Per column: highest code of the range.",
        "n": "Fitted number of rows.",
        "noise_sd": "Standard deviation of the noise of the count that it was derived from, in rows.",
        "measured": "True: a measured cell of single values. False: the remainder of a measured range beyond its "
        "measured parts, imputed without reference to the data.",
        "depth": "How often all columns were halved, from catalog.tables.tops, to reach the cell or range. NULL: in "
        "no measured range, or mode dp.",
    }
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
        f"COMMENT ON VIEW catalog.cells IS {literal(_CELLS)}",
        *(f"COMMENT ON COLUMN catalog.cells.{c} IS {literal(text)}" for c, text in comments.items()),
        "COMMENT ON COLUMN catalog.cells.scale IS 'Factor of the noise: see catalog.tables.scale.'",
    ]  # fmt: skip
