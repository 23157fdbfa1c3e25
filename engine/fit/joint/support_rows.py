"""Rows whose counts come near to targets of any columns, where the full table of all columns is too large for memory.

Targets in, rows of level indexes out, as many as are asked for: a start along the tree of the strongest dependencies
(`joint.chow_liu`; from independent columns the search would stick, since blocks of columns that are null together can
only move together), then a search (`joint.row_search`) over the one- and two-way tables of all targets and over wider
targets themselves. Impossible combinations get no row; a combination whose target is 0 gets one only where targets
contradict each other, or where no single change of a row leads away from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

from engine.errors import SpecError
from engine.fit.joint.chow_liu import Pair, Rows, Rule, tree_rows
from engine.fit.joint.dense import Block, aligned, blocks_of, farthest, rake_table, ratio
from engine.fit.joint.row_search import Goal, Sweep, search_rows
from engine.fit.joint.target import FitReport, Target, run_cycles
from engine.levels import StructuralZero
from engine.schema import BoolArray, ColumnSet, FloatArray

ROWS_A_CELL = 8
"""A block has one cell for so many rows at most, so that what is done on its table costs less than a pass."""


def fit_rows(
    targets: Sequence[Target],
    rows: NDArray[np.integer],
    columns: ColumnSet,
    sizes: Mapping[str, int],
    weights0: FloatArray,
    *,
    max_cycles: int = 200,
    tolerance: float = 1e-4,
) -> tuple[FloatArray, FitReport]:
    """Fit weights of rows.

    targets: Of the same sum; at least one.
    weights0: Start, at least 0; a 0 stays.

    Returns: The weights sum to the targets' total, unless all are 0.
    """
    limit = max(len(rows) // ROWS_A_CELL, 1)
    block = blocks_of(columns, [target.columns for target in targets], sizes, limit)
    wanted = aligned(targets, columns)
    total = float(targets[0].n.sum())
    weights = np.array(weights0, dtype=np.float64)
    parts = _tops(block)
    codes = [_codes(rows, columns, part.columns, sizes) for part in parts]

    def cycle() -> float:
        error = 0.0
        for part, code in zip(parts, codes, strict=True):
            before = _sums(weights, code, part, sizes)
            after = before.copy()
            error = max(error, rake_table(after, part, wanted))
            weights[...] *= ratio(after, before).ravel()[code]
        return error / max(total, 1e-300)

    cycles, at_rest = run_cycles(cycle, max_cycles=max_cycles, tolerance=tolerance)
    if not weights.any():  # no target can be met anywhere
        weights[...] = weights0
    weights *= total / max(float(weights.sum()), 1e-300)
    error = 0.0
    for part, code in zip(parts, codes, strict=True):
        error = max(error, farthest(_sums(weights, code, part, sizes), part, wanted))
    error /= max(total, 1e-300)
    return weights, FitReport(
        how="support rows",
        cycles=cycles,
        error=error,
        converged=error <= tolerance,
        at_rest=at_rest or not max_cycles,
    )


def _tops(block: Block) -> tuple[Block, ...]:
    """The blocks that rows are summed to: the outermost, and one for targets of all columns."""
    if not block.targets:
        return block.parts
    return (*block.parts, Block(columns=block.columns, parts=(), targets=block.targets))


def _codes(
    rows: NDArray[np.integer], columns: ColumnSet, wanted: ColumnSet, sizes: Mapping[str, int]
) -> NDArray[np.intp]:
    """Cell of the kept columns' table that each row lies in."""
    picked = tuple(rows[:, columns.index(name)] for name in wanted)
    code: NDArray[np.intp] = np.ravel_multi_index(picked, tuple(sizes[name] for name in wanted))
    return code


def _sums(
    weights: FloatArray, code: NDArray[np.intp], part: Block, sizes: Mapping[str, int]
) -> FloatArray:
    shape = tuple(sizes[name] for name in part.columns)
    sums = np.bincount(code, weights=weights, minlength=prod(shape)).astype(np.float64)
    return sums.reshape(shape)


SWEEPS = tuple(
    Sweep(heat=heat, share=share)
    for heat, share in ((0.35, 0.5), (0.2, 0.5), (0.1, 0.5), (0.05, 0.3), (0.02, 0.3))
)
"""Heat and share that a search on 24 columns did well with."""
NEARER = (Sweep(heat=0.0, share=1.0, is_apart=True),) * 2
"""Rows that were drawn from a fit are near already: no row is changed but to come nearer."""
POWER, FLOOR = 0.75, 2.0
"""A count's squared error weighs (target + FLOOR)**-POWER: between its relative error and its absolute one."""
ONE_WAY = 3.0
"""Weight of one-way counts beside that of two-way ones."""
ZERO_TARGET = 5.0
"""Weight where a target is 0."""
TRIES = 2_000
"""Rows that are tried where none of those asked for is possible."""
Axes = tuple[int, ...]


