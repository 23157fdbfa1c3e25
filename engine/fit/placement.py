"""Where candidate cells lie among the released buckets, and what that says of them.

Takes a measurement and the codes of candidate cells; gives each candidate's deepest released bucket, the most that
can be hidden in a bucket beyond its released children, and the groups by which a reader can judge the noise. Sees
measurements and published tables only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.cell_keys import comparable_keys
from engine.fit.candidates import Codes
from engine.kernels import kernel, part
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
    """Find each candidate's deepest released node, going down from the top one depth at a time."""
    bounds = np.searchsorted(tree.depth, np.arange(len(tree.scale) + 1))
    levels = tree.level[: bounds[1]].max(axis=0, initial=0).astype(np.int64)
    magnitudes = [
        np.where(one.kind == KIND_NEGATIVE, ~one.grid, one.grid) * _is_valued(one.kind)
        for one in supports
    ]
    node = deepest(
        _matched_tops(tree, supports, codes),
        tree.parent,
        tree.index,
        _is_valued(tree.kind),
        bounds,
        levels,
        np.ascontiguousarray(codes),
        np.concatenate(magnitudes),
        np.cumsum([0, *(len(magnitude) for magnitude in magnitudes)]),
    )
    single = np.concatenate([[False], (tree.level == 0).all(axis=1)])
    return Placement(node=node, released=single[node])


@part
def _children(
    parent: Int64Array,
    index: Int64Array,
    is_valued: Int64Array,
    bounds: Int64Array,
    levels: Int64Array,
) -> Codes:
    """The child of each node by the half of every column that it takes, -1 where none was released."""
    n_columns = index.shape[1]
    child = np.full(len(parent) << n_columns, -1, dtype=np.int32)
    for depth in range(1, len(bounds) - 1):
        for node in range(bounds[depth], bounds[depth + 1]):
            half = 0
            for j in range(n_columns):
                if levels[j] >= depth and is_valued[node, j]:
                    half |= (index[node, j] & 1) << j
            child[(parent[node] << n_columns) | half] = node
    return child


@kernel
def deepest(
    top: Int64Array,
    parent: Int64Array,
    index: Int64Array,
    is_valued: Int64Array,
    bounds: Int64Array,
    levels: Int64Array,
    codes: Codes,
    magnitudes: Int64Array,
    first: Int64Array,
) -> Int64Array:
    """Deepest released node that holds each candidate, from the top node that does; plus 1, 0 where none does.

    bounds: Where the nodes of each depth begin, and where the last ends. levels: Of each column at the top.
    magnitudes, first: Of all columns' codes one behind the other, and where each column begins.
    """
    n_columns = index.shape[1]
    child = _children(parent, index, is_valued, bounds, levels)
    out = np.empty(len(top), dtype=np.int64)
    for i in range(len(top)):
        below, depth = top[i], 1
        node = below
        while below >= 0:
            node = below
            half = 0
            for j in range(n_columns):
                if levels[j] >= depth:
                    own = magnitudes[first[j] + codes[i, j]]
                    half |= ((own >> (levels[j] - depth)) & 1) << j
            below = np.int64(child[(node << n_columns) | half])
            depth += 1
        out[i] = node + 1
    return out


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
