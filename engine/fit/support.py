"""Fit a one-way table: the released values of a column, each with a whole number of rows.

From the root down every node's rows are shared out among its released children and its remainder in whole numbers,
so that each range keeps its fitted count. A single released value is itself. Rows inside a released range are given
values of the column's own grid, drawn once with the sampling key: every wider table uses these same values.

Of columns that declare no bounds values are drawn up to where released ranges end. A snapped range reaches to the next
power of two, so beyond the data: days of 2021 lie in a range that begins in 2020. Nothing is drawn beyond the outermost
released range, and of that range only its inner end: whoever is in it stands there or further out. So no value is drawn
that is smaller than all of the data, or larger. All of it follows from measurements, so it is no further look: which
ranges are released hangs on noisy thresholds alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import numpy as np

from engine.fit.tree import FittedTree, fit_tree
from engine.params import NOISE_LAYERS
from engine.ranges import code_bounds
from engine.schema import (
    GRID_KINDS,
    KIND_NEGATIVE,
    KIND_NONNEGATIVE,
    KIND_NULL,
    KIND_OTHER,
    BoolArray,
    Column,
    FloatArray,
    Int64Array,
    Measurement,
    Support,
    UInt8Array,
)
from engine.sticky_prf import siphash

ENDS_OF = 10
"""An outermost range with more than one in so many rows is drawn from in full: data so few have no tails."""


def fit_support(
    tree: Measurement,
    column: Column,
    *,
    noisy_total: int,
    total: int,
    floor: int,
    layer_sd: int,
    total_sd: float = 0.0,
    code_limits: tuple[int, int] | None,
    key: bytes,
) -> Support:
    """Fit one column.

    code_limits: Smallest and largest code the column can have, where declared (ranked columns: 0 and the last
        rank).
    """
    tree = _without_folded(tree, column)
    low, high = code_bounds(tree.kind[:, 0], tree.level[:, 0], tree.index[:, 0])
    room_low, room_high = _room(tree, low, high, code_limits)
    room_low, room_high = _on_steps(room_low, room_high, column.step, is_leaf(tree))
    has_room = np.concatenate([[False], room_low <= room_high])
    fitted = fit_tree(
        tree,
        noisy_total=noisy_total,
        total=float(total),
        has_room=has_room,
        floor=floor,
        layer_sd=layer_sd,
        total_sd=total_sd,
    )
    mass, left = share_out(tree, fitted.mass, fitted.remainder, total)
    single = (tree.level[:, 0] == 0) & is_leaf(tree)
    rows = np.where(single, 0, left[1:])
    kinds, codes = _drawn(tree.kind[:, 0], room_low, room_high, rows, column.step, key)
    kind = np.concatenate([tree.kind[single, 0], kinds])
    code = np.concatenate([low[single], codes])
    n = np.concatenate([mass[1:][single], np.ones(len(codes), dtype=np.int64)])
    measured = np.arange(len(n)) < np.count_nonzero(single)
    support = _merged(column, kind, code, n, measured, tree.values)
    return replace(support, noise_sd=_stated_sd(tree, fitted, single, layer_sd))


def _stated_sd(tree: Measurement, fitted: FittedTree, single: BoolArray, layer_sd: int) -> float:
    """Root mean square error of the single values, never below that of their own noise."""
    own = NOISE_LAYERS * (float(layer_sd) * float(tree.scale[-1])) ** 2
    variance = np.maximum(fitted.variance[1:][single], own)
    return float(np.sqrt(np.cumsum(variance)[-1] / len(variance))) if len(variance) else own**0.5


def _without_folded(tree: Measurement, column: Column) -> Measurement:
    """Drop the bucket of unreleased values where the column has no placeholder for it."""
    if column.placeholder is not None or not (tree.kind == KIND_OTHER).any():
        return tree
    stays = tree.kind[:, 0] != KIND_OTHER
    place = np.concatenate([np.cumsum(stays) - 1, [-1]])
    return Measurement(
        columns=tree.columns,
        depth=tree.depth[stays],
        kind=tree.kind[stays],
        level=tree.level[stays],
        index=tree.index[stays],
        parent=place[tree.parent[stays]],
        n=tree.n[stays],
        scale=tree.scale,
        values=tree.values,
    )


def is_leaf(tree: Measurement) -> BoolArray:
    """Nodes without released children."""
    parents = tree.parent[tree.parent >= 0]
    out = np.ones(tree.n_nodes, dtype=bool)
    out[parents] = False
    return out


def _room(
    tree: Measurement, low: Int64Array, high: Int64Array, limits: tuple[int, int] | None
) -> tuple[Int64Array, Int64Array]:
    """Codes of each node that lie in no released child and are possible; low > high where there are none."""
    room_low, room_high = low.copy(), high.copy()
    of_child = np.flatnonzero(tree.parent >= 0)
    same = of_child[tree.level[of_child, 0] == tree.level[tree.parent[of_child], 0]]
    room_high[tree.parent[same]] = room_low[tree.parent[same]] - 1
    halves = of_child[tree.level[of_child, 0] < tree.level[tree.parent[of_child], 0]]
    above = tree.parent[halves]
    upper = low[halves] > low[above]
    # A released upper half leaves the lower one; two released halves leave nothing.
    room_high[above[upper]] = low[halves[upper]] - 1
    room_low[above[~upper]] = high[halves[~upper]] + 1
    if limits is not None:
        valued = (tree.kind[:, 0] == KIND_NEGATIVE) | (tree.kind[:, 0] == KIND_NONNEGATIVE)
        inside = np.maximum(room_low, limits[0]), np.minimum(room_high, limits[1])
        # A leaf that lies wholly outside was released all the same: it keeps its own range.
        narrowed = valued & ((inside[0] <= inside[1]) | ~is_leaf(tree))
        room_low = np.where(narrowed, inside[0], room_low)
        room_high = np.where(narrowed, inside[1], room_high)
    return room_low, room_high


def share_out(
    tree: Measurement,
    mass: FloatArray,
    remainder: FloatArray,
    total: int,
) -> tuple[Int64Array, Int64Array]:
    """Round fitted masses to whole numbers from the root down, by largest remainder within each parent.

    Returns: Entry 0 is the virtual root. Children and remainder add up to their parent exactly.
    """
    parent = tree.parent + 1
    whole = np.zeros(len(mass), dtype=np.int64)
    left = np.zeros(len(mass), dtype=np.int64)
    whole[0] = total
    depth = np.concatenate([[0], tree.depth.astype(np.int64) + 1])
    for level in range(int(depth.max(initial=0)) + 1):
        owners = np.flatnonzero(depth == level)
        children = np.flatnonzero(depth == level + 1)
        owner = np.concatenate([parent[children - 1], owners])
        weight = np.concatenate([mass[children], remainder[owners]])
        parts = largest_remainder(owner, weight, whole)
        whole[children] = parts[: len(children)]
        left[owners] = parts[len(children) :]
    return whole, left


def largest_remainder(owner: Int64Array, weight: FloatArray, whole: Int64Array) -> Int64Array:
    """Share whole[o] among the entries of each owner o in proportion to their weights."""
    sums = np.bincount(owner, weights=weight, minlength=len(whole))
    scale = np.divide(whole, sums, out=np.zeros(len(whole)), where=sums > 0)
    exact = weight * scale[owner]
    floor: Int64Array = np.floor(exact).astype(np.int64)
    # Fractions in fixed point, so that ties are ties everywhere; the earlier entry wins them.
    fraction = ((exact - floor) * (1 << 20)).astype(np.int64)
    missing = whole - np.bincount(owner, weights=floor, minlength=len(whole)).astype(np.int64)
    missing[sums <= 0] = 0
    order = np.lexsort((np.arange(len(owner)), -fraction, owner))
    placed = owner[order]
    heads = np.searchsorted(placed, placed)
    rank = np.arange(len(order)) - heads
    floor[order] += rank < missing[placed]
    return floor


def _on_steps(
    low: Int64Array, high: Int64Array, step: int, leaf: BoolArray
) -> tuple[Int64Array, Int64Array]:
    """Narrow ranges to their first and last multiple of the step; a leaf without one keeps its own range."""
    if step == 1:
        return low, high
    first, last = low + -low % step, high // step * step  # no sum leaves the 64 bits
    narrowed = (first <= last) | ~leaf
    return np.where(narrowed, first, low), np.where(narrowed, last, high)


def _drawn(
    kind: UInt8Array,
    low: Int64Array,
    high: Int64Array,
    rows: Int64Array,
    step: int,
    key: bytes,
) -> tuple[UInt8Array, Int64Array]:
    """Draw a code for each row inside a range, uniform on low, low + step, .., fixed by range and row's number."""
    rows = np.where(low <= high, rows, 0)
    node = np.repeat(np.arange(len(rows)), rows)
    number = np.arange(len(node)) - np.repeat(np.cumsum(rows) - rows, rows)
    if not len(node):
        return kind[:0], low[:0]
    bits = siphash(
        key,
        [
            kind[node].astype(np.uint64),
            low[node].view(np.uint64),
            high[node].view(np.uint64),
            number.astype(np.uint64),
        ],
    )
    stride = np.where((high - low) % step == 0, step, 1)[node]
    size = (high[node] - low[node]).view(np.uint64) // stride.view(np.uint64) + np.uint64(1)
    # A range of one whole sign wraps the size to 2**63 at most, never to 0.
    offset = (bits % np.maximum(size, np.uint64(1))).view(np.int64)
    return kind[node], low[node] + offset * stride


