"""Rare values that are counted at a value which stands alone: how many rows, and which figures they move.

A range's rows go to the half that is released, so that those of values too rare to be released are counted at a value
that is alone. The hidden half is expected to be as dense as the nearest released range, up to the threshold, were
values spread evenly and not heaped at round numbers. How much of that is there, on average, the fill tells: beside
released halves as many rows were filled in as are hidden, though not at the same places. Heaps depend on the number of
digits, so halves are compared by the binary digits of their places. Sees released numbers only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.cell_keys import distinct_cells
from engine.schema import KIND_NEGATIVE, KIND_NONNEGATIVE, BoolArray, FloatArray, Int64Array
from queries.intervals.buckets import ReleasedValues, TableBuckets, sum_by
from queries.intervals.model import Groups, NoiseModel, noise_model
from queries.intervals.sums import Z
from queries.intervals.tree import NoiseTree
from queries.sql import Session

_MOST_SIDES = 100_000
"""Most groups times values of a column whose limits are looked at."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Neighbours:
    """What values that are alone are expected to stand for."""

    at: Int64Array  # shape (n_values,): Code of each
    # shape (2, n_values): The next code below it and above it; its own where there is none.
    beside: Int64Array
    # shape (2, n_values): Rows of rare values below and above that are expected to be counted at it; below
    # 0 where more were filled in.
    rows: FloatArray
    # shape (n_values,): Half of the interval of its count by its own noise; 0 of the innermost places (0
    # and -1), where rows beside them count in full.
    noise: FloatArray

    def room(self, rows: FloatArray, of: Int64Array | None = None) -> FloatArray:
        """How much longer intervals are on one side, for what rows the values may have beside their noise.

        Mostly the fill has them: they are an error like the noise, of that size, and both seldom come together.

        of: Which values these are; None: all of them.
        """
        noise = self.noise if of is None else self.noise[of]
        noise = noise if rows.ndim == 1 else noise[:, None]
        longer: FloatArray = np.sign(rows) * (np.hypot(noise, rows) - noise)
        return longer


def beside(groups: Groups, row: Int64Array, weight: FloatArray) -> FloatArray:
    """How much higher figures are for rare values that are counted at lone ones.

    A value's rare neighbours may lie on either side of a limit beside it: figures may be lower where it is inside,
    higher where it is not. In a wider table they are taken to be in its groups as the rows of the value are. Parameters
    as in `Groups.sd`.

    Returns: First what values have that are groups: other groups lack it. Below that, column by column, the
    lower and then the upper side of each lone value. Parts of one figure have the same shape, whichever rows
    they hold, and whatever they are grouped by.
    """
    model, region = groups.model, groups.region
    between, sides = np.zeros((1, region.n_groups)), []
    for j, column in enumerate(model.table.released):
        rare = _neighbours(groups.release, model, column)
        if rare is None:
            continue
        if j in region.by:
            between[0] += _of_values(groups, j, rare, row, weight)
        if region.n_groups * len(column.values) <= _MOST_SIDES:
            sides.append(_of_limits(groups, j, rare, row, weight))
    return np.concatenate([between, *sides])


def _neighbours(release: Session, model: NoiseModel, column: ReleasedValues) -> Neighbours | None:
    """The lone values of a column's own table; once as long as the release is open. None where nothing is known."""
    name = (column.name,)
    if model.tree is None or name not in release.tables or not column.is_ordered:
        return None
    rare: Neighbours | None = release.models.get(("rare", name))
    if rare is None:
        one = noise_model(release, name)
        if one.tree is None:
            return None
        rare = release.models["rare", name] = rare_neighbours(one.table, one.tree, one.beyond)
    return rare if len(rare.at) else None


def _held(
    groups: Groups, j: int, row: Int64Array, weight: FloatArray
) -> tuple[list[Int64Array], FloatArray, FloatArray]:
    """Group and code of column j of some rows; which part of the code's rows they are, and what one weighs."""
    table, region = groups.model.table, groups.region
    n, code = table.n.astype(np.float64), table.rows[:, j]
    n_codes = len(table.released[j].values)
    at, number = distinct_cells((region.group[row], code[row]), (region.n_groups, n_codes))
    held = sum_by(number, n[row], len(at[0]))
    mean = sum_by(number, n[row] * weight, len(at[0])) / np.maximum(held, 1.0)
    return at, held / np.maximum(sum_by(code, n, n_codes)[at[1]], 1.0), mean


