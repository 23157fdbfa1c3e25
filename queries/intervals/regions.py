"""Which released values and synthetic rows a question is about: groups of some columns, within limits.

Takes a `TableBuckets`, the columns to group by and the limits; gives the number of every row's group, and the groups.
Groups are listed, so that work and memory follow their number: a tabulation has every combination of released values
(`every_group`), an answer in SQL those that have rows (`groups_with_rows`). Both are in the order of the released
values, the last column fastest.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.cell_keys import comparable_keys, distinct_cells
from engine.errors import QueryRefused
from engine.schema import BoolArray, Int64Array
from queries.intervals.buckets import ReleasedValues, TableBuckets
from queries.sql import near_names

MOST_GROUPS = 200_000
"""Most groups of one tabulation."""
Reach = tuple[tuple[bool, bool], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Region:
    """Groups of a table's rows."""

    by: tuple[int, ...]  # Places of the grouping columns among the table's
    allowed: tuple[BoolArray, ...]  # Per column of the table, which codes are within the limits
    # Per column of the table, whether what lies beyond its first, and its last, released value is within
    # the limits.
    reach: Reach
    group: Int64Array  # shape (n_rows,): Group of each row; -1 where it is outside
    codes: Int64Array  # shape (n_groups, n_by): The released values of each group
    # Groups are made of something else than released values; `by` and `allowed` say nothing.
    is_free: bool = False

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

    def is_whole(self, j: int) -> bool:
        """Whether column j is neither grouped by nor limited."""
        return j not in self.by and bool(self.allowed[j].all())


def region_of(
    table: TableBuckets,
    columns: Sequence[str],
    where: Mapping[str, Any],
    far: Mapping[tuple[int, bool], Any] | None = None,
) -> Region:
    """Find the groups.

    where: Limits by column of the table: values, or both ends of an interval (None: open).
    far: From where on a limit counts as open, by column and whether it is an upper one.
    """
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
    reach = tuple(
        _reach(where.get(name, (None, None)), *((far or {}).get((j, up)) for up in (False, True)))
        for j, name in enumerate(table.columns)
    )
    return region_within(table, by, allowed, reach, every_group(by, allowed))


def _reach(limit: Any, lowest: Any, highest: Any) -> tuple[bool, bool]:
    """Whether a limit leaves each end open."""
    if not isinstance(limit, tuple):
        return False, False
    low, high = limit
    return (
        low is None or (lowest is not None and low <= lowest),
        high is None or (highest is not None and high >= highest),
    )


def every_group(by: tuple[int, ...], allowed: tuple[BoolArray, ...]) -> Int64Array:
    """Every combination of allowed codes, shape (n_groups, n_by)."""
    grid = np.meshgrid(*(np.flatnonzero(allowed[j]) for j in by), indexing="ij")
    n_groups = math.prod(np.count_nonzero(allowed[j]) for j in by)
    return np.array([axis.ravel() for axis in grid], dtype=np.int64).reshape(len(by), n_groups).T


def groups_with_rows(
    table: TableBuckets, by: tuple[int, ...], allowed: tuple[BoolArray, ...]
) -> Int64Array:
    """The combinations of allowed codes that have rows; without columns to group by always one."""
    if not by:
        return np.zeros((1, 0), dtype=np.int64)
    rows = table.rows[_are_inside(table, allowed)][:, by]
    return np.column_stack(distinct_cells(rows.T, [len(allowed[j]) for j in by])[0])


def region_within(
    table: TableBuckets,
    by: tuple[int, ...],
    allowed: tuple[BoolArray, ...],
    reach: Reach,
    codes: Int64Array,
) -> Region:
    """Place the rows in groups; parameters as in `Region`, of columns in `by` no reach matters."""
    group = np.full(len(table.rows), -1, dtype=np.int64)
    inside = np.flatnonzero(_are_inside(table, allowed))
    if len(codes):
        sizes = [len(allowed[j]) for j in by]
        known, wanted, _ = comparable_keys(codes, table.rows[inside][:, by], sizes)
        order = np.argsort(known, kind="stable")
        at = order[np.minimum(np.searchsorted(known, wanted, sorter=order), len(known) - 1)]
        group[inside] = np.where(known[at] == wanted, at, -1)
    return Region(
        by=by,
        allowed=allowed,
        reach=tuple((False, False) if j in by else both for j, both in enumerate(reach)),
        group=group,
        codes=codes,
    )


def _are_inside(table: TableBuckets, allowed: tuple[BoolArray, ...]) -> BoolArray:
    """Which rows are within the limits."""
    inside = np.ones(len(table.rows), dtype=bool)
    for j, mask in enumerate(allowed):
        inside &= mask[table.rows[:, j]]
    return inside


def is_single(region: Region) -> bool:
    """Whether every group is one combination of released values."""
    if region.is_free:
        return False
    return all(j in region.by or mask.sum() == 1 for j, mask in enumerate(region.allowed))


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
