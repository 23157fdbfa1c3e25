from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_matrix, hstack

from engine.schema import Measurement


def projected(x: list[float], total: float) -> list[float]:
    """Nearest non-negative point with the given sum, by bisection on the shift."""
    if total <= 0:
        return [0.0] * len(x)
    low, high = min(x) - total - 1, max(x)
    for _ in range(200):
        middle = (low + high) / 2
        if sum(max(v - middle, 0.0) for v in x) > total:
            low = middle
        else:
            high = middle
    return [max(v - high, 0.0) for v in x]


def fitted_tree(
    tree: Measurement,
    noisy_total: int,
    total: float,
    has_room: list[bool],
    floor: int,
    layer_sd: int,
) -> tuple[dict[int, float], dict[int, float]]:
    """Masses and remainders by node (-1: the virtual root), node by node with dictionaries.

    The estimates of one depth are shrunk for the noise of their sum; what children and remainder
    are off their parent is shared out by variance, and what then is left over in proportion.
    """
    counts = {-1: float(noisy_total)} | {i: float(max(n, floor)) for i, n in enumerate(tree.n)}
    plain = {-1: float(noisy_total)} | {i: float(n) for i, n in enumerate(tree.n)}
    depth = {-1: -1} | {i: int(d) for i, d in enumerate(tree.depth)}
    noise = {v: 2.0 * (layer_sd * int(tree.scale[max(d, 0)])) ** 2 for v, d in depth.items()}
    children: dict[int, list[int]] = defaultdict(list)
    for i, above in enumerate(tree.parent.tolist()):
        children[above].append(i)
    doubt = {v: noise[v] + sum(noise[c] for c in children[v]) for v in counts}
    remainder = dict.fromkeys(counts, 0.0)
    for level in sorted(set(depth.values())):
        here = [v for v in depth if depth[v] == level and children[v] and has_room[v + 1]]
        raw = [plain[v] - sum(counts[c] for c in children[v]) for v in here]
        found = sum(raw)
        if found > 0:
            sure = found - sum(doubt[v] for v in here) / found
            remainder |= dict(zip(here, projected(raw, sure), strict=True))
    mass, left = {-1: float(total)}, {}
    for v in sorted(counts, key=lambda v: depth[v]):
        if not children[v]:
            left[v] = mass[v] if has_room[v + 1] else 0.0
            continue
        parts = {c: (counts[c], min(counts[c], noise[c])) for c in children[v]}
        parts["rest"] = (remainder[v], min(remainder[v], doubt[v]))
        off = mass[v] - sum(n for n, _ in parts.values())
        weights = sum(w for _, w in parts.values())
        rate = off / weights if weights > 0 else 0.0
        moved = {c: max(n + w * rate, n / 4) for c, (n, w) in parts.items()}
        whole = sum(moved.values())
        for c, n in moved.items():
            mass[c] = mass[v] * n / whole
        left[v] = mass.pop("rest")
    return mass, left


def dense_raked(
    start: np.ndarray,
    targets: list[tuple[tuple[int, ...], np.ndarray]],
    cycles: int,
    variance: np.ndarray | float = np.inf,
    least: float = 0.0,
) -> np.ndarray:
    """IPF on a dense table: (kept axes, target) one after the other.

    variance: Of each cell; what a sum falls short of is shared out by it, or by what a cell holds if that is less.
    least: Share of a cell that no step leaves it with less than, where its sum should have anything.
    """
    x = start.astype(float).copy()
    for _ in range(cycles):
        for kept, target in targets:
            dropped = tuple(axis for axis in range(x.ndim) if axis not in kept)
            weight = np.minimum(x, variance)
            wanted = np.expand_dims(target, dropped)
            short = wanted - x.sum(axis=dropped, keepdims=True)
            weights = weight.sum(axis=dropped, keepdims=True)
            rate = np.where(weights > 0, short / np.where(weights > 0, weights, 1.0), 0.0)
            x = np.maximum(x + weight * rate, np.where(wanted > 0, least, 0.0) * x)
    return x


class Partition(NamedTuple):
    """Parts of cells, and bounds for the sum of each."""

    of: np.ndarray
    low: np.ndarray
    high: np.ndarray


def smallest_gap(n_cells: int, exact: list[Partition], near: list[Partition]) -> int | None:
    """The least that whole numbers can be off the sums of `near` where all sums of `exact` are met; None: they cannot.

    By integer programming: the cells and, behind them, the gap, which is made as small as can be.
    """

    def rows(margin: Partition, gap: float) -> csr_matrix:
        parts = len(margin.low)
        own = csr_matrix(
            (np.ones(n_cells), (margin.of, np.arange(n_cells))), shape=(parts, n_cells)
        )
        return hstack([own, csr_matrix(np.full((parts, 1), gap))]).tocsr()

    limits = [LinearConstraint(rows(m, 0.0), m.low, m.high) for m in exact]
    limits += [LinearConstraint(rows(m, -1.0), -np.inf, m.low) for m in near]
    limits += [LinearConstraint(rows(m, 1.0), m.low, np.inf) for m in near]
    cost = np.append(np.zeros(n_cells), 1.0)
    found = milp(
        cost, constraints=limits, integrality=np.ones(n_cells + 1), bounds=Bounds(0, np.inf)
    )
    return None if found.x is None else round(found.x[-1])
