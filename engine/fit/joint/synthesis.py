"""From noisy margins to rows, and tables as their projections."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from engine.cell_keys import distinct_cells
from engine.fit.joint.ipf import (
    JunctionTree,
    fit_junction_tree,
    junction_tree,
    sample_tree,
    used_columns,
)
from engine.fit.joint.margins import (
    FitReport,
    Nesting,
    Sizes,
    Target,
    nestings,
    reconcile,
    within,
    without_strata,
)
from engine.fit.joint.positions import GroupSums, meeting
from engine.fit.joint.search import farthest_of, nearer_rows, support_rows
from engine.levels import Levels, Margin, StructuralZero, widest
from engine.params import DPParams
from engine.progress import Progress, silent
from engine.schema import (
    KIND_NEGATIVE,
    KIND_NONNEGATIVE,
    KIND_NULL,
    BoolArray,
    CellGroups,
    ColumnSet,
    FloatArray,
    Int64Array,
    Support,
    SyntheticTable,
    UInt8Array,
)

# From noisy margins to rows of level indexes: one fit for all, or one within each stratum.
#
# Margins in, distinct combinations of levels and their numbers of rows out. Which way is taken depends on size alone:
# the full table where it has no more than `max_cells`, else a junction tree if its cliques have not, else support rows.
# Columns that no margin and no structural zero names are drawn evenly.


Codes = NDArray[np.int32]


@dataclass(frozen=True, kw_only=True, slots=True)
class Synthesis:
    """Synthetic rows, counted."""

    columns: ColumnSet
    # shape (n_cells, n_columns): Distinct combinations of level indexes, in lexicographic order.
    cells: Codes
    n: Int64Array  # shape (n_cells,): Rows of each, above 0
    reports: tuple[FitReport, ...]  # One a fit: one a stratum that has rows
    uniform: ColumnSet  # Columns that no margin names


def synthesise(
    margins: Sequence[Margin],
    total: Margin,
    *,
    params: DPParams,
    levels: Mapping[str, Levels],
    zeros: Sequence[StructuralZero],
    rng: np.random.Generator,
    progress: Progress = silent,
) -> Synthesis:
    """Fit and draw."""
    sizes = {name: len(levels[name]) for name in params.columns}
    strata = params.strata
    free = tuple(name for name in params.columns if name not in strata)
    parts: list[tuple[Codes, Int64Array]] = []
    reports: list[FitReport] = []
    n_strata = prod(sizes[name] for name in strata)
    for done, (place, targets, ruled) in enumerate(
        reconciled(margins, total, params=params, sizes=sizes, zeros=zeros)
    ):
        progress("fit", done, n_strata)
        cells, n, report = fitted_rows(targets, free, sizes, params=params, zeros=ruled, rng=rng)
        parts.append((_with_strata(cells, free, strata, place, params.columns), n))
        reports.append(report)
    progress("fit", n_strata, n_strata)
    if not parts:
        parts = [(np.zeros((0, len(params.columns)), dtype=np.int32), np.zeros(0, dtype=np.int64))]
    cells, n = distinct(
        list(np.concatenate([c for c, _ in parts]).T),
        [sizes[name] for name in params.columns],
        np.concatenate([n for _, n in parts]),
    )
    named = {name for margin in margins for name in margin.columns}
    uniform = tuple(name for name in params.columns if name not in named)
    return Synthesis(
        columns=params.columns, cells=cells, n=n, reports=tuple(reports), uniform=uniform
    )


def reconciled(
    margins: Sequence[Margin],
    total: Margin,
    *,
    params: DPParams,
    sizes: Sizes,
    zeros: Sequence[StructuralZero],
) -> Iterator[tuple[tuple[int, ...], tuple[Target, ...], list[StructuralZero]]]:
    """Targets of each stratum with rows, by the levels that make it, and what is impossible within it.

    Without strata there is one, of no levels.
    """
    strata = params.strata
    places = product(*(range(sizes[name]) for name in strata))
    totals = within(margins, total, strata, zeros, sizes)
    for place, rows in zip(places, totals, strict=True):
        if strata and rows.n <= 0:
            continue
        ruled = [without_strata(z, strata, place) for z in zeros]
        ruled = [zero for zero in ruled if zero.columns]
        here = [without_strata(m, strata, place) for m in margins]
        targets = reconcile(
            [m for m in here if m.columns],
            rows,
            post=params.post,
            prior=params.prior,
            zeros=ruled,
        )
        yield place, targets, ruled


def expected_counts(
    margins: Sequence[Margin],
    total: Margin,
    columns: ColumnSet,
    *,
    params: DPParams,
    sizes: Sizes,
    zeros: Sequence[StructuralZero],
) -> FloatArray:
    """Counts of some columns as they follow from those margins that have no others: one axis a column."""
    inner = tuple(name for name in columns if name not in params.strata)
    inside = [margin for margin in margins if {*margin.columns} <= {*columns}]
    ruled = [zero for zero in zeros if {*zero.columns} <= {*columns}]
    out = np.zeros(tuple(sizes[name] for name in columns))
    for place, targets, here in reconciled(inside, total, params=params, sizes=sizes, zeros=ruled):
        at = dict(zip(params.strata, place, strict=True))
        (table,), _ = fit_junction_tree(
            targets,
            junction_tree([inner], sizes),
            sizes,
            zeros=here,
            max_cycles=params.max_cycles,
            tolerance=params.tolerance,
        )
        out[tuple(at.get(name, slice(None)) for name in columns)] = table
    return out


def fitted_rows(
    targets: Sequence[Target],
    columns: ColumnSet,
    sizes: Mapping[str, int],
    *,
    params: DPParams,
    zeros: Sequence[StructuralZero],
    rng: np.random.Generator,
) -> tuple[Codes, Int64Array, FitReport]:
    """Fit one joint distribution and draw as many rows from it as its targets' total says, rounded.

    Unless they are to be independent, or targets contradict each other, rows then exchange values until their counts
    are near the targets.

    Returns: cells: Distinct; n.
    """
    n_rows = round(float(targets[0].n.sum()))
    # Else targets contradict each other, and rows would leave the fit's compromise for one of them.
    agree = params.post == "wls"
    nested = nestings(zeros)
    if agree:
        targets, zeros, read_off = without_coarser(targets, zeros, nested)
    else:
        read_off = []
    fitted = tuple(name for name in columns if name not in {one.coarser for one in read_off})
    used = used_columns(fitted, targets, zeros)
    tree = chosen_tree(targets, used, sizes, zeros, params.max_cells)
    if tree is None:
        rows = support_rows(
            targets, used, sizes, zeros=zeros, nested=nested, n_rows=n_rows, rng=rng
        )
        error = farthest_of(rows, targets, used)
        report = FitReport(
            how="support rows", cycles=0, error=error, converged=error <= params.tolerance
        )
    else:
        tables, report = fit_junction_tree(
            targets,
            tree,
            sizes,
            zeros=zeros,
            max_cycles=params.max_cycles,
            tolerance=params.tolerance,
        )
        rows = sample_tree(tables, tree, used, n_rows, params.sample, rng)
        if params.sample == "rounded" and agree and n_rows:
            rows = nearer_rows(rows, targets, used, sizes, zeros=zeros, nested=nested, rng=rng)
    if used != fitted:
        rows = _with_uniform(rows, used, fitted, sizes, rng)
    if read_off:
        code = dict(zip(fitted, rows.T, strict=True))
        for one in reversed(read_off):  # the finer ones first
            code[one.coarser] = one.of[code[one.finer]].astype(np.int32)
        rows = np.stack([code[name] for name in columns], axis=1)
    cells, n = distinct(list(rows.T), [sizes[name] for name in columns])
    return cells, n, report


def without_coarser(
    targets: Sequence[Target], zeros: Sequence[StructuralZero], nested: Sequence[Nesting]
) -> tuple[list[Target], list[StructuralZero], list[Nesting]]:
    """Leave out what follows from finer columns: their targets are consistent, so coarser columns are read off them.

    Returns: Targets and zeros that are left; the columns that these do not name any more, the coarsest first.
    """
    left, ruled = list(targets), list(zeros)
    for one in nested:
        held = [{*target.columns} for target in left]
        left = [
            target
            for target in left
            if one.coarser not in target.columns
            or one.finer in target.columns
            or not any({*target.columns} - {one.coarser} | {one.finer} <= other for other in held)
        ]
    read_off: list[Nesting] = []
    for one in nested:
        below = [{other.finer, one.coarser} for other in nested if other.coarser == one.coarser]
        own = [zero for zero in ruled if one.coarser in zero.columns]
        named = any(one.coarser in target.columns for target in left)
        if own and not named and all({*zero.columns} in below for zero in own):
            read_off.append(one)
            ruled = [zero for zero in ruled if one.coarser not in zero.columns]
    return left, ruled, read_off


def chosen_tree(
    targets: Sequence[Target],
    columns: ColumnSet,
    sizes: Mapping[str, int],
    zeros: Sequence[StructuralZero],
    max_cells: int,
) -> JunctionTree | None:
    """Decide by the cells that must fit in memory: of all columns at once, in cliques, or by rows alone (None)."""
    if prod(sizes[name] for name in columns) <= max_cells:
        return junction_tree([columns], sizes)
    tree = junction_tree([*(t.columns for t in targets), *(z.columns for z in zeros)], sizes)
    return tree if tree.cells <= max_cells else None


def distinct(
    parts: Sequence[Codes], sizes: Sequence[int], n: Int64Array | None = None
) -> tuple[Codes, Int64Array]:
    """Distinct combinations in lexicographic order, with the sums of their counts.

    parts: One a column, at least one. n: Count of each row; default 1.
    """
    cells, number = distinct_cells(parts, sizes)
    counts = np.bincount(number, weights=n, minlength=len(cells[0])).astype(np.int64)
    return np.stack(cells, axis=1).astype(np.int32), counts


def _with_uniform(
    rows: Codes,
    used: ColumnSet,
    columns: ColumnSet,
    sizes: Mapping[str, int],
    rng: np.random.Generator,
) -> Codes:
    """Rows with levels of the other columns that are as even as can be and go with nothing."""
    out = np.empty((len(rows), len(columns)), dtype=np.int32)
    for place, name in enumerate(columns):
        if name in used:
            out[:, place] = rows[:, used.index(name)]
        else:
            # Dealt out level by level, from a random one on, to the rows in random order.
            dealt = (np.arange(len(rows)) + rng.integers(sizes[name])) % sizes[name]
            out[:, place] = rng.permutation(dealt)
    return out


def _with_strata(
    cells: Codes,
    free: ColumnSet,
    strata: ColumnSet,
    place: tuple[int, ...],
    columns: ColumnSet,
) -> Codes:
    """Put the levels of a stratum beside those of its rows."""
    if not strata:
        return cells
    out = np.empty((len(cells), len(columns)), dtype=np.int32)
    for at, name in enumerate(columns):
        out[:, at] = place[strata.index(name)] if name in strata else cells[:, free.index(name)]
    return out


# From cells of level indexes to published tables: values drawn inside levels, then projections of these rows.
#
# Takes the distinct cells of the joint distribution with their numbers of rows, and the public levels; gives each
# column's support and every published table. A level of several values shares its rows out among them evenly and
# at random, once: all tables are projections of the same rows, so their margins agree to the last row. Sees no data.


@dataclass(frozen=True, kw_only=True, slots=True)
class JointRows:
    """Rows of the joint distribution, as codes in the columns' supports."""

    columns: ColumnSet
    codes: tuple[Codes, ...]  # shape (n_rows,): One a column: positions in its support
    n: Int64Array  # shape (n_rows,): How often each row occurs
    supports: dict[str, Support]
    level_of: dict[str, Codes]  # The level that each code of a column stands in
    levels: dict[str, Levels]


