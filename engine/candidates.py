"""Candidate cells of a table: combinations whose every narrower margin is positive in the published tables.

A pair ruled out by a narrower table stays ruled out in every wider one. Candidates of a k-column table are the join
of two of its (k-1)-column tables over their common columns, kept where all the others hold the combination too.
Sees published tables only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.schema import Int64Array, UInt64Array

Letters = NDArray[np.int32]
DENSE_LIMIT = 1 << 21
"""Largest lookup table by direct position, in entries."""
KEY_LIMIT = 1 << 62
"""Most combinations that one int64 can number."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Margin:
    """One narrower published table, as a margin of the candidates.

    Attributes
    ----------
    of : ndarray of int32 or int64, shape (n_candidates,)
        Position of each candidate's cell in the narrower table.
    n : ndarray of int64, shape (n_cells,)
        The published counts.
    """

    of: Int64Array
    n: Int64Array


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidates:
    """Candidate cells in lexicographic order, with their margins.

    Attributes
    ----------
    letters : ndarray of int32, shape (n_candidates, n_columns)
    margins : tuple of Margin
        The table without its last column first, then without the one before, and so on.
    """

    letters: Letters
    margins: tuple[Margin, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Narrower:
    """A published table as far as wider ones need it: letters in lexicographic order, and counts."""

    letters: Letters
    n: Int64Array


def join_candidates(without: Sequence[Narrower], sizes: tuple[int, ...]) -> Candidates:
    """Join the narrower tables of a column set.

    Parameters
    ----------
    without : sequence of Narrower
        Entry j is the published table without column j.
    sizes : tuple of int
        Number of letters of each column.

    Returns
    -------
    Candidates
    """
    k = len(sizes)
    last, previous = without[k - 1], without[k - 2]
    prefix = _key(last.letters[:, : k - 2], sizes[: k - 2])
    other = _key(previous.letters[:, : k - 2], sizes[: k - 2])
    first = np.searchsorted(other, prefix, side="left")
    count = np.searchsorted(other, prefix, side="right") - first
    of_last = np.repeat(np.arange(len(prefix)), count)
    within = np.arange(len(of_last)) - np.repeat(np.cumsum(count) - count, count)
    of_previous = np.repeat(first, count) + within
    letters = np.column_stack([last.letters[of_last], previous.letters[of_previous, k - 2]])
    positions = {k - 1: of_last, k - 2: of_previous}
    for j in range(k - 2):
        keep = [i for i in range(k) if i != j]
        found = _lookup(without[j], letters[:, keep], tuple(sizes[i] for i in keep))
        held = found >= 0
        letters = letters[held]
        positions = {i: p[held] for i, p in positions.items()}
        positions[j] = found[held]
    return Candidates(
        letters=np.ascontiguousarray(letters, dtype=np.int32),
        margins=tuple(Margin(of=positions[j], n=without[j].n) for j in range(k - 1, -1, -1)),
    )


def _key(letters: Letters, sizes: tuple[int, ...]) -> Int64Array:
    """One number for each combination, in lexicographic order."""
    key = np.zeros(len(letters), dtype=np.int64)
    for column, size in enumerate(sizes):
        key = key * size + letters[:, column]
    return key


def _lookup(table: Narrower, letters: Letters, sizes: tuple[int, ...]) -> Int64Array:
    """Position of each combination in a table, -1 where it is not there."""
    space = math.prod(sizes)
    if space > KEY_LIMIT:  # keys would overflow: number the combinations that occur
        both = np.concatenate([table.letters, letters])
        group = np.unique(both, axis=0, return_inverse=True)[1].ravel().astype(np.int64)
        known, wanted, space = group[: len(table.n)], group[len(table.n) :], len(group)
    else:
        known, wanted = _key(table.letters, sizes), _key(letters, sizes)
    if space <= DENSE_LIMIT:
        position = np.full(space, -1, dtype=np.int64)
        position[known] = np.arange(len(known))
        found: Int64Array = position[wanted]
        return found
    place = np.minimum(np.searchsorted(known, wanted), max(len(known) - 1, 0))
    if not len(known):
        return np.full(len(wanted), -1, dtype=np.int64)
    return np.where(known[place] == wanted, place, -1)


def sums_in(table: Narrower, letters: Letters, n: Int64Array) -> tuple[Int64Array, int]:
    """Add up rows by the cells of a table.

    Parameters
    ----------
    table : Narrower
    letters : ndarray of int32, shape (n_cells, n_columns)
        Columns as in the table; rows need not be distinct.
    n : ndarray of int64, shape (n_cells,)

    Returns
    -------
    sums : ndarray of int64
        Rows in each cell of the table.
    outside : int
        Most rows in any one cell that the table does not have.
    """
    both = np.concatenate([table.letters, letters])
    sizes = tuple(int(size) + 1 for size in both.max(axis=0, initial=0))
    at = _lookup(table, letters, sizes)
    inside = at >= 0
    sums = np.bincount(at[inside], weights=n[inside], minlength=len(table.n)).astype(np.int64)
    if inside.all():
        return sums, 0
    group = np.unique(letters[~inside], axis=0, return_inverse=True)[1].ravel()
    return sums, int(np.bincount(group, weights=n[~inside]).max())


def sampled_pairs(a: Int64Array, b: Int64Array, boxes: Int64Array, bits: UInt64Array) -> Int64Array:
    """Candidate pairs where all pairs would be too many: drawn in proportion to the published one-ways.

    Parameters
    ----------
    a, b : ndarray of int64, shape (n_letters,)
        Published counts of both columns.
    boxes : ndarray of int64, shape (n_boxes, 5)
        First and last letter in a, first and last in b, and number of pairs wanted in the box.
    bits : ndarray of uint64, shape (sum of wanted, 2)
        Random bits to draw with.

    Returns
    -------
    ndarray of int64, shape (n_pairs, 2)
        Distinct pairs, in lexicographic order.
    """
    box = np.repeat(np.arange(len(boxes)), boxes[:, 4])
    drawn = []
    for column, counts in enumerate((a, b)):
        running = np.concatenate([[0], np.cumsum(counts)])
        low = running[boxes[box, 2 * column]]
        width = running[boxes[box, 2 * column + 1] + 1] - low
        unit = low + (bits[:, column] % np.maximum(width, 1).view(np.uint64)).view(np.int64)
        drawn.append(np.searchsorted(running, unit, side="right") - 1)
    key = np.unique(drawn[0] * len(b) + drawn[1])
    return np.column_stack(np.divmod(key, len(b)))
