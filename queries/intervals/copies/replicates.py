"""Replicates: copies of a released table's counts, each as far from it as the released one may be from the data.

Takes an open release and a column set; gives `N_REPLICATES` vectors of counts of its distinct rows, drawn from what the
release states of its noise and from nothing else. Each copy keeps the locks: its margins are those of the same copy of
every narrower table that is released. So any statement, run on the copies, says how sure its answer is; official
statistics publish replicate weights of public-use files for the same purpose. README.md above has the model.
Invariant: the draws are fixed by the content hash of the release and the table, so an answer is the same every time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import NormalDist
from typing import Any

import numpy as np

from engine.schema import ColumnSet, FloatArray, Int64Array
from queries.intervals.buckets import TableBuckets, places_in, rows_in, unreleased
from queries.intervals.copies.tails import Tails, tails
from queries.intervals.model import NoiseModel, noise_model
from queries.intervals.sums import ALIKE, placed_blindly
from queries.intervals.tree import NoiseTree, Outside, noise_tree
from queries.sql import Session

N_REPLICATES = 48
"""Copies. The standard deviation of a figure over them is right to 10 % (1 / sqrt(2 x 48))."""
ROUNDS = 6
"""Times that rows are looked for which can change a value; most are found in the first."""
MOST_BYTES = 200 * 2**20
"""What all copies of a release may take; the oldest go first."""
SWEEPS = 4
"""Times that a copy is brought to the margins of each narrower one, in turn."""
WIDEST_UNRELEASED = 2
"""Most columns of a narrower table that is not released and drawn from the wider one. Of wider ones a row is often the
only one of its cell in several of them, which are drawn apart and would contradict each other."""
BY_ORDER = 3
"""Rounds in which values with rows too many and too few are paired in order; then by lot, as pairs may have no row."""
Totals = tuple[Int64Array, FloatArray]
"""What a table's copies are brought to: the part that each row belongs to (-1: none), and the parts' counts by copy."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Replicates:
    """Copies of one table's counts."""

    # shape (n_rows, N_REPLICATES): Of the distinct rows in the order of `TableBuckets.rows`.
    counts: Int64Array
    # Share of the table that lies outside the margins it is locked to, mean over the copies and worst
    # margin: 0 where every lock is kept.
    astray: float
    tails: Tails  # What may lie beyond the last released values, by itself


def replicates(
    release: Session, columns: ColumnSet, check_cancelled: Callable[[], None] | None = None
) -> Replicates | None:
    """Draw the copies of one table; once as long as the release is open, and `MOST_BYTES` hold them.

    check_cancelled: Called before each step; raises where drawing should end. None: `release.check_cancelled`.

    Returns: None where a table is modelled, or in mode dp: how far a model is off is not stated.
    """
    key = ("replicates", columns)
    copies: Replicates | None
    try:
        copies = release.models[key]
    except KeyError:  # or another thread has just let the oldest go
        model = noise_model(release, columns)
        check_cancelled = check_cancelled or release.check_cancelled
        copies = None if model.tree is None else _drawn(release, model, model.tree, check_cancelled)
        release.models[key] = copies
        _let_go(release.models, key)
    return copies


def _let_go(models: dict[Any, Any], last: Any) -> None:
    """Forget the oldest copies until the others take `MOST_BYTES` at most; the last stay."""
    kept = [(key, one) for key, one in list(models.items()) if isinstance(one, Replicates)]
    bytes_taken = sum(one.counts.nbytes + one.tails.counts.nbytes for _, one in kept)
    for key, one in kept:
        if bytes_taken > MOST_BYTES and key != last:
            bytes_taken -= one.counts.nbytes + one.tails.counts.nbytes
            models.pop(key, None)


