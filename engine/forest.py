"""The forest: every node of every depth of a column set, tested, noised, released. The last step before the wall.

Takes the cells of a column set and its columns' top levels; gives the buckets that pass, with noisy counts. A
node is released if it and all its ancestors pass. Works level by level on arrays: runs of Morton-ordered cells.
The result depends on the set of rows only, never on their order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from engine.cells import AdditiveEntities, Cells, PairedEntities
from engine.draws import Draws, EntitySets
from engine.morton import morton_order
from engine.ranges import levels_at, split_codes
from engine.schema import (
    KIND_NULL,
    KIND_OTHER,
    BoolArray,
    Int64Array,
    Measurement,
    UInt8Array,
    UInt64Array,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeEntities:
    """One kind of entity in the nodes of one depth.

    Attributes
    ----------
    sets : EntitySets
    n_rows : ndarray of int64, shape (n_nodes,)
        Rows after flattening the heaviest entities.
    top_mean : ndarray of int64, shape (n_nodes,)
        Mean rows of the next-heaviest group, rounded up; 1 where every entity has one row.
    """

    sets: EntitySets
    n_rows: Int64Array
    top_mean: Int64Array


@dataclass(frozen=True, kw_only=True, slots=True)
class _Level:
    """The passing nodes of one depth: where their runs start, and who is in them."""

    depth: int
    starts: Int64Array
    nodes: NodeEntities
    log2_scale: int


def grow(cells: Cells, tops: tuple[int, ...], draws: Draws) -> Measurement:
    """Measure one column set.

    Parameters
    ----------
    cells : Cells
    tops : tuple of int
        Top level of each column, in the order of `cells.columns`; empty for the total.
    draws : Draws

    Returns
    -------
    Measurement
        Nodes by depth, then in Morton order.

    Notes
    -----
    O(cells log cells) for the sort, then O(nodes) a depth. DESIGN section 4.
    """
    kind, magnitude = split_codes(cells.codes)
    if tops and len(kind):
        order, parts = morton_order(kind, magnitude, tops)
    else:
        order, parts = np.arange(len(kind)), np.zeros(len(kind), dtype=np.int64)
    kind, magnitude = kind[order], magnitude[order]
    trackers = [_tracker(entity, order, cells.n_rows) for entity in cells.entities]
    alive = np.ones(len(kind), dtype=bool)
    found: list[_Level] = []
    for depth in range(max(tops, default=0) + 1):
        edges = np.append(np.flatnonzero(parts <= depth), len(kind))
        living = np.flatnonzero(alive[edges[:-1]])
        if not len(living):
            break
        starts, ends = edges[living], edges[living + 1]
        if found and len(starts) == len(found[-1].starts):
            # No run has parted, so these are the runs of the depth above: the same sets draw the same.
            found.append(replace(found[-1], depth=depth))
            continue
        nodes = [tracker.nodes(starts, ends, draws) for tracker in trackers]
        passed = np.logical_and.reduce([draws.passes(node.sets) for node in nodes])
        chosen, log2_scale = _heaviest(nodes, passed)
        found.append(
            _Level(depth=depth, starts=starts[passed], nodes=chosen, log2_scale=log2_scale)
        )
        alive = np.zeros(len(kind), dtype=bool)
        alive[_spread(starts[passed], ends[passed])] = True
    return _noised(cells, tops, kind, magnitude, found, draws)


def _heaviest(nodes: list[NodeEntities], passed: BoolArray) -> tuple[NodeEntities, int]:
    """Of several kinds of entity the one with the largest scale, with the smallest flattened count."""
    kept = [
        NodeEntities(
            sets=node.sets.take(passed), n_rows=node.n_rows[passed], top_mean=node.top_mean[passed]
        )
        for node in nodes
    ]
    heaviest = [int(node.top_mean.max(initial=1)) for node in kept]
    most = max(heaviest)
    chosen = kept[heaviest.index(most)]
    fewest = np.minimum.reduce([node.n_rows for node in kept])
    # The largest group mean of the depth, up to the next power of two: one figure a depth, not one a bucket.
    return NodeEntities(sets=chosen.sets, n_rows=fewest, top_mean=chosen.top_mean), (
        most - 1
    ).bit_length()


def _spread(starts: Int64Array, ends: Int64Array) -> Int64Array:
    """All positions of the runs starts[i] .. ends[i] - 1."""
    sizes = ends - starts
    if not len(sizes):
        return sizes
    before = np.cumsum(sizes) - sizes
    cells: Int64Array = np.arange(int(sizes.sum())) + np.repeat(starts - before, sizes)
    return cells


def _noised(
    cells: Cells,
    tops: tuple[int, ...],
    kind: UInt8Array,
    magnitude: Int64Array,
    found: list[_Level],
    draws: Draws,
) -> Measurement:
    """Add both noise layers to the passing nodes and put them in the form that crosses the wall."""
    depth = _joined([np.full(len(at.starts), at.depth) for at in found])
    first = _joined([at.starts for at in found])
    n_depths = max(tops, default=0) + 1
    level_table = np.array([levels_at(tops, d) for d in range(n_depths)], dtype=np.uint8)
    level_table = level_table.reshape(n_depths, len(tops))
    node_kind, node_level = kind[first], level_table[depth]
    special = (node_kind == KIND_NULL) | (node_kind == KIND_OTHER)
    node_level[special] = 0  # null and other are single values at every depth
    index = magnitude[first] >> node_level.astype(np.int64)
    n = _joined([at.nodes.n_rows for at in found])
    sets = EntitySets(
        size=_joined([at.nodes.sets.size for at in found]),
        lanes=np.concatenate([np.zeros((0, 2), np.uint64), *(at.nodes.sets.lanes for at in found)]),
    )
    log2 = _joined([np.full(len(at.starts), at.log2_scale) for at in found])
    for log2_scale in sorted({at.log2_scale for at in found}):  # few: one draw for many depths
        run = np.flatnonzero(log2 == log2_scale)
        n[run] += draws.set_noise(sets.take(run), log2_scale)
        n[run] += draws.label_noise(
            cells.columns, node_kind[run], node_level[run], index[run], log2_scale
        )
    scale = np.ones(n_depths, dtype=np.int64)
    for at in found:
        scale[at.depth] = 1 << at.log2_scale
    return Measurement(
        columns=cells.columns,
        depth=depth.astype(np.uint8),
        kind=node_kind,
        level=node_level,
        index=index,
        parent=_parents(found),
        n=n,
        scale=scale,
    )


def _parents(found: list[_Level]) -> Int64Array:
    """Position of each node's parent: the run of the depth above that holds its start."""
    out, before, offset = [], np.zeros(0, dtype=np.int64), 0
    for at in found:
        held = np.searchsorted(before, at.starts, side="right") - 1
        out.append(np.where(held >= 0, held + offset, -1) if at.depth else held)
        offset += len(before)
        before = at.starts
    return _joined(out)


