"""One-way margins that were measured as trees: one consistent estimate of every leaf.

Takes a margin whose inner depths were counted too (`Margin.tree`) and the total; gives leaf estimates in which every
node is the sum of what stands under it. A range of many leaves is a few nodes, so its error grows with the depth of
the tree, not with the number of leaves. Hay, Rastogi, Miklau and Suciu 2010, section 4, arXiv:0904.0942; here with
weights, because the last node of a depth may hold fewer than the others, which keeps it the least-squares estimate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.errors import InternalError
from engine.levels import Margin, tree_sizes
from engine.schema import BoolArray, FloatArray


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
        above = _on_simplex(depth, above)[depth.exists]
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


def _on_simplex(depth: _Depth, mass: FloatArray) -> FloatArray:
    """Nearest points to the estimates, by their variances, that are at least 0 and add up to each parent's mass.

    They are max(estimate - t variance, 0) for the one t of each parent that gives its mass. Held, Wolfe and Crowder
    1974, doi:10.1007/BF01580223.
    """
    weight = _weights(depth)
    ratio = np.full(weight.shape, -np.inf)
    np.divide(depth.estimate, weight, out=ratio, where=depth.exists)
    order = np.argsort(-ratio, axis=1, kind="stable")
    ranked = np.take_along_axis(ratio, order, axis=1)
    reached = np.cumsum(np.take_along_axis(depth.estimate, order, axis=1), axis=1)
    heavy = np.cumsum(np.take_along_axis(weight, order, axis=1), axis=1)
    shift = (reached - mass[:, None]) / heavy
    n_positive = np.maximum((ranked > shift).sum(axis=1), 1)
    chosen = np.take_along_axis(shift, n_positive[:, None] - 1, axis=1)
    points: FloatArray = np.maximum(depth.estimate - chosen * weight, 0.0) * depth.exists
    return points
