"""Tables that need no measurement of their own, for some of their columns are told by others.

Takes the relations between columns, fitted supports and base tables; gives supports that agree with each other and the
tables of told columns: what a base table shows, relabelled. Sees measurements and published tables only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter

import numpy as np

from engine.cell_keys import distinct_cells
from engine.errors import InternalError
from engine.fit.support import largest_remainder, with_counts
from engine.fit.tree import Codes, Placement
from engine.relations import Relation, Relations
from engine.schema import (
    KIND_NEGATIVE,
    KIND_NULL,
    KIND_OTHER,
    NULL_CODE,
    OTHER_CODE,
    CellGroups,
    ColumnSet,
    Int64Array,
    Support,
    SyntheticTable,
)

Step = tuple[str, bool]
"""A column, and whether what it tells is brought in line already."""


def steps_of(deciders: Mapping[str, str], relations: Relations, names: ColumnSet) -> list[Step]:
    """In which order columns are fitted, and brought in line with what they tell.

    The counts of a column are brought in line with the coarser columns that it tells, so these come first; and after
    the column that decides its universe comes the one that has it. Where both cannot be, a universe follows from
    counts that are not in line yet; where not even that can be, the column may come before the one that decides.
    """
    for ways in (0, 1, 2):  # with universes in line, not in line, or without them
        graph: dict[Step, set[Step]] = {}
        for name in names:
            told, before = relations.coarser.get(name, {}), set()
            if name in relations.copies:
                before.add((relations.copies[name].finer, True))
            elif ways < 2 and name in deciders and deciders[name] in names:
                decider = deciders[name]
                is_in_line = ways == 0 and name not in relations.coarser.get(decider, {})
                before.add((decider, is_in_line))
            graph[name, False] = before
            graph[name, True] = {
                (name, False),
                *((c, True) for c in told if c in names and c not in relations.copies),
            }
        try:
            return list(TopologicalSorter(graph).static_order())
        except CycleError:
            continue
    raise InternalError("relations of columns go round in a circle")


def support_codes(support: Support) -> Int64Array:
    """Grid code of each value, null and other by theirs."""
    codes = np.where(support.kind == KIND_NULL, NULL_CODE, support.grid)
    return np.where(support.kind == KIND_OTHER, OTHER_CODE, codes)


def told_codes(relation: Relation, finer: Support, coarser: Support) -> Int64Array:
    """Which value of the coarser support each value of the finer one tells.

    A value that was drawn inside a range tells what its neighbour in the support tells.
    """
    return _with_neighbours(_told(relation, finer, coarser))


def _told(relation: Relation, finer: Support, coarser: Support) -> Int64Array:
    """The same, -1 where nothing is told."""
    known = _positions(relation.of, support_codes(finer))
    codes = support_codes(coarser)
    order = np.argsort(codes)
    found = _positions(codes[order], relation.to[known])
    return np.where((known >= 0) & (found >= 0), order[found], -1)


def _positions(ascending: Int64Array, wanted: Int64Array) -> Int64Array:
    """Where each wanted code stands among others, -1 where it does not."""
    at = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    return np.where(ascending[at] == wanted, at, -1)


def _with_neighbours(at: Int64Array) -> Int64Array:
    """Fill the gaps (-1) with the entry before, at the beginning with the first one there is."""
    known = np.flatnonzero(at >= 0)
    if not len(known):
        return np.zeros_like(at)
    before = np.searchsorted(known, np.arange(len(at)), side="right") - 1
    filled: Int64Array = at[known[np.maximum(before, 0)]]
    return filled


def in_line(finer: Support, coarser: Support, told: Int64Array, variance: float) -> Support:
    """Bring the counts of a column to those of a coarser one that it tells; each gives way by its variance.

    Returns: With the same total.
    """
    n = finer.n.astype(np.float64)
    have = np.bincount(told, weights=n, minlength=len(coarser))
    # What belongs to values that nothing tells is shared out among the others.
    share = np.where(have > 0, coarser.n, 0).astype(np.float64)
    target = largest_remainder(
        np.zeros(len(coarser), dtype=np.int64), share, np.array([finer.n.sum()])
    )
    weight = np.minimum(n, variance)
    sums = np.bincount(told, weights=weight, minlength=len(coarser))
    rate = np.divide(target - have, sums, out=np.zeros(len(coarser)), where=sums > 0)
    moved = np.maximum(n + weight * rate[told], n / 4)
    shared = largest_remainder(told, moved, target)
    # Moved by more than noise explains, counts are as uncertain as they were moved.
    moved_sd = float(np.sqrt(np.cumsum((shared - finer.n) ** 2)[-1] / len(shared)))
    return with_counts(finer, shared, max(finer.noise_sd, coarser.noise_sd, moved_sd))


def copied(relation: Relation, finer: Support, own: Support) -> tuple[Support, Int64Array]:
    """The support of a copy: the values it has itself, with the counts of the column that stands for it.

    Values that nothing tells, drawn inside ranges, are told in order, by how many rows have smaller ones: upward or
    downward, as most of the others.

    own: As fitted from the copy's own measurement; only its values are used.

    Returns: support; told: Position in it of what each value of the finer column is called.
    """
    told = _told(relation, finer, own)
    free = np.setdiff1d(np.arange(len(own)), told)
    open_values = np.flatnonzero(told < 0)
    if len(free) and len(open_values):
        known = told[told >= 0]
        if np.sign(np.diff(known)).sum() < 0:
            free = free[::-1]
        upto = np.cumsum(finer.n[open_values]) - (finer.n[open_values] + 1) // 2
        ends = np.cumsum(own.n[free])
        # Whole numbers: a share of the one side, set against the same share of the other.
        at = np.searchsorted(
            ends * int(finer.n[open_values].sum()), upto * int(ends[-1]), side="right"
        )
        told[open_values] = free[np.minimum(at, len(free) - 1)]
    told = _with_neighbours(told)
    n = np.bincount(told, weights=finer.n, minlength=len(own)).astype(np.int64)
    blind = np.bincount(told, weights=~finer.measured, minlength=len(own)) > 0
    surely = replace(own, measured=own.measured & ~blind)
    return with_counts(surely, n, finer.noise_sd), (np.cumsum(n > 0) - 1)[told]


def derived_table(
    columns: ColumnSet,
    base: SyntheticTable,
    told: Mapping[str, tuple[int, Int64Array]],
    supports: tuple[Support, ...],
    placement: Placement,
) -> SyntheticTable:
    """The table of columns of which some are told by those of a base table.

    told: By told column: the base column that tells it, and the code that each of its codes tells.
    """
    own = [_codes_of(name, base, told) for name in columns]
    cells, number = distinct_cells(own, [len(support) for support in supports])
    n = np.bincount(number, weights=base.n, minlength=len(cells[0])).astype(np.int64)
    blind = np.bincount(number, weights=~base.measured, minlength=len(n)) > 0
    return replace(
        base,
        columns=columns,
        codes=np.column_stack(cells).astype(np.int32),
        n=n,
        measured=~blind,
        groups=_derived_groups(columns, base, told, supports, placement),
        noise_sd=max(base.noise_sd, *(support.noise_sd for support in supports)),
    )


def _codes_of(name: str, base: SyntheticTable, told: Mapping[str, tuple[int, Int64Array]]) -> Codes:
    """Codes of one column of a derived table, for each cell of its base."""
    if name in base.columns:
        return base.codes[:, base.columns.index(name)]
    j, to = told[name]
    return to[base.codes[:, j]].astype(np.int32)


def _derived_groups(
    columns: ColumnSet,
    base: SyntheticTable,
    told: Mapping[str, tuple[int, Int64Array]],
    supports: tuple[Support, ...],
    placement: Placement,
) -> CellGroups:
    """What is known of the noise: the base's groups, each split by the values that its cells tell."""
    group = 2 * placement.node + placement.released
    present, place = np.unique(group, return_inverse=True)
    parts = [place.astype(np.int64)] + [
        _codes_of(name, base, told).astype(np.int64) for name in columns if name in told
    ]
    sizes = [len(present)] + [
        len(support) for name, support in zip(columns, supports, strict=True) if name in told
    ]
    split, number = distinct_cells(parts, sizes)
    at = split[0]  # position among the base's groups, which are sorted alike
    kind = np.zeros((len(at), len(columns)), dtype=np.uint8)
    low, high = np.zeros((2, len(at), len(columns)), dtype=np.int64)
    is_inside = base.groups.depth[at] >= 0
    codes = iter(split[1:])
    for j, (name, support) in enumerate(zip(columns, supports, strict=True)):
        if name in told:
            code = next(codes)
            kind[:, j], grid = support.kind[code], support.grid[code]
            low[:, j], high[:, j] = grid, grid
            kind[~is_inside, j], low[~is_inside, j], high[~is_inside, j] = KIND_NEGATIVE, 1, 0
        else:
            of_base = base.columns.index(name)
            kind[:, j] = base.groups.kind[at, of_base]
            low[:, j], high[:, j] = base.groups.low[at, of_base], base.groups.high[at, of_base]
    tops = dict(zip(base.columns, base.groups.tops, strict=True))
    return replace(
        base.groups,
        kind=kind,
        low=low,
        high=high,
        n=np.bincount(number, weights=base.n, minlength=len(at)).astype(np.int64),
        noise_sd=base.groups.noise_sd[at],
        measured=base.groups.measured[at],
        depth=base.groups.depth[at],
        tops=tuple(tops.get(name, 0) for name in columns),
    )
