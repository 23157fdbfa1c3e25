"""From noisy margins to targets that agree."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import TypeVar

import numpy as np

from engine.errors import InternalError
from engine.levels import Margin, StructuralZero, tree_sizes
from engine.params import Post
from engine.schema import BoolArray, ColumnSet, FloatArray, Int64Array

# What the fit of a joint distribution works on: targets for its margins, and how well they were met.


Sizes = Mapping[str, int]
"""Number of levels of each column."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """What one margin of the joint distribution should be."""

    columns: ColumnSet
    n: FloatArray  # One axis a column, never negative. All targets of a fit have the same sum.


@dataclass(frozen=True, kw_only=True, slots=True)
class FitReport:
    """How a fit ended."""

    how: str  # "dense", "junction tree" or "support rows"
    cycles: int
    # Largest sum of absolute differences between a margin and its target, as a share of all rows.
    error: float
    converged: bool  # The error is within the tolerance
    # It is, or more cycles would not make it smaller: the targets contradict each other, as noisy ones do.
    at_rest: bool = True


PATIENCE = 5
"""Cycles in which the error must fall by LEAST_GAIN."""
LEAST_GAIN = 0.01
FIRST = 10
"""Cycles that are always allowed."""


def run_cycles(
    cycle: Callable[[], float], *, max_cycles: int, tolerance: float
) -> tuple[int, bool]:
    """Run cycles until the error is within the tolerance, or no longer falls.

    cycle: Rakes to every margin once; gives the largest error met on the way, as a share of all rows.

    Returns: The error is within the tolerance, or has stopped to fall: more cycles would not help.
    """
    errors: list[float] = []
    while len(errors) < max_cycles:
        errors.append(cycle())
        if errors[-1] <= tolerance or _stands_still(errors):
            return len(errors), True
    return len(errors), False


def _stands_still(errors: list[float]) -> bool:
    if len(errors) < FIRST:
        return False
    return errors[-1] > (1 - LEAST_GAIN) * errors[-1 - PATIENCE]


# One-way margins that were measured as trees: one consistent estimate of every leaf.
#
# Takes a margin whose inner depths were counted too (`Margin.tree`) and the total; gives leaf estimates in which every
# node is the sum of what stands under it. A range of many leaves is a few nodes, so its error grows with the depth of
# the tree, not with the number of leaves. Hay, Rastogi, Miklau and Suciu 2010, section 4, arXiv:0904.0942; here with
# weights, because the last node of a depth may hold fewer than the others, which keeps it the least-squares estimate.


@dataclass(frozen=True, kw_only=True, slots=True)
class _Depth:
    """All nodes of one depth, by the node above them; where there is no node, `exists` is False."""

    # estimate, variance: shape (n_above, branching): From the node's own count and all below it. 0 where
    # there is no node.
    estimate: FloatArray
    variance: FloatArray
    exists: BoolArray  # shape (n_above, branching)


def leaves(margin: Margin, total: Margin | None) -> tuple[FloatArray, float]:
    """Least-squares estimates of the leaves, given every count of the tree.

    Returns: n: May be negative; variance: Mean variance of `n`.
    """
    depths = _upward(margin)
    value, variance = root_of(margin)
    if total is not None:
        value, variance = _combined(value, variance, float(total.n), total.variance)
    above, spread = np.array([value]), np.array([variance])
    for depth in depths:
        share = _shares(depth)
        missing = above - depth.estimate.sum(axis=1)
        below = depth.estimate + share * missing[:, None]
        doubt = depth.variance * (1.0 - share) + share**2 * spread[:, None]
        above, spread = below[depth.exists], doubt[depth.exists]
    return above, float(spread.mean())


def root_of(margin: Margin) -> tuple[float, float]:
    """Estimate of the sum of all leaves from every count of the tree, and its variance: far below that of their sum."""
    top = _upward(margin)[0]
    return float(top.estimate.sum()), float(top.variance.sum())


def nonnegative_leaves(margin: Margin, total: float) -> FloatArray:
    """Leaf estimates, none below 0, that add up to a total: the nearest ones, depth by depth from the root.

    Every node's own estimate is settled before that of its parts, so that wide ranges stay right where the cut at 0
    moves rows between leaves.

    total: What the leaves add up to, at least 0.
    """
    if not total >= 0:
        raise InternalError("leaves cannot add up to less than 0")
    above = np.array([float(total)])
    for depth in _upward(margin):
        nearest = _on_simplex(depth.estimate, _weights(depth), depth.exists, above)
        above = nearest[depth.exists]
    return above


def _upward(margin: Margin) -> list[_Depth]:
    """Depths below the root, the coarsest first, each estimate from what stands at and under the node."""
    counts = [np.asarray(n, dtype=np.float64) for n in (*margin.tree, margin.n)]
    if margin.n.ndim != 1:
        raise InternalError("only margins of one column can be trees")
    n_leaves = len(margin.n)
    branching = margin.branching or max(n_leaves, 1)
    inner = tree_sizes(n_leaves, branching) if margin.branching else ()
    if tuple(len(n) for n in counts[:-1]) != inner or n_leaves == 0:
        raise InternalError("the depths of a tree are not those that its leaves make")
    depths: list[_Depth] = []
    below: _Depth | None = None
    for n in reversed(counts):
        estimate, variance = n, np.full(len(n), float(margin.variance))
        if below is not None:
            estimate, variance = _combine(
                below.estimate.sum(axis=1), below.variance.sum(axis=1), estimate, variance
            )
        below = _grouped(estimate, variance, branching)
        depths.append(below)
    return depths[::-1]


def _grouped(estimate: FloatArray, variance: FloatArray, branching: int) -> _Depth:
    """Nodes by the node above: so many in a row, the last row filled up with nothing."""
    rows = -(-len(estimate) // branching)
    exists = np.arange(rows * branching).reshape(rows, branching) < len(estimate)
    parts = np.zeros((2, rows, branching))
    parts[0][exists], parts[1][exists] = estimate, variance
    return _Depth(estimate=parts[0], variance=parts[1], exists=exists)


def _combine(
    a: FloatArray, a_variance: FloatArray, b: FloatArray, b_variance: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Mean of two independent estimates by their precision; the exact one, where one is."""
    both = a_variance + b_variance
    share = np.divide(a_variance, both, out=np.zeros_like(both), where=both > 0)  # of b
    return a + share * (b - a), a_variance * (1.0 - share)