def _drawn(
    release: Session, model: NoiseModel, tree: NoiseTree, check_cancelled: Callable[[], None]
) -> Replicates:
    table = model.table
    all_rows = np.sqrt(tree.total_variance) * _scores(_generator(release.content_hash))
    drawing = _Drawing(
        release=release, all_rows=all_rows, check_cancelled=check_cancelled, source=table.columns
    )
    released = drawing.released(table)
    whole = drawing.whole(table, tree, released)
    kept = [drawing.total(table), *drawing.outside(table, tree), *released]
    check_cancelled()
    return Replicates(
        counts=whole,
        astray=max(_astray(whole, *totals) for totals in kept),
        tails=tails(release, model, _generator(f"{release.content_hash} tails {table.columns!r}")),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Drawing:
    """The copies of one table, and of narrower ones that are not released: as it tells of them, each drawn once."""

    release: Session
    # shape (1, N_REPLICATES): Error of the number of all rows: the same for every table of a release.
    all_rows: FloatArray
    check_cancelled: Callable[
        [], None
    ]  # Called before each step; raises where the drawing should end
    source: ColumnSet  # The table
    # Narrower ones that were drawn, with their counts.
    unreleased: dict[ColumnSet, tuple[TableBuckets, Int64Array]] = field(default_factory=dict)

    def total(self, table: TableBuckets) -> Totals:
        """The number of all rows."""
        everything = np.zeros(len(table.rows), dtype=np.int64)
        return everything, np.maximum(np.rint(table.total + self.all_rows), 0.0)

    def released(self, table: TableBuckets) -> list[Totals]:
        """The same copy of each narrower table that is released; of those within each other, of the widest."""
        return [
            _locked_to(self.release, table, narrow, self.check_cancelled)
            for narrow in _widest_within(self.release.tables, table.columns)
        ]

    def outside(self, table: TableBuckets, tree: NoiseTree) -> list[Totals]:
        """Rows in and outside a column's universe, where the deciding column says how many they are."""
        outside = tree.outside()
        if outside is None:
            return []
        return _locked_outside(
            self.release, table, outside, self.total(table)[1], self.check_cancelled
        )

    def whole(self, table: TableBuckets, tree: NoiseTree, released: Sequence[Totals]) -> Int64Array:
        """Draw whole counts of a table, brought to narrower ones: last to those that are released."""
        self.check_cancelled()
        rng = _generator(f"{self.release.content_hash} {table.columns!r} {self.source!r}")
        totals = [self.total(table), *(self._told(table, less) for less in self._unreleased(table))]
        totals += self.outside(table, tree)
        counts = _counts(table, tree, self.all_rows, rng)
        raked = _raked(table, counts, [*totals, *released], self.check_cancelled)
        return _settled(table, _rounded(table, raked, rng), raked, rng, self.check_cancelled)

    def _unreleased(self, table: TableBuckets) -> list[ColumnSet]:
        """Narrower tables that are not released, nor told by one that is."""
        size = min(len(table.columns) - 1, WIDEST_UNRELEASED)
        known = _widest_within(self.release.tables, table.columns)
        return [
            less
            for less in combinations(table.columns, size)
            if less and not any(set(less) <= set(released) for released in known)
        ]

    def _told(self, table: TableBuckets, columns: ColumnSet) -> Totals:
        """A narrower table as a wider one tells of it."""
        if columns not in self.unreleased:
            less = unreleased(table, columns)
            counts = self.whole(less, noise_tree(less), self.released(less))
            self.unreleased[columns] = less, counts
        less, counts = self.unreleased[columns]
        return rows_in(table, less), counts.astype(np.float64)


def _astray(whole: Int64Array, row: Int64Array, margin: FloatArray) -> float:
    """Share of rows beyond the margin that they are locked to, mean over copies."""
    inside = np.flatnonzero(row >= 0)
    off = sum_rows(row[inside], whole[inside].astype(np.float64), len(margin)) - margin
    return float(np.mean(np.abs(off).sum(axis=0) / np.maximum(whole.sum(axis=0), 1))) / 2


def _generator(text: str) -> np.random.Generator:
    """Draws that hang on a text alone."""
    return np.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest(), "big"))


def _scores(rng: np.random.Generator) -> FloatArray:
    """Normal scores of variance 1 in random order, shape (1, n_copies): the one error that all figures share."""
    normal = NormalDist()
    scores = [normal.inv_cdf((i + 0.5) / N_REPLICATES) for i in range(N_REPLICATES)]
    return rng.permutation(np.array(scores) / np.std(scores))[None]


