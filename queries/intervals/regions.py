"""Which groups a question is about: combinations of released values of some columns, within limits.

Takes a `TableBuckets`, the columns to group by and the limits; gives the groups and, of any variant of the table, the
group of each of its rows. Groups are in the order of the released values, the last column fastest. Groups that are
impossible by a declared universe are structural zeros: a zero in the data never is one.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.errors import QueryRefused
from engine.schema import BoolArray, Int64Array
from queries.intervals.buckets import (
    ReleasedValues,
    Stack,
    TableBuckets,
    between,
    places_in,
    stored_codes,
)
from queries.sql import Session, near_names

MOST_GROUPS = 200_000
"""Most groups of one tabulation."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Region:
    """Groups of a table's rows."""

    by: tuple[int, ...]  # Places of the grouping columns among the table's
    allowed: tuple[
        BoolArray, ...
    ]  # Per column of the table, which released values are within the limits
    codes: Int64Array  # shape (n_groups, n_by): Places of the released values of each group
    where: Mapping[str, Any]  # Limits by column: values, or both ends of an interval (None: open)

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.codes)

    def keys(self, table: TableBuckets) -> tuple[tuple[Any, ...], ...]:
        """The released values of each group."""
        values = [
            [table.released[j].values[i] for i in places]
            for j, places in zip(self.by, self.codes.T.tolist(), strict=True)
        ]
        return tuple(zip(*values, strict=True)) if values else ((),)

    def groups(
        self, table: TableBuckets, stack: Stack, values: Mapping[str, Sequence[Any]]
    ) -> Int64Array:
        """Group of each row of a stack of variants; -1 where it is in none.

        values: By column, the value of each of the stack's codes.
        """
        inside = np.ones(len(stack.n), dtype=bool)
        for j, column in enumerate(table.released):
            if column.name in self.where:
                limit, own = self.where[column.name], values[column.name]
                if isinstance(limit, tuple):  # between its ends also values that are not released
                    of_code = between(own, *limit)
                else:
                    places = _places(stack, column)
                    of_code = (places >= 0) & self.allowed[j][places]
                inside &= of_code[stack.index[column.name]]
        rows = np.flatnonzero(inside)
        wanted = np.empty((len(rows), len(self.by)), dtype=np.int64)
        for i, j in enumerate(self.by):
            column = table.released[j]
            wanted[:, i] = _places(stack, column)[stack.index[column.name][rows]]
        is_known = (wanted >= 0).all(axis=1)
        rows, wanted = rows[is_known], wanted[is_known]
        group: Int64Array = np.full(len(stack.n), -1)
        sizes = [len(table.released[j].values) for j in self.by]
        group[rows] = places_in(self.codes, wanted, sizes) if self.by else 0
        return group


def _places(stack: Stack, column: ReleasedValues) -> Int64Array:
    """Place of each code of a stack among the released values; -1 where it is not released."""
    stored, codes = stored_codes(column), stack.codes[column.name]
    if not len(stored):
        return np.full(len(codes), -1)
    order = np.argsort(stored, kind="stable")
    at = order[np.minimum(np.searchsorted(stored[order], codes), len(stored) - 1)]
    return np.where(stored[at] == codes, at, -1)


def region_of(table: TableBuckets, columns: Sequence[str], where: Mapping[str, Any]) -> Region:
    """Find all groups; parameters as in `queries.intervals.tabulate`."""
    allowed = tuple(
        within(column, where[column.name])
        if column.name in where
        else np.ones(len(column.values), dtype=bool)
        for column in table.released
    )
    by = tuple(table.columns.index(name) for name in columns)
    n_groups = math.prod(int(allowed[j].sum()) for j in by)
    if n_groups > MOST_GROUPS:
        raise QueryRefused(
            f"{' x '.join(columns)} makes {n_groups:,} groups, and a tabulation has at most {MOST_GROUPS:,}: "
            "limit a column to fewer values"
        )
    grid = np.meshgrid(*(np.flatnonzero(allowed[j]) for j in by), indexing="ij")
    codes = np.array([axis.ravel() for axis in grid], dtype=np.int64).reshape(len(by), n_groups).T
    return Region(by=by, allowed=allowed, codes=codes, where=where)


def within(column: ReleasedValues, limit: Any) -> BoolArray:
    """Which codes of a column are within a limit: a list of values, or a tuple of both ends of an interval."""
    if isinstance(limit, str | bytes) or not hasattr(limit, "__iter__"):
        raise QueryRefused(
            f"limit of {column.name}: {limit!r} is one value; give a list of values, or (low, high)"
        )
    if not isinstance(limit, tuple):
        return _listed(column, list(limit))
    if len(limit) != 2:
        raise QueryRefused(
            f"limit of {column.name}: an interval is (low, high), not {len(limit)} values; "
            "a list names single values"
        )
    low, high = limit
    try:
        if low is not None and high is not None and low > high:
            raise QueryRefused(
                f"limit of {column.name}: {low!r} is above {high!r}; give (low, high)"
            )
        return column.within(low, high)
    except TypeError:
        raise QueryRefused(
            f"limit of {column.name}: {low!r} to {high!r} cannot be compared with its values "
            f"({column.sql_type})"
        ) from None


def _listed(column: ReleasedValues, values: list[Any]) -> BoolArray:
    """Which codes are in a list; what is no released value is refused, as it is a mistake or nobody."""
    place = {value: i for i, value in enumerate(column.values)}
    mask = np.zeros(len(column.values), dtype=bool)
    for value in values:
        at = place.get(value) if isinstance(value, Hashable) else None
        if at is None:
            near = ", ".join(near_names(str(value), [str(v) for v in column.values]))
            raise QueryRefused(
                f"limit of {column.name}: {value!r} is not among its released values ({column.sql_type}); "
                f"near: {near or 'none'}"
            )
        mask[at] = True
    return mask


def ruled_out(
    release: Session, table: TableBuckets, region: Region, measured: BoolArray
) -> BoolArray:
    """Which groups are impossible by a declared universe.

    measured: shape (n_groups,): Some combination in it was measured: what was released is possible.
    """
    out = np.zeros(region.n_groups, dtype=bool)
    at = {name: j for j, name in enumerate(table.columns)}
    for name, j in at.items():
        universe = release.described[name].universe
        if universe is None or universe.column not in at:
            continue
        i = at[universe.column]
        inside = table.released[i].within(universe.low, universe.high, universe.values)
        outside = np.array([v == universe.outside for v in table.released[j].values], dtype=bool)
        may_in, may_out = _may(region, i, inside)
        may_be_blank, may_have_value = _may(region, j, outside)
        is_possible = (may_out & may_be_blank) | (may_in & may_have_value)
        if not universe.complete:
            is_possible |= may_in & may_be_blank
        out |= ~is_possible
    return out & ~measured


def _may(region: Region, j: int, marked: BoolArray) -> tuple[BoolArray, BoolArray]:
    """Whether each group can hold a marked code of column j, and whether one that is not marked."""
    if j in region.by:
        own = marked[region.codes[:, region.by.index(j)]]
        return own, ~own
    some, others = ((region.allowed[j] & of).any() for of in (marked, ~marked))
    return np.full(region.n_groups, some), np.full(region.n_groups, others)
