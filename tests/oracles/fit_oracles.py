from __future__ import annotations

from collections import defaultdict
from itertools import product

import numpy as np

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

    The estimates of one depth give up one standard deviation of the noise of their sum.
    """
    counts = {-1: float(noisy_total)} | {i: float(max(n, floor)) for i, n in enumerate(tree.n)}
    plain = {-1: float(noisy_total)} | {i: float(n) for i, n in enumerate(tree.n)}
    depth = {-1: -1} | {i: int(d) for i, d in enumerate(tree.depth)}
    noise = {v: 2 * (layer_sd * int(tree.scale[max(d, 0)])) ** 2 for v, d in depth.items()}
    children: dict[int, list[int]] = defaultdict(list)
    for i, above in enumerate(tree.parent.tolist()):
        children[above].append(i)
    remainder = dict.fromkeys(counts, 0.0)
    for level in sorted(set(depth.values())):
        here = [v for v in depth if depth[v] == level and children[v] and has_room[v + 1]]
        raw = [plain[v] - sum(counts[c] for c in children[v]) for v in here]
        variance = sum(noise[v] + sum(noise[c] for c in children[v]) for v in here)
        if here:
            remainder |= dict(zip(here, projected(raw, sum(raw) - variance**0.5), strict=True))
    mass, left = {-1: float(total)}, {}
    for v in sorted(counts, key=lambda v: depth[v]):
        whole = sum(counts[c] for c in children[v]) + remainder[v]
        for c in children[v]:
            mass[c] = mass[v] * counts[c] / whole
        if children[v]:
            left[v] = mass[v] * remainder[v] / whole
        else:
            left[v] = mass[v] if has_room[v + 1] else 0.0
    return mass, left


def joined(tables: list[dict[tuple, int]], sizes: tuple[int, ...]) -> list[tuple]:
    """Every combination of letters that all tables of one column less hold; entry j: without column j."""
    return [
        cell
        for cell in product(*(range(size) for size in sizes))
        if all(cell[:j] + cell[j + 1 :] in table for j, table in enumerate(tables))
    ]


def dense_raked(
    start: np.ndarray, targets: list[tuple[tuple[int, ...], np.ndarray]], cycles: int
) -> np.ndarray:
    """Textbook IPF on a dense table: (kept axes, target) one after the other."""
    x = start.astype(float).copy()
    for _ in range(cycles):
        for kept, target in targets:
            dropped = tuple(axis for axis in range(x.ndim) if axis not in kept)
            have = x.sum(axis=dropped, keepdims=True)
            wanted = np.expand_dims(target, dropped)
            factor = np.zeros_like(have)
            factor[have > 0] = (wanted / np.where(have > 0, have, 1.0))[have > 0]
            x = x * factor
    return x
