"""What a release says of one table, as arrays: its released values, synthetic rows and buckets.

Takes an open release and a column set; gives the codes (released values, by their place in `catalog.codes`), the
distinct synthetic rows in these codes, and the released buckets of `catalog.cell_ranges` as boxes of codes.
Invariant: reads the release alone, and no Python loop runs over rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import duckdb
import numpy as np
from numpy.typing import NDArray

from engine.cell_keys import comparable_keys, distinct_cells
from engine.schema import (
    KIND_NEGATIVE,
    KIND_NONNEGATIVE,
    KIND_NULL,
    KIND_OTHER,
    NULL_CODE,
    OTHER_CODE,
    BoolArray,
    ColumnSet,
    Int64Array,
    WeightedRows,
    column_set,
    literal,
    quoted,
)
from engine.store import (
    ANCESTOR_WORD,
    HIDDEN_WORDS,
    GeneratorCard,
    count_names,
    kind_of,
    table_name,
)
from queries.sql import Session

_NUMBER = re.compile(r"BIGINT|INTEGER|DOUBLE|FLOAT|DECIMAL|HUGEINT|SMALLINT|TINYINT")


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleasedValues:
    """The released values of one column, in the order of `catalog.codes`."""

    name: str
    sql_type: str
    values: tuple[Any, ...]  # Typed; None is a blank of the source
    # kind, grid: Place on the column's grid, as in `catalog.codes`.
    kind: Int64Array
    grid: Int64Array
    n: Int64Array  # Fitted number of rows
    # hidden, measured: shape (n_values,): The value is a prefix that stands for hidden values; it is itself a released
    # bucket, not drawn inside a range.
    hidden: BoolArray
    measured: BoolArray
    begins: bool = (
        True  # Hidden values begin as the prefixes do; else these are ancestors in a list of codes
    )

    @property
    def is_number(self) -> bool:
        """Whether its values can be added up."""
        return bool(_NUMBER.match(self.sql_type))

    @property
    def valued(self) -> BoolArray:
        """Which are values on the grid: no blank, no placeholder."""
        valued: BoolArray = (self.kind == KIND_NEGATIVE) | (self.kind == KIND_NONNEGATIVE)
        return valued

    @property
    def step(self) -> int:
        """Distance on the grid that all values keep to; at least 1."""
        return max(int(np.gcd.reduce(np.diff(np.sort(self.grid[self.valued])))), 1)

    @property
    def magnitude(self) -> Int64Array:
        """Distance of each value from 0 on its own side of the grid; 0 for a blank and the placeholder."""
        out: Int64Array = np.where(self.kind == KIND_NEGATIVE, ~self.grid, self.grid) * self.valued
        return out

    def within(self, low: Any, high: Any, listed: Collection[Any] | None = None) -> BoolArray:
        """Which values lie between two ends (None: open), and among some."""
        inside = between(self.values, low, high)
        if listed is not None:
            inside &= np.array([value in listed for value in self.values], dtype=bool)
        return inside


@dataclass(frozen=True, kw_only=True, slots=True)
class TableBuckets:
    """One released table with what is known of its noise."""

    columns: ColumnSet
    released: tuple[ReleasedValues, ...]  # In the order of `columns`
    # shape (n_rows, n_columns): Distinct synthetic rows: places of their values among the codes.
    rows: Int64Array
    n: Int64Array  # shape (n_rows,)
    # shape (n_rows,): The number of this combination was measured; else it was filled in.
    row_measured: BoolArray
    # first, last: shape (n_buckets, n_columns): The first and last code of each bucket's box, per column; a
    # blank and the placeholder are boxes by themselves.
    first: Int64Array
    last: Int64Array
    # shape (n_buckets,): Depth of the bucket, or of its box, in the measured tree; -1 where there is none.
    depth: Int64Array
    # Per column: level of its ranges at depth 0. At depth d it is max(top - d, 0). Empty in mode dp.
    tops: tuple[int, ...]
    n_depths: int  # Of the measured tree; 0 in mode dp
    card: dict[str, Any]  # Plain values of the generator card

    def of(self, columns: ColumnSet) -> TableBuckets:
        """Some of the columns of a table for which nothing was measured, so that it has no buckets."""
        at = [self.columns.index(name) for name in columns]
        released = tuple(self.released[j] for j in at)
        own = [self.rows[:, j] for j in at]
        cells, number = distinct_cells(own, [len(values.values) for values in released])
        none = np.empty((0, len(at)), dtype=np.int64)
        return replace(
            self,
            columns=columns,
            released=released,
            rows=np.column_stack(cells),
            n=np.bincount(number, self.n).astype(np.int64),
            row_measured=np.zeros(len(cells[0]), dtype=bool),
            first=none,
            last=none,
            tops=(),
        )

    def coded(
        self, rows: Int64Array, n: Int64Array, measured: BoolArray | None = None
    ) -> WeightedRows:
        """Rows that are given by the places of their values, in stored codes."""
        codes = {
            values.name: stored_codes(values)[rows[:, j]] for j, values in enumerate(self.released)
        }
        return WeightedRows(codes=codes, n=n, measured=measured)


@dataclass(frozen=True, kw_only=True, slots=True)
class Stack:
    """Rows of several variants of a table, one below the other.

    index: By column, shape (n_rows,): place of each row's code among `codes`, in the smallest type that holds it.
    codes: By column, the distinct codes, ascending.
    n: shape (n_rows,): Number of people or rows.
    measured: shape (n_rows,): The number of this combination is itself released.
    sizes: shape (n_variants,): Rows of each variant.
    """

    index: dict[str, NDArray[Any]]
    codes: dict[str, Int64Array]
    n: Int64Array
    measured: BoolArray
    sizes: Int64Array

    @property
    def n_variants(self) -> int:
        """Number of variants."""
        return len(self.sizes)

    @property
    def variant(self) -> Int64Array:
        """The variant of each row, ascending from 0."""
        return np.repeat(np.arange(self.n_variants), self.sizes)

    @property
    def n_bytes(self) -> int:
        """What the arrays take in memory."""
        return self.n.nbytes + self.measured.nbytes + sum(of.nbytes for of in self.index.values())

    def rows(self, number: int) -> WeightedRows:
        """One variant."""
        end = int(self.sizes[: number + 1].sum())
        at = slice(end - int(self.sizes[number]), end)
        codes = {name: self.codes[name][index[at]] for name, index in self.index.items()}
        return WeightedRows(codes=codes, n=self.n[at], measured=self.measured[at])


def stacked(
    columns: Sequence[str], kinds: Sequence[Sequence[WeightedRows]]
) -> tuple[Stack, tuple[int, ...]]:
    """Variants one below the other, and how many there are of each kind."""
    variants = [rows for kind in kinds for rows in kind]
    index, codes = {}, {}
    for name in columns:
        every = [np.unique(rows.codes[name], return_inverse=True) for rows in variants]
        codes[name], index[name] = _together(every)
    known = [
        np.zeros(len(rows.n), dtype=bool) if rows.measured is None else rows.measured
        for rows in variants
    ]
    stack = Stack(
        index=index,
        codes=codes,
        n=np.concatenate([rows.n for rows in variants]),
        measured=np.concatenate(known),
        sizes=np.array([len(rows.n) for rows in variants], dtype=np.int64),
    )
    return stack, tuple(map(len, kinds))


def joined(*stacks: Stack) -> Stack:
    """Stacks of the same columns, one below the other."""
    index, codes = {}, {}
    for name in stacks[0].codes:
        codes[name], index[name] = _together([(of.codes[name], of.index[name]) for of in stacks])
    rest = {
        name: np.concatenate([getattr(of, name) for of in stacks])
        for name in ("n", "measured", "sizes")
    }
    return Stack(index=index, codes=codes, **rest)


def _together(
    parts: Sequence[tuple[Int64Array, NDArray[Any]]],
) -> tuple[Int64Array, NDArray[Any]]:
    """Distinct codes of several lists of codes, and where the rows of each point among them."""
    codes = np.unique(np.concatenate([own for own, _ in parts]))
    small = np.min_scalar_type(max(len(codes) - 1, 0))
    index = [np.searchsorted(codes, own).astype(small)[at.reshape(-1)] for own, at in parts]
    return codes, np.concatenate(index)


def between(values: Sequence[Any], low: Any, high: Any) -> BoolArray:
    """Which values lie between two ends (None: open)."""
    inside = [
        value is not None and (low is None or value >= low) and (high is None or value <= high)
        for value in values
    ]
    return np.array(inside, dtype=bool)


def stored_codes(values: ReleasedValues) -> Int64Array:
    """Code of each released value of a column, with those of a blank and of the placeholder."""
    codes = np.where(values.kind == KIND_NULL, NULL_CODE, values.grid)
    return np.where(values.kind == KIND_OTHER, OTHER_CODE, codes)


def places_in(rows: Int64Array, wanted: Int64Array, sizes: Sequence[int]) -> Int64Array:
    """Place of each combination of codes among distinct ones; -1 where it is none of these."""
    if not len(rows):
        return np.full(len(wanted), -1)
    known, keys, _ = comparable_keys(rows, wanted, sizes)
    order = np.argsort(known, kind="stable")
    at = order[np.minimum(np.searchsorted(known[order], keys), len(known) - 1)]
    places: Int64Array = np.where(known[at] == keys, at, -1)
    return places


def _values(release: Session, con: duckdb.DuckDBPyConnection, name: str) -> ReleasedValues:
    """The released values of one column."""
    sql_type = release.columns[name]
    codes = con.execute(
        f"SELECT CAST(value AS {sql_type}), kind, code, n, measured FROM catalog.codes "
        "WHERE column_name = ? ORDER BY position",
        [name],
    ).fetchall()
    values, kinds, grid, n, measured = zip(*codes, strict=True) if codes else [()] * 5
    return ReleasedValues(
        name=name,
        sql_type=sql_type,
        values=values,
        kind=np.array([kind_of(k) for k in kinds], dtype=np.int64),
        hidden=np.array([k in HIDDEN_WORDS for k in kinds], dtype=bool),
        begins=ANCESTOR_WORD not in kinds,
        measured=np.array(measured, dtype=bool),
        grid=np.array(grid, dtype=np.int64),
        n=np.array(n, dtype=np.int64),
    )


def read_buckets(release: Session, columns: ColumnSet) -> TableBuckets:
    """Read one released table."""
    columns = column_set(columns)
    with release.cursor() as con:
        released = tuple(
            release.once(("values", name), partial(_values, release, con, name)) for name in columns
        )
        (physical, table_id, tops, scale, card), *_ = con.execute(
            "SELECT physical, table_id, tops, scale, card FROM catalog.tables WHERE name = ?",
            [table_name(columns)],
        ).fetchall()
        rows, n, row_measured = _rows(con, physical, released)
        # No column with blanks: DuckDB would load numpy.ma for these, which takes longer than all the rest.
        ends = ", ".join(
            f"coalesce(low_{j}, 0) AS low_{j}, low_{j} IS NULL AS blank_{j}, coalesce(span_{j}, 0) AS span_{j}"
            for j in range(1, len(columns) + 1)
        )
        boxes = con.execute(
            f"SELECT {ends}, coalesce(depth, -1) AS depth FROM catalog.cell_ranges "
            f"WHERE table_id = {int(table_id)}"
        ).fetchnumpy()
    GeneratorCard.from_json(card)  # refused where it is not one that the writer makes
    first, last = _boxes(boxes, released)
    return TableBuckets(
        columns=columns,
        released=released,
        rows=rows,
        n=n,
        row_measured=row_measured,
        first=first,
        last=last,
        depth=np.asarray(boxes["depth"], dtype=np.int64),
        tops=tuple(tops),
        n_depths=len(scale or ()),
        card=json.loads(card),
    )


def _rows(
    con: duckdb.DuckDBPyConnection, physical: str, released: tuple[ReleasedValues, ...]
) -> tuple[Int64Array, Int64Array, BoolArray]:
    """The distinct synthetic rows in codes, their numbers, and whether these were measured."""
    count, measured = count_names(column.name for column in released)
    joins = " ".join(
        f"JOIN (SELECT position, CAST(value AS {column.sql_type}) AS v FROM catalog.codes "
        f"WHERE column_name = {literal(column.name)}) AS l{j} ON t.{quoted(column.name)} "
        f"IS NOT DISTINCT FROM l{j}.v"
        for j, column in enumerate(released)
    )
    places = ", ".join(f"l{j}.position AS p{j}" for j in range(len(released)))
    arrays = con.execute(
        f"SELECT {places}, t.{quoted(count)} AS n, t.{quoted(measured)} AS m "
        f"FROM tables.{quoted(physical)} AS t {joins} ORDER BY t.rowid"
    ).fetchnumpy()
    rows = [np.asarray(arrays[f"p{j}"], dtype=np.int64) for j in range(len(released))]
    n = np.asarray(arrays["n"], dtype=np.int64)
    return np.column_stack(rows), n, np.asarray(arrays["m"], dtype=bool)


def _boxes(
    boxes: dict[str, Any], released: tuple[ReleasedValues, ...]
) -> tuple[Int64Array, Int64Array]:
    """First and last code of every box, per column."""
    ends: tuple[list[Int64Array], ...] = ([], [])
    for j, column in enumerate(released, 1):
        low, span = (np.asarray(boxes[f"{end}_{j}"], dtype=np.int64) for end in ("low", "span"))
        blank = np.asarray(boxes[f"blank_{j}"], dtype=bool)
        kind = np.where(low < 0, KIND_NEGATIVE, KIND_NONNEGATIVE)
        kind = np.where(blank, np.where(span == -1, KIND_OTHER, KIND_NULL), kind)
        low, span = np.where(blank, 0, low), np.where(blank, 0, span)
        ends[0].append(_codes_before(column, kind, low, "left"))
        ends[1].append(_codes_before(column, kind, low + span, "right") - 1)
    first, last = (np.column_stack(end).astype(np.int64) for end in ends)
    return first, last


def _codes_before(
    column: ReleasedValues, kind: Int64Array, grid: Int64Array, side: Literal["left", "right"]
) -> Int64Array:
    """How many released values come before each place, which has a kind and lies on the grid."""
    before = np.zeros(len(kind), dtype=np.int64)
    for one in (KIND_NEGATIVE, KIND_NONNEGATIVE, KIND_NULL, KIND_OTHER):
        begin, end = np.searchsorted(column.kind, (one, one + 1))
        at = np.flatnonzero(kind == one)
        before[at] = begin + np.searchsorted(column.grid[begin:end], grid[at], side=side)
    return before


def deepest_buckets(table: TableBuckets, codes: Int64Array) -> Int64Array:
    """The bucket that speaks of each combination of codes: that of the deepest range known to be released.

    Returns: -1 where no range is known, or the deepest one has nothing beside its released parts.
    """
    deepest = np.full(len(codes), -1, dtype=np.int64)
    unplaced = np.arange(len(codes))
    for depth in range(table.n_depths - 1, -1, -1):
        inside = np.flatnonzero(table.depth >= depth)
        if not len(inside) or not len(unplaced):
            continue
        ranges = _ranges(table, depth)
        known, wanted, _ = comparable_keys(
            _range_numbers(table.first[inside], ranges),
            _range_numbers(codes[unplaced], ranges),
            _sizes(ranges),
        )
        order = np.lexsort((table.depth[inside], known))  # a bucket of this depth comes first
        at = np.minimum(np.searchsorted(known[order], wanted), len(known) - 1)
        is_known = known[order][at] == wanted
        found = inside[order[at]]
        here = is_known & (table.depth[found] == depth)
        deepest[unplaced[here]] = found[here]
        unplaced = unplaced[~is_known]
    return deepest


def _ranges(table: TableBuckets, depth: int) -> list[Int64Array]:
    """Per column, the number of the range of this depth that each code lies in."""
    out = []
    for column, top in zip(table.released, table.tops, strict=True):
        index = column.magnitude >> max(top - depth, 0)
        is_next = (np.diff(index) != 0) | (np.diff(column.kind) != 0)
        out.append(np.concatenate([[0], np.cumsum(is_next)]).astype(np.int64)[: len(index)])
    return out


def _range_numbers(codes: Int64Array, ranges: list[Int64Array]) -> Int64Array:
    """Number of the range that each code lies in, shape (n, n_columns)."""
    return np.column_stack([number[codes[:, j]] for j, number in enumerate(ranges)])


def _sizes(ranges: list[Int64Array]) -> list[int]:
    """Number of ranges of each column."""
    return [int(number.max(initial=0)) + 1 for number in ranges]