def _combined(a: float, a_variance: float, b: float, b_variance: float) -> tuple[float, float]:
    """`_combine` for one pair; of two exact ones the second counts."""
    share = a_variance / (a_variance + b_variance) if a_variance + b_variance > 0 else 1.0
    return a + share * (b - a), a_variance * (1.0 - share)


def _weights(depth: _Depth) -> FloatArray:
    """Variances, or ones where all counts are exact; 0 where there is no node."""
    exact = not depth.variance.any()
    return depth.exists.astype(np.float64) if exact else depth.variance


def _shares(depth: _Depth) -> FloatArray:
    """What part of its parent's correction each node takes."""
    weight = _weights(depth)
    share: FloatArray = weight / weight.sum(axis=1, keepdims=True)
    return share


def _on_simplex(
    estimate: FloatArray, weight: FloatArray, exists: BoolArray, mass: FloatArray
) -> FloatArray:
    """Nearest points to the estimates, by their variances, that are at least 0 and add up to the mass of each row.

    They are max(estimate - t variance, 0) for the one t of each row that gives its mass. Held, Wolfe and Crowder 1974,
    doi:10.1007/BF01580223.
    """
    ratio = np.full(weight.shape, -np.inf)
    np.divide(estimate, weight, out=ratio, where=exists)
    order = np.argsort(-ratio, axis=1, kind="stable")
    ranked = np.take_along_axis(ratio, order, axis=1)
    reached = np.cumsum(np.take_along_axis(estimate, order, axis=1), axis=1)
    heavy = np.cumsum(np.take_along_axis(weight, order, axis=1), axis=1)
    shift = (reached - mass[:, None]) / heavy
    n_positive = np.maximum((ranked > shift).sum(axis=1), 1)
    chosen = np.take_along_axis(shift, n_positive[:, None] - 1, axis=1)
    points: FloatArray = np.maximum(estimate - chosen * weight, 0.0) * exists
    return points


# Columns whose levels lie in those of others: areas in regions.
#
# What is impossible says it: every level of the finer column can have one level of the coarser one only. So a margin of
# the finer column says something of the coarser one, and the other way round. Upward: sums over the areas of a region
# are further estimates of what is measured by region, combined by variance. Downward: areas give way until they add up
# to their region, all alike, as their noise is alike. With even fans this is Hay et al.'s least-squares estimate.


@dataclass(frozen=True, kw_only=True, slots=True)
class Nesting:
    """A column each of whose levels lies in one level of another."""

    finer: str
    coarser: str
    of: Int64Array  # shape (n_finer,): The coarser column's level of each level of the finer one
    n: int  # Levels of the coarser column

    def lifted(self, columns: ColumnSet) -> ColumnSet:
        """The columns with the coarser one in place of the finer one."""
        return tuple(sorted({*columns} - {self.finer} | {self.coarser}))

    def place(self, columns: ColumnSet) -> int:
        """The axis of the coarser column in the lifted columns."""
        return self.lifted(columns).index(self.coarser)

    def summed(self, n: FloatArray, axis: int) -> FloatArray:
        """Sums over the levels of the finer column that lie in each level of the coarser one, along the same axis."""
        parts = np.moveaxis(n, axis, 0)
        out = np.zeros((self.n, *parts.shape[1:]))
        np.add.at(out, self.of, parts)
        return np.moveaxis(out, 0, axis)


