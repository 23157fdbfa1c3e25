"""The nouns of a tabulation: counts (or sums, means, shares ...) of groups, each with a noise interval and a status.

Shared by SQL answers, the server, the page and packs, so that the same question gets the same figure, the same interval
and the same words everywhere. All are frozen; arrays inside are never written to after construction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from engine.schema import ColumnSet, FloatArray

Status = Literal["reliable", "low", "unreliable", "not released", "structural zero"]
"""reliable: the noise is small against the figure. low: released, and rounds to nothing or next to it. unreliable: the
noise is a large share of the figure. not released: suppressed, or empty: nobody can tell which. structural zero:
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
