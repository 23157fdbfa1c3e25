"""What a count owes to narrower tables that its own is locked to, and whether any released bucket speaks of it.

Takes a table with its noise and the groups of a question; gives the standard deviation of each group's count, the
least of what this table and the narrower ones say: noise that they have in common is counted once.
"""

from __future__ import annotations

import numpy as np

from engine.schema import BoolArray, FloatArray, Int64Array
from queries.noise_model import NoiseModel, noise_model
from queries.noise_of_sums import BLIND
from queries.noise_tree import deepest_buckets
from queries.regions import Region, region_of, regrouped
from queries.session import Release

Z = 1.959964
"""Standard deviations on each side of a 95 % interval."""

EDGE = 2.0
"""Variance of a count for each filled box that its limits cut: the truth is heaped, often at the very limit."""


def count_sd(release: Release, model: NoiseModel, region: Region) -> FloatArray:
    """Standard deviation of the error of each group's count."""
    table = model.table
    needed = tuple(name for j, name in enumerate(table.columns) if not region.is_whole(j))
    if not region.is_free and needed != table.columns and needed in release.tables:
        narrow = noise_model(release, needed)
        limits = {
            name: [
                v for v, ok in zip(table.letters[j].values, region.allowed[j], strict=True) if ok
            ]
            for j, name in enumerate(table.columns)
            if name in needed
        }
        by = [table.columns[j] for j in region.by]
        return count_sd(release, narrow, region_of(narrow.table, by, limits))
    row = np.flatnonzero(region.group >= 0)
    found = model.sd(region.n_groups, region.group[row], row, np.ones(len(row)))
    if model.tree is None:  # mode dp: a count that was 0 is noisy like all others
        found = np.maximum(found, float(table.card["noise_sd"]))
        return np.where(_cuts_groups(model, region), np.nan, found)
    found = np.sqrt(found**2 + EDGE * _n_cut(model, region))
    return np.fmin(found, _from_outside(release, model, region))


def _n_cut(model: NoiseModel, region: Region) -> int:
    """Number of filled boxes that the limits of a table of one column cut; of wider ones their rows tell."""
    table = model.table
    if region.is_free or region.by or len(table.columns) > 1:
        return 0
    upto = np.concatenate([[0], np.cumsum(region.allowed[0])])
    first, last = table.first[:, 0], table.last[:, 0]
    held = upto[np.maximum(last + 1, first)] - upto[first]
    return int(((held > 0) & (held <= last - first) & ~table.measured).sum())


def _from_outside(release: Release, model: NoiseModel, region: Region) -> FloatArray:
    """The same as a narrower table's count less what lies outside the limits of one column, where that is less."""
    table = model.table
    best = np.full(region.n_groups, np.nan)
    for j, mask in enumerate(region.allowed):
        rest = tuple(name for name in table.columns if name != table.columns[j])
        if (
            region.is_free
            or j in region.by
            or mask.mean() <= 0.5
            or mask.all()
            or rest not in release.tables
        ):
            continue
        all_of_j = (*region.allowed[:j], np.ones(len(mask), dtype=bool), *region.allowed[j + 1 :])
        outside = (*region.allowed[:j], ~mask, *region.allowed[j + 1 :])
        whole = count_sd(release, model, regrouped(table, region, all_of_j))
        less = regrouped(table, region, outside)
        row = np.flatnonzero(less.group >= 0)
        cut = model.sd(less.n_groups, less.group[row], row, np.ones(len(row)))
        best = np.fmin(best, np.sqrt(whole**2 + cut**2))
    return best


def _cuts_groups(model: NoiseModel, region: Region) -> BoolArray:
    """Mode dp: whether a group takes some values of a public group of values and leaves others."""
    table = model.table
    cuts = region.is_free and bool((table.first < table.last).any())
    for j, mask in enumerate(region.allowed):
        first, last = table.first[:, j], table.last[:, j]
        upto = np.concatenate([[0], np.cumsum(mask)])
        held = upto[np.maximum(last + 1, first)] - upto[first]
        is_range = first < last
        cuts |= bool((is_range & ((j in region.by) | ((held > 0) & (held <= last - first)))).any())
    inside = region.group >= 0
    blind = np.zeros(region.n_groups, dtype=bool)
    blind[region.group[inside & ~table.row_measured]] = cuts
    return blind