def with_counts(support: Support, n: Int64Array, noise_sd: float) -> Support:
    """A support with other counts of its values; those without rows are dropped."""
    occupied = n > 0
    return replace(
        support,
        kind=support.kind[occupied],
        grid=support.grid[occupied],
        n=n[occupied],
        measured=support.measured[occupied],
        noise_sd=noise_sd,
    )


def _merged(
    column: Column,
    kind: UInt8Array,
    code: Int64Array,
    n: Int64Array,
    measured: BoolArray,
    values: tuple[object, ...] | None,
) -> Support:
    """Sort by kind and code, add up repeats, drop values without rows."""
    code = np.where((kind == KIND_NULL) | (kind == KIND_OTHER), 0, code)
    order = np.lexsort((code, kind))
    kind, code, n, measured = kind[order], code[order], n[order], measured[order]
    fresh = np.ones(len(code), dtype=bool)
    fresh[1:] = (kind[1:] != kind[:-1]) | (code[1:] != code[:-1])
    at = np.flatnonzero(fresh)
    sums = np.add.reduceat(n, at) if len(at) else n
    occupied = sums > 0
    at = at[occupied]
    return Support(
        column=column,
        kind=kind[at],
        grid=code[at],
        n=sums[occupied],
        measured=measured[at],
        values=values,
    )


