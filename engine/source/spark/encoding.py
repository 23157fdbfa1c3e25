"""From a DataFrame to encoded rows in Spark: lists of values, then codes, then the checks of all rows.

Takes what a spec says of a source; gives an `Ingested` whose connection holds nothing but the extremes of each column,
and the `SparkRows` that hold the rest. Executors run our own encoding. Confidential; all is let go at the end.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
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
    declared,
    settled_codes,
    unsettled_counts,
    with_levels,
)
from engine.source.relation import Source, fetch, lent
from engine.source.spark import tasks
from engine.source.spark.frames import source_frame
from engine.source.spark.rows import SparkRows
from engine.source.spark.session import spark_session

_PLACE = "the source"
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
    n_rows = _extremes(
        rows, con, encoded, list(shorts), list(entities), source.place, may_be_empty=bool(settle)
    )

    def look(sql: str) -> list[tuple[Any, ...]]:
        ddl = {f"x{i}": "boolean" for i in range(N_FLAGS)}
        found = rows.gathered(rows.mapped(frame, tasks.look, ddl, cells=cells, sql=sql))
        return [tuple(any(column.to_pylist()) for column in found.columns)]

    if not settle:
        check_rows(con, source, coded, look)
        check_domains(con, coded, dictionaries)
    rows.use(encoded, _spans(con, list(shorts)))
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
    lists = {short: declared(con, c) for short, c in ranked.items() if short not in asked}
    if asked:
        ddl = {short: _DDL[column.value_type] for short, column in asked.items()}
        listed = rows.mapped(frame, tasks.list_values, ddl, cells=cells, columns=asked)
        with lent(con, "arrived", rows.gathered(listed.distinct())):
            for short in asked:
                sql = f"SELECT {short} FROM arrived WHERE {short} IS NOT NULL ORDER BY {short}"
                lists[short] = tuple(value for (value,) in con.execute(sql).fetchall())
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
    rows: SparkRows,
    con: duckdb.DuckDBPyConnection,
    encoded: Any,
    codes: Sequence[str],
    ids: Sequence[str],
    place: str,
    *,
    may_be_empty: bool,
) -> int:
    """Make the driver's table `rows`, and count them: of each column the ends, null where it occurs, NULL for misfits.

    What is checked of all rows, and which numbers store a code, follows from these alone.
    """
    from pyspark.sql import functions as F

    asked = [F.count(F.lit(1)).alias("n")]
    for name in codes:
        is_value = F.col(name) > F.lit(OTHER_CODE)
        asked += [
            F.min(F.when(is_value, F.col(name))).alias(f"{name}_low"),
            F.max(F.when(is_value, F.col(name))).alias(f"{name}_high"),
            F.max(F.col(name) == F.lit(NULL_CODE)).alias(f"{name}_null"),
        ]
    asked += [F.max(F.col(name).isNull()).alias(f"{name}_bad") for name in (*codes, *ids)]
    (said,) = rows.gathered(encoded.agg(*asked)).to_pylist()
    if not said["n"] and not may_be_empty:
        raise DataError(f"{place}: has no rows")
    columns = {name: _ends_of(said, name) for name in codes}
    columns |= {name: [0, 0, 0, None if said[f"{name}_bad"] else 0] for name in ids}
    described = ", ".join(f"{name} BIGINT" for name in columns)
    con.execute(f"CREATE TABLE rows ({described})")
    marks = ", ".join("?" for _ in columns)
    con.executemany(
        f"INSERT INTO rows VALUES ({marks})", [list(r) for r in zip(*columns.values(), strict=True)]
    )
    return int(said["n"])


def _ends_of(said: Mapping[str, Any], name: str) -> list[int | None]:
    """Four cells with what is known of a column of codes: its ends, null where it has one, NULL for a misfit."""
    null = NULL_CODE if said[f"{name}_null"] else None
    low, high = (
        null if said[f"{name}_{end}"] is None else said[f"{name}_{end}"] for end in ("low", "high")
    )
    return [low, high, low if null is None else null, None if said[f"{name}_bad"] else low]


def _spans(con: duckdb.DuckDBPyConnection, codes: Sequence[str]) -> dict[str, CodeSpan]:
    """Smallest and largest code of each column."""
    if not codes:
        return {}
    ends = ", ".join(
        f"{end}({name}) FILTER ({name} > {OTHER_CODE})" for name in codes for end in ("min", "max")
    )
    found = fetch(con, f"SELECT {ends} FROM rows", _PLACE)[0]
    return {
        name: CodeSpan(low=0, high=-1) if low is None else CodeSpan(low=low, high=high)
        for name, low, high in zip(codes, found[::2], found[1::2], strict=True)
    }
