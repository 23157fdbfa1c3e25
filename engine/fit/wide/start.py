"""The start of a wide table: rows dealt out along the tree of the strongest dependencies.

Tables of pairs of columns in, rows out. Each table of the tree is met exactly, so the blanks of a universe stay
together from the start; all other pairs are as if independent, given the tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from engine.fit.wide.shuffles import Shuffles
from engine.schema import FloatArray, Int64Array

Edge = tuple[int, int]
"""A column and its parent in the tree, -1 for the root; parents come first."""
Pairs = Mapping[tuple[int, int], Int64Array]
"""Counts by two columns, the lower place first."""
FIXED = 1 << 20
"""Dependence is compared in steps of 1 / FIXED."""
_TERMS = 24


def information_of(pairs: Pairs, n_columns: int) -> FloatArray:
    """Mutual information of all pairs of columns, in whole steps; shape (n_columns, n_columns).

    A column's own entry is above all others.
    """
    out = np.zeros((n_columns, n_columns))
    for (i, j), n in pairs.items():
        # Steps, not the figure itself: sums of whole numbers are the same in any order.
        out[i, j] = out[j, i] = np.rint(mutual_information(n) * FIXED)
    np.fill_diagonal(out, out.max(initial=0) + 1)
    return out


def mutual_information(n: Int64Array) -> float:
    """How much two columns tell of each other, in nats; + - * / in fixed order, so the same on every machine."""
    total = float(n.sum())
    if total <= 0:
        return 0.0
    i, j = np.nonzero(n)
    own = n[i, j].astype(np.float64)
    ratio = own / n.sum(axis=1)[i] * total / n.sum(axis=0)[j]
    return max(float(np.cumsum(own * logarithm(ratio))[-1]) / total, 0.0)


def logarithm(x: FloatArray) -> FloatArray:
    """Natural logarithm of positive numbers, to about 1e-12, without the machine's own.

    x = m * 2**e with m from 0.5 to 1; log m by the series of atanh, |(m - 1) / (m + 1)| <= 1/3.
    """
    mantissa, exponent = np.frexp(x)
    t = (mantissa - 1) / (mantissa + 1)
    square = t * t
    series = np.full_like(t, 1 / (2 * _TERMS + 1))
    for k in range(_TERMS - 1, -1, -1):
        series = series * square + 1 / (2 * k + 1)
    out: FloatArray = 2 * t * series + exponent * 0.6931471805599453
    return out


def tree_rows(
    edges: Sequence[Edge],
    singles: Sequence[Int64Array],
    pairs: Pairs,
    shuffles: Shuffles,
    *,
    step: int = 1,
) -> Int64Array:
    """Deal out rows along the tree."""
    n_rows = int(singles[0].sum()) if len(singles) else 0
    rows = np.empty((len(singles), n_rows), dtype=np.int64)
    for child, parent in edges:
        table = pairs.get((min(child, parent), max(child, parent)))
        if parent < 0 or table is None:
            values = np.repeat(np.arange(len(singles[child])), singles[child])
            rows[child, shuffles.order(n_rows)] = values
            continue
        table = table if parent < child else table.T
        rows[child] = _dealt(rows[parent], table, singles[child], shuffles, step)
    return rows


def _dealt(
    parents: Int64Array, table: Int64Array, single: Int64Array, shuffles: Shuffles, step: int
) -> Int64Array:
    """A child's level for each row: as the table says where its sums are those of the columns, else as near."""
    # The rows of each parent level, in random order, take the table's row from left to right.
    order = shuffles.grouped(parents)
    room = np.bincount(parents, minlength=len(table))
    upto = np.cumsum(table, axis=1)
    if step > 1:  # to the room of each parent, from left to right
        upto = upto * room[:, np.newaxis] // np.maximum(upto[:, -1:], 1)
    upto = np.minimum(upto, room[:, np.newaxis])
    each = np.diff(upto, axis=1, prepend=0)
    values = np.full(len(parents), -1)
    starts = np.cumsum(room) - room
    cells = np.repeat(np.arange(each.size), each.ravel())
    place = np.arange(len(cells)) - np.repeat(np.cumsum(upto[:, -1]) - upto[:, -1], upto[:, -1])
    parent_of = cells // table.shape[1]
    values[starts[parent_of] + place] = cells % table.shape[1]
    values = _balanced(values, single)
    out = np.empty(len(parents), dtype=np.int64)
    out[order] = values
    return out


def _balanced(values: Int64Array, single: Int64Array) -> Int64Array:
    """Levels with as many rows each as wanted: surplus ones, and places without, take what is missing."""
    order = np.argsort(values, kind="stable")
    order = order[values[order] >= 0]
    level = values[order]
    first = np.searchsorted(level, np.arange(len(single)))
    surplus = np.arange(len(level)) - first[level] >= single[level]
    values[order[surplus]] = -1
    missing = single - np.bincount(values[values >= 0], minlength=len(single))
    values[values < 0] = np.repeat(np.arange(len(single)), missing)
    return values
