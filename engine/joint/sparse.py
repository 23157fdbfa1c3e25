"""Iterative proportional fitting of weights on support rows: for tables too large to be held.

Rows of level indexes and targets in, weights out. Only combinations among the rows can get weight. The blocks of
`joint.blocks` save passes over the rows too: weights are summed once to a small table of several columns, raked there
to all targets inside, and each row then gets its cell's factor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from engine.joint.blocks import Block, blocks_of
from engine.joint.cycles import run_cycles
from engine.joint.dense import aligned, farthest, rake, ratio
from engine.joint.target import FitReport, Target
from engine.schema import ColumnSet, FloatArray

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

    Parameters
    ----------
    targets : sequence of Target
        Of the same sum; at least one.
    rows : ndarray of int, shape (n_rows, n_columns)
        Level indexes. Rows may repeat.
    columns : ColumnSet
        Of the rows.
    sizes : mapping of str to int
        Levels of each column.
    weights0 : ndarray of float64, shape (n_rows,)
        Start, at least 0; a 0 stays.
    max_cycles : int
    tolerance : float
        See `FitReport.error`.

    Returns
    -------
    ndarray of float64 (n_rows,), FitReport
        The weights sum to the targets' total, unless all are 0.
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
            error = max(error, rake(after, part, wanted))
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
    rows: NDArray[np.integer], columns: ColumnSet, kept: ColumnSet, sizes: Mapping[str, int]
) -> NDArray[np.intp]:
    """Cell of the kept columns' table that each row lies in."""
    picked = tuple(rows[:, columns.index(name)] for name in kept)
    code: NDArray[np.intp] = np.ravel_multi_index(picked, tuple(sizes[name] for name in kept))
    return code


def _sums(
    weights: FloatArray, code: NDArray[np.intp], part: Block, sizes: Mapping[str, int]
) -> FloatArray:
    shape = tuple(sizes[name] for name in part.columns)
    sums = np.bincount(code, weights=weights, minlength=prod(shape)).astype(np.float64)
    return sums.reshape(shape)
