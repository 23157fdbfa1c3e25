"""The noise of weighted sums over a table's rows, what is locked to narrower tables counted once.

Takes a table with its tree, and weights of its rows; gives the standard deviation of each sum's error. Buckets of
single values carry the noise of the tree; rows that were filled in inside a box are placed blindly, which adds the
spread of their weights inside the box. In mode dp there is no tree: rows carry the stated noise, and that of the
counts that they were brought to.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from engine.cell_keys import distinct_cells, shorter
from engine.schema import ColumnSet, FloatArray, Int64Array
from queries.intervals.buckets import TableBuckets, outermost, rows_in, sum_by
from queries.intervals.tree import ROUNDING, NoiseTree, Outside, variance_of_sums

# The constants below were fitted by hand on releases of NIST's excerpt and the simulated census under 4 to 16 keys
# (seed 2021), and checked on other keys, other questions, another census and a third set of data, the survey SD2011:
# scripts/intervals.py with --seed repeats the check.

Z = 1.959964
"""Standard deviations on each side of a 95 % interval."""

BLIND, CLUMPED = (1.0, 1.5), (0.06, 0.08)
"""Variance of blind placement over that of rows drawn at random, and more for each row of a box, in tables of up to two
columns and in wider ones. 1: the fill is what is to be expected, and the truth is drawn. Where the truth is heaped, or
falls off, a whole box is off one way, and the square of what it is off by grows with the square of its rows; 1/12 were
an edge anywhere in the box. How three columns hang together inside a box nothing tells: there the fill leans."""

UNEVEN, OUTERMOST = 0.1, 400
"""Variance of what a group has among the outermost rows of an ordered column, over the square of what was filled in
there, and how many rows these are: the fit takes the share of a group there to be Gamma distributed of shape 10 around
that of the rows nearby (engine/fit/tree.py), and beyond them nothing tells more. Groups' mean incomes held in 86
(SD2011) and 95 % (NIST) without."""

ALIKE = (1.2, 1.3)
"""Variance of a sum of several buckets over that of independent noise, in tables of one column and of more: a bucket
and its half may hold the same people, who draw the same; and what raking moves to meet margins is no noise of a bucket.
Over 20 keys of each of two seeds means by group were off by .9 to 1.2 times (NIST, SD2011, census) what 1.2 says."""

MOST_ROWS, MOST = 10_000, 1_000_000
"""Most rows of a table, and most weights of all sums and rows, that are brought to all margins at once; of more `RAKED`
stands for it."""

SWEEPS = 3
"""Times that weights are brought to each margin: what two leave is within 2.4 % of what eight do."""

MOVED = 1.4
"""Variance that rounding leaves over that of cells rounded by themselves: units are moved until margins are met."""

END, SPLIT = 1 / 12, 1 / 24
"""Variance of each end of a run of values in a table of two columns, where its rows were split in two, and more for
each further split: a running sum was cut off there, at a place that is as likely as any other."""

RAKED = 1.5
"""Variance that a wider table adds for each row which it moves to meet the number of a value in a narrower one. 1 if
rows moved one by one; 1.0 held 91 % of the ranges of PINCP x SEX, and independent columns of the census needed less."""

FEW, SPARSE = 8, 0.5
"""Cells of at most so many rows, next to which others were not released, keep this part of their own noise in sums over
values: what they are off by is made up for anywhere in the table, not in cells of like value. Above 8 the noise of
two layers (sd 1.4) seldom decides whether a cell passes the threshold (5, sd 1)."""


def placed_blindly(size: FloatArray, n_columns: int) -> FloatArray:
    """Variance of blind placement in boxes of so many rows, over that of rows drawn at random."""
    is_wide = n_columns > 2
    return BLIND[is_wide] + CLUMPED[is_wide] * size


def sums_of(
    table: TableBuckets,
    tree: NoiseTree,
    n_sums: int,
    of_sum: Int64Array,
    row: Int64Array,
    weight: FloatArray,
) -> tuple[Int64Array, Int64Array, FloatArray, FloatArray]:
    """Bring weights of rows together by sum and bucket.

    of_sum, row: Which sum counts which row; a row at most once a sum.

    Returns: By sum and bucket: both, and the mean weight of the bucket's rows. By sum: variance of placing
    rows blindly inside filled boxes.
    """
    n_buckets = len(table.size)
    known = tree.row_bucket[row] >= 0
    # Rows that lie in no bucket were left over and put where there was room: blind, each by itself.
    left_over = sum_by(of_sum[~known], table.n[row[~known]] * weight[~known] ** 2, n_sums)
    of_sum, row, weight = of_sum[known], row[known], weight[known]
    bucket = tree.row_bucket[row]
    (sums, buckets), inverse = distinct_cells((of_sum, bucket), (n_sums, n_buckets))
    n = table.n[row].astype(np.float64)
    size = np.maximum(table.size[buckets], 1).astype(np.float64)
    first = sum_by(inverse, n * weight, len(sums))
    second = sum_by(inverse, n * weight**2, len(sums))
    mean = first / size
    spread = np.where(table.measured[buckets], 0.0, np.maximum(second - size * mean**2, 0.0))
    spread *= placed_blindly(size, len(table.columns))
    left_over *= BLIND[len(table.columns) > 2]
    return sums, buckets, mean, sum_by(sums, spread, n_sums) + left_over


@dataclass(frozen=True, kw_only=True, slots=True)
class Margin:
    """One of the narrower tables that a table's rows were brought to."""

    place: int  # Its place among the locks
    # shape (n_rows,): Part of the narrower table that each row belongs to, from 1; 0 where there is none.
    at: Int64Array
    # shape (n_rows_there,): Part of each of its rows, from 0. Measured ones are parts by themselves; rows
    # that were filled into one box are one part, as lots decide at which value of the box each stands, and
    # which rows of the wider table stand there.
    part: Int64Array
    room: FloatArray  # shape (1 + n_parts,): What the rows of each part give together


