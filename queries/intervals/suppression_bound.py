"""How many rows a combination that was not released may hold: one bound for all of a table.

Takes a table with its tree and the most that suppression hides; gives the bound. It is the mean, over the combinations
that were filled in, of what the density of each one's box allows. A bound for each cell by itself would be no better
calibrated, and would hand out a guess of which cells are empty; the mean keeps to what fine-grained columns are like
(an income in single units: hardly ever two people) and tells nothing of any one cell.
Sees released numbers only.
"""

from __future__ import annotations

import math

import numpy as np

from engine.schema import FloatArray, Int64Array
from queries.intervals.buckets import TableBuckets
from queries.intervals.sums import BLIND, Z
from queries.intervals.tree import NoiseTree


def suppression_bound(table: TableBuckets, tree: NoiseTree, most: int) -> int:
    """Rows that 95 of 100 combinations which were not released hold at most.

    Parameters
    ----------
    most : int
        What suppression hides at most.
    """
    filled = np.flatnonzero(~table.row_measured & (tree.row_bucket >= 0))
    if not len(filled):
        return most
    bucket = tree.row_bucket[filled]
    volume = np.ones(len(table.size))
    for j, column in enumerate(table.released):
        codes = table.last[:, j] - table.first[:, j] + 1
        step = max(int(np.gcd.reduce(column.grid)), 1)  # what was drawn keeps to the column's grid
        volume *= np.maximum((table.span[:, j] + 1) // step if column.is_number else codes, 1)
    density = (table.size / np.maximum(volume * tree.is_open, 1.0))[bucket]
    density = np.maximum(density, _by_values(table, tree, table.rows[filled], bucket))
    allowed = np.clip(np.ceil(density + Z * np.sqrt(BLIND * density)), 1.0, most)
    return math.ceil(float(allowed.mean()))


def _by_values(
    table: TableBuckets, tree: NoiseTree, places: Int64Array, bucket: Int64Array
) -> FloatArray:
    """Rows to expect of combinations if a box was filled as frequent as each column's values are by themselves."""
    if len(table.columns) == 1:  # its own values are what was filled in
        return np.zeros(len(places))
    share = np.ones(len(places))
    for j, column in enumerate(table.released):
        upto = np.concatenate([[0.0], np.cumsum(np.maximum(column.n, 0))])
        inside = upto[table.last[bucket, j] + 1] - upto[table.first[bucket, j]]
        share *= np.divide(
            column.n[places[:, j]], inside, out=np.zeros(len(places)), where=inside > 0
        )
    dense: FloatArray = share * (table.size / tree.is_open)[bucket]
    return dense
