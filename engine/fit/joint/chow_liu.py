"""Rows from two-way tables along the tree of the strongest dependencies.

Tables of pairs of columns in, rows of level indexes out. Of all trees this one's distribution is nearest to one with
the same pairs. Every child's values are dealt out within each value of its parent as its table says, so that counts
are met to a row, but for what rules of impossible combinations take away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.schema import BoolArray, FloatArray

Rows = NDArray[np.int32]
Pair = tuple[int, int]
"""Places of two columns, the lower first."""
Rule = tuple[tuple[int, ...], BoolArray]
"""Places of columns, ascending, and the combinations of their levels that are impossible."""
ROWS_AT_ONCE = 20_000


def mutual_information(n: FloatArray) -> float:
    """How much two columns tell of each other, in nats; 0 for an empty table.

    n: Counts, at least 0.
    """
    total = float(n.sum())
    if total <= 0:
        return 0.0
    p = n / total
    expected = np.outer(p.sum(axis=1), p.sum(axis=0))
    some = p > 0
    return float(max((p[some] * np.log(p[some] / expected[some])).sum(), 0.0))


def spanning_tree(information: FloatArray) -> tuple[tuple[int, int], ...]:
    """Return the spanning tree of the largest sum.

    information: Symmetric, at least 0.

    Returns: (Column, its parent), parents first; the root, the column of the largest sum, has the parent -1.

    Source: Chow and Liu (1968), DOI 10.1109/TIT.1968.1054142; Prim (1957).
    """
    root = int(information.sum(axis=0).argmax())
    edges = [(root, -1)]
    inside = np.zeros(len(information), dtype=bool)
    inside[root] = True
    best, parent = information[root].copy(), np.full(len(information), root)
    for _ in range(len(information) - 1):
        child = int(np.where(inside, -1.0, best).argmax())
        edges.append((child, int(parent[child])))
        inside[child] = True
        nearer = information[child] > best
        best[nearer], parent[nearer] = information[child][nearer], child
    return tuple(edges)


def tree_rows(
    singles: Sequence[FloatArray],
    pairs: Mapping[Pair, FloatArray],
    rules: Sequence[Rule],
    n_rows: int,
    rng: np.random.Generator,
) -> Rows:
    """Deal out rows along the tree.

    pairs: Two-way counts, with as many levels; a pair that is not there is taken as independent.
    """
    information = np.zeros((len(singles), len(singles)))
    for (i, j), n in pairs.items():
        information[i, j] = information[j, i] = mutual_information(n)
    rows = np.zeros((n_rows, len(singles)), dtype=np.int32)
    known: list[int] = []
    for child, parent in spanning_tree(information):
        table, of = singles[child][np.newaxis], np.zeros(n_rows, dtype=np.int32)
        if parent >= 0:
            pair = pairs.get((min(child, parent), max(child, parent)))
            if pair is not None:
                table, of = pair if parent < child else pair.T, rows[:, parent]
        known.append(child)
        ready = [(axes, bars) for axes, bars in rules if child in axes and {*axes} <= {*known}]
        rows[:, child] = _dealt(table, singles[child], of, rows, child, ready, rng)
    return rows


def _dealt(
    table: FloatArray,
    single: FloatArray,
    of: Rows,
    rows: Rows,
    child: int,
    rules: Sequence[Rule],
    rng: np.random.Generator,
) -> Rows:
    """Levels of a column: evenly spread numbers within each parent's rows, read off the parent's distribution."""
    spread = _even(of, len(table), rng)
    empty = table.sum(axis=1) <= 0
    table = np.where(empty[:, np.newaxis], single + 1e-9, table)
    out = np.empty(len(rows), dtype=np.int32)
    for start in range(0, len(rows), ROWS_AT_ONCE):
        here = slice(start, start + ROWS_AT_ONCE)
        chance = table[of[here]]
        allowed = np.ones(chance.shape, dtype=bool)
        for axes, bars in rules:
            others = tuple(rows[here, axis] for axis in axes if axis != child)
            allowed &= ~np.moveaxis(bars, axes.index(child), -1)[others]
        masked = np.where(allowed, chance, 0.0)
        none = masked.sum(axis=1) <= 0
        masked[none] = np.where(allowed[none], single + 1e-9, 0.0)
        impossible = ~allowed.any(axis=1)
        masked[impossible] = chance[impossible]
        upto = np.cumsum(masked, axis=1)
        last = upto.shape[1] - 1 - (masked[:, ::-1] > 0).argmax(axis=1)
        level = (upto <= spread[here, np.newaxis] * upto[:, -1:]).sum(axis=1)
        out[here] = np.minimum(level, last)
    return out


def _even(of: Rows, n_groups: int, rng: np.random.Generator) -> FloatArray:
    """Evenly spread numbers in [0, 1) within each group, in random order."""
    order = np.lexsort((rng.random(len(of)), of))
    size = np.bincount(of, minlength=n_groups)
    group = of[order]
    place = np.arange(len(of)) - (np.cumsum(size) - size)[group]
    out = np.empty(len(of))
    out[order] = (place + rng.random(n_groups)[group]) / size[group]
    return out