@dataclass(frozen=True, kw_only=True, slots=True)
class Lock:
    """A table, and the narrower ones that its rows were brought to."""

    table: TableBuckets
    tree: NoiseTree
    # shape (n_rows,): How much each row gives way, as in the fit: a filled one with all it holds, a
    # measured one with its noise.
    give: FloatArray
    to: tuple[Margin, ...] = ()
    # Variance of rounding over that of cells which are rounded by themselves: few are free where margins
    # are met.
    loose: float = 1.0
    # shape (n_rows + n_runs + 1,): Of a table that was rounded by running sums (`has_runs`) the rows of
    # each value of the shorter column, in the order of the other one's values; the number of rows before,
    # between and behind them.
    runs: Int64Array | None = None
    splits: int = 0  # Times that halves of the shorter column's values are split further
    # shape (n_rows,): Filled rows far out, by group and end (`buckets.outermost`).
    outermost: Int64Array | None = None

    def uneven(self, rest: FloatArray) -> FloatArray:
        """Variance of weighted sums by who has the outermost values, of what is left of the weights by margins."""
        if self.outermost is None:
            return np.zeros(len(rest))
        out = np.flatnonzero(self.outermost >= 0)
        part = np.unique(self.outermost[out], return_inverse=True)[1]
        order = np.argsort(part, kind="stable")
        begin = np.flatnonzero(np.diff(part[order], prepend=-1))
        weighed = (rest[:, out] * self.table.n[out])[:, order]
        together = np.add.reduceat(weighed, begin, axis=1) if len(out) else weighed
        variance: FloatArray = UNEVEN * (together**2).sum(axis=1)
        return variance

    def rounding(self, weight: FloatArray, rest: FloatArray) -> FloatArray:
        """Variance of weighted sums by rounding alone: of weights, and of what is left of them by margins.

        Margins are met, so that both say the same of the sum; of runs the one with fewer ends tells. In what margins
        leave, groups make up for each other's errors, which are as large as `loose` says for all that.
        """
        if not self.to:
            return np.zeros(len(weight))
        if self.runs is None:
            of_cells: FloatArray = MOVED * ROUNDING * self.loose * (rest**2).sum(axis=1)
            return of_cells
        fewest = np.minimum(self._ends(weight), self.loose * self._ends(rest))
        of_ends: FloatArray = (END + SPLIT * self.splits) * fewest
        return of_ends

    def _ends(self, weight: FloatArray) -> FloatArray:
        """Square of all steps of the weights along runs, and from each run's last row back to its first, by sum.

        All of a run is off alike by where its running sum starts, which a weight that grows along it counts at both.
        """
        along = np.pad(weight, ((0, 0), (0, 1)))[:, self.runs]
        cut = np.flatnonzero(self.runs == weight.shape[1])
        back = along[:, cut[1:] - 1] - along[:, cut[:-1] + 1]
        square: FloatArray = (np.diff(along, axis=1) ** 2).sum(axis=1) + (back**2).sum(axis=1)
        return square