def _of_values(
    groups: Groups, j: int, rare: Neighbours, row: Int64Array, weight: FloatArray
) -> FloatArray:
    """What each group has of rare values, where groups are values of column j."""
    place = np.full(len(groups.model.table.released[j].values), -1)
    place[rare.at] = np.arange(len(rare.at))
    row_is_lone = place[groups.model.table.rows[row, j]] >= 0
    (group, code), part, mean = _held(groups, j, row[row_is_lone], weight[row_is_lone])
    lone = place[code]
    moved = rare.room(part * rare.rows.sum(axis=0)[lone], lone) * mean
    return sum_by(group, moved, groups.region.n_groups)


def _of_limits(
    groups: Groups, j: int, rare: Neighbours, row: Int64Array, weight: FloatArray
) -> FloatArray:
    """What limits of column j have of rare values on each side of lone ones, shape (2 * n_lone, n_groups)."""
    region = groups.region
    n_groups, n_lone = region.n_groups, len(rare.at)
    if region.is_free or j in region.by or region.allowed[j].all():
        return np.zeros((2 * n_lone, n_groups))
    mask = region.allowed[j]
    (group, code), part, mean = _held(groups, j, row, weight)
    parts, means = np.zeros((2, len(mask), n_groups))
    parts[code, group], means[code, group] = part, mean
    inside = mask[rare.at]
    sides = []
    for rows, beside in zip(rare.rows, rare.beside, strict=True):
        at = np.where(inside, rare.at, beside)
        crossed = np.where(mask[beside] != inside, np.where(inside, 1.0, -1.0), 0.0)
        moved = rare.room(parts[at] * rows[:, None]) * means[at]
        sides.append(crossed[:, None] * moved)
    if mask.sum() == 1:  # a single value: either side of it may be lower
        share = np.abs(rare.rows) / np.maximum(np.abs(rare.rows).sum(axis=0), 1e-300)
        both = rare.room(parts[rare.at] * rare.rows.sum(axis=0)[:, None]) * means[rare.at]
        sides = [one[:, None] * both for one in share]
    return np.concatenate(sides)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Lone:
    """Values alone in a range, and by level the other half of each range that they are alone in."""

    at: Int64Array  # shape (n_values,)
    # likely, filled: shape (n_values, n_levels): Rows of that half, were it as dense as the nearest
    # released range, and fewer than a threshold; those filled in.
    likely: FloatArray
    filled: FloatArray
    digits: Int64Array  # shape (n_values, n_levels): Binary digits of its place
    is_upper: BoolArray  # shape (n_values, n_levels)


def rare_neighbours(table: TableBuckets, tree: NoiseTree, most: int) -> Neighbours:
    """Find what is expected of each lone value of a one-way table, where a threshold hides at most so many rows."""
    kinds = (KIND_NEGATIVE, KIND_NONNEGATIVE) if table.released[0].is_ordered else ()
    found = [lone for kind in kinds if (lone := _lone(table, tree, kind, most))]
    n_digits = 65
    filled, likely = (
        sum(
            (sum_by(x.digits.ravel(), getattr(x, of).ravel(), n_digits) for x in found),
            np.zeros(n_digits),
        )
        for of in ("filled", "likely")
    )
    # Where few halves speak, as many rows as one of them may hide are taken to be where they are likely.
    share = (filled + most) / (likely + most)
    # Beside 0 numbers are as round as those of the next range, and are no heaps apart from them.
    share[1] = 1.0
    rows = [np.zeros((2, 0))]
    for lone in found:
        left = lone.likely * share[lone.digits] - lone.filled
        rows.append(np.stack([(left * (lone.is_upper == up)).sum(axis=1) for up in (False, True)]))
    at = np.concatenate([np.zeros(0, dtype=np.int64), *(lone.at for lone in found)])
    return Neighbours(
        at=at,
        beside=np.stack([_next(table.released[0], at, step) for step in (-1, 1)]),
        rows=np.concatenate(rows, axis=1),
        noise=Z * float(table.own_variance[-1]) ** 0.5 * (table.released[0].magnitude[at] > 0),
    )


