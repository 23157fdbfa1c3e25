"""From a DataFrame to encoded rows in Spark: lists of values, then codes, then the checks of all rows.

Takes what a spec says of a source; gives an `Ingested` whose connection holds nothing but the extremes of each column,
and the `SparkRows` that hold the rest. Executors run our own encoding. Confidential; all is let go at the end.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb

from engine.cell_keys import CodeSpan
from engine.errors import DataError
from engine.params import MissingIds
from engine.schema import NULL_CODE, OTHER_CODE, Column, SourceSpec
from engine.source.encoding import cell_class
from engine.source.ingest import (
    N_FLAGS,
    Coded,
    Ingested,
    check_columns,
    check_domains,
    check_rows,
    given_values,
    make_list,
    settled_codes,
    unsettled_counts,
    with_levels,
)
from engine.source.relation import Source, lent
from engine.source.spark import tasks
from engine.source.spark.frames import source_frame
from engine.source.spark.rows import SparkRows
from engine.source.spark.session import spark_session

_DDL = {
    "integer": "bigint",
    "real": "double",
    "decimal": "double",
    "boolean": "boolean",
    "date": "date",
    "timestamp": "timestamp_ntz",
    "time": "string",
    "text": "string",
}


@contextlib.contextmanager
def rows_in_spark(
    con: duckdb.DuckDBPyConnection,
    spec: SourceSpec,
    columns: tuple[Column, ...],
    frame: Any,
    scratch: Path,
    *,
    settle: MissingIds | None = None,
) -> Iterator[tuple[Source, Ingested]]:
    """Encode a source in Spark; at the end all that Spark keeps of it is let go, and a session of our own stopped.

    con: The driver's; its table `rows` will hold the extremes of each column, and a null where a cell does
        not fit.
    """
    with spark_session(spec.master, frame, scratch) as session:
        frame, source = source_frame(session, spec, frame, by_row=settle is not None)
        source = with_levels(source, columns)
        check_columns(source, columns, spec.entity_columns)
        read = [column.name for column in columns if column.level_of is None]
        chosen = frame.select(*(f"`{name.replace('`', '``')}`" for name in read))
        rows = SparkRows(session, chosen, con, source.place)
        try:
            yield source, _ingested(rows, con, source, columns, spec, chosen, settle=settle)
        finally:
            rows.close()


def _ingested(
    rows: SparkRows,
    con: duckdb.DuckDBPyConnection,
    source: Source,
    columns: tuple[Column, ...],
    spec: SourceSpec,
    frame: Any,
    *,
    settle: MissingIds | None,
) -> Ingested:
    """Lists of values, then codes, then checks."""
    coded = Coded.of(columns, spec.entities)
    shorts, entities = coded.columns, coded.ids
    cells = tasks.Cells(types=dict(source.types), is_text=spec.format == "csv", columns=columns)
    lists = _lists(rows, con, frame, cells, coded.ranked, is_declared=settle is not None)
    dictionaries = {shorts[short].name: values for short, values in lists.items()}
    ids = {short: _ddl_of_ids(of, source.types) for short, of in entities.items()}
    encoded = rows.keep(
        rows.mapped(
            frame,
            tasks.encode,
            dict.fromkeys(shorts, "bigint") | ids,
            cells=cells,
            coded=coded,
            lists=rows.send(lists),
        )
    )
    unsettled: dict[str, int] = {}
    if settle:
        encoded, unsettled = _settled(rows, encoded, coded, settle)
    n_rows, spans = _extremes(rows, con, encoded, coded)
    if not n_rows and not settle:
        raise DataError(f"{source.place}: has no rows")

    def look(sql: str) -> list[tuple[Any, ...]]:
        ddl = {f"x{i}": "boolean" for i in range(N_FLAGS)}
        found = rows.gathered(rows.mapped(frame, tasks.look, ddl, cells=cells, sql=sql))
        return [tuple(any(column.to_pylist()) for column in found.columns)]

    if not settle:
        check_rows(con, source, coded, look)
        check_domains(con, coded, dictionaries)
    rows.use(encoded, spans)
    return Ingested(
        con=con,
        columns=tuple(shorts.values()),
        sql_names=coded.sql_names,
        dictionaries=dictionaries,
        entity_names=spec.entities,
        n_rows=n_rows,
        unsettled=unsettled,
        spark=rows,
    )


def _lists(
    rows: SparkRows,
    con: duckdb.DuckDBPyConnection,
    frame: Any,
    cells: tasks.Cells,
    ranked: Mapping[str, Column],
    *,
    is_declared: bool,
) -> dict[str, tuple[Any, ...]]:
    """The distinct values of every ranked column, ascending, by its short name.

    is_declared: Of a column with a domain, that.
    """
    asked = {s: c for s, c in ranked.items() if not (is_declared and c.domain is not None)}
    lists = {
        short: make_list(con, short, given_values(column), [list(column.domain or ())])
        for short, column in ranked.items()
        if short not in asked
    }
    if asked:
        ddl = {short: _DDL[column.value_type] for short, column in asked.items()}
        found = rows.mapped(frame, tasks.list_values, ddl, cells=cells, columns=asked)
        with lent(con, "arrived", rows.gathered(found.distinct())):
            for short in asked:
                lists[short] = make_list(con, short, f"SELECT {short} AS value FROM arrived")
    return {short: lists[short] for short in ranked}


def _settled(
    rows: SparkRows, encoded: Any, coded: Coded, missing_ids: MissingIds
) -> tuple[Any, dict[str, int]]:
    """Codes inside the declared domains, without the rows to be left out, and what the custodian is told."""
    counts = unsettled_counts(coded, missing_ids)
    named = [f"{sql} AS x{i}" for i, sql in enumerate(counts.values())]
    (said,) = rows.gathered(encoded.selectExpr(*named)).to_pylist()
    told = dict(zip(counts, map(int, said.values()), strict=True))
    codes, there = settled_codes(coded)
    if missing_ids == "own":
        own = "concat('row ', monotonically_increasing_id())"
        named = [f"coalesce(concat('id ', {short}), {own}) AS {short}" for short in coded.ids]
        encoded = rows.keep(encoded.selectExpr(*coded.columns, *named))
    if not any([*told.values()][1:]):
        return encoded, told
    return rows.keep(encoded.selectExpr(*codes).where(there)), told


def _ddl_of_ids(columns: tuple[Column, ...], types: Mapping[str, str]) -> str:
    """Spark's type of typed ids."""
    if len(columns) > 1:
        return "string"
    is_bytes = columns[0].value_type == "text" and cell_class(types[columns[0].name]) == "blob"
    return "binary" if is_bytes else _DDL[columns[0].value_type]


