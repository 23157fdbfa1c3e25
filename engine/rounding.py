"""Controlled rounding: fitted cells to whole numbers whose margins are the published ones.

Cells come in lexicographic order, so those that share all columns but the last are neighbours (a fibre), and the
first margin is the sum over a fibre. Each fibre is rounded by running sums from a keyed start: its total is exact and
every run of neighbours is within 1. Then units are moved within fibres, which keeps the first margin, wherever this
brings the other margins nearer to their targets. Seeded by the sampling key; whole-number decisions are made in
fixed point. Cox 1987, doi:10.1080/01621459.1987.10478456.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.candidates import Letters, Margin, Narrower, sums_in
from engine.noise import siphash
from engine.schema import FloatArray, Int64Array, UInt64Array

MAX_ROUNDS = 60
STARVED = 0.5
"""A fibre that raking could not fill to this share of its target keeps only what it has."""
_FIXED = 20
"""Bits behind the point."""


def controlled_rounding(x: FloatArray, margins: Sequence[Margin], key: bytes) -> Int64Array:
    """Round cells to whole numbers.

    Parameters
    ----------
    x : ndarray of float64, shape (n_cells,)
        All >= 0, in lexicographic order of the cells.
    margins : sequence of Margin
        The first one's groups must be runs of neighbours (fibres).
    key : bytes
        Sampling key of the table.

    Returns
    -------
    ndarray of int64, shape (n_cells,)
        All >= 0. Sums over fibres equal the first margin exactly, but for those that the other margins starve;
        the other margins as nearly as the moves allow. See `place_leftovers`.
    """
    if not len(x):
        return np.zeros(0, dtype=np.int64)
    fibre = np.cumsum(np.diff(margins[0].of, prepend=-1) != 0) - 1
    heads = np.flatnonzero(np.diff(fibre, prepend=-1))
    n = _by_running_sums(x, margins[0], heads, key)
    fixed = (x * (1 << _FIXED)).astype(np.int64)
    others = margins[1:]
    off = [np.bincount(m.of, weights=n, minlength=len(m.n)).astype(np.int64) - m.n for m in others]
    priority = siphash(key, [np.arange(len(heads), dtype=np.uint64)])
    for round_number in range(MAX_ROUNDS):
        turned = priority * np.uint64(2 * round_number + 1)
        source, target = _moves(n, fixed, others, off, fibre)
        source, target = _within_reach(source, target, others, off, turned[fibre[source]])
        if not len(source):
            break
        n[source] -= 1
        n[target] += 1
        for margin, o in zip(others, off, strict=True):
            np.subtract.at(o, margin.of[source], 1)
            np.add.at(o, margin.of[target], 1)
    return n


def _by_running_sums(x: FloatArray, margin: Margin, heads: Int64Array, key: bytes) -> Int64Array:
    """Round each fibre by differences of floors of its running sum, from a keyed start in [0, 1)."""
    of_fibre = margin.of[heads]
    sizes = np.diff(np.append(heads, len(x)))
    have = np.bincount(np.repeat(np.arange(len(heads)), sizes), weights=x)
    target = margin.n[of_fibre]
    # Where the other margins starve a fibre, its rows are left over: forced into it they would break them.
    starved = have < target * STARVED
    target = np.where(starved, np.floor(have).astype(np.int64), target)
    have = np.where(have > 0, have, 1.0)
    scale = target / have
    running = np.cumsum(x)
    base = np.repeat(running[heads] - x[heads], sizes)
    start = (siphash(key, [of_fibre.view(np.uint64)]) >> np.uint64(64 - _FIXED)).astype(np.int64)
    inside = ((running - base) * np.repeat(scale, sizes) * (1 << _FIXED)).astype(np.int64)
    upto = (inside + np.repeat(start, sizes)) >> _FIXED
    upto = np.minimum(np.maximum(upto, 0), np.repeat(target, sizes))
    ends = np.append(heads[1:], len(x)) - 1
    upto[ends] = target  # the last running sum is the target, whatever floats made of it
    before = np.roll(upto, 1)
    before[heads] = 0
    out: Int64Array = upto - before
    return out


def _moves(
    n: Int64Array,
    fixed: Int64Array,
    others: Sequence[Margin],
    off: list[Int64Array],
    fibre: Int64Array,
) -> tuple[Int64Array, Int64Array]:
    """Pair, within each fibre, the cells best to take a unit from with those best to give one to.

    A move counts by how much nearer it brings the margins; among equals it takes from the cell most above its
    fitted value and gives to the one most below.
    """
    give, take = np.zeros(len(n), dtype=np.int64), np.zeros(len(n), dtype=np.int64)
    for margin, o in zip(others, off, strict=True):
        give += np.where(o > 0, -1, 1)[margin.of]
        take += np.where(o < 0, -1, 1)[margin.of]
    ahead = n * (1 << _FIXED) - fixed
    some = len(others) > 1  # with one other margin only a strict gain on both sides helps
    source = np.flatnonzero((n > 0) & (give <= 0 if some else give < 0))
    target = np.flatnonzero(take <= 0 if some else take < 0)
    source, target = _hopeful(source, target, give, take, fibre)
    source = source[np.lexsort((-ahead[source], give[source], fibre[source]))]
    target = target[np.lexsort((ahead[target], take[target], fibre[target]))]
    source, target = _matched(source, target, fibre)
    better = give[source] + take[target] < 0
    return source[better], target[better]


def _hopeful(
    source: Int64Array, target: Int64Array, give: Int64Array, take: Int64Array, fibre: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Keep the cells of fibres in which some move brings the margins nearer."""
    if not (len(source) and len(target)):
        return source[:0], target[:0]
    best = np.ones((2, int(fibre[-1]) + 1), dtype=np.int64)
    for side, cells, cost in ((0, source, give), (1, target, take)):
        for level in np.unique(cost[cells])[::-1]:  # the lowest is written last
            best[side, fibre[cells[cost[cells] == level]]] = level
    helped = (best <= 0).all(axis=0) & (best.sum(axis=0) < 0)
    return source[helped[fibre[source]]], target[helped[fibre[target]]]