def errors_of_buckets(
    tree: NoiseTree,
    n_buckets: int,
    of_total: FloatArray,
    rng: np.random.Generator,
    *,
    alike: float = 1.0,
) -> FloatArray:
    """Draw the error of every bucket as `variance_of_sums` reckons it: own noise less its share, plus the parent's.

    of_total: Error of the number of all rows: the same for every table of a release.
    """
    n_copies = of_total.shape[1]
    out, of_node = np.zeros((n_buckets, n_copies)), of_total
    for level in tree.levels:
        own_child, own_rest = (
            np.sqrt(alike * own)[:, None] * rng.standard_normal((len(own), n_copies))
            for own in (level.own_child, level.own_rest)
        )
        off = of_node - sum_rows(level.child_parent, own_child, level.n_nodes)
        off -= sum_rows(level.rest_node, own_rest, level.n_nodes)
        out[level.rest_bucket] = own_rest + level.part_rest[:, None] * off[level.rest_node]
        if level is tree.levels[-1]:
            out[tree.leaf_bucket] = off[tree.leaf_node]
        of_node = own_child + level.part_child[:, None] * off[level.child_parent]
    return out


def sum_rows(at: Int64Array, rows: FloatArray, n: int) -> FloatArray:
    """Sum of rows of a matrix at each of n places; shape (n, n_copies)."""
    out = np.zeros((n, rows.shape[1]))
    if len(at):
        order = np.argsort(at, kind="stable")
        first = np.flatnonzero(np.diff(at[order], prepend=-1))
        out[at[order][first]] = np.add.reduceat(rows[order], first, axis=0)
    return out


