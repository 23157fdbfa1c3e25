"""Tabulations: counts, sums, means, shares, quantiles, ratios of groups, each with a noise interval and status.

Takes an open release and a question about groups; gives a `Tabulation` from the one table that the router picks. Every
figure is computed on the released rows and on all variants of them (`queries.intervals.replays`), which tell how far it
may be off (`queries.intervals.spread`). The interval covers what the data would say without noise and suppression in
95 of 100 releases under fresh keys; it is no statement about a wider population, so it is never called a confidence
interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from engine.errors import QueryRefused
from engine.schema import BoolArray, ColumnSet, FloatArray, Int64Array, column_set
from engine.store import clipped_words
from engine.texts import html_table, text_table
from queries.intervals.buckets import Stack, TableBuckets
from queries.intervals.regions import Region, region_of, ruled_out
from queries.intervals.replays import Replays, damage_told, replays, table_of
from queries.intervals.spread import Status, ends_of_counts, ends_of_figures, most_hidden, statuses
from queries.sql import Session, to_measure

if TYPE_CHECKING:
    import pandas as pd

Measure = Literal["count", "weighted_count", "sum", "mean", "share", "median", "quantile", "ratio"]
_N_SHOWN = 20
_OF_COLUMN = ("sum", "mean", "median", "quantile")
_MEASURES: tuple[str, ...] = get_args(Measure)
MUCH_IMPUTED = 0.1
"""Share of imputed rows from which a table says that they know less of how its columns are associated."""
_AT_ONCE = 20_000
"""Groups of which the figures on all variants are held in memory at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tabulation:
    """One measure over all groups of some columns.

    Attributes
    ----------
    columns : tuple of str
        Columns that the groups are made of, in the order asked for; empty: one group of everything.
    keys : tuple of tuple
        Value of each column, per group; None is a blank of the source.
    of : str or None
        The column that is summed, averaged ...; None for counts and shares.
    value, low, high : ndarray of float64, shape (n_groups,)
        NaN where nothing is released, and the 95 % noise interval, both ends included; never called a confidence
        interval.
    table : ColumnSet
        The released table that answered: the same for every measure of the same columns.
    words : str
        How sure all this is, and from which table, in one or two sentences.
    """

    columns: tuple[str, ...]
    keys: tuple[tuple[Any, ...], ...]
    measure: Measure
    of: str | None
    value: FloatArray
    low: FloatArray
    high: FloatArray
    status: tuple[Status, ...]
    table: ColumnSet
    words: str

    def __len__(self) -> int:
        return len(self.keys)

    def differs(self, a: Any, b: Any) -> bool | None:
        """Return whether the figures of two groups differ by more than their noise can explain.

        Their intervals do not meet. So it is at most 5 in 100 times that two equal figures are said to differ, whatever
        noise they share: half widths add up to at least the half width of the difference. `differs(a, b)` in SQL
        computes that of the difference itself, and finds more differences.

        Parameters
        ----------
        a, b : tuple, or a single value
            Keys of groups, as in `keys`.

        Returns
        -------
        bool or None
            None where one of both is not released, ruled out, or has no interval.

        Raises
        ------
        QueryRefused
            There is no such group.
        """
        i, j = (self._place(key) for key in (a, b))
        ends = np.array([self.low[i], self.high[i], self.low[j], self.high[j]])
        hidden = {"not released", "structural zero"} & {self.status[i], self.status[j]}
        if hidden or not np.isfinite(ends).all():
            return None
        return bool(self.low[i] > self.high[j] or self.low[j] > self.high[i])

    def _place(self, key: Any) -> int:
        """Where a group stands."""
        wanted = key if isinstance(key, tuple) else (key,)
        if wanted not in self.keys:
            raise QueryRefused(
                f"there is no group {wanted!r} of {', '.join(self.columns) or 'all'}"
            )
        return self.keys.index(wanted)

    def df(self, across: str | Sequence[str] = ()) -> pd.DataFrame:
        """Return a pandas DataFrame: the columns of the groups, then value, low, high, status.

        A column of the groups that is called like one of those four comes first all the same: take it by place.

        Parameters
        ----------
        across : str or sequence of str
            Columns whose values are columns of the frame; it then holds the figures alone, missing where not released.
        """
        import pandas as pd  # slow to load, and most uses of a tabulation never ask for it

        keys = list(zip(*self.keys, strict=True)) if self.columns and self.keys else []
        listed = [list(key) for key in keys] or [[] for _ in self.columns]
        names = [*self.columns, "value", "low", "high", "status"]
        parts = [*listed, self.value, self.low, self.high, list(self.status)]
        frame = pd.concat([pd.Series(part) for part in parts], axis=1)
        frame.columns = pd.Index(names)
        if across:
            wide = [across] if isinstance(across, str) else list(across)
            down = [name for name in self.columns if name not in wide]
            if not down or not {*wide} <= {*self.columns}:
                raise QueryRefused(
                    f"across: some of the columns {', '.join(self.columns)}, and not all"
                )
            frame = frame.pivot(index=down, columns=wide, values="value")
        return frame

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of groups and columns, as of `df()`."""
        return len(self), len(self.columns) + 4

    def __repr__(self) -> str:
        return text_table(*self._first())

    def _repr_html_(self) -> str:
        columns, rows, below = self._first()
        return html_table(columns, rows, below=below)

    def _first(self) -> tuple[tuple[str, ...], list[tuple[Any, ...]], list[str]]:
        """The heads, the first groups as people see them, and what is said below."""
        whole = self.measure == "count"
        rows = [
            (*key, *(_shown(x, whole=whole) for x in figures), status)
            for *figures, key, status in zip(
                self.value[:_N_SHOWN], self.low[:_N_SHOWN], self.high[:_N_SHOWN],
                self.keys[:_N_SHOWN], self.status[:_N_SHOWN], strict=True,
            )
        ]  # fmt: skip
        more = [f"... and {len(self) - _N_SHOWN:,} more groups"] if len(self) > _N_SHOWN else []
        columns = (*self.columns, self.measure, "low", "high", "status")
        return columns, rows, [*more, self.words]


def _shown(number: float, *, whole: bool) -> str:
    """A figure for people: nothing where there is none."""
    if not np.isfinite(number):
        return ""
    return f"{number:,.0f}" if whole else f"{number:,.6g}"


def tabulate(
    release: Session,
    columns: Sequence[str] = (),
    *,
    rows: Sequence[str] = (),
    where: Mapping[str, Sequence[Any] | tuple[Any, Any]] | None = None,
    measure: Measure = "count",
    of: str | None = None,
    over: Sequence[str] = (),
    quantile: float = 0.5,
    beside: Sequence[str] = (),
) -> Tabulation:
    """Tabulate one measure over all groups of some columns.

    Parameters
    ----------
    columns : sequence of str
        To group by: all combinations of their released values; none: one group.
    rows : sequence of str
        More columns to group by, before those; `.df(across=columns)` then has them as rows.
    where : mapping of str to list or (low, high), optional
        Limits: a list of released values, or a tuple of the smallest and largest value of a column that has an order
        (None: open at that end).
    measure : str
        "count", "sum", "mean", "share", "median", "quantile"; "ratio": rows of the group over the other rows of its
        total; "weighted_count": the sum of the survey weights that the spec names.
    of : str, optional
        The column that is summed, averaged ...
    over : sequence of str
        Columns, among `columns`, within whose values shares and ratios are taken; none: of everything within the
        limits.
    quantile : float
        Which one, from 0 to 1.
    beside : sequence of str
        Columns that the released table which answers has, too: then these figures are totals of a table by them.

    Returns
    -------
    Tabulation
        `.df()` gives a pandas DataFrame: the columns, value, low, high, status.

    Raises
    ------
    NotAnswerable
        An unknown column, or no released table covers the columns.
    QueryRefused
        A measure that does not exist or does not suit the column, wrong limits, or too many groups.
    """
    release.check_cancelled()
    columns, where = (*rows, *columns), dict(where or {})
    if measure == "weighted_count":
        if of is not None:
            raise QueryRefused("measure 'weighted_count' takes no column")
        summed = tabulate(
            release, columns, where=where, measure="sum", of=weight_of(release), beside=beside
        )
        return replace(summed, measure=measure)
    _checked(release, columns, where, measure, of, over, quantile)
    read = {*columns, *where, *beside, *([of] if of else [])}
    answering = release.route(read)
    asked = _Asked(
        measure=measure,
        of=of,
        over=tuple(columns.index(name) for name in over),
        quantile=0.5 if measure == "median" else quantile,
    )
    table = table_of(release, answering)
    if table.card.get("wide"):
        table = table_of(release, column_set([*read] or answering[:1]))
    region = region_of(table, columns, where)
    found = replace(_tabulated(release, table, region, asked, columns), table=answering)
    if table.card.get("wide") and (more := to_measure(read)):
        found = replace(found, words=f"{found.words} {more}.")
    return found


def weight_of(release: Session) -> str:
    """The column of weights of a release."""
    if release.weight not in release.columns:
        raise QueryRefused(
            "The release has no weights. Its spec can name a column of them: weight, in [release]."
        )
    return str(release.weight)


def measured_counts(release: Session, columns: ColumnSet) -> tuple[Tabulation, Int64Array]:
    """Return the counts of the measured combinations of a released table, and the places of their released values."""
    table = table_of(release, columns)
    codes = table.rows[table.row_measured]
    everything = tuple(np.ones(len(column.values), dtype=bool) for column in table.released)
    region = Region(by=tuple(range(len(columns))), allowed=everything, codes=codes, where={})
    asked = _Asked(measure="count", of=None, over=(), quantile=0.5)
    return _tabulated(release, table, region, asked, columns), codes


@dataclass(frozen=True, kw_only=True, slots=True)
class _Asked:
    """What is asked of every group; `over`: places among the columns to group by."""

    measure: Measure
    of: str | None
    over: tuple[int, ...]
    quantile: float


def _tabulated(
    release: Session, table: TableBuckets, region: Region, asked: _Asked, columns: Sequence[str]
) -> Tabulation:
    """The figures of all groups of a region."""
    place = None if asked.of is None else table.columns.index(asked.of)
    if place is not None and not table.released[place].is_number:
        raise QueryRefused(
            f"{asked.measure} of {asked.of}: it holds {table.released[place].sql_type}, and only numbers can be "
            "added up"
        )
    drawn = replays(release, table.columns)
    release.check_cancelled()
    with damage_told(release, table.columns):
        group = region.groups(table, drawn.stack, drawn.values)
        of_variant = drawn.stack.variant == 0
        measured = np.zeros(region.n_groups, dtype=bool)
        measured[group[of_variant & drawn.stack.measured & (group >= 0)]] = True
        ruled = ruled_out(release, table, region, measured)
        blocks = [
            _figures(drawn, region, asked, group, slice(begin, begin + _AT_ONCE))
            for begin in range(0, max(region.n_groups, 1), _AT_ONCE)
        ]
    value, low, high, known, far = (np.concatenate(part) for part in zip(*blocks, strict=True))
    if not table.n_depths:  # mode dp, and modelled tables: nothing is suppressed
        known = np.isfinite(value)
    is_amount = asked.measure in ("count", "sum", "share", "ratio")
    if asked.measure == "count":
        low, high = ends_of_counts(value, low, high, known, most_hidden(table))
    elif asked.of is None:
        low = np.maximum(low, 0.0)
        high = np.minimum(high, 1.0) if asked.measure == "share" else high
        total = _totals(drawn.stack, region, asked, group)[0, _total_of(region, asked)]
        most = np.minimum(most_hidden(table) / total, 1.0)
        with np.errstate(divide="ignore"):
            most = most / (1 - most) if asked.measure == "ratio" else most
        is_hidden = ~known & ~np.isnan(total)
        low, high = np.where(is_hidden, 0.0, low), np.where(is_hidden, np.fmax(most, value), high)
    status = statuses(value, low, high, known, ruled, far=far, is_amount=is_amount)
    of_ruled = 0.0 if is_amount else np.nan
    low, high = (np.where(ruled, of_ruled, end) for end in (low, high))
    if asked.of is not None:
        low, high = (np.where(known | ruled, end, np.nan) for end in (low, high))
    return Tabulation(
        columns=tuple(columns),
        keys=region.keys(table),
        measure=asked.measure,
        of=asked.of,
        value=np.where(ruled, of_ruled, np.where(known, value, np.nan)),
        low=low,
        high=high,
        status=status,
        table=table.columns,
        words=" ".join(
            [
                _words(release, table, drawn),
                *(
                    clipped(table.card, [asked.of])
                    if asked.of and asked.measure in ("sum", "mean")
                    else ()
                ),
            ]
        ),
    )


def _figures(
    drawn: Replays, region: Region, asked: _Asked, group: Int64Array, block: slice
) -> tuple[FloatArray, FloatArray, FloatArray, BoolArray, BoolArray]:
    """Values, low and high ends of some groups, whether they are released, and whether they may be far off."""
    stack, first = drawn.stack, block.start
    n_groups = min(block.stop, region.n_groups) - first
    rows = np.flatnonzero((group >= first) & (group < block.stop))
    entry = stack.variant[rows] * n_groups + (group[rows] - first)
    n, n_entries = stack.n[rows].astype(np.float64), stack.n_variants * n_groups
    shape = stack.n_variants, n_groups
    counted = np.bincount(entry, n, n_entries)
    if asked.measure == "count":
        figures = counted.reshape(shape)
    elif asked.of is None:
        total = _totals(stack, region, asked, group)[:, _total_of(region, asked)[block]]
        with np.errstate(divide="ignore", invalid="ignore"):
            figures = counted.reshape(shape) / total
            figures = figures / (1 - figures) if asked.measure == "ratio" else figures
    else:
        numbers = np.array([_number(v) for v in drawn.values[asked.of]], dtype=np.float64)
        x = numbers[stack.index[asked.of][rows]]
        is_there = np.isfinite(x)
        entry, n, x = entry[is_there], n[is_there], x[is_there]
        if asked.measure in ("sum", "mean"):
            counted, added = np.bincount(entry, n, n_entries), np.bincount(entry, n * x, n_entries)
            with np.errstate(divide="ignore", invalid="ignore"):
                figures = added / counted if asked.measure == "mean" else added
            figures = figures.reshape(shape)
        else:
            figures = _quantiles(entry, n, x, asked.quantile, n_entries).reshape(shape)
    given = drawn.figures(figures)
    is_count = asked.of is None
    if asked.measure != "count":
        given = replace(given, of_none=np.nan)  # in rows
    low, high = ends_of_figures(given, is_whole=asked.measure == "count", is_count=is_count)
    if not is_count and drawn.least_rows:
        is_first = entry < n_groups
        too_few = np.bincount(entry[is_first], n[is_first], n_groups) < drawn.least_rows
        low, high = (np.where(too_few, np.nan, end) for end in (low, high))
    is_amount = asked.of is None or asked.measure == "sum"
    return given.value, low, high, given.known(is_amount=is_amount), given.may_be_far_off()


def _number(value: Any) -> float:
    """A value as a number; NaN for a blank, and for the placeholder of rare values."""
    return np.nan if value is None or isinstance(value, str) else float(value)


def _quantiles(
    entry: Int64Array, n: FloatArray, x: FloatArray, quantile: float, n_entries: int
) -> FloatArray:
    """A quantile of each entry, between neighbours in proportion, as DuckDB's quantile_cont; NaN of nothing."""
    order = np.lexsort((x, entry))
    entry, n, x = entry[order], n[order], x[order]
    rows = np.bincount(entry, n, n_entries)
    upto, start = np.cumsum(n), np.concatenate([[0.0], np.cumsum(rows)])[:-1]
    place = start + (rows - 1) * quantile
    there = rows > 0
    out = np.full(n_entries, np.nan)
    if there.any():
        below = np.floor(place[there])
        last = len(x) - 1
        left = x[np.minimum(np.searchsorted(upto, below, side="right"), last)]
        right = x[np.minimum(np.searchsorted(upto, np.ceil(place[there]), side="right"), last)]
        out[there] = left + (right - left) * (place[there] - below)
    return out


