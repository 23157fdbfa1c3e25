"""What a release says of one table, as arrays: its released values, synthetic rows and buckets.

Takes an open release and a column set; gives the letters (released values, by their place in `catalog.codes`), the
distinct synthetic rows in these letters, and the released buckets of `catalog.cell_ranges` as boxes of letters.
Invariant: reads the release alone, and no Python loop runs over rows.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np

from engine.schema import (
    KIND_NEGATIVE,
    KIND_NONNEGATIVE,
    KIND_NULL,
    KIND_OTHER,
    BoolArray,
    ColumnSet,
    FloatArray,
    Int64Array,
    literal,
    quoted,
)
from engine.store_catalog import KIND_WORDS, count_names, table_name
from queries.session import Release

_KINDS = {word: kind for kind, word in enumerate(KIND_WORDS)}
_NUMBER = re.compile(r"BIGINT|INTEGER|DOUBLE|FLOAT|DECIMAL|HUGEINT|SMALLINT|TINYINT")


@dataclass(frozen=True, kw_only=True, slots=True)
class Letters:
    """The released values of one column, in the order of `catalog.codes`.

    Attributes
    ----------
    name, sql_type : str
    values : tuple
        Typed; None is a blank of the source.
    kind, code : ndarray of int64
        Place on the column's grid, as in `catalog.codes`.
    n : ndarray of int64
        Fitted number of rows.
    """

    name: str
    sql_type: str
    values: tuple[Any, ...]
    kind: Int64Array
    code: Int64Array
    n: Int64Array

    @property
    def is_number(self) -> bool:
        """Whether its values can be added up."""
        return bool(_NUMBER.match(self.sql_type))

    @property
    def magnitude(self) -> Int64Array:
        """Distance of each value from 0 on its own side of the grid; 0 for a blank and the placeholder."""
        valued = (self.kind == KIND_NEGATIVE) | (self.kind == KIND_NONNEGATIVE)
        out: Int64Array = np.where(self.kind == KIND_NEGATIVE, ~self.code, self.code) * valued
        return out

    def numbers(self) -> FloatArray:
        """The values as floats; NaN for a blank."""
        return np.array([np.nan if v is None else float(v) for v in self.values], dtype=np.float64)


@dataclass(frozen=True, kw_only=True, slots=True)
class TableBuckets:
    """One released table with what is known of its noise.

    Attributes
    ----------
    columns : ColumnSet
    letters : tuple of Letters
        In the order of `columns`.
    rows : ndarray of int64, shape (n_rows, n_columns)
        Distinct synthetic rows: places of their values among the letters.
    n : ndarray of int64, shape (n_rows,)
    row_measured : ndarray of bool, shape (n_rows,)
        The number of this combination was measured; else it was filled in.
    first : ndarray of int64, shape (n_buckets, n_columns)
        The first letter of each bucket's box, per column.
    last : ndarray of int64, shape (n_buckets, n_columns)
        The last one; a blank and the placeholder are boxes by themselves.
    span : ndarray of int64, shape (n_buckets, n_columns)
        Codes in the box, less 1.
    size : ndarray of int64, shape (n_buckets,)
        Fitted rows.
    noise_sd : ndarray of float64, shape (n_buckets,)
        As `catalog.cells` states it.
    measured : ndarray of bool, shape (n_buckets,)
        A released bucket of single values; else the filled remainder of a box.
    card : dict
        Plain values of the generator card.
    layer_sd : float
        Standard deviation of a noise layer at scale 1; sticky mode only.
    """

    columns: ColumnSet
    letters: tuple[Letters, ...]
    rows: Int64Array
    n: Int64Array
    row_measured: BoolArray
    first: Int64Array
    last: Int64Array
    span: Int64Array
    size: Int64Array
    noise_sd: FloatArray
    measured: BoolArray
    card: dict[str, Any]
    layer_sd: float

    @property
    def total(self) -> int:
        """Rows of the whole table."""
        return int(self.n.sum())


def sum_by(at: Int64Array, weight: FloatArray, n: int) -> FloatArray:
    """Sum of the weights at each of n places, in order."""
    return np.bincount(at, weights=weight, minlength=n).astype(np.float64)


def read_letters(con: duckdb.DuckDBPyConnection, name: str) -> Letters:
    """Read the released values of one column."""
    (sql_type,) = con.execute(
        "SELECT sql_type FROM catalog.columns WHERE name = ?", [name]
    ).fetchall()[0]
    found = con.execute(
        f"SELECT CAST(value AS {sql_type}), kind, code, n FROM catalog.codes "
        "WHERE column_name = ? ORDER BY position",
        [name],
    ).fetchall()
    values, kinds, codes, n = zip(*found, strict=True) if found else ((), (), (), ())
    return Letters(
        name=name,
        sql_type=sql_type,
        values=values,
        kind=np.array([_KINDS[k] for k in kinds], dtype=np.int64),
        code=np.array(codes, dtype=np.int64),
        n=np.array(n, dtype=np.int64),
    )


def read_buckets(release: Release, columns: ColumnSet) -> TableBuckets:
    """Read one released table.

    Parameters
    ----------
    release : Release
    columns : ColumnSet
        Of a released table.
    """
    with release.cursor() as con:
        letters = tuple(read_letters(con, name) for name in columns)
        (physical, table_id, card), *_ = con.execute(
            "SELECT physical, table_id, card FROM catalog.tables WHERE name = ?",
            [table_name(columns)],
        ).fetchall()
        (privacy,) = con.execute("SELECT privacy FROM catalog.release").fetchall()[0]
        rows, n, row_measured = _rows(con, physical, letters)
        boxes = con.execute(
            f"SELECT * FROM catalog.cell_ranges WHERE table_id = {int(table_id)}"
        ).fetchnumpy()
    first, last, span = _boxes(boxes, letters)
    return TableBuckets(
        columns=columns,
        letters=letters,
        rows=rows,
        n=n,
        row_measured=row_measured,
        first=first,
        last=last,
        span=span,
        size=np.asarray(boxes["n"], dtype=np.int64),
        noise_sd=np.asarray(boxes["noise_sd"], dtype=np.float64),
        measured=np.asarray(boxes["measured"], dtype=bool),
        card=json.loads(card),
        layer_sd=float(json.loads(privacy).get("layer_sd", 1)),
    )


def _rows(
    con: duckdb.DuckDBPyConnection, physical: str, letters: tuple[Letters, ...]
) -> tuple[Int64Array, Int64Array, BoolArray]:
    """The distinct synthetic rows in letters, their numbers, and whether these were measured."""
    count, measured = count_names(column.name for column in letters)
    joins = " ".join(
        f"JOIN (SELECT position, CAST(value AS {column.sql_type}) AS v FROM catalog.codes "
        f"WHERE column_name = {literal(column.name)}) AS l{j} ON t.{quoted(column.name)} "
        f"IS NOT DISTINCT FROM l{j}.v"
        for j, column in enumerate(letters)
    )
    places = ", ".join(f"l{j}.position AS p{j}" for j in range(len(letters)))
    found = con.execute(
        f"SELECT {places}, t.{quoted(count)} AS n, t.{quoted(measured)} AS m "
        f"FROM tables.{quoted(physical)} AS t {joins} ORDER BY t.rowid"
    ).fetchnumpy()
    rows = [np.asarray(found[f"p{j}"], dtype=np.int64) for j in range(len(letters))]
    n = np.asarray(found["n"], dtype=np.int64)
    return np.column_stack(rows), n, np.asarray(found["m"], dtype=bool)


def _boxes(
    boxes: dict[str, Any], letters: tuple[Letters, ...]
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """First and last letter of every box, and the number of codes in it less 1, per column."""
    ends: tuple[list[Int64Array], ...] = ([], [], [])
    for j, column in enumerate(letters, 1):
        low = boxes[f"low_{j}"]
        span = np.ma.getdata(boxes[f"span_{j}"]).astype(np.int64)
        blank = np.ma.getmaskarray(low)
        low = np.ma.getdata(low).astype(np.int64)
        kind = np.where(low < 0, KIND_NEGATIVE, KIND_NONNEGATIVE)
        kind = np.where(blank, np.where(span == -1, KIND_OTHER, KIND_NULL), kind)
        low, span = np.where(blank, 0, low), np.where(blank, 0, span)
        place = _sort_key(column.kind, column.code)
        ends[0].append(np.searchsorted(place, _sort_key(kind, low)))
        ends[1].append(np.searchsorted(place, _sort_key(kind, low + span), side="right") - 1)
        ends[2].append(span)
    first, last, span = (np.column_stack(end).astype(np.int64) for end in ends)
    return first, last, span


def _sort_key(kind: Int64Array, code: Int64Array) -> Any:
    """Values in the order of the released values, as records that numpy can compare."""
    out = np.empty(len(code), dtype=[("kind", np.int64), ("code", np.int64)])
    out["kind"], out["code"] = kind, code
    return out
