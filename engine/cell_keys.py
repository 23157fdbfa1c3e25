"""One integer key for each combination of codes, and the distinct combinations: the only place where keys can overflow.

Takes one array of codes per column; gives int64 keys that are equal exactly if the combinations are, in their
lexicographic order. Also decides in which direction tables of two columns are rounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.schema import NULL_CODE, OTHER_CODE, Int64Array

Columns = Sequence[NDArray[Any]] | NDArray[Any]
"""Codes by column; as an array, shape (n_columns, n)."""
KEY_LIMIT = 1 << 62
"""Most combinations that keys of one int64 can number."""
_DENSE = 4
"""Combinations are numbered by a lookup table, not by sorting, if there are at most this many possible ones per row."""


def cell_keys(
    columns: Columns, sizes: Sequence[int], *, n: int | None = None
) -> tuple[Int64Array, int]:
    """Number combinations in mixed radix, the first column slowest.

    If the sizes allow more combinations than one int64 can number, those that occur are numbered instead.

    Returns: keys; n_keys, an exclusive upper bound of the keys: the product of the sizes, unless that is too large.
    """
    keys = np.zeros(len(columns[0]) if len(columns) else (n or 0), dtype=np.int64)
    n_keys = 1
    for codes, size in zip(columns, sizes, strict=True):
        size = max(int(size), 1)
        if n_keys * size > KEY_LIMIT:
            present, keys = np.unique(keys, return_inverse=True)
            n_keys = len(present)
        keys = keys * size + codes
        n_keys *= size
    return keys, n_keys


def comparable_keys(
    one: NDArray[Any], other: NDArray[Any], sizes: Sequence[int]
) -> tuple[Int64Array, Int64Array, int]:
    """Number the combinations of two lists such that equal ones have equal keys; see `cell_keys`."""
    if math.prod(max(int(size), 1) for size in sizes) > KEY_LIMIT:
        keys, n_keys = cell_keys(np.concatenate([one, other]).T, sizes, n=len(one) + len(other))
        return keys[: len(one)], keys[len(one) :], n_keys
    own, n_keys = cell_keys(one.T, sizes, n=len(one))
    return own, cell_keys(other.T, sizes, n=len(other))[0], n_keys


def distinct_cells(columns: Columns, sizes: Sequence[int]) -> tuple[list[NDArray[Any]], Int64Array]:
    """Distinct combinations in lexicographic order, and the position of each row's combination among them."""
    keys, n_keys = cell_keys(columns, sizes)
    if n_keys > _DENSE * len(keys):
        _, one, number = np.unique(keys, return_index=True, return_inverse=True)
        return [codes[one] for codes in columns], number.astype(np.int64)
    of_key = np.full(n_keys, -1)
    of_key[keys] = np.arange(len(keys))
    is_there = of_key >= 0
    one = of_key[is_there]
    return [codes[one] for codes in columns], (np.cumsum(is_there) - 1)[keys]


def run_starts(*columns: NDArray[Any]) -> Int64Array:
    """Where runs of equal combinations begin."""
    starts = np.ones(len(columns[0]), dtype=bool)
    starts[1:] = np.logical_or.reduce([codes[1:] != codes[:-1] for codes in columns])
    return np.flatnonzero(starts)


_NARROW = (("UTINYINT", np.uint8), ("USMALLINT", np.uint16), ("UINTEGER", np.uint32))


@dataclass(frozen=True, kw_only=True, slots=True)
class CodeSpan:
    """The range of codes of one column, to store them as small numbers: 0 null, 1 other, and the codes from 2 on."""

    # low, high: Smallest and largest code except null and other; high < low if there is none.
    low: int
    high: int

    @property
    def n_codes(self) -> int:
        """Number of possible codes, including null and other."""
        return self.high - self.low + 3

    @property
    def sql_type(self) -> str | None:
        """The smallest sufficient type; None: they do not fit into 32 bits, and stay as they are."""
        largest = self.high - self.low + 2
        return next((name for name, held in _NARROW if largest <= np.iinfo(held).max), None)

    def small(self, code: str) -> str:
        """SQL for the small number of a code."""
        return (
            f"CAST(CASE WHEN {code} = {NULL_CODE} THEN 0 WHEN {code} = {OTHER_CODE} THEN 1 "
            f"ELSE {code} - ({self.low}) + 2 END AS {self.sql_type})"
        )

    def numbers(self, codes: Int64Array) -> NDArray[Any]:
        """The small numbers of codes if a type can hold them, otherwise the codes."""
        if self.sql_type is None:
            return codes
        small = codes - (self.low - 2)
        small[codes == NULL_CODE] = 0
        small[codes == OTHER_CODE] = 1
        return small.astype(dict(_NARROW)[self.sql_type])

    def codes(self, small: NDArray[Any]) -> Int64Array:
        """The codes of small numbers."""
        codes = small.astype(np.int64) + (self.low - 2)
        codes[small == 0] = NULL_CODE
        codes[small == 1] = OTHER_CODE
        return codes


def shorter(sizes: Sequence[int]) -> int:
    """Position of the column that is halved: the one with fewer values, the second one if both have as many."""
    return int(sizes[1] <= sizes[0])


def ordered_first(sizes: Sequence[int], is_ordered: Sequence[bool]) -> int | None:
    """Position of the ordered one of two columns, of the longer one if both are ordered; None if neither is."""
    long = 1 - shorter(sizes)
    return next((j for j in (long, 1 - long) if is_ordered[j]), None)
