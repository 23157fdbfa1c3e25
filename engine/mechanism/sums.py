"""Sums of a column in groups of people, clipped to the ranges that the group itself shows, with two layers of noise.

A group is a combination of single values of a table's other columns that the table releases; a column's own table has
one, everybody. Values are clipped to the released ranges of the group where it first stands alone, from the lowest to
the highest. They are taken as differences from the middle of these, so that a sum hardly depends on how many they are;
a person who moves from one end to the other changes it by less than the power of two that multiplies the noise of a
count. Of an entity with more rows than count, each that counts has the mean of all. Public facts alone decide ends and
noise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from engine.cell_keys import cell_keys
from engine.mechanism.cells import AdditiveEntities, Cells, PairedEntities
from engine.mechanism.draws import Draws, EntitySets
from engine.ranges import bit_length, code_bounds, stored_codes
from engine.schema import (
    KIND_NONNEGATIVE,
    KIND_NULL,
    KIND_OTHER,
    NULL_CODE,
    NUMBER_KINDS,
    OTHER_CODE,
    BoolArray,
    Column,
    Int64Array,
    Measurement,
    Sums,
    is_leaf,
)

MOST_BITS = 60
"""Sums of more bits are not measured: with their noise they must fit into an int64."""


def summable(columns: Iterable[Column]) -> frozenset[str]:
    """Columns of which sums may be measured: numbers, unless their owner says otherwise."""
    return frozenset(one.name for one in columns if one.kind in NUMBER_KINDS and one.sums)


def has_ranges(tree: Measurement) -> bool:
    """Whether a column's own table releases a range of numbers, but no part of it."""
    return bool((is_leaf(tree) & (tree.level[:, 0] > 0)).any())


def sums_of(cells: Cells, tree: Measurement, name: str, draws: Draws) -> Sums:
    """Measure the sums of a column in all groups that its table releases.

    cells: All of the table, of one kind of entities, or of several with one row each. tree: What is released of it.
    """
    j = cells.columns.index(name)
    others = [i for i in range(len(cells.columns)) if i != j]
    node = _first_alone(tree, j, others)
    codes = stored_codes(tree.kind[node], tree.level[node], tree.index[node])
    of_cells, of_nodes = _numbered(cells.codes[:, others], codes[:, others])
    groups, first, group = np.unique(of_nodes, return_index=True, return_inverse=True)
    low, high = _ends(tree, node, j, group, len(groups))
    most = tree.scale[tree.depth[node[first]]]
    # The noise is as that of a count, times a power of two above what lies between the ends.
    bits = bit_length((high.view(np.uint64) - low.view(np.uint64)) | np.uint64(1))
    bits += bit_length(most.view(np.uint64)) - 1
    # Noisy numbers of rows are public; noise does not hide as many more.
    rows = np.ones(len(groups), dtype=np.int64)
    np.add.at(rows, group, np.maximum(2 * tree.n[node], 0))
    kept = (high > low) & (bits + bit_length(rows.view(np.uint64)) < MOST_BITS)
    first, low, high, most, bits = (one[kept] for one in (first, low, high, most, bits))
    at = np.searchsorted(groups[kept], of_cells)
    at = np.minimum(at, max(len(first) - 1, 0))
    inside = np.isin(of_cells, groups[kept])
    inside &= (cells.codes[:, j] != NULL_CODE) & (cells.codes[:, j] != OTHER_CODE)
    found = Sums(
        column=name, node=node[first], low=low, high=high, n=low, scale=np.int64(1) << bits
    )
    at, x = at[inside], cells.codes[inside, j]
    value = np.clip(x, low[at], high[at]) - found.middle[at]
    sums, sets = _summed(cells, inside, at, value, cells.codes[:, j].copy(), most)
    own = draws.of_sums(name)
    # What names a group: its values, and both ends.
    kind = np.full((len(first), len(cells.columns) + 1), KIND_NONNEGATIVE, dtype=np.uint8)
    kind[:, others] = tree.kind[node[first]][:, others]
    index = np.column_stack([tree.index[node[first]], high])
    index[:, j] = low
    for log2_scale in np.unique(bits).tolist():
        one = np.flatnonzero(bits == log2_scale)
        sums[one] += own.set_noise(sets.take(one), log2_scale)
        sums[one] += own.label_noise(
            cells.columns, kind[one], np.zeros_like(kind[one]), index[one], log2_scale
        )
    return replace(found, n=sums)