def _total_of(region: Region, asked: _Asked) -> Int64Array:
    """Number of the total that each group belongs to."""
    if not asked.over:
        return np.zeros(region.n_groups, dtype=np.int64)
    _, total_of = np.unique(region.codes[:, list(asked.over)], axis=0, return_inverse=True)
    return total_of.reshape(-1).astype(np.int64)


def _totals(stack: Stack, region: Region, asked: _Asked, group: Int64Array) -> FloatArray:
    """Rows of each total on every variant, shape (n_variants, n_totals); NaN for none."""
    total_of, rows = _total_of(region, asked), np.flatnonzero(group >= 0)
    n_totals = int(total_of.max(initial=0)) + 1
    entry = stack.variant[rows] * n_totals + total_of[group[rows]]
    totals = np.bincount(entry, stack.n[rows], stack.n_variants * n_totals)
    return np.where(totals > 0, totals, np.nan).reshape(stack.n_variants, n_totals)


def clipped(card: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """What measured sums leave out of values beyond the ends of their group's range: a sentence a column."""
    held = {name: card["sums"][name] for name in names if name in card.get("sums", {})}
    return [clipped_words(name, ends) for name, ends in held.items() if ends["beyond"] > 0]


def _words(release: Session, table: TableBuckets, drawn: Replays) -> str:
    """How sure the figures of a table are, in one or two sentences."""
    card, unit, entity = table.card, release.unit, release.entity
    named = ", ".join(release.route(table.columns) if card.get("wide") else table.columns)
    if drawn.reason:
        noise = "MODELLED" if card.get("wide") or not card["dp"]["covered"] else "of mode dp"
        return f"From table {named}; {noise}: there is no interval, as {drawn.reason}."
    if card.get("wide"):
        return (
            f"From table {named}; MODELLED: the interval is that of a random sample that is as far off as the model "
            f"was in tables of {3 if card['wide']['triples'] else 2} columns before it met them; with more "
            "columns it may be off by more."
        )
    if not table.n_depths:
        return f"From table {named}; the interval holds the figure without noise in 95 of 100 releases."
    imputed = float(card["suppressed_share"])
    much = ""
    if len(table.columns) > 1 and imputed > MUCH_IMPUTED:
        much = f" {imputed:.0%} of the {unit.many} were imputed, which know less of how the columns are associated."
    heavy = (
        f" Several {unit.many} may be of one {entity.one}: groups with very heavy {entity.many} are off by more than "
        "the interval says."
        if int(card.get("scale", 1)) > 1
        else ""
    )
    return (
        f"From table {named}; the interval holds the figure without noise in 95 of 100 releases. Not released: too few "
        f"{entity.many}, or none: we do not say which (95 of 100 such cells hold at most "
        f"{most_hidden(table)} {unit.many}).{much}{heavy}"
    )


def _checked(
    release: Session,
    columns: Sequence[str],
    where: Mapping[str, Any],
    measure: str,
    of: str | None,
    over: Sequence[str],
    quantile: float,
) -> None:
    """Refuse a question that has no answer."""
    for name in (*columns, *where, *([of] if of else []), *over):
        release.check_column(name)
    if len(set(columns)) != len(columns):
        raise QueryRefused(f"columns to group by: {', '.join(columns)} names one twice")
    if measure not in _MEASURES:
        raise QueryRefused(f"measure {measure!r}: allowed is {', '.join(_MEASURES)}")
    if (measure in _OF_COLUMN) != (of is not None):
        raise QueryRefused(
            f"measure {measure!r} "
            + ("needs a column of numbers (`of`)" if of is None else "has no column (`of`)")
        )
    stray = [name for name in over if name not in columns]
    if stray:
        raise QueryRefused(f"over {', '.join(stray)}: totals are taken within columns to group by")
    if not 0 <= quantile <= 1:
        raise QueryRefused(f"quantile {quantile!r}: allowed is 0 to 1")
