"""The tree of released buckets behind a table, and how noise reaches any weighted sum of its rows.

Takes a `TableBuckets`; rebuilds the buckets above the stored ones (a bucket is released only if all above it are),
and gives the variance of the error of sums. The fit brings children to their parent's count, each giving way by its
variance, so the error of a child is its own noise less its share of what all children were off, plus its share of the
parent's error: a range of many cells is as sure as the few buckets it is made of (DESIGN section 5).
Sees released numbers only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.schema import KIND_NULL, KIND_OTHER, FloatArray, Int64Array
from queries.buckets import Letters, TableBuckets, sum_by

NOISE_LAYERS = 2
"""Layers of noise on each bucket: one keyed by its label, one by the people in it."""
ROUNDING = 1 / 6
"""Variance that rounding to whole numbers adds: the mean of f (1 - f)."""
_LEAST_LOOSE = 0.5
"""Variance of a remainder that was estimated as next to nothing."""
_UNSEEN = 0.5
"""Variance that each child which was not released adds to a bucket without a remainder: it hides somebody or nobody."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Level:
    """The buckets of one depth, each with its children and its remainder.

    Attributes
    ----------
    n_nodes : int
    child_parent : ndarray of int64, shape (n_children,)
        Node of each node of the next depth.
    rest_node, rest_bucket : ndarray of int64, shape (n_rests,)
        Filled buckets of this depth: the node they are the remainder of.
    part_child, part_rest : ndarray of float64
        Share of a node's error that each child, and remainder, takes.
    own_child, own_rest : ndarray of float64
        Variance of their own noise.
    own_sum : ndarray of float64, shape (n_nodes,)
        Sum of both over the node.
    hidden : ndarray of float64, shape (n_nodes,)
        Variance of what children that were not released may hold where there is no remainder.
    """

    n_nodes: int
    child_parent: Int64Array
    rest_node: Int64Array
    rest_bucket: Int64Array
    part_child: FloatArray
    part_rest: FloatArray
    own_child: FloatArray
    own_rest: FloatArray
    own_sum: FloatArray
    hidden: FloatArray


@dataclass(frozen=True, kw_only=True, slots=True)
class NoiseTree:
    """All buckets above the cells of one table.

    Attributes
    ----------
    levels : tuple of Level
        From the virtual root (one node) down; the last has no children.
    leaf_node, leaf_bucket : ndarray of int64
        Measured buckets, and the nodes of the last level that they are.
    row_bucket : ndarray of int64, shape (n_rows,)
        The bucket that each synthetic row lies in; -1 where none is known.
    is_open : ndarray of float64, shape (n_buckets,)
        Part of each filled bucket's box that lies in no released smaller one.
    depth : ndarray of int64, shape (n_buckets,)
    ordinals : tuple of list of ndarray of int64
        Per depth and column, which range each letter lies in.
    total_variance : float
        Variance of the error of the number of all rows.
    """

    levels: tuple[Level, ...]
    leaf_node: Int64Array
    leaf_bucket: Int64Array
    row_bucket: Int64Array
    is_open: FloatArray
    depth: Int64Array
    ordinals: tuple[list[Int64Array], ...]
    total_variance: float


def noise_tree(table: TableBuckets) -> NoiseTree:
    """Rebuild the tree of a table.

    Parameters
    ----------
    table : TableBuckets
        Of a release in mode sticky.
    """
    tops = _tops(table)
    n_depths = int(tops.max(initial=0)) + 1
    depth = _depths(table, tops, n_depths)
    ordinals = [_ordinals(table.letters, tops, d) for d in range(n_depths)]
    held = np.flatnonzero((table.first <= table.last).all(axis=1))
    variance = _own_variance(table, depth, n_depths)
    is_open = np.ones(len(table.size))
    levels: list[Level] = []
    below_rep = np.zeros((0, len(tops)), dtype=np.int64)
    below_child = np.zeros(0, dtype=np.int64)
    leaf_node = leaf_bucket = below_child
    for d in range(n_depths - 1, -1, -1):
        here = held[depth[held] == d]
        rests = here[~table.measured[here]]
        reps = np.concatenate([below_rep, table.first[here]])
        node, at = _numbered(_keys(reps, ordinals[d]))
        of_child, of_here = node[: len(below_rep)], node[len(below_rep) :]
        is_rest = ~table.measured[here]
        if d == n_depths - 1:
            leaf_node, leaf_bucket = of_here[~is_rest], here[~is_rest]
        below = min(d + 1, n_depths - 1)
        possible = _possible(reps[at], ordinals[d], ordinals[below])
        held_by = np.bincount(of_child, minlength=len(at))
        unseen = np.maximum(possible - held_by, 0.0) if below > d else np.zeros(len(at))
        is_open[rests] = (np.maximum(unseen, 1.0) / np.maximum(possible, 1.0))[of_here[is_rest]]
        levels.append(_level(unseen, of_child, of_here[is_rest], rests, table, variance[below]))
        below_rep = reps[at]
    root = np.zeros(len(below_rep), dtype=np.int64)
    none = np.zeros(0, dtype=np.int64)
    levels.append(_level(np.zeros(1), root, none, none, table, variance[0]))
    return NoiseTree(
        levels=tuple(reversed(levels)),
        leaf_node=leaf_node,
        leaf_bucket=leaf_bucket,
        row_bucket=deepest_buckets(table, depth, ordinals, table.rows),
        is_open=is_open,
        depth=depth,
        ordinals=tuple(ordinals),
        total_variance=float(table.card["noise_sd_total"]) ** 2,
    )


