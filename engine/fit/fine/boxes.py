"""Boxes: a table's rows, in whole numbers, over the finest ranges at which it releases anything.

Takes a measurement and the supports of its columns; gives disjoint boxes that cover all combinations: released
buckets without released children, and the children that were not released of those that have some. What a bucket
holds beyond its released children goes to the other ones, in proportion to the columns' own counts there (maximum
entropy given these), capped where a bucket that large would have been released. Sees measurements and published
tables only.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from engine.fit.borders import Marks, allowed_pairs, classes_of
from engine.fit.support import is_leaf
from engine.fit.tree import UNRELEASED_CAP, FittedTree, fit_tree
from engine.fit.whole import by_running_sums, starts
from engine.params import NOISE_LAYERS
from engine.ranges import ROOT_LEVEL, chosen_places, code_bounds
from engine.schema import (
    KIND_NEGATIVE,
    KIND_NONNEGATIVE,
    BoolArray,
    FloatArray,
    Int64Array,
    Measurement,
    Support,
    UInt8Array,
)

ALIKE, EVERYTHING = ROOT_LEVEL + 1, ROOT_LEVEL + 2
"""Levels above all ranges: all values of whatever kind that may stand in a row, and all values."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranges:
    """A range of each column, an entry a box."""

    # kind, level: shape (n_boxes, n_columns): As in `Measurement`.
    kind: UInt8Array
    level: UInt8Array
    index: Int64Array  # shape (n_boxes, n_columns)

    def __len__(self) -> int:
        return len(self.index)

    def take(self, where: Int64Array | BoolArray) -> Ranges:
        """Some of the boxes."""
        at = chosen_places(where)
        return Ranges(
            kind=self.kind.take(at, axis=0),
            level=self.level.take(at, axis=0),
            index=self.index.take(at, axis=0),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Boxes:
    """Disjoint boxes, and the rows in each."""

    ranges: Ranges
    n: Int64Array  # shape (n_boxes,): Rows, all > 0
    # shape (n_boxes,): So many of them the measurement is sure of: all but as many as its noise can be.
    sure: Int64Array


def whole_boxes(
    tree: Measurement,
    supports: tuple[Support, ...],
    *,
    noisy_total: int,
    floor: int,
    layer_sd: int,
    key: bytes,
    marks: tuple[Marks, ...] = (),
) -> Boxes:
    """Share out all rows among boxes."""
    total = int(supports[0].n.sum())
    leaf = is_leaf(tree)
    of_nodes = Ranges(kind=tree.kind, level=tree.level, index=tree.index)
    parent, missing = _without_released(tree, supports)
    weight = _Expected(supports, marks).of(missing)
    parent, missing, weight = parent[weight > 0], missing.take(weight > 0), weight[weight > 0]
    has_room = np.zeros(tree.n_nodes + 1, dtype=bool)
    has_room[parent] = True  # of nodes without released children all is their own anyway
    fitted = fit_tree(
        tree,
        noisy_total=noisy_total,
        total=float(total),
        has_room=has_room,
        floor=floor,
        layer_sd=layer_sd,
        is_capped=True,
    )
    depth = np.concatenate([[0], tree.depth.astype(np.int64) + 1])
    scale = tree.scale[np.minimum(depth[parent], len(tree.scale) - 1)].astype(np.float64)
    mass = _capped(parent, weight, fitted, UNRELEASED_CAP * scale)
    whole, open_rows = _in_whole(tree.parent + 1, depth, fitted.mass, parent, mass, total, key)
    noise = (NOISE_LAYERS * (layer_sd * tree.scale.astype(np.int64)) ** 2)[tree.depth]
    rows = np.concatenate([whole[1:][leaf], open_rows])
    sure = np.concatenate([np.maximum(whole[1:] - noise, 0)[leaf], np.zeros_like(open_rows)])
    kept = rows > 0
    both = _joined([of_nodes.take(leaf), missing])
    if not kept.any():  # nothing is released, or nothing can be: somewhere
        return Boxes(ranges=_everywhere(supports), n=np.array([total]), sure=np.array([0]))
    return Boxes(ranges=both.take(kept), n=rows[kept], sure=sure[kept])


def _without_released(
    tree: Measurement, supports: tuple[Support, ...]
) -> tuple[Int64Array, Ranges]:
    """Children that were not released, of the virtual root (0) and of every node with released ones (from 1)."""
    k = len(supports)
    inner = np.flatnonzero(~is_leaf(tree))
    child = np.flatnonzero(tree.parent >= 0)
    above = tree.parent[child]
    bit = np.where(tree.level[above] > 0, tree.index[child] & 1, 0) << np.arange(k)
    present = np.zeros((tree.n_nodes, 1 << k), dtype=bool)
    present[above, bit.sum(axis=1)] = True
    parts, owners = [_tops(tree, supports)], [np.zeros(0, dtype=np.int64)]
    owners[0] = np.zeros(len(parts[0]), dtype=np.int64)
    for bits in product((0, 1), repeat=k):
        half = np.array(bits)
        which = int((half << np.arange(k)).sum())
        node = inner[~present[inner, which] & ((half == 0) | (tree.level[inner] > 0)).all(axis=1)]
        halved = tree.level[node] > 0
        owners.append(node + 1)
        parts.append(
            Ranges(
                kind=tree.kind[node],
                level=tree.level[node] - halved.astype(np.uint8),
                index=np.where(halved, 2 * tree.index[node] + half, tree.index[node]),
            )
        )
    owner = np.concatenate(owners)
    order = np.argsort(owner, kind="stable")
    return owner[order], _joined(parts).take(order)


def _tops(tree: Measurement, supports: tuple[Support, ...]) -> Ranges:
    """Combinations of the columns' top ranges, as their supports have them, that are no released node."""
    tops = np.flatnonzero(tree.depth == 0)
    of_column = []
    for j, support in enumerate(supports):
        valued = _is_valued(tree.kind[tops, j])
        level = int(tree.level[tops[valued], j].max()) if valued.any() else ROOT_LEVEL
        has_range = _is_valued(support.kind)
        places = np.where(has_range, magnitude_of(support) >> level, 0)
        at_level = np.where(has_range, level, 0)
        # Values are sorted, so those of one range stand next to each other.
        parts = np.column_stack([support.kind, at_level, places])
        fresh = np.append(True, (parts[1:] != parts[:-1]).any(axis=1))[: len(parts)]
        of_column.append(parts[fresh])
    at = np.stack(np.meshgrid(*(np.arange(len(c)) for c in of_column), indexing="ij"), axis=-1)
    at = at.reshape(-1, len(supports))
    kind, levels, index = (
        np.column_stack([column[at[:, j], i] for j, column in enumerate(of_column)])
        for i in range(3)
    )
    known = {
        (*kinds, *indexes)
        for kinds, indexes in zip(tree.kind[tops].tolist(), tree.index[tops].tolist(), strict=True)
    }
    is_open = np.array(
        [
            (*kinds, *indexes) not in known
            for kinds, indexes in zip(kind.tolist(), index.tolist(), strict=True)
        ],
        dtype=bool,
    )
    return Ranges(
        kind=kind[is_open].astype(np.uint8),
        level=levels[is_open].astype(np.uint8),
        index=index[is_open],
    )


def _everywhere(supports: tuple[Support, ...]) -> Ranges:
    """One box of all values of all columns."""
    shape = (1, len(supports))
    return Ranges(
        kind=np.zeros(shape, dtype=np.uint8),
        level=np.full(shape, EVERYTHING, dtype=np.uint8),
        index=np.zeros(shape, dtype=np.int64),
    )


class _Expected:
    """Rows that boxes would hold if columns were independent, combinations that universes rule out left aside.

    In units of one over all rows; counts are added up in whole numbers.
    """

    def __init__(self, supports: tuple[Support, ...], marks: tuple[Marks, ...]) -> None:
        self._supports = supports
        self._running: list[Int64Array] = []
        firsts = []
        for j, support in enumerate(supports):
            of, first = classes_of(len(support), marks[j] if marks else {})
            counted = np.zeros((len(first), len(support) + 1), dtype=np.int64)
            for number in range(len(first)):
                counted[number, 1:] = np.cumsum(np.where(of == number, support.n, 0))
            self._running.append(counted)
            firsts.append(first)
        self._allowed = allowed_pairs(firsts, marks)

    def of(self, ranges: Ranges) -> FloatArray:
        """The weight of each box."""
        held = []
        for j, support in enumerate(self._supports):
            first, end = places_of(
                support, ranges.kind[:, j], ranges.level[:, j], ranges.index[:, j]
            )
            running = self._running[j]
            held.append((running[:, end] - running[:, first]).astype(np.float64))
        weight = np.zeros(len(ranges))
        for one, other in zip(*np.nonzero(self._allowed), strict=True):
            weight += held[0][one] * held[1][other]
        return weight


def places_of(
    support: Support, kind: UInt8Array, level: UInt8Array, index: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """First value of a column in each range, and the one behind the last."""
    low, high = code_bounds(kind, level, index)
    first, end = np.zeros(len(kind), dtype=np.int64), np.zeros(len(kind), dtype=np.int64)
    for one in np.unique(support.kind):
        begin, stop = np.searchsorted(support.kind, [one, one + 1])
        here = np.flatnonzero(kind == one)
        grid = support.grid[begin:stop]
        first[here] = begin + np.searchsorted(grid, low[here])
        end[here] = begin + np.searchsorted(grid, high[here], side="right")
    return first, end


def magnitude_of(support: Support) -> Int64Array:
    """Magnitude of each value: how far it is from 0 on its side."""
    return np.where(support.kind == KIND_NEGATIVE, ~support.grid, support.grid)


def _is_valued(kind: UInt8Array) -> BoolArray:
    """Kinds that lie on the grid."""
    valued: BoolArray = (kind == KIND_NEGATIVE) | (kind == KIND_NONNEGATIVE)
    return valued


def _joined(parts: list[Ranges]) -> Ranges:
    """Boxes one behind the other."""
    return Ranges(
        kind=np.concatenate([part.kind for part in parts]),
        level=np.concatenate([part.level for part in parts]),
        index=np.concatenate([part.index for part in parts]),
    )


def _capped(
    owner: Int64Array, weight: FloatArray, fitted: FittedTree, cap: FloatArray
) -> FloatArray:
    """Share each node's remainder among its unreleased children by weight; what the cap cuts off goes to the others."""
    left, rest = np.zeros(len(weight)), fitted.remainder
    free = weight
    for _ in range(3):
        sums = np.bincount(owner, weights=free, minlength=len(rest))
        rate = np.divide(rest, sums, out=np.zeros_like(rest), where=sums > 0)
        own = left + free * rate[owner]
        over = own > cap
        if not over.any():
            return own
        left = np.where(over, cap, 0.0)
        free = np.where(over, 0.0, weight)
        rest = np.maximum(
            fitted.remainder - np.bincount(owner, weights=left, minlength=len(rest)), 0.0
        )
    return own


def _in_whole(
    parent: Int64Array,
    depth: Int64Array,
    mass: FloatArray,
    owner: Int64Array,
    open_mass: FloatArray,
    total: int,
    key: bytes,
) -> tuple[Int64Array, Int64Array]:
    """Whole rows of each node (the virtual root first) and of each unreleased child; both add up to their parents."""
    whole, open_rows = np.zeros(len(mass), dtype=np.int64), np.zeros(len(owner), dtype=np.int64)
    whole[0] = total
    of_open = depth[owner]
    for level in range(int(depth.max(initial=0)) + 1):
        below = np.flatnonzero(depth == level + 1)
        opened = np.flatnonzero(of_open == level)
        above = np.concatenate([parent[below - 1], owner[opened]])
        if not len(above):
            continue
        order = np.argsort(above, kind="stable")
        above = above[order]
        heads = np.flatnonzero(np.diff(above, prepend=-1))
        name = above[heads]
        x = np.concatenate([mass[below], open_mass[opened]])[order]
        rows = np.empty(len(above), dtype=np.int64)
        have = np.add.reduceat(x, heads)
        rows[order] = by_running_sums(x, have, whole[name], heads, starts(key, name))
        whole[below], open_rows[opened] = rows[: len(below)], rows[len(below) :]
    return whole, open_rows
