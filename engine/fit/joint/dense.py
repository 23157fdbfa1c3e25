"""Iterative proportional fitting of a full table: targets and structural zeros in, expected counts out.

Deming and Stephan 1940, doi:10.1214/aoms/1177731829, on the blocks of `joint.blocks`. The table starts at 1 in every
possible cell and 0 in impossible ones, so the result is the distribution of largest entropy among those that meet the
targets (Csiszar 1975, doi:10.1214/aop/1176996454). Sums of 0 stay 0: what a target wants there is part of the error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import SpecError
from engine.fit.joint.target import FitReport, Target, run_cycles
from engine.levels import StructuralZero
from engine.schema import BoolArray, ColumnSet, FloatArray

SHRINK = 8
"""A block's table is at most this part of the table it is summed from."""
SMALL = 4096
"""Cells of a table that is not worth blocks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """Columns, and what is raked on their table."""

    columns: ColumnSet  # In the order of the table's axes
    parts: tuple[Block, ...]  # Raked first, in this order
    targets: tuple[int, ...]  # Places of the targets with just these columns; raked last


def blocks_of(
    columns: ColumnSet,
    margins: Sequence[ColumnSet],
    sizes: Mapping[str, int],
    limit: int | None = None,
) -> Block:
    """Pack margins into a tree of blocks.

    limit: Most cells of a block at the top (one margin alone may have more); default a part of the table's
        cells.
    """
    return _packed(columns, tuple(enumerate(margins)), sizes, limit)


def raking_order(block: Block) -> tuple[int, ...]:
    """Places of the targets in the order in which one cycle rakes to them."""
    inner = tuple(place for part in block.parts for place in raking_order(part))
    return inner + block.targets


def axes_together(block: Block, sizes: Mapping[str, int]) -> ColumnSet:
    """The columns in an order that keeps those side by side which the same blocks sum over; the largest runs last."""
    runs: dict[tuple[bool, ...], list[str]] = {}
    for name in block.columns:
        runs.setdefault(tuple(name in part.columns for part in block.parts), []).append(name)
    by_size = sorted(runs.values(), key=lambda run: prod(sizes[name] for name in run))
    return tuple(name for run in by_size for name in run)


def _packed(
    columns: ColumnSet,
    margins: tuple[tuple[int, ColumnSet], ...],
    sizes: Mapping[str, int],
    limit: int | None = None,
) -> Block:
    own = tuple(place for place, margin in margins if set(margin) == set(columns))
    rest = tuple((place, margin) for place, margin in margins if place not in set(own))
    cells = prod(sizes[name] for name in columns)
    limit = cells // SHRINK if limit is None else limit
    groups: list[list[int]]
    if cells <= SMALL:
        groups = [[k] for k in range(len(rest))]
    else:
        groups = _groups([margin for _, margin in rest], sizes, limit)
    parts = []
    for group in groups:
        named = {name for k in group for name in rest[k][1]}
        inside = tuple(name for name in columns if name in named)
        parts.append(_packed(inside, tuple(rest[k] for k in group), sizes))
    return Block(columns=columns, parts=tuple(parts), targets=own)


def _groups(margins: list[ColumnSet], sizes: Mapping[str, int], limit: int) -> list[list[int]]:
    """Share margins out to groups whose union has few cells: grow each by the margin that enlarges it least."""
    names = sorted({name for margin in margins for name in margin})
    holds = np.array([[name in margin for name in names] for margin in margins], dtype=bool)
    logs = np.array([log(sizes[name]) for name in names])
    cells = holds @ logs
    most = log(max(limit, 1)) + 1e-9
    left = np.ones(len(margins), dtype=bool)
    groups = []
    while left.any():
        start = int(np.argmax(np.where(left, cells, -1.0)))
        block = holds[start].copy()
        while True:
            outside = holds & ~block
            growth = np.where(left & outside.any(axis=1), outside @ logs, np.inf)
            best = int(np.argmin(growth))
            if not np.isfinite(growth[best]) or block @ logs + growth[best] > most:
                break
            block |= holds[best]
        inside = left & ~(holds & ~block).any(axis=1)
        groups.append([int(k) for k in np.flatnonzero(inside)])
        left &= ~inside
    return groups


Table = NDArray[Any]
"""Of float64, or of float32 where it is large."""

LARGE = 1 << 20
"""Cells from which on the table is float32 (half the memory to pass through) until the error is small."""
SAFE_IN_FLOAT32 = 1e-5
"""Least tolerance that float32 is tried for: its sums are right to about 1e-6."""
INNER_RUN = 32
"""Cells side by side that one factor, or a run of factors, is multiplied with at once; fewer would be slow."""

MOST = 1e30
"""Largest factor: a sum that is all but 0 cannot be raised in one step; float32 would overflow."""

NOTHING_POSSIBLE = "the structural zeros (universes and dp.zeros) leave no possible combination"


def fit_dense(
    targets: Sequence[Target],
    columns: ColumnSet,
    sizes: Mapping[str, int],
    *,
    zeros: Sequence[StructuralZero] = (),
    max_cycles: int = 200,
    tolerance: float = 1e-4,
) -> tuple[FloatArray, FitReport]:
    """Fit the full table.

    targets: Of the same sum; at least one.
    columns: Of the table, in the order of its axes. One that no target and no zero names is uniform.
    """
    used = used_columns(columns, targets, zeros)
    block = blocks_of(used, [target.columns for target in targets], sizes)
    axes = axes_together(block, sizes)
    block = blocks_of(axes, [target.columns for target in targets], sizes)
    wanted = aligned(targets, axes)
    total = float(targets[0].n.sum())
    is_large = prod(sizes[name] for name in axes) >= LARGE and tolerance >= SAFE_IN_FLOAT32
    table = seed(axes, sizes, zeros).astype(np.float32 if is_large else np.float64)
    cycles = 0
    while True:
        more, at_rest = run_cycles(
            lambda: rake_table(table, block, wanted) / max(total, 1e-300),  # noqa: B023  # called at once
            max_cycles=max_cycles - cycles,
            tolerance=tolerance,
        )
        cycles += more
        if not table.any():  # no target can be met anywhere: what is possible, all alike
            table[...] = seed(axes, sizes, zeros)
        error = scaled(table, block, wanted, total)
        if error <= tolerance or table.dtype == np.float64:
            break
        table = table.astype(np.float64)
    report = FitReport(
        how="dense", cycles=cycles, error=error, converged=error <= tolerance, at_rest=at_rest
    )
    out = _over_all(table, axes, columns, sizes)
    if is_large and total > 0:
        out *= total / max(float(out.sum()), 1e-300)  # float32 holds a total to seven digits
    return out, report


def used_columns(
    columns: ColumnSet, targets: Sequence[Target], zeros: Sequence[StructuralZero]
) -> ColumnSet:
    """The columns that a target or a zero names; all others are uniform."""
    named = {name for target in targets for name in target.columns}
    named |= {name for zero in zeros for name in zero.columns}
    return tuple(name for name in columns if name in named)


def aligned(targets: Sequence[Target], axes: ColumnSet) -> tuple[FloatArray, ...]:
    """The targets' arrays, with their axes in the order that their columns have in the table."""
    return tuple(
        np.transpose(
            target.n, [target.columns.index(name) for name in axes if name in target.columns]
        ).astype(np.float64)
        for target in targets
    )


