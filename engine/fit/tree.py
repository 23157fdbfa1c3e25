"""Bucket trees: where cells lie in them, what every node is fitted to, and how a node's rows are spread over cells.

Sees measurements and published tables only. A node's noisy count minus its released children's estimates the mass of
its unreleased ones. The estimates of one depth are brought onto {x >= 0} with their sum shrunk for its noise (James
and Stein), so that noise does not pass for people; or, where the caller says what is expected there (pairs whose cells
are listed), each is weighed against that, and none is zero. Then released children and remainder are brought to the
parent's fitted count, each giving way by its variance, so that a range has one value and the error of wide ranges does
not grow with the leaves in it. The remainder is blind: it comes from noisy counts alone, never from rows left over.
engine/DESIGN.md, "Fit", says why children give way by variance and are not scaled in proportion. What a node holds
beyond its released children is spread over its own cells in proportion to the narrower tables (maximum entropy given
them; of pairs times what the group has near the value).

Order of operations is fixed, so every machine gets the same bits. Entry 0 of what is said of nodes is the virtual
root, the total.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.kernels import Whole, kernel, part
from engine.params import NOISE_LAYERS
from engine.schema import (
    KIND_NEGATIVE,
    KIND_NONNEGATIVE,
    KIND_NULL,
    KIND_OTHER,
    BoolArray,
    CellGroups,
    FloatArray,
    Int64Array,
    Measurement,
    Support,
    UInt8Array,
    UInt64Array,
)

Codes = NDArray[np.int32]
UNRELEASED_CAP = 4.5
"""Largest fitted count of a cell that was not released as such: one of 5 and more mostly is (the mean threshold)."""
CAPPINGS = 3
"""Times that rows above the cap are shared out among the other cells of a node."""
EVERYWHERE = 1e-6
"""Share of the rows spread over all candidates alike, so that raking can reach every margin."""
LEAST_LEFT = 1e-6
"""Fewest rows that a value is assumed to have outside its released cells."""
NEAR_ROWS = 800
"""Rows of the ordered column, half on each side, that are near a value."""
PRIOR_ROWS = 10.0
"""Weight, in rows, of the prior that a group is as frequent near a value as elsewhere."""
_LEAST = 1e-9  # below it a number of rows is none
_TINY = 1e-300  # so that nothing is divided by 0
_FIXED = 20  # bits behind the point
_SD = NOISE_LAYERS**0.5


class Noise(NamedTuple):
    """What all noisy counts of a release have in common."""

    total: int = 0  # Noisy number of rows
    floor: int = 0  # No released bucket holds fewer entities
    layer_sd: int = 0  # Standard deviation of each layer of noise, in units of a tree's scale


class Tree(NamedTuple):
    """A measurement's buckets; fields as of `engine.schema.Measurement`."""

    depth: UInt8Array
    kind: UInt8Array
    level: UInt8Array
    index: Int64Array  # type: ignore[assignment]  # no tuple is searched
    parent: Int64Array
    n: Int64Array
    scale: Int64Array
    noise: Noise


class Values(NamedTuple):
    """The values of several columns, one column's behind the other's."""

    kind: UInt8Array
    grid: Int64Array
    n: Int64Array
    first: Int64Array  # Where each column begins, and where the last ends


NO_NOISE = Noise()


def tree_of(measurement: Measurement, noise: Noise = NO_NOISE) -> Tree:
    """A measurement as kernels take it."""
    return Tree(
        measurement.depth,
        np.ascontiguousarray(measurement.kind),
        np.ascontiguousarray(measurement.level),
        np.ascontiguousarray(measurement.index),
        measurement.parent,
        measurement.n,
        measurement.scale,
        noise,
    )


def values_of(supports: tuple[Support, ...]) -> Values:
    """The values of some columns as kernels take them."""
    return Values(
        np.concatenate([one.kind for one in supports]),
        np.concatenate([one.grid for one in supports]),
        np.concatenate([one.n for one in supports]),
        np.cumsum([0, *(len(one) for one in supports)]),
    )


