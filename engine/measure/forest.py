"""The forest: every node of every depth of a column set, tested, noised, released. The last step before the wall.

Takes the cells of a column set, its columns' top levels and how many rows of one entity count; gives the buckets that
pass, with noisy counts. A node is released if it and all its ancestors pass. Works level by level on arrays: runs of
Morton-ordered cells. The result depends on the set of rows only, never on their order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from engine.measure.bounds import RowBounds
from engine.measure.cells import AdditiveEntities, Cells, PairedEntities
from engine.measure.draws import Draws, EntitySets, together
from engine.measure.morton import morton_order
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
    """One kind of entity in some nodes."""

    sets: EntitySets
    n_rows: Int64Array  # shape (n_nodes,): Rows, of each entity as many as count

    def take(self, where: BoolArray) -> NodeEntities:
        """The chosen nodes."""
        return NodeEntities(sets=self.sets.take(where), n_rows=self.n_rows[where])


@dataclass(frozen=True, kw_only=True, slots=True)
class _Level:
    """Nodes of one depth: the first cells of their runs, which distinct runs these are, their parents' places."""

    starts: Int64Array
    run: Int64Array
    parent: Int64Array


def grow(cells: Cells, tops: tuple[int, ...], draws: Draws, bounds: RowBounds) -> Measurement:
    """Measure one column set.

    tops: Top level of each column, in the order of `cells.columns`; empty for the total.

    O(cells log cells) for the sort, then O(living cells) a depth. See engine/DESIGN.md, "Measure".
    """
    kind, magnitude = split_codes(cells.codes)
    if tops and len(kind):
        order, parts = morton_order(kind, magnitude, tops)
    else:
        order, parts = np.arange(len(kind)), np.zeros(len(kind), dtype=np.int64)
    trackers = [_tracker(entity, order, cells.n_rows) for entity in cells.entities]
    most = bounds.at(cells.columns, tops)
    levels, runs = _levels(parts, most, trackers, draws)
    passed = np.logical_and.reduce([draws.passes(of_kind.sets) for of_kind in runs])
    levels = _passing(levels, passed)
    n = np.minimum.reduce([of_kind.n_rows for of_kind in runs])
    # Where each row is one entity, the first set names the same people as all do.
    sets = [of_kind.sets for of_kind in runs] if bounds.most is not None else [runs[0].sets]
    counted = NodeEntities(sets=together(sets), n_rows=n)
    # `take`: of rows of several numbers it costs a fifth of an index.
    kind, magnitude = kind.take(order, axis=0), magnitude.take(order, axis=0)
    return _noised(cells, tops, kind, magnitude, levels, counted, most, draws)


def _levels(
    parts: Int64Array, most: tuple[int, ...], trackers: list[_Additive | _Paired], draws: Draws
) -> tuple[list[_Level], list[NodeEntities]]:
    """Nodes of every depth that hold enough entities to pass; who is in each distinct run, by kind of entity.

    A run that has not parted since the depth above is the same run: its people are counted, and draw, once; anew only
    where fewer rows of each of them count.
    """
    n_depths = len(most)
    parted = np.bincount(parts, minlength=n_depths + 1)
    cell, part = np.arange(len(parts) + 1), np.append(parts, 0)  # the last one is the end
    dead = np.zeros(len(cell), dtype=bool)
    levels: list[_Level] = []
    counted = [[tracker.nodes(cell[:0], cell[:0], 1)] for tracker in trackers]
    n_runs = 0
    for depth in range(n_depths):
        is_same_bound = depth > 0 and most[depth] == most[depth - 1]
        if levels and (not len(levels[-1].run) or (is_same_bound and not parted[depth])):
            levels.append(replace(levels[-1], parent=np.arange(len(levels[-1].run))))
            continue
        edge = np.flatnonzero(part <= depth)
        living = np.flatnonzero(~dead[edge[:-1]])
        start, end = edge[living], edge[living + 1]
        parent = np.cumsum(part[start] < depth) - 1 if depth else np.full(len(start), -1)
        fresh = (part[start] == depth) | (part[end] == depth) | (not is_same_bound)
        nodes = [t.nodes(cell[start[fresh]], cell[end[fresh]], most[depth]) for t in trackers]
        enough = np.logical_and.reduce([node.sets.size >= draws.smallest for node in nodes])
        for of_kind, node in zip(counted, nodes, strict=True):
            of_kind.append(node.take(enough))
        large_enough, run = np.ones(len(start), dtype=bool), np.empty(len(start), dtype=np.int64)
        large_enough[fresh] = enough
        run[fresh] = n_runs + np.cumsum(enough) - 1
        n_runs += int(np.count_nonzero(enough))
        run[~fresh] = levels[-1].run[parent[~fresh]] if depth else 0
        levels.append(
            _Level(
                starts=cell[start[large_enough]], run=run[large_enough], parent=parent[large_enough]
            )
        )
        if (
            not large_enough.all()
        ):  # of a run that is too small only its first cell stays, as the end of the one before
            dead[start[~large_enough]] = True
            stays = np.repeat(~dead[edge[:-1]], np.diff(edge))
            stays[edge[:-1]] = True
            stays = np.append(stays, True)
            cell, part, dead = cell[stays], part[stays], dead[stays]
    return levels, [_joined_nodes(of_kind) for of_kind in counted]


