"""Opens the source: whatever holds the rows becomes one relation named `source` on a confidential connection.

Takes where the rows are (text, workbooks, Parquet, a table of a database, a pandas or Arrow object, a SELECT over
several of them); gives the names and types of the columns, with every cell as it was read: null spellings and kinds
are the business of `ingest`. Invariant: column names are those of the file, and every row of a text has as many
fields as its header.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import duckdb

from engine.errors import DataError, SpecError
from engine.schema import SourceFormat, SourceSpec, quoted
from engine.source.forms.databases import DATABASES, SERVERS, tables_of, the_table
from engine.source.forms.frames import register_frame
from engine.source.forms.packages import open_package
from engine.source.forms.query import RowWise, checked_query, table_name
from engine.source.forms.text import open_text
from engine.source.relation import (
    Source,
    check_names,
    drop,
    fetch,
    file_literal,
    matching_files,
    rename,
)
from engine.spec import STATISTICAL, format_of

_RESULT = "tablepack_result"
_MOST_UNITS = 10**9
_ON_CELL = (
    "source.sql fails on a cell of the data; where it casts, TRY_CAST in the place of CAST makes null of what "
    "does not fit"
)


def open_source(
    con: duckdb.DuckDBPyConnection,
    source: SourceSpec,
    frame: Any = None,
    *,
    row_wise: RowWise | None = None,
) -> Source:
    """Make the relation `source` (a table, or a view of what can be read again) on the connection.

    row_wise: Mode dp: what `source.sql` must show of itself. Then no row decides what becomes of others, nor whether
        a source can be read: a cell that cannot is as good as any that does not fit, a source without rows as others.
    """
    by_row = row_wise is not None
    forms = [_form(source, path) for path in source.paths]
    # Never the address of a server, which may hold a password.
    shown = [f"({f})" if f in SERVERS else p for p, f in zip(source.paths, forms, strict=True)]
    place = f"source {', '.join(shown)}"
    found = None
    if source.format == "frame":
        place = "the data frame"
        found = register_frame(con, frame, by_row=by_row)
        check_names(found.columns, place)
        fetch(con, "CREATE OR REPLACE TEMP VIEW source AS SELECT * FROM frame", place)
    elif source.path is None:
        raise SpecError("source.path: say where the rows are")
    elif source.sql is not None:
        _open_query(con, source, place, row_wise)
    elif source.format in DATABASES:
        if source.more:
            raise SpecError('source.path: several databases want sql = "SELECT ..." over them')
        tables = tables_of(con, source, by_row=by_row)
        holder = "the database" if source.format in SERVERS else source.path
        the_table(tables, source, holder).make("source")
    else:
        found = _open_files(con, source, "source", place, by_row=by_row)
    if source.count_column:
        _expand(con, source.count_column, place, by_row=by_row)
    described = fetch(con, "DESCRIBE source", place)
    if not by_row and not fetch(con, "SELECT 1 FROM source LIMIT 1", place):
        left = " left by source.sql; look at its conditions and joins" if source.sql else ""
        raise DataError(f"{place}: has no rows{left}")
    return replace(
        found or Source(columns=(), types={}),
        columns=tuple(str(row[0]) for row in described),
        types={str(row[0]): str(row[1]) for row in described},
        place=place,
    )


def _form(source: SourceSpec, path: str) -> SourceFormat:
    """The format of one of several files: that of the source, unless its name tells another than the first's does."""
    named = format_of(path)
    return source.format if named in (None, format_of(source.paths[0])) else named