def locks_of(
    known: dict[ColumnSet, tuple[TableBuckets, NoiseTree]], with_runs: Collection[ColumnSet] = ()
) -> tuple[Lock, ...]:
    """Chain a table to its narrower ones; the widest comes first."""
    names = sorted(known, key=len, reverse=True)
    place = {name: i for i, name in enumerate(names)}
    return tuple(
        _lock(
            *known[name],
            {place[less]: known[less] for less in combinations(name, len(name) - 1) if less},
            has_runs=name in with_runs,
        )
        for name in names
    )


def _lock(
    table: TableBuckets,
    tree: NoiseTree,
    narrower: dict[int, tuple[TableBuckets, NoiseTree]],
    *,
    has_runs: bool,
) -> Lock:
    """A table with what its rows give to each margin; the narrower tables by their places."""
    n, give = len(table.n), _given_way(table)
    rows = [rows_in(table, less) for less, _ in narrower.values()]
    met = sum(np.count_nonzero(np.bincount(of[of >= 0])) for of in rows) - len(rows) + 1
    return Lock(
        table=table,
        tree=tree,
        give=give,
        to=tuple(
            _margin(place, *narrower[place], of, give)
            for place, of in zip(narrower, rows, strict=True)
        ),
        loose=n / max(n - met, n / 2, 1.0),
        runs=_runs(table) if has_runs else None,
        outermost=outermost(table, OUTERMOST),
        splits=max(min(len(column.values) for column in table.released) - 1, 1).bit_length() - 1,
    )


def _margin(
    place: int, table: TableBuckets, tree: NoiseTree, of_row: Int64Array, give: FloatArray
) -> Margin:
    """A narrower table as a margin of wider rows, each of which belongs to one of its rows, or to none (-1)."""
    bucket = tree.row_bucket
    is_filled = (bucket >= 0) & ~table.measured[bucket]
    alone = np.arange(len(bucket)) + len(table.size)
    _, part = np.unique(np.where(is_filled, bucket, alone), return_inverse=True)
    at = np.where(of_row >= 0, part[of_row] + 1, 0)
    n_parts = int(part.max(initial=-1)) + 1
    room = np.maximum(np.bincount(at, give, n_parts + 1), 1e-12)
    return Margin(place=place, at=at, part=part, room=room)


def _runs(table: TableBuckets) -> Int64Array:
    """Rows of a table of two columns as `Lock.runs`."""
    sizes = [len(column.values) for column in table.released]
    short = shorter(sizes)
    of, along = table.rows[:, short], table.rows[:, 1 - short]
    order = np.lexsort((along, of))
    begin = np.flatnonzero(np.diff(of[order]) != 0) + 1
    return np.insert(order, [0, *begin, len(order)], len(order))


def _given_way(table: TableBuckets) -> FloatArray:
    """How much each row gives way where it is brought to a margin: `Lock.give`."""
    own = table.own_variance[-1]
    return np.where(table.row_measured, np.minimum(table.n, own), table.n).astype(np.float64)


def locked_variance(locks: Sequence[Lock], weight: FloatArray) -> FloatArray:
    """Variance of weighted sums of rows that were brought to all narrower tables at once.

    Raking by variance leaves of each row's own error what no margin tells: a sum is off by its own rows weighted with
    what is left of the weights after the nearest sum of margins is taken off, and by these margins' own errors, with
    the weights that were taken off; of these the same is true.
    """
    weights = [weight, *(np.zeros((len(weight), len(lock.table.n))) for lock in locks[1:])]
    variance = np.zeros(len(weight))
    for lock, given in zip(locks, weights, strict=True):
        rest = _left_by_margins(lock, given, weights)
        most = np.abs(rest).max(axis=1, keepdims=True, initial=0.0)
        of_sum, row = np.nonzero(np.abs(rest) > 1e-6 * most)
        left = rest[of_sum, row]
        variance += sd_of_sums(lock.table, lock.tree, len(rest), of_sum, row, left) ** 2
        variance += lock.rounding(given, rest) + lock.uneven(rest)
    return variance