@dataclass(frozen=True, kw_only=True, slots=True)
class Precision:
    """What is known of the noise of one table."""

    # Some measured margin holds all its columns; else it follows from narrower margins.
    is_covered: bool
    # Covered: standard deviation of the noise of each combination of levels, read from the best such margin
    # alone. Else the largest one among the margins it follows from.
    noise_sd: float


def precision_of(columns: ColumnSet, margins: Sequence[Margin], sizes: Sizes) -> Precision:
    """How noisy the counts are that a table rests on; what post-processing gains is not counted."""
    wanted = frozenset(columns)
    best: dict[frozenset[str], float] = {}
    for margin in margins:
        shared = wanted & frozenset(margin.columns)
        added = math.prod(sizes[name] for name in margin.columns if name not in shared)
        if shared:
            sd = math.sqrt(margin.variance * added)
            best[shared] = min(sd, best.get(shared, math.inf))
    if wanted in best:
        return Precision(is_covered=True, noise_sd=best[wanted])
    return Precision(is_covered=False, noise_sd=max(best.values(), default=0.0))


def joint_rows(
    columns: ColumnSet,
    cells: NDArray[np.int32],
    n: Int64Array,
    levels: Mapping[str, Levels],
    *,
    uniform: Sequence[str] = (),
    sums: Sequence[Margin] = (),
    rng: np.random.Generator,
) -> JointRows:
    """Give every row values.

    sums: Noisy sums of positions; those in groups that the columns do not tell are left aside.

    Returns: A row a person where some level holds several values, else a row a cell.
    """
    firsts = {name: values_inside(levels[name]) for name in columns}
    wide = [bool((size > 1).any()) for _, size, _ in firsts.values()]
    row = np.repeat(np.arange(len(n)), n) if any(wide) else None
    codes: list[Codes] = []
    supports, level_of = {}, {}
    for j, name in enumerate(columns):
        if wide[j] and row is not None:
            place = _placing(name, columns, cells[row], levels[name], sums)
            own, standing, grid, count = _drawn(cells[row, j], *firsts[name], rng, place)
        else:
            own, standing, grid, count = _single(cells[:, j], n, firsts[name][0])
            own = own if row is None else own[row]
        codes.append(own)
        level_of[name] = standing
        supports[name] = _support(
            levels[name], standing, grid, count, is_measured=name not in uniform
        )
    return JointRows(
        columns=columns,
        codes=tuple(codes),
        n=n if row is None else np.ones(len(row), dtype=np.int64),
        supports=supports,
        level_of=level_of,
        levels={name: levels[name] for name in columns},
    )