def nestings(zeros: Sequence[StructuralZero]) -> tuple[Nesting, ...]:
    """All pairs of columns of which the one follows from the other, the coarser ones first."""
    ruled: dict[ColumnSet, BoolArray] = {}
    for zero in zeros:
        if len(zero.columns) == 2:
            names = tuple(sorted(zero.columns))
            cells = zero.cells if names == zero.columns else zero.cells.T
            ruled[names] = ruled[names] | cells if names in ruled else cells
    found = []
    for names, impossible in ruled.items():
        for (finer, coarser), cells in ((names, impossible), (names[::-1], impossible.T)):
            if cells.shape[0] > cells.shape[1] > 1 and ((~cells).sum(axis=1) == 1).all():
                of = np.argmin(cells, axis=1).astype(np.int64)
                found.append(Nesting(finer=finer, coarser=coarser, of=of, n=cells.shape[1]))
    return tuple(sorted(found, key=lambda one: (one.n, one.coarser, len(one.of), one.finer)))


def finest_above(columns: ColumnSet, nested: Sequence[Nesting]) -> Nesting | None:
    """The nesting by which a table of some columns is lifted by one step; None where there is none."""
    return next((o for o in nested[::-1] if o.finer in columns and o.coarser not in columns), None)


def _lifted(
    columns: ColumnSet, n: FloatArray, nested: Sequence[Nesting]
) -> dict[ColumnSet, tuple[FloatArray, frozenset[str]]]:
    """A margin by coarser columns in the place of finer ones, in all ways, and which those are."""
    out: dict[ColumnSet, tuple[FloatArray, frozenset[str]]] = {}
    waiting = [(columns, n, frozenset[str]())]
    while waiting:
        names, held, new = waiting.pop()
        for one in nested:
            above = one.lifted(names)
            if one.finer in names and one.coarser not in names and above not in out:
                axis = names.index(one.finer)
                sums = np.moveaxis(one.summed(held, axis), axis, one.place(names))
                out[above] = sums, new - {one.finer} | {one.coarser}
                waiting.append((above, *out[above]))
    return out


def _led(
    part: FloatArray, flat: FloatArray, above: FloatArray | float, one: Nesting, axis: int
) -> FloatArray:
    """A component of the finer column with the sums by the coarser one that are given.

    flat: The component without the column. Even shares of it differ: by areas alike, regions have as much of it as
        they have areas.
    above: The component with the coarser column along the same axis; 0: sums of nothing.
    """
    levels = _joined(flat / len(one.of), part, axis)
    wanted = _joined(flat / one.n, above, axis) if isinstance(above, np.ndarray) else 0.0
    size = np.maximum(np.bincount(one.of, minlength=one.n), 1)
    size = size.reshape([-1 if k == axis else 1 for k in range(part.ndim)])
    gap = (wanted - one.summed(levels, axis)) / size
    return _contrasts(levels + np.take(gap, one.of, axis=axis), axis)


def within_sums(
    n: FloatArray, possible: BoolArray, above: FloatArray, one: Nesting, axis: int
) -> FloatArray:
    """The nearest counts that are not negative, nothing where nothing is possible, and have given sums by the coarser
    column: `on_simplex` in each of its levels."""
    parts, can_be = np.moveaxis(n, axis, 0), np.moveaxis(possible, axis, 0)
    wanted, out = np.moveaxis(above, axis, 0), np.zeros_like(parts)
    for level in range(one.n):
        inside = np.flatnonzero(one.of == level)
        if not len(inside):
            continue
        block = parts[inside].reshape(len(inside), -1).T
        exists = can_be[inside].reshape(len(inside), -1).T
        some = exists.any(axis=1)
        found = np.zeros_like(block)
        found[some] = _on_simplex(
            block[some],
            exists[some].astype(np.float64),
            exists[some],
            np.maximum(wanted[level].ravel()[some], 0.0),
        )
        out[inside] = found.T.reshape(len(inside), *parts.shape[1:])
    return np.moveaxis(out, 0, axis)


# Shrinkage: components of margins in, the same with less of what is only noise out.


Components = dict[ColumnSet, FloatArray]
"""Components of a margin, by the columns they vary with.

Each is the sum over all other columns, in orthonormal coordinates that leave out the mean along each column of its own:
one coordinate fewer than the column has levels. So all components of a margin together are as large as the margin.
"""


def components(n: FloatArray, columns: ColumnSet) -> Components:
    """Take a margin apart into its components.

    n: One axis a column, each of at least one level.
    """
    parts: Components = {(): n}
    for name in columns:
        split: Components = {}
        for subset, part in parts.items():
            axis = len(subset)
            split[subset] = part.sum(axis=axis)
            split[(*subset, name)] = _contrasts(part, axis)
        parts = split
    return parts


