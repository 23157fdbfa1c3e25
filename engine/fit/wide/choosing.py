"""Which tables of three columns would help a wide table most, by the counts of its columns alone.

Rows of each value of each column in, column sets out. A wide table has what pairs say. Where rows are a sample, a cell
in which they expect e rows holds about sqrt(e) more or fewer: a table of three columns shows this up to its noise,
where e is above the threshold, and nothing elsewhere. So one helps the more, the more cells of middling size it has.
What it would show of an interaction beyond that, no pair says: measured, the dependence in pairs adds nothing to this
order (decision 043). It is divided by what the table costs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations
from math import prod, sqrt

import numpy as np

from engine.fit.wide.rows import packed
from engine.schema import ColumnSet, FloatArray, Int64Array

GROUPS = 16
"""Columns of more values are taken in groups of neighbours, of about equal share."""
FIXED_COST = 200
"""The time that a table takes, locking and the search of the wide table together, is about in proportion to this plus
the root of the number of its combinations, as measured on NIST's excerpt."""
STEPS = 1 << 12
"""Gains are compared in steps of 1 / STEPS rows: sums of whole numbers are the same in any order."""


def chosen_triples(
    columns: ColumnSet,
    counts: Sequence[Int64Array],
    *,
    threshold: float,
    noise_sd: float,
    most: int,
    known: Collection[ColumnSet] = (),
    target: str | None = None,
) -> tuple[ColumnSet, ...]:
    """Choose tables of three columns, those that help most for their cost first; among equals the first by name.

    counts: For each column the rows of its values, neighbours side by side.
    threshold, noise_sd: Of a table: cells of fewer rows are suppressed, others have noise.
    most: So many tables at most.
    known: Tables that are there already; what lies inside one is not chosen.
    target: Tables with this column come first.
    """
    sizes = {name: _grouped(n).astype(np.float64) for name, n in zip(columns, counts, strict=True)}
    lengths = {name: len(n) for name, n in zip(columns, counts, strict=True)}
    inside = [{*table} for table in known]
    use = {
        triple: _gain([sizes[name] for name in triple], threshold, noise_sd)
        / (FIXED_COST + sqrt(prod(lengths[name] for name in triple)))
        for triple in combinations(columns, 3)
        if not any(table.issuperset(triple) for table in inside)
    }
    helpful = [triple for triple in use if use[triple] > 0]
    helpful.sort(key=lambda triple: (target not in triple, -use[triple], triple))
    return tuple(helpful[:most])


def _gain(sizes: Sequence[FloatArray], threshold: float, noise_sd: float) -> int:
    """Rows by which the cells of a table would be nearer to the data than as pairs have them, in whole steps."""
    total = max(float(sizes[0].sum()), 1.0)
    first, second, third = sizes
    expected = (first[:, np.newaxis] * second / total).reshape(-1, 1) * (third / total)
    seen = expected[expected >= threshold]
    nearer = np.rint((np.sqrt(seen) - noise_sd) * STEPS).astype(np.int64)
    return int(np.maximum(nearer, 0).sum())


def _grouped(n: Int64Array) -> Int64Array:
    """Rows of the values, or of groups of them."""
    if len(n) <= GROUPS:
        return n
    group = packed(n, np.zeros(len(n), np.int64), int(n.sum()) // GROUPS)
    return np.bincount(group, weights=n).astype(np.int64)  # whole, far below 2 ** 53