def support_rows(
    targets: Sequence[Target],
    columns: ColumnSet,
    sizes: Mapping[str, int],
    *,
    zeros: Sequence[StructuralZero],
    n_rows: int,
    rng: np.random.Generator,
) -> Rows:
    """Find rows whose counts are near the targets, scaled to the number of rows.

    targets: Of some of the columns; where narrower and wider ones tell of the same pair, the narrowest
        counts.
    zeros: Those of columns that are not there are left aside.
    n_rows: For sampling the number of rows wanted is best: each then stands for one.

    Returns: Rows may repeat; in random order. The same for the same arguments.

    Source: The start: Chow and Liu (1968), DOI 10.1109/TIT.1968.1054142. The search is iterated conditional modes with
    annealing, Besag (1986), DOI 10.1111/j.2517-6161.1986.tb01412.x, on the squared error of counts.
    """
    shape = tuple(sizes[name] for name in columns)
    wanted = _wanted(targets, columns, shape, n_rows)
    rules = _rules(zeros, columns)
    singles = [wanted[(place,)] for place in range(len(columns))]
    pairs: dict[Pair, FloatArray] = {(a[0], a[1]): n for a, n in wanted.items() if len(a) == 2}
    goals = _goals(wanted, rules, shape)

    def search(n: int) -> Rows:
        rows = tree_rows(singles, pairs, rules, n, rng)
        return search_rows(rows, goals, shape, SWEEPS, rng)

    rows = search(n_rows)
    wrong = np.flatnonzero(~_possible(rows, rules))
    if not len(wrong):
        return rows
    others = rows if len(wrong) < len(rows) else search(TRIES)
    possible = np.flatnonzero(_possible(others, rules))
    if not len(possible):
        raise SpecError("dp: no combination of levels was found that the structural zeros allow")
    rows[wrong] = others[rng.choice(possible, len(wrong))]
    return rows


def nearer_rows(
    rows: Rows,
    targets: Sequence[Target],
    columns: ColumnSet,
    sizes: Mapping[str, int],
    *,
    zeros: Sequence[StructuralZero],
    rng: np.random.Generator,
) -> Rows:
    """Change drawn rows, one value at a time, where that brings their counts nearer to the targets.

    A draw meets sums of neighbours only: counts of the columns that vary fastest are off as those of a random sample,
    by more than the noise of their margins. Parameters as in `support_rows`.

    Returns: In the same order. No row is changed to what the structural zeros rule out.
    """
    shape = tuple(sizes[name] for name in columns)
    rules = _rules(zeros, columns)
    goals = _goals(_wanted(targets, columns, shape, len(rows)), rules, shape)
    changed = search_rows(rows, goals, shape, NEARER, rng)
    wrong = ~_possible(changed, rules)
    changed[wrong] = rows[wrong]
    return changed


def _wanted(
    targets: Sequence[Target], columns: ColumnSet, shape: tuple[int, ...], n_rows: int
) -> dict[Axes, FloatArray]:
    """Target counts by places of columns: every single, every pair that a target has, and wider targets."""
    wanted: dict[Axes, FloatArray] = {}
    for target in sorted(targets, key=lambda t: len(t.columns)):
        axes = tuple(columns.index(name) for name in target.columns)
        n = np.transpose(target.n, np.argsort(axes)) if axes else target.n
        axes = tuple(sorted(axes))
        total = float(n.sum())
        n = n * (n_rows / total) if total > 0 else np.full(n.shape, n_rows / max(n.size, 1))
        for width in {1, 2, len(axes)} - {0}:
            for chosen in combinations(range(len(axes)), width):
                key = tuple(axes[i] for i in chosen)
                out = tuple(i for i in range(len(axes)) if i not in chosen)
                if key not in wanted:
                    wanted[key] = n.sum(axis=out)
    for place, size in enumerate(shape):
        wanted.setdefault((place,), np.full(size, n_rows / size))
    return wanted


def _rules(zeros: Sequence[StructuralZero], columns: ColumnSet) -> list[Rule]:
    """The structural zeros by places of columns; one for each set of columns."""
    rules: dict[Axes, BoolArray] = {}
    for zero in zeros:
        if not zero.columns or not {*zero.columns} <= {*columns}:
            continue
        axes = tuple(columns.index(name) for name in zero.columns)
        cells = np.transpose(zero.cells, np.argsort(axes))
        axes = tuple(sorted(axes))
        rules[axes] = rules[axes] | cells if axes in rules else cells
    return list(rules.items())


def _goals(
    wanted: Mapping[Axes, FloatArray], rules: Sequence[Rule], shape: tuple[int, ...]
) -> list[Goal]:
    """Goals of the search: what is wanted, and what is impossible."""
    barred = dict(rules)
    goals = []
    for axes, n in wanted.items():
        weight = np.where(n > 0, (n + FLOOR) ** -POWER, ZERO_TARGET)
        weight *= ONE_WAY if len(axes) == 1 else 1.0
        cells = barred.pop(axes, np.zeros(n.shape, dtype=bool))
        goals.append(Goal(axes=axes, n=n, weight=weight, barred=cells))
    for axes, cells in barred.items():
        nothing = np.zeros(tuple(shape[axis] for axis in axes))
        goals.append(Goal(axes=axes, n=nothing, weight=nothing, barred=cells))
    return goals


def _possible(rows: Rows, rules: Sequence[Rule]) -> BoolArray:
    """Rows that no rule declares impossible."""
    possible = np.ones(len(rows), dtype=bool)
    for axes, cells in rules:
        possible &= ~cells[tuple(rows[:, axis] for axis in axes)]
    return possible