def _tops(table: TableBuckets) -> Int64Array:
    """Level of each column at the top of its one-way tree: the least whose ranges hold all its values together."""
    tops = []
    for j, column in enumerate(table.letters):
        top = 0
        for kind in np.unique(column.kind):
            if kind not in (KIND_NULL, KIND_OTHER):
                reach = column.magnitude[column.kind == kind]
                top = max(top, int(reach.max() ^ reach.min()).bit_length())
        widest = int(table.span[:, j].max(initial=0))
        tops.append(max(top, widest.bit_length()))
    return np.array(tops, dtype=np.int64)


def _depths(table: TableBuckets, tops: Int64Array, n_depths: int) -> Int64Array:
    """Depth of each bucket: all columns halve together, down to single values."""
    bits = np.frompyfunc(lambda x: int(x).bit_length(), 1, 1)
    level = bits(table.span).astype(np.int64) if len(table.span) else table.span
    depth = np.where(level > 0, tops - level, n_depths - 1).min(axis=1)
    return np.where(table.measured, n_depths - 1, depth).astype(np.int64)


def _ordinals(letters: tuple[Letters, ...], tops: Int64Array, depth: int) -> list[Int64Array]:
    """Per column, which range of this depth each letter lies in."""
    out = []
    for column, top in zip(letters, tops, strict=True):
        index = column.magnitude >> max(int(top) - depth, 0)
        fresh = (np.diff(index) != 0) | (np.diff(column.kind) != 0)
        out.append(np.concatenate([[0], np.cumsum(fresh)]).astype(np.int64)[: len(index)])
    return out


def _keys(places: Int64Array, ordinals: list[Int64Array]) -> Int64Array:
    """One number a combination of ranges."""
    key = np.zeros(len(places), dtype=np.int64)
    for j, ordinal in enumerate(ordinals):
        key = key * (int(ordinal.max(initial=0)) + 1) + ordinal[places[:, j]]
    return key


def _numbered(keys: Int64Array) -> tuple[Int64Array, Int64Array]:
    """The number of each key among the distinct ones, and where each distinct one stands first."""
    _, at, node = np.unique(keys, return_index=True, return_inverse=True)
    return node.astype(np.int64), at.astype(np.int64)


def _own_variance(table: TableBuckets, depth: Int64Array, n_depths: int) -> FloatArray:
    """Variance of the noise of a bucket of each depth; the factor for heavy entities is a power of two."""
    one = NOISE_LAYERS * table.layer_sd**2
    if table.card.get("scale", 1) == 1:
        return np.full(n_depths, one)
    stated = np.full(n_depths, 0.0)
    np.maximum.at(stated, depth, table.noise_sd)
    stated[stated == 0] = one**0.5 * float(table.card["scale"])
    scale = 2.0 ** np.floor(np.log2(np.maximum(stated / one**0.5 * 1.001, 1.0)))
    own: FloatArray = one * scale**2
    return own


def _possible(reps: Int64Array, here: list[Int64Array], below: list[Int64Array]) -> FloatArray:
    """Number of children that the released values allow each node."""
    out = np.ones(len(reps))
    for j in range(len(here)):
        first = np.concatenate([[True], np.diff(below[j]) != 0])[: len(below[j])]
        out *= np.bincount(here[j][first])[here[j][reps[:, j]]]
    return out


def _level(
    unseen: FloatArray,
    child_parent: Int64Array,
    rest_node: Int64Array,
    rest_bucket: Int64Array,
    table: TableBuckets,
    own: float,
) -> Level:
    """Share out the errors of the nodes of one depth among their children and remainders."""
    rows = table.size[rest_bucket].astype(np.float64)
    n_nodes = len(unseen)
    alone = np.bincount(child_parent, minlength=n_nodes)[rest_node] == 0
    own_child = np.full(len(child_parent), own)
    own_rest = np.where(alone, 0.0, np.minimum(rows + _LEAST_LOOSE, 2 * own))
    loose = np.where(alone, 1.0, np.minimum(rows, own))
    together = sum_by(child_parent, own_child, n_nodes)
    weights = together + sum_by(rest_node, loose, n_nodes)
    hidden = np.minimum(_UNSEEN * unseen, own)
    hidden[rest_node] = 0.0
    hidden[together == 0] = 0.0
    return Level(
        n_nodes=n_nodes,
        child_parent=child_parent,
        rest_node=rest_node,
        rest_bucket=rest_bucket,
        part_child=own_child / weights[child_parent],
        part_rest=loose / weights[rest_node],
        own_child=own_child,
        own_rest=own_rest,
        own_sum=together + sum_by(rest_node, own_rest, n_nodes),
        hidden=hidden,
    )


