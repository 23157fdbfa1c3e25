"""Snapped ranges: power-of-two ranges on absolute grids anchored at 0.

A value is (kind, code). Each sign has its own dyadic tree from 0, so that no boundary depends on the data: the
magnitude of a non-negative code is the code, that of a negative one -1 - code. A range `(level, index)` holds the
magnitudes index * 2**level .. (index + 1) * 2**level - 1 of one kind. Null and other are single values. Integers only,
so equality is exact.
"""

from __future__ import annotations

import numpy as np

from engine.schema import (
    KIND_NEGATIVE,
    KIND_NONNEGATIVE,
    KIND_NULL,
    KIND_OTHER,
    NULL_CODE,
    OTHER_CODE,
    BoolArray,
    Int64Array,
    UInt8Array,
    UInt64Array,
)

ROOT_LEVEL = 63
"""Every magnitude of an int64 lies in index 0 of this level."""


def split_codes(codes: Int64Array) -> tuple[UInt8Array, Int64Array]:
    """Split stored codes into kinds and magnitudes.

    codes: As stored, with `NULL_CODE` and `OTHER_CODE` for these kinds.

    Returns: kind; magnitude, 0 for null and other.
    """
    kind = np.where(codes < 0, KIND_NEGATIVE, KIND_NONNEGATIVE).astype(np.uint8)
    magnitude = np.where(codes < 0, ~codes, codes)
    for special, code in ((KIND_NULL, NULL_CODE), (KIND_OTHER, OTHER_CODE)):
        hit = codes == code
        if hit.any():
            kind[hit] = special
            magnitude[hit] = 0
    return kind, magnitude


def code_bounds(
    kind: UInt8Array, level: UInt8Array, index: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Smallest and largest code of each range; 0, 0 for null and other."""
    first = index << level.astype(np.int64)
    last = first + ((np.int64(1) << level.astype(np.int64)) - 1)
    negative = kind == KIND_NEGATIVE
    special = (kind == KIND_NULL) | (kind == KIND_OTHER)
    low = np.where(special, 0, np.where(negative, ~last, first))
    high = np.where(special, 0, np.where(negative, ~first, last))
    return low, high


def stored_codes(kind: UInt8Array, level: UInt8Array, index: Int64Array) -> Int64Array:
    """Smallest code of each range as it is stored, null and other by theirs."""
    codes = np.where(kind == KIND_NULL, NULL_CODE, code_bounds(kind, level, index)[0])
    return np.where(kind == KIND_OTHER, OTHER_CODE, codes)


def levels_at(tops: tuple[int, ...], depth: int) -> tuple[int, ...]:
    """Level of each column at a depth of its column set: all ranges are halved together, down to single values."""
    return tuple(max(top - depth, 0) for top in tops)


def bit_length(x: UInt64Array) -> Int64Array:
    """Position of the highest set bit, 1 to 64, of non-zero words; exact (halves fit a float64)."""
    high = x >> np.uint64(32)
    upper = high > 0
    half = np.where(upper, high, x & np.uint64(0xFFFFFFFF))
    return np.frexp(half.astype(np.float64))[1].astype(np.int64) + np.where(upper, 32, 0)


def chosen_places(where: BoolArray | Int64Array) -> Int64Array:
    """Positions of a selection given as a mask or as positions: indexing by positions is faster than by mask."""
    return np.flatnonzero(where) if where.dtype == np.bool_ else where.astype(np.int64, copy=False)
