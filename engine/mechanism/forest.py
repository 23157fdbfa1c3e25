"""The forest: every node of every depth of a column set, tested, noised, released.

Takes the cells of a column set, its columns' top levels and how many rows of one entity count; gives the buckets that
pass, with noisy counts. A node is released if it and all its ancestors pass. The result depends on the set of rows
only, never on their order.

All columns halve together, so that a node at depth d is a common prefix of bits: first the kinds and whatever lies
above the columns' top levels, then one bit a column and depth. In cells sorted by these bits (Morton order) every node
of every depth is a run of neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from engine.kernels import Whole, kernel, part
from engine.mechanism.bounds import RowBounds
from engine.mechanism.cells import AdditiveEntities, Cells
from engine.mechanism.draws import Draws, EntitySets, combined
from engine.ranges import split_codes
from engine.schema import (
    KIND_NULL,
    KIND_OTHER,
    BoolArray,
    Int64Array,
    Measurement,
    UInt8Array,
    UInt64Array,
)

WORD_BITS = 64


def grow(cells: Cells, tops: tuple[int, ...], draws: Draws, bounds: RowBounds) -> Measurement:
    """Measure one column set.

    tops: Top level of each column, in the order of `cells.columns`; empty for the total.

    O(cells log cells) for the sort, then O(living cells) a depth. See engine/DESIGN.md, "Measure".
    """
    kind, magnitude = split_codes(np.ascontiguousarray(cells.codes))
    order, parts = morton_order(kind, magnitude, tops)
    counter, most = _EntityCounter(cells, order), bounds.at(cells.columns, tops)
    has_parts = np.bincount(parts, minlength=len(most)) > 0
    forest = list[_Nodes]()
    first, end = np.zeros(1, dtype=np.int64), np.array([len(order)])
    for depth in range(len(most)):
        is_same_bound = depth > 0 and most[depth] == most[depth - 1]
        if is_same_bound and not has_parts[depth]:
            forest.append(forest[-1]._replace(parent=np.arange(len(first))))
            continue
        nodes = counter.split(parts, depth, first, end, most[depth], draws.smallest)
        forest.append(nodes)
        if not len(nodes.first):
            break
        first, end = nodes.first, nodes.end
    return _released(cells, order, tops, forest, draws, bounds)


def passing_runs(
    cells: Cells, order: Int64Array, parts: Int64Array, draws: Draws
) -> Iterator[tuple[Int64Array, Int64Array, Int64Array]]:
    """Runs of sorted cells that pass, depth by depth where any part.

    order, parts: As `morton_order` returns them, of any order.

    Yields: first cell of each run; cell after its last; place of the run that holds it among those before, or -1.
    """
    counter = _EntityCounter(cells, order)
    first, end = np.zeros(1, dtype=np.int64), np.array([len(order)])
    kept: Int64Array | None = None
    for depth in np.unique(parts).tolist():
        nodes = counter.split(parts, depth, first, end, 1, draws.smallest)
        nodes = nodes.take(np.flatnonzero(_passes(nodes, draws)))
        yield nodes.first, nodes.end, nodes.parent if kept is None else kept[nodes.parent]
        kept = np.flatnonzero(nodes.end - nodes.first > 1)  # single cells part no further
        first, end = nodes.first[kept], nodes.end[kept]


class _Nodes(NamedTuple):
    """Nodes: their runs of cells, the places of their parents, who is in them by kind of entity."""

    first: Int64Array
    end: Int64Array
    parent: Int64Array
    size: Int64Array  # shape (n_nodes, n_kinds): Distinct entities
    lanes: UInt64Array  # shape (n_nodes, n_kinds, 2): Sums of their tokens
    # Rows, of each entity as many as count; of several kinds of entities the fewest.
    n_rows: Int64Array

    def take(self, at: Int64Array) -> _Nodes:
        """The chosen nodes."""
        return _Nodes._make(part.take(at, axis=0) for part in self)

    def sets(self, kind: int) -> EntitySets:
        """Who is in them, of one kind of entity."""
        return EntitySets(size=self.size[:, kind], lanes=self.lanes[:, kind])


def _passes(nodes: _Nodes, draws: Draws) -> BoolArray:
    """Whether each node has enough entities of every kind."""
    kinds = range(nodes.size.shape[1])
    passed: BoolArray = np.logical_and.reduce([draws.passes(nodes.sets(k)) for k in kinds])
    return passed


def _released(
    cells: Cells,
    order: Int64Array,
    tops: tuple[int, ...],
    forest: list[_Nodes],
    draws: Draws,
    bounds: RowBounds,
) -> Measurement:
    """Add both noise layers to the passing nodes: what may cross the process boundary."""
    log2_scales = [(most - 1).bit_length() for most in bounds.at(cells.columns, tops)]
    nodes = _Nodes._make(map(np.concatenate, zip(*forest, strict=True)))
    sizes = np.array([len(one.first) for one in forest])
    depth = np.repeat(np.arange(len(forest)), sizes)
    # The places of parents are counted from where the depth above begins.
    begins = np.cumsum(sizes) - sizes
    parent = np.where(depth > 0, nodes.parent + begins[np.maximum(depth - 1, 0)], -1)
    kept, parent = _kept(_passes(nodes, draws), parent)
    nodes, depth = nodes.take(kept), depth[kept]
    kind, magnitude = split_codes(cells.codes.take(order[nodes.first], axis=0))
    level = np.maximum(np.array(tops, dtype=np.int64) - depth[:, None], 0).astype(np.uint8)
    level[(kind == KIND_NULL) | (kind == KIND_OTHER)] = 0  # single values at every depth
    index, n = magnitude >> level, nodes.n_rows
    # Where each row is one entity, the first set names the same people as all do.
    kinds = range(1 if bounds.most is None else len(cells.entities))
    sets = combined([nodes.sets(k) for k in kinds])
    of_node = np.array(log2_scales)[depth]  # falls with depth
    for log2_scale in np.unique(of_node).tolist():
        at = slice(*np.searchsorted(-of_node, [-log2_scale, 1 - log2_scale]))
        own = EntitySets(size=sets.size[at], lanes=sets.lanes[at])
        n[at] += draws.set_noise(own, log2_scale)
        n[at] += draws.label_noise(cells.columns, kind[at], level[at], index[at], log2_scale)
    return Measurement(
        columns=cells.columns,
        depth=depth.astype(np.uint8),
        kind=kind,
        level=level,
        index=index,
        parent=parent,
        n=n,
        scale=np.array([1 << log2 for log2 in log2_scales], dtype=np.int64),
    )


@kernel
def _kept(passed: BoolArray, parent: Int64Array) -> tuple[Int64Array, Int64Array]:
    """The nodes that pass, as all around them do; and the places of their parents among them. Parents come first."""
    place = np.full(len(parent), -1)
    kept, of_kept = np.empty(len(parent), dtype=np.int64), np.empty(len(parent), dtype=np.int64)
    n = 0
    for i in range(len(parent)):
        if passed[i] and (parent[i] < 0 or place[parent[i]] >= 0):
            of_kept[n] = place[parent[i]] if parent[i] >= 0 else -1
            place[i], kept[n] = n, i
            n += 1
    return kept[:n], of_kept[:n]


def morton_order(
    kind: UInt8Array, magnitude: Int64Array, tops: tuple[int, ...]
) -> tuple[Int64Array, Int64Array]:
    """Sort cells so that each node is a run, and find the depth at which neighbours part.

    Returns: order: Positions of the cells in Morton order; parts: Smallest depth at which a cell, in that
    order, lies in another node than the one before it; 0 for the first; max(tops) + 1 between equal cells.
    """
    n = len(kind)
    if not n or not tops:
        return np.arange(n), np.zeros(n, dtype=np.int64)
    column, bit, depth = _differing_bits(kind, magnitude, np.array(tops))
    words = np.zeros((max(-(-len(bit) // WORD_BITS), 1), n), dtype=np.uint64)
    _pack(kind, magnitude, column, bit, words)
    order = np.argsort(words[0]) if len(words) == 1 else np.lexsort(words[::-1])
    parts = np.full(n, max(tops) + 1)
    parts[0] = 0
    _part(words, order, depth, parts)
    return order, parts


_KIND_BIT = WORD_BITS  # of a kind and a magnitude side by side


@kernel
def _differing_bits(
    kind: UInt8Array, magnitude: Int64Array, tops: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """The bits in which any two cells differ, in the order of their depth: column, place, depth.

    Places from `_KIND_BIT` on are those of the kind.
    """
    n_columns = len(tops)
    differs = np.zeros((n_columns, 2), dtype=np.int64)
    for i in range(1, len(kind)):
        for j in range(n_columns):
            differs[j, 0] |= magnitude[i, j] ^ magnitude[0, j]
            differs[j, 1] |= np.int64(kind[i, j]) ^ np.int64(kind[0, j])
    out = np.empty((3, n_columns * (_KIND_BIT + 2)), dtype=np.int64)
    found = 0
    for j in range(n_columns):
        for bit in range(_KIND_BIT + 1, tops[j] - 1, -1):
            word, place = (1, bit - _KIND_BIT) if bit >= _KIND_BIT else (0, bit)
            if differs[j, word] >> place & 1:
                out[0, found], out[1, found], out[2, found] = j, bit, 0
                found += 1
    for depth in range(1, tops.max() + 1):
        for j in range(n_columns):
            bit = tops[j] - depth
            if bit >= 0 and differs[j, 0] >> bit & 1:
                out[0, found], out[1, found], out[2, found] = j, bit, depth
                found += 1
    return out[0, :found], out[1, :found], out[2, :found]


@kernel
def _pack(
    kind: UInt8Array, magnitude: Int64Array, column: Int64Array, bit: Int64Array, words: UInt64Array
) -> None:
    """Write the bits of each cell into words, from the most significant bit on."""
    for i in range(len(kind)):
        for b in range(len(bit)):
            if bit[b] >= _KIND_BIT:
                value = np.uint64(kind[i, column[b]]) >> np.uint64(bit[b] - _KIND_BIT)
            else:
                value = np.uint64(magnitude[i, column[b]]) >> np.uint64(bit[b])
            words[b // WORD_BITS, i] |= (value & np.uint64(1)) << np.uint64(
                WORD_BITS - 1 - b % WORD_BITS
            )


@kernel
def _part(words: UInt64Array, order: Int64Array, depth: Int64Array, parts: Int64Array) -> None:
    """The depth of the first bit in which each cell differs from the one before it."""
    for i in range(1, len(order)):
        for w in range(len(words)):
            differing = words[w, order[i]] ^ words[w, order[i - 1]]
            if differing:
                b = 0
                while not differing >> np.uint64(WORD_BITS - 1 - b):
                    b += 1
                parts[i] = depth[w * WORD_BITS + b]
                break


class _Sums(NamedTuple):
    """Running sums over sorted cells: of entities with one row each, a difference of two counts a run."""

    n_rows: Int64Array  # shape (n_cells + 1,)
    lanes: UInt64Array  # shape (n_kinds, n_cells + 1, 2)
    is_additive: BoolArray  # shape (n_kinds,): Entities of this kind have one row each


class _Pairs(NamedTuple):
    """Pairs of cell and entity by cell, of all kinds of entities with several rows."""

    begin: Int64Array  # shape (n_kinds, n_cells + 1): Where the pairs of each cell begin
    # entity, n_rows: shape (n_pairs,): Position in `tokens`; rows of the entity in the cell.
    entity: Int64Array
    n_rows: Int64Array
    tokens: UInt64Array  # shape (n_entities, 2)
    # last, held: shape (n_entities,): The last run in which an entity was found, and its rows there; written.
    last: Int64Array
    held: Int64Array


class _EntityCounter:
    """Counts the distinct entities in runs of sorted cells."""

    def __init__(self, cells: Cells, order: Int64Array) -> None:
        n, kinds = len(order), cells.entities
        rows = np.zeros(n + 1, dtype=np.int64)
        np.cumsum(cells.n_rows[order], out=rows[1:])
        lanes = np.zeros((len(kinds), n + 1, 2), dtype=np.uint64)
        begin = np.zeros((len(kinds), n + 1), dtype=np.int64)
        entity, n_rows = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        tokens = [np.zeros((0, 2), dtype=np.uint64)]
        n_pairs = n_tokens = 0
        place = np.empty(n, dtype=np.int64)
        place[order] = np.arange(n)
        for k, kind in enumerate(kinds):
            if isinstance(kind, AdditiveEntities):
                np.cumsum(kind.lanes.take(order, axis=0), axis=0, out=lanes[k, 1:])
                continue
            at = place[kind.cell]
            by_place = np.argsort(at)
            begin[k, 0] = n_pairs
            begin[k, 1:] = n_pairs + np.cumsum(np.bincount(at, minlength=n))
            entity.append(kind.entity[by_place] + n_tokens)
            n_rows.append(kind.n_rows[by_place])
            tokens.append(kind.tokens)
            n_pairs, n_tokens = n_pairs + len(at), n_tokens + len(kind.tokens)
        is_additive = np.array([isinstance(kind, AdditiveEntities) for kind in kinds])
        self._sums = _Sums(rows, lanes, is_additive)
        self._pairs = _Pairs(
            begin,
            np.concatenate(entity),
            np.concatenate(n_rows),
            np.concatenate(tokens),
            np.full(n_tokens, -1),
            np.zeros(n_tokens, dtype=np.int64),
        )
        self._n_runs = 0

    def split(
        self,
        parts: Int64Array,
        depth: int,
        first: Int64Array,
        end: Int64Array,
        most: int,
        smallest: int,
    ) -> _Nodes:
        """The nodes of a depth that may pass, within the runs `first` to `end` of the depth above."""
        bounds = np.int64(most), np.int64(smallest)
        begin, stop, parent, size, lanes, n_rows = _split(
            parts, depth, first, end, *bounds, self._sums, self._pairs, self._n_runs
        )
        self._n_runs += len(parts) + 1
        return _Nodes(begin, stop, parent if depth else parent - 1, size, lanes, n_rows)


@kernel
def _split(
    parts: Int64Array,
    depth: Whole,
    above_first: Int64Array,
    above_end: Int64Array,
    most: Whole,
    smallest: Whole,
    sums: _Sums,
    pairs: _Pairs,
    run: Whole,
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array, UInt64Array, Int64Array]:
    """Split the runs of the depth above, and count those that have at least `smallest` entities of every kind.

    run: Number of the last run that was counted before.
    """
    n_kinds, room = len(sums.is_additive), 0
    for i in range(len(above_first)):
        room += above_end[i] - above_first[i]
    first, end = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
    parent, n_rows = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
    size = np.empty((room, n_kinds), dtype=np.int64)
    lanes = np.empty((room, n_kinds, 2), dtype=np.uint64)
    found = 0
    for i in range(len(above_first)):
        begin = above_first[i]
        while begin < above_end[i]:
            stop = begin + 1
            while stop < above_end[i] and parts[stop] > depth:
                stop += 1
            is_enough, run = True, run + 1
            for k in range(n_kinds):
                if sums.is_additive[k]:
                    rows = sums.n_rows[stop] - sums.n_rows[begin]
                    size[found, k] = rows
                    for lane in range(2):
                        lanes[found, k, lane] = (
                            sums.lanes[k, stop, lane] - sums.lanes[k, begin, lane]
                        )
                else:
                    at, upto = pairs.begin[k, begin], pairs.begin[k, stop]
                    size[found, k], rows = _distinct(at, upto, most, pairs, run, lanes[found, k])
                n_rows[found] = rows if k == 0 else min(n_rows[found], rows)
                is_enough = is_enough and size[found, k] >= smallest
            if is_enough:
                first[found], end[found], parent[found] = begin, stop, i
                found += 1
            begin = stop
    return first[:found], end[:found], parent[:found], size[:found], lanes[:found], n_rows[:found]


@part
def _distinct(
    begin: Whole, end: Whole, most: Whole, pairs: _Pairs, run: Whole, lanes: UInt64Array
) -> tuple[Whole, Whole]:
    """Distinct entities of some pairs, and their rows, of each as many as count; fills in the sums of their tokens."""
    size, rows = np.int64(0), np.int64(0)
    lanes[:] = np.uint64(0)
    for at in range(begin, end):
        one = pairs.entity[at]
        if pairs.last[one] != run:
            pairs.last[one], pairs.held[one] = run, 0
            size += 1
            lanes[0] += pairs.tokens[one, 0]
            lanes[1] += pairs.tokens[one, 1]
        rows += min(pairs.held[one] + pairs.n_rows[at], most) - min(pairs.held[one], most)
        pairs.held[one] += pairs.n_rows[at]
    return size, rows
