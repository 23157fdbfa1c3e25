"""Where candidate cells lie among the released buckets, and what that says of them.

Takes a measurement and the codes of candidate cells; gives each candidate's deepest released bucket, the most that
can be hidden in a bucket beyond its released children, and the groups by which a reader can judge the noise. Sees
measurements and published tables only.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from engine.cell_keys import comparable_keys
from engine.fit.candidates import DENSE_LIMIT, Codes
from engine.fit.compiled.loops import PLACING, compiled
from engine.params import NOISE_LAYERS
from engine.ranges import code_bounds
from engine.schema import (
    KIND_NEGATIVE,
    KIND_NONNEGATIVE,
    KIND_NULL,
    KIND_OTHER,
    NULL_CODE,
    OTHER_CODE,
    BoolArray,
    CellGroups,
    FloatArray,
    Int64Array,
    Measurement,
    Support,
    UInt8Array,
)

UNRELEASED_CAP = 4.5
"""Largest fitted count of a cell that was not released as such."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Placement:
    """Where candidates lie in the tree."""

    # shape (n_candidates,): Deepest released node that holds the candidate, plus 1; 0 where not even a top
    # node does.
    node: Int64Array
    released: BoolArray  # shape (n_candidates,): That node is the candidate itself


def place_candidates(tree: Measurement, supports: tuple[Support, ...], codes: Codes) -> Placement:
    """Find each candidate's deepest released node, going down one depth at a time."""
    path, tops = _Path(tree, supports), _matched_tops(tree, supports, codes)
    kernels = compiled(PLACING)
    deepest = path.deepest(tops, codes, kernels) if kernels else _deepest(path, tops, codes)
    single = np.concatenate([[False], (tree.level == 0).all(axis=1)])
    return Placement(node=deepest, released=single[deepest])


def _deepest(path: _Path, tops: Int64Array, codes: Codes) -> Int64Array:
    """Go down from the top nodes, all candidates at once: `Placement.node`."""
    deepest = tops + 1
    alive = np.flatnonzero(tops >= 0)
    node = tops[alive]
    magnitudes = [magnitude[codes[alive, j]] for j, magnitude in enumerate(path.magnitudes)]
    for depth in range(1, path.n_depths):
        if not len(alive):
            break
        hit = path.children(node, magnitudes, depth)
        inside = np.flatnonzero(hit >= 0)
        alive, node = alive[inside], hit[inside]
        magnitudes = [magnitude[inside] for magnitude in magnitudes]
        deepest[alive] = node + 1
    return deepest


class _Path:
    """The way down a tree: which half of each column a code lies in at each depth."""

    def __init__(self, tree: Measurement, supports: tuple[Support, ...]) -> None:
        self._tree = tree
        self._bounds = np.searchsorted(tree.depth, np.arange(len(tree.scale) + 1))
        at_top = tree.level[: self._bounds[1]]
        self._tops = at_top.max(axis=0, initial=0).astype(np.int64)
        self.magnitudes = [
            np.where(a.kind == KIND_NEGATIVE, ~a.grid, a.grid) * _is_valued(a.kind)
            for a in supports
        ]

    @property
    def n_depths(self) -> int:
        """Depths of the tree, released or not."""
        return len(self._tree.scale)

    def deepest(self, tops: Int64Array, codes: Codes, kernels: SimpleNamespace) -> Int64Array:
        """Go down from the top nodes, one candidate after the other, compiled: `Placement.node`."""
        tree = self._tree
        sizes = [len(magnitude) for magnitude in self.magnitudes]
        found: Int64Array = kernels.deepest(
            tops, tree.parent, tree.index, _is_valued(tree.kind).astype(np.uint8), self._bounds, self._tops,
            codes, np.concatenate(self.magnitudes), np.cumsum([0, *sizes[:-1]]),
        )  # fmt: skip
        return found

    def children(self, node: Int64Array, magnitudes: list[Int64Array], depth: int) -> Int64Array:
        """The child of each node that holds the codes; -1 where none was released."""
        tree, halved = self._tree, np.flatnonzero(self._tops >= depth)
        first, last = int(self._bounds[depth]), int(self._bounds[depth + 1])
        if first == last:
            return np.full(len(node), -1, dtype=np.int64)
        known = tree.parent[first:last]
        wanted = node
        for j in halved:
            half = (tree.index[first:last, j] & 1) * _is_valued(tree.kind[first:last, j])
            known = known * 2 + half
            wanted = wanted * 2 + ((magnitudes[j] >> (self._tops[j] - depth)) & 1)
        above = int(self._bounds[depth - 1])
        base, size = above << len(halved), (first - above) << len(halved)
        if size <= DENSE_LIMIT:
            child = np.full(size, -1, dtype=np.int64)
            child[known - base] = np.arange(first, last)
            direct: Int64Array = child[wanted - base]
            return direct
        order = np.argsort(known)
        at = np.minimum(np.searchsorted(known[order], wanted), last - first - 1)
        matches: Int64Array = np.where(known[order[at]] == wanted, first + order[at], -1)
        return matches


