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
from typing import Any

import numpy as np

from engine.errors import NotAnswerable, QueryRefused
from engine.schema import BoolArray, ColumnSet
from queries.estimates import Measure, Tabulation
from queries.figures import Figures, figures_of, statuses
from queries.noise_model import NoiseModel, noise_model
from queries.refusals import near_names
from queries.regions import Region, region_of
from queries.session import Release
from queries.sql_aggregates import annotated
from queries.universes import ruled_out

__all__ = ["annotated", "tabulate"]
_OF_COLUMN = ("sum", "mean", "median", "quantile")
_MEASURES = ("count", "sum", "mean", "share", "median", "quantile", "ratio")


def tabulate(
    release: Release,
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
    release : Release
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
    where = dict(where or {})
    _checked(release, columns, where, measure, of, over, quantile)
    table = release.route({*columns, *where, *([of] if of else [])})
    model = noise_model(release, table)
    region = region_of(model.table, columns, where)
    found = figures_of(
        release,
        model,
        region,
        measure=measure,
        of=of,
        over=tuple(columns.index(name) for name in over),
        quantile=0.5 if measure == "median" else quantile,
    )
    ruled = ruled_out(release, model.table, region)
    return _tabulation(columns, measure, of, table, model, region, found, ruled)


def _checked(
    release: Release,
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


def _tabulation(
    columns: Sequence[str],
    measure: Measure,
    of: str | None,
    table: ColumnSet,
    model: NoiseModel,
    region: Region,
    found: Figures,
    ruled: BoolArray,
) -> Tabulation:
    """Put figures, statuses and words together."""
    places = region.places()
    spelled = [
        [model.table.letters[j].values[i] for i in places[:, at].tolist()]
        for at, j in enumerate(region.by)
    ]
    keys = tuple(zip(*spelled, strict=True)) if spelled else ((),)
    status = statuses(found, ruled)
    is_zero = ruled & (measure in ("count", "share", "sum", "ratio"))
    known = np.array([s not in ("not released", "structural zero") for s in status], dtype=bool)
    return Tabulation(
        columns=tuple(columns),
        keys=keys,
        measure=measure,
        of=of,
        value=np.where(is_zero, 0.0, np.where(known, found.value, np.nan)),
        low=np.where(ruled, np.where(is_zero, 0.0, np.nan), found.low),
        high=np.where(ruled, np.where(is_zero, 0.0, np.nan), found.high),
        status=status,
        table=table,
        words=model.words,
    )