def _open_files(
    con: duckdb.DuckDBPyConnection, source: SourceSpec, relation: str, place: str, *, by_row: bool
) -> Source | None:
    """Make one relation of the files of one format; give what a package tells besides."""
    files = list(dict.fromkeys(file for path in source.paths for file in matching_files(path)))
    if source.format == "xlsx" or source.format in STATISTICAL:
        return open_package(con, source, files, relation, place, by_row=by_row)
    if source.format == "csv":
        open_text(con, source, files, relation, place, by_row=by_row)
        return None
    for file in files:
        check_names(parquet_names(con, file), f"source {file}")
    listed = ", ".join(map(file_literal, files))
    rows = f"read_parquet([{listed}], union_by_name = true, hive_partitioning = false)"
    fetch(con, f"CREATE OR REPLACE TEMP VIEW {quoted(relation)} AS SELECT * FROM {rows}", place)
    return None


def parquet_names(con: duckdb.DuckDBPyConnection, file: str) -> list[str]:
    """Names of a Parquet file's columns, exactly as they are written."""
    asked = f"SELECT name, num_children FROM parquet_schema({file_literal(file)})"
    names: list[str] = []
    inside = 0  # the tree is flattened: so many rows that follow lie below a column
    for name, n_children in fetch(con, asked, f"source {file}")[1:]:
        if inside == 0:
            names.append(str(name))
        else:
            inside -= 1
        inside += int(n_children or 0)
    return names


def _open_query(
    con: duckdb.DuckDBPyConnection, source: SourceSpec, place: str, row_wise: RowWise | None
) -> None:
    """Make `source` of a SELECT over the files: each is a table of its name, and nothing else can be read."""
    relations: list[str] = []
    by_row = row_wise is not None
    for path in source.paths:
        one = replace(source, path=path, more=(), format=_form(source, path))
        if one.format in DATABASES:
            tables = tables_of(con, one, by_row=by_row)
            relations += [table.short for table in tables]
            _check_doubles(relations, path)
            for table in tables:
                table.make(table.short)
        else:
            relations.append(table_name(path))
            _check_doubles(relations, path)
            _open_files(con, one, relations[-1], f"source {path}", by_row=by_row)
    sql = checked_query(con, source.sql or "", relations, place, row_wise)
    fetch(con, f"CREATE OR REPLACE TABLE {_RESULT} AS {sql}", place, on_cell=_ON_CELL)
    drop(con, *relations)
    rename(con, _RESULT, "source")


def _check_doubles(names: Sequence[str], path: str) -> None:
    """Refuse two tables of one name, of which that of `path` comes last."""
    times = Counter(name.casefold() for name in names)
    twin = next((name for name in reversed(names) if times[name.casefold()] > 1), None)
    if twin is not None:
        raise SpecError(
            f"source.path: {path} would give sql a second table {twin} (capital letters make no difference); rename "
            "one of the two, or export one as Parquet or CSV under another name"
        )


def _expand(con: duckdb.DuckDBPyConnection, counts: str, place: str, *, by_row: bool) -> None:
    """Read each row as so many as a column says, without that column; none of a row that does not say it."""
    names = [str(row[0]) for row in fetch(con, "DESCRIBE source", place)]
    if counts not in names:
        raise SpecError(
            f"source.count_column: no column {counts!r} in the source, which has: {', '.join(names)}"
        )
    n = f"TRY_CAST({quoted(counts)} AS DOUBLE)"
    is_count = f"coalesce({n} = trunc({n}) AND {n} BETWEEN 0 AND {_MOST_UNITS}, false)"
    is_right, total = fetch(
        con, f"SELECT bool_and({is_count}), sum({n}) FILTER ({is_count}) FROM source", place
    )[0]
    if not (is_right or by_row) or (total or 0) > _MOST_UNITS:
        raise DataError(
            f"column {counts!r}: must hold how many units each row stands for, whole numbers of 0 and above, of at "
            f"most {_MOST_UNITS:,} units in all"
        )
    others = ", ".join(quoted(name) for name in names if name != counts)
    fetch(
        con,
        f"CREATE OR REPLACE TABLE {_RESULT} AS SELECT {others} FROM "
        f"(SELECT {others}, unnest(range(CAST({n} AS BIGINT))) FROM source WHERE {is_count})",
        place,
    )
    drop(con, "source")
    rename(con, _RESULT, "source")
