"""Rows of many columns from locked tables of one, two and three columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.cell_keys import distinct_cells
from engine.errors import InternalError
from engine.fit.budget import BUDGET
from engine.fit.wide.exchange import (
    AT_ONCE,
    IMPOSSIBLE,
    WEIGHT_ONE,
    Board,
    Edge,
    Pairs,
    Shuffles,
    Target,
    against_none,
    block_sweep,
    blocks_of,
    counted,
    exchange_for_sums,
    information_of,
    matched_sweep,
    spanning_tree,
    target_of,
    tree_rows,
)
from engine.schema import (
    KIND_NULL,
    KIND_OTHER,
    BoolArray,
    CellGroups,
    ColumnSet,
    FloatArray,
    Int64Array,
    Support,
    SyntheticTable,
    column_set,
)

# Which columns of a wide table are searched, in which levels, and which follow from others.
#
# Supports and locked pairs in, a plan out. A column of few values is searched as it is. One of many values is searched
# in groups of values, and its values are placed within the groups afterwards; where it implies a column of few values,
# such as an occupation its major group, that column's values are the groups. A column that another one implies is read
# off that one. What is bound so stays bound in every row.


MOST_VALUES = 128
"""A column of more values is searched in groups."""
GROUPS = 32
"""Groups of equal share; a value with more rows is one of its own."""
FINEST = 64
"""Groups within a group, for the placing of values."""
Implications = Mapping[tuple[str, str], Int64Array]
SURE = 0.95
"""Least share of a column's rows in measured values for it to imply another column."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Implied:
    """A column that is read off another one."""

    by: str
    # shape (n_values of `by`,): Position in the implied column's support for each value.
    code: Int64Array


@dataclass(frozen=True, kw_only=True, slots=True)
class Placed:
    """A column whose values are placed after the search."""

    # The searched column whose levels its groups are; itself, if it was searched in groups.
    host: str
    group: Int64Array  # shape (n_values,): The host's level for each value


@dataclass(frozen=True, kw_only=True, slots=True)
class LevelPlan:
    """How the columns are treated."""

    searched: dict[str, Int64Array]  # Level of each value of the searched columns
    placed: dict[str, Placed]
    implied: dict[
        str, Implied
    ]  # Such that what a column is read off is known before it, in this order


def plan_levels(
    columns: ColumnSet,
    supports: Mapping[str, Support],
    pairs: Mapping[ColumnSet, SyntheticTable],
    known: Implications,
) -> LevelPlan:
    """Sort the columns into searched, placed and implied ones.

    known: By finer and coarser column: the coarser one's position for each value; more is read off the pairs.
    """
    implications = _implications(columns, supports, pairs)
    implications |= {pair: code for pair, code in known.items() if set(pair) <= set(columns)}
    size = {name: len(supports[name]) for name in columns}
    by_size = sorted(columns, key=lambda name: (size[name], name))
    implied: dict[str, str] = {}
    for name in by_size:
        finer = [f for f in by_size if (f, name) in implications and f not in implied]
        few = [f for f in finer if size[f] <= MOST_VALUES]
        if few:
            implied[name] = few[0]
    hosts: dict[str, str] = {}
    for name in (n for n in reversed(by_size) if size[n] > MOST_VALUES and n not in implied):
        coarser = [c for c in by_size if (name, c) in implications and c not in implied]
        few = [c for c in coarser if size[c] <= MOST_VALUES]
        few = [c for c in few if _adds_up(supports[name], implications[name, c], supports[c])]
        if few:
            hosts[name] = few[-1]
        implied |= {c: name for c in coarser if c not in hosts.values()}
    searched = {
        name: groups_of(supports[name], MOST_VALUES, GROUPS)
        for name in columns
        if name not in implied and name not in hosts
    }
    placed = {name: Placed(host=c, group=implications[name, c]) for name, c in hosts.items()}
    placed |= {
        name: Placed(host=name, group=level)
        for name, level in searched.items()
        if len(level) > level.max(initial=-1) + 1
    }
    order = sorted(implied, key=lambda name: _depth(name, implied))
    return LevelPlan(
        searched=searched,
        placed=placed,
        implied={
            name: Implied(by=implied[name], code=implications[implied[name], name])
            for name in order
        },
    )