def _extremes(
    rows: SparkRows, con: duckdb.DuckDBPyConnection, encoded: Any, coded: Coded
) -> tuple[int, dict[str, CodeSpan]]:
    """Make the driver's table `rows`: of each column the ends, null where it occurs, NULL for misfits.

    What is checked of all rows, and which numbers store a code, follows from these alone.

    Returns: Number of rows; smallest and largest code of each column.
    """
    from pyspark.sql import functions as F

    asked = [F.count(F.lit(1)).alias("n")]
    for name in coded.columns:
        value = F.when(F.col(name) > F.lit(OTHER_CODE), F.col(name))
        asked += [F.min(value).alias(f"{name}_low"), F.max(value).alias(f"{name}_high")]
        asked.append(F.max(F.col(name) == F.lit(NULL_CODE)).alias(f"{name}_null"))
    asked += [F.max(F.col(name).isNull()).alias(f"{name}_bad") for name in coded.every]
    (said,) = rows.gathered(encoded.agg(*asked)).to_pylist()
    cells: dict[str, list[int | None]] = {}
    spans: dict[str, CodeSpan] = {}
    for name in coded.columns:
        low, high = said[f"{name}_low"], said[f"{name}_high"]
        spans[name] = CodeSpan(low=0, high=-1) if low is None else CodeSpan(low=low, high=high)
        null = NULL_CODE if said[f"{name}_null"] else None
        low, high = (null if end is None else end for end in (low, high))
        cells[name] = [low, high, low if null is None else null]
    cells |= {name: [0, 0, 0] for name in coded.ids}
    for name, of in cells.items():
        of.append(None if said[f"{name}_bad"] else of[0])
    con.execute(f"CREATE TABLE rows ({', '.join(f'{name} BIGINT' for name in cells)})")
    marks = ", ".join("?" for _ in cells)
    held = [list(row) for row in zip(*cells.values(), strict=True)]
    con.executemany(f"INSERT INTO rows VALUES ({marks})", held)
    return int(said["n"]), spans