def assembled(
    parts: Mapping[ColumnSet, FloatArray], sizes: Sequence[int], columns: ColumnSet
) -> FloatArray:
    """Put a margin together from its components: the inverse of `components`."""
    built = {subset: parts[subset] for subset in _subsets(columns)}
    for place in reversed(range(len(columns))):
        name = columns[place]
        built = {
            subset: _joined(built[subset] / sizes[place], built[(*subset, name)], len(subset))
            for subset in _subsets(columns[:place])
        }
    return built[()]


def mean_components(
    margins: Sequence[tuple[ColumnSet, FloatArray, float]], nested: Sequence[Nesting] = ()
) -> tuple[Components, dict[ColumnSet, float]]:
    """Weighted mean of every component over the margins that have it, and the variance of its noise."""
    sums: Components = {}
    weights: dict[ColumnSet, float] = {}
    for columns, n, variance in margins:
        # Lifted to coarser columns, a margin has no new information on the others. Levels of several sizes have
        # unequal noise: it is taken as its mean.
        views = {columns: (n, frozenset[str]()), **_lifted(columns, n, nested)}
        for names, (held, new) in views.items():
            size = dict(zip(names, held.shape, strict=True))
            for subset, part in components(held, names).items():
                if not new <= {*subset}:
                    continue
                # A component of fewer columns is a sum over all others: its noise adds up.
                weight = prod(size[name] for name in subset) / (variance * n.size)
                sums[subset] = sums.get(subset, 0.0) + part * weight
                weights[subset] = weights.get(subset, 0.0) + weight
    return (
        {subset: part / weights[subset] for subset, part in sums.items()},
        {subset: 1.0 / weight for subset, weight in weights.items()},
    )


def _contrasts(part: FloatArray, axis: int) -> FloatArray:
    """Coordinates of what varies along an axis: each level against the mean of those before it (Helmert)."""
    rank, length = _helmert(part.shape[axis], part.ndim - axis)
    before = np.cumsum(part, axis=axis)
    out: FloatArray = (before[_but_last(axis)] - rank * part[_but_first(axis)]) / length
    return out


def _joined(mean: FloatArray, contrasts: FloatArray, axis: int) -> FloatArray:
    """Put a mean and the coordinates along an axis that it lacks together: the inverse of `_contrasts`."""
    levels = contrasts.shape[axis] + 1
    rank, length = _helmert(levels, contrasts.ndim - axis)
    scaled = contrasts / length
    out = np.repeat(np.expand_dims(mean, axis), levels, axis=axis)
    out[_but_last(axis)] += np.flip(np.cumsum(np.flip(scaled, axis), axis=axis), axis)
    out[_but_first(axis)] -= rank * scaled
    return out


def _helmert(size: int, n_axes: int) -> tuple[FloatArray, FloatArray]:
    """Rank and length of each contrast of so many levels, along the first of some axes."""
    rank = np.arange(1.0, size).reshape(-1, *(1,) * (n_axes - 1))
    return rank, np.sqrt(rank * (rank + 1))


def _but_last(axis: int) -> tuple[slice, ...]:
    return (*(slice(None),) * axis, slice(-1))


def _but_first(axis: int) -> tuple[slice, ...]:
    return (*(slice(None),) * axis, slice(1, None))


def _subsets(columns: ColumnSet) -> list[ColumnSet]:
    """All subsets of columns, each in their order."""
    return [subset for width in range(len(columns) + 1) for subset in combinations(columns, width)]


DIRECTIONS_FIRST = 1.3
"""How much more error than of shrinking as a whole is put up with: the expected one is on the safe side (measured)."""


def shrunk(
    parts: Components,
    variances: Mapping[ColumnSet, float],
    fixed: Collection[ColumnSet] = (),
    nested: Sequence[Nesting] = (),
) -> Components:
    """Shrink every component but the total by as much of it as is noise, toward what fewer columns make likely.

    A single column is shrunk toward evenness; several columns toward what they would be if they were independent; a
    finer column toward evenness, or independence, within the levels of the coarser one, whose sums it keeps. As a
    whole (positive-part James-Stein), or, of pairs, singular value by singular value where that is expected to leave
    less error: associations of two columns are mostly a few strong directions.
    """
    rows = max(float(parts.get((), np.array(0.0))), 1.0)
    out: Components = {}
    above = {subset: finest_above(subset, nested) for subset in parts}

    def depth(subset: ColumnSet) -> int:
        one = above[subset]
        lifted = one.lifted(subset) if one else subset
        return 1 + depth(lifted) if one and lifted in above else 0

    for subset in sorted(parts, key=lambda subset: (len(subset), depth(subset))):
        likely = _independent(out, subset, rows)
        beyond, freedom, one = parts[subset] - likely, 1.0, above[subset]
        if one is not None and one.lifted(subset) in out and subset not in fixed:
            axis = subset.index(one.finer)
            coarse = np.moveaxis(out[one.lifted(subset)], one.place(subset), axis)
            flat = out[tuple(name for name in subset if name != one.finer)]
            likely = _led(np.broadcast_to(likely, beyond.shape), flat, coarse, one, axis)
            beyond = _led(beyond, np.zeros_like(flat), 0.0, one, axis)
            freedom = (len(one.of) - one.n) / (len(one.of) - 1)
        if subset and subset not in fixed:
            beyond = _less_noise(beyond, variances[subset], freedom)
        out[subset] = likely + beyond
    return out


