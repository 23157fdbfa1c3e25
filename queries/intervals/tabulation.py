"""How sure a figure of a release is: counts, sums, means, shares, quantiles, ratios with a noise interval and status.

Takes an open release and a question about groups; gives a `Tabulation` from the one table that the router picks.
The interval covers what the data would say without noise and suppression in 95 of 100 releases under fresh keys; it
is no statement about a wider population, so it is never called a confidence interval.
Statuses: reliable where half the interval is at most a third of the figure (a coefficient of variation of 16.5 %, the
line of several statistical offices); unreliable above; low where the figure is at most twice the noise's standard
deviation; not released where no released bucket says anything of it; structural zero where a declared universe rules
it out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.errors import NotAnswerable, QueryRefused
from engine.schema import BoolArray, ColumnSet, FloatArray
from engine.texts import html_table, text_table
from queries.intervals.estimates import (
    Estimates,
    Measure,
    Status,
    estimates_of,
    holds,
    statuses,
)
from queries.intervals.extrapolation import ends_of
from queries.intervals.model import Groups, noise_model
from queries.intervals.regions import region_of
from queries.intervals.statement.aggregates import annotated
from queries.intervals.universes import ruled_out
from queries.sql import Session, near_names

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["annotated", "tabulate"]
_N_SHOWN = 20
_OF_COLUMN = ("sum", "mean", "median", "quantile")
_MEASURES = ("count", "sum", "mean", "share", "median", "quantile", "ratio")


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
        reckons that of the difference itself, and tells more apart.

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

    def df(self) -> pd.DataFrame:
        """Return a pandas DataFrame: the columns of the groups, then value, low, high, status.

        A column of the groups that is called like one of those four comes first all the same: take it by place.
        """
        import pandas as pd  # slow to load, and most uses of a tabulation never ask for it

        keys = list(zip(*self.keys, strict=True)) if self.columns and self.keys else []
        listed = [list(key) for key in keys] or [[] for _ in self.columns]
        names = [*self.columns, "value", "low", "high", "status"]
        parts = [*listed, self.value, self.low, self.high, list(self.status)]
        frame = pd.concat([pd.Series(part) for part in parts], axis=1)
        frame.columns = pd.Index(names)
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
    columns: Sequence[str],
    *,
    where: Mapping[str, Sequence[Any] | tuple[Any, Any]] | None = None,
    measure: Measure = "count",
    of: str | None = None,
    over: Sequence[str] = (),
    quantile: float = 0.5,
) -> Tabulation:
    """Tabulate one measure over all groups of some columns.

    Parameters
    ----------
    columns : sequence of str
        To group by: all combinations of their released values; none: one group.
    where : mapping of str to list or (low, high), optional
        Limits: a list of released values, or a tuple of the smallest and largest value of a column that has an order
        (None: open at that end).
    measure : str
        "count", "sum", "mean", "share", "median", "quantile"; "ratio": rows of the group over the other rows of its
        total.
    of : str, optional
        The column that is summed, averaged ...
    over : sequence of str
        Columns, among `columns`, within whose values shares and ratios are taken; none: of everything within the
        limits.
    quantile : float
        Which one, from 0 to 1.

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
    where = dict(where or {})
    _checked(release, columns, where, measure, of, over, quantile)
    table = release.route({*columns, *where, *([of] if of else [])})
    model = noise_model(release, table)
    release.check_cancelled()
    far = {(end.column, end.sign > 0): end.far for end in ends_of(release, model)}
    region = region_of(model.table, columns, where, far)
    estimates = estimates_of(
        Groups(release=release, model=model, region=region),
        measure=measure,
        of=of,
        over=tuple(columns.index(name) for name in over),
        quantile=0.5 if measure == "median" else quantile,
    )
    ruled = ruled_out(release, model.table, region)
    status = statuses(estimates, ruled)
    value, low, high = _shown_ends(estimates, ruled, status, measure)
    return Tabulation(
        columns=tuple(columns),
        keys=region.keys(model.table),
        measure=measure,
        of=of,
        value=value,
        low=low,
        high=high,
        status=status,
        table=table,
        words=model.words,
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
        if name not in release.columns:
            near = ", ".join(near_names(name, tuple(release.columns))) or "none"
            raise NotAnswerable(
                f"The release has no column {name!r}. Near: {near}.", missing=(name,)
            )
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


def _shown_ends(
    estimates: Estimates, ruled: BoolArray, status: Sequence[Status], measure: Measure
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Figures and both ends as they are shown: nothing where nothing is known, and no interval beside its figure."""
    of_ruled = 0.0 if measure in ("count", "share", "sum", "ratio") else np.nan
    hidden = np.array([s in ("not released", "structural zero") for s in status], dtype=bool)
    value, low, high = (
        np.where(ruled, of_ruled, figures)
        for figures in (np.where(hidden, np.nan, estimates.value), estimates.low, estimates.high)
    )
    held = holds(value, low, high)
    return value, np.where(held, low, np.nan), np.where(held, high, np.nan)
