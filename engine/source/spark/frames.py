"""The source as a Spark DataFrame: files or a table that a spec names, or a frame that was handed over.

Takes where the rows are; gives the frame and what is known of its columns, as `open_source` gives it. Invariant: every
column has the DuckDB type that its Arrow type has there, for executors encode Arrow batches with DuckDB.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.errors import DataError, InternalError, SpecError, StoreError, TablepackError
from engine.schema import SourceSpec
from engine.source.forms.opened import parquet_names
from engine.source.forms.text import CsvShape, csv_shape
from engine.source.relation import Source, check_names, matching_files
from engine.source.scratch import memory_connection
from engine.source.spark.tasks import BROKEN, FULL

DETECTED_ROWS = 200_000
"""Rows of a DataFrame by which undeclared columns are detected."""
_TABLE = "the data frame"


def source_frame(
    session: Any, spec: SourceSpec, frame: Any, *, by_row: bool = False
) -> tuple[Any, Source]:
    """The rows, and what is known of them; `by_row` as in `open_text`."""
    place = _TABLE if frame is not None else f"source {', '.join(spec.paths)}"
    if frame is None:
        frame = in_our_words(lambda: _opened(session, spec, by_row=by_row), place)
    names = tuple(str(name) for name in frame.columns)
    check_names(names, place)
    types = {field.name: _duckdb_type(field.dataType) for field in frame.schema.fields}
    return frame, Source(columns=names, types=types, place=place)


def sample_of(frame: Any) -> Any:
    """Some rows of a DataFrame as an Arrow table, to detect undeclared columns by.

    Columns of a type that Arrow or DuckDB has not are left out.
    """
    from pyspark.sql import functions as F

    readable = [
        F.col(f"`{field.name.replace('`', '``')}`")
        for field in frame.schema.fields
        if _duckdb_type(field.dataType) != "OTHER"
    ]
    return in_our_words(lambda: frame.select(readable).limit(DETECTED_ROWS).toArrow(), _TABLE)


def _opened(session: Any, spec: SourceSpec, *, by_row: bool) -> Any:
    """A frame of files or of a table of the catalogue."""
    if spec.format == "table":
        return session.table(spec.path)
    files = [
        file for path in spec.paths for file in ([path] if "://" in path else matching_files(path))
    ]
    for file in files:
        _check_seen(file)
    if spec.format == "csv":
        return _text(session, spec, files, by_row=by_row)
    with memory_connection() as con:
        for file in files:
            if "://" not in file:
                check_names(parquet_names(con, file), f"source {file}")
    return session.read.option("mergeSchema", "true").parquet(*map(_escaped, files))


def _check_seen(file: str) -> None:
    """Refuse a file that Spark would pass over without a word, even where it is named."""
    name = file.rstrip("/").rpartition("/")[2]
    is_hidden = name.startswith(".") or (name.startswith("_") and "=" not in name)
    if is_hidden or name.endswith("._COPYING_"):
        raise SpecError(
            f"source.path: Spark passes over {file}, as over all files whose names begin with _ or a dot, or end with "
            "._COPYING_; rename it"
        )


def _text(session: Any, spec: SourceSpec, files: list[str], *, by_row: bool) -> Any:
    """Text files, every cell as text; a record may have lines, so that a file is one task, unless read by row."""
    shapes = [_shape(session, spec, file, by_row=by_row) for file in files]
    for file, shape in zip(files, shapes, strict=True):
        check_names(shape.names, f"source {file}")
        if shape.names != shapes[0].names:
            raise DataError(
                f"source {file}: its header differs from that of {files[0]}; name files of one kind"
            )
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType, StructField, StructType

    names = shapes[0].names
    broken = "_broken" + "_" * max(map(len, names))  # where by row: a line that is no record
    schema = StructType(
        [StructField(name, StringType()) for name in (*names, *([broken] if by_row else []))]
    )
    rows = session.read.csv(
        list(map(_escaped, files)),
        schema=schema,
        sep=shapes[0].delimiter,
        quote='"',
        escape='"',
        header=True,
        multiLine=not by_row,
        mode="PERMISSIVE" if by_row else "FAILFAST",
        columnNameOfCorruptRecord=broken,
        ignoreLeadingWhiteSpace=False,
        ignoreTrailingWhiteSpace=False,
    )
    if not by_row:
        return rows
    cells = {name: f"`{name.replace('`', '``')}`" for name in names}
    return rows.select(
        *(F.when(F.col(broken).isNull(), F.col(cell)).alias(name) for name, cell in cells.items())
    )


def _shape(session: Any, spec: SourceSpec, file: str, *, by_row: bool) -> CsvShape:
    """Delimiter and names of a text."""
    if "://" not in file:
        shape = csv_shape(Path(file), delimiter=spec.delimiter, by_header=by_row)
        if shape.has_tail:
            raise DataError(
                f"source {file}: each line ends in a delimiter, which Spark reads as one more column; take it off"
            )
        return shape
    sign = spec.delimiter or ","
    head = session.read.csv(file, sep=sign, quote='"', escape='"', header=True, inferSchema=False)
    return CsvShape(delimiter=sign, names=tuple(head.columns))


def _escaped(file: str) -> str:
    """A file name for Spark, which takes every name for a glob."""
    return file if "://" in file else re.sub(r"([\\*?\[\]{}])", r"\\\1", file)


def _duckdb_type(spark_type: Any) -> str:
    """The DuckDB type of an Arrow column of a Spark type."""
    import pyarrow as pa
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_type

    try:
        held = to_arrow_type(spark_type, timezone="UTC")
    except (PySparkException, pa.ArrowException, TypeError, ValueError):  # no such type in Arrow
        return "OTHER"
    with memory_connection() as con:
        con.register("empty", pa.table({"x": pa.array([], held)}))
        return str(con.execute("DESCRIBE empty").fetchall()[0][1])


_SAID: tuple[tuple[str, type[TablepackError], str], ...] = (
    (FULL, StoreError, "{place}: memory or the scratch disk of an executor is full"),
    (BROKEN, InternalError, "{place}: a task of ours failed on an executor"),
    (
        "No module named",
        StoreError,
        "source.engine: executors cannot import tablepack or what it needs; install it for the Python that they run "
        "(PYSPARK_PYTHON), in the same version",
    ),
    ("PATH_NOT_FOUND", SpecError, "source.path: Spark finds no such file: {place}"),
    (
        "TABLE_OR_VIEW_NOT_FOUND",
        SpecError,
        "source.path: Spark's catalogue has no such table: {place}",
    ),
    (
        "MALFORMED_RECORD",
        DataError,
        "{place}: some rows have more or fewer fields than the header. Quote fields that hold the delimiter, and take "
        "out lines that are no rows, such as totals at the end",
    ),
    ("MALFORMED_CSV", DataError, "{place}: some rows have more or fewer fields than the header"),
    ("ARITHMETIC_OVERFLOW", InternalError, "a sum over cells is longer than it may be"),
    ("No space left", StoreError, "{place}: the scratch disk of Spark is full"),
    (
        "OutOfMemoryError",
        StoreError,
        "{place}: Spark's memory is full; give it more (spark.driver.memory)",
    ),
    (
        "Python worker exited unexpectedly",
        StoreError,
        "{place}: a worker of Spark was killed, perhaps for want of memory",
    ),
    (
        "ExecutorLostFailure",
        StoreError,
        "{place}: executors of Spark were lost, more often than Spark tries again",
    ),
    (
        "SparkContext was shut down",
        StoreError,
        "{place}: Spark was stopped while it was at work",
    ),
    *(
        (
            phrase,
            DataError,
            "{place}: cannot be read by Spark; it may be cut, damaged or of another format",
        )
        for phrase in ("FAILED_READ_FILE", "CANNOT_READ", "not a Parquet file")
    ),
)
"""What Spark's errors come down to, by fixed phrases: their texts may quote the data."""


def in_our_words(work: Callable[[], Any], place: str) -> Any:
    """Let Spark work; its errors are put in our own words."""
    try:
        return work()
    except TablepackError:
        raise
    except Exception as error:  # noqa: BLE001 -- Java's come as many types, a lost gateway as others
        text, kind = f"{error} {type(error).__name__}", type(error).__name__
        failure: TablepackError = next(
            (of(said.format(place=place)) for phrase, of, said in _SAID if phrase in text),
            StoreError(f"{place}: Spark failed ({kind})"),
        )
    raise failure
