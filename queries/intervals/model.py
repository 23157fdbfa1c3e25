"""Which noise a released table carries: the tree of a sticky release, the stated sd of a covered dp table, or unknown.

Takes a release and a column set; gives what the error of any sum of its rows is reckoned with, and says it in words.
What a sum has in common with a narrower table is locked to it: the noise is that table's, counted once.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, combinations

import numpy as np

from engine.cell_keys import has_runs
from engine.errors import DamagedRelease
from engine.schema import BoolArray, ColumnSet, FloatArray, Int64Array
from queries.intervals.buckets import TableBuckets, read_buckets, sum_by, unreleased
from queries.intervals.filling import (
    LEANS,
    MOST_PAIRS,
    bound_with_rows,
    lean_of_rows,
    may_lean,
    suppression_bound,
)
from queries.intervals.regions import Region, every_group, region_within
from queries.intervals.sums import (
    MOST,
    MOST_ROWS,
    Lock,
    covered_variance,
    locked_variance,
    locks_of,
    noisier_variance,
    raked_variance,
    sd_of_sums,
)
from queries.intervals.tree import ROUNDING, NoiseTree, Outside, noise_tree
from queries.intervals.universes import StatedUniverse, ruled_out, stated_universes
from queries.sql import Session

MOST_KEPT = 192
"""Tables, columns and what is known of their noise that a release keeps for the next question; the oldest go first."""

MUCH_FILLED = 0.1
"""Share of filled rows from which a table of several columns says that its ranges may be off towards no association (of
two columns `queries.intervals.filling` tells most of it, of three nothing does); of one column, that its digits are not
known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NoiseModel:
    """A table with what is known of its noise."""

    table: TableBuckets
    tree: NoiseTree | None  # Mode sticky
    words: str
    # A combination of more rows is hidden in fewer than 1 of 20 releases; 0 in mode dp.
    suppressed: int = 0
    # Rows that 95 of 100 combinations which were not released hold at most; 0 in mode dp.
    suppression_bound: int = 0
    # The same of those that rows were filled into; not less, 0 in mode dp.
    bound_with_rows: int = 0
    # Rows that may lie beyond the outermost released value of a column; 0 in mode dp.
    beyond: int = 0
    # shape (n_rows,): Rows by which filling makes each count too high, as far as the release tells.
    lean: FloatArray = field(default_factory=lambda: np.zeros(0))
    # Mode dp: variance of the counts that the rows were brought to, as in `covered_variance`.
    of_margins: FloatArray = field(default_factory=lambda: np.zeros(0))
    # Gives the table and all narrower ones, in mode sticky; they are read when they are first asked for.
    locks: Callable[[], tuple[Lock, ...]] = tuple

    def sd(
        self, n_sums: int, of_sum: Int64Array, row: Int64Array, weight: FloatArray
    ) -> FloatArray:
        """Standard deviation of the error of weighted sums of rows, NaN: not known; parameters as in `sums_of`."""
        if self.tree is not None:
            leans = sum_by(of_sum, weight * self.lean[row], n_sums)
            return np.sqrt(self._of_noise(n_sums, of_sum, row, weight) + LEANS * leans**2)
        if not self.table.card.get("dp", {}).get("covered"):
            return np.full(n_sums, np.nan)
        # What a row inside a group of values adds is known only where all of them count alike.
        blind = ~self.table.row_measured[row] & (weight != 0) & (weight != 1)
        is_unknown = sum_by(of_sum, blind.astype(np.float64), n_sums) > 0
        variance = covered_variance(self.table, self.of_margins, n_sums, of_sum, row, weight)
        sd = np.sqrt(variance + ROUNDING * sum_by(of_sum, weight**2, n_sums))
        return np.where(is_unknown, np.nan, sd)

    def locked(self, n_sums: int, of_sum: Int64Array) -> BoolArray:
        """Which sums are reckoned with all margins at once: those of several rows, unless they are too many."""
        wanted = np.bincount(of_sum, minlength=n_sums) > 1
        n_wanted, n_rows = np.count_nonzero(wanted), len(self.table.n)
        can_be = n_rows <= MOST_ROWS and 0 < n_wanted * n_rows <= MOST
        return wanted & (can_be and len(self.locks()) > 1)

    def _of_noise(
        self, n_sums: int, of_sum: Int64Array, row: Int64Array, weight: FloatArray
    ) -> FloatArray:
        """Variance by the tree, and by those of narrower tables."""
        variance, is_locked = np.zeros(n_sums), self.locked(n_sums, of_sum)
        if self.tree is not None and not is_locked.all():
            here = ~is_locked[of_sum]
            given = n_sums, of_sum[here], row[here], weight[here]
            moved = raked_variance(self.table, *given) + noisier_variance(self.table, *given)
            variance = sd_of_sums(self.table, self.tree, *given) ** 2 + moved
        if is_locked.any():
            here, place = is_locked[of_sum], np.cumsum(is_locked) - 1
            dense = np.zeros((int(is_locked.sum()), len(self.table.n)))
            dense[place[of_sum[here]], row[here]] = weight[here]
            variance[is_locked] = locked_variance(self.locks(), dense)
        return variance