def _counts(
    table: TableBuckets, tree: NoiseTree, of_total: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Counts of rows before any lock: measured ones with their noise, filled ones placed anew inside their boxes."""
    # As in closed forms for sums of several buckets, which any number is where another column says how many rows are
    # outside. Of others single values are asked for, too, and copies of one column are as spread as over 20 keys each
    # of NIST, SD2011 and the census without.
    is_several = len(table.columns) > 1 or tree.outside() is not None
    alike = ALIKE[len(table.columns) > 1] if is_several else 1.0
    errors = errors_of_buckets(tree, len(table.size), of_total, rng, alike=alike)
    bucket, n = tree.row_bucket, table.n.astype(np.float64)[:, None]
    known = bucket >= 0
    of_row = errors[np.maximum(bucket, 0)]
    size = table.size[np.maximum(bucket, 0)].astype(np.float64)[:, None]
    share = np.where(size > 0, n / np.maximum(size, 1.0), 0.0)
    counts = n + np.where(known[:, None], share * of_row, 0.0)
    filled = np.flatnonzero(known & ~table.measured[np.maximum(bucket, 0)])
    spread = placed_blindly(size, len(table.columns))
    if len(filled):
        counts[filled] = np.maximum(size + of_row, 0.0)[filled] * _placed(
            bucket[filled], share[filled], size[filled] / spread[filled], len(table.size), rng
        )
    return np.maximum(counts, 0.0)


def _placed(
    bucket: Int64Array,
    share: FloatArray,
    size: FloatArray,
    n_buckets: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Shares of boxes that their filled rows have where nobody looked: Dirichlet, as of `size` rows drawn at random."""
    alpha = np.maximum(size - 1.0, 0.1) * share
    drawn = rng.standard_gamma(np.broadcast_to(alpha, (len(share), N_REPLICATES)))
    drawn += 1e-12 * share  # where all of a box are next to nothing
    return drawn / np.maximum(sum_rows(bucket, drawn, n_buckets)[bucket], 1e-300)


def _widest_within(tables: Sequence[ColumnSet], columns: ColumnSet) -> list[ColumnSet]:
    """Released tables of some of the columns, without those that a wider one of these holds."""
    within = [t for t in tables if set(t) < set(columns)]
    return [t for t in within if not any(set(t) < set(other) for other in within)]


def _locked_to(
    release: Session, table: TableBuckets, narrow: ColumnSet, check_cancelled: Callable[[], None]
) -> Totals:
    """The row of a narrower table that each row lies in (-1: none), and its counts in the copies."""
    copies = replicates(release, narrow, check_cancelled)
    if copies is None:
        return np.full(len(table.rows), -1, dtype=np.int64), np.zeros((0, N_REPLICATES))
    found = rows_in(table, noise_model(release, narrow).table)
    return found, copies.counts.astype(np.float64)


def _locked_outside(
    release: Session,
    table: TableBuckets,
    outside: Outside,
    total: FloatArray,
    check_cancelled: Callable[[], None],
) -> list[Totals]:
    """Rows outside a column's universe and all others, and how many they are in the deciding column's copies."""
    copies = replicates(release, outside.decider, check_cancelled)
    if copies is None:
        return []
    number = copies.counts[outside.rows].sum(axis=0)[None].astype(np.float64)
    is_inside = np.arange(len(table.rows)) != outside.row
    return [(is_inside.astype(np.int64), np.concatenate([number, total - number]))]


def _raked(
    table: TableBuckets,
    counts: FloatArray,
    locks: Sequence[Totals],
    check_cancelled: Callable[[], None],
) -> FloatArray:
    """Counts brought to the margins of narrower copies: each row gives way by its variance, as in the fit."""
    own = np.where(table.row_measured, float(table.own_variance[-1]), np.inf)[:, None]
    for _ in range(SWEEPS):
        for row, margin in locks:
            check_cancelled()
            inside = np.flatnonzero(row >= 0)
            at, mine = row[inside], counts[inside]
            gives = np.minimum(mine, own[inside])
            off = margin - sum_rows(at, mine, len(margin))
            loose = np.maximum(sum_rows(at, gives, len(margin)), 1e-9)
            counts[inside] = np.maximum(mine + gives * (off / loose)[at], 0.0)
    return counts


def _rounded(table: TableBuckets, counts: FloatArray, rng: np.random.Generator) -> Int64Array:
    """Whole counts by rounding running sums from a random start: each is right on average, and so is their total.

    They run along the column of most values: of each combination of the others, a range of it is off by less than one
    row.
    """
    by_size = np.argsort([len(column.values) for column in table.released], kind="stable")
    order = np.lexsort(table.rows[:, by_size[::-1]].T)
    upto = np.cumsum(counts[order], axis=0) + rng.random(counts.shape[1])
    whole = np.empty(counts.shape, dtype=np.int64)
    whole[order] = np.diff(np.floor(upto), axis=0, prepend=0.0)
    return whole


def _settled(
    table: TableBuckets,
    whole: Int64Array,
    raked: FloatArray,
    rng: np.random.Generator,
    check_cancelled: Callable[[], None],
) -> Int64Array:
    """Whole counts of which each value of a column has as many as before rounding: rows change their value of it.

    A row that changes keeps its values of all other columns, so that what was settled for these stays.
    """
    if len(table.columns) == 1:
        return whole
    sizes = [len(column.values) for column in table.released]
    for number in range(ROUNDS):
        # Of two columns a row changes for a value near its own where it can, so that ranges stay right. In wider tables
        # the release moves rows anywhere, too.
        by_lot = rng if len(sizes) > 2 or number >= BY_ORDER else None
        for j, size in enumerate(sizes):
            check_cancelled()
            code = table.rows[:, j]
            off = np.rint(sum_rows(code, whole - raked, size)).astype(np.int64)
            copy, given, taken = _pairs(off, by_lot)
            by_code = np.argsort(code, kind="stable")
            first = np.searchsorted(code[by_code], np.arange(size + 1))
            room = (first[1:] - first[:-1])[given]
            row = by_code[first[given] + (rng.random(len(given)) * room).astype(np.int64)]
            wanted = table.rows[row].copy()
            wanted[:, j] = taken
            at = places_in(table.rows, wanted, sizes)
            fits = (at >= 0) & (whole[row, copy] > 0)
            _, once = np.unique(row * whole.shape[1] + copy, return_index=True)
            fits &= np.isin(np.arange(len(row)), once)
            np.add.at(whole, (row[fits], copy[fits]), -1)
            np.add.at(whole, (at[fits], copy[fits]), 1)
    return whole


def _pairs(
    off: Int64Array, rng: np.random.Generator | None
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Copy, value that gives and value that takes, where one has a row too many and the other one too few.

    `off` says how many each has too many, by value and copy. The first gives to the first, or, where there is an `rng`,
    any to any.
    """
    sides = []
    for side in (off, -off):
        copy, value = np.nonzero(np.maximum(side, 0).T)
        times = side[value, copy]
        copy, value = np.repeat(copy, times), np.repeat(value, times)
        if rng is not None:
            order = np.lexsort((rng.random(len(copy)), copy))
            copy, value = copy[order], value[order]
        place = np.arange(len(copy)) - np.searchsorted(copy, copy)
        sides.append((copy * (np.abs(off).sum() + 1) + place, copy, value))
    _, one, other = np.intersect1d(sides[0][0], sides[1][0], return_indices=True)
    return sides[0][1][one], sides[0][2][one], sides[1][2][other]