Placing = Callable[[FloatArray], FloatArray]
"""Moves rows inside their levels: the share of its level where each one stands."""


def _placing(
    name: str, columns: ColumnSet, rows: Codes, levels: Levels, sums: Sequence[Margin]
) -> Placing | None:
    """How rows come to the measured sums of a column; None: they stay where they were drawn."""
    own = [one for one in sums if one.sum_of == name and {*one.columns} <= {*columns}]
    if not own or not widest(levels):
        return None
    groups = []
    for one in own:
        at = [rows[:, columns.index(by)] for by in one.columns]
        group = np.ravel_multi_index(at, one.n.shape) if at else np.zeros(len(rows), dtype=np.int64)
        n = one.n.ravel().astype(np.float64)
        groups.append(GroupSums(group=group.astype(np.int64), n=n, variance=one.variance))
    width = ((levels.high - levels.low) / widest(levels))[rows[:, columns.index(name)]]
    return lambda share: meeting(share, width, groups)


def projected(rows: JointRows, columns: ColumnSet, precision: Precision) -> SyntheticTable:
    """One published table: the rows as far as its columns go.

    Returns: With a group for each of its combinations of levels where it is covered by a measured margin,
    else without.
    """
    place = {name: j for j, name in enumerate(rows.columns)}
    chosen = [rows.codes[place[name]] for name in columns]
    sizes = [len(rows.supports[name]) for name in columns]
    codes, n = distinct(chosen, sizes, rows.n)
    standing = [rows.level_of[name][codes[:, j]] for j, name in enumerate(columns)]
    single = np.full(len(n), precision.is_covered)
    for j, name in enumerate(columns):
        single &= _is_single(rows.levels[name])[standing[j]]
    return SyntheticTable(
        columns=columns,
        codes=codes,
        n=n,
        measured=single,
        groups=_groups(columns, standing, n, rows.levels, precision),
        noise_sd=precision.noise_sd,
    )


