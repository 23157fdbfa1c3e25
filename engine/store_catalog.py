"""The catalogue of a release: the tables, views and comments with which the file explains itself.

Takes public nouns only (header, alphabets, cards, fitted tables) and writes schema `catalog`, one view a table
named for people, and a comment on everything. A bare DuckDB shell needs nothing else to understand the file.
Invariant: no statement here reads anything but what it was handed, so no number can come from un-noised data.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

import duckdb
import numpy as np

from engine.card import GeneratorCard
from engine.decode import carrier, sql_type
from engine.schema import (
    KIND_NEGATIVE,
    KIND_NULL,
    KIND_OTHER,
    Alphabet,
    Column,
    ColumnSet,
    ReleaseHeader,
    SyntheticTable,
    literal,
    quoted,
)

KIND_WORDS = ("null", "negative", "value", "other")
"""What `catalog.codes.kind` says, by kind of value."""

_TABLES: dict[str, tuple[str, tuple[tuple[str, str, str], ...]]] = {
    "release": (
        "What this release is: one row.",
        (
            ("title", "VARCHAR", "Title, for people."),
            ("logical_name", "VARCHAR", "Name of the logical table that tablepack answers SQL over."),
            ("vintage", "VARCHAR", "State of the source that was measured."),
            ("mode", "VARCHAR", "How it was measured; sticky: the same people draw the same noise."),
            ("key_id", "VARCHAR", "Public name of the key; tells keys apart, reveals nothing."),
            ("privacy", "VARCHAR", "Privacy parameters, as JSON."),
            ("engine_version", "VARCHAR", "Version of tablepack that built it."),
            ("format_version", "INTEGER", "Version of this catalogue."),
            ("content_hash", "VARCHAR", "Hash of all tables and released values; not of dates or timings."),
        ),
    ),
    "tables": (
        "The released tables, one for each set of columns.",
        (
            ("table_id", "INTEGER", "Number of the table."),
            ("name", "VARCHAR", "Its view in schema main: its columns, sorted, joined with a dot."),
            ("columns", "VARCHAR[]", "Its columns, sorted."),
            ("width", "INTEGER", "Number of columns."),
            ("physical", "VARCHAR", "Its table in schema tables: distinct rows with their number n."),
            ("rows", "BIGINT", "Number of synthetic rows; noisy, as every count here."),
            ("cells", "BIGINT", "Number of distinct synthetic rows."),
            ("content_hash", "VARCHAR", "Hash of its columns, values and counts."),
        ),
    ),
    "columns": (
        "The columns of the source, in its order.",
        (
            ("position", "INTEGER", "Place in the source, from 1."),
            ("name", "VARCHAR", "Name in the source."),
            ("label", "VARCHAR", "Label, for people."),
            ("kind", "VARCHAR", "How its values are laid out: on a grid, or as a list of categories."),
            ("value_type", "VARCHAR", "What a value is."),
            ("sql_type", "VARCHAR", "Type of the column in this file."),
            ("resolution_base", "INTEGER", "Reals and decimals are multiples of base ** exponent."),
            ("resolution_exponent", "INTEGER", "See resolution_base."),
            ("public", "BOOLEAN", "Its values are known from outside the data and never suppressed."),
            ("detected", "VARCHAR[]", "Settings that were detected, and that nobody has confirmed."),
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
    "cards": (
        "One generator card a table: what was measured and fitted.",
        (
            ("table_id", "INTEGER", "The table."),
            ("rows", "BIGINT", "Synthetic rows."),
            ("cells_released", "BIGINT", "Combinations of single values that were measured."),
            ("noise_sd", "DOUBLE", "Standard deviation of the noise of a finest count, in rows."),
            ("suppressed_share", "DOUBLE", "Share of rows that were filled in without looking (noisy)."),
            ("rounding_gap", "BIGINT", "Largest difference to a margin of a narrower table."),
            ("cells_per_entity", "DOUBLE", "Measured combinations over rows."),
            ("card", "VARCHAR", "The whole card, as JSON."),
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
_CELLS = "What is known of the noise: one row a measured bucket or filled remainder of a table."
_BASE_NOTES = (
    ("noise", "Every count carries noise that is fixed for the same people; asked again, it is the same."),
    ("noise", "No row is a person: rows are synthetic, drawn from noisy counts."),
    ("not released", "Combinations of too few people are not released; about them nothing is told, not even "
     "whether they exist. What is shown in their place was filled in without looking."),
    ("blank", "NULL is a blank of the source, for example a question that does not apply. It never stands for "
     "a suppressed value."),
    ("placeholder", "A placeholder such as (other) stands for all values of a column that are too rare to show."),
    ("locked margins", "A margin has one value however many tables show it; above two columns whole numbers "
     "may differ by the rounding gap of the card."),
    ("joins", "Rows of two tables must not be joined: they are not about the same people. Use one table that "
     "has all the columns."),
)  # fmt: skip


def table_name(columns: Iterable[str]) -> str:
    """Return the name of a table's view: sorted columns joined with dots, dots inside them as %2E."""
    return ".".join(c.replace("%", "%25").replace(".", "%2E") for c in sorted(columns))


