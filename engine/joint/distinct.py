"""Rows counted: distinct combinations of values, in lexicographic order, with the sums of their counts.

Takes one array of numbers a column, however many columns; no loop over rows, and no more than a few arrays of their
length.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.schema import Int64Array

Letters = NDArray[np.int32]
DENSE_KEYS = 1 << 22
"""Combinations up to which rows are counted by position; more are sorted."""
KEY_LIMIT = 1 << 62
"""Most combinations that one int64 can number."""


def distinct(
    parts: Sequence[Letters], sizes: Sequence[int], n: Int64Array
) -> tuple[Letters, Int64Array]:
    """Distinct combinations in lexicographic order, with the sums of their counts.

    Parameters
    ----------
    parts : sequence of ndarray of int32, shape (n_rows,)
        One a column, at least one.
    sizes : sequence of int
        Number of values each column can have.
    n : ndarray of int64, shape (n_rows,)

    Returns
    -------
    letters : ndarray of int32, shape (n_distinct, n_columns)
    n : ndarray of int64, shape (n_distinct,)
    """
    key, n_keys = np.zeros(len(n), dtype=np.int64), 1
    for part, size in zip(parts, sizes, strict=True):
        if n_keys * max(size, 1) > KEY_LIMIT:  # keys would overflow: number those that occur
            found, key = np.unique(key, return_inverse=True)
            n_keys = len(found)
        n_keys *= max(size, 1)
        key = key * size + part
    if not len(n):
        return np.zeros((0, len(parts)), dtype=np.int32), n[:0]
    if n_keys <= DENSE_KEYS:
        # Sums of float64 are exact up to 2**53 rows.
        sums = np.bincount(key, weights=n, minlength=n_keys)
        held = np.flatnonzero(sums)
        letters = np.stack(np.unravel_index(held, [max(size, 1) for size in sizes]), axis=1)
        return letters.astype(np.int32), sums[held].astype(np.int64)
    order = np.argsort(key, kind="stable")
    ranked = key[order]
    starts = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))
    at = order[starts]
    return np.stack([part[at] for part in parts], axis=1), np.add.reduceat(n[order], starts)