def _is_valued(kind: UInt8Array) -> Int64Array:
    """1 for kinds that lie on the grid, 0 for null and other."""
    valued: BoolArray = (kind == KIND_NEGATIVE) | (kind == KIND_NONNEGATIVE)
    return valued.astype(np.int64)


def _matched_tops(tree: Measurement, supports: tuple[Support, ...], codes: Codes) -> Int64Array:
    """Which top node holds each combination of codes; -1 where none does."""
    n_tops = int(np.searchsorted(tree.depth, 1))
    if not n_tops:
        return np.full(len(codes), -1, dtype=np.int64)
    return _match(tree, slice(0, n_tops), supports, codes)


def _match(
    tree: Measurement, nodes: slice, supports: tuple[Support, ...], codes: Codes
) -> Int64Array:
    """Which of the top nodes holds each combination of codes; -1 where none does."""
    of_nodes = np.zeros((nodes.stop - nodes.start, len(supports)), dtype=np.int64)
    of_cells = np.zeros(codes.shape, dtype=np.int64)
    outside = np.zeros(len(codes), dtype=bool)
    sizes = []
    for j, support in enumerate(supports):
        level = int(tree.level[nodes, j].max())  # 0 for null and other, one level for all the rest
        of_node = _signed(tree.kind[nodes, j], tree.index[nodes, j])
        magnitude = np.where(support.kind == KIND_NEGATIVE, ~support.grid, support.grid)
        of_code = _signed(support.kind, magnitude >> level)
        distinct = np.unique(of_node)
        ordinal = np.minimum(np.searchsorted(distinct, of_code), len(distinct) - 1)
        ordinal[distinct[ordinal] != of_code] = -1
        own = ordinal[codes[:, j]]
        outside |= own < 0
        of_nodes[:, j] = np.searchsorted(distinct, of_node)
        of_cells[:, j] = np.maximum(own, 0)
        sizes.append(len(distinct))
    node_key, own_key, _ = comparable_keys(of_nodes, of_cells, sizes)
    order = np.argsort(node_key)
    ranked = node_key[order]
    at = np.minimum(np.searchsorted(ranked, own_key), len(ranked) - 1)
    return np.where((ranked[at] == own_key) & ~outside, order[at], -1)


def _signed(kind: UInt8Array, index: Int64Array) -> Int64Array:
    """One number for kind and index: negative ranges mirrored, null and other at the far end."""
    out = np.where(kind == KIND_NEGATIVE, ~index, index)
    out = np.where(kind == KIND_NULL, NULL_CODE, out)
    return np.where(kind == KIND_OTHER, OTHER_CODE, out)


def most_unreleased(tree: Measurement) -> FloatArray:
    """Largest mass of each node's unreleased children (the virtual root first): their number times the cap.

    A node has as many children as its columns have halves; the root as many as there are combinations of the
    columns' own top ranges.
    """
    splits = (tree.level > 0).sum(axis=1)
    tops = tree.depth == 0
    of_root = 1
    for j in range(len(tree.columns)):
        of_root *= len(np.unique(_signed(tree.kind[tops, j], tree.index[tops, j])))
    children = np.concatenate([[of_root], 1 << splits])
    open_children = children - np.bincount(tree.parent + 1, minlength=len(children))
    scale = np.concatenate(
        [tree.scale[:1], tree.scale[np.minimum(tree.depth + 1, len(tree.scale) - 1)]]
    )
    most: FloatArray = UNRELEASED_CAP * np.maximum(open_children, 0) * scale
    return most


def cell_groups(
    tree: Measurement, placement: Placement, n: Int64Array, layer_sd: int, least_sd: float = 0.0
) -> CellGroups:
    """What is known of the noise, a group for each released cell and each filled box that holds rows.

    `least_sd` is the error of what the table is locked to: no group claims less.
    """
    group = 2 * placement.node + placement.released
    present, inverse = np.unique(group, return_inverse=True)
    rows = np.bincount(inverse, weights=n, minlength=len(present)).astype(np.int64)
    node, measured = present // 2 - 1, present % 2 == 1
    low, high = code_bounds(tree.kind, tree.level, tree.index)
    inside = node >= 0
    shape = (len(present), len(tree.columns))
    kind = np.zeros(shape, dtype=np.uint8)
    boxes = np.zeros((2, *shape), dtype=np.int64)
    kind[inside] = tree.kind[node[inside]]
    boxes[0][inside], boxes[1][inside] = low[node[inside]], high[node[inside]]
    depth = np.full(len(present), -1, dtype=np.int8)
    depth[inside] = tree.depth[node[inside]]
    scale = tree.scale[np.maximum(depth, 0)]
    sd = np.maximum(scale * float(layer_sd) * NOISE_LAYERS**0.5, least_sd)
    # No box: rows outside every released top bucket; kind 0 with low > high marks it.
    kind[~inside] = KIND_NEGATIVE
    boxes[0][~inside] = 1
    return CellGroups(
        kind=kind,
        low=boxes[0],
        high=boxes[1],
        n=rows,
        noise_sd=sd,
        measured=measured,
        depth=depth,
        tops=tuple(tree.level[tree.depth == 0].max(axis=0, initial=0).tolist()),
        scale=tuple(tree.scale.tolist()),
    )