def _independent(parts: Components, subset: ColumnSet, rows: float) -> FloatArray:
    """A component as it would be if its columns were independent; nothing for a single column."""
    if len(subset) < 2 or any((name,) not in parts for name in subset):
        return np.array(0.0)
    likely = parts[subset[:1]]
    for name in subset[1:]:
        likely = np.multiply.outer(likely, parts[(name,)]) / rows
    return likely


def _less_noise(part: FloatArray, variance: float, freedom: float) -> FloatArray:
    """Shrink a component toward 0, by whichever way leaves less error.

    freedom: Share of its coordinates that are free.
    """
    dimensions = part.size * freedom
    energy = float((part * part).sum())
    if dimensions <= 2 or energy <= 0:
        return part
    signal = max(energy - dimensions * variance, 0.0)
    share = max(0.0, 1.0 - (dimensions - 2) * variance / energy)
    pair, left = of_low_rank(part, variance, signal)
    return pair if left < DIRECTIONS_FIRST * signal * (1.0 - signal / energy) else part * share


def of_low_rank(part: FloatArray, variance: float, signal: float) -> tuple[FloatArray, float]:
    """Shrink the singular values of a matrix by what noise adds to them.

    part: Anything but a matrix of two coordinates and more each way comes back as it is, with infinite error.
    signal: Estimate of the squared sum of what is not noise.

    Source: Gavish and Donoho (2017), "Optimal shrinkage of singular values", DOI 10.1109/TIT.2017.2653801,
    sections I-B and
    III (Frobenius loss: what is not reached of each singular value's square).
    """
    if part.ndim != 2 or min(part.shape) < 2:
        return part, np.inf
    rows, columns = sorted(part.shape)
    ratio, unit = rows / columns, columns * variance
    left, values, right = np.linalg.svd(part, full_matrices=False)
    squares = values**2 / unit
    seen = squares > (1 + np.sqrt(ratio)) ** 2
    above = np.where(seen, squares - ratio - 1, 0.0)
    root = np.sqrt(np.maximum(above**2 - 4 * ratio, 0.0)) * seen
    reached = root**2 / np.where(seen, squares, 1.0)
    true = (above + root) / 2
    error = max(signal, unit * float(true.sum())) - unit * float(reached.sum())
    out: FloatArray = (left * np.sqrt(unit * reached)) @ right
    return out, error


# From noisy margins to targets that a joint distribution can have: consistent, never negative, of one total.
#
# `wls`, the default: weighted least squares in the residual basis. Every margin falls apart into orthogonal components,
# one for each subset of its columns, and noise that is the same in every cell stays the same in every component; so
# each component is the weighted mean of what the margins say of it, in closed form. Components that are mostly noise
# are shrunk (positive-part James-Stein), and margins are projected on what counts can be, in turn with further means.
# `paper` and `synthpop` treat every margin on its own, as published; such targets contradict each other.


ROUNDS = 5
"""Projections, with a mean between two of them."""
SMALLEST = 1e-6
"""What `paper` puts in place of a smaller count."""
WIDEST = 14
"""Columns of a margin that is taken apart (into 2**14 components); wider ones are brought to counts by themselves."""


def reconcile(
    margins: Sequence[Margin],
    total: Margin,
    *,
    post: Post,
    prior: float = 0.0,
    zeros: Sequence[StructuralZero] = (),
) -> tuple[Target, ...]:
    """Make targets of noisy margins.

    margins: Of one column and more; each column set once or, flat and as a tree, twice.
    total: Of no column; variance 0 where the number of rows is public or nothing is protected.

    Returns: One a column set, in the order of `margins`; all of one sum, 0 if the total is not above 0.

    Source: Xiao, He, Zhang, Kifer (2023), "An optimal and scalable matrix mechanism for noisy marginals under
    convex loss
    functions", arXiv:2305.08175 (the residual basis). James and Stein (1961), "Estimation with quadratic loss". Raab
    (2022), "Utility and disclosure risk for differentially private synthetic categorical data", section 2.2.3
    (`paper`). synthpop 1.9, function `makepos` (`synthpop`).
    """
    if not margins:
        raise InternalError("a joint distribution needs at least one margin")
    possible = {m.columns: possible_cells(m.columns, m.n.shape, zeros) for m in margins}
    if post == "wls":
        return _by_least_squares(margins, total, prior, possible, zeros)
    rows = max(float(total.n), 0.0)
    targets_by_columns = {}
    for margin in margins:
        can_be = possible[margin.columns]
        n = with_prior(np.where(can_be, margin.n, 0.0), can_be, prior)
        if post == "paper":
            n = clipped(n, rows)
        elif margin.variance > 0:  # synthpop leaves exact counts as they are
            n = thresholded(n, rows + prior)
        targets_by_columns[margin.columns] = _scaled(np.where(can_be, n, 0.0), rows, can_be)
    return tuple(Target(columns=columns, n=n) for columns, n in targets_by_columns.items())