@dataclass(frozen=True, kw_only=True, slots=True)
class Groups:
    """Groups of a released table's rows, with what is known of its noise."""

    release: Session
    model: NoiseModel
    region: Region

    @property
    def row(self) -> Int64Array:
        """The rows inside."""
        return np.flatnonzero(self.region.group >= 0)

    def sd(self, row: Int64Array, weight: FloatArray) -> FloatArray:
        """Standard deviation of the error of each group's figure."""
        return self.model.sd(self.region.n_groups, self.region.group[row], row, weight)

    def sds(self, row: Int64Array, weights: FloatArray) -> FloatArray:
        """`sd` of several figures of each group, which take hardly longer together than one."""
        n_figures, n = len(weights), self.region.n_groups
        if n_figures * n * len(self.model.table.n) > MOST:  # they would be reckoned otherwise
            return np.stack([self.sd(row, weight) for weight in weights])
        of_sum = self.region.group[row] + n * np.arange(n_figures)[:, None]
        given = of_sum.ravel(), np.tile(row, n_figures), weights.ravel()
        return self.model.sd(n_figures * n, *given).reshape(n_figures, n)


def noise_model(release: Session, columns: ColumnSet) -> NoiseModel:
    """Read one table with its noise; once as long as the release is open."""
    models = release.models
    key = ("noise", columns)
    if key not in models:
        with _damage_told(release, columns):
            models[key] = _model(release, *_measured(release, columns))
    model: NoiseModel = models[key]
    for oldest in list(models)[:-MOST_KEPT]:
        models.pop(oldest, None)
    return model


@contextlib.contextmanager
def _damage_told(release: Session, columns: ColumnSet) -> Iterator[None]:
    """Say of what does not fit together that the release is damaged."""
    try:
        yield
    except (IndexError, KeyError, OverflowError, RecursionError, ZeroDivisionError):
        named = ", ".join(columns)
        raise DamagedRelease(
            f"{release.path}: what is known of the noise of table {named} contradicts itself"
        ) from None


def _model(release: Session, table: TableBuckets, tree: NoiseTree | None) -> NoiseModel:
    card, unit, entity = table.card, release.unit, release.entity
    named = ", ".join(table.columns)
    if tree is None:
        noise = (
            "MODELLED from locked tables of two and three columns: how far the model is off is not known, so no "
            "interval is"
            if card.get("wide")
            else f"each measured count carries noise of sd {card['noise_sd']:.2f} {unit.many} at most"
            if card["dp"]["covered"]
            else "MODELLED from narrower margins: how far the model is off is not known, so no interval is"
        )
        return NoiseModel(
            table=table,
            tree=None,
            lean=np.zeros(len(table.n)),
            of_margins=_of_margins(release, table),
            words=f"From table {named}; {noise}.",
        )
    scale = int(card.get("scale", 1))
    suppressed = (int(card["threshold_mean"]) + 1) * scale
    filled_in = float(card["suppressed_share"])
    filled = ""
    if len(table.columns) > 1 and filled_in > MUCH_FILLED:
        filled = (
            f" {filled_in:.0%} of the {unit.many} were filled in, which know less of how the columns hang together: "
            "ranges may be off by more than the interval says."
        )
    bound = suppression_bound(table, tree, suppressed, _n_possible(release, table))
    with_rows = max(bound_with_rows(table, tree, suppressed), bound)
    of_these = f", of those with synthetic rows {with_rows}" if with_rows > bound else ""
    heavy = (
        f" Several {unit.many} may be of one {entity.one}: groups with very heavy {entity.many} are off by more "
        "than the interval says."
        if scale > 1
        else ""
    )
    return NoiseModel(
        table=table,
        tree=tree,
        suppressed=suppressed,
        suppression_bound=bound,
        bound_with_rows=with_rows,
        beyond=int(card["threshold_mean"]) * scale,
        locks=functools.cache(partial(_locks, release, table, tree)),
        lean=lean_of_rows(
            table, tree.row_bucket, _possible(release, table) if may_lean(table) else None
        ),
        words=(
            f"From table {named}; the interval holds the figure without noise in 95 of 100 releases. Not released: "
            f"too few {entity.many}, or none: it is not told which (95 of 100 such cells hold at most "
            f"{bound} {unit.many}{of_these})."
            f"{filled}{heavy}"
        ),
    )