def seed(axes: ColumnSet, sizes: Mapping[str, int], zeros: Sequence[StructuralZero]) -> BoolArray:
    """The possible cells, one axis a column."""
    possible = np.ones(tuple(sizes[name] for name in axes), dtype=bool)
    for zero in zeros:
        order = [zero.columns.index(name) for name in axes if name in zero.columns]
        shape = tuple(sizes[name] if name in zero.columns else 1 for name in axes)
        possible &= ~np.transpose(zero.cells, order).reshape(shape)
    if not possible.any():
        raise SpecError(NOTHING_POSSIBLE)
    return possible


def rake_table(table: Table, block: Block, wanted: Sequence[FloatArray]) -> float:
    """Rake a table, in place, to all targets of its block once.

    Returns: Largest sum of absolute differences between a margin and its target, each taken before it was
    raked, in rows.
    """
    error = 0.0
    for part in block.parts:
        axes = tuple(name in part.columns for name in block.columns)
        before = summed(table, axes)
        after = before.copy()
        error = max(error, rake_table(after, part, wanted))
        multiply(table, ratio(after, before), axes)
    for place in block.targets:
        error = max(error, float(np.abs(table - wanted[place]).sum()))
        np.copyto(table, wanted[place], where=table > 0, casting="same_kind")
    return error