def deepest_buckets(
    table: TableBuckets,
    depth: Int64Array,
    ordinals: Sequence[list[Int64Array]],
    places: Int64Array,
) -> Int64Array:
    """Find the deepest stored bucket that holds each combination of letters; -1 where none does.

    Parameters
    ----------
    table : TableBuckets
    depth, ordinals
        As in `NoiseTree`.
    places : ndarray of int64, shape (n, n_columns)
    """
    found = np.full(len(places), -1, dtype=np.int64)
    is_box = (table.first <= table.last).all(axis=1)
    for d in range(len(ordinals) - 1, -1, -1):
        for measured in (True, False):
            buckets = np.flatnonzero(is_box & (depth == d) & (table.measured == measured))
            unplaced = np.flatnonzero(found < 0)
            if not len(buckets) or not len(unplaced):
                continue
            known = _keys(table.first[buckets], ordinals[d])
            wanted = _keys(places[unplaced], ordinals[d])
            order = np.argsort(known)
            at = np.minimum(np.searchsorted(known[order], wanted), len(known) - 1)
            hit = known[order][at] == wanted
            found[unplaced[hit]] = buckets[order[at[hit]]]
    return found


def variance_of_sums(
    tree: NoiseTree, n_sums: int, of_sum: Int64Array, bucket: Int64Array, weight: FloatArray
) -> FloatArray:
    """Variance of the error of weighted sums of bucket counts.

    Parameters
    ----------
    tree : NoiseTree
    n_sums : int
    of_sum, bucket : ndarray of int64, shape (n_entries,)
        Which sum counts which bucket.
    weight : ndarray of float64, shape (n_entries,)
        With which weight; what is not named weighs nothing.

    Returns
    -------
    ndarray of float64, shape (n_sums,)
    """
    variance = np.zeros(n_sums)
    named = (bucket, tree.leaf_bucket, *(level.rest_bucket for level in tree.levels))
    width = max(int(buckets.max(initial=0)) for buckets in named) + 1
    node_of = np.full(width, -1, dtype=np.int64)
    node_of[tree.leaf_bucket] = tree.leaf_node
    is_leaf = node_of[bucket] >= 0
    sums, nodes, weights = of_sum[is_leaf], node_of[bucket[is_leaf]], weight[is_leaf]
    rest_sums, rest_buckets, rest_weights = of_sum[~is_leaf], bucket[~is_leaf], weight[~is_leaf]
    for i, level in enumerate(reversed(tree.levels)):
        rest_at = np.full(width, -1, dtype=np.int64)
        rest_at[level.rest_bucket] = np.arange(len(level.rest_bucket))
        r = rest_at[rest_buckets]
        here = r >= 0
        r, sums_r, weights_r = r[here], rest_sums[here], rest_weights[here]
        if i == 0:  # the last level: leaves are its nodes
            parent, part, own = nodes, np.ones(len(nodes)), np.zeros(len(nodes))
        else:
            parent, part = level.child_parent[nodes], level.part_child[nodes]
            own = level.own_child[nodes]
        parent = np.concatenate([parent, level.rest_node[r]])
        part = np.concatenate([part, level.part_rest[r]])
        own = np.concatenate([own, level.own_rest[r]])
        sums, weights = np.concatenate([sums, sums_r]), np.concatenate([weights, weights_r])
        label, inverse = np.unique(sums * level.n_nodes + parent, return_inverse=True)
        sums, nodes = np.divmod(label, level.n_nodes)
        size = len(label)
        mean = sum_by(inverse, part * weights, size)
        off = sum_by(inverse, own * weights, size)
        square = sum_by(inverse, own * weights**2, size)
        total = level.own_sum[nodes] if i else np.zeros(size)
        added = square - 2 * mean * off + mean**2 * total
        # What is hidden counts with a weight like its neighbours': no matter where they all count alike.
        second = sum_by(inverse, part * weights**2, size)
        added += level.hidden[nodes] * np.clip(second - mean**2, 0.0, mean**2)
        variance += sum_by(sums, np.maximum(added, 0.0), n_sums)
        weights = mean
    return variance + sum_by(sums, weights**2, n_sums) * tree.total_variance
