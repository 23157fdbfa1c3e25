"""Fit a measured tree from the root down: every node's count, and what it holds beyond its released children.

Sees measurements only. A node's noisy count minus its released children's estimates the mass of its unreleased
ones. The estimates of one depth are brought onto {x >= 0} with their sum shrunk for its noise (James and Stein), so
that noise does not pass for people; or, where the caller says what is expected there (pairs whose cells are listed),
each is weighed against that, and none is zero. Then released children and remainder are brought to the parent's
fitted count, each giving way by its variance, so that a range has one value and the error of wide ranges does not
grow with the leaves in it. The remainder is blind: it comes from noisy counts alone, never from rows left over.
engine/DESIGN.md, "Fit", says why children give way by variance and are not scaled in proportion.

Order of operations is fixed (bincount and cumsum add in sequence), so every machine gets the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.params import NOISE_LAYERS
from engine.schema import BoolArray, FloatArray, Int64Array, Measurement

_LEAST = 1e-9
"""Below it a number of rows is none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FittedTree:
    """Fitted masses of the nodes of a measurement; entry 0 is the virtual root (the total)."""

    mass: FloatArray  # shape (n_nodes + 1,): Fitted number of rows in each node
    remainder: FloatArray  # shape (n_nodes + 1,): Part of it that lies in no released child
    # shape (n_nodes + 1,): Variance of the error of `mass`, from the noise of the node, its neighbours and
    # all above it.
    variance: FloatArray


def fit_tree(
    tree: Measurement,
    *,
    noisy_total: int,
    total: float,
    has_room: BoolArray,
    floor: int,
    layer_sd: int,
    total_sd: float = 0.0,
    most: FloatArray | None = None,
    expected: FloatArray | None = None,
) -> FittedTree:
    """Fit all nodes to a total.

    has_room: Whether a node (the virtual root first) has candidate cells outside its released children.
    most: Largest mass that the unreleased children of a node can hold, each being too small to be released.
    expected: What each node is expected to hold outside its released children, positive where it has room.
        None: nothing is.
    """
    parent = tree.parent + 1
    counts = np.concatenate([[noisy_total], np.maximum(tree.n, floor)]).astype(np.float64)
    of_children = np.bincount(parent, weights=counts[1:], minlength=len(counts))
    n_children = np.bincount(parent, minlength=len(counts))
    raw = np.concatenate([[noisy_total], tree.n]).astype(np.float64) - of_children
    depth = np.concatenate([[0], tree.depth.astype(np.int64) + 1])
    noise = ((tree.scale * float(layer_sd)) ** 2 * NOISE_LAYERS)[np.maximum(depth - 1, 0)]
    variance = noise + np.bincount(parent, weights=noise[1:], minlength=len(counts))
    estimated = has_room & (n_children > 0)
    if expected is None:
        remainder = _shrunk_remainders(raw, variance, depth, estimated)
    else:
        remainder = _likely_remainders(raw, variance, depth, estimated, expected)
    remainder[has_room & (n_children == 0)] = 1.0  # all of it: any positive weight
    if most is not None:
        remainder = np.where(n_children > 0, np.minimum(remainder, most), remainder)
    noise[0] = total_sd**2
    return _shared_down(
        parent, depth, counts=counts, remainder=remainder, variance=variance, own=noise, total=total
    )