class Placement(NamedTuple):
    """Where cells lie in the tree."""

    # shape (n_cells,): Deepest released node that holds the cell, plus 1; 0 where not even a top node does.
    node: Int64Array
    released: BoolArray  # shape (n_cells,): That node is the cell itself


def place_candidates(tree: Measurement, supports: tuple[Support, ...], codes: Codes) -> Placement:
    """Find the deepest released node that holds each cell."""
    return place(tree_of(tree), values_of(supports), np.ascontiguousarray(codes))


@part
def _is_valued(kind: Whole) -> Whole:
    """Kinds that lie on the grid."""
    return kind == KIND_NEGATIVE or kind == KIND_NONNEGATIVE


@part
def _top_ranges(
    tree: Tree, values: Values, n_tops: Whole
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """Top ranges of each column, numbered as they come.

    Returns: levels: Of each column; sizes: Ranges of each column; of_value: The number of each value's range, -1 where
    it lies in none; of_top: The number of each top node among all combinations.
    """
    n_columns = tree.index.shape[1]
    levels, sizes = np.zeros(n_columns, dtype=np.int64), np.zeros(n_columns, dtype=np.int64)
    of_value = np.full(len(values.kind), -1, dtype=np.int64)
    of_top = np.zeros(n_tops, dtype=np.int64)
    kind, index = np.empty(n_tops, dtype=np.int64), np.empty(n_tops, dtype=np.int64)
    for j in range(n_columns):
        size = 0
        for top in range(n_tops):
            levels[j] = max(levels[j], np.int64(tree.level[top, j]))
            place = tree.index[top, j] if _is_valued(tree.kind[top, j]) else np.int64(0)
            at = 0
            while at < size and (kind[at] != tree.kind[top, j] or index[at] != place):
                at += 1
            if at == size:
                kind[at], index[at] = tree.kind[top, j], place
                size += 1
        for top in range(n_tops):
            place = tree.index[top, j] if _is_valued(tree.kind[top, j]) else np.int64(0)
            at = 0
            while kind[at] != tree.kind[top, j] or index[at] != place:
                at += 1
            of_top[top] = of_top[top] * size + at
        for one in range(values.first[j], values.first[j + 1]):
            place = _magnitude(values, one) >> levels[j]
            for at in range(size):
                if kind[at] == values.kind[one] and index[at] == place:
                    of_value[one] = at
        sizes[j] = size
    return levels, sizes, of_value, of_top


@part
def _magnitude(values: Values, one: Whole) -> Whole:
    """How far a value is from 0 on its side; 0 for null and other."""
    if values.kind[one] == KIND_NEGATIVE:
        return ~values.grid[one]
    return values.grid[one] if values.kind[one] == KIND_NONNEGATIVE else np.int64(0)


@part
def _tops(tree: Tree) -> Whole:
    """Number of top nodes."""
    n_tops = 0
    while n_tops < len(tree.depth) and tree.depth[n_tops] == 0:
        n_tops += 1
    return n_tops


@kernel
def place(tree: Tree, values: Values, codes: Codes) -> Placement:
    """Go down from the top node of each cell to its deepest released one."""
    n_nodes, n_columns = tree.index.shape
    n_tops = _tops(tree)
    node_of, released = np.zeros(len(codes), dtype=np.int64), np.zeros(len(codes), dtype=np.bool_)
    if n_tops == 0:
        return Placement(node_of, released)
    levels, sizes, of_value, of_top = _top_ranges(tree, values, n_tops)
    n_ranges = 1
    for size in sizes:
        n_ranges *= size
    top_at = np.full(n_ranges, -1, dtype=np.int64)
    for top in range(n_tops):
        top_at[of_top[top]] = top
    # The child of each node by the half of every column that it takes.
    child = np.full(n_nodes << n_columns, -1, dtype=np.int32)
    single = np.ones(n_nodes, dtype=np.bool_)
    for node in range(n_nodes):
        half = 0
        for j in range(n_columns):
            single[node] &= tree.level[node, j] == 0
            if levels[j] >= tree.depth[node] and _is_valued(tree.kind[node, j]):
                half |= (tree.index[node, j] & 1) << j
        if tree.depth[node] > 0:
            child[(tree.parent[node] << n_columns) | half] = node
    magnitude = np.empty(len(values.kind), dtype=np.int64)
    for one in range(len(magnitude)):
        magnitude[one] = _magnitude(values, one)
    for i in range(len(codes)):
        key, is_inside = np.int64(0), True
        for j in range(n_columns):
            at = of_value[values.first[j] + codes[i, j]]
            is_inside &= at >= 0
            key = key * sizes[j] + at
        below: Whole = top_at[key] if is_inside else np.int64(-1)
        deep: Whole = below
        depth = 1
        while below >= 0:
            deep = below
            half = 0
            for j in range(n_columns):
                if levels[j] >= depth:
                    own = magnitude[values.first[j] + codes[i, j]]
                    half |= ((own >> (levels[j] - depth)) & 1) << j
            below = np.int64(child[(deep << n_columns) | half])
            depth += 1
        node_of[i] = deep + 1
        released[i] = deep >= 0 and single[deep]
    return Placement(node_of, released)


# The fit of a tree.


class FittedTree(NamedTuple):
    """Entry 0 of everything is the virtual root, the total."""

    mass: FloatArray  # Fitted rows in each node
    remainder: FloatArray  # Part of them that lies in no released child
    variance: FloatArray  # Of the error of `mass`: of the noise of the node, its neighbours and all above it


@part
def _most_unreleased(tree: Tree) -> FloatArray:
    """Largest mass of each node's unreleased children: their number times the cap.

    A node has as many children as its columns have halves; the root as many as there are combinations of the
    columns' own top ranges.
    """
    n_nodes, n_columns = tree.index.shape
    n_tops = _tops(tree)
    none = Values(
        np.empty(0, dtype=np.uint8),
        np.empty(0, dtype=np.int64),
        np.empty(0, dtype=np.int64),
        np.zeros(n_columns + 1, dtype=np.int64),
    )
    _, sizes, _, _ = _top_ranges(tree, none, n_tops)
    children = np.ones(n_nodes + 1, dtype=np.int64)
    for size in sizes:
        children[0] *= size
    for node in range(n_nodes):
        for j in range(n_columns):
            if tree.level[node, j] > 0:
                children[node + 1] *= 2
    for node in range(n_nodes):
        children[tree.parent[node] + 1] -= 1
    most = np.empty(n_nodes + 1)
    last = len(tree.scale) - 1
    for node in range(n_nodes + 1):
        below: Whole = 0 if node == 0 else min(np.int64(tree.depth[node - 1]) + 1, last)
        most[node] = UNRELEASED_CAP * max(children[node], 0) * tree.scale[below]
    return most


@kernel
def fitted_tree(
    tree: Tree,
    total: float,
    has_room: BoolArray,
    total_variance: float,
    most: FloatArray,
    expected: FloatArray,
) -> FittedTree:
    """Fit all nodes to a total.

    has_room: Whether a node (the virtual root first) has candidate cells outside its released children.
    most: Largest mass that the unreleased children of a node can hold; empty: it may be anything.
    expected: What each node is expected to hold outside its released children, positive where it has room; empty:
        nothing is.
    """
    n = len(tree.n) + 1
    parent = tree.parent + 1
    counts, raw, own = np.empty(n), np.empty(n), np.empty(n)
    noisy_total, floor, layer_sd = tree.noise
    counts[0], raw[0] = noisy_total, noisy_total
    sd = tree.scale[0] * np.float64(layer_sd)
    own[0] = sd * sd * NOISE_LAYERS
    first = np.zeros(len(tree.scale) + 2, dtype=np.int64)  # where each depth begins, the root's 0
    first[1] = 1
    depth = 1
    for node in range(1, n):
        counts[node], raw[node] = max(tree.n[node - 1], floor), tree.n[node - 1]
        while depth <= tree.depth[node - 1]:
            depth += 1
            first[depth] = node
        sd = tree.scale[tree.depth[node - 1]] * np.float64(layer_sd)
        own[node] = sd * sd * NOISE_LAYERS
    first[depth + 1 :] = n
    of_children, noise_below, n_children = np.zeros(n), np.zeros(n), np.zeros(n, dtype=np.int64)
    for node in range(1, n):
        of_children[parent[node - 1]] += counts[node]
        noise_below[parent[node - 1]] += own[node]
        n_children[parent[node - 1]] += 1
    variance = own + noise_below
    raw -= of_children
    remainder = np.zeros(n)
    for level in range(len(first) - 1):
        _estimate(
            raw, variance, expected, has_room, n_children, first[level], first[level + 1], remainder
        )
    for node in range(n):
        if has_room[node] and n_children[node] == 0:
            remainder[node] = 1.0  # all of it: any positive weight
        if len(most) and n_children[node] > 0:
            remainder[node] = min(remainder[node], most[node])
    own[0] = total_variance
    return _shared_down(parent, first, counts, remainder, variance, own, total)


@part
def _shared_down(
    parent: Int64Array,
    first: Int64Array,
    counts: FloatArray,
    remainder: FloatArray,
    variance: FloatArray,
    own: FloatArray,
    total: float,
) -> FittedTree:
    """Bring children and remainders to their parents' fitted counts, from the root down.

    What they are off together is shared out by variance: each gives way by its own noise, not by its size, so that
    a large leaf does not take over the noise of its small neighbours. None loses more than 3/4; what this leaves is
    settled in proportion.
    """
    n = len(counts)
    mass, left = np.zeros(n), np.zeros(n)
    mass[0] = total
    error = own.copy()
    weight, loose = np.minimum(counts, own), np.minimum(remainder, variance)
    off, weights, together = np.zeros(n), np.zeros(n), np.zeros(n)
    for node in range(1, n):
        above = parent[node - 1]
        off[above] += counts[node]
        weights[above] += weight[node]
        together[above] += own[node]
    off += remainder
    weights += loose
    together += loose
    rate, sums, share = np.zeros(n), np.zeros(n), np.zeros(n)
    for level in range(len(first) - 1):
        begin, end = first[level], first[level + 1]
        last = first[level + 2] if level + 2 < len(first) else end
        for node in range(begin, end):
            rate[node] = (mass[node] - off[node]) / weights[node] if weights[node] > 0 else 0.0
        for node in range(end, last):
            above = parent[node - 1]
            share[node] = max(counts[node] + weight[node] * rate[above], counts[node] / 4)
            sums[above] += share[node]
        for node in range(begin, end):
            rest = max(remainder[node] + loose[node] * rate[node], remainder[node] / 4)
            sums[node] += rest
            rate[node] = mass[node] / sums[node] if sums[node] > 0 else 0.0
            left[node] = rest * rate[node]
        for node in range(end, last):
            above = parent[node - 1]
            mass[node] = share[node] * rate[above]
            part_of = weight[node] / max(weights[above], _TINY)
            neighbours = together[above] - own[node] + error[above]
            rest = 1 - part_of
            error[node] = rest * rest * own[node] + part_of * part_of * neighbours
    return FittedTree(mass, left, error)


@part
def _estimate(
    raw: FloatArray,
    variance: FloatArray,
    expected: FloatArray,
    has_room: BoolArray,
    n_children: Int64Array,
    begin: Whole,
    end: Whole,
    out: FloatArray,
) -> None:
    """Remainders of the nodes of one depth that have children and room: what all hold together, then each its part.

    With nothing expected the sum is shrunk for its noise. Else all together, and then each, are weighed against what is
    expected: raking shares out a value's rows by what its cells hold. If a remainder were zero as noise had it, all
    rows of the values in there would go to other boxes, however unlikely: of NIST's 612 people in group quarters 100
    came to have incomes that one of them has.
    """
    size = 0
    here = np.empty(end - begin, dtype=np.int64)
    raws = noise = together = 0.0
    for node in range(begin, end):
        if has_room[node] and n_children[node] > 0:
            here[size] = node
            size += 1
            raws += raw[node]
            noise += variance[node]
            if len(expected):
                together += expected[node]
    if size == 0:
        return
    here = here[:size]
    if len(expected):
        all_of_them = _likeliest(raws, noise, together)
        for node in here:
            share = expected[node] / together
            out[node] = _likeliest(raw[node], variance[node], share * all_of_them)
        return
    shrunk = max(raws - noise / raws, 0.0) if raws > 0 else 0.0
    if shrunk <= 0:
        return
    # The nearest point with no negative entry and this sum, the Euclidean projection onto a simplex: max(x - t, 0) for
    # the one t that gives the sum; Held, Wolfe and Crowder 1974, doi:10.1007/BF01580223.
    rising = np.sort(raw[here])
    running, t = 0.0, 0.0
    for i in range(size):
        one = rising[size - 1 - i]
        running += one
        shift = (running - shrunk) / (i + 1)
        if one >= shift:
            t = shift
    for node in here:
        out[node] = max(raw[node] - t, 0.0)


@part
def _likeliest(x: float, variance: float, expected: float) -> float:
    """A positive number behind a noisy one: near x where that is large, near what is expected where that is small.

    The mode where a number is Gamma distributed with shape 2 and scale `expected`, and noise is normal: the positive
    root of y^2 - (x - variance / expected) y - variance.
    """
    lower = x - variance / max(expected, _LEAST)
    root: float = np.sqrt(lower * lower + 4 * variance)
    # Of the two spellings of the root the one that takes no difference of near numbers.
    if lower > 0:
        return (lower + root) / 2
    return 2 * variance / max(root - lower, _LEAST)


# What cells hold before raking.


@kernel
def filled(
    tree: Tree,
    values: Values,
    codes: Codes,
    placement: Placement,
    weight: FloatArray,
    along: int,
) -> FloatArray:
    """Rows of cells before raking: those of a pair fitted twice, the second time by what the first has nearby.

    weight: By which rows that no released cell has are spread.
    along: Which of two columns has values that lie near each other; -1 where neither has.
    """
    node, released = placement
    total = np.int64(0)
    for one in range(values.first[0], values.first[1]):
        total += values.n[one]
    has_room = np.zeros(len(tree.n) + 1, dtype=np.bool_)
    for i in range(len(node)):
        if not released[i]:
            has_room[node[i]] = True
    most = _most_unreleased(tree)
    rows, cap = np.float64(total), np.full(len(most), UNRELEASED_CAP * tree.scale[-1])
    x, expected = weight, np.empty(0)
    is_pair = codes.shape[1] == 2
    for turn in range(2 if is_pair and along >= 0 else 1):
        if turn:
            weight = _weighted_nearby(weight, x, values, codes, along)
        if is_pair:
            expected = _expected(tree, values, codes, node, released, weight)
        mass, left, _ = fitted_tree(tree, rows, has_room, 0.0, most, expected)
        x = _spread(mass, left, node, released, weight, cap)
    return x


@kernel
def boxes_filled(
    tree: Tree,
    owner: Int64Array,
    weight: FloatArray,
    total: float,
) -> tuple[FloatArray, FloatArray]:
    """Fitted rows of all nodes, and of children of theirs that were not released.

    owner: Of each such child its parent, from 1, 0 for the virtual root; nodes that have released children only.
    """
    has_room = np.zeros(len(tree.n) + 1, dtype=np.bool_)
    for one in owner:
        has_room[one] = True
    most = _most_unreleased(tree)
    mass, left, _ = fitted_tree(tree, total, has_room, 0.0, most, np.empty(0))
    last = len(tree.scale) - 1
    cap = np.full(len(mass), UNRELEASED_CAP * tree.scale[0])
    for node in range(1, len(mass)):
        below: Whole = min(np.int64(tree.depth[node - 1]) + 1, last)
        cap[node] = UNRELEASED_CAP * tree.scale[below]
    return mass, _spread(mass, left, owner, np.zeros(len(owner), dtype=np.bool_), weight, cap)


@kernel
def in_whole(
    parent: Int64Array, x: FloatArray, total: int, words: UInt64Array, n_parents: int
) -> Int64Array:
    """Round what the parts of every parent hold: by differences of floors of running sums, from keyed starts.

    parent: Of each part; 0 is the virtual root. Behind it the first parts are the other parents, in their order.
    words: Of each parent 64 random bits.

    Returns: Whole rows of each part, which add up to those of their parent.
    """
    first = np.zeros(n_parents + 1, dtype=np.int64)
    for one in parent:
        first[one + 1] += 1
    for one in range(n_parents):
        first[one + 1] += first[one]
    free, order = first[:-1].copy(), np.empty(len(parent), dtype=np.int64)
    have = np.zeros(n_parents)
    for i in range(len(parent)):
        order[free[parent[i]]] = i
        free[parent[i]] += 1
        have[parent[i]] += x[i]
    rows = np.empty(len(parent), dtype=np.int64)
    for one in range(n_parents):
        target: Whole = total if one == 0 else rows[one - 1]
        scale = target / have[one] if have[one] > _TINY else 0.0
        start = np.int64(words[one] >> np.uint64(64 - _FIXED))
        running = 0.0
        before: Whole = np.int64(0)
        for at in range(first[one], first[one + 1]):
            running += x[order[at]]
            upto: Whole = (np.int64(running * scale * (1 << _FIXED)) + start) >> _FIXED
            upto = min(max(upto, before), target)
            if at == first[one + 1] - 1:
                upto = target  # whatever floats made of it
            rows[order[at]] = upto - before
            before = upto
    return rows


@part
def _total(x: FloatArray) -> float:
    """Sum in the order of the entries."""
    total = 0.0
    for one in x:
        total += one
    return total


@part
def _total_or_one(x: FloatArray) -> float:
    """The same, 1 where it is 0."""
    total = _total(x)
    return total if total != 0.0 else 1.0


@part
def _spread(
    mass: FloatArray,
    remainder: FloatArray,
    node: Int64Array,
    released: BoolArray,
    weight: FloatArray,
    cap: FloatArray,
) -> FloatArray:
    """Give each node's remainder to its own cells by weight, capped for cells that were not released."""
    x, sums, cut = np.zeros(len(node)), np.zeros(len(mass)), np.zeros(len(mass))
    for i in range(len(node)):
        if released[i]:
            x[i] = mass[node[i]]  # alone in its node
        else:
            sums[node[i]] += weight[i]
    for i in range(len(node)):
        if not released[i]:
            x[i] = weight[i] * (remainder[node[i]] / sums[node[i]] if sums[node[i]] > 0 else 0.0)
    for _ in range(CAPPINGS):  # what the cap cuts off goes to the others of the node
        cut[:], sums[:] = 0.0, 0.0
        is_over = False
        for i in range(len(node)):
            if released[i]:
                continue
            if x[i] > cap[node[i]]:
                is_over = True
                cut[node[i]] += cap[node[i]]
            else:
                sums[node[i]] += weight[i]
        if not is_over:
            break
        for i in range(len(node)):
            one = node[i]
            if released[i] or sums[one] <= 0:
                continue  # a node whose cells are all full keeps its mass: shared out over them again
            if x[i] > cap[one]:
                x[i] = cap[one]
            else:
                x[i] = weight[i] * (max(remainder[one] - cut[one], 0.0) / sums[one])
    everywhere = EVERYWHERE * mass[0] / _total_or_one(weight)
    for i in range(len(node)):
        x[i] += weight[i] * everywhere
    return x


@part
def _expected(
    tree: Tree,
    values: Values,
    codes: Codes,
    node: Int64Array,
    released: BoolArray,
    weight: FloatArray,
) -> FloatArray:
    """Rows expected in each node's cells that were not released; of a table of two columns.

    As many as released cells leave of all rows, spread by weight; but each value's weights are first brought to what
    its released cells leave, of one column and then of the other: where these have all, next to none are expected
    elsewhere, so that combinations which cannot be stay empty. The mean of both orders depends on neither, and is right
    where values keep to separate blocks.
    """
    left, counted, total = np.zeros(values.first[2]), 0.0, 0.0
    for i in range(len(node)):
        if released[i]:
            rows_of = np.float64(tree.n[node[i] - 1])
            counted += rows_of
            for j in range(2):
                left[values.first[j] + codes[i, j]] += rows_of
    for one in range(len(left)):
        left[one] = max(values.n[one] - left[one], LEAST_LEFT)
    for one in range(values.first[1]):
        total += values.n[one]
    together = max(total - counted, LEAST_LEFT)
    both = np.zeros((2, len(node)))
    sums = np.empty(len(left))
    for first in range(2):
        rows = both[first]
        rows[:] = weight
        for j in (first, 1 - first):
            begin = values.first[j]
            sums[:] = 0.0
            for i in range(len(node)):
                if not released[i]:
                    sums[begin + codes[i, j]] += rows[i]
            for i in range(len(node)):
                if not released[i]:
                    one = begin + codes[i, j]
                    rows[i] = rows[i] * left[one] / sums[one]
    expected = np.zeros(len(tree.n) + 1)
    for i in range(len(node)):
        if not released[i]:
            expected[node[i]] += (both[0, i] + both[1, i]) / 2
    scale = together / max(_total(expected), _TINY)
    for one in range(len(expected)):
        expected[one] *= scale
    return expected


@part
def _weighted_nearby(
    weight: FloatArray, fitted: FloatArray, values: Values, codes: Codes, along: Whole
) -> FloatArray:
    """Weights of a pair's cells, times how many rows of the group a first fit has near the value.

    Where a box holds several groups, nothing in it says which of them has the highest incomes. The released cells near
    it do: so a group counts for more where more of it was fitted, on `NEAR_ROWS` rows, than independence gives. The
    ratio is the mean of its posterior distribution where it is Gamma distributed around 1, as in maps of rare diseases
    (Clayton and Kaldor 1987, doi:10.2307/2532003), of shape `PRIOR_ROWS`.
    """
    scale = _total(fitted) / _total_or_one(weight)
    first, past = _near_values(values, along)
    n_values, n_groups = len(first), values.first[2 - along] - values.first[1 - along]
    near, alone = np.zeros((n_values + 1, n_groups)), np.zeros((n_values + 1, n_groups))
    for i in range(len(codes)):
        near[codes[i, along] + 1, codes[i, 1 - along]] += fitted[i]
        alone[codes[i, along] + 1, codes[i, 1 - along]] += weight[i] * scale
    for value in range(1, n_values + 1):
        for group in range(n_groups):
            near[value, group] += near[value - 1, group]
            alone[value, group] += alone[value - 1, group]
    out = np.empty(len(weight))
    for i in range(len(codes)):
        value, group = codes[i, along], codes[i, 1 - along]
        have = near[past[value], group] - near[first[value], group]
        wanted = alone[past[value], group] - alone[first[value], group]
        out[i] = weight[i] * (have + PRIOR_ROWS) / (wanted + PRIOR_ROWS)
    return out


@part
def _near_values(values: Values, along: Whole) -> tuple[Int64Array, Int64Array]:
    """For each value of an ordered column the first one near it, and the one past the last: `NEAR_ROWS` rows around it.

    A value of which part lies so near counts in full. A value is near itself; null and other are near nothing else.
    """
    begin, n_values = values.first[along], values.first[along + 1] - values.first[along]
    twice = np.zeros(n_values + 1, dtype=np.int64)  # twice the rows before each value
    low, high = n_values, 0
    for value in range(n_values):
        twice[value + 1] = twice[value] + 2 * values.n[begin + value]
        if _is_valued(values.kind[begin + value]):
            low, high = min(low, value), value + 1
    first, past = np.arange(n_values), np.arange(1, n_values + 1)
    for value in range(n_values):
        if _is_valued(values.kind[begin + value]):
            middle = (twice[value] + twice[value + 1]) // 2
            near = np.searchsorted(twice, middle - NEAR_ROWS, side="right") - 1
            first[value] = min(max(near, low), value)
            near = np.searchsorted(twice, middle + NEAR_ROWS)
            past[value] = min(max(near, value + 1), high)
    return first, past


# What a reader can know of the noise.


def cell_groups(
    tree: Measurement, placement: Placement, n: Int64Array, layer_sd: int, least_sd: float = 0.0
) -> CellGroups:
    """What is known of the noise, a group for each released cell and each filled box that holds rows.

    `least_sd` is the error of what the table is locked to: no group claims less.
    """
    of_tree = tree_of(tree)
    kind, low, high, rows, sd, measured, depth, tops = group_fields(
        of_tree, placement, n, layer_sd, float(least_sd)
    )
    return CellGroups(
        kind=kind,
        low=low,
        high=high,
        n=rows,
        noise_sd=sd,
        measured=measured,
        depth=depth,
        tops=tuple(tops.tolist()),
        scale=tuple(tree.scale.tolist()),
    )


@kernel
def group_fields(
    tree: Tree,
    placement: Placement,
    n: Int64Array,
    layer_sd: int,
    least_sd: float,
) -> tuple[
    UInt8Array,
    Int64Array,
    Int64Array,
    Int64Array,
    FloatArray,
    BoolArray,
    NDArray[np.int8],
    Int64Array,
]:
    """Fields of `CellGroups`, by node, in each what was filled first."""
    node, released = placement
    n_nodes, n_columns = tree.index.shape
    rows_of = np.zeros(2 * (n_nodes + 1), dtype=np.int64)
    there = np.zeros(2 * (n_nodes + 1), dtype=np.bool_)
    for i in range(len(node)):
        rows_of[2 * node[i] + released[i]] += n[i]
        there[2 * node[i] + released[i]] = True
    size = 0
    for one in there:
        size += one
    kind = np.full((size, n_columns), KIND_NEGATIVE, dtype=np.uint8)
    # No box: rows outside every released top bucket; low > high marks it.
    low, high = np.ones((size, n_columns), dtype=np.int64), np.zeros((size, n_columns), np.int64)
    rows, sd = np.empty(size, dtype=np.int64), np.empty(size)
    measured, depth = np.empty(size, dtype=np.bool_), np.full(size, -1, dtype=np.int8)
    at = 0
    for group in range(len(there)):
        if not there[group]:
            continue
        one = group // 2 - 1
        rows[at], measured[at] = rows_of[group], group % 2 == 1
        if one >= 0:
            depth[at] = tree.depth[one]
            for j in range(n_columns):
                kind[at, j] = tree.kind[one, j]
                first = tree.index[one, j] << np.int64(tree.level[one, j])
                last = first + ((np.int64(1) << np.int64(tree.level[one, j])) - 1)
                if kind[at, j] == KIND_NEGATIVE:
                    first, last = ~last, ~first
                elif kind[at, j] == KIND_NULL or kind[at, j] == KIND_OTHER:
                    first, last = np.int64(0), np.int64(0)
                low[at, j], high[at, j] = first, last
        sd[at] = max(tree.scale[max(depth[at], 0)] * np.float64(layer_sd) * _SD, least_sd)
        at += 1
    tops = np.zeros(n_columns, dtype=np.int64)
    for top in range(_tops(tree)):
        for j in range(n_columns):
            tops[j] = max(tops[j], np.int64(tree.level[top, j]))
    return kind, low, high, rows, sd, measured, depth, tops