def _left_by_margins(lock: Lock, weight: FloatArray, weights: Sequence[FloatArray]) -> FloatArray:
    """Take the nearest sum of margins off weights, and add what was taken to the weights of these.

    Nearest by variance: what gives way most counts most.
    """
    rest, n_sums = weight.copy(), len(weight)
    for _ in range(SWEEPS):
        for margin in lock.to:
            n_parts = len(margin.room)
            flat = margin.at + n_parts * np.arange(n_sums)[:, None]
            together = np.bincount(flat.ravel(), (rest * lock.give).ravel(), n_sums * n_parts)
            mean = together.reshape(n_sums, n_parts) / margin.room
            mean[:, 0] = 0.0  # rows that the margin does not have
            weights[margin.place][:] += mean[:, 1 + margin.part]
            rest -= mean[:, margin.at]
    return rest


def raked_variance(
    table: TableBuckets, n_sums: int, of_sum: Int64Array, row: Int64Array, weight: FloatArray
) -> FloatArray:
    """Variance of sums by what locking moved: a value's rows give way by their variance, whichever sum they are in.

    What a value is off by is the same tree's for all of a range and cancels, as far as every value's rows are in the
    sum with the same share; what they differ in share does not. Parameters as in `sums_of`.
    """
    out = np.zeros(n_sums)
    if len(table.columns) == 1:
        return out
    give = _given_way(table)
    for j, column in enumerate(table.released):
        n_codes = len(column.values)
        of_code = sum_by(table.rows[:, j], give, n_codes)
        (sums, code), inverse = distinct_cells((of_sum, table.rows[row, j]), (n_sums, n_codes))
        most = np.zeros(len(sums))
        np.maximum.at(most, inverse, np.abs(weight))
        moved = sum_by(inverse, give[row] * weight, len(sums))
        room = of_code[code]
        share = np.divide(moved, room * most, out=np.zeros(len(sums)), where=room * most > 0)
        size = room * most**2
        mean = sum_by(sums, size * share, n_sums) / np.maximum(sum_by(sums, size, n_sums), 1e-300)
        out += sum_by(sums, size * (share - mean[sums]) ** 2, n_sums)
    return RAKED * out


def noisier_variance(
    table: TableBuckets, n_sums: int, of_sum: Int64Array, row: Int64Array, weight: FloatArray
) -> FloatArray:
    """Variance of sums by a narrower table of more noise that the rows were brought to; parameters as in `sums_of`.

    A bound for the rows of one entity in single values of a column makes tables with that column less noisy than those
    without it. How noisy a column is by itself stands with its table; of one that is not released the card says how
    noisy it is at most.
    """
    out = np.zeros(n_sums)
    own = float(table.own_variance[-1]) if len(table.own_variance) else 0.0
    if len(table.columns) == 1 or int(table.card.get("scale", 1)) == 1:
        return out
    give = np.where(table.row_measured, np.minimum(table.n, own), table.n).astype(np.float64)
    most = float(table.card["noise_sd"]) ** 2
    for j, column in enumerate(table.released):
        more = min(float(table.of_columns[j]), most) - own
        if more <= 0:
            continue
        n_codes = len(column.values)
        of_code = np.maximum(sum_by(table.rows[:, j], give, n_codes), 1e-300)
        (sums, code), inverse = distinct_cells((of_sum, table.rows[row, j]), (n_sums, n_codes))
        share = sum_by(inverse, give[row] * weight, len(sums)) / of_code[code]
        out = np.maximum(out, more * sum_by(sums, share**2, n_sums))
    return out