def _is_single(levels: Levels) -> BoolArray:
    """Levels of one value."""
    _, size, _ = values_inside(levels)
    single: BoolArray = size == 1
    return single


def values_inside(levels: Levels) -> tuple[Int64Array, NDArray[np.uint64], Int64Array]:
    """First value, number of values and distance between values of each level: multiples of the column's step.

    A level without such a multiple holds all its codes.
    """
    low, high = levels.low, levels.high
    step = np.full(len(low), levels.column.step, dtype=np.int64)
    first, last = low + -low % step, high // step * step  # no sum leaves the 64 bits
    bare = first > last
    first, last = np.where(bare, low, first), np.where(bare, high, last)
    step[bare] = 1
    # Null has the grid 0, a multiple of every step.
    return first, (last - first).view(np.uint64) // step.view(np.uint64) + np.uint64(1), step


def _single(
    level: NDArray[np.int32], n: Int64Array, first: Int64Array
) -> tuple[Codes, Codes, Int64Array, Int64Array]:
    """Codes where every level is one value: the levels that have rows."""
    count = np.bincount(level, weights=n, minlength=len(first)).astype(np.int64)
    present = np.flatnonzero(count)
    code = np.zeros(len(first), dtype=np.int32)
    code[present] = np.arange(len(present), dtype=np.int32)
    return code[level], present.astype(np.int32), first[present], count[present]


