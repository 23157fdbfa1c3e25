"""Coefficients of association of two columns, from counted pairs of values: exact, and the same however rows repeat.

Takes ranks or numbers and how often each pair is there; gives a number, NaN where one of the two is constant.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]
LARGEST_GRID = 1 << 22
"""Most pairs of values that `tau_b` counts in an array; more are sorted."""


def tau_b(first: Numbers, second: Numbers, n: Numbers) -> float:
    """Kendall's tau-b of weighted pairs, exact: concordant less discordant pairs over those without ties.

    Kendall 1945, doi:10.1093/biomet/33.3.239.
    """
    shown = n > 0
    _, first = np.unique(first[shown], return_inverse=True)
    _, second = np.unique(second[shown], return_inverse=True)
    weights = n[shown].astype(np.int64)
    shape = (int(first.max(initial=-1)) + 1, int(second.max(initial=-1)) + 1)
    if min(shape) < 2:
        return float("nan")
    if shape[0] * shape[1] <= LARGEST_GRID:
        concordant, discordant = _by_grid(first, second, weights, shape)
    else:
        concordant, discordant = _by_sorting(first, second, weights)
    margins = [_summed(side, weights) for side in (first, second)]
    untied = [int(_pairs(weights.sum()) - _pairs(margin).sum()) for margin in margins]
    return (concordant - discordant) / math.sqrt(untied[0] * untied[1])


def _pairs(n: Numbers) -> Numbers:
    """Number of pairs among n."""
    return n * (n - 1) // 2


def _summed(place: Numbers, weights: Numbers) -> Numbers:
    """Sum of the weights at each place; exact, as they are whole and far below 2 ** 53."""
    return np.bincount(place, weights.astype(np.float64)).astype(np.int64)


def _by_grid(
    first: Numbers, second: Numbers, n: Numbers, shape: tuple[int, int]
) -> tuple[int, int]:
    """Concordant and discordant pairs, from an array of all pairs of values."""
    flat = np.bincount(
        first * shape[1] + second, n.astype(np.float64), minlength=shape[0] * shape[1]
    )
    grid = flat.astype(np.int64).reshape(shape)
    below = np.cumsum(grid, axis=0)[:-1]  # rows before each row
    left = np.cumsum(below, axis=1)
    concordant = np.sum(grid[1:, 1:] * left[:, :-1])
    discordant = np.sum(grid[1:, :-1] * (left[:, -1:] - left[:, :-1]))
    return int(concordant), int(discordant)


def _by_sorting(first: Numbers, second: Numbers, n: Numbers) -> tuple[int, int]:
    """Concordant and discordant pairs, bit by bit of the second rank.

    Rows are in the order of the first rank, ties by the second, so that a tie of the first is in no pair. Two rows
    whose second ranks share their higher bits are discordant if the earlier one has the bit set and the later not.
    """
    size = int(second.max()) + 1
    key, place = np.unique(first * size + second, return_inverse=True)
    weights = _summed(place, n)
    first, second = key // size, key % size
    discordant = 0
    for bit in range(size.bit_length()):
        group = second >> (bit + 1)
        order = np.argsort(group, kind="stable")
        is_set = ((second[order] >> bit) & 1).astype(np.bool_)
        before = np.cumsum(np.where(is_set, weights[order], 0))
        starts = np.flatnonzero(np.diff(group[order], prepend=-1))
        base = np.concatenate([[0], before])[starts]
        inside = before - np.repeat(base, np.diff(starts, append=len(order)))
        discordant += int(np.sum(np.where(is_set, 0, weights[order] * inside)))
    tied = [int(_pairs(_summed(side, weights)).sum()) for side in (first, second)]
    both = int(_pairs(weights).sum())
    whole = int(_pairs(weights.sum()))
    return whole - tied[0] - tied[1] + both - discordant, discordant


def pearson(first: Floats, second: Floats, n: Numbers) -> float:
    """Pearson's correlation of weighted pairs of numbers; NaN where one is constant or not finite."""
    weights = n[n > 0].astype(np.float64)
    sides = [side[n > 0].astype(np.float64) for side in (first, second)]
    if any(len(np.unique(side)) < 2 or not np.isfinite(side).all() for side in sides):
        return float("nan")
    sides = [side / np.abs(side).max() for side in sides]  # sums do not overflow
    apart = [side - np.average(side, weights=weights) for side in sides]
    scaled = [side / np.abs(side).max() for side in apart]  # squares do not vanish
    squares = [float(np.sum(weights * side**2)) for side in scaled]
    product = float(np.sum(weights * scaled[0] * scaled[1]))
    return min(max(product / math.sqrt(squares[0] * squares[1]), -1.0), 1.0)


def spearman(first: Numbers, second: Numbers, n: Numbers) -> float:
    """Spearman's rank correlation of weighted pairs, ties at their mean rank; NaN where one of the two is constant."""
    shown = n > 0
    weights = n[shown]
    ranks = [_mean_ranks(side[shown], weights) for side in (first, second)]
    return pearson(ranks[0], ranks[1], weights)


def _mean_ranks(values: Numbers, n: Numbers) -> Floats:
    """Mean rank of each value, repeated rows counted."""
    _, place = np.unique(values, return_inverse=True)
    each = _summed(place, n)
    ranks: Floats = (np.cumsum(each) - (each - 1) / 2.0)[place]
    return ranks


def cramers_v(first: Numbers, second: Numbers, n: Numbers) -> float:
    """Cramer's V of weighted pairs of codes, without correction for bias; NaN where one of the two is constant.

    Cramer, Mathematical Methods of Statistics, 1946, section 21.9.
    """
    shown = n > 0
    (_, first), (_, second) = (
        np.unique(side[shown], return_inverse=True) for side in (first, second)
    )
    size = int(second.max(initial=0)) + 1
    key, place = np.unique(first * size + second, return_inverse=True)
    cells = _summed(place, n[shown]).astype(np.float64)
    margins = [_summed(side, n[shown]).astype(np.float64) for side in (first, second)]
    least = min(map(len, margins))
    if least < 2:
        return float("nan")
    expected = margins[0][key // size] * margins[1][key % size]
    excess = float(np.sum(cells**2 / expected)) - 1
    return min(math.sqrt(max(excess, 0.0) / (least - 1)), 1.0)