def with_prior(n: FloatArray, possible: BoolArray, prior: float) -> FloatArray:
    """Spread the prior rows evenly over the cells that are possible."""
    return n + np.where(possible, prior / max(int(possible.sum()), 1), 0.0)


def clipped(n: FloatArray, rows: float) -> FloatArray:
    """Post-processing `paper`: nothing below a millionth, then all scaled to the number of rows."""
    return _scaled(np.maximum(n, SMALLEST), rows, np.ones(n.shape, dtype=bool))


def thresholded(n: FloatArray, rows: float) -> FloatArray:
    """Post-processing `synthpop`: the largest counts until their sizes add up to the rows; all others nothing."""
    flat = n.ravel()
    order = np.argsort(-flat, kind="stable")
    dropped = order[np.cumsum(np.abs(flat[order])) >= rows]
    counts = np.abs(flat)
    counts[dropped] = 0.0
    return counts.reshape(n.shape)


def on_simplex(n: FloatArray, possible: BoolArray, rows: float) -> FloatArray:
    """The nearest counts that are not negative, add up to the rows and are nothing where nothing is possible."""
    inside = n[possible][np.newaxis]
    out = np.zeros_like(n)
    if inside.size and rows > 0:
        ones = np.ones_like(inside)
        out[possible] = _on_simplex(inside, ones, ones > 0, np.array([rows]))[0]
    return out


def _by_least_squares(
    margins: Sequence[Margin],
    total: Margin,
    prior: float,
    possible: Mapping[ColumnSet, BoolArray],
    zeros: Sequence[StructuralZero],
) -> tuple[Target, ...]:
    """Post-processing `wls`."""
    named = {name for margin in margins for name in margin.columns}
    nested = [one for one in nestings(zeros) if {one.finer, one.coarser} <= named]
    possible = {c: _inhabited(can_be, c, nested) for c, can_be in possible.items()}
    trees = {m.columns: m for m in margins if m.branching}
    weighed, smallest = _weighed(margins, possible)
    wholes = [(float(total.n), float(total.variance)), *map(root_of, trees.values())]
    sums = [((), np.array(n), v or smallest * 1e-9) for n, v in wholes]
    means, variances = mean_components([*_narrow(weighed), *sums], nested)
    rows = float(total.n) if total.variance == 0 else float(means[()])
    rows = max(rows, 0.0)
    if any(m.variance > 0 for m in margins):
        means = shrunk(means, variances, trees, nested)
    tables = _counts(means, weighed, zeros, rows, nested)
    tables = _with_trees(tables, trees, possible, rows)
    return tuple(
        Target(columns=c, n=_scaled(with_prior(n, possible[c], prior), rows, possible[c]))
        for c, n in tables.items()
    )


def _weighed(
    margins: Sequence[Margin], possible: Mapping[ColumnSet, BoolArray]
) -> tuple[list[tuple[ColumnSet, FloatArray, float]], float]:
    """Counts of margins with the variance that their components have, and the smallest of these."""
    known = [(m.columns, *_flat(m)) for m in margins]
    # Impossible cells carry no noise, so components have that much less of it.
    noisy = [(c, np.where(possible[c], n, 0.0), v * _share(possible[c])) for c, n, v in known]
    smallest = min((v for _, _, v in noisy if v > 0), default=1.0)
    # Exact counts weigh as if nearly exact: they decide, and no weight is infinite.
    return [(c, n, v if v > 0 else smallest * 1e-6) for c, n, v in noisy], smallest


def signals(
    margins: Sequence[Margin], total: Margin, zeros: Sequence[StructuralZero] = ()
) -> dict[ColumnSet, float]:
    """Squared sum of every component beyond independence less that of all noise in it; by chance below 0."""
    possible = {m.columns: possible_cells(m.columns, m.n.shape, zeros) for m in margins}
    weighed, smallest = _weighed(margins, possible)
    whole = (), np.array(float(total.n)), total.variance or smallest * 1e-9
    means, variances = mean_components([*_narrow(weighed), whole])
    rows = max(float(means[()]), 1.0)
    out = {}
    for subset, part in means.items():
        beyond = part - _independent(means, subset, rows)
        noise = part.size * variances[subset]
        if len(subset) > 1:
            # What single columns make likely has noise, too: that of each column, and that of the number of rows.
            squares = {name: float((means[(name,)] ** 2).sum()) for name in subset}
            scale = rows ** (2 - 2 * len(subset))
            for name in subset:
                others = prod(squares[other] for other in subset if other != name)
                noise += means[(name,)].size * variances[(name,)] * others * scale
            by_rows = (len(subset) - 1) ** 2 * variances[()] / rows**2
            noise += by_rows * prod(squares.values()) * scale
        out[subset] = float((beyond * beyond).sum()) - noise
    return out