def knows(model: NoiseModel, region: Region) -> BoolArray:
    """Whether a released bucket lies in each group, so that its count says something."""
    table = model.table
    inside = region.group >= 0
    if model.tree is None:
        return np.ones(region.n_groups, dtype=bool)
    known = np.zeros(region.n_groups, dtype=bool)
    known[region.group[inside & table.row_measured]] = True
    whole = np.ones(len(table.size), dtype=bool)
    for j, mask in enumerate(region.allowed):
        first, last = table.first[:, j], table.last[:, j]
        if j in region.by:
            whole &= (first == last) & mask[np.minimum(first, len(mask) - 1)]
        else:
            upto = np.concatenate([[0], np.cumsum(mask)])
            whole &= upto[last + 1] - upto[first] == last + 1 - first
    whole &= (table.first < table.last).any(axis=1) & (not region.is_free)
    rows = inside & ~table.row_measured
    bucket = model.tree.row_bucket[np.flatnonzero(rows)]
    rows[rows] = (bucket >= 0) & whole[bucket]
    known[region.group[rows]] = True
    return known


def most_hidden(model: NoiseModel, region: Region, shown: FloatArray) -> FloatArray:
    """Upper end of the interval of groups that no released bucket lies in.

    Of a single combination: from how densely its box was filled, never more than suppression hides. Of several
    combinations: from the rows that the fill put there.
    """
    wide = shown + 1.0
    wide = np.ceil(wide + Z * np.sqrt(BLIND * wide))
    if model.tree is None or not is_single(region):
        return wide
    places = np.zeros((region.n_groups, len(region.allowed)), dtype=np.int64)
    for j, mask in enumerate(region.allowed):
        places[:, j] = np.flatnonzero(mask)[:1] if j not in region.by else 0
    places[:, list(region.by)] = region.places()
    table, tree = model.table, model.tree
    bucket = deepest_buckets(table, tree.depth, tree.ordinals, places)
    volume = np.ones(len(table.size))
    for j, column in enumerate(table.letters):
        letters = table.last[:, j] - table.first[:, j] + 1
        step = max(int(np.gcd.reduce(column.code)), 1)  # what was drawn keeps to the column's grid
        volume *= np.maximum((table.span[:, j] + 1) // step if column.is_number else letters, 1)
    density = np.append(table.size / np.maximum(volume * tree.is_open, 1.0), 0.0)[bucket]
    density = np.maximum(density, _by_values(model, places, bucket))
    dense: FloatArray = np.ceil(density + Z * np.sqrt(BLIND * density))
    return np.clip(dense, 1.0, float(model.most_hidden))


def _by_values(model: NoiseModel, places: Int64Array, bucket: Int64Array) -> FloatArray:
    """Rows to expect of combinations if a box was filled as frequent as each column's values are by themselves."""
    table, tree = model.table, model.tree
    if (
        tree is None or len(table.columns) == 1
    ):  # a single column's own values are what was filled in
        return np.zeros(len(places))
    share = np.ones(len(places))
    for j, column in enumerate(table.letters):
        upto = np.concatenate([[0.0], np.cumsum(np.maximum(column.n, 0))])
        held = upto[table.last[bucket, j] + 1] - upto[table.first[bucket, j]]
        share *= np.divide(column.n[places[:, j]], held, out=np.zeros(len(places)), where=held > 0)
    dense: FloatArray = np.where(bucket >= 0, share * (table.size / tree.is_open)[bucket], 0.0)
    return dense


def is_single(region: Region) -> bool:
    """Whether every group is one combination of released values."""
    if region.is_free:
        return False
    return all(j in region.by or mask.sum() == 1 for j, mask in enumerate(region.allowed))
