"""The tree of released buckets behind a table, and how noise reaches any weighted sum of its rows.

Takes a `TableBuckets`: its buckets say how deep they lie in the measured tree, and the ranges above them follow from
the levels stored with the table. Gives the variance of the error of sums. The fit brings children to their parent's
count, each giving way by its variance, so the error of a child is its own noise less its share of what all children
were off, plus its share of the parent's error: a range of many cells is as sure as the few buckets it is made of
(engine/DESIGN.md, "Fit").
Sees released numbers only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from engine.cell_keys import cell_keys, comparable_keys, distinct_cells
from engine.schema import ColumnSet, FloatArray, Int64Array
from queries.intervals.buckets import TableBuckets, sum_by

ROUNDING = 1 / 6
"""Variance that rounding to whole numbers adds: the mean of f (1 - f)."""
_LEAST_LOOSE = 0.5
"""Variance of a remainder that was estimated as next to nothing."""
_FEWEST = 3.0
"""Rows that a released bucket is taken to hold at least, as in the fit."""
_DENSE = 4
"""Sums are held for every node, and not for those they count alone, where these are at least one in so many."""
_UNSEEN = 0.5
"""Variance that each child which was not released adds to a bucket without a remainder: it hides somebody or nobody."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Level:
    """The buckets of one depth, each with its children and its remainder."""

    n_nodes: int
    child_parent: Int64Array  # shape (n_children,): Node of each node of the next depth
    # rest_node, rest_bucket: shape (n_rests,): Filled buckets of this depth: the node they are the
    # remainder of.
    rest_node: Int64Array
    rest_bucket: Int64Array
    # part_child, part_rest: Share of a node's error that each child, and remainder, takes.
    part_child: FloatArray
    part_rest: FloatArray
    # own_child, own_rest: Variance of their own noise.
    own_child: FloatArray
    own_rest: FloatArray
    own_sum: FloatArray  # shape (n_nodes,): Sum of both over the node
    # shape (n_nodes,): Variance of what children that were not released may hold where there is no
    # remainder.
    unreleased: FloatArray
    is_single: bool  # Each node has one child and no remainder: its error is the child's


@dataclass(frozen=True, kw_only=True, slots=True)
class Outside:
    """The rows of a column outside its universe: the fit gives it as many as the column that decides has there."""

    row: int  # The row of the column's table that says so
    share: FloatArray  # shape (n_rows,): How the others make up for it; 0 for that row
    decider: ColumnSet  # The table of the column that decides
    rows: Int64Array  # Its rows that are outside
    variance: float  # Of the error of their number


@dataclass(frozen=True, kw_only=True, slots=True)
class NoiseTree:
    """All buckets above the cells of one table."""

    levels: tuple[Level, ...]  # From the virtual root (one node) down; the last has no children
    # leaf_node, leaf_bucket: Measured buckets, and the nodes of the last level that they are.
    leaf_node: Int64Array
    leaf_bucket: Int64Array
    # shape (n_rows,): The bucket that each synthetic row lies in; -1 where none is known.
    row_bucket: Int64Array
    # level_of, place_in: shape (n_buckets,): The level that each filled bucket belongs to, and its place
    # among the remainders there; of measured ones the number of levels, and the node of the last one. -1:
    # neither.
    level_of: Int64Array
    place_in: Int64Array
    # shape (n_buckets,): Part of each filled bucket's box that lies in no released smaller one.
    is_open: FloatArray
    total_variance: float  # Variance of the error of the number of all rows
    # Gives the `Outside` of a table of one column, where its number of rows there is another column's; else
    # None.
    outside: Callable[[], Outside | None] = lambda: None


