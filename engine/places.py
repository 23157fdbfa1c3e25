"""Where candidate cells lie among the released buckets, and what that says of them.

Takes a measurement and the letters of candidate cells; gives each candidate's deepest released bucket, the most that
can be hidden in a bucket beyond its released children, and the groups by which a reader can judge the noise. Sees
measurements and published tables only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.candidates import DENSE_LIMIT, KEY_LIMIT, Letters
from engine.ranges import code_bounds
from engine.schema import (
    KIND_NEGATIVE,
    KIND_NONNEGATIVE,
    KIND_NULL,
    KIND_OTHER,
    NULL_CODE,
    OTHER_CODE,
    Alphabet,
    BoolArray,
    CellGroups,
    FloatArray,
    Int64Array,
    Measurement,
    UInt8Array,
)
from engine.tree import NOISE_LAYERS

UNRELEASED_CAP = 4.5
"""Largest fitted count of a cell that was not released as such."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Places:
    """Where candidates lie in the tree.

    Attributes
    ----------
    node : ndarray of int64, shape (n_candidates,)
        Deepest released node that holds the candidate, plus 1; 0 where not even a top node does.
    released : ndarray of bool, shape (n_candidates,)
        That node is the candidate itself.
    """

    node: Int64Array
    released: BoolArray


def place_candidates(
    tree: Measurement, alphabets: tuple[Alphabet, ...], letters: Letters
) -> Places:
    """Find each candidate's deepest released node, going down one depth at a time.

    Parameters
    ----------
    tree : Measurement
    alphabets : tuple of Alphabet
    letters : ndarray of int32, shape (n_candidates, n_columns)

    Returns
    -------
    Places
    """
    place = np.zeros(len(letters), dtype=np.int64)
    tops = _matched_tops(tree, alphabets, letters)
    alive = np.flatnonzero(tops >= 0)
    node = tops[alive]
    place[alive] = node + 1
    path = _Path(tree, alphabets)
    magnitudes = [magnitude[letters[alive, j]] for j, magnitude in enumerate(path.magnitudes)]
    for depth in range(1, len(tree.scale)):
        if not len(alive):
            break
        hit = path.children(node, magnitudes, depth)
        held = np.flatnonzero(hit >= 0)
        alive, node = alive[held], hit[held]
        magnitudes = [magnitude[held] for magnitude in magnitudes]
        place[alive] = node + 1
    single = np.concatenate([[False], (tree.level == 0).all(axis=1)])
    return Places(node=place, released=single[place])


class _Path:
    """The way down a tree: which half of each column a letter lies in at each depth.

    Parameters
    ----------
    tree : Measurement
    alphabets : tuple of Alphabet
    """

    def __init__(self, tree: Measurement, alphabets: tuple[Alphabet, ...]) -> None:
        self._tree = tree
        self._bounds = np.searchsorted(tree.depth, np.arange(len(tree.scale) + 1))
        at_top = tree.level[: self._bounds[1]]
        self._tops = at_top.max(axis=0, initial=0).astype(np.int64)
        self.magnitudes = [
            np.where(a.kind == KIND_NEGATIVE, ~a.code, a.code) * _is_valued(a.kind)
            for a in alphabets
        ]

    def children(self, node: Int64Array, magnitudes: list[Int64Array], depth: int) -> Int64Array:
        """The child of each node that holds the letters; -1 where none was released."""
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
            found: Int64Array = child[wanted - base]
            return found
        order = np.argsort(known)
        at = np.minimum(np.searchsorted(known[order], wanted), last - first - 1)
        near: Int64Array = np.where(known[order[at]] == wanted, first + order[at], -1)
        return near


def _is_valued(kind: UInt8Array) -> Int64Array:
    """1 for kinds that lie on the grid, 0 for null and other."""
    valued: BoolArray = (kind == KIND_NEGATIVE) | (kind == KIND_NONNEGATIVE)
    return valued.astype(np.int64)


def _matched_tops(
    tree: Measurement, alphabets: tuple[Alphabet, ...], letters: Letters
) -> Int64Array:
    """Which top node holds each combination of letters; -1 where none does."""
    n_tops = int(np.searchsorted(tree.depth, 1))
    if not n_tops:
        return np.full(len(letters), -1, dtype=np.int64)
    return _match(tree, slice(0, n_tops), alphabets, letters)


def _match(
    tree: Measurement, nodes: slice, alphabets: tuple[Alphabet, ...], letters: Letters
) -> Int64Array:
    """Which of the top nodes holds each combination of letters; -1 where none does."""
    node_key = np.zeros(nodes.stop - nodes.start, dtype=np.int64)
    own_key = np.zeros(len(letters), dtype=np.int64)
    outside = np.zeros(len(letters), dtype=bool)
    size = 1
    for j, alphabet in enumerate(alphabets):
        level = int(tree.level[nodes, j].max())  # 0 for null and other, one level for all the rest
        of_node = _signed(tree.kind[nodes, j], tree.index[nodes, j])
        magnitude = np.where(alphabet.kind == KIND_NEGATIVE, ~alphabet.code, alphabet.code)
        of_letter = _signed(alphabet.kind, magnitude >> level)
        distinct = np.unique(of_node)
        ordinal = np.minimum(np.searchsorted(distinct, of_letter), len(distinct) - 1)
        ordinal[distinct[ordinal] != of_letter] = -1
        mine = ordinal[letters[:, j]]
        outside |= mine < 0
        if size * len(distinct) > KEY_LIMIT:  # keys would overflow: number those that occur
            held = np.unique(np.concatenate([node_key, own_key]), return_inverse=True)[1]
            node_key, own_key, size = held[: len(node_key)], held[len(node_key) :], len(held)
        size *= len(distinct)
        node_key = node_key * len(distinct) + np.searchsorted(distinct, of_node)
        own_key = own_key * len(distinct) + np.maximum(mine, 0)
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
    tree: Measurement, places: Places, n: Int64Array, layer_sd: int, least_sd: float = 0.0
) -> CellGroups:
    """What is known of the noise, a group for each released cell and each filled box that holds rows.

    `least_sd` is the error of what the table is locked to: no group is said to be surer.
    """
    group = 2 * places.node + places.released
    held, inverse = np.unique(group, return_inverse=True)
    rows = np.bincount(inverse, weights=n, minlength=len(held)).astype(np.int64)
    node, measured = held // 2 - 1, held % 2 == 1
    low, high = code_bounds(tree.kind, tree.level, tree.index)
    inside = node >= 0
    shape = (len(held), len(tree.columns))
    kind = np.zeros(shape, dtype=np.uint8)
    boxes = np.zeros((2, *shape), dtype=np.int64)
    kind[inside] = tree.kind[node[inside]]
    boxes[0][inside], boxes[1][inside] = low[node[inside]], high[node[inside]]
    depth = np.where(inside, tree.depth[np.maximum(node, 0)] if tree.n_nodes else 0, 0)
    sd = np.maximum(tree.scale[depth] * float(layer_sd) * NOISE_LAYERS**0.5, least_sd)
    # No box: rows outside every released top bucket; kind 0 with low > high marks it.
    kind[~inside] = KIND_NEGATIVE
    boxes[0][~inside] = 1
    return CellGroups(
        kind=kind, low=boxes[0], high=boxes[1], n=rows, noise_sd=sd, measured=measured
    )
