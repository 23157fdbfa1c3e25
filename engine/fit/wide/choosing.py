"""Which tables of three columns would help a wide table most, read off the wide table itself.

Rows of a wide table in, column sets out. Only pairs are looked at, which the wide table has nearly as locked: nothing
is known here that a reader of the release does not know. Three columns that have much to do with each other in pairs
are likely to have something that only all three show. Each pair counts half as much for every chosen table that has it,
so that the choice goes round.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations

import numpy as np

from engine.fit.wide.exchange import information_of
from engine.fit.wide.rows import GROUPS, packed
from engine.schema import BoolArray, ColumnSet, FloatArray, Int64Array

_MOST_HALVINGS = 40
_NEVER = -1


def chosen_triples(
    columns: ColumnSet,
    codes: Sequence[Int64Array],
    n: Int64Array,
    *,
    most: int,
    known: Collection[ColumnSet] = (),
    target: str | None = None,
) -> tuple[ColumnSet, ...]:
    """Choose tables of three columns, the most helpful first.

    most: So many tables at most.
    known: Tables that are locked already; what lies inside one is not chosen.

    Columns of which one implies the other are not chosen together: the pair without the implied one says the same.
    Everything is compared in whole numbers; among equals the first by name is taken.
    """
    triples = _triples(columns)
    left = _is_free(columns, triples, known) & ~_has_implied(triples, _implied(codes))
    information, least = _information(codes, n).astype(np.int64), np.full(len(triples), -1.0)
    return _greedy(columns, triples, information, left, least, most=most, target=target)


def triples_by_pairs(
    columns: ColumnSet,
    information: FloatArray,
    n_values: Sequence[int],
    *,
    most: int | None,
    target: str | None,
) -> tuple[ColumnSet, ...]:
    """Choose tables of three columns by what measured pairs say, the most helpful first.

    information: shape (n_columns, n_columns), mutual information of each pair in rows, less what chance makes of noise.
    n_values: Of each column: a table is worth while only if it may tell more than chance makes of its cells.
    """
    triples = _triples(columns)
    least = np.prod((np.array(n_values) - 1)[triples], axis=1) / 2
    left = np.ones(len(triples), dtype=bool)
    known = np.rint(np.maximum(information, 0)).astype(np.int64)
    return _greedy(columns, triples, known, left, least, most=most, target=target)


def _triples(columns: ColumnSet) -> Int64Array:
    return np.array([*combinations(range(len(columns)), 3)], dtype=np.int64).reshape(-1, 3)


def _greedy(
    columns: ColumnSet,
    triples: Int64Array,
    information: Int64Array,
    left: BoolArray,
    least: FloatArray,
    *,
    most: int | None,
    target: str | None,
) -> tuple[ColumnSet, ...]:
    """Take triples by the information of their pairs, which counts half as much for each that was taken.

    least: What the score of each must exceed.
    """
    first = np.zeros(len(triples), dtype=bool)
    if target is not None:
        first = (triples == columns.index(target)).any(axis=1)
    used = np.zeros((len(columns), len(columns)), dtype=np.int64)
    sides = [(triples[:, i], triples[:, j]) for i, j in ((0, 1), (0, 2), (1, 2))]
    out: list[ColumnSet] = []
    while (most is None or len(out) < most) and left.any():
        halved = information >> np.minimum(used, _MOST_HALVINGS)
        score = np.sum([halved[side] for side in sides], axis=0)
        left = left & (score > least)
        if not left.any():
            break
        wanted = left & first if (left & first).any() else left
        best = int(np.where(wanted, score, _NEVER).argmax())
        out.append(tuple(columns[place] for place in triples[best].tolist()))
        left[best] = False
        for one, other in combinations(triples[best].tolist(), 2):
            used[one, other] += 1
    return tuple(out)


def _information(codes: Sequence[Int64Array], n: Int64Array) -> np.ndarray:
    """Mutual information of all pairs in whole steps, values of many-valued columns in groups."""
    levels = [_grouped(code, n) for code in codes]
    sizes = [int(level.max(initial=-1)) + 1 for level in levels]
    pairs = {
        (i, j): _counts(levels[i] * sizes[j] + levels[j], n, sizes[i] * sizes[j]).reshape(
            sizes[i], sizes[j]
        )
        for i, j in combinations(range(len(levels)), 2)
    }
    return information_of(pairs, len(levels))


def _grouped(code: Int64Array, n: Int64Array) -> Int64Array:
    """Values as they are where they are few, else neighbours together: many cells of few rows look like dependence."""
    single = _counts(code, n, int(code.max(initial=-1)) + 1)
    if len(single) <= GROUPS:
        return code
    return packed(single, np.zeros(len(single), np.int64), int(n.sum()) // GROUPS)[code]


def _counts(code: Int64Array, n: Int64Array, size: int) -> Int64Array:
    """Rows of each code; whole, far below 2 ** 53."""
    return np.bincount(code, weights=n, minlength=size).astype(np.int64)


def _implied(codes: Sequence[Int64Array]) -> BoolArray:
    """Whether one of two columns implies the other, in all rows; symmetric."""
    sizes = [int(code.max(initial=-1)) + 1 for code in codes]
    out = np.zeros((len(codes), len(codes)), dtype=bool)
    for i, j in combinations(range(len(codes)), 2):
        both = len(np.unique(codes[i] * sizes[j] + codes[j]))
        out[i, j] = out[j, i] = both == max(sizes[i], sizes[j])
    return out


def _has_implied(triples: Int64Array, implied: BoolArray) -> BoolArray:
    """Triples in which a column implies another one."""
    one, other, third = triples.T
    out: BoolArray = implied[one, other] | implied[one, third] | implied[other, third]
    return out


def _is_free(columns: ColumnSet, triples: Int64Array, known: Collection[ColumnSet]) -> BoolArray:
    """Triples that lie inside no known table."""
    out = np.ones(len(triples), dtype=bool)
    for table in known:
        inside = np.array([name in table for name in columns], dtype=bool)
        out &= ~inside[triples].all(axis=1)
    return out