def noise_tree(table: TableBuckets) -> NoiseTree:
    """Reckon how the error of each bucket of a table is made up."""
    last = len(table.own_variance) - 1
    ranges = [_ranges(table, depth) for depth in range(last + 1)]
    is_open = np.ones(len(table.size))
    levels: list[Level] = []
    codes = table.first[:0]  # a combination of codes inside each node
    rows_below = np.zeros(0)
    leaf_node = leaf_bucket = np.zeros(0, dtype=np.int64)
    for depth in range(last, -1, -1):
        here = np.flatnonzero(table.depth == depth)
        is_rest = ~table.measured[here]
        inside = np.concatenate([codes, table.first[here]])
        _, at, node = np.unique(
            cell_keys(_range_numbers(inside, ranges[depth]).T, _sizes(ranges[depth]))[0],
            return_index=True,
            return_inverse=True,
        )
        children, node_here = node[: len(codes)], node[len(codes) :]
        rests, rest_node = here[is_rest], node_here[is_rest]
        of_node = np.concatenate([rows_below, table.size[here]])
        of_children, rows_below = rows_below, sum_by(node, of_node, len(at))
        codes = inside[at]
        unseen, below = np.zeros(len(at)), 0.0
        if depth == last:
            leaf_node, leaf_bucket = node_here[~is_rest], here[~is_rest]
        else:
            below = float(table.own_variance[depth + 1])
            possible = _n_possible(codes, ranges[depth], ranges[depth + 1])
            unseen = np.maximum(possible - np.bincount(children, minlength=len(at)), 0.0)
            is_open[rests] = (np.maximum(unseen, 1.0) / possible)[rest_node]
        levels.append(_level(table, unseen, children, of_children, rest_node, rests, own=below))
    level_of, place_in = np.full((2, len(table.size)), -1)
    level_of[leaf_bucket], place_in[leaf_bucket] = last + 2, leaf_node
    for at_depth, level in enumerate(reversed(levels), 1):
        level_of[level.rest_bucket] = at_depth
        place_in[level.rest_bucket] = np.arange(len(level.rest_bucket))
    none = np.zeros(0, dtype=np.int64)
    tops, own = np.zeros(len(codes), dtype=np.int64), float(table.own_variance[0])
    levels.append(_level(table, np.zeros(1), tops, rows_below, none, none, own=own))
    return NoiseTree(
        levels=tuple(reversed(levels)),
        leaf_node=leaf_node,
        leaf_bucket=leaf_bucket,
        row_bucket=deepest_buckets(table, table.rows),
        level_of=level_of,
        place_in=place_in,
        is_open=is_open,
        total_variance=float(table.card["noise_sd_total"]) ** 2,
    )


def _ranges(table: TableBuckets, depth: int) -> list[Int64Array]:
    """Per column, the number of the range of this depth that each code lies in."""
    out = []
    for column, top in zip(table.released, table.tops, strict=True):
        index = column.magnitude >> max(top - depth, 0)
        is_next = (np.diff(index) != 0) | (np.diff(column.kind) != 0)
        out.append(np.concatenate([[0], np.cumsum(is_next)]).astype(np.int64)[: len(index)])
    return out


def _range_numbers(codes: Int64Array, ranges: list[Int64Array]) -> Int64Array:
    """Number of the range that each code lies in, shape (n, n_columns)."""
    return np.column_stack([number[codes[:, j]] for j, number in enumerate(ranges)])


def _sizes(ranges: list[Int64Array]) -> list[int]:
    """Number of ranges of each column."""
    return [int(number.max(initial=0)) + 1 for number in ranges]


def _n_possible(codes: Int64Array, here: list[Int64Array], below: list[Int64Array]) -> FloatArray:
    """Number of children that the released values allow each node: `codes` has a combination inside each.

    `here` and `below` are the ranges of codes at the depth of the nodes and one deeper.
    """
    out = np.ones(len(codes))
    for j in range(len(here)):
        first = np.concatenate([[True], np.diff(below[j]) != 0])[: len(below[j])]
        out *= np.bincount(here[j][first])[here[j][codes[:, j]]]
    return out


def are_single(n_nodes: int, child_parent: Int64Array, rest_node: Int64Array) -> bool:
    """Whether each node has one child and no remainder."""
    return not len(rest_node) and np.array_equal(np.sort(child_parent), np.arange(n_nodes))


def _level(
    table: TableBuckets,
    unseen: FloatArray,
    child_parent: Int64Array,
    child_rows: FloatArray,
    rest_node: Int64Array,
    rest_bucket: Int64Array,
    *,
    own: float,
) -> Level:
    """Share out the errors of the nodes of one depth among their children and remainders.

    `unseen` are each node's possible children that were not released, `own` is the variance of each child's noise. A
    child of fewer rows gives way by these, as in the fit: where entities have many rows, that is by its size.
    """
    rows = table.size[rest_bucket].astype(np.float64)
    n_nodes = len(unseen)
    alone = np.bincount(child_parent, minlength=n_nodes)[rest_node] == 0
    own_child = np.full(len(child_parent), own)
    own_rest = np.where(alone, 0.0, np.minimum(rows + _LEAST_LOOSE, 2 * own))
    loose = np.where(alone, 1.0, np.minimum(rows, own))
    together = sum_by(child_parent, own_child, n_nodes)
    gives = np.minimum(np.maximum(child_rows, _FEWEST), own)
    weights = sum_by(child_parent, gives, n_nodes) + sum_by(rest_node, loose, n_nodes)
    unreleased = np.minimum(_UNSEEN * unseen, own)
    unreleased[rest_node] = 0.0
    unreleased[together == 0] = 0.0
    return Level(
        n_nodes=n_nodes,
        child_parent=child_parent,
        rest_node=rest_node,
        rest_bucket=rest_bucket,
        part_child=gives / weights[child_parent],
        part_rest=loose / weights[rest_node],
        own_child=own_child,
        own_rest=own_rest,
        own_sum=together + sum_by(rest_node, own_rest, n_nodes),
        unreleased=unreleased,
        is_single=are_single(n_nodes, child_parent, rest_node),
    )