def _next(column: ReleasedValues, at: Int64Array, step: int) -> Int64Array:
    """The next code of the same sign; the code itself where it is the last one."""
    beside = np.clip(at + step, 0, len(column.values) - 1)
    found: Int64Array = np.where(column.kind[beside] == column.kind[at], beside, at)
    return found


def _lone(table: TableBuckets, tree: NoiseTree, kind: int, most: int) -> _Lone | None:
    """The lone values of one sign, in the order of their distance from 0; None where there are none."""
    column = table.released[0]
    order = np.argsort(column.magnitude, kind="stable")
    order = order[column.kind[order] == kind]
    place, row = column.magnitude[order], np.zeros(len(column.values), dtype=np.int64)
    row[table.rows[:, 0]] = np.arange(len(table.rows))
    row = row[order]
    bucket = tree.row_bucket[row]
    # Rows of a range without a released part; others were filled in beside a released half.
    is_range = (bucket >= 0) & (tree.is_open[bucket] == 1) & ~table.measured[bucket]
    solid = np.flatnonzero(table.row_measured[row] | is_range)
    if len(solid) < 2:
        return None
    apart = _apart(place[solid[1:]], place[solid[:-1]])
    level = np.minimum(np.concatenate([[62], apart]), np.concatenate([apart, [62]]))
    upto = np.concatenate([[0], np.cumsum(table.n[row])])
    other = (place[solid] >> level ^ 1) << level
    begin = np.searchsorted(place, other)
    end = np.searchsorted(place, other | (1 << level) - 1, side="right")
    steps = np.arange(int(level.max(initial=0)))
    half = place[solid][:, None] >> steps ^ 1
    first, last = half << steps, half << steps | (1 << steps) - 1
    if kind == KIND_NEGATIVE:
        first, last = ~last, ~first
    step, offset = column.step, int(column.grid[order[0]]) % column.step
    has_room = (last - offset) // step > (first - offset - 1) // step
    here = (steps < level[:, None]) & has_room & table.row_measured[row[solid]][:, None]
    dense = (upto[end] - upto[begin])[:, None] * np.exp2(steps - level[:, None])
    filled = _filled(place, solid, table.n[row].astype(np.float64), len(steps))
    is_lone = here.any(axis=1)
    return _Lone(
        at=order[solid][is_lone],
        likely=(dense * most / (dense + most) * here)[is_lone],
        filled=(filled * here)[is_lone],
        digits=np.frexp(half.astype(np.float64))[1].astype(np.int64)[is_lone],
        is_upper=((half & 1 == 1) == (kind == KIND_NONNEGATIVE))[is_lone],
    )


def _apart(one: Int64Array, other: Int64Array) -> Int64Array:
    """Level of the widest range that holds the one place and not the other."""
    apart = one ^ other
    level = np.clip(np.frexp(apart.astype(np.float64))[1].astype(np.int64) - 1, 0, 62)
    return level - (1 << level > apart)  # large numbers may have been rounded up


def _filled(place: Int64Array, solid: Int64Array, n: FloatArray, n_levels: int) -> FloatArray:
    """Rows at all other places, by the nearest of the solid ones and the level of the half beside it."""
    rest = np.ones(len(place), dtype=bool)
    rest[solid] = False
    rest = np.flatnonzero(rest)
    after = np.searchsorted(solid, rest)
    both = np.stack([np.maximum(after - 1, 0), np.minimum(after, len(solid) - 1)])
    level = _apart(place[rest], place[solid[both]])
    nearer = np.argmin(level, axis=0)
    of, level = both[nearer, np.arange(len(rest))], level.min(axis=0, initial=62)
    is_beside = level < n_levels
    flat = of[is_beside] * n_levels + level[is_beside]
    return sum_by(flat, n[rest][is_beside], len(solid) * n_levels).reshape(len(solid), n_levels)