def _measured(release: Session, columns: ColumnSet) -> tuple[TableBuckets, NoiseTree | None]:
    """A released table and its tree, None where it is modelled; once as long as the release is open."""
    key = ("table", columns)
    kept: tuple[TableBuckets, NoiseTree | None] | None = release.models.get(key)
    if kept is None:
        table = read_buckets(release, columns)
        is_modelled = table.card.get("dp") or table.card.get("wide")
        tree = None if is_modelled else noise_tree(table)
        if tree is not None and len(columns) == 1:
            tree = replace(tree, outside=functools.cache(partial(_outside, release, table)))
        kept = release.models[key] = table, tree
    return kept


def _outside(release: Session, table: TableBuckets) -> Outside | None:
    """What is known of a column's rows outside its universe, where the numbers show that they were brought in step."""
    universe = next((u for u in stated_universes(release) if (u.column,) == table.columns), None)
    if universe is None or (universe.decided_by,) not in release.tables:
        return None
    with _damage_told(release, table.columns):
        return _as_decided(release, table, universe)


def _as_decided(release: Session, table: TableBuckets, universe: StatedUniverse) -> Outside | None:
    """The same, for a universe whose deciding column has a table."""
    decider = (universe.decided_by,)
    other, tree = _measured(release, decider)
    inside = other.released[0].within(universe.low, universe.high, universe.listed)
    rows = np.flatnonzero(~inside[other.rows[:, 0]])
    says = np.array([value == universe.outside for value in table.released[0].values], dtype=bool)
    at = np.flatnonzero(says[table.rows[:, 0]])
    give = np.where(says[table.rows[:, 0]], 0.0, np.minimum(table.n, table.own_variance[-1]))
    if tree is None or len(at) != 1 or not give.any() or other.n[rows].sum() != table.n[at[0]]:
        return None
    sd = sd_of_sums(other, tree, 1, np.zeros(len(rows), dtype=np.int64), rows, np.ones(len(rows)))
    return Outside(
        row=int(at[0]),
        share=give / give.sum(),
        decider=decider,
        rows=rows,
        variance=float(sd[0]) ** 2,
    )


def _locks(release: Session, table: TableBuckets, own: NoiseTree) -> tuple[Lock, ...]:
    """The table and all narrower ones: as released, or as the table tells of them."""
    known = {table.columns: (table, own)}
    sizes = range(1, len(table.columns))
    with _damage_told(release, table.columns):
        for columns in chain.from_iterable(combinations(table.columns, size) for size in sizes):
            if columns not in release.tables:
                less = unreleased(table, columns)
                known[columns] = less, noise_tree(less)
                continue
            less, tree = _measured(release, columns)
            if tree is None:
                return ()
            known[columns] = less, tree
        return locks_of(known, [name for name, of in known.items() if _has_runs(release, of[0])])


def _has_runs(release: Session, table: TableBuckets) -> bool:
    """Whether a table was rounded by running sums along two columns."""
    if len(table.columns) != 2:
        return False
    sizes = [len(column.values) for column in table.released]
    return has_runs(max(sizes), min(sizes), _n_possible(release, table))


def _possible(release: Session, table: TableBuckets) -> BoolArray:
    """Which combinations of released values may hold rows, those of the last column fastest."""
    anything = tuple(np.ones(len(column.values), dtype=bool) for column in table.released)
    by = tuple(range(len(anything)))
    groups = every_group(by, anything)
    return ~ruled_out(release, table, region_within(table, by, anything, (), groups))


def _n_possible(release: Session, table: TableBuckets) -> int:
    """How many combinations of released values may hold rows; 0 for one column, and for too many to list."""
    n = math.prod(len(column.values) for column in table.released)
    if len(table.columns) == 1 or n > MOST_PAIRS:
        return 0
    decided = {(universe.column, universe.decided_by) for universe in stated_universes(release)}
    if not any(set(pair) <= set(table.columns) for pair in decided):
        return n
    return int(_possible(release, table).sum())


def _of_margins(release: Session, table: TableBuckets) -> FloatArray:
    """Variance of the counts of single values in mode dp; of a column without a table that of its combinations."""
    card = table.card
    if card.get("wide") or not card["dp"]["covered"]:
        return np.zeros(0)
    if len(table.columns) == 1:
        return np.array([float(card["noise_sd_total"]) ** 2])
    stated = [
        float(noise_model(release, (name,)).table.card["noise_sd"])
        if (name,) in release.tables
        else float(card["noise_sd"]) * np.sqrt(len(table.n) / len(table.released[j].values))
        for j, name in enumerate(table.columns)
    ]
    return np.array(stated) ** 2
