from __future__ import annotations

from collections import defaultdict
from itertools import accumulate, product

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_matrix, hstack

from engine.fit.candidates import MarginBounds
from engine.schema import Measurement
from engine.sticky_prf import siphash


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
    expected: list[float] | None = None,
    most: list[float] | None = None,
) -> tuple[dict[int, float], dict[int, float]]:
    """Masses and remainders by node (-1: the virtual root), node by node with dictionaries.

    The estimates of one depth are shrunk for the noise of their sum, or weighed against what is expected; what children
    and remainder are off their parent is shared out by variance, and what then is left over in proportion.
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
        if expected is not None:
            noisy = sum(doubt[v] for v in here)
            share = {v: expected[v + 1] / sum(expected[w + 1] for w in here) for v in here}
            whole = mode(found, noisy, sum(expected[v + 1] for v in here)) if here else 0.0
            for v, x in zip(here, raw, strict=True):
                remainder[v] = mode(x, doubt[v], share[v] * whole)
        elif found > 0:
            sure = found - sum(doubt[v] for v in here) / found
            remainder |= dict(zip(here, projected(raw, sure), strict=True))
    if most is not None:
        remainder = {v: min(n, most[v + 1]) for v, n in remainder.items()}
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


def mode(x: float, variance: float, expected: float) -> float:
    """Where y e^(-y / expected) times the normal density of x around y is largest: its slope's zero, by bisection."""
    if not variance:
        return max(x, 0.0)
    low, high = 0.0, max(x, 0.0) + expected + variance**0.5
    for _ in range(200):
        y = (low + high) / 2
        rises = variance - y * variance / expected - y * (y - x) > 0
        low, high = (y, high) if rises else (low, y)
    return high


def joined(tables: list[dict[tuple, int]], sizes: tuple[int, ...]) -> list[tuple]:
    """Every combination of codes that all tables of one column less hold; entry j: without column j."""
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


def rounding_penalty(kind: int, off: int) -> int:
    """What it costs a sum to be so many units off: 2, 10, 18 and then 26 for each further unit.

    Of kind 1 the first unit costs 1; of kind 2 it is free.
    """
    units = [2, 10, 18] + [26] * max(abs(off) - 3, 0)
    units[0] -= kind
    return sum(units[: abs(off)])


def smallest_gap(n_cells: int, exact: list[MarginBounds], near: list[MarginBounds]) -> int | None:
    """The least that whole numbers can be off the sums of `near` where all sums of `exact` are met; None: they cannot.

    By integer programming: the cells and, behind them, the gap, which is made as small as can be.
    """

    def rows(margin: MarginBounds, gap: float) -> csr_matrix:
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


def halved(x: np.ndarray, target: np.ndarray, n_codes: int, key: bytes) -> np.ndarray:
    """`in_halves` of a full table whose fibres are whole, one place at a time."""
    size = 1
    while size < n_codes:
        size *= 2
    fitted = x.reshape(len(target), n_codes)
    n = [[0] * n_codes for _ in target]
    split = [(0, size, target.tolist())]
    while split:
        first, width, rows = split.pop()
        if width == 1:
            for f, units in enumerate(rows):
                if first < n_codes:
                    n[f][first] = units
            continue
        half, level = width // 2, width.bit_length() - 2
        word = np.array([first // width + ((level + 1) << 32)], dtype=np.uint64)
        running = int(siphash(key, [word])[0] >> np.uint64(44))
        lower = [float(row[first : first + half].sum()) for row in fitted]
        whole = [float(row[first : first + width].sum()) for row in fitted]
        low, high = [], []
        for units, due in zip(rows, tilted(rows, lower, whole), strict=True):
            before, running = running // 2**20, running + int(due * 2**20 + 0.5)
            low.append(running // 2**20 - before)
            high.append(units - low[-1])
        split += [(first, half, low), (first + half, half, high)]
    return np.array(n).ravel()


def tilted(rows: list[int], lower: list[float], whole: list[float]) -> list[float]:
    """Shares of a half, brought to what was fitted over stretches of four loose rows; the last one has what is left."""
    share = [
        part / all_of if all_of > 0 else 0.0 for part, all_of in zip(lower, whole, strict=True)
    ]
    loose = [n * s * (1 - s) for n, s in zip(rows, share, strict=True)]
    running = list(accumulate(loose))  # as numpy adds; `sum` makes up for what is rounded off
    last = max(int(running[-1] / 4) - 1, 0)
    of_fibre = [min(int(upto / 4), last) for upto in running]
    due = [n * s for n, s in zip(rows, share, strict=True)]
    for stretch in set(of_fibre):
        inside = [f for f, number in enumerate(of_fibre) if number == stretch]
        room = list(accumulate(loose[f] for f in inside))[-1]
        over = list(accumulate(due[f] - lower[f] for f in inside))[-1]
        tilt = min(max(over / room, -1.0), 1.0) if room > 2**-20 else 0.0
        for f in inside:
            due[f] -= loose[f] * tilt
    return due