def _shared_down(
    parent: Int64Array,
    depth: Int64Array,
    *,
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
    mass, remainders = np.zeros(n), np.zeros(n)
    mass[0] = total
    error = own.copy()
    weight = np.minimum(counts, own)
    loose = np.minimum(remainder, variance)
    off = np.bincount(parent, weights=counts[1:], minlength=n) + remainder
    weights = np.bincount(parent, weights=weight[1:], minlength=n) + loose
    together = np.bincount(parent, weights=own[1:], minlength=n) + loose
    for level in range(int(depth.max(initial=0)) + 1):
        here, below = np.flatnonzero(depth == level), np.flatnonzero(depth == level + 1)
        above = parent[below - 1]
        rate = np.divide(mass - off, weights, out=np.zeros(n), where=weights > 0)
        share = np.maximum(counts[below] + weight[below] * rate[above], counts[below] / 4)
        rest = np.maximum(remainder[here] + loose[here] * rate[here], remainder[here] / 4)
        sums = np.bincount(above, weights=share, minlength=n).astype(np.float64)
        sums[here] += rest
        scale = np.divide(mass, sums, out=np.zeros(n), where=sums > 0)
        mass[below] = share * scale[above]
        remainders[here] = rest * scale[here]
        part = weight[below] / np.maximum(weights[above], 1e-300)
        neighbours = together[above] - own[below] + error[above]
        error[below] = (1 - part) ** 2 * own[below] + part**2 * neighbours
    return FittedTree(mass=mass, remainder=remainders, variance=error)


def _shrunk_remainders(
    raw: FloatArray, variance: FloatArray, depth: Int64Array, estimated: BoolArray
) -> FloatArray:
    """Remainders of the nodes that have one, per depth with the sum shrunk for its noise."""
    out = np.zeros(len(raw))
    for level in range(int(depth.max(initial=0)) + 1):
        here = np.flatnonzero(estimated & (depth == level))
        if len(here):
            sum_here = float(np.cumsum(raw[here])[-1])
            noise_here = float(np.cumsum(variance[here])[-1])
            shrunk = max(sum_here - noise_here / sum_here, 0.0) if sum_here > 0 else 0.0
            out[here] = positive_with_sum(raw[here], shrunk)
    return out


def _likely_remainders(
    raw: FloatArray,
    variance: FloatArray,
    depth: Int64Array,
    estimated: BoolArray,
    expected: FloatArray,
) -> FloatArray:
    """Remainders of the nodes that have one, weighed against what is expected: with noise none is zero.

    Raking shares out a value's rows by what its cells hold. If a remainder were zero as noise had it, all rows of the
    values in there would go to other boxes, however unlikely: of NIST's 612 people in group quarters 100 came to have
    incomes that one of them has.

    First what all of a depth hold together is weighed so, then each with its part of that.
    """
    out = np.zeros(len(raw))
    for level in range(int(depth.max(initial=0)) + 1):
        here = np.flatnonzero(estimated & (depth == level))
        if len(here):
            sums = [np.cumsum(of[here])[-1:] for of in (raw, variance, expected)]
            share = expected[here] / sums[2]
            out[here] = likeliest(raw[here], variance[here], share * likeliest(*sums))
    return out


def likeliest(x: FloatArray, variance: FloatArray, expected: FloatArray) -> FloatArray:
    """Positive numbers behind noisy ones: near x where that is large, near what is expected where that is small.

    The mode where a number is Gamma distributed with shape 2 and scale `expected`, and noise is normal: the positive
    root of y^2 - (x - variance / expected) y - variance.
    """
    lower = x - variance / np.maximum(expected, _LEAST)
    root = np.sqrt(lower * lower + 4 * variance)
    # Of the two spellings of the root the one that takes no difference of near numbers.
    twice = np.where(lower > 0, lower + root, np.maximum(root - lower, _LEAST))
    found: FloatArray = np.where(lower > 0, twice / 2, 2 * variance / twice)
    return found


def positive_with_sum(x: FloatArray, total: float) -> FloatArray:
    """Nearest point to x with no negative entry and the sum `total`.

    Euclidean projection onto a simplex: max(x - t, 0) for the one t that gives the sum; Held, Wolfe and
    Crowder 1974, doi:10.1007/BF01580223.
    """
    if total <= 0:
        return np.zeros_like(x)
    falling = -np.sort(-x)
    shift = (np.cumsum(falling) - total) / np.arange(1, len(x) + 1)
    t = shift[np.flatnonzero(falling >= shift)[-1]]
    nearest: FloatArray = np.maximum(x - t, 0.0)
    return nearest