def ratio(after: FloatArray, before: FloatArray) -> FloatArray:
    """What takes one table to the other, written over the first; 0 where both are 0."""
    with np.errstate(over="ignore"):
        np.divide(after, before, out=after, where=before > 0)
    return np.minimum(after, MOST, out=after)


def farthest(table: Table, block: Block, wanted: Sequence[FloatArray]) -> float:
    """Largest sum of absolute differences between a margin of the table and its target, in rows."""
    error = 0.0
    for part in block.parts:
        axes = tuple(name in part.columns for name in block.columns)
        error = max(error, farthest(summed(table, axes), part, wanted))
    for place in block.targets:
        error = max(error, float(np.abs(table - wanted[place]).sum()))
    return error


def scaled(table: Table, block: Block, wanted: Sequence[FloatArray], total: float) -> float:
    """Scale a table, in place, to its total (targets that cannot be met lose rows); give its error as a share."""
    if total <= 0:
        table[...] = 0
        return 0.0
    have = float(table.sum(dtype=np.float64))
    if have > 0:
        table *= table.dtype.type(total / have)
    return farthest(table, block, wanted) / total


def summed(table: Table, axes: tuple[bool, ...]) -> FloatArray:
    """Sum a table over the axes that are not kept; in its own type over the longest run of them, then in float64."""
    runs = _runs(axes, table.shape)
    dropped = [k for k, (stays, _) in enumerate(runs) if not stays]
    if not dropped:
        return table.astype(np.float64)
    longest = max(dropped, key=lambda k: runs[k][1])
    before = prod(n for _, n in runs[:longest])
    length = runs[longest][1]
    after = prod(n for _, n in runs[longest + 1 :])
    ones = np.ones(length, dtype=table.dtype)
    if after == 1:
        part = table.reshape(before, length) @ ones
    else:
        part = np.matmul(ones, table.reshape(before, length, after))
    left = part.reshape([n for k, (_, n) in enumerate(runs) if k != longest])
    others = tuple(k - (k > longest) for k in dropped if k != longest)
    small = left.sum(axis=others, dtype=np.float64)
    shape = [n for n, stays in zip(table.shape, axes, strict=True) if stays]
    return np.asarray(small, dtype=np.float64).reshape(shape)


def multiply(table: Table, factor: FloatArray, axes: tuple[bool, ...]) -> None:
    """Multiply a factor over the kept axes into the table, in place."""
    runs = _runs(axes, table.shape)
    shape = [n if stays else 1 for stays, n in runs]
    wide = factor.reshape(shape)
    length, tail = 1, len(runs)
    while tail > 0 and length < INNER_RUN:
        tail -= 1
        length *= runs[tail][1]
    if len({stays for stays, _ in runs[tail:]}) > 1:  # short runs of both kinds: fill the factor up
        wide = np.broadcast_to(wide, (*shape[:tail], *(n for _, n in runs[tail:])))
        wide = np.ascontiguousarray(wide)
    view = table.reshape([n for _, n in runs])
    with np.errstate(over="ignore", under="ignore"):
        view *= wide.astype(table.dtype)


def _runs(axes: tuple[bool, ...], shape: tuple[int, ...]) -> list[tuple[bool, int]]:
    """Neighbouring axes that are all kept, or all not, as one."""
    runs: list[tuple[bool, int]] = []
    for stays, n in zip(axes, shape, strict=True):
        if runs and runs[-1][0] == stays:
            runs[-1] = (stays, runs[-1][1] * n)
        else:
            runs.append((stays, n))
    return runs


def _over_all(
    table: Table, axes: ColumnSet, columns: ColumnSet, sizes: Mapping[str, int]
) -> FloatArray:
    """The table with its axes in the order of the columns; evenly spread over columns it does not have."""
    order = [axes.index(name) for name in columns if name in axes]
    shape = tuple(sizes[name] if name in axes else 1 for name in columns)
    full = tuple(sizes[name] for name in columns)
    spread = prod(full) // max(prod(shape), 1)
    out = np.empty(full, dtype=np.float64)
    np.divide(np.transpose(table, order).reshape(shape), spread, out=out)
    return out