def _passing(levels: list[_Level], passed: BoolArray) -> list[_Level]:
    """The nodes that pass and whose ancestors all do; down to the last depth that has one."""
    out: list[_Level] = []
    above, place = np.ones(1, dtype=bool), np.zeros(1, dtype=np.int64)
    for level in levels:
        alive = passed[level.run]
        if out:
            alive &= above[level.parent]
        if not alive.any():
            break
        parent = level.parent[alive]
        out.append(
            _Level(
                starts=level.starts[alive],
                run=level.run[alive],
                parent=place[parent] if out else parent,
            )
        )
        above, place = alive, np.cumsum(alive) - 1
    return out


def _noised(
    cells: Cells,
    tops: tuple[int, ...],
    kind: UInt8Array,
    magnitude: Int64Array,
    levels: list[_Level],
    counted: NodeEntities,
    most: tuple[int, ...],
    draws: Draws,
) -> Measurement:
    """Add both noise layers to the passing nodes and put them in the form that crosses the wall."""
    log2_scales = [(bound - 1).bit_length() for bound in most]
    sizes = [len(level.starts) for level in levels]
    depth = np.repeat(np.arange(len(levels)), sizes)
    first = _joined([level.starts for level in levels])
    run = _joined([level.run for level in levels])
    level_table = np.array([levels_at(tops, d) for d in range(len(most))], dtype=np.uint8)
    level_table = level_table.reshape(len(most), len(tops))
    node_kind, node_level = kind.take(first, axis=0), level_table.take(depth, axis=0)
    special = (node_kind == KIND_NULL) | (node_kind == KIND_OTHER)
    node_level[special] = 0  # null and other are single values at every depth
    index = magnitude.take(first, axis=0)
    index >>= node_level
    n = counted.n_rows[run]
    scale = np.array([1 << log2 for log2 in log2_scales], dtype=np.int64)
    for log2_scale in sorted(set(log2_scales[: len(levels)])):  # few: one draw for many depths
        at = np.flatnonzero(
            np.repeat([of == log2_scale for of in log2_scales[: len(levels)]], sizes)
        )
        n[at] += _set_noise(counted.sets, run[at], log2_scale, draws)
        n[at] += draws.label_noise(
            cells.columns,
            node_kind.take(at, axis=0),
            node_level.take(at, axis=0),
            index.take(at, axis=0),
            log2_scale,
        )
    before = np.cumsum([0, 0, *sizes])[: len(levels)]  # where the depth above begins
    parent = _joined([level.parent for level in levels])
    return Measurement(
        columns=cells.columns,
        depth=depth.astype(np.uint8),
        kind=node_kind,
        level=node_level,
        index=index,
        parent=np.where(parent >= 0, parent + np.repeat(before, sizes), -1),
        n=n,
        scale=scale,
    )


