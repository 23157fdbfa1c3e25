"""Rows whose counts come near to targets, where no table of all columns fits into memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

from engine.errors import SpecError
from engine.fit.joint.ipf import Block, aligned, blocks_of, farthest, rake_table, ratio
from engine.fit.joint.margins import FitReport, Target, run_cycles
from engine.levels import StructuralZero
from engine.schema import BoolArray, ColumnSet, FloatArray, Int64Array

# Rows from two-way tables along the tree of the strongest dependencies.
#
# Tables of pairs of columns in, rows of level indexes out. Of all trees this one's distribution is nearest to one with
# the same pairs. Every child's values are dealt out within each value of its parent as its table says, so that counts
# are met to a row, but for what rules of impossible combinations take away.


Rows = NDArray[np.int32]
Pair = tuple[int, int]
"""Places of two columns, the lower first."""
Rule = tuple[tuple[int, ...], BoolArray]
"""Places of columns, ascending, and the combinations of their levels that are impossible."""
ROWS_AT_ONCE = 20_000


def mutual_information(n: FloatArray) -> float:
    """How much two columns tell of each other, in nats; 0 for an empty table.

    n: Counts, at least 0.
    """
    total = float(n.sum())
    if total <= 0:
        return 0.0
    p = n / total
    expected = np.outer(p.sum(axis=1), p.sum(axis=0))
    some = p > 0
    return float(max((p[some] * np.log(p[some] / expected[some])).sum(), 0.0))


def spanning_tree(information: FloatArray) -> tuple[tuple[int, int], ...]:
    """Return the spanning tree of the largest sum.

    information: Symmetric, at least 0.

    Returns: (Column, its parent), parents first; the root, the column of the largest sum, has the parent -1.

    Source: Chow and Liu (1968), DOI 10.1109/TIT.1968.1054142; Prim (1957).
    """
    root = int(information.sum(axis=0).argmax())
    edges = [(root, -1)]
    inside = np.zeros(len(information), dtype=bool)
    inside[root] = True
    best, parent = information[root].copy(), np.full(len(information), root)
    for _ in range(len(information) - 1):
        child = int(np.where(inside, -1.0, best).argmax())
        edges.append((child, int(parent[child])))
        inside[child] = True
        nearer = information[child] > best
        best[nearer], parent[nearer] = information[child][nearer], child
    return tuple(edges)


def tree_rows(
    singles: Sequence[FloatArray],
    pairs: Mapping[Pair, FloatArray],
    rules: Sequence[Rule],
    n_rows: int,
    rng: np.random.Generator,
) -> Rows:
    """Deal out rows along the tree.

    pairs: Two-way counts, with as many levels; a pair that is not there is taken as independent.
    """
    information = np.zeros((len(singles), len(singles)))
    for (i, j), n in pairs.items():
        information[i, j] = information[j, i] = mutual_information(n)
    rows = np.zeros((n_rows, len(singles)), dtype=np.int32)
    known: list[int] = []
    for child, parent in spanning_tree(information):
        table, of = singles[child][np.newaxis], np.zeros(n_rows, dtype=np.int32)
        if parent >= 0:
            pair = pairs.get((min(child, parent), max(child, parent)))
            if pair is not None:
                table, of = pair if parent < child else pair.T, rows[:, parent]
        known.append(child)
        ready = [(axes, bars) for axes, bars in rules if child in axes and {*axes} <= {*known}]
        rows[:, child] = _dealt(table, singles[child], of, rows, child, ready, rng)
    return rows


def _dealt(
    table: FloatArray,
    single: FloatArray,
    of: Rows,
    rows: Rows,
    child: int,
    rules: Sequence[Rule],
    rng: np.random.Generator,
) -> Rows:
    """Levels of a column: evenly spread numbers within each parent's rows, read off the parent's distribution."""
    spread = _even(of, len(table), rng)
    empty = table.sum(axis=1) <= 0
    table = np.where(empty[:, np.newaxis], single + 1e-9, table)
    out = np.empty(len(rows), dtype=np.int32)
    for start in range(0, len(rows), ROWS_AT_ONCE):
        here = slice(start, start + ROWS_AT_ONCE)
        chance = table[of[here]]
        allowed = np.ones(chance.shape, dtype=bool)
        for axes, bars in rules:
            others = tuple(rows[here, axis] for axis in axes if axis != child)
            allowed &= ~np.moveaxis(bars, axes.index(child), -1)[others]
        masked = np.where(allowed, chance, 0.0)
        none = masked.sum(axis=1) <= 0
        masked[none] = np.where(allowed[none], single + 1e-9, 0.0)
        impossible = ~allowed.any(axis=1)
        masked[impossible] = chance[impossible]
        upto = np.cumsum(masked, axis=1)
        last = upto.shape[1] - 1 - (masked[:, ::-1] > 0).argmax(axis=1)
        level = (upto <= spread[here, np.newaxis] * upto[:, -1:]).sum(axis=1)
        out[here] = np.minimum(level, last)
    return out


def _even(of: Rows, n_groups: int, rng: np.random.Generator) -> FloatArray:
    """Evenly spread numbers in [0, 1) within each group, in random order."""
    order = np.lexsort((rng.random(len(of)), of))
    size = np.bincount(of, minlength=n_groups)
    group = of[order]
    place = np.arange(len(of)) - (np.cumsum(size) - size)[group]
    out = np.empty(len(of))
    out[order] = (place + rng.random(n_groups)[group]) / size[group]
    return out


# Rows are changed, one value at a time, until their counts come near to targets.
#
# Rows of level indexes and tables of target counts in, better rows out. A step takes a batch of rows and a column:
# every row of the batch takes the value that lowers the weighted squared error of all tables most, with some chance in
# it that cools down. All values of a batch are weighed at once, so only a share of the changes is made: all of them
# would overshoot. Of rows that are near already even a share would: there only changes are made that touch no count
# twice, and the error never rises. Changes that lead out of an impossible combination are always made, whatever they do
# to it.


BARRED = 1e4
"""Cost of an impossible combination: above all that counts can make up for."""
BATCHES = 256
MOST_AT_ONCE = 512
"""Rows of a batch, at most."""
SMALLEST = 1e-30


@dataclass(frozen=True, kw_only=True, slots=True)
class Goal:
    """What one table of the rows should be."""

    axes: tuple[int, ...]  # Places of its columns
    n: FloatArray  # Counts, one axis a column, for the number of rows that are changed
    weight: FloatArray  # Of the squared error of each count; 0 where a count does not matter
    barred: BoolArray  # Combinations that no row may have


@dataclass(frozen=True, kw_only=True, slots=True)
class Sweep:
    """One pass over all rows and columns."""

    heat: float  # How much chance there is in a choice, in units of the cost
    share: float  # Share of the changes that are made, of rows that are possible
    # Of these, at once only such that leave different values, and go to others: of two values one change a
    # batch, enough for rows that are near.
    is_apart: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class _Layout:
    """Where the cells of all tables lie: one vector that holds each table once for each of its columns.

    A table's copy for a column has this column as its last axis; copies for the same column lie together, so that what
    a row would cost with each value of the column is the sum of a few stretches. Copy p's cell of row x is at
    x @ strides[:, p] + starts[p].
    """

    strides: FloatArray  # shape (n_columns, n_copies): Whole numbers: products of them are quick
    starts: FloatArray  # shape (n_copies,)
    own: tuple[Int64Array, ...]  # Copies for each column
    touched: tuple[Int64Array, ...]  # Copies of the tables that have the column
    segments: tuple[slice, ...]  # Where the copies for each column lie
    weight2: NDArray[np.float32]  # shape (n_cells,): Twice the weight of each cell


def search_rows(
    rows: Rows,
    goals: Sequence[Goal],
    sizes: Sequence[int],
    sweeps: Sequence[Sweep],
    rng: np.random.Generator,
) -> Rows:
    """Change rows until their tables come near to the goals."""
    layout = _laid_out(goals, sizes)
    x = rows.astype(np.float64)
    free = np.flatnonzero(np.array(sizes) > 1)
    n_batches = max(min(BATCHES, len(rows)), -(-len(rows) // MOST_AT_ONCE))
    for sweep in sweeps if len(rows) and len(goals) else ():
        cost = _costs(x, goals, sizes)
        for batch in np.array_split(rng.permutation(len(rows)), n_batches):
            here = x[batch]
            for column in rng.permutation(free).tolist():
                _change(here, column, sizes[column], cost, layout, sweep, rng)
            x[batch] = here
    return x.astype(np.int32)


def counted(rows: FloatArray | Rows, goal: Goal) -> FloatArray:
    """Counts of the rows by the columns of a goal; of its shape."""
    codes = np.ravel_multi_index(
        tuple(rows[:, axis].astype(np.int64) for axis in goal.axes), goal.n.shape
    )
    return np.bincount(codes, minlength=goal.n.size).reshape(goal.n.shape).astype(np.float64)


def _change(
    x: FloatArray,
    column: int,
    n_levels: int,
    cost: NDArray[np.float32],
    layout: _Layout,
    sweep: Sweep,
    rng: np.random.Generator,
) -> None:
    """Change one column of a batch of rows in place, and the costs with it."""
    own, segment = layout.own[column], layout.segments[column]
    if not len(own):
        return
    at = (x @ layout.strides[:, own] + layout.starts[own]).astype(np.int64)
    now = x[:, column].astype(np.int64)
    stretch = (at - now[:, np.newaxis] - segment.start) // n_levels
    price = cost[segment].reshape(-1, n_levels)[stretch].sum(axis=1)
    each = np.arange(len(x))
    is_barred = price[each, now] > BARRED / 2
    price[each, now] -= layout.weight2[at].sum(axis=1)  # a row is not in its own way
    if sweep.heat > 0:
        chance = rng.standard_exponential(price.shape, dtype=np.float32)
        price += np.float32(sweep.heat) * np.log(np.maximum(chance, SMALLEST))
    best = price.argmin(axis=1)
    best = np.where(price[each, best] < price[each, now], best, now)  # of equal ones the row's own
    may_move = (rng.random(len(x)) < sweep.share) | is_barred
    moved = np.flatnonzero((best != now) & may_move)
    if sweep.is_apart:
        moved = changes_apart(moved, now, best, is_barred)
    if not len(moved):
        return
    touched = layout.touched[column]
    here = x[moved]
    old = (here @ layout.strides[:, touched] + layout.starts[touched]).astype(np.int64)
    step = (best - now)[moved, np.newaxis] * layout.strides[column, touched].astype(np.int64)
    old, new = old.ravel(), (old + step).ravel()
    np.subtract.at(cost, old, layout.weight2[old])
    np.add.at(cost, new, layout.weight2[new])
    x[moved, column] = best[moved]


def changes_apart(
    moved: Int64Array, now: Int64Array, best: Int64Array, is_barred: BoolArray
) -> Int64Array:
    """Choose changes of one column that have no value in common: they touch no count twice, each helps as if alone.

    Rows that are impossible change besides.
    """
    forced, moved = moved[is_barred[moved]], moved[~is_barred[moved]]
    for values in (now, best):
        moved = moved[np.sort(np.unique(values[moved], return_index=True)[1])]
    crossed = np.isin(now[moved], best[moved])
    return np.concatenate([forced, moved[:1] if crossed.all() else moved[~crossed]])


def _costs(x: FloatArray, goals: Sequence[Goal], sizes: Sequence[int]) -> NDArray[np.float32]:
    """What one more row in each cell would add to the error, for all cells of the layout."""
    each = [
        2 * goal.weight * (counted(x, goal) - goal.n) + goal.weight + BARRED * goal.barred
        for goal in goals
    ]
    return _copied(each, goals, sizes)


def _laid_out(goals: Sequence[Goal], sizes: Sequence[int]) -> _Layout:
    """Lay out the cells of all tables."""
    strides, starts, table_of, column_of, segments = [], [], [], [], []
    end = 0
    for column in range(len(sizes)):
        first = end
        for table, goal in enumerate(goals):
            if column not in goal.axes:
                continue
            stride, step = np.zeros(len(sizes)), 1
            for axis in (column, *(a for a in reversed(goal.axes) if a != column)):
                stride[axis] = step
                step *= sizes[axis]
            strides.append(stride)
            starts.append(end)
            table_of.append(table)
            column_of.append(column)
            end += step
        segments.append(slice(first, end))
    of = np.array(column_of, dtype=np.int64)
    holds = [np.array([c in goals[t].axes for t in table_of], bool) for c in range(len(sizes))]
    return _Layout(
        strides=np.array(strides).reshape(-1, len(sizes)).T,
        starts=np.array(starts, dtype=np.float64),
        own=tuple(np.flatnonzero(of == c) for c in range(len(sizes))),
        touched=tuple(np.flatnonzero(has_column) for has_column in holds),
        segments=tuple(segments),
        weight2=_copied([2 * goal.weight for goal in goals], goals, sizes),
    )


def _copied(
    each: Sequence[FloatArray], goals: Sequence[Goal], sizes: Sequence[int]
) -> NDArray[np.float32]:
    """One value a cell, in the order of the layout."""
    parts = [np.empty(0, np.float32)]
    for column in range(len(sizes)):
        for goal, values in zip(goals, each, strict=True):
            if column in goal.axes:
                moved = np.moveaxis(values, goal.axes.index(column), -1)
                parts.append(moved.astype(np.float32).ravel())
    return np.concatenate(parts)


# Rows whose counts come near to targets of any columns, where the full table of all columns is too large for memory.
#
# Targets in, rows of level indexes out, as many as are asked for: a start along the tree of the strongest dependencies
# (from independent columns the search would stick, since blocks of columns that are null together can only move
# together), then a search over the one- and two-way tables of all targets and over wider targets themselves. Impossible
# combinations get no row; a combination whose target is 0 gets one only where targets contradict each other, or where
# no single change of a row leads away from it.


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
