"""What is expected in cells that were not released: weights of candidate cells, and rows of a pair's remainders.

Takes candidate cells, the narrower tables and what a first fit gave; gives weights, by which the rows of a remainder
are spread over its cells, and the rows expected in each remainder. Sees measurements and published tables only.
"""

from __future__ import annotations

import numpy as np

from engine.cell_keys import ordered_first
from engine.fit.candidates import Candidates, Codes, Narrower
from engine.fit.placement import Placement
from engine.schema import (
    KIND_NULL,
    KIND_OTHER,
    BoolArray,
    FloatArray,
    Int64Array,
    Measurement,
    Support,
)

LEAST_LEFT = 1e-6
"""Rows that a value is taken to have outside its released cells at least."""
NEAR = 800
"""Rows of the ordered column, half on each side, that are near a value."""
ALIKE = 10.0
"""Rows for which a group is taken to be near a value as it is everywhere: what a few rows there say counts little."""


def prior_weights(
    candidates: Candidates, without: tuple[Narrower, ...], supports: tuple[Support, ...]
) -> FloatArray:
    """Weight of each candidate from the narrower tables: their product, each code counted once.

    A code stands in k - 1 of the narrower tables, so k - 2 of its one-way counts are divided out: n_A n_B for
    two columns, n_AB n_AC n_BC / (n_A n_B n_C) for three.
    """
    weight = np.ones(len(candidates.codes))
    for at, table in zip(reversed(candidates.at), reversed(without), strict=True):
        weight = weight * table.n[at]
    for j, support in enumerate(supports):
        once = support.n[candidates.codes[:, j]]
        for _ in range(len(supports) - 2):
            weight = weight / once
    return weight


def expected_rows(
    tree: Measurement,
    placement: Placement,
    weight: FloatArray,
    codes: Codes,
    supports: tuple[Support, ...],
) -> FloatArray:
    """Rows expected in each node's cells that were not released, the virtual root first; of a table of two columns.

    As many as released cells leave of all rows, spread by weight; but each value's weights are first brought to what
    its released cells leave, of one column and then of the other: where these have all, next to none are expected
    elsewhere, so that combinations which cannot be stay empty. The mean of both orders hangs on neither, and is right
    where values keep to separate blocks.
    """
    released, is_open = placement.released, ~placement.released
    counted = tree.n[placement.node[released] - 1].astype(np.float64)
    together = max(total(supports[0].n.astype(np.float64)) - total(counted), LEAST_LEFT)
    left = []
    for j, support in enumerate(supports):
        taken = np.bincount(codes[released, j], weights=counted, minlength=len(support))
        left.append(np.maximum(support.n - taken, LEAST_LEFT))

    def brought(first: int, second: int) -> FloatArray:
        rows = weight[is_open]
        for j in (first, second):
            code = codes[is_open, j]
            rows = rows * left[j][code] / np.bincount(code, rows, len(left[j]))[code]
        return rows

    rows = (brought(0, 1) + brought(1, 0)) / 2
    in_nodes = np.bincount(
        placement.node[is_open], weights=rows, minlength=tree.n_nodes + 1
    ).astype(np.float64)
    expected: FloatArray = in_nodes * (together / max(total(in_nodes), 1e-300))
    return expected


def total(x: FloatArray) -> float:
    """Sum in the order of the entries: the same bits on every machine."""
    return float(np.cumsum(x)[-1]) if len(x) else 0.0


def ordered_column(supports: tuple[Support, ...]) -> int | None:
    """Which of two columns has values that lie near each other; None where neither has."""
    n_valued = [int(_is_valued(support).sum()) for support in supports]
    is_ordered = [one.values is None and n > 2 for one, n in zip(supports, n_valued, strict=True)]
    return ordered_first([len(one) for one in supports], is_ordered)


def weighed_nearby(
    weight: FloatArray, fitted: FloatArray, codes: Codes, supports: tuple[Support, ...], along: int
) -> FloatArray:
    """Weights of a pair's candidates, times how many rows of the group a first fit has near the value.

    Of whom the highest incomes are, the fill of a box knows nothing where boxes hold several groups. The released
    cells near them do: so a group counts for more where more of it was fitted, on `NEAR` rows, than independence
    gives. The ratio is the mean of its posterior distribution where it is Gamma distributed around 1, as in maps of
    rare diseases (Clayton and Kaldor 1987, doi:10.2307/2532003), of shape `ALIKE`.
    """
    group = codes[:, 1 - along].astype(np.int64)
    shape = len(supports[along]), len(supports[1 - along])
    cell = codes[:, along] * np.int64(shape[1]) + group
    first, past = near_values(supports[along])

    def near(rows: FloatArray) -> FloatArray:
        grid = np.bincount(cell, weights=rows, minlength=shape[0] * shape[1]).reshape(shape)
        run = np.zeros((shape[0] + 1, shape[1]))
        np.cumsum(grid, axis=0, out=run[1:])
        found: FloatArray = (run[past] - run[first]).ravel()[cell]
        return found

    alone = weight * (total(fitted) / (total(weight) or 1.0))
    return weight * (near(fitted) + ALIKE) / (near(alone) + ALIKE)


def near_values(support: Support) -> tuple[Int64Array, Int64Array]:
    """For each value of an ordered column the first one near it, and the one past the last: `NEAR` rows around it.

    A value of which part lies so near counts in full. A value is near itself; null and other are near nothing else.
    """
    run = np.concatenate([[0], np.cumsum(support.n)])
    twice = run[:-1] + run[1:]  # the middle of each value's rows
    first = np.searchsorted(2 * run, twice - NEAR, side="right") - 1
    past = np.searchsorted(2 * run, twice + NEAR, side="left")
    at = np.arange(len(support))
    is_valued = _is_valued(support)
    inside = np.flatnonzero(is_valued)
    low, high = (int(inside[0]), int(inside[-1]) + 1) if len(inside) else (0, 0)
    first = np.where(is_valued, np.clip(first, low, at), at)
    past = np.where(is_valued, np.clip(past, at + 1, max(high, 1)), at + 1)
    return first.astype(np.int64), past.astype(np.int64)


def _is_valued(support: Support) -> BoolArray:
    valued: BoolArray = (support.kind != KIND_NULL) & (support.kind != KIND_OTHER)
    return valued