def _joined(parts: list[Int64Array]) -> Int64Array:
    """Concatenate, also nothing."""
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])


class _Additive:
    """Nodes of entities with one row each: differences of running sums."""

    def __init__(self, entity: AdditiveEntities, order: Int64Array, n_rows: Int64Array) -> None:
        self._rows = np.concatenate([[0], np.cumsum(n_rows[order])]).astype(np.int64)
        lanes = np.cumsum(entity.lanes[order], axis=0, dtype=np.uint64)
        self._lanes = np.concatenate([np.zeros((1, 2), dtype=np.uint64), lanes])

    def nodes(self, starts: Int64Array, ends: Int64Array, draws: Draws) -> NodeEntities:
        """Count entities and add up token lanes of the runs."""
        del draws  # one row an entity: nothing to flatten
        size = self._rows[ends] - self._rows[starts]
        lanes = self._lanes[ends] - self._lanes[starts]
        return NodeEntities(
            sets=EntitySets(size=size, lanes=lanes), n_rows=size, top_mean=np.ones_like(size)
        )


class _Paired:
    """Nodes of entities with several rows: distinct (node, entity) pairs, made anew at each depth."""

    def __init__(self, entity: PairedEntities, order: Int64Array) -> None:
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        self._place = place[entity.cell]
        self._entity = entity.entity
        self._n_rows = entity.n_rows
        self._tokens = entity.tokens

    def nodes(self, starts: Int64Array, ends: Int64Array, draws: Draws) -> NodeEntities:
        """Deduplicate entities within each run, then flatten the heaviest."""
        node = np.searchsorted(starts, self._place, side="right") - 1
        inside = (node >= 0) & (self._place < ends[np.maximum(node, 0)])
        node, entity, n_rows = node[inside], self._entity[inside], self._n_rows[inside]
        order = np.lexsort((entity, node))
        node, entity, n_rows = node[order], entity[order], n_rows[order]
        fresh = np.ones(len(node), dtype=bool)
        fresh[1:] = (node[1:] != node[:-1]) | (entity[1:] != entity[:-1])
        at = np.flatnonzero(fresh)
        node, entity = node[at], entity[at]
        n_rows = np.add.reduceat(n_rows, at)
        heads = np.searchsorted(node, np.arange(len(starts)))
        lanes: UInt64Array = np.add.reduceat(self._tokens[entity], heads, axis=0)
        size = np.diff(np.append(heads, len(node)))
        sets = EntitySets(size=size, lanes=lanes)
        return _flattened(sets, node, n_rows, heads, draws)


def _flattened(
    sets: EntitySets, node: Int64Array, n_rows: Int64Array, heads: Int64Array, draws: Draws
) -> NodeEntities:
    """Bring the heaviest entities of each node down to the mean of the next-heaviest group.

    In whole numbers: the outliers together become floor(outliers * group rows / group size).
    """
    heavy_first = np.lexsort((-n_rows, node))
    rows = n_rows[heavy_first]
    running = np.concatenate([[0], np.cumsum(rows)])
    outliers, top = draws.group_sizes(sets)
    outliers = np.minimum(outliers, sets.size)
    cut, stop = heads + outliers, heads + np.minimum(outliers + top, sets.size)
    of_outliers = running[cut] - running[heads]
    of_group, group = running[stop] - running[cut], np.maximum(stop - cut, 1)
    total = running[heads + sets.size] - running[heads]
    flat = total - of_outliers + outliers * of_group // group
    return NodeEntities(sets=sets, n_rows=flat, top_mean=np.maximum(-(-of_group // group), 1))


def _tracker(
    entity: AdditiveEntities | PairedEntities, order: Int64Array, n_rows: Int64Array
) -> _Additive | _Paired:
    """The way to count one kind of entity."""
    if isinstance(entity, AdditiveEntities):
        return _Additive(entity, order, n_rows)
    return _Paired(entity, order)