def _first_alone(tree: Measurement, j: int, others: list[int]) -> Int64Array:
    """Buckets of ranges of numbers of a column, of the first depth at which all other columns have single values."""
    alone = (tree.level[:, others] == 0).all(axis=1)
    above = np.where(tree.parent >= 0, alone[tree.parent], False)
    is_number = (tree.kind[:, j] != KIND_NULL) & (tree.kind[:, j] != KIND_OTHER)
    return np.flatnonzero(alone & ~above & is_number)


def _ends(
    tree: Measurement, node: Int64Array, j: int, group: Int64Array, n_groups: int
) -> tuple[Int64Array, Int64Array]:
    """Smallest and largest code of a column in the buckets of each group."""
    lows, highs = code_bounds(tree.kind[node, j], tree.level[node, j], tree.index[node, j])
    ends = np.iinfo(np.int64)
    low, high = np.full(n_groups, ends.max), np.full(n_groups, ends.min)
    np.minimum.at(low, group, lows)
    np.maximum.at(high, group, highs)
    return low, high


def _numbered(one: Int64Array, other: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Number the combinations in two lists of codes, equal ones alike."""
    both = np.concatenate([one, other])
    places, sizes = [], []
    for codes in both.T:
        distinct, place = np.unique(codes, return_inverse=True)
        places.append(place)
        sizes.append(len(distinct))
    keys, _ = cell_keys(places, sizes, n=len(both))
    return keys[: len(one)], keys[len(one) :]


def _summed(
    cells: Cells,
    inside: BoolArray,
    group: Int64Array,
    value: Int64Array,
    code: Int64Array,
    most: Int64Array,
) -> tuple[Int64Array, EntitySets]:
    """True sums of groups, and who is in them with which values, of the first kind of entities.

    inside: The cells that count; group, value: of these. code: Of all cells, as the source has it. most: Rows of an
    entity that count, by group.
    """
    n_groups, kind = len(most), cells.entities[0]
    sums, size = np.zeros((2, n_groups), dtype=np.int64)
    lanes = np.zeros((n_groups, 2), dtype=np.uint64)
    # Odd multiples of tokens: noise that knew the people alone would stay, and show by how much, where in another
    # vintage one of them has another value.
    times = 2 * code.view(np.uint64)[:, None] + np.uint64(1)
    if isinstance(kind, AdditiveEntities):
        np.add.at(size, group, cells.n_rows[inside])
        np.add.at(sums, group, cells.n_rows[inside] * value)
        np.add.at(lanes, group, (kind.lanes * times)[inside])
        return sums, EntitySets(size=size, lanes=lanes)
    of_group, rows, total = _by_entity(kind, inside, group, value)
    counted = np.minimum(rows, most[of_group])
    # In two steps, so that no product leaves the 64 bits.
    np.add.at(sums, of_group, total // rows * counted + total % rows * counted // rows)
    held = np.flatnonzero(inside[kind.cell])
    cell = kind.cell[held]
    n_rows = kind.n_rows[held].view(np.uint64)[:, None]
    place = np.cumsum(inside) - 1
    np.add.at(lanes, group[place[cell]], kind.tokens[kind.entity[held]] * times[cell] * n_rows)
    return sums, EntitySets(size=np.bincount(of_group, minlength=n_groups), lanes=lanes)


def _by_entity(
    kind: PairedEntities, inside: BoolArray, group: Int64Array, value: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Of each entity in each group: the group, its rows, and the sum of their values."""
    place = np.cumsum(inside) - 1
    held = inside[kind.cell]
    cell, entity, n_rows = place[kind.cell[held]], kind.entity[held], kind.n_rows[held]
    key, at = np.unique(group[cell] * len(kind.tokens) + entity, return_inverse=True)
    rows, total = np.zeros((2, len(key)), dtype=np.int64)
    np.add.at(rows, at, n_rows)
    np.add.at(total, at, n_rows * value[cell])
    return key // max(len(kind.tokens), 1), rows, total
