"""The noise of weighted sums over a table's rows, what is locked to narrower tables counted once.

Takes a table with its tree, and weights of its rows; gives the standard deviation of each sum's error. Buckets of
single values carry the noise of the tree; rows that were filled in inside a box are placed blindly, which adds the
spread of their weights inside the box.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.schema import FloatArray, Int64Array
from queries.buckets import TableBuckets, sum_by
from queries.noise_tree import ROUNDING, NoiseTree, variance_of_sums

BLIND = 1.5
"""Variance of blind placement over that of rows drawn at random: the truth comes in clumps, and was drawn too."""

ALIKE = 1.2
"""Variance of a sum of several buckets over that of independent noise: a bucket and its half may hold the same people,
who draw the same. Found over 60 keys on two sets of data; ./scripts/intervals.py shows whether it still holds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sums:
    """Weighted sums by bucket.

    Attributes
    ----------
    n_sums : int
    of_sum, bucket : ndarray of int64, shape (n_entries,)
    weight : ndarray of float64, shape (n_entries,)
        Mean weight of the bucket's rows.
    rows : ndarray of float64, shape (n_entries,)
        Number of the bucket's rows that the sum counts.
    blind : ndarray of float64, shape (n_sums,)
        Spread of the weights inside filled boxes.
    """

    n_sums: int
    of_sum: Int64Array
    bucket: Int64Array
    weight: FloatArray
    rows: FloatArray
    blind: FloatArray


def sums_of(
    table: TableBuckets,
    tree: NoiseTree,
    n_sums: int,
    of_sum: Int64Array,
    row: Int64Array,
    weight: FloatArray,
) -> Sums:
    """Bring weights of rows together by sum and bucket.

    Parameters
    ----------
    table : TableBuckets
    tree : NoiseTree
    n_sums : int
    of_sum, row : ndarray of int64, shape (n_entries,)
        Which sum counts which row; a row at most once a sum.
    weight : ndarray of float64, shape (n_entries,)
    """
    n_buckets = len(table.size)
    known = tree.row_bucket[row] >= 0
    # Rows that lie in no bucket were left over and put where there was room: blind, each by itself.
    left_over = sum_by(of_sum[~known], table.n[row[~known]] * weight[~known] ** 2, n_sums)
    of_sum, row, weight = of_sum[known], row[known], weight[known]
    bucket = tree.row_bucket[row]
    label, inverse = np.unique(of_sum * n_buckets + bucket, return_inverse=True)
    sums, buckets = np.divmod(label, max(n_buckets, 1))
    n = table.n[row].astype(np.float64)
    size = np.maximum(table.size[buckets], 1).astype(np.float64)
    rows = sum_by(inverse, n, len(label))
    first = sum_by(inverse, n * weight, len(label))
    second = sum_by(inverse, n * weight**2, len(label))
    mean = first / size
    spread = np.where(table.measured[buckets], 0.0, np.maximum(second - size * mean**2, 0.0))
    return Sums(
        n_sums=n_sums,
        of_sum=sums,
        bucket=buckets,
        weight=mean,
        rows=rows,
        blind=sum_by(sums, spread, n_sums) + left_over,
    )


def sd_of_sums(tree: NoiseTree, sums: Sums) -> FloatArray:
    """Return the standard deviation of the error of each sum, from a table's own tree."""
    variance = variance_of_sums(tree, sums.n_sums, sums.of_sum, sums.bucket, sums.weight)
    scale = sum_by(sums.of_sum, sums.weight**2, sums.n_sums)
    count = np.bincount(sums.of_sum, minlength=sums.n_sums)
    rounded = ROUNDING * np.divide(scale, count, out=np.zeros(sums.n_sums), where=count > 0)
    variance *= np.where(count > 1, ALIKE, 1.0)
    return np.sqrt(variance + BLIND * sums.blind + rounded)
