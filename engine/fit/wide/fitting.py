"""Rows of many columns from locked tables of one, two and three columns.

The main path: columns in levels, rows along a tree, exchanges between rows, rows with impossible pairs repaired, values
within groups placed. Every step keeps the counts of every column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from engine.cell_keys import distinct_cells
from engine.errors import InternalError
from engine.fit.joint.chow_liu import spanning_tree
from engine.fit.wide.board import WEIGHT_ONE, Board, Target, counted
from engine.fit.wide.levels import LevelPlan, Telling, plan_levels
from engine.fit.wide.placing import finest_groups, placed_values
from engine.fit.wide.repair import STRICT, repair
from engine.fit.wide.search import block_sweep, blocks_of, matched_sweep
from engine.fit.wide.shuffles import Shuffles
from engine.fit.wide.start import Edge, information_of, tree_rows
from engine.fit.wide.thinning import laid_out, polish, settled, step_of, thinned
from engine.schema import ColumnSet, Int64Array, Support, SyntheticTable

BARRED = 2 * WEIGHT_ONE
"""Price of an impossible pair while rows are searched: high, but passed through."""
BLOCK_SWEEPS, PAIR_SWEEPS, SWEEPS = 3, 2, 4
"""Sweeps of block exchanges, and of matched ones to the pairs alone and to all tables."""
EMPHASIS = 4
"""A difference in tables that hold a target counts so many times."""
MOST_CELLS = 1 << 21
"""Tables of three columns with more combinations of levels are left out."""
Levels = Mapping[str, Int64Array]
Report = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class WideFit:
    """A fitted wide table."""

    columns: ColumnSet
    # shape (n_cells, n_columns): Positions in the columns' supports; rows distinct, in lexicographic order.
    codes: NDArray[np.int32]
    n: Int64Array  # shape (n_cells,): Number of synthetic rows, all > 0
    tree: tuple[tuple[str, str], ...]  # Pairs of columns that the rows were dealt out along
    fitted: tuple[ColumnSet, ...]  # Tables of two and three columns that the rows were fitted to
    # By width of the tables: share of rows that would have to change for a table, in levels of the search;
    # mean.
    off: dict[int, float]
    impossible: int  # Rows with a pair of values that a locked pair does not have
    target: str | None = None  # The column whose tables counted more
    step: int = 1  # So many rows were searched as one; 1: each for itself


def fit_wide(
    columns: ColumnSet,
    supports: Mapping[str, Support],
    tables: Sequence[SyntheticTable],
    *,
    key: bytes,
    told: Telling | None = None,
    report: Report | None = None,
    target: str | None = None,
) -> WideFit:
    """Fit a wide table.

    tables: Locked tables; those of two and three of the columns are fitted to, others are left out.
    key: Sampling key of the wide table, at least 16 bytes. Equal keys and tables give equal rows.
    told: Columns known to tell others: by finer and coarser column, the coarser one's position for each
        value.

    Dependencies that no table shows are as weak as the tables allow to start with (Chow and Liu 1968), not exactly
    those of largest entropy.
    """
    inside = _usable(columns, supports, tables)
    pairs: dict[ColumnSet, SyntheticTable] = {
        table.columns: table for table in inside if len(table.columns) == 2
    }
    plan = plan_levels(columns, supports, pairs, told or {})
    shuffles = Shuffles(key)
    names = tuple(plan.searched)
    sizes = [int(level.max(initial=-1)) + 1 for level in plan.searched.values()]
    targets = _targets(plan.searched, names, inside, _searched_as(target, plan))
    singles = [
        np.bincount(level, weights=supports[name].n, minlength=1).astype(np.int64)
        for name, level in plan.searched.items()
    ]
    information = information_of(_by_axes(targets), len(names))
    edges = spanning_tree(information) if len(names) else ()
    near = [np.argsort(-row, kind="stable") for row in information]
    rows, bad = _rows(singles, sizes, targets, edges, near, shuffles, report or _silent)
    codes = _values(columns, plan, supports, rows, sizes, pairs, shuffles)
    cells, number = distinct_cells(list(codes), [len(supports[name]) for name in columns])
    return WideFit(
        columns=columns,
        codes=np.stack(cells, axis=1).astype(np.int32),
        n=np.bincount(number).astype(np.int64),
        tree=tuple((names[child], names[parent]) for child, parent in edges if parent >= 0),
        fitted=tuple(tuple(sorted(names[axis] for axis in target.axes)) for target in targets),
        off=_off(rows, targets),
        impossible=bad,
        target=target,
        step=step_of(rows.shape[1]),
    )


def _silent(_done: int, _of: int) -> None:
    """Tell nobody."""


def _usable(
    columns: ColumnSet, supports: Mapping[str, Support], tables: Sequence[SyntheticTable]
) -> list[SyntheticTable]:
    """Tables of two and three of the columns, each column set once, in the order of their names."""
    by_name = {t.columns: t for t in tables if set(t.columns) <= set(columns)}
    out = [by_name[name] for name in sorted(by_name) if len(name) in (2, 3)]
    totals = {int(supports[name].n.sum()) for name in columns} | {t.n_rows for t in out}
    if len(totals) > 1:
        raise InternalError("tables that a wide table is fitted to differ in their number of rows")
    return out


def _targets(
    searched: Levels, names: Sequence[str], tables: Sequence[SyntheticTable], predicted: str | None
) -> list[Target]:
    """Counts by levels of all tables of searched columns, pairs first."""
    out = []
    for width in (2, 3):
        for table in tables:
            if len(table.columns) != width or not set(table.columns) <= set(names):
                continue
            order = sorted(range(width), key=lambda j: names.index(table.columns[j]))
            of = [searched[table.columns[j]] for j in order]
            shape = tuple(int(level.max(initial=-1)) + 1 for level in of)
            if width == 2 or prod(shape) <= MOST_CELLS:
                axes = tuple(names.index(table.columns[j]) for j in order)
                counts = _by_levels(table, order, of, shape)
                weighs = EMPHASIS if predicted in table.columns else 1
                out.append(Target(axes=axes, n=counts, is_strict=width == 2, emphasis=weighs))
    return out


def _searched_as(name: str | None, plan: LevelPlan) -> str | None:
    """The searched column that decides a column."""
    while name is not None and name in plan.told:
        name = plan.told[name].by
    return plan.placed[name].host if name is not None and name in plan.placed else name


def _by_levels(
    table: SyntheticTable, order: Sequence[int], of: Sequence[Int64Array], shape: tuple[int, ...]
) -> Int64Array:
    """Counts of a table by the levels of its columns, in an order of them."""
    levels = tuple(level[table.codes[:, j]] for j, level in zip(order, of, strict=True))
    key = np.ravel_multi_index(levels, shape)
    sums = np.bincount(key, weights=table.n, minlength=prod(shape))  # whole, far below 2 ** 53
    return sums.astype(np.int64).reshape(shape)


def _by_axes(targets: Sequence[Target]) -> dict[tuple[int, int], Int64Array]:
    """Counts of the pairs by their places."""
    pairs = [target for target in targets if len(target.axes) == 2]
    return {(target.axes[0], target.axes[1]): target.n for target in pairs}


def _rows(
    singles: Sequence[Int64Array],
    sizes: Sequence[int],
    targets: Sequence[Target],
    edges: Sequence[Edge],
    near: Sequence[Int64Array],
    shuffles: Shuffles,
    report: Report,
) -> tuple[Int64Array, int]:
    """Levels of all rows, and how many rows have an impossible pair at the end."""
    pairs = [target for target in targets if len(target.axes) == 2]
    n_rows = int(singles[0].sum()) if singles else 0
    step = step_of(n_rows)
    fewer = [thinned(single, step) for single in singles] if step > 1 else singles
    rows = tree_rows(edges, fewer, _by_axes(targets), shuffles, step=step)
    _search(rows, sizes, targets, edges, shuffles, report, step)
    if step > 1:
        rows = laid_out(rows, step, n_rows, shuffles)
        board = Board(rows, sizes, targets, barred=BARRED)
        polish(board, settled(board, singles, shuffles), shuffles)
    strict = Board(rows, sizes, pairs, barred=STRICT)
    return rows, repair(strict, pairs, near, shuffles)


def _search(
    rows: Int64Array,
    sizes: Sequence[int],
    targets: Sequence[Target],
    edges: Sequence[Edge],
    shuffles: Shuffles,
    report: Report,
    step: int,
) -> None:
    """Search in place: pairs first, then all tables; a row counts `step` times."""
    pairs, blocks = [target for target in targets if len(target.axes) == 2], blocks_of(edges)
    wider = PAIR_SWEEPS if len(pairs) < len(targets) else 0
    steps = BLOCK_SWEEPS + wider + SWEEPS
    board = Board(rows, sizes, pairs, barred=BARRED, step=step)
    for done in range(BLOCK_SWEEPS):
        report(done, steps)
        block_sweep(board, blocks, shuffles)
    for done in range(wider):
        report(BLOCK_SWEEPS + done, steps)
        matched_sweep(board, shuffles)
    board = Board(rows, sizes, targets, barred=BARRED, step=step) if wider else board
    for done in range(SWEEPS):
        report(BLOCK_SWEEPS + wider + done, steps)
        matched_sweep(board, shuffles)
    report(steps, steps)


def _values(
    columns: ColumnSet,
    plan: LevelPlan,
    supports: Mapping[str, Support],
    rows: Int64Array,
    sizes: Sequence[int],
    pairs: Mapping[ColumnSet, SyntheticTable],
    shuffles: Shuffles,
) -> Int64Array:
    """Positions in the supports, for all columns; shape (n_columns, n_rows)."""
    names = tuple(plan.searched)
    codes = {name: rows[names.index(name)] for name in names}
    for name, placed in plan.placed.items():
        fine, group = finest_groups(supports[name], placed)
        own = {other: at for at, other in enumerate(names) if other != placed.host}
        targets = []
        for other, at in own.items():
            table = pairs.get((name, other) if name < other else (other, name))
            if table is not None:
                of = [plan.searched[other], fine]
                order = [table.columns.index(other), table.columns.index(name)]
                counts = _by_levels(table, order, of, (sizes[at], len(group)))
                targets.append(Target(axes=(at, len(names)), n=counts))
        host = rows[names.index(placed.host)]
        codes[name] = placed_values(
            rows, sizes, host, supports[name], fine, group, targets, shuffles
        )
    for name, told in plan.told.items():
        codes[name] = told.code[codes[told.by]]
    return np.stack([codes[name] for name in columns])


def _off(rows: Int64Array, targets: Sequence[Target]) -> dict[int, float]:
    """Mean share of rows that would have to change for the tables of each width."""
    shares: dict[int, list[float]] = {}
    for target in targets:
        moved = int(np.abs(counted(rows, target) - target.n).sum()) // 2
        shares.setdefault(len(target.axes), []).append(moved / max(rows.shape[1], 1))
    return {width: round(sum(of) / len(of), 6) for width, of in shares.items()}