def _matched(
    source: Int64Array, target: Int64Array, fibre: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Match the i-th source of each fibre with its i-th target."""
    giving, taking = (fibre[cells] * len(fibre) + _rank(fibre[cells]) for cells in (source, target))
    if not len(taking):
        return source[:0], target
    at = np.minimum(np.searchsorted(taking, giving), len(taking) - 1)
    met = taking[at] == giving
    return source[met], target[at[met]]


def _rank(group: Int64Array) -> Int64Array:
    """Number of each entry within its group; the groups are runs of neighbours."""
    fresh = np.flatnonzero(np.diff(group, prepend=-1))
    sizes = np.diff(np.append(fresh, len(group)))
    return np.arange(len(group)) - np.repeat(fresh, sizes)


def _within_reach(
    source: Int64Array,
    target: Int64Array,
    others: Sequence[Margin],
    off: list[Int64Array],
    priority: UInt64Array,
) -> tuple[Int64Array, Int64Array]:
    """Keep as many moves at each margin entry as it is off, in a keyed order; one where it is not off."""
    order = np.lexsort((source, priority))
    source, target = source[order], target[order]
    keep = np.ones(len(source), dtype=bool)
    for margin, o in zip(others, off, strict=True):
        for cells, reach in ((source, o), (target, -o)):
            entry = margin.of[cells]
            by_entry = np.argsort(entry, kind="stable")
            rank = np.empty(len(entry), dtype=np.int64)
            rank[by_entry] = _rank(entry[by_entry])
            keep &= rank < np.maximum(reach[entry], 1)
    return source[keep], target[keep]


def place_leftovers(
    letters: Letters, n: Int64Array, without: Sequence[Narrower]
) -> tuple[Letters, Int64Array]:
    """Place the rows of fibres that the candidates could not hold, so that no margin loses them.

    Whole-number tables can rule each other out: a cell of the first margin whose every completion some other margin
    holds at 0, or nearly. Its rows go where the second margin still lacks rows, which breaks a third margin by 1.
    Tables of two columns have no third margin: theirs agree exactly afterwards.

    Parameters
    ----------
    letters : ndarray of int32, shape (n_cells, n_columns)
    n : ndarray of int64, shape (n_cells,)
    without : sequence of Narrower
        Entry j is the published table without column j.

    Returns
    -------
    letters, n : as given, with cells added, in lexicographic order
    """
    k = letters.shape[1]
    if k == 2:  # what one column's margin has too much of is taken out, and placed anew
        n = _without_surplus(letters, n, without[0])
    lacking = [_lacking(np.delete(letters, j, axis=1), n, without[j]) for j in (k - 1, k - 2)]
    shared = np.concatenate([cells[:, : k - 2] for cells in lacking])
    prefix = np.zeros(len(shared), dtype=np.int64)
    if k > 2:
        prefix = np.unique(shared, axis=0, return_inverse=True)[1].ravel()
    first, second = prefix[: len(lacking[0])], prefix[len(lacking[0]) :]
    big = len(prefix) + 1
    _, left, right = np.intersect1d(
        first * big + _rank(first),
        second * big + _rank(second),
        assume_unique=True,
        return_indices=True,
    )
    if not len(left):
        return letters, n
    fresh = np.column_stack([lacking[0][left], lacking[1][right, k - 2]]).astype(np.int32)
    every, group = np.unique(np.concatenate([letters, fresh]), axis=0, return_inverse=True)
    rows = np.concatenate([n, np.ones(len(fresh), dtype=np.int64)])
    placed = np.bincount(group.ravel(), weights=rows).astype(np.int64)
    return every[placed > 0], placed[placed > 0]


def _without_surplus(letters: Letters, n: Int64Array, table: Narrower) -> Int64Array:
    """Take rows out of a two-column table where its second column has more than published."""
    have = np.bincount(letters[:, 1], weights=n)
    published = np.bincount(table.letters[:, 0], weights=table.n, minlength=len(have))
    surplus = np.maximum(have - published[: len(have)], 0).astype(np.int64)
    if not surplus.any():
        return n
    order = np.lexsort((n, letters[:, 1]))  # from the smallest cells of each letter first
    letter = letters[order, 1]
    before = np.cumsum(n[order]) - n[order]
    heads = np.searchsorted(letter, letter)
    taken = np.clip(surplus[letter] - (before - before[heads]), 0, n[order])
    out = n.copy()
    out[order] -= taken
    return out


def _lacking(letters: Letters, n: Int64Array, table: Narrower) -> Letters:
    """Cells of a published table that a wider one falls short of, one entry a row, in lexicographic order."""
    short = table.n - sums_in(table, letters, n)[0]
    return np.repeat(table.letters, np.maximum(short, 0), axis=0)
