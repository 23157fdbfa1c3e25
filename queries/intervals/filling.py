"""What a release says of rows that were filled in: how many there are, and how far ranges lean by them.

The bound for combinations that were not released is one for all of a table: 95 of 100 of them hold no more, as far as
the density of the boxes tells that they lie in, and the threshold that they did not pass. A bound for each cell by
itself would hand out a guess of which cells are empty; one for all keeps to what fine-grained columns are like (an
income in single units: hardly ever two people) and tells nothing of any one cell. Cells that the fill has rows in have
one of their own, for all of them: it puts rows where values are heaped (incomes of 50,000), and so do people.

Ranges lean because the fit starts from counts that are right for whole ranges, with filled rows spread inside their
boxes as if columns were independent there, and then brings all rows of each value to that value's own count: where one
group is many and another few, both give way in proportion, so that the many lose and the few gain. It is the same in
every release, and far beyond the noise where most is filled. That step can be done again: the counts before it are
those that it turns into the released ones, found by correcting a guess a few times. More would follow the rounding.
Sees released numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from engine.cell_keys import distinct_cells
from engine.schema import BoolArray, FloatArray, Int64Array
from queries.intervals.buckets import TableBuckets, sum_by
from queries.intervals.sums import BLIND
from queries.intervals.tree import NoiseTree, deepest_buckets

LEANS = 0.1
"""Variance of a sum over the square of what its rows lean by, beside what is added on that side in full. Under 4 keys
ranges of NIST's incomes by eight columns were off by .1 (type of housing) to .9 times the guess, which is 2 to 7 rows
(rms); all errors together were 3 to 7."""
STEPS, SWEEPS = 4, 4
"""Corrections of the guess, and times that it is brought to the counts of both columns."""
LEAST_FILLED = 0.01
"""Share of filled rows up to which nothing leans."""
SURE = 0.95
"""Share of combinations that were not released which hold no more rows than the bound: the interval starts at 0."""
DISPERSED = 1.5
"""Variance over mean of the rows of combinations in one box: they are not all alike."""
AS_GOOD, MOSTLY = 100.0, 0.5
"""Rows that the spread of all values in a box counts as, next to that of rows which were filled in there; share of a
group's rows that were filled in, above which it counts at all. Of seven ages, drawn by lot, some lie close together
and tell of no spread."""
_MOST_MEAN = 800.0
"""Beyond it the chance of no row is no number any more; no threshold is as high."""
LEAST_OPEN = 0.05
"""Part of a box that is taken to be open at least, where rows are filled into it."""
MATCHED = 6
"""Times that what cells hold before some are released is brought nearer to what they hold after that."""
MOST_PAIRS = 400_000
"""Combinations of values that the fit lists (engine/DESIGN.md, "Fit", fine columns): of more nothing is raked."""


def lean_of_rows(
    table: TableBuckets, row_bucket: Int64Array, possible: BoolArray | None
) -> FloatArray:
    """Rows by which the count of each distinct row is too high; 0 where nothing is known of it.

    possible: Which combinations of the codes of both columns, the last one fastest, no universe rules out.
    """
    sizes = [len(column.values) for column in table.released]
    if possible is None:
        return np.zeros(len(table.n))
    pairs = np.indices(sizes).reshape(2, -1).T[possible]
    bucket = deepest_buckets(table, pairs)
    pairs, bucket = pairs[bucket >= 0], bucket[bucket >= 0]
    n = table.n.astype(np.float64)
    margins = [sum_by(table.rows[:, j], n, size) for j, size in enumerate(sizes)]
    share = margins[0][pairs[:, 0]] * margins[1][pairs[:, 1]]
    share /= np.maximum(sum_by(bucket, share, len(table.size)), 1e-300)[bucket]
    own = np.where(table.measured[bucket], float(table.own_variance[-1]), np.inf)
    size = table.size.astype(np.float64)
    before = size
    for _ in range(STEPS):
        after = _raked(before[bucket] * share, pairs, margins, own)
        before = np.maximum(before + size - sum_by(bucket, after, len(size)), before / 4)
    off = (size - before) / np.maximum(size, 1.0)
    lean: FloatArray = np.where(row_bucket >= 0, off[row_bucket] * n, 0.0)
    j = int(np.argmin(sizes))  # values with most rows, which together have the value's own count
    code = table.rows[:, j]
    lean -= n * (sum_by(code, lean, sizes[j]) / np.maximum(margins[j], 1.0))[code]
    return lean


def may_lean(table: TableBuckets) -> bool:
    """Whether a table was filled and raked so that it can lean, and is small enough to tell."""
    n_pairs = np.prod([len(column.values) for column in table.released])
    is_filled = float(table.card["suppressed_share"]) > LEAST_FILLED
    return len(table.columns) == 2 and is_filled and bool(n_pairs <= MOST_PAIRS)


def _raked(
    x: FloatArray, pairs: Int64Array, margins: Sequence[FloatArray], own: FloatArray
) -> FloatArray:
    """Counts brought to those of both columns, each giving way by its variance, as in the fit."""
    for _ in range(SWEEPS):
        for j, margin in enumerate(margins):
            code, gives = pairs[:, j], np.minimum(x, own)
            off = margin - sum_by(code, x, len(margin))
            rate = off / np.maximum(sum_by(code, gives, len(margin)), 1e-12)
            x = np.maximum(x + gives * rate[code], x / 4)
    return x


def untold_spread(
    table: TableBuckets,
    tree: NoiseTree,
    n_groups: int,
    group: Int64Array,
    row: Int64Array,
    numbers: FloatArray,
) -> FloatArray:
    """Variance of sums of numbers by what few filled rows do not tell of their own spread.

    Rows were filled in by lot; where nearly all of a group were, and these are few, the next lot may be more spread.
    All rows of the table with values as in the same range say how much.

    numbers: Of all rows of the table; NaN where there is none, or rows are none that the groups could have.
    """
    n = table.n[row].astype(np.float64)
    bucket = tree.row_bucket[row]
    is_filled = (bucket >= 0) & ~table.measured[bucket]
    filled = sum_by(group[is_filled], n[is_filled], n_groups)
    is_mostly = filled > MOSTLY * sum_by(group, n, n_groups)
    is_filled &= is_mostly[group]
    if not is_filled.any():
        return np.zeros(n_groups)
    group, row, n = group[is_filled], row[is_filled], n[is_filled]
    numbers = numbers - numbers[row[0]]  # squares of large ones are too coarse
    (of, box), inverse = distinct_cells((group, tree.row_bucket[row]), (n_groups, len(table.size)))
    size, first, second = (
        sum_by(inverse, n * numbers[row] ** power, len(of)) for power in range(3)
    )
    own = np.maximum(second - first**2 / size, 0.0)
    likely = size * _spread_in(table, box, numbers)
    missing = np.maximum(sum_by(of, likely - own, n_groups), 0.0)
    more: FloatArray = BLIND[len(table.columns) > 2] * missing * AS_GOOD / (filled + AS_GOOD)
    return more


def _spread_in(table: TableBuckets, box: Int64Array, numbers: FloatArray) -> FloatArray:
    """Variance of the numbers of all rows with values as in each box; of several columns the one that leaves least."""
    least = np.full(len(box), np.inf)
    is_known = np.isfinite(numbers)
    n = table.n[is_known].astype(np.float64)
    for j, column in enumerate(table.released):
        code, n_codes = table.rows[is_known, j], len(column.values)
        rows, first, second = (
            np.append(0.0, np.cumsum(sum_by(code, n * numbers[is_known] ** power, n_codes)))
            for power in range(3)
        )
        begin, end = table.first[box, j], table.last[box, j] + 1
        inside = np.maximum(rows[end] - rows[begin], 1.0)
        mean = (first[end] - first[begin]) / inside
        spread = (second[end] - second[begin]) / inside - mean**2
        is_range = end - begin > 1  # one value has no spread but that of the other columns
        least = np.where(is_range, np.minimum(least, np.maximum(spread, 0.0)), least)
    return np.where(np.isfinite(least), least, 0.0)


def suppression_bound(table: TableBuckets, tree: NoiseTree, most: int, n_possible: int) -> int:
    """Rows that 95 of 100 combinations which were not released hold at most.

    most: What suppression hides at most.
    n_possible: Combinations of released values that may hold rows; those that are not released and lie in no
        box with rows hold none, as far as is known.
    """
    box = np.flatnonzero(~table.measured & (table.size > 0))
    if not len(box):
        return most
    codes = np.maximum(table.last[box] - table.first[box] + 1, 1)
    combinations = places = codes.prod(axis=1, dtype=np.float64) * tree.is_open[box]
    column = table.released[0]
    if len(table.columns) == 1 and column.is_number:  # of all values that keep to its grid
        step = max(int(np.gcd.reduce(column.grid)), 1)
        places = np.maximum((table.span[box, 0] + 1) // step, 1) * tree.is_open[box]
    density = table.size[box] / np.maximum(places, table.size[box] / most)
    scale = int(table.card.get("scale", 1))
    n_empty = max(n_possible - np.count_nonzero(table.row_measured) - combinations.sum(), 0.0)
    share = combinations @ _at_most(density / scale, most // scale) + n_empty
    return min(max(int(np.searchsorted(share, share[-1] * SURE)) * scale, 1), most)


def bound_with_rows(table: TableBuckets, tree: NoiseTree, most: int) -> int:
    """Rows that 95 of 100 combinations which were not released hold at most, of those that rows were filled into.

    Each is expected to have the share of its box that its values have of all filled rows in the box's ranges.

    most: What suppression hides at most.

    Returns: 0 in a table of one column, whose own filled rows are all that is known of its values, or where
    none was filled.
    """
    row = np.flatnonzero(~table.row_measured & (tree.row_bucket >= 0))
    row = row[~table.measured[tree.row_bucket[row]]]
    if len(table.columns) == 1 or not len(row):
        return 0
    box, n = tree.row_bucket[row], table.n[row].astype(np.float64)
    expected = table.size[box] / np.maximum(tree.is_open[box], LEAST_OPEN)
    for j, column in enumerate(table.released):
        code = table.rows[row, j]
        of_value = sum_by(code, n, len(column.values))
        upto = np.concatenate([[0.0], np.cumsum(of_value)])
        inside = upto[table.last[box, j] + 1] - upto[table.first[box, j]]
        expected *= of_value[code] / np.maximum(inside, of_value[code])
    rounded = np.round(np.clip(expected, 0.01, most), 2)  # few are to be reckoned
    density, times = np.unique(rounded, return_counts=True)
    scale = int(table.card.get("scale", 1))
    share = times @ _at_most(density / scale, most // scale)
    return min(int(np.searchsorted(share, share[-1] * SURE)) * scale, most)


def _at_most(density: FloatArray, most: int) -> FloatArray:
    """Chance that a combination which was not released holds at most 0, 1, ... entities, by the density of its box.

    Their number is a negative binomial with a variance of `DISPERSED` times the mean. It is not released where it is
    below a threshold, which is normal with a standard deviation of 1 (engine/PRIVACY.md) and has its mean 1 below
    `most`. Of those that are not released the mean is the density, as their rows were all filled in.
    """
    upto, mean = np.zeros((0, 0)), density
    for _ in range(MATCHED):
        shape = np.minimum(mean, _MOST_MEAN) / (DISPERSED - 1)
        chance, hidden = DISPERSED**-shape, []
        for n in range(most + 3):
            hidden.append(chance * math.erfc((n - most + 1) / math.sqrt(2)))
            chance = chance * (n + shape) / (n + 1) * (1 - 1 / DISPERSED)
        upto = np.cumsum(hidden / np.sum(hidden, axis=0), axis=0)
        mean = mean * density / (most + 3 - upto.sum(axis=0))
    share: FloatArray = upto.T
    return share
