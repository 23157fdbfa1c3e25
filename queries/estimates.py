"""The nouns of a tabulation: counts (or sums, means, shares ...) of groups, each with a noise interval and a status.

Shared by SQL answers, the server, the page and packs, so that the same question gets the same figure, the same interval
and the same words everywhere. All are frozen; arrays inside are never written to after construction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from engine.schema import ColumnSet, FloatArray
from queries.shown import html_table

if TYPE_CHECKING:
    import pandas as pd

_N_SHOWN = 20

Status = Literal["reliable", "low", "unreliable", "not released", "structural zero"]
"""reliable: the noise is small against the figure. low: released, and rounds to nothing or next to it. unreliable: the
noise is a large share of the figure. not released: suppressed, or empty: it is not told which. structural zero:
impossible by a declared rule."""
Measure = Literal["count", "sum", "mean", "share", "median", "quantile", "ratio"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Tabulation:
    """One measure over all groups of some columns.

    Attributes
    ----------
    columns : tuple of str
        Columns that the groups are made of, in the order asked for; empty: one group of everything.
    keys : tuple of tuple
        Value of each column, per group; None is a blank of the source.
    measure : str
    of : str or None
        The column that is summed, averaged ...; None for counts and shares.
    value : ndarray of float64, shape (n_groups,)
        NaN where nothing is released.
    low, high : ndarray of float64, shape (n_groups,)
        The 95 % noise interval, both ends included; never called a confidence interval.
    status : tuple of str
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

    def _repr_html_(self) -> str:
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
        return html_table(columns, rows, below=[*more, self.words])


def _shown(number: float, *, whole: bool) -> str:
    """A figure for people: nothing where there is none."""
    if not np.isfinite(number):
        return ""
    return f"{number:,.0f}" if whole else f"{number:,.6g}"