def found_limits(
    trees: Mapping[str, Measurement], columns: Iterable[Column], deciders: Collection[str] = ()
) -> dict[str, tuple[int, int]]:
    """Smallest and largest code to be drawn, of the columns on a grid that declare no bounds.

    deciders: Columns that decide a universe of any column of the source: they keep their outermost ranges
        whole, for the border may lie in one.
    """
    out = {}
    for column in columns:
        if column.kind not in GRID_KINDS or column.bounds is not None:
            continue
        tree = trees[column.name]
        limits = _limits(tree, column.step, is_whole=column.name in deciders)
        if limits is not None:
            out[column.name] = limits
    return out


def _limits(tree: Measurement, step: int, *, is_whole: bool) -> tuple[int, int] | None:
    """Where the released ranges of one column end; None where it has none."""
    valued = (tree.kind[:, 0] == KIND_NEGATIVE) | (tree.kind[:, 0] == KIND_NONNEGATIVE)
    leaves = np.flatnonzero(valued & is_leaf(tree))
    if not len(leaves):
        return None
    low, high = code_bounds(tree.kind[leaves, 0], tree.level[leaves, 0], tree.index[leaves, 0])
    first, last = int(np.argmin(low)), int(np.argmax(high))
    total = int(tree.n[valued & (tree.depth == 0)].sum())
    few = [not is_whole and int(tree.n[leaves[end]]) * ENDS_OF <= total for end in (first, last)]
    smallest = _inner(int(low[first]), int(high[first]), step) if few[0] else int(low[first])
    largest = -_inner(-int(high[last]), -int(low[last]), step) if few[1] else int(high[last])
    return (smallest, largest) if smallest <= largest else (int(low[first]), int(high[last]))


def _inner(low: int, high: int, step: int) -> int:
    """The last multiple of the step in a range; its last code where it has none."""
    on_step = high // step * step
    return on_step if on_step >= low else high