def physical_name(table_id: int) -> str:
    """Return the name of the table in schema `tables` that holds the distinct rows."""
    return f"t_{table_id:04d}"


def create_catalog(con: duckdb.DuckDBPyConnection, *, width: int) -> None:
    """Create the empty catalogue, for tables of at most `width` columns, with its comments."""
    statements = ["CREATE SCHEMA tables", "CREATE SCHEMA catalog"]
    for name, (comment, columns) in _TABLES.items():
        listed = ", ".join(f"{quoted(c)} {type_}" for c, type_, _ in columns)
        statements.append(f"CREATE TABLE catalog.{name} ({listed})")
        statements.append(f"COMMENT ON TABLE catalog.{name} IS {literal(comment)}")
        statements += [
            f"COMMENT ON COLUMN catalog.{name}.{quoted(c)} IS {literal(text)}" for c, _, text in columns
        ]
    statements += _cell_statements(width)
    con.execute("BEGIN; " + "; ".join(statements) + "; COMMIT")


def _cell_statements(width: int) -> list[str]:
    """Return the statements for the stored cell ranges (flat: packs best) and the view that reads well."""
    flat = ", ".join(f"low_{j} BIGINT, span_{j} BIGINT" for j in range(1, width + 1))
    places = range(1, width + 1)
    kind = ", ".join(
        f"CASE WHEN low_{j} IS NOT NULL THEN CASE WHEN low_{j} < 0 THEN {KIND_NEGATIVE} ELSE 2 END "
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
        "measured": "True: a combination of single values. False: the filled remainder of a box.",
    }
    return [
        f"CREATE TABLE catalog.cell_ranges (table_id INTEGER, {flat}, n BIGINT, noise_sd FLOAT, measured BOOLEAN)",
        "COMMENT ON TABLE catalog.cell_ranges IS 'Storage of catalog.cells: read that. Column j of a table spans "
        "low_j to low_j + span_j; where low_j is null, span_j tells a blank (0) from the placeholder (-1).'",
        *(
            f"COMMENT ON COLUMN catalog.cell_ranges.{c} IS {literal(text)}"
            for j in places
            for c, text in ((f"low_{j}", f"Lowest code of column {j}."), (f"span_{j}", "Highest code less it."))
        ),
        *(
            f"COMMENT ON COLUMN catalog.cell_ranges.{c} IS {literal(comments.get(c, 'The table.'))}"
            for c in ("table_id", "n", "noise_sd", "measured")
        ),
        "CREATE VIEW catalog.cells AS SELECT r.table_id, t.name, t.columns, "
        f"list_value({kind})[1:t.width] AS kind, list_value({low})[1:t.width] AS low, "
        f"list_value({high})[1:t.width] AS high, r.n, r.noise_sd, r.measured "
        "FROM catalog.cell_ranges AS r JOIN catalog.tables AS t USING (table_id)",
        f"COMMENT ON VIEW catalog.cells IS {literal(_CELLS)}",
        *(f"COMMENT ON COLUMN catalog.cells.{c} IS {literal(text)}" for c, text in comments.items()),
    ]  # fmt: skip


def insert_alphabet(
    con: duckdb.DuckDBPyConnection, alphabet: Alphabet, *, position: int, content_hash: str
) -> None:
    """Write one column and its released values, in the running transaction."""
    carried = carrier(alphabet)
    column = alphabet.column
    labels = dict(column.labels)
    src = {
        "p": np.arange(len(alphabet), dtype=np.int32),
        "c": carried.array,
        "z": carried.is_null,
        "k": alphabet.kind,
        "code": alphabet.code,
        "m": alphabet.measured,
        "n": alphabet.n,
    }
    words = ", ".join(literal(w) for w in KIND_WORDS)
    con.execute(
        f"INSERT INTO catalog.codes SELECT {literal(column.name)}, p, CASE WHEN NOT z THEN "
        f"CAST({carried.expression.format('c')} AS VARCHAR) END, NULL, list_value({words})[k + 1], "
        "code, m, n FROM src"
    )
    _ = src  # read by name in the statement
    for value, label in labels.items():
        con.execute(
            "UPDATE catalog.codes SET label = ? WHERE column_name = ? AND value = ?",
            [label, column.name, value],
        )
    _insert_column(
        con, column, position, carried.sql_type, n_values=len(alphabet), content_hash=content_hash
    )