def _set_noise(sets: EntitySets, run: Int64Array, log2_scale: int, draws: Draws) -> Int64Array:
    """The noise of each node's entity set, drawn once a distinct run."""
    once = np.zeros(len(sets.size), dtype=bool)
    once[run] = True
    drawn = np.zeros(len(once), dtype=np.int64)
    drawn[once] = draws.set_noise(sets.take(once), log2_scale)
    return drawn[run]


def _joined_nodes(parts: list[NodeEntities]) -> NodeEntities:
    """Concatenate the nodes of one kind of entity."""
    return NodeEntities(
        sets=EntitySets(
            size=np.concatenate([part.sets.size for part in parts]),
            lanes=np.concatenate([part.sets.lanes for part in parts]),
        ),
        n_rows=np.concatenate([part.n_rows for part in parts]),
    )


def _joined(parts: list[Int64Array]) -> Int64Array:
    """Concatenate, also nothing."""
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])


class _Additive:
    """Nodes of entities with one row each: differences of running sums."""

    def __init__(self, entity: AdditiveEntities, order: Int64Array, n_rows: Int64Array) -> None:
        self._rows = np.zeros(len(order) + 1, dtype=np.int64)
        np.cumsum(n_rows[order], out=self._rows[1:])
        self._lanes = np.zeros((len(order) + 1, 2), dtype=np.uint64)
        np.cumsum(entity.lanes.take(order, axis=0), axis=0, out=self._lanes[1:])

    def nodes(self, starts: Int64Array, ends: Int64Array, most: int) -> NodeEntities:
        """Count entities and add up token lanes of the runs."""
        del most  # one row an entity
        size = self._rows[ends] - self._rows[starts]
        lanes = self._lanes.take(ends, axis=0)
        lanes -= self._lanes.take(starts, axis=0)
        return NodeEntities(sets=EntitySets(size=size, lanes=lanes), n_rows=size)


class _Paired:
    """Nodes of entities with several rows: distinct (node, entity) pairs, made anew for each run."""

    def __init__(self, entity: PairedEntities, order: Int64Array) -> None:
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        by_place = np.argsort(place[entity.cell])
        self._first = np.append(0, np.cumsum(np.bincount(place[entity.cell], minlength=len(order))))
        self._entity = entity.entity[by_place]
        self._n_rows = entity.n_rows[by_place]
        self._tokens = entity.tokens

    def nodes(self, starts: Int64Array, ends: Int64Array, most: int) -> NodeEntities:
        """Deduplicate entities within each run; of each count at most so many rows."""
        if not len(starts):
            return _no_nodes()
        first, n_pairs = self._first[starts], self._first[ends] - self._first[starts]
        node = np.repeat(np.arange(len(starts)), n_pairs)
        pair = np.arange(len(node)) + np.repeat(first - np.cumsum(n_pairs) + n_pairs, n_pairs)
        # Node and entity in one integer: neither can exceed the rows, of which there are fewer than 2**31.
        label = node * len(self._tokens) + self._entity[pair]
        order = np.argsort(label)
        label, pair = label[order], pair[order]
        at = np.flatnonzero(np.append(True, label[1:] != label[:-1]))
        # Nodes ascend already: within each its entities change places only.
        node, entity, n_rows = node[at], self._entity[pair[at]], self._n_rows[pair]
        n_rows = np.minimum(np.add.reduceat(n_rows, at), most)
        heads = np.searchsorted(node, np.arange(len(starts)))
        lanes: UInt64Array = np.add.reduceat(self._tokens[entity], heads, axis=0)
        size = np.diff(np.append(heads, len(node)))
        n_rows = np.add.reduceat(n_rows, heads)
        return NodeEntities(sets=EntitySets(size=size, lanes=lanes), n_rows=n_rows)


def _no_nodes() -> NodeEntities:
    """Nobody, nowhere."""
    none = np.zeros(0, dtype=np.int64)
    sets = EntitySets(size=none, lanes=np.zeros((0, 2), dtype=np.uint64))
    return NodeEntities(sets=sets, n_rows=none)


def _tracker(
    entity: AdditiveEntities | PairedEntities, order: Int64Array, n_rows: Int64Array
) -> _Additive | _Paired:
    """The way to count one kind of entity."""
    if isinstance(entity, AdditiveEntities):
        return _Additive(entity, order, n_rows)
    return _Paired(entity, order)
