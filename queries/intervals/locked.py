"""What a count owes to narrower tables that its own is locked to, and whether any released bucket speaks of it.

Takes a table with its noise and the groups of a question; gives the standard deviation of each group's count, the
least of what this table and the narrower ones say: noise that they have in common is counted once.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from engine.schema import BoolArray, FloatArray, Int64Array
from queries.intervals.buckets import TableBuckets
from queries.intervals.filling import DISPERSED
from queries.intervals.model import Groups, noise_model
from queries.intervals.regions import is_single, region_within
from queries.intervals.sums import Z
from queries.intervals.tree import NoiseTree

EDGE = 2.0
"""Variance of a count for each filled box that its limits cut: the truth is heaped, often at the very limit, so that up
to all of the box's few rows lie on one side: 5 rows, or none, have a variance of up to 6. Fitted as in
`queries.intervals.sums`."""


def count_sd(groups: Groups) -> FloatArray:
    """Standard deviation of the error of each group's count."""
    release, model, region, row = groups.release, groups.model, groups.region, groups.row
    table = model.table
    needed = tuple(name for j, name in enumerate(table.columns) if not region.is_whole(j))
    if not region.is_free and needed != table.columns and needed in release.tables:
        narrow = noise_model(release, needed)
        by = tuple(needed.index(table.columns[j]) for j in region.by)
        allowed = tuple(region.allowed[table.columns.index(name)] for name in needed)
        closed = ((False, False),) * len(needed)
        region = region_within(narrow.table, by, allowed, closed, region.codes)
        return count_sd(Groups(release=release, model=narrow, region=region))
    sd = groups.sd(row, np.ones(len(row)))
    if model.tree is None:  # mode dp: a count that was 0 is noisy like all others
        sd = np.maximum(sd, float(table.card["noise_sd"]))
        return np.where(_cuts_groups(groups), np.nan, sd)
    sd = np.sqrt(sd**2 + edge_variance(groups, row, np.ones(len(row))))
    is_locked = model.locked(region.n_groups, region.group[row])
    if is_locked.all():
        return sd
    return np.where(is_locked, sd, np.fmin(sd, _from_outside(groups)))


def edge_variance(groups: Groups, row: Int64Array, weight: FloatArray) -> float:
    """Variance that limits of a table of one column add which cut filled boxes.

    Of wider tables their rows tell. Parameters as in `Groups.sd`; a box counts with the mean square of weights inside.
    """
    table, region = groups.model.table, groups.region
    if region.is_free or region.by or len(table.columns) > 1 or groups.model.tree is None:
        return 0.0
    mask = region.allowed[0]
    square = np.zeros(len(mask))
    square[table.rows[row, 0]] = weight**2
    first, last = table.first[:, 0], np.maximum(table.last[:, 0] + 1, table.first[:, 0])
    added = np.concatenate([[0.0], np.cumsum(square * mask)])
    n_inside, n_codes = _codes_inside(table, 0, mask)
    is_cut = (n_inside > 0) & (n_inside < n_codes) & ~table.measured
    mean = (added[last] - added[first])[is_cut] / n_inside[is_cut]
    return EDGE * float(mean.sum())


def _from_outside(groups: Groups) -> FloatArray:
    """The same as a narrower table's count less what lies outside the limits of one column, where that is less."""
    table, region = groups.model.table, groups.region
    best = np.full(region.n_groups, np.nan)
    for j, mask in enumerate(region.allowed):
        rest = tuple(name for name in table.columns if name != table.columns[j])
        if (
            region.is_free
            or j in region.by
            or mask.mean() <= 0.5
            or mask.all()
            or rest not in groups.release.tables
        ):
            continue
        all_of_j = (*region.allowed[:j], np.ones(len(mask), dtype=bool), *region.allowed[j + 1 :])
        outside = (*region.allowed[:j], ~mask, *region.allowed[j + 1 :])
        whole, less = (
            replace(
                groups, region=region_within(table, region.by, allowed, region.reach, region.codes)
            )
            for allowed in (all_of_j, outside)
        )
        cut = less.sd(less.row, np.ones(len(less.row)))
        best = np.fmin(best, np.sqrt(count_sd(whole) ** 2 + cut**2))
    return best