def _insert_column(
    con: duckdb.DuckDBPyConnection,
    column: Column,
    position: int,
    type_: str,
    *,
    n_values: int,
    content_hash: str | None,
) -> None:
    """Write one row of `catalog.columns`."""
    step = column.resolution
    row = [
        position,
        column.name,
        column.label,
        column.kind,
        column.value_type,
        type_,
        step.base if step else None,
        step.exponent if step else None,
        column.public,
        list(column.detected),
        column.placeholder,
        column.nulls[0] if column.nulls else "",
        n_values,
        content_hash,
    ]
    con.execute(f"INSERT INTO catalog.columns VALUES ({', '.join('?' * len(row))})", row)


def ledger_sql(table: SyntheticTable, card: GeneratorCard, table_id: int, content_hash: str) -> str:
    """Return the statements that enter a table and its card in the catalogue."""
    listed = ", ".join(literal(c) for c in table.columns)
    return (
        f"INSERT INTO catalog.tables VALUES ({table_id}, {literal(table_name(table.columns))}, "
        f"[{listed}], {len(table.columns)}, '{physical_name(table_id)}', {table.n_rows}, "
        f"{len(table.n)}, '{content_hash}'); "
        f"INSERT INTO catalog.cards VALUES ({table_id}, {card.rows}, {card.cells_released}, "
        f"{card.noise_sd!r}, {card.suppressed_share!r}, {card.rounding_gap}, "
        f"{card.cells_per_entity!r}, {literal(card.to_json())})"
    )


def write_release(
    con: duckdb.DuckDBPyConnection,
    header: ReleaseHeader,
    *,
    format_version: int,
    content_hash: str,
    done: Mapping[ColumnSet, int],
) -> None:
    """Write what closes a release: its row, notes, the columns of no table, views and comments.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        In no transaction.
    header : ReleaseHeader
    format_version : int
    content_hash : str
    done : mapping of ColumnSet to int
        The finished tables and their numbers.
    """
    con.execute("BEGIN")
    values = [header.title, header.logical_name, header.vintage, header.mode, header.key_id]
    values += [json.dumps(header.privacy, sort_keys=True), header.engine_version]
    marks = ", ".join("?" * 9)
    con.execute(
        f"INSERT INTO catalog.release VALUES ({marks})", [*values, format_version, content_hash]
    )
    notes = [*_BASE_NOTES, *(("release", text) for text in header.notes)]
    con.executemany(
        "INSERT INTO catalog.notes VALUES (?, ?, ?)",
        [(i, topic, text) for i, (topic, text) in enumerate(notes, 1)],
    )
    known = {name for (name,) in con.execute("SELECT name FROM catalog.columns").fetchall()}
    for position, column in enumerate(header.columns, 1):
        if column.name not in known:
            type_ = sql_type(column)
            _insert_column(con, column, position, type_, n_values=0, content_hash=None)
    order = {c.name: i for i, c in enumerate(header.columns)}
    statements = [s for columns, i in done.items() for s in _view_statements(columns, i, order)]
    con.execute("; ".join(statements) or "SELECT 1")
    con.execute("COMMIT")


def _view_statements(columns: ColumnSet, table_id: int, order: Mapping[str, int]) -> list[str]:
    """Return the view of one table, one row a synthetic person, and the comments on both."""
    listed = ", ".join(quoted(c) for c in sorted(columns, key=lambda c: order[c]))
    view, physical = quoted(table_name(columns)), physical_name(table_id)
    named = ", ".join(columns)
    one = f"Synthetic rows over {named}: one row a synthetic person. Noise: catalog.cards, table {table_id}."
    many = (
        f"Distinct synthetic rows over {named}: n of each. measured: the count was measured, not filled in."
    )
    return [
        f"CREATE VIEW main.{view} AS SELECT {listed} FROM "
        f"(SELECT *, unnest(range(n)) AS {quoted(_unused('i', columns))} FROM tables.{physical})",
        f"COMMENT ON VIEW main.{view} IS {literal(one)}",
        f"COMMENT ON TABLE tables.{physical} IS {literal(many)}",
    ]


def count_names(columns: Iterable[str]) -> tuple[str, str]:
    """Return the names of the two added columns, count and measured, that no column of the table has."""
    names = tuple(columns)
    return _unused("n", names), _unused("measured", names)


def _unused(name: str, columns: Iterable[str]) -> str:
    """Return the name with as many underscores as it takes to differ, ignoring case."""
    taken = {c.lower() for c in columns}
    while name.lower() in taken:
        name += "_"
    return name