def deepest_buckets(table: TableBuckets, codes: Int64Array) -> Int64Array:
    """The bucket that speaks of each combination of codes: that of the deepest range known to be released.

    Returns: -1 where no range is known, or the deepest one has nothing beside its released parts.
    """
    deepest = np.full(len(codes), -1, dtype=np.int64)
    unplaced = np.arange(len(codes))
    for depth in range(len(table.own_variance) - 1, -1, -1):
        inside = np.flatnonzero(table.depth >= depth)
        if not len(inside) or not len(unplaced):
            continue
        ranges = _ranges(table, depth)
        known, wanted, _ = comparable_keys(
            _range_numbers(table.first[inside], ranges),
            _range_numbers(codes[unplaced], ranges),
            _sizes(ranges),
        )
        order = np.lexsort((table.depth[inside], known))  # a bucket of this depth comes first
        at = np.minimum(np.searchsorted(known[order], wanted), len(known) - 1)
        is_known = known[order][at] == wanted
        found = inside[order[at]]
        here = is_known & (table.depth[found] == depth)
        deepest[unplaced[here]] = found[here]
        unplaced = unplaced[~is_known]
    return deepest


def variance_of_sums(
    tree: NoiseTree, n_sums: int, of_sum: Int64Array, bucket: Int64Array, weight: FloatArray
) -> FloatArray:
    """Variance of the error of weighted sums of bucket counts.

    weight: With which weight; what is not named weighs nothing.
    """
    variance, n_levels = np.zeros(n_sums), len(tree.levels)
    level_of, place = tree.level_of[bucket], tree.place_in[bucket]
    of_level = np.argsort(level_of, kind="stable")
    ends = np.searchsorted(level_of[of_level], np.arange(n_levels + 2))
    leaves = of_level[ends[n_levels] :]
    sums, nodes, weights = of_sum[leaves], place[leaves], weight[leaves]
    for i in range(n_levels - 1, -1, -1):
        level = tree.levels[i]
        if level.is_single:  # adds nothing
            nodes = level.child_parent[nodes]
            continue
        if i == n_levels - 1:  # leaves are its nodes
            parent, part, own = nodes, np.ones(len(nodes)), np.zeros(len(nodes))
        else:
            parent, part = level.child_parent[nodes], level.part_child[nodes]
            own = level.own_child[nodes]
        if ends[i] < ends[i + 1]:
            rests = of_level[ends[i] : ends[i + 1]]
            r = place[rests]
            parent = np.concatenate([parent, level.rest_node[r]])
            part = np.concatenate([part, level.part_rest[r]])
            own = np.concatenate([own, level.own_rest[r]])
            sums = np.concatenate([sums, of_sum[rests]])
            weights = np.concatenate([weights, weight[rests]])
        if n_sums * level.n_nodes <= _DENSE * len(parent):  # each sum counts most nodes
            inverse, size = sums * level.n_nodes + parent, n_sums * level.n_nodes
            sums, nodes = np.divmod(np.arange(size), level.n_nodes)
        else:
            (sums, nodes), inverse = distinct_cells((sums, parent), (n_sums, level.n_nodes))
            size = len(sums)
        mean = sum_by(inverse, part * weights, size)
        off = sum_by(inverse, own * weights, size)
        square = sum_by(inverse, own * weights**2, size)
        total = level.own_sum[nodes] if i < n_levels - 1 else np.zeros(size)
        added = square - 2 * mean * off + mean**2 * total
        # What is hidden counts with a weight like its neighbours': no matter where they all count alike.
        second = sum_by(inverse, part * weights**2, size)
        spread = np.minimum(np.maximum(second - mean**2, 0.0), mean**2)
        added += level.unreleased[nodes] * spread
        variance += sum_by(sums, np.maximum(added, 0.0), n_sums)
        weights = mean
    return variance + sum_by(sums, weights**2, n_sums) * tree.total_variance
