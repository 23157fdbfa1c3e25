"""The catalogue of a release: the tables, views and comments that make the file self-describing.

Takes public values only (header, supports, cards, fitted tables) and writes schema `catalog`, a view for each table,
and a comment on everything. A plain DuckDB shell needs nothing else to understand the file.
Invariant: no statement here reads anything but its arguments, so no number can come from data without noise.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np

from engine.periods import label_sql
from engine.schema import (
    KIND_NONNEGATIVE,
    KIND_NULL,
    KIND_OTHER,
    CellGroups,
    Column,
    ColumnSet,
    ReleaseHeader,
    Support,
    SyntheticTable,
    literal,
    quoted,
)
from engine.store.card import GeneratorCard, words_of
from engine.store.decode import Carrier, as_text, hides, sql_type
from engine.store.schema import (
    catalog_comments,
    column_comments,
    create_ledger,
    create_macros,
    drop_macros,
    explain_dp,
    insert_exposure,
    notes_of,
)
from engine.units import Unit


def kind_of(word: str) -> int:
    """The kind that a word of `catalog.codes` names."""
    return KIND_NONNEGATIVE if word in HIDDEN_WORDS else KIND_WORDS.index(word)


def table_arrays(
    table: SyntheticTable, carriers: Mapping[str, Carrier]
) -> tuple[dict[str, Any], str]:
    """Return the arrays of a table, and the SELECT list that refers to them by name."""
    count, measured = count_names(table.columns)
    arrays: dict[str, Any] = {}
    expressions = []
    for j, name in enumerate(table.columns):
        carried = carriers[name]
        codes = table.codes[:, j]
        values = carried.array[codes]
        if carried.has_nulls and values.dtype != object:
            values = np.ma.MaskedArray(values, mask=carried.is_null[codes])
        arrays[f"c{j}"] = values
        expressions.append(f"{carried.expression.format(f'c{j}')} AS {quoted(name)}")
    arrays |= {"n": table.n, "m": table.measured}
    expressions += [f"n AS {quoted(count)}", f"m AS {quoted(measured)}"]
    return arrays, ", ".join(expressions)


def group_arrays(groups: CellGroups, table_id: int) -> dict[str, Any]:
    """Return the arrays of a table's cell ranges, by column of `catalog.cell_ranges`."""
    arrays: dict[str, Any] = {"table_id": np.full(len(groups.n), table_id, dtype=np.int32)}
    for j in range(groups.kind.shape[1]):
        kind, low = groups.kind[:, j], groups.low[:, j]
        span = groups.high[:, j] - low
        other = kind == KIND_OTHER
        blank = other | (kind == KIND_NULL)
        if blank.any():
            low = np.ma.MaskedArray(low, mask=blank)
            span = np.where(blank, np.where(other, -1, 0), span)
        arrays[f"low_{j + 1}"], arrays[f"span_{j + 1}"] = low, span
    noise_sd = groups.noise_sd.astype(np.float32)
    depth = np.ma.MaskedArray(groups.depth, mask=groups.depth < 0)
    return arrays | {
        "n": groups.n,
        "noise_sd": noise_sd,
        "measured": groups.measured,
        "depth": depth,
    }


KIND_WORDS = ("null", "negative", "value", "other")
"""Values of `catalog.codes.kind`, by kind of value."""
HIDDEN_WORDS = PREFIX_WORD, ANCESTOR_WORD = "prefix", "ancestor"
"""What stands for hidden values that begin so, or that a list of codes has below it: a value by its kind, whose code is
in the range of the others."""


def table_name(columns: Iterable[str]) -> str:
    """Return the name of a table's view: sorted columns joined with dots, dots inside them as %2E."""
    return ".".join(c.replace("%", "%25").replace(".", "%2E") for c in sorted(columns))


def columns_of_name(name: str) -> ColumnSet:
    """Return the columns of the table whose view has a name; see `table_name`."""
    return tuple(part.replace("%2E", ".").replace("%25", "%") for part in name.split("."))


def physical_name(table_id: int) -> str:
    """Return the name of the table in schema `tables` that holds the distinct rows."""
    return f"t_{table_id:04d}"


