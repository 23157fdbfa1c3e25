"""Candidate cells of a table: combinations whose every narrower margin is positive in the published tables.

Candidates of a k-column table are the join of two of its (k-1)-column tables over their common columns, kept where all
the others hold the combination too. The repair of missing rows may add combinations that a narrower table lacks.
Sees published tables only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.cell_keys import cell_keys, comparable_keys
from engine.schema import BoolArray, Int64Array

Codes = NDArray[np.int32]
DENSE_LIMIT = 1 << 21
"""Largest lookup table by direct position, in entries."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MarginBounds:
    """A partition of the candidates, with bounds for the sum of each part."""

    # shape (n_candidates,): Part of each candidate; for a narrower table, the position of its cell there.
    of: Int64Array
    # low, high: shape (n_parts,): Smallest and largest sum allowed; equal where there is one right answer.
    low: Int64Array
    high: Int64Array


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidates:
    """Candidate cells, those that share all columns but one (`last`) next to each other."""

    codes: Codes  # shape (n_candidates, n_columns): In the order of the table's columns
    # shape (n_candidates,): Entry j: position of each candidate's cell in the narrower table without column
    # j.
    at: tuple[Int64Array, ...]
    last: int  # The column in which neighbours differ


@dataclass(frozen=True, kw_only=True, slots=True)
class Narrower:
    """A published table as far as wider ones need it."""

    codes: Codes  # shape (n_cells, n_columns): In lexicographic order
    n: Int64Array  # shape (n_cells,)
    # shape (n_cells,): The cell is a released bucket; else its count was filled in.
    measured: BoolArray


def exact_bounds(of: Int64Array, n: Int64Array) -> MarginBounds:
    """A margin whose sums are known."""
    return MarginBounds(of=of, low=n, high=n)


def join_candidates(without: Sequence[Narrower], sizes: tuple[int, ...], last: int) -> Candidates:
    """Join the narrower tables of a column set.

    without: Entry j is the published table without column j.
    """
    k = len(sizes)
    others = [j for j in range(k) if j != last]
    previous = min(others, key=lambda j: (sizes[j], -j))  # the longer supports tell most apart
    prefix = [j for j in others if j != previous]
    order = (*prefix, previous, last)
    first, first_at = _in_order(without[last], [j for j in order if j != last], last)
    second, second_at = _in_order(without[previous], [j for j in order if j != previous], previous)
    shared = tuple(sizes[j] for j in prefix)
    wanted, available, _ = comparable_keys(first[:, : k - 2], second[:, : k - 2], shared)
    begin = np.searchsorted(available, wanted, side="left")
    count = np.searchsorted(available, wanted, side="right") - begin
    left = np.repeat(np.arange(len(wanted)), count)
    right = np.arange(len(left)) + np.repeat(begin - np.cumsum(count) + count, count)
    codes = np.empty((len(left), k), dtype=np.int32)
    codes[:, order[:-1]] = first[left]
    codes[:, last] = second[right, k - 2]
    at = {last: first_at[left], previous: second_at[right]}
    for j in prefix:
        position = position_in(without[j], np.delete(codes, j, axis=1), sizes[:j] + sizes[j + 1 :])
        present = position >= 0
        codes = codes[present]
        at = {i: place[present] for i, place in at.items()} | {j: position[present]}
    return Candidates(codes=codes, at=tuple(at[j] for j in range(k)), last=last)


def _in_order(table: Narrower, columns: Sequence[int], dropped: int) -> tuple[Codes, Int64Array]:
    """Codes of a narrower table with its columns, and then its cells, in another order; where each was."""
    own = [j - (j > dropped) for j in columns]
    codes = table.codes[:, own]
    if own == sorted(own):
        return codes, np.arange(len(codes))
    at = lexicographic(codes)
    return codes[at], at


def lexicographic(codes: Codes) -> Int64Array:
    """The order that sorts cells by their first code, then by their second, and so on."""
    sizes = tuple(int(size) + 1 for size in codes.max(axis=0, initial=0))
    return np.argsort(cell_keys(codes.T, sizes, n=len(codes))[0], kind="stable")


def position_in(table: Narrower, codes: Codes, sizes: tuple[int, ...]) -> Int64Array:
    """Position of each combination in a table, -1 where it is not there."""
    known, wanted, space = comparable_keys(table.codes, codes, sizes)
    if space <= DENSE_LIMIT:
        position = np.full(space, -1, dtype=np.int64)
        position[known] = np.arange(len(known))
        positions: Int64Array = position[wanted]
        return positions
    place = np.minimum(np.searchsorted(known, wanted), max(len(known) - 1, 0))
    if not len(known):
        return np.full(len(wanted), -1, dtype=np.int64)
    return np.where(known[place] == wanted, place, -1)


def sums_in(table: Narrower, codes: Codes, n: Int64Array) -> tuple[Int64Array, int]:
    """Add up rows by the cells of a table.

    codes: Columns as in the table; rows need not be distinct.

    Returns: sums: Rows in each cell of the table; outside: Most rows in any one cell that the table does not
    have.
    """
    both = np.concatenate([table.codes, codes])
    sizes = tuple(int(size) + 1 for size in both.max(axis=0, initial=0))
    at = position_in(table, codes, sizes)
    inside = at >= 0
    sums = np.bincount(at[inside], weights=n[inside], minlength=len(table.n)).astype(np.int64)
    if inside.all():
        return sums, 0
    group = np.unique(codes[~inside], axis=0, return_inverse=True)[1].ravel()
    return sums, int(np.bincount(group, weights=n[~inside]).max())
