"""Lock a table to the narrower ones: fill, rake, round, repair.

Takes a measurement of k >= 2 columns, the columns' supports and the published tables of k - 1 columns; gives the
synthetic table. Candidate cells are those that no narrower table rules out (`cells`). Each belongs to the deepest
released bucket that holds it; what a bucket holds beyond its released children is spread over its own candidates,
capped where a cell that large would have been released (`tree`). Then all is raked to the narrower tables and rounded
(`whole`). Pairs of columns of very many values go another way (`fine`). Sees measurements and published tables only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np

from engine.cell_keys import ordered_first, shorter
from engine.fit.budget import BUDGET
from engine.fit.cells import (
    Candidates,
    Coarse,
    LockedTo,
    allowed_cells,
    joined,
    lexicographic,
    lock_margins,
    locked_to,
    positions_in,
    prior_weights,
)
from engine.fit.fine import fine_pair, is_fine
from engine.fit.rake import rake
from engine.fit.sums import aims, calibrate, moments_of
from engine.fit.supports import Marks, allowed_pairs, classes_of, possible
from engine.fit.tree import (
    Codes,
    Noise,
    Placement,
    Values,
    cell_groups,
    filled,
    place,
    place_candidates,
    tree_of,
    values_of,
)
from engine.fit.whole import controlled_rounding, settle
from engine.params import NOISE_LAYERS
from engine.schema import (
    KIND_NULL,
    KIND_OTHER,
    ColumnSet,
    Int64Array,
    Measurement,
    Support,
    SyntheticTable,
)


def sub_tables(columns: ColumnSet) -> tuple[ColumnSet, ...]:
    """Column sets one column narrower, the one without the last column first."""
    return tuple(combinations(columns, len(columns) - 1))


def one_way_table(support: Support, tree: Measurement, layer_sd: int) -> SyntheticTable:
    """The synthetic table of a single column: its support."""
    codes = np.arange(len(support), dtype=np.int32)[:, np.newaxis]
    placement = place_candidates(tree, (support,), codes)
    return SyntheticTable(
        columns=tree.columns,
        codes=codes,
        n=support.n,
        measured=support.measured,
        groups=cell_groups(tree, placement, support.n, layer_sd, support.noise_sd),
        noise_sd=support.noise_sd,
    )


def lock_table(
    tree: Measurement,
    supports: tuple[Support, ...],
    narrower: tuple[SyntheticTable, ...],
    *,
    noise: Noise,
    key: bytes,
    marks: tuple[Marks, ...] = (),
    coarse: tuple[Coarse, ...] = (),
) -> SyntheticTable:
    """Fit one table of two or more columns.

    narrower: Those without one of the columns, the one without the last column first.
    coarse: The published tables of a coarser column in the place of one that implies it.
    """
    noise_sd = stated_sd(tree, noise.layer_sd, [table.noise_sd for table in narrower])
    locked = (*reversed(narrower), *(one.table for one in coarse))  # entry j: without column j
    cycles, error = 0, 0.0
    if is_fine([len(support) for support in supports]):
        codes, n = fine_pair(
            tree,
            supports,
            noise=noise,
            key=key,
            marks=marks,
            coarse=coarse,
        )
        gap = _gap(codes, n, locked[:2], coarse)
        placement = place_candidates(tree, supports, codes)
    else:
        values, tables, of_tree = values_of(supports), locked_to(locked), tree_of(tree, noise)
        cells = _candidates(supports, values, tables, narrower, marks, coarse)
        placement = place(of_tree, values, cells.codes)
        node, released = placement
        weight = prior_weights(cells.codes, cells.at, tables, values)
        along = None
        if len(supports) == 2:
            along = _ordered_column(supports)
            for one, at in zip(coarse, cells.at[2:], strict=True):
                weight = one.sharpened(weight, cells.codes, supports, at)
        x = filled(
            of_tree,
            values,
            cells.codes,
            placement,
            weight,
            -1 if along is None else along,
        )
        margins = lock_margins(cells.codes, cells.at, cells.last, tables, values)
        variance = NOISE_LAYERS * (float(noise.layer_sd) * float(tree.scale[-1])) ** 2
        cycles, error = rake(x, margins, released, variance)
        if tree.sums:
            of_columns = [
                moments_of(
                    one, tree, supports, cells.codes, node, (locked[j], cells.at[j]), noise.layer_sd
                )
                for one in tree.sums
                for j in [tree.columns.index(one.column)]
            ]
            aim = [aims(x, known) for known in of_columns]
            for _ in range(BUDGET.calibrations):
                for known, wanted in zip(of_columns, aim, strict=True):
                    calibrate(x, known, wanted)
                more, error = rake(x, margins, released, variance)
                cycles += more
        n, is_met = controlled_rounding(x, cells, tables, values, node, key)
        if is_met:
            order = lexicographic(cells.codes)
            codes, at, n = cells.codes[order], cells.at.take(order, axis=1), n[order]
            placement = Placement(node[order], released[order])
        else:
            codes, at, n, tables = _repaired(cells, n, tables, supports, locked, marks, coarse)
            placement = place_candidates(tree, supports, codes)
        n, gap = settle(codes, n, at, tables, key)
        occupied = np.flatnonzero(n)
        codes, n = codes[occupied], n[occupied]
        placement = Placement(placement.node[occupied], placement.released[occupied])
    return SyntheticTable(
        columns=tree.columns,
        codes=codes,
        n=n,
        measured=placement.released,
        groups=cell_groups(tree, placement, n, noise.layer_sd, noise_sd),
        noise_sd=noise_sd,
        gap=gap,
        rake_cycles=cycles,
        rake_error=error,
    )


def _candidates(
    supports: tuple[Support, ...],
    values: Values,
    tables: LockedTo,
    narrower: tuple[SyntheticTable, ...],
    marks: tuple[Marks, ...],
    coarse: tuple[Coarse, ...],
) -> Candidates:
    """Cells that no table rules out, nor, of two columns, a universe: what that rules out is in no pair.

    Of two columns both are met: neighbours differ in the one of fewer values, so that runs of the other's are split the
    fewest times.
    """
    sizes = [len(support) for support in supports]
    if len(supports) == 2:
        last = shorter(sizes)
        classes = [classes_of(size, of) for size, of in zip(sizes, marks or ({}, {}), strict=True)]
        allowed = allowed_pairs([first for _, first in classes], marks)
        numbers = np.concatenate([of for of, _ in classes])
        codes, at = allowed_cells(numbers, values.first, allowed, last)
    else:
        of_tables = np.concatenate([table.codes for table in reversed(narrower)])
        codes, at, last = joined(of_tables, tables, np.array(sizes))
    if coarse:
        places = np.stack([one.positions(codes) for one in coarse])
        kept = np.flatnonzero((places >= 0).all(axis=0))
        codes, at = codes[kept], np.concatenate([at, places]).take(kept, axis=1)
    return Candidates(codes, at, last)


def _ordered_column(supports: tuple[Support, ...]) -> int | None:
    """Which of two columns has values that lie near each other; None where neither has."""
    is_ordered = [
        one.values is None
        and int(np.count_nonzero((one.kind != KIND_NULL) & (one.kind != KIND_OTHER))) > 2
        for one in supports
    ]
    return ordered_first([len(one) for one in supports], is_ordered)


# Rounding repair: rows that controlled rounding could not place, so that no table loses them.
#
# Whole-number tables can rule each other out: a cell of one margin whose every completion another margin holds at 0.
# Surplus rows of a code are taken out again, and all rows that are missing get the codes that are short of rows, where
# possible such that no narrower table rules the pair out. Afterwards the table has every code of every column exactly
# as often as the one-way tables say.


def _repaired(
    cells: Candidates,
    n: Int64Array,
    tables: LockedTo,
    supports: tuple[Support, ...],
    locked: Sequence[SyntheticTable],
    marks: tuple[Marks, ...],
    coarse: tuple[Coarse, ...],
) -> tuple[Codes, Int64Array, Int64Array, LockedTo]:
    """All cells in lexicographic order, with those that came to hold rows though a narrower table rules them out.

    Returns: codes, at: As of `Candidates`; n: Rows; tables: With an entry for what a table does not have: no rows.
    """
    one_way = supports[cells.last].n
    n = _without_surplus(cells.codes, n, cells.last, one_way)
    missing = _missing_rows(cells, n, one_way, locked, marks)
    order = lexicographic(cells.codes)
    codes, at, n = cells.codes[order], cells.at.take(order, axis=1), n[order]
    place_of = positions_in(codes, missing)
    inside = place_of >= 0
    np.add.at(n, place_of[inside], 1)
    outside, more = np.unique(missing[~inside], axis=0, return_counts=True)
    if not len(outside):
        return codes, at, n, tables
    codes = np.concatenate([codes, outside])
    order = lexicographic(codes)
    codes, n = codes[order], np.concatenate([n, more])[order]
    places, counts, measured, first = [], [], [], [0]
    for j, table in enumerate(locked):
        if j < len(supports):
            read = np.delete(outside, j, axis=1)
            own = positions_in(table.codes, read)
        else:
            read = coarse[j - len(supports)].read(outside)
            own = positions_in(table.codes, read)
        absent = own < 0
        fresh, number = np.unique(read[absent], axis=0, return_inverse=True)
        own[absent] = len(table.n) + number.ravel()
        places.append(np.concatenate([at[j], own])[order])
        counts.append(np.concatenate([table.n, np.zeros(len(fresh), dtype=np.int64)]))
        measured.append(np.concatenate([table.measured, np.ones(len(fresh), dtype=bool)]))
        first.append(first[-1] + len(counts[-1]))
    more_tables = LockedTo(np.concatenate(counts), np.concatenate(measured), np.array(first))
    return codes, np.stack(places), n, more_tables


def _without_surplus(codes: Codes, n: Int64Array, column: int, one_way: Int64Array) -> Int64Array:
    """Take rows out where one column has more of a code than published, from its smallest cells first."""
    have = np.bincount(codes[:, column], weights=n, minlength=len(one_way)).astype(np.int64)
    surplus = np.maximum(have - one_way, 0)
    if not surplus.any():
        return n
    order = np.lexsort((n, codes[:, column]))
    code, rows = codes[order, column], n[order]
    before = np.cumsum(rows) - rows
    before -= before[np.searchsorted(code, code)]
    out = n.copy()
    out[order] -= np.clip(surplus[code] - before, 0, rows)
    return out


def _missing_rows(
    cells: Candidates,
    n: Int64Array,
    one_way: Int64Array,
    locked: Sequence[SyntheticTable],
    marks: tuple[Marks, ...],
) -> Codes:
    """Give rows that are missing in the table without column `last` the codes of it that are short of rows.

    one_way: Published counts of column `last`; none may be exceeded.
    """
    last, fibres = cells.last, locked[cells.last]
    have = np.bincount(cells.at[last], weights=n, minlength=len(fibres.n)).astype(np.int64)
    rows = np.repeat(fibres.codes, np.maximum(fibres.n - have, 0), axis=0)
    have = np.bincount(cells.codes[:, last], weights=n, minlength=len(one_way)).astype(np.int64)
    code = _assigned(rows, np.maximum(one_way - have, 0), locked, last, marks)
    return np.insert(rows[: len(code)], last, code, axis=1).astype(np.int32)


def _assigned(
    rows: Codes,
    lacking: Int64Array,
    locked: Sequence[SyntheticTable],
    last: int,
    marks: tuple[Marks, ...],
) -> Int64Array:
    """A code for each row, none more often than it is lacking; first those that most narrower tables allow."""
    wanted = np.flatnonzero(lacking)
    left = lacking[wanted].copy()
    count = min(len(rows), int(left.sum()))
    if len(rows) * len(wanted) > BUDGET.pairings:
        return np.repeat(wanted, left)[:count]
    allowed = _allowed(rows, wanted, locked, last, marks)
    code = np.full(count, -1, dtype=np.int64)
    open_rows = np.arange(count)
    while len(open_rows):  # each turn fills at least one code, or all rows that are open
        free = np.flatnonzero(left)
        best = free[np.argmax(allowed[open_rows][:, free], axis=1)]
        order = np.argsort(best, kind="stable")
        chosen = best[order]
        taken = np.arange(len(chosen)) - np.searchsorted(chosen, chosen) < left[chosen]
        placed = order[taken]
        code[open_rows[placed]] = wanted[best[placed]]
        left -= np.bincount(best[placed], minlength=len(left))
        open_rows = np.delete(open_rows, placed)
    return code


def _allowed(
    rows: Codes,
    wanted: Int64Array,
    locked: Sequence[SyntheticTable],
    last: int,
    marks: tuple[Marks, ...],
) -> Int64Array:
    """How many narrower tables (of two columns: universes) allow each row and code, shape (n_rows, n_wanted)."""
    row, code = (axis.ravel() for axis in np.indices((len(rows), len(wanted))))
    whole = np.insert(rows[row], last, wanted[code], axis=1)
    count = possible(whole, marks).astype(np.int64)
    k = whole.shape[1]
    for j in range(k):
        if j != last and k > 2:  # a single code always stands in its table
            count += positions_in(locked[j].codes, np.delete(whole, j, axis=1)) >= 0
    return count.reshape(len(rows), len(wanted))


def _gap(
    codes: Codes, n: Int64Array, tables: Sequence[SyntheticTable], coarse: Sequence[Coarse]
) -> int:
    """Largest difference between sums of a pair and what it is locked to."""
    gap = 0
    for j, table in enumerate(tables):
        sums = np.bincount(codes[:, 1 - j], weights=n, minlength=len(table.n))
        gap = max(gap, int(np.abs(sums - table.n).max(initial=0)))
    for one in coarse:
        at = one.positions(codes)
        inside = at >= 0
        sums = np.bincount(at[inside], weights=n[inside], minlength=len(one.table.n))
        gap = max(gap, int(np.abs(sums - one.table.n).max(initial=0)))
        if not inside.all():
            _, group = np.unique(one.read(codes[~inside]), axis=0, return_inverse=True)
            gap = max(gap, int(np.bincount(group.ravel(), weights=n[~inside]).max()))
    return gap


def stated_sd(tree: Measurement, layer_sd: int, narrower: Iterable[float]) -> float:
    """Return the noise that is stated for a table's finest counts, in plans, on cards and with answers.

    narrower: What is stated for the tables that it is locked to: their error is its own, too.
    """
    own: float = NOISE_LAYERS**0.5 * layer_sd * float(tree.scale[-1])
    return max(own, *narrower)