def _counts(
    means: Components,
    weighed: Sequence[tuple[ColumnSet, FloatArray, float]],
    zeros: Sequence[StructuralZero],
    rows: float,
    nested: Sequence[Nesting],
) -> dict[ColumnSet, FloatArray]:
    """Margins put together from their components and brought to what counts can be, coarser columns first."""
    tables = {c: n for c, n, _ in weighed}
    narrow = [c for c, _, _ in _narrow(weighed)]
    above = _above(narrow, nested) | {c: None for c in tables if c not in narrow}
    size = {name: k for c, n in tables.items() for name, k in zip(c, n.shape, strict=True)}
    shapes = {c: tuple(size[name] for name in c) for c in above}
    possible = {
        c: _inhabited(possible_cells(c, shape, zeros), c, nested) for c, shape in shapes.items()
    }
    # Cut at 0, a margin with few possible cells is not as much better as its noise alone would make it.
    weight = {c: v / _share(possible[c]) for c, _, v in weighed}
    tables |= {c: assembled(means, shapes[c], c) for c in above if len(c) <= WIDEST}
    for left in reversed(range(ROUNDS)):
        for c, one in above.items():
            if one is None:
                tables[c] = on_simplex(tables[c], possible[c], rows)
            else:
                axis, lifted = c.index(one.finer), one.lifted(c)
                held = np.moveaxis(tables[lifted], one.place(c), axis)
                tables[c] = within_sums(tables[c], possible[c], held, one, axis)
        if left and len(narrow) > 1:
            means, _ = mean_components([(c, tables[c], weight[c]) for c in narrow], nested)
            tables |= {c: assembled(means, shapes[c], c) for c in above if len(c) <= WIDEST}
    return {c: tables[c] for c, _, _ in weighed}


def _above(
    margins: Sequence[ColumnSet], nested: Sequence[Nesting]
) -> dict[ColumnSet, Nesting | None]:
    """By what each margin is lifted a step, and what it is lifted to in turn; the coarsest first."""
    out: dict[ColumnSet, Nesting | None] = {}

    def add(columns: ColumnSet) -> None:
        if columns not in out:
            one = finest_above(columns, nested)
            if one is not None:
                add(one.lifted(columns))
            out[columns] = one

    for columns in margins:
        add(columns)
    return out


def _inhabited(possible: BoolArray, columns: ColumnSet, nested: Sequence[Nesting]) -> BoolArray:
    """The possible cells of a table less levels of coarser columns in which no level of the finer one lies."""
    out = possible.copy()
    for one in nested:
        if one.coarser in columns:
            empty = np.setdiff1d(np.arange(one.n), one.of)
            np.moveaxis(out, columns.index(one.coarser), 0)[empty] = False
    return out


def _share(possible: BoolArray) -> float:
    """Share of a margin's cells that are possible; above 0."""
    return max(float(possible.mean()), 1.0 / possible.size)


def _narrow(
    margins: Sequence[tuple[ColumnSet, FloatArray, float]],
) -> list[tuple[ColumnSet, FloatArray, float]]:
    """Margins that are taken apart."""
    return [margin for margin in margins if len(margin[0]) <= WIDEST]


def _with_trees(
    tables: dict[ColumnSet, FloatArray],
    trees: Mapping[ColumnSet, Margin],
    possible: Mapping[ColumnSet, BoolArray],
    rows: float,
) -> dict[ColumnSet, FloatArray]:
    """Margins measured as trees by themselves, from the root down, so that wide ranges stay right; others follow."""
    out = dict(tables)
    for columns, tree in trees.items():
        wanted = np.where(possible[columns], nonnegative_leaves(tree, rows), 0.0)
        wanted = _scaled(wanted, rows, possible[columns])
        for other, n in out.items():
            if columns[0] in other and other != columns:
                out[other] = _raked(n, other.index(columns[0]), wanted, possible[other])
        out[columns] = wanted
    return out


def _raked(n: FloatArray, axis: int, wanted: FloatArray, possible: BoolArray) -> FloatArray:
    """Bring the sums along one axis to what is wanted; where nothing was, as all other sums are made up."""
    others = tuple(k for k in range(n.ndim) if k != axis)
    have = np.expand_dims(n.sum(axis=others), others)
    like_all = np.where(possible, n.sum(axis=axis, keepdims=True), 0.0)
    filled = np.where(have > 0, n, like_all)
    sums = filled.sum(axis=others, keepdims=True)
    ratio = np.divide(np.expand_dims(wanted, others), sums, out=np.zeros_like(sums), where=sums > 0)
    out: FloatArray = filled * ratio
    return out