def _drawn(
    level: NDArray[np.int32],
    first: Int64Array,
    size: NDArray[np.uint64],
    step: Int64Array,
    rng: np.random.Generator,
    place: Placing | None = None,
) -> tuple[Codes, Codes, Int64Array, Int64Array]:
    """Codes where levels hold several values: the rows of a level, in random order, go evenly through its values.

    Evenly: cut the level into as many equal parts as it has rows; each row's value is uniform in its part. So each
    value has about its expected number of rows, rounded up or down, and each row is uniform over the whole level.
    """
    shuffled = rng.permutation(len(level))
    narrow = (
        level.astype(np.int16) if len(first) < 1 << 15 else level
    )  # sorted by radix: many times faster
    order = shuffled[np.argsort(narrow[shuffled], kind="stable")]
    standing = level[order]
    rows = np.bincount(level, minlength=len(first))
    rank = np.arange(len(level)) - (np.cumsum(rows) - rows)[standing]
    at = (rank + rng.random(len(level))) / np.maximum(rows, 1)[standing]
    if place is not None:
        share = np.empty(len(level))
        share[order] = at
        share = place(share)
        order = np.lexsort((share, level))
        at = share[order]
    room = size[standing].astype(np.float64)
    offset = np.minimum((at * room).astype(np.uint64), size[standing] - np.uint64(1))
    grid = first[standing] + offset.view(np.int64) * step[standing]
    # Levels and the values inside them ascend in this order: a new code where either changes.
    fresh = np.ones(len(level), dtype=bool)
    fresh[1:] = (standing[1:] != standing[:-1]) | (grid[1:] != grid[:-1])
    code = np.empty(len(level), dtype=np.int32)
    code[order] = np.cumsum(fresh) - 1
    starts = np.flatnonzero(fresh)
    count = np.diff(np.append(starts, len(level)))
    return code, standing[starts], grid[starts], count.astype(np.int64)


def _support(
    levels: Levels,
    standing: Codes,
    grid: Int64Array,
    count: Int64Array,
    *,
    is_measured: bool,
) -> Support:
    """The values that have rows; null first, then ascending, as levels are."""
    null = (standing == 0) if levels.has_null else np.zeros(len(standing), dtype=bool)
    return Support(
        column=levels.column,
        kind=_kinds(grid, null),
        grid=np.where(null, 0, grid),
        n=count,
        measured=_is_single(levels)[standing] & is_measured,
        values=None if levels.values is None else dict(enumerate(levels.values)),
    )


def _kinds(grid: Int64Array, null: BoolArray) -> UInt8Array:
    """Kind of each value."""
    signed = np.where(grid < 0, KIND_NEGATIVE, KIND_NONNEGATIVE)
    return np.where(null, KIND_NULL, signed).astype(np.uint8)


def _groups(
    columns: ColumnSet,
    standing: list[Codes],
    n: Int64Array,
    levels: Mapping[str, Levels],
    precision: Precision,
) -> CellGroups:
    """The combinations of levels that have rows, as boxes of codes; none where they were not measured together."""
    used = n if precision.is_covered else n[:0]
    parts = [part[: len(used)] for part in standing]
    combinations, rows = distinct(parts, [len(levels[name]) for name in columns], used)
    shape = combinations.shape
    kind, single = np.zeros(shape, dtype=np.uint8), np.ones(len(rows), dtype=bool)
    low, high = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    for j, name in enumerate(columns):
        own, at = levels[name], combinations[:, j]
        low[:, j], high[:, j] = own.low[at], own.high[at]
        kind[:, j] = _kinds(own.low[at], (at == 0) & own.has_null)
        single &= _is_single(own)[at]
    return CellGroups(
        kind=kind,
        low=low,
        high=high,
        n=rows,
        noise_sd=np.full(len(rows), precision.noise_sd),
        measured=single,
        depth=np.full(len(rows), -1, dtype=np.int8),
    )