def insert_support(
    con: duckdb.DuckDBPyConnection,
    support: Support,
    carried: Carrier,
    *,
    position: int,
    content_hash: str,
) -> None:
    """Write one column and its released values, in the running transaction."""
    column = support.column
    src = {
        "p": np.arange(len(support), dtype=np.int32),
        "c": carried.array,
        "z": carried.is_null,
        "k": support.kind,
        "code": support.grid,
        "m": support.measured,
        "n": support.n,
    }
    hidden = len(KIND_WORDS) + bool(column.tree)
    src["k"] = np.where(hides(support), hidden, support.kind)
    words = ", ".join(literal(w) for w in (*KIND_WORDS, *HIDDEN_WORDS))
    is_hidden, rest = f"k = {hidden}", literal(f": {column.placeholder}")
    labels = ", ".join(f"({literal(v)}, {literal(text)})" for v, text in column.labels)
    label = "l"
    if column.resolution is not None and column.resolution.period and column.kind != "time":
        moment = f"CAST(v AS {carried.sql_type})"
        label = f"coalesce(l, {label_sql(moment, column.resolution.period)})"
    con.execute(
        f"INSERT INTO catalog.codes SELECT {literal(column.name)}, p, v, CASE WHEN {is_hidden} THEN l || {rest} ELSE "
        f"{label} END, list_value({words})[k + 1], "
        "code, m, n FROM (SELECT *, CASE WHEN NOT z THEN "
        f"CAST({carried.expression.format('c')} AS VARCHAR) END AS v FROM src) "
        f"LEFT JOIN (VALUES {labels or '(NULL, NULL)'}) AS labels(t, l) ON t = CASE WHEN {is_hidden} THEN "
        "rtrim(v, '*') ELSE v END ORDER BY p"
    )
    _ = src  # read by name in the statement
    _insert_column(
        con, column, position, carried.sql_type, n_values=len(support), content_hash=content_hash
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
    row = [
        position,
        column.name,
        column.label,
        column.kind,
        column.value_type,
        type_,
        None if column.resolution is None else str(column.resolution),
        column.public,
        list(column.detected),
        column.placeholder,
        next(iter(column.spellings), ""),
        n_values,
        content_hash,
    ]
    con.execute(f"INSERT INTO catalog.columns VALUES ({', '.join('?' * len(row))})", row)


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A table to be written, with its catalogue entry."""

    table: SyntheticTable
    card: GeneratorCard
    table_id: int
    content_hash: str


def insert_tables(
    con: duckdb.DuckDBPyConnection, entries: Sequence[Entry], carriers: Mapping[str, Carrier]
) -> None:
    """Write tables with their cell ranges and cards, in the running transaction.

    Cell ranges and cards of all tables are written by few statements: planning one costs as much as writing a small
    table.
    """
    by_width: dict[int, list[dict[str, Any]]] = {}
    for entry in entries:
        src, listed = table_arrays(entry.table, carriers)
        con.execute(
            f"CREATE TABLE tables.{physical_name(entry.table_id)} AS SELECT {listed} FROM src"
        )
        ranges = group_arrays(entry.table.groups, entry.table_id)
        by_width.setdefault(len(entry.table.columns), []).append(ranges)
        _ = src  # read by name in the statement
    for alike in by_width.values():
        grp = {name: _joined([one[name] for one in alike]) for name in alike[0]}
        con.execute("INSERT INTO catalog.cell_ranges BY NAME FROM grp")
        _ = grp
    rows = [_row(entry) for entry in entries]
    marks = ", ".join(f"({', '.join('?' * len(row))})" for row in rows)
    con.execute(
        f"INSERT INTO catalog.tables VALUES {marks}", [value for row in rows for value in row]
    )


def _joined(arrays: Sequence[Any]) -> Any:
    """Concatenate arrays; masked if any of them is."""
    is_masked = any(isinstance(array, np.ma.MaskedArray) for array in arrays)
    return (np.ma.concatenate if is_masked else np.concatenate)(arrays)


def _row(entry: Entry) -> list[Any]:
    """The row of a table in `catalog.tables`."""
    table, card = entry.table, entry.card
    return [
        entry.table_id,
        table_name(table.columns),
        list(table.columns),
        len(table.columns),
        physical_name(entry.table_id),
        table.n_rows,
        len(table.n),
        entry.content_hash,
        card.cells_released,
        card.noise_sd,
        card.suppressed_share,
        card.rounding_gap,
        card.cells_per_entity,
        list(table.groups.tops),
        list(table.groups.scale),
        card.to_json(),
    ]


def open_again(con: duckdb.DuckDBPyConnection) -> None:
    """Remove what `write_release` wrote, except for views, from a copied release, so that tables can be added."""
    con.execute(
        "BEGIN; DELETE FROM catalog.release; DELETE FROM catalog.notes; DELETE FROM catalog.universes; "
        "DELETE FROM catalog.columns WHERE content_hash IS NULL; DROP TABLE IF EXISTS catalog.exposure; "
        f"{'; '.join(drop_macros())}; COMMIT"
    )


def write_release(
    con: duckdb.DuckDBPyConnection,
    header: ReleaseHeader,
    *,
    format_version: int,
    content_hash: str,
    done: Mapping[ColumnSet, int],
    ledger: Sequence[Mapping[str, Any]] = (),
    exposure: Mapping[str, Any] | None = None,
) -> None:
    """Write what completes a release: its row, notes, columns that are in no table, views and comments.

    done: The finished tables and their numbers; existing views are kept.
    """
    con.execute("BEGIN")
    values: list[Any] = [
        header.title,
        header.logical_name,
        header.vintage,
        header.mode,
        header.key_id,
    ]
    values += [json.dumps(header.privacy, sort_keys=True), header.engine_version]
    values += [format_version, content_hash]
    values += [header.unit.to_json(), header.entity.to_json(), header.is_reviewed]
    marks = ", ".join("?" * len(values))
    con.execute(f"INSERT INTO catalog.release VALUES ({marks})", values)
    is_dp = header.mode == "dp"
    words = words_of(header.unit, header.entity)
    notes = [(topic, text.format(**words)) for topic, text in notes_of(is_dp=is_dp)]
    notes += [("release", text) for text in header.notes]
    notes += [("exposure", text) for text in (exposure or {}).get("sentences", ())]
    con.executemany(
        "INSERT INTO catalog.notes VALUES (?, ?, ?)",
        [(i, topic, text) for i, (topic, text) in enumerate(notes, 1)],
    )
    if is_dp:
        create_ledger(con, ledger)
        explain_dp(con)
    if exposure is not None:
        insert_exposure(con, exposure)
    _insert_universes(con, header.columns)
    known = {name for (name,) in con.execute("SELECT name FROM catalog.columns").fetchall()}
    for position, column in enumerate(header.columns, 1):
        if column.name not in known:
            type_ = sql_type(column)
            _insert_column(con, column, position, type_, n_values=0, content_hash=None)
    listed = con.execute(
        "SELECT view_name FROM duckdb_views() WHERE schema_name = 'main'"
    ).fetchall()
    views = {name for (name,) in listed}
    insert_views(con, header, {c: i for c, i in done.items() if table_name(c) not in views})
    con.execute("; ".join(catalog_comments()))
    create_macros(con, mode=header.mode)
    con.execute("COMMIT")


def insert_views(
    con: duckdb.DuckDBPyConnection, header: ReleaseHeader, tables: Mapping[ColumnSet, int]
) -> None:
    """Create the view of each table, with comments, in the running transaction."""
    is_dp = header.mode == "dp"
    order = {c.name: i for i, c in enumerate(header.columns)}
    statements = [
        s
        for columns, i in tables.items()
        for s in _view_statements(columns, i, order, header.unit, is_dp=is_dp)
    ]
    statements += _column_comments(tables, header.columns, is_dp=is_dp)
    con.execute("; ".join(statements))


def _insert_universes(con: duckdb.DuckDBPyConnection, columns: Sequence[Column]) -> None:
    """Write the declared universes whose deciding column is in the release, values as text."""
    names = {column.name for column in columns}
    for column in columns:
        universe = column.universe
        if universe is None or universe.column not in names:
            continue
        low, high, outside = (
            None if value is None else as_text(value)
            for value in (universe.low, universe.high, universe.outside)
        )
        listed = None if universe.values is None else [as_text(v) for v in universe.values]
        con.execute(
            "INSERT INTO catalog.universes VALUES (?, ?, ?, ?, ?, ?, ?)",
            [column.name, universe.column, low, high, listed, outside, universe.complete],
        )


def _column_comments(
    done: Mapping[ColumnSet, int], columns: Sequence[Column], *, is_dp: bool
) -> list[str]:
    """Return the comments on the columns of all tables and views."""
    how = "derived from other counts" if is_dp else "imputed without reference to the data"
    texts = (
        "Number of such synthetic rows.",
        f"Whether that number was measured; otherwise it was {how}.",
    )
    added = {names: tuple(zip(count_names(names), texts, strict=True)) for names in done}
    places = {names: (table_name(names), physical_name(i)) for names, i in done.items()}
    return column_comments(places, columns, added)


def _view_statements(
    columns: ColumnSet, table_id: int, order: Mapping[str, int], unit: Unit, *, is_dp: bool
) -> list[str]:
    """Return the view of one table, with a row per synthetic record, and the comments on both."""
    listed = ", ".join(quoted(c) for c in sorted(columns, key=lambda c: order[c]))
    view, physical = quoted(table_name(columns)), physical_name(table_id)
    count, measured = count_names(columns)
    repeat = quoted(unused_name("i", (*columns, count, measured)))
    named = ", ".join(columns)
    one = f"Synthetic rows of {named}: each row is a synthetic {unit.one}. Noise: catalog.cards, table {table_id}."
    many = (
        f"Distinct synthetic rows of {named}, with their number {count}. {measured}: whether that number was measured; "
        f"otherwise it was {'derived from other counts' if is_dp else 'imputed without reference to the data'}."
    )
    return [
        view_sql(view, listed, physical, quoted(count), repeat),
        f"COMMENT ON VIEW main.{view} IS {literal(one)}",
        f"COMMENT ON TABLE tables.{physical} IS {literal(many)}",
    ]


def view_sql(view: str, listed: str, physical: str, count: str, repeat: str) -> str:
    """Return the statement of a table's view; names are already quoted where necessary."""
    return (
        f"CREATE VIEW main.{view} AS SELECT {listed} FROM "
        f"(SELECT *, unnest(range({count})) AS {repeat} FROM tables.{physical})"
    )


def count_names(columns: Iterable[str]) -> tuple[str, str]:
    """Return the names of the two added columns, count and measured, which no column of the table has."""
    names = tuple(columns)
    return unused_name("n", names), unused_name("measured", names)


def unused_name(name: str, columns: Iterable[str]) -> str:
    """Return the name with as many underscores as it takes to differ, ignoring case."""
    taken = {c.lower() for c in columns}
    while name.lower() in taken:
        name += "_"
    return name