def _flat(margin: Margin) -> tuple[FloatArray, float]:
    """Counts of a margin and their variance; of one measured as a tree the estimates of its leaves."""
    if margin.branching:
        return leaves(margin, None)
    return margin.n.astype(np.float64), margin.variance


def possible_cells(
    columns: ColumnSet, shape: tuple[int, ...], zeros: Sequence[StructuralZero]
) -> BoolArray:
    """Cells of a table that no rule of its columns declares impossible, one axis a column."""
    possible = np.ones(shape, dtype=bool)
    for zero in zeros:
        if set(zero.columns) <= set(columns):
            order = [zero.columns.index(name) for name in columns if name in zero.columns]
            wide = [s if c in zero.columns else 1 for c, s in zip(columns, shape, strict=True)]
            possible &= ~np.transpose(zero.cells, order).reshape(wide)
    return possible


def _scaled(n: FloatArray, rows: float, possible: BoolArray) -> FloatArray:
    """Bring counts to a sum; where there are none, all that are possible alike."""
    sums = float(n.sum())
    if sums <= 0:
        like_all = possible if possible.any() else np.ones(n.shape, dtype=bool)
        return np.where(like_all, rows / max(int(like_all.sum()), 1), 0.0)
    return n * (rows / sums)


# Strata: margins that hold the strata's columns in, what lies within one stratum out.
#
# The noise of a margin is the same within every stratum. How many rows a stratum has is not measured by itself: it is
# the best mean of what the margins within it say, and the strata are brought to add up to the total, all by variance.


Part = TypeVar("Part", Margin, StructuralZero)


def without_strata(part: Part, strata: ColumnSet, place: tuple[int, ...]) -> Part:
    """What a margin, or a rule, is within one stratum."""
    at = dict(zip(strata, place, strict=True))
    cut = tuple(at.get(name, slice(None)) for name in part.columns)
    columns = tuple(name for name in part.columns if name not in at)
    if isinstance(part, StructuralZero):
        return StructuralZero(columns=columns, cells=np.asarray(part.cells[cut]), why=part.why)
    return Margin(
        columns=columns,
        n=np.asarray(part.n[cut]),
        variance=part.variance,
        branching=part.branching,
        tree=tuple(np.asarray(nodes[cut]) for nodes in part.tree),
    )


def within(
    margins: Sequence[Margin],
    total: Margin,
    strata: ColumnSet,
    zeros: Sequence[StructuralZero],
    sizes: Mapping[str, int],
) -> tuple[Margin, ...]:
    """The total of every stratum, in C order of the strata's levels; without strata the total itself.

    zeros: A rule that leaves nothing of a stratum possible leaves it without rows.

    Returns: With strata: whole numbers, never negative, taken as given (variance 0).
    """
    if not strata:
        return (total,)
    shape = tuple(sizes[name] for name in strata)
    possible = np.ones(shape, dtype=bool)
    for zero in zeros:
        others = tuple(k for k, name in enumerate(zero.columns) if name not in strata)
        wide = tuple(sizes[name] if name in zero.columns else 1 for name in strata)
        possible &= ~zero.cells.all(axis=others).reshape(wide)
    estimate, variance = _means(margins, strata)
    return tuple(
        Margin(columns=(), n=np.asarray(n), variance=0.0)
        for n in _shared(estimate, variance, total, possible)
    )


def _means(margins: Sequence[Margin], strata: ColumnSet) -> tuple[FloatArray, float]:
    """Rows of each stratum, by all margins and all depths of trees; and their variance, the same for all."""
    weights = 0.0
    estimate: FloatArray | float = 0.0
    for margin in margins:
        if not set(strata) <= set(margin.columns):
            raise InternalError("with strata every margin must hold the columns of the strata")
        others = tuple(k for k, name in enumerate(margin.columns) if name not in strata)
        for n in (*margin.tree, margin.n):
            added = n.sum(axis=others, dtype=np.float64)
            weight = added.size / n.size / max(margin.variance, 1e-9)
            estimate = estimate + weight * added
            weights += weight
    return np.asarray(estimate / weights, dtype=np.float64), 1.0 / weights


def _shared(
    estimate: FloatArray, variance: float, total: Margin, possible: BoolArray
) -> list[np.int64]:
    """Bring the strata to the best estimate of the total, then to whole numbers that add up to it."""
    rows = np.where(possible, estimate, 0.0)
    several = max(int(possible.sum()), 1)
    missing = float(total.n) - float(rows.sum())
    share = variance / (several * variance + max(total.variance, 0.0))
    best = float(rows.sum()) + several * missing * share
    # Raising negative ones to 0 by itself would add rows: the more strata, the more of them.
    rows = on_simplex(rows, possible, max(best, 0.0))
    reached = np.floor(np.cumsum(rows) + 0.5)
    return list(np.diff(reached, prepend=0.0).astype(np.int64))
