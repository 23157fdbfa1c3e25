"""One number for each combination of codes, and the distinct combinations: the one place where keys could overflow.

Takes a column of codes for each place of the combination; gives int64 keys that are equal where combinations are, and
in their lexicographic order. Says which way combinations of two columns are rounded, too: the fit does it, and noise
intervals know of it.
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
"""Codes, a column each; as an array: shape (n_columns, n)."""
KEY_LIMIT = 1 << 62
"""Most combinations that one int64 can number."""
_DENSE = 4
"""Combinations are numbered in place, and not sorted, where at most so many are possible for each that there is."""
MOST_PLACES = 4
"""Most combinations of a table of two columns, the shorter one's values filled up to a power of two, for each that may
hold rows: with more of them its fibres are rounded one by one."""


def cell_keys(
    columns: Columns, sizes: Sequence[int], *, n: int | None = None
) -> tuple[Int64Array, int]:
    """Number combinations in mixed radix, the first column slowest.

    Where the sizes allow more combinations than one int64 can number, those that occur are numbered instead.

    Returns: keys; n_keys: Every key is smaller; the product of the sizes, unless that is too large.
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
    """Number the combinations of two lists so that equal ones have equal keys; see `cell_keys`."""
    if math.prod(max(int(size), 1) for size in sizes) > KEY_LIMIT:
        keys, n_keys = cell_keys(np.concatenate([one, other]).T, sizes, n=len(one) + len(other))
        return keys[: len(one)], keys[len(one) :], n_keys
    own, n_keys = cell_keys(one.T, sizes, n=len(one))
    return own, cell_keys(other.T, sizes, n=len(other))[0], n_keys


def distinct_cells(columns: Columns, sizes: Sequence[int]) -> tuple[list[NDArray[Any]], Int64Array]:
    """Distinct combinations in lexicographic order, and which of them each one is.

    columns, sizes: As in `cell_keys`; at least one column.
    """
    keys, n_keys = cell_keys(columns, sizes)
    if n_keys > _DENSE * len(keys):
        _, one, number = np.unique(keys, return_index=True, return_inverse=True)
        return [codes[one] for codes in columns], number.astype(np.int64)
    of_key = np.full(n_keys, -1)
    of_key[keys] = np.arange(len(keys))
    is_there = of_key >= 0
    one = of_key[is_there]
    return [codes[one] for codes in columns], (np.cumsum(is_there) - 1)[keys]


_NARROW = (("UTINYINT", np.uint8), ("USMALLINT", np.uint16), ("UINTEGER", np.uint32))


@dataclass(frozen=True, kw_only=True, slots=True)
class CodeSpan:
    """The codes of one column, which can be stored as small numbers: 0 null, 1 other, then from 2 the codes."""

    # low, high: Smallest and largest code but null and other; high < low where there is none.
    low: int
    high: int

    @property
    def n_codes(self) -> int:
        """How many codes there can be, with null and other."""
        return self.high - self.low + 3

    @property
    def sql_type(self) -> str | None:
        """The smallest type that holds them; None: none of 32 bits does, they stay as they are."""
        largest = self.high - self.low + 2
        return next((name for name, held in _NARROW if largest <= np.iinfo(held).max), None)

    def small(self, code: str) -> str:
        """SQL of the small number of a code."""
        return (
            f"CAST(CASE WHEN {code} = {NULL_CODE} THEN 0 WHEN {code} = {OTHER_CODE} THEN 1 "
            f"ELSE {code} - ({self.low}) + 2 END AS {self.sql_type})"
        )

    def numbers(self, codes: Int64Array) -> NDArray[Any]:
        """The small numbers of codes, where there is a type that holds them; else the codes."""
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
    """Place of the column that is split in halves: that of fewer values, the second one of two that have as many."""
    return int(sizes[1] <= sizes[0])


def ordered_first(sizes: Sequence[int], is_ordered: Sequence[bool]) -> int | None:
    """Place of the column of two along which values are near each other, the longer one where both are ordered."""
    long = 1 - shorter(sizes)
    return next((j for j in (long, 1 - long) if is_ordered[j]), None)


def has_runs(n_long: int, n_short: int, n_possible: int) -> bool:
    """Whether a table of two columns is rounded by running sums along both of them."""
    return n_long << max(n_short - 1, 0).bit_length() <= MOST_PLACES * n_possible
