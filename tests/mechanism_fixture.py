"""The measuring of dp mode on a made-up domain of 2 x 3 x 2 levels: engine's shares and noise, run many times at once.

Faults are planted by the arguments: the mechanism itself is the engine's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np

from engine.accounting import Share, shares
from engine.dp_noise import noised
from engine.params_dp import DPParams

NAMES, SIZES = ("A", "B", "C"), (2, 3, 2)
N_LEVELS = dict(zip(NAMES, SIZES, strict=True))
MARGINS = [m for k in (1, 2, 3) for m in combinations(NAMES, k)]
ABSENT = -(2**62)
"""Stands in an output for a cell that was not released at all."""

Entity = Sequence[tuple[int, int, int]]
"""Rows of one entity: the level of each column."""
Measure = Callable[[np.ndarray, Share], np.ndarray]


def engine_noise(counts: np.ndarray, share: Share) -> np.ndarray:
    return noised(counts, share.noise, share.scale)


def table(entities: Sequence[Entity], max_rows: int) -> np.ndarray:
    """True counts of all cells; of each entity the first `max_rows` rows."""
    out = np.zeros(SIZES, dtype=np.int64)
    for rows in entities:
        for levels in rows[:max_rows]:
            out[levels] += 1
    return out


def outputs(
    params: DPParams, counts: np.ndarray, n_runs: int, *, measure: Measure = engine_noise
) -> np.ndarray:
    """Everything that is released, one row a run: the total, margins, inner depths of trees."""
    released = []
    for share in shares(params, N_LEVELS):
        others = tuple(i for i, name in enumerate(NAMES) if name not in share.columns)
        parts = [counts.sum(axis=others).reshape(-1)]
        if share.depths > 1:  # at 2 by 2 over B's three levels: one depth of two nodes
            parts.insert(0, np.add.reduceat(parts[0], [0, share.branching]))
        cells = np.concatenate(parts)
        released.append(measure(np.tile(cells, (n_runs, 1)), share))
    return np.concatenate(released, axis=1)


def random_pair(rng: np.random.Generator) -> tuple[DPParams, np.ndarray, np.ndarray]:
    """Parameters, and true counts with and without one more entity, whose rows often lie in one cell."""
    max_rows = int(rng.integers(1, 4))
    gaussian, strata = bool(rng.random() < 0.3), rng.random() < 0.3
    free = [m for m in MARGINS if "A" not in m] if strata else MARGINS
    chosen = rng.choice(len(free), size=int(rng.integers(1, 3)), replace=False)
    params = DPParams(
        epsilon=float(rng.choice([0.3, 1.0, 3.0])),
        noise="gaussian" if gaussian else "laplace",
        delta=1e-6 if gaussian else 0.0,
        margins=tuple(sorted((free[i] for i in chosen), key=lambda m: (len(m), m))),
        strata=("A",) if strata else (),
        ranges=(("B", 2),) if not strata and rng.random() < 0.3 else (),
        max_rows=max_rows,
        total_share=float(rng.choice([0.02, 0.5])),
    )
    entities = [_entity(rng) for _ in range(int(rng.integers(0, 40)))]
    one_more = [*entities, _entity(rng)]
    return params, table(entities, max_rows), table(one_more, max_rows)


def _entity(rng: np.random.Generator) -> Entity:
    """One to five rows; half of the entities have all of them in one cell."""
    levels = [tuple(int(rng.integers(n)) for n in SIZES) for _ in range(int(rng.integers(1, 6)))]
    return levels[:1] * len(levels) if rng.random() < 0.5 else levels