def groups_of(support: Support, most: int, groups: int) -> Int64Array:
    """Group of each value: itself if there are few, else neighbours of about equal share together.

    most: So many values are not grouped.
    groups: A group is closed once it holds one row in so many; kinds of values are never mixed.
    """
    n = len(support)
    if n <= most:
        return np.arange(n)
    return packed(support.n, support.kind.astype(np.int64), int(support.n.sum()) // groups)


def packed(n: Int64Array, kind: Int64Array, enough: int) -> Int64Array:
    """Number neighbours so that each group but the last of its kind holds enough rows.

    A value that holds enough alone is a group alone.
    """
    out = np.empty(len(n), dtype=np.int64)
    group, held = -1, 0
    for place, (rows, changes) in enumerate(
        zip(n.tolist(), (np.diff(kind, prepend=-1) != 0).tolist(), strict=True)
    ):
        if changes or held >= enough or rows >= enough:
            group, held = group + 1, 0
        out[place] = group
        held += rows
    return out


def _implications(
    columns: ColumnSet,
    supports: Mapping[str, Support],
    pairs: Mapping[ColumnSet, SyntheticTable],
) -> dict[tuple[str, str], Int64Array]:
    """By (finer, coarser): the coarser column's position for each value, where every row of the pair agrees."""
    out = {}
    for pair, table in pairs.items():
        if not set(pair) <= set(columns):
            continue
        for j in (0, 1):
            finer, coarser = supports[pair[j]], supports[pair[1 - j]]
            own, other = table.codes[:, j].astype(np.int64), table.codes[:, 1 - j]
            is_sure = finer.n[finer.measured].sum() >= SURE * finer.n.sum()
            if len(table.n) != len(finer) or not is_sure or len(np.unique(own)) != len(finer):
                continue
            code = np.empty(len(finer), dtype=np.int64)
            code[own] = other
            if _adds_up(finer, code, coarser):
                out[pair[j], pair[1 - j]] = code
    return out


def _adds_up(finer: Support, code: Int64Array, coarser: Support) -> bool:
    """Whether the counts of a column make up those of the one that it implies."""
    sums = np.bincount(code, weights=finer.n, minlength=len(coarser))
    return bool((sums == coarser.n).all())


def _depth(name: str, implied: Mapping[str, str]) -> int:
    """How many columns lie between an implied column and one that is not."""
    depth = 0
    while name in implied:
        name, depth = implied[name], depth + 1
    return depth


# Values within groups: a column that was searched in groups gets its values.
#
# The rows of each group get the group's values, so that the column's counts are those locked; then rows of a group
# exchange them, as in the search, until the pairs with all other columns come near to the targets.


def finest_groups(support: Support, placed: Placed) -> tuple[Int64Array, Int64Array]:
    """Finer groups within the groups of a column.

    Returns: fine: Ascending with the group, within it with the value; group: The group of each.
    """
    fine = np.empty(len(support), dtype=np.int64)
    group: list[int] = []
    for number in range(int(placed.group.max(initial=-1)) + 1):
        values = np.flatnonzero(placed.group == number)
        enough = 1 if len(values) <= FINEST else -(-int(support.n[values].sum()) // FINEST)
        own = packed(support.n[values], np.zeros(len(values), np.int64), enough)
        fine[values] = own + len(group)
        group += [number] * (int(own.max(initial=-1)) + 1)
    return fine, np.array(group, dtype=np.int64)


def placed_values(
    rows: Int64Array,
    sizes: Sequence[int],
    host: Int64Array,
    support: Support,
    fine: Int64Array,
    group: Int64Array,
    targets: Sequence[Target],
    shuffles: Shuffles,
) -> Int64Array:
    """Values of a column for rows whose groups are known.

    targets: Counts by a searched column and the finer groups, which have the place `len(rows)`.
    """
    count = np.bincount(fine, weights=support.n).astype(np.int64)
    own = np.empty(len(host), dtype=np.int64)
    own[shuffles.grouped(host)] = np.repeat(np.arange(len(group)), count)
    own_place = len(rows)
    board = Board(
        np.vstack([rows, own]), [*sizes, len(group)], targets, barred=0, movable=[own_place]
    )
    first = np.searchsorted(group, np.arange(int(group.max(initial=-1)) + 2))
    sweeps = BUDGET.value_sweeps if len(host) <= BUDGET.wide_rows else 1
    for _ in range(sweeps if targets else 0):
        order = shuffles.grouped(host)
        starts = np.searchsorted(host[order], np.arange(len(first)))
        for number in range(len(first) - 1):
            inside = order[starts[number] : starts[number + 1]]
            if first[number + 1] - first[number] < 2:
                continue
            for batch in np.array_split(inside, max(len(inside) // AT_ONCE, 1)):
                board.exchange(batch, own_place, first[number], first[number + 1])
    by_fine = np.argsort(fine, kind="stable")
    out = np.empty(len(host), dtype=np.int64)
    out[shuffles.grouped(board.rows[own_place])] = np.repeat(by_fine, support.n[by_fine])
    return out


def with_sums(
    codes: Int64Array,
    host: Int64Array,
    value: FloatArray,
    levels: Int64Array,
    wanted: Sequence[FloatArray],
    shuffles: Shuffles,
) -> Int64Array:
    """Rows of a group exchange values until the sums of a number by other columns come near to those of the pairs.

    value: The number for each position; levels: Of the other columns, shape (n_columns, n_rows).
    wanted: By level of each of these columns the sum in its pair.
    """
    if not len(wanted) or not len(codes):
        return codes
    shape = len(wanted), max(map(len, wanted))
    off, weight = np.zeros(shape), np.zeros(shape)
    spread = max(float(np.cumsum(value[codes] * value[codes])[-1]) / len(codes), 1.0)
    for own, level, sums in zip(range(len(wanted)), levels, wanted, strict=True):
        n = np.bincount(level, minlength=len(sums))
        off[own, : len(sums)] = np.bincount(level, value[codes], len(sums)) - sums
        weight[own, : len(sums)] = 1 / (np.maximum(n, 1) * spread)
    out = codes.copy()
    for _ in range(BUDGET.sum_sweeps):
        order = shuffles.grouped(host)
        one, other = order[: len(order) - 1 : 2], order[1::2]
        alike = host[one] == host[other]
        exchange_for_sums(out, value, one[alike], other[alike], levels, off, weight)
    return out


# Many rows: searched as fewer, each of which stands for several, then laid out in full.
#
# One-column counts and a step in, thinner counts out; thin rows in, all rows out. Every column's counts are those of
# the supports again: where repeated thin rows show a level too often, some of them take a level that is missing, and
# exchange it where it does not go with their other values.


def step_of(n_rows: int) -> int:
    """How many rows one thin row stands for."""
    return max(-(-n_rows // BUDGET.wide_rows), 1)


def thinned(single: Int64Array, step: int) -> Int64Array:
    """Counts of a column in thin rows: by largest remainders, so that their sum is that of every other column."""
    n_rows = int(single.sum())
    wanted = -(-n_rows // step)
    whole, rest = np.divmod(single * wanted, max(n_rows, 1))
    out: Int64Array = whole.astype(np.int64)
    out[np.argsort(-rest, kind="stable")[: wanted - int(out.sum())]] += 1
    return out


def laid_out(thin: Int64Array, step: int, n_rows: int, shuffles: Shuffles) -> Int64Array:
    """Every thin row so often as it stands for, less what is too many."""
    n_thin = thin.shape[1]
    times = np.full(n_thin, step)
    times[shuffles.order(n_thin)[: n_thin * step - n_rows]] -= 1
    return np.repeat(thin, times, axis=1)


def settled(board: Board, singles: Sequence[Int64Array], shuffles: Shuffles) -> Int64Array:
    """Give every column its counts; return the rows that were changed."""
    changed = [np.empty(0, np.int64)]
    for column, single in enumerate(singles):
        level = board.rows[column]
        over = np.bincount(level, minlength=len(single)) - single
        order = shuffles.grouped(level)
        sorted_levels = level[order]
        nth = np.arange(len(level)) - np.searchsorted(sorted_levels, sorted_levels)
        leaving = order[nth < np.maximum(over, 0)[sorted_levels]]
        missing = np.repeat(np.arange(len(single)), np.maximum(-over, 0))
        board.change_level(leaving, column, missing[shuffles.order(len(missing))])
        changed.append(leaving)
    return np.unique(np.concatenate(changed))


def polish(board: Board, changed: Int64Array, shuffles: Shuffles) -> None:
    """Let rows that were changed, and others up to `SearchBudget.polished_rows` of them, exchange values."""
    for _ in range(BUDGET.polishes):
        others = shuffles.order(board.rows.shape[1])[: max(BUDGET.polished_rows - len(changed), 0)]
        matched_sweep(board, shuffles, np.union1d(changed, others))


# Rows with an impossible pair of values find partners for an exchange that leaves fewer such pairs.
#
# Sweeps leave few of these rows: a batch may not hold the partner that a row needs. Here each of them looks at many
# partners, for its columns alone and for the blocks of the tree.


STRICT = 1 << 36
"""Price of a barred pair: above all that tables can make up for."""
WANTED = 5
"""What is so much against is repaired, too, as far as can be."""


def impossible_columns(
    rows: Int64Array, targets: Sequence[Target], least: int = IMPOSSIBLE
) -> BoolArray:
    """Where a column of a row is in a pair that at least so much is against; shape (n_columns, n_rows)."""
    wrong = np.zeros(rows.shape, dtype=bool)
    for target in targets:
        if target.barred is not None:
            is_none = target.barred[tuple(rows[axis] for axis in target.axes)] >= least
            for axis in target.axes:
                wrong[axis] |= is_none
    return wrong


def repair(
    board: Board,
    targets: Sequence[Target],
    near: Sequence[Int64Array],
    shuffles: Shuffles,
    *,
    is_thorough: bool,
) -> None:
    """Exchange values of rows with impossible pairs.

    near: For each column all columns, by how much they have to do with it: itself first.
    is_thorough: Look much further for the few rows that are left then.
    """
    _rounds(
        board,
        targets,
        near,
        shuffles,
        _Reach(WANTED, BUDGET.repair_partners, BUDGET.repair_near, BUDGET.repair_subsets),
    )
    if not is_thorough:
        return
    _rounds(
        board,
        targets,
        near,
        shuffles,
        _Reach(IMPOSSIBLE, BUDGET.last_partners, BUDGET.last_near, BUDGET.last_subsets),
    )


class _Reach(NamedTuple):
    """What is repaired, and how far a row looks for it: as the constants above."""

    least: int
    partners: int
    near: int
    subsets: int


def _rounds(
    board: Board,
    targets: Sequence[Target],
    near: Sequence[Int64Array],
    shuffles: Shuffles,
    reach: _Reach,
) -> None:
    """Go through the rows with impossible pairs until none finds an exchange, or often enough."""
    idle = np.zeros(board.rows.shape[1], dtype=np.int64)
    for _ in range(BUDGET.repairs):
        wrong = impossible_columns(board.rows, targets, reach.least)
        bad = np.flatnonzero(wrong.any(axis=0) & (idle < BUDGET.repair_patience))[
            : BUDGET.repaired_rows
        ]
        if not len(bad):
            break
        for row in bad.tolist():
            made = _repair_row(board, row, np.flatnonzero(wrong[:, row]), near, shuffles, reach)
            idle[row] += not made


def _repair_row(
    board: Board,
    row: int,
    wrong: Int64Array,
    near: Sequence[Int64Array],
    shuffles: Shuffles,
    reach: _Reach,
) -> bool:
    """Make the exchange of a row that lowers the price most; whether any does."""
    partners = shuffles.order(board.rows.shape[1])[: reach.partners]
    partners = partners[partners != row]
    best, found = 0, None
    for block in _blocks(len(board.rows), wrong, near, shuffles, reach) if len(partners) else ():
        gains = board.exchange_gains(np.full_like(partners, row), partners, block)
        at = int(gains.argmin())
        if gains[at] < best:
            best, found = int(gains[at]), (partners[at : at + 1], block)
    if found is None:
        return False
    board.exchange_block(np.array([row]), *found)
    return True


def _blocks(
    n_columns: int,
    wrong: Int64Array,
    near: Sequence[Int64Array],
    shuffles: Shuffles,
    reach: _Reach,
) -> list[BoolArray]:
    """Each column of an impossible pair alone, and some sets of columns near them that part the pair."""
    blocks = []
    for number, column in enumerate(wrong):
        block = np.arange(n_columns) == column
        blocks.append(block)
        for _ in range(reach.subsets if number < 3 else 0):
            more = near[column][1 : reach.near]
            order = shuffles.order(len(more))
            larger = block.copy()
            larger[more[order[: 1 + order[-1] % max(len(more) // 2, 1)]]] = True
            if not larger[wrong].all():
                blocks.append(larger)
    return blocks


# Rows of many columns from locked tables of one, two and three columns.
#
# The main path: columns in levels, rows along a tree, exchanges between rows, rows with impossible pairs repaired,
# values within groups placed. Every step keeps the counts of every column.


HEAT = 1.0
"""Of the first sweep, halved with every other one, in units of a weight of 1."""
BARRED = 2 * WEIGHT_ONE
"""Price of an impossible pair while rows are searched: high, but passed through."""
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
    # Variance of what a count of rows is off by in a table that they were not yet fitted to, of three columns or, where
    # there is none, of two, over that of a random sample of as many rows (Kish 1965); None where there is neither.
    design_effect: float | None = None
    target: str | None = None  # The column whose tables counted more
    step: int = 1  # So many rows were searched as one; 1: each for itself


def fit_wide(
    columns: ColumnSet,
    supports: Mapping[str, Support],
    tables: Sequence[SyntheticTable],
    *,
    key: bytes,
    implied: Implications | None = None,
    report: Report | None = None,
    target: str | None = None,
) -> WideFit:
    """Fit a wide table.

    tables: Locked tables; those of two and three of the columns are fitted to, others are left out.
    key: Sampling key of the wide table, at least 16 bytes. Equal keys and tables give equal rows.
    implied: Columns known to imply others: by finer and coarser column, the coarser one's position for each
        value.

    Dependencies that no table shows come out about as weak as the tables allow: the start is a tree (Chow and Liu
    1968), and the search with heat comes to rest among rows of about the largest entropy.
    """
    inside = _usable(columns, supports, tables)
    pairs: dict[ColumnSet, SyntheticTable] = {
        table.columns: table for table in inside if len(table.columns) == 2
    }
    plan = plan_levels(columns, supports, pairs, implied or {})
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
    rows, design_effect = searched_rows(
        singles, targets, _by_axes(targets), edges, information, shuffles, report or _silent
    )
    bad = int(impossible_columns(rows, targets).any(axis=0).sum())
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
        design_effect=design_effect,
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
                barred = against_none(counts) if width == 2 else None
                out.append(target_of(axes, counts, emphasis=weighs, barred=barred))
    return out


def _searched_as(name: str | None, plan: LevelPlan) -> str | None:
    """The searched column that decides a column."""
    while name is not None and name in plan.implied:
        name = plan.implied[name].by
    return plan.placed[name].host if name is not None and name in plan.placed else name


def _by_levels(
    table: SyntheticTable, order: Sequence[int], of: Sequence[Int64Array], shape: tuple[int, ...]
) -> Int64Array:
    """Counts of a table by the levels of its columns, in an order of them."""
    levels = tuple(level[table.codes[:, j]] for j, level in zip(order, of, strict=True))
    key = np.ravel_multi_index(levels, shape)
    sums = np.bincount(key, weights=table.n, minlength=prod(shape))  # whole, far below 2 ** 53
    return sums.astype(np.int64).reshape(shape)


def _by_axes(targets: Sequence[Target]) -> Pairs:
    """Counts of the pairs by their places."""
    pairs = [target for target in targets if len(target.axes) == 2]
    return {(target.axes[0], target.axes[1]): target.n for target in pairs}


def searched_rows(
    singles: Sequence[Int64Array],
    targets: Sequence[Target],
    pairs: Pairs,
    edges: Sequence[Edge],
    information: FloatArray,
    shuffles: Shuffles,
    report: Report,
    *,
    is_thorough: bool = True,
) -> tuple[Int64Array, float | None]:
    """Rows of levels, shape (n_columns, n_rows), dealt along a tree, then searched; their design effect.

    singles: Counts of each column, which are met exactly.
    pairs, edges: To deal out rows by.
    information: What columns have to do with each other; as `information_of` gives it.
    is_thorough: See `repair`.
    """
    n_rows = int(singles[0].sum()) if singles else 0
    step = step_of(n_rows)
    fewer = [thinned(single, step) for single in singles] if step > 1 else singles
    rows = tree_rows(edges, fewer, pairs, shuffles)
    sizes = [len(single) for single in singles]
    design_effect = _search(rows, sizes, targets, edges, shuffles, report, step)
    rows = laid_out(rows, step, n_rows, shuffles) if step > 1 else rows
    brought_near(rows, singles, targets, information, shuffles, is_thorough=is_thorough)
    return rows, design_effect


def brought_near(
    rows: Int64Array,
    singles: Sequence[Int64Array],
    targets: Sequence[Target],
    information: FloatArray,
    shuffles: Shuffles,
    *,
    is_thorough: bool,
) -> None:
    """Give every column of rows its counts, and bring rows that are near to targets already nearer, in place."""
    sizes = [len(single) for single in singles]
    have = [np.bincount(row, minlength=size) for row, size in zip(rows, sizes, strict=True)]
    if any((one != other).any() for one, other in zip(have, singles, strict=True)):
        board = Board(rows, sizes, targets, barred=BARRED)
        polish(board, settled(board, singles, shuffles), shuffles)
    strict = [t for t in targets if len(t.axes) == 2 or t.barred is not None]
    near = [np.argsort(-row, kind="stable") for row in information]
    repair(
        Board(rows, sizes, strict, barred=STRICT), strict, near, shuffles, is_thorough=is_thorough
    )


def _search(
    rows: Int64Array,
    sizes: Sequence[int],
    targets: Sequence[Target],
    edges: Sequence[Edge],
    shuffles: Shuffles,
    report: Report,
    step: int,
) -> float | None:
    """Search in place: pairs first, then all tables, with half the heat each time; a row counts `step` times.

    Returns: The design effect of the rows, as of `WideFit`: before they meet tables of three columns, or at the start.
    """
    pairs, blocks = [target for target in targets if len(target.axes) == 2], blocks_of(edges)
    wider = BUDGET.pair_sweeps if len(pairs) < len(targets) else 0
    steps = BUDGET.block_sweeps + wider + BUDGET.sweeps
    apart = [
        target for target in pairs if target.axes not in {tuple(sorted(edge)) for edge in edges}
    ]
    design_effect = None if wider else _design_effect(rows, apart, step)
    board = Board(rows, sizes, pairs, barred=BARRED, step=step)
    for done in range(BUDGET.block_sweeps):
        report(done, steps)
        block_sweep(board, blocks, shuffles)
    for done in range(wider):
        report(BUDGET.block_sweeps + done, steps)
        matched_sweep(board, shuffles, heat=HEAT / (1 << done))
    if wider:
        design_effect = _design_effect(rows, [t for t in targets if len(t.axes) == 3], step)
        board = Board(rows, sizes, targets, barred=BARRED, step=step)
    for done in range(BUDGET.sweeps):
        report(BUDGET.block_sweeps + wider + done, steps)
        is_last = done == BUDGET.sweeps - 1
        matched_sweep(board, shuffles, heat=0.0 if is_last else HEAT / (1 << wider + done))
    report(steps, steps)
    return design_effect


def _design_effect(rows: Int64Array, targets: Sequence[Target], step: int) -> float | None:
    """Mean square of what cells of some tables are off by, in units of the variance of a random sample of rows.

    The mean is over the cells in which there are rows: of others the variance is not known.
    """
    n_rows, total, n_cells = rows.shape[1] * step, 0.0, 0
    for target in targets:
        n = counted(rows, target) * step
        inside = (n > 0) & (n < n_rows)
        variance = n[inside] * (1 - n[inside] / n_rows)
        off = (target.n - n)[inside]
        total += float(np.cumsum(np.append(0.0, off * off / variance))[-1])
        n_cells += len(off)
    return total / n_cells if n_cells else None


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
                targets.append(target_of((at, len(names)), counts))
        host = rows[names.index(placed.host)]
        codes[name] = placed_values(
            rows, sizes, host, supports[name], fine, group, targets, shuffles
        )
        if supports[name].values is None:
            value = _centred(supports[name])
            wanted = {
                other: _sums_by(table, name, value, plan.searched[other], sizes[at])
                for other, at in own.items()
                if (table := pairs.get(column_set((name, other)))) is not None
            }
            levels = rows[[own[other] for other in wanted]]
            codes[name] = with_sums(codes[name], host, value, levels, [*wanted.values()], shuffles)
    for name, implied in plan.implied.items():
        codes[name] = implied.code[codes[implied.by]]
    return np.stack([codes[name] for name in columns])


def _centred(support: Support) -> FloatArray:
    """A column's values as numbers, less their mean; a blank counts as that."""
    is_value = (support.kind != KIND_NULL) & (support.kind != KIND_OTHER)
    n, value = np.where(is_value, support.n, 0), support.grid.astype(np.float64)
    mean = float(np.cumsum(value * n)[-1]) / max(int(n.sum()), 1)
    return np.where(is_value, value - mean, 0.0)


def _sums_by(
    table: SyntheticTable, name: str, value: FloatArray, level: Int64Array, size: int
) -> FloatArray:
    """Sums of a column of a pair by the levels of the other one."""
    at = table.columns.index(name)
    weights = value[table.codes[:, at]] * table.n
    return np.bincount(level[table.codes[:, 1 - at]], weights, size).astype(np.float64)


def _off(rows: Int64Array, targets: Sequence[Target]) -> dict[int, float]:
    """Mean share of rows that would have to change for the tables of each width."""
    shares: dict[int, list[float]] = {}
    for target in targets:
        moved = int(np.abs(counted(rows, target) - target.n).sum()) // 2
        shares.setdefault(len(target.axes), []).append(moved / max(rows.shape[1], 1))
    return {width: round(sum(of) / len(of), 6) for width, of in shares.items()}


# A wide table as all tables are: rows with their number, of which nothing was measured as such.


def used_by(wide: ColumnSet, columns: ColumnSet) -> bool:
    """Whether a locked table goes into a wide one."""
    return len(columns) in (2, 3) and set(columns) <= set(wide)


def wide_table(
    columns: ColumnSet,
    supports: Mapping[str, Support],
    tables: Mapping[ColumnSet, SyntheticTable],
    *,
    key: bytes,
    implied: Implications,
    report: Report,
    target: str | None = None,
) -> tuple[SyntheticTable, WideFit]:
    """Fit a wide table to all locked tables of two and three of its columns; parameters as of `fit_wide`."""
    inside = [table for names, table in tables.items() if used_by(columns, names)]
    fit = fit_wide(
        columns, supports, inside, key=key, implied=implied, report=report, target=target
    )
    table = SyntheticTable(
        columns=columns,
        codes=fit.codes,
        n=fit.n,
        measured=np.zeros(len(fit.n), dtype=bool),
        groups=_no_groups(len(columns)),
    )
    return table, fit


def _no_groups(width: int) -> CellGroups:
    """Nothing was measured of the table as such."""
    none = np.empty((0, width), dtype=np.int64)
    return CellGroups(
        kind=none.astype(np.uint8),
        low=none,
        high=none,
        n=np.empty(0, dtype=np.int64),
        noise_sd=np.empty(0, dtype=np.float64),
        measured=np.empty(0, dtype=bool),
        depth=np.empty(0, dtype=np.int8),
    )