def _cuts_groups(groups: Groups) -> BoolArray:
    """Mode dp: whether a group takes some values of a public group of values and leaves others."""
    table, region = groups.model.table, groups.region
    cuts = region.is_free and bool((table.first < table.last).any())
    for j, mask in enumerate(region.allowed):
        n_inside, n_codes = _codes_inside(table, j, mask)
        is_cut = (j in region.by) | ((n_inside > 0) & (n_inside < n_codes))
        cuts |= bool(((n_codes > 1) & is_cut).any())
    inside = region.group >= 0
    blind = np.zeros(region.n_groups, dtype=bool)
    blind[region.group[inside & ~table.row_measured]] = cuts
    return blind


def _codes_inside(table: TableBuckets, j: int, mask: BoolArray) -> tuple[Int64Array, Int64Array]:
    """How many codes of column j in each box are within limits, and how many there are."""
    upto = np.concatenate([[0], np.cumsum(mask)])
    first = table.first[:, j]
    end = np.maximum(table.last[:, j] + 1, first)
    return upto[end] - upto[first], end - first


def knows(groups: Groups) -> BoolArray:
    """Whether a released bucket lies in each group, so that its count says something."""
    table, tree, region = groups.model.table, groups.model.tree, groups.region
    inside = region.group >= 0
    if tree is None:
        return np.ones(region.n_groups, dtype=bool)
    known = np.zeros(region.n_groups, dtype=bool)
    known[region.group[inside & table.row_measured]] = True
    whole = (table.first < table.last).any(axis=1) & _are_whole(groups, tree)
    rows = inside & ~table.row_measured
    bucket = tree.row_bucket[np.flatnonzero(rows)]
    rows[rows] = (bucket >= 0) & whole[bucket]
    known[region.group[rows]] = True
    return known


def _are_whole(groups: Groups, tree: NoiseTree) -> BoolArray:
    """Which boxes lie in one group with all their values; of wide tables by expressions, with all their rows."""
    table, region = groups.model.table, groups.region
    whole = np.ones(len(table.size), dtype=bool)
    if not region.is_free:
        for j, mask in enumerate(region.allowed):
            n_inside, n_codes = _codes_inside(table, j, mask)
            whole &= (n_inside == n_codes) & ((n_codes == 1) | (j not in region.by))
        return whole
    if len(table.columns) == 1:
        group = np.full(len(table.released[0].values), -1)
        group[table.rows[:, 0]] = region.group
        changed = np.cumsum(np.diff(group, prepend=group[:1]) != 0)
        first, last = (np.minimum(ends[:, 0], len(group) - 1) for ends in (table.first, table.last))
        whole &= changed[first] == changed[np.maximum(last, first)]
        return whole
    known = tree.row_bucket >= 0
    lowest, highest = np.full(len(table.size), region.n_groups), np.full(len(table.size), -1)
    np.minimum.at(lowest, tree.row_bucket[known], region.group[known])
    np.maximum.at(highest, tree.row_bucket[known], region.group[known])
    # Where a combination has no row, nobody knows to which group it belongs.
    possible = (np.maximum(table.last, table.first) - table.first + 1).prod(axis=1)
    held = np.bincount(tree.row_bucket[known], minlength=len(table.size))
    whole &= (lowest == highest) & (held == possible)
    return whole


def high_of_unreleased(groups: Groups, value: FloatArray) -> FloatArray:
    """Upper end of the interval of groups that no released bucket lies in.

    Of single combinations: one bound for all of the table that have no rows, and one for all that have; or what
    suppression hides where the limits name none of the released values. Of several combinations: from the rows that the
    fill put there.
    """
    model, region = groups.model, groups.region
    if any(not mask.any() for mask in region.allowed):
        return np.full(region.n_groups, float(model.suppressed))
    wide = value + 1.0
    wide = np.ceil(wide + Z * np.sqrt(DISPERSED * wide))
    if model.tree is None or not is_single(region):
        return wide
    return np.where(value > 0, model.bound_with_rows, model.suppression_bound).astype(np.float64)