def sparse_variance(
    table: TableBuckets, n_sums: int, of_sum: Int64Array, row: Int64Array, weight: FloatArray
) -> FloatArray:
    """Variance that small cells of a wider table add to sums in which rows weigh by values; parameters as above."""
    if len(table.columns) == 1:
        return np.zeros(n_sums)
    n = table.n[row].astype(np.float64)
    rows = np.maximum(sum_by(of_sum, n, n_sums), 1.0)
    mean = sum_by(of_sum, n * weight, n_sums) / rows
    off = np.where(n <= FEW, weight - mean[of_sum], 0.0)
    return SPARSE * float(table.own_variance[-1]) * sum_by(of_sum, off**2, n_sums)


def covered_variance(
    table: TableBuckets,
    of_margins: FloatArray,
    n_sums: int,
    of_sum: Int64Array,
    row: Int64Array,
    weight: FloatArray,
) -> FloatArray:
    """Variance of sums over a table in mode dp that a measured margin covers; parameters as in `sums_of`.

    The fit brings the rows of each value of a column to that value's own count, all of them in proportion: a row that
    is most of a value has the error of the value, and small ones hardly any. So a sum is off by the noise of each row
    less its part of what the value's rows are off together, plus that part of the value's own error. Of several
    columns the one counts that says most.

    of_margins: Variance of the count of a value of each column; of a table of one column that of the number
        of all rows.
    """
    own = float(table.card["noise_sd"]) ** 2
    most = own * sum_by(of_sum, weight**2, n_sums)
    n = table.n.astype(np.float64)
    for j, of_value in enumerate(of_margins):
        code = table.rows[:, j] if len(table.columns) > 1 else np.zeros(len(n), dtype=np.int64)
        n_codes = int(code.max(initial=0)) + 1
        held, cells = sum_by(code, n, n_codes), np.bincount(code, minlength=n_codes)
        (sums, value), inverse = distinct_cells((of_sum, code[row]), (n_sums, n_codes))
        part = sum_by(inverse, n[row] * weight, len(sums)) / np.maximum(held[value], 1.0)
        first = sum_by(inverse, weight, len(sums))
        square = sum_by(inverse, weight**2, len(sums))
        off = own * (square - 2 * part * first + cells[value] * part**2) + of_value * part**2
        most = np.maximum(most, sum_by(sums, off, n_sums))
    return most


def sd_of_sums(
    table: TableBuckets,
    tree: NoiseTree,
    n_sums: int,
    of_sum: Int64Array,
    row: Int64Array,
    weight: FloatArray,
) -> FloatArray:
    """Return the standard deviation of the error of each sum, from a table's own tree; parameters as in `sums_of`."""
    moved: FloatArray | float = 0.0
    if (outside := tree.outside()) is not None:
        of_sum, row, weight, moved = _in_step(outside, n_sums, of_sum, row, weight)
    sums, bucket, mean, blind = sums_of(table, tree, n_sums, of_sum, row, weight)
    variance = variance_of_sums(tree, n_sums, sums, bucket, mean)
    count = np.bincount(sums, minlength=n_sums)
    square = sum_by(sums, mean**2, n_sums)
    rounded = ROUNDING * np.divide(square, count, out=np.zeros(n_sums), where=count > 0)
    alike = ALIKE[len(table.columns) > 1]
    return np.sqrt(variance * np.where(count > 1, alike, 1.0) + blind + rounded + moved)


def _in_step(
    outside: Outside, n_sums: int, of_sum: Int64Array, row: Int64Array, weight: FloatArray
) -> tuple[Int64Array, Int64Array, FloatArray, FloatArray]:
    """Sums over a column whose rows outside its universe are as many as another column says.

    Its own number of these tells nothing any more: all others share what it was off, so it counts as they do on
    average; and the sum is off by the error of that other column's number, as far as they count otherwise.

    Returns: `of_sum`, `row` and `weight` anew, and the variance of the other column's number by sum.
    """
    is_out = row == outside.row
    own = sum_by(of_sum[is_out], weight[is_out], n_sums)
    others = sum_by(of_sum, weight * outside.share[row], n_sums)
    return (
        np.concatenate([of_sum[~is_out], np.arange(n_sums)]),
        np.concatenate([row[~is_out], np.full(n_sums, outside.row)]),
        np.concatenate([weight[~is_out], others]),
        outside.variance * (own - others) ** 2,
    )
